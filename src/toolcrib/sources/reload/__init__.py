"""Hot reload: watch the files behind tools and replace the tools when files change."""

from toolcrib.sources.reload.reloader import Load, Reloader

__all__ = ["Load", "Reloader"]
