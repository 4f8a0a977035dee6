"""Recognise servers of other libraries by the names of their classes.

Every module searched for tools pays for this check, so it imports nothing heavy.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator
from contextvars import ContextVar
from types import FunctionType
from typing import Any, Literal

from toolcrib.errors import Finding, SourceError

Library = Literal["mcp", "fastmcp"]
PACKAGES = frozenset({"mcp", "mcp_types", "fastmcp"})
"""The packages of the libraries whose servers are recognised."""
MAX_MOUNTS = 32
"""How deep servers may be mounted in each other."""
started_on: ContextVar[AbstractEventLoop | None] = ContextVar("toolcrib_started_on", default=None)
"""The running event loop that the server to be read was started on, by its own program."""

keeps_lifespan: ContextVar[bool] = ContextVar("toolcrib_keeps_lifespan", default=False)
"""Whether a lifespan that is entered to list the tools goes on until the server is closed. Commands set it,
because they call `end_lifespans` when they are over; in Python code, a thread would be left behind."""

SUPPORTED: dict[Library, tuple[tuple[int, int], int]] = {"mcp": ((1, 6), 2), "fastmcp": ((2, 12), 4)}
"""The oldest version of each library that is served, and the newest major version that is known."""
_DISTRIBUTIONS: dict[Library, tuple[str, ...]] = {"mcp": ("mcp",), "fastmcp": ("fastmcp", "fastmcp-slim")}

_SERVERS: dict[tuple[str, str], Library] = {
    ("mcp", "MCPServer"): "mcp",
    ("mcp", "FastMCP"): "mcp",  # what it was called before 2.0
    ("fastmcp", "FastMCP"): "fastmcp",
}


def library_of(thing: Any) -> Library | None:
    """Return which library a server was written for; None for anything else."""
    for cls in type(thing).__mro__:
        library = _SERVERS.get((package_of(cls), cls.__name__))
        if library is not None:
            return library
    return None


def check_version(library: Library) -> Finding | None:
    """Raise SourceError where the installed version of a library is too old to be served. Return a warning
    where it is newer than the versions that toolcrib knows."""
    version = _version_of(library)
    if version is None:
        return None
    oldest, newest = SUPPORTED[library]
    supported = f"toolcrib serves {library} {oldest[0]}.{oldest[1]} to {newest}.x"
    major, minor = ([int(part) for part in version.split(".")[:2] if part.isdecimal()] + [0, 0])[:2]
    if (major, minor) < oldest:
        hint = f"upgrade it: pip install -U {library}"
        raise SourceError(f"{library} {version} is not supported: {supported}", hint=hint)
    if major > newest:
        words = f"{library} {version} is newer than the versions known here: {supported}"
        return Finding("foreign-version", "warning", words, hint="compare its tools with those listed here")
    return None


def _version_of(library: Library) -> str | None:
    from importlib import metadata  # start-up time: few programs have such a server

    for name in _DISTRIBUTIONS[library]:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def is_low_level(thing: Any) -> bool:
    """Return whether this is a low-level server of the official SDK: request handlers instead of tools."""
    return any(map(_is_low_level_class, type(thing).__mro__))


def is_server(thing: Any) -> bool:
    """Return whether this is a server of another library."""
    return library_of(thing) is not None or is_low_level(thing)


def is_server_class(cls: Any) -> bool:
    """Return whether this is a class of servers, of either library, or a subclass."""
    return isinstance(cls, type) and any(
        (package_of(base), base.__name__) in _SERVERS or _is_low_level_class(base) for base in cls.__mro__
    )


def _is_low_level_class(cls: type) -> bool:
    return cls.__name__ == "Server" and cls.__module__.startswith("mcp.server.lowlevel")


def low_level_of(server: Any) -> Any:
    """Return the low-level server that another one is made of, or the server itself."""
    return getattr(server, "_lowlevel_server", None) or getattr(server, "_mcp_server", server)


def identity_of(server: Any) -> dict[str, Any]:
    """Return what a server tells clients about itself besides its name, as settings of ours."""
    try:
        options = low_level_of(server).create_initialization_options()
    except Exception:  # an override may need more than there is
        return {}
    names = ("title", "instructions", "website_url")
    found: dict[str, Any] = {name: getattr(options, name, None) for name in names}
    icons = getattr(options, "icons", None) or ()
    found["version"] = options.server_version
    found["icons"] = [icon.model_dump(by_alias=True, mode="json", exclude_none=True) for icon in icons]
    return {name: value for name, value in found.items() if value}


def package_of(cls: Any) -> str:
    """Return the package that a class or a function comes from. `__module__` may be any object."""
    module = getattr(cls, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else ""


def has_lifespan(server: Any) -> bool:
    """Return whether somebody gave a server, or one that is mounted in it, a lifespan."""
    return any(True for _ in lifespans_of(server))


def lifespans_of(server: Any) -> Iterator[Any]:
    """Yield the lifespans that somebody gave a server, and those that are mounted in it: functions, or
    objects that hold functions."""
    for each in (server, *mounted_in(server)):
        held = each.settings.lifespan if library_of(each) == "mcp" else getattr(each, "_lifespan", None)
        held = each.lifespan if is_low_level(each) else held
        if getattr(each, "_has_lifespan", False):  # of fastmcp 2.12, whose low-level server wraps it
            yield low_level_of(each).lifespan
        elif held is not None and not _is_default(held):
            yield held


def _is_default(lifespan: Any) -> bool:
    """Return whether a lifespan is a function of the library. Its objects hold functions of somebody."""
    return isinstance(lifespan, FunctionType) and package_of(lifespan) in PACKAGES


def mounted_in(server: Any) -> Iterator[Any]:
    """Yield the servers of fastmcp that are mounted in this one, directly or not."""
    for provider in getattr(server, "providers", ()):
        inner = provider
        for _ in range(MAX_MOUNTS):  # providers wrap each other to rename what is below
            inner = getattr(inner, "_inner", None) or inner
        child = getattr(inner, "server", None)
        if child is not None and child is not server and library_of(child) is not None:
            yield child
            yield from mounted_in(child)
    for mounted in getattr(server, "_mounted_servers", ()):  # of fastmcp before 3
        yield mounted.server
        yield from mounted_in(mounted.server)
