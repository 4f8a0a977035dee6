"""Hot reload: watches the files behind tools and exchanges the tools when they change.

`Reloader` is all that others need; `find_places` says which files are behind targets.
"""

from toolcrib.sources.reload.files import find_places
from toolcrib.sources.reload.reloader import Load, Reloader

__all__ = ["Load", "Reloader", "find_places"]
