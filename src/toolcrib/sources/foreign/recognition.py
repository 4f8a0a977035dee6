"""Recognise servers of other libraries by the names of their classes.

Every module searched for tools pays for this check, so it imports nothing.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from contextvars import ContextVar
from typing import Any, Literal

Library = Literal["mcp", "fastmcp"]
PACKAGES = frozenset({"mcp", "mcp_types", "fastmcp"})
"""The packages whose classes are theirs."""
started_on: ContextVar[AbstractEventLoop | None] = ContextVar("toolcrib_started_on", default=None)
"""The running event loop that the server to be read was started on, by its own program."""

_SERVERS: dict[tuple[str, str], Library] = {
    ("mcp", "MCPServer"): "mcp",
    ("mcp", "FastMCP"): "mcp",  # what it was called before 2.0
    ("fastmcp", "FastMCP"): "fastmcp",
}


def library_of(thing: Any) -> Library | None:
    """Which library a server was written for; None for anything else."""
    for cls in type(thing).__mro__:
        library = _SERVERS.get((package_of(cls), cls.__name__))
        if library is not None:
            return library
    return None


def is_low_level(thing: Any) -> bool:
    """Whether this is the official SDK's server without functions: two handlers, no tools to take."""
    return any(map(_is_low_level_class, type(thing).__mro__))


def is_server_class(cls: Any) -> bool:
    """Whether this is a class of servers, of either library, or a subclass."""
    return isinstance(cls, type) and any(
        (package_of(base), base.__name__) in _SERVERS or _is_low_level_class(base) for base in cls.__mro__
    )


def _is_low_level_class(cls: type) -> bool:
    return cls.__name__ == "Server" and cls.__module__.startswith("mcp.server.lowlevel")


def package_of(cls: type) -> str:
    """The package a class comes from; a class may say anything of itself."""
    module = getattr(cls, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else ""
