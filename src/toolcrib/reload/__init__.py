"""Hot reload: watches the files behind tools and exchanges the tools when they change.

`Reloader` is all that others need; `find_places` says which files are behind targets.
"""

from toolcrib.reload.attempt import Load
from toolcrib.reload.reloader import Reloader
from toolcrib.reload.territory import find_places

__all__ = ["Load", "Reloader", "find_places"]
