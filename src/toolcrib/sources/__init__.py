"""Where tools come from. `collect` takes anything tools live in and returns a batch.

Knows each kind of source by its module; registers nothing itself.
"""

from toolcrib.sources.base import Batch, collect

__all__ = ["Batch", "collect"]
