"""A package with a server that its modules share."""

from shop.server import mcp

__all__ = ["mcp"]
