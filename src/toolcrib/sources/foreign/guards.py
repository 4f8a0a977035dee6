"""Find what stands between the clients of another library's server and its functions.

toolcrib takes plain functions out of a server and runs them itself. Code that the server's author put between
clients and functions (an overridden `call_tool`, middleware, a replaced request handler) would not run then,
and its access control would be lost. Such a server is called through its own handlers instead (`bridge`). A
server that authenticates its callers is refused: its HTTP transport does that, and is not used here.

The rule is an allow-list: every object on the way from a client to a function must be of a class of the
library or a subclass, and each of its methods the library's own, except for those that only register,
describe or start (`_is_harmless_name`).
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from toolcrib.errors import NO_LOCATION, Finding, Location, SourceError
from toolcrib.schema.parameters import locate
from toolcrib.sources.foreign.recognition import PACKAGES, library_of, package_of, started_on
from toolcrib.sources.loading import is_installed

_LIBRARIES = PACKAGES | {"universal_mcp"}
"""The packages whose overrides the adapter knows: universal-mcp's servers subclass those of `mcp`."""
_HELPERS = frozenset({"contextlib", "toolcrib", "typing", "typing_extensions"})
"""Packages whose decorators are on methods of the libraries; the wrapped function is in the closure. Ours are
those of `interception`."""
_WRAPPED = {
    property: "fget",
    classmethod: "__func__",
    staticmethod: "__func__",
    MethodType: "__func__",
    functools.cached_property: "func",
}
"""Kinds of methods that the libraries use, and where each keeps its function. Other kinds are not theirs."""
_OPTIONAL_MIDDLEWARE = ("fastmcp.server.middleware", "fastmcp.contrib")
"""Where fastmcp keeps middleware for authors to choose from; it installs the rest itself."""
_LISTED_MIDDLEWARE = frozenset({"DereferenceRefsMiddleware", "ToolInjectionMiddleware"})
"""Optional middleware whose effect is in the list that toolcrib reads: flat schemas, added tools."""

_LINKS = {
    "mcp": ("_tool_manager", "tool_manager", "_lowlevel_server", "_mcp_server"),
    "fastmcp": ("_tool_manager", "_lowlevel_server", "_mcp_server"),
    None: ("_inner", "server"),  # of providers and mounts; a server may use these names for anything
}
"""Attributes that lead from an object of each library to the next one that its calls pass through."""
_LINK_LISTS = ("providers", "_transforms", "_mounted_servers")
"""Attributes with lists of such objects."""
_HANDLER_KEYS = {
    "tools/list": "tools/list",
    "tools/call": "tools/call",
    "ListToolsRequest": "tools/list",  # SDK 1.x has the types of requests as keys
    "CallToolRequest": "tools/call",
}
"""Keys of request handlers that list and call tools, and the method of the protocol that each stands for."""
_FEATURE_KEYS = {
    "resources/list": "resources/list",
    "resources/templates/list": "resources/templates/list",
    "prompts/list": "prompts/list",
    "ListResourcesRequest": "resources/list",
    "ListResourceTemplatesRequest": "resources/templates/list",
    "ListPromptsRequest": "prompts/list",
}
"""The same for handlers that list resources and prompts."""
_HARMLESS = frozenset(
    {
        *("completion", "custom_route", "description", "disable", "enable", "generate_name", "icons"),
        *("import_server", "instructions", "lifespan", "mount", "name", "settings", "title", "tool"),
        *("version", "website_url"),
    }
)
"""Methods that only register, describe or start something. See `_is_harmless_name` for others."""
MAX_REASONS = 5
"""How many reasons a finding names."""

_USE_AUTH = "run it with its own library, or remove auth= there and set up [auth] of toolcrib"

NOT_OVER_HTTP = "foreign-middleware"
"""The code of the finding about a server that is refused over HTTP."""
_USE_STDIO = (
    "it is not served over HTTP, whose headers its middleware would not get: use stdio or its own library"
)


class _Reason(NamedTuple):
    words: str
    code: Any
    """The class or callable in between, whose place is reported."""
    is_authentication: bool = False
    reads_headers: bool = False
    """Whether it may look at HTTP headers, which it does not get here."""


def find_guards(server: Any) -> Finding | None:
    """Report what stands between clients and functions of a server, or of one mounted in it. None where
    nothing does. Raise SourceError where it authenticates its callers."""
    found = {reason.words: reason for reason in _find_guards(server)}
    refused = [reason for reason in found.values() if reason.is_authentication]
    reasons = list(islice(refused or found.values(), MAX_REASONS))
    if not reasons:
        return None
    words = "; ".join(reason.words for reason in reasons)
    place = _locate(reasons, server)
    if refused:
        raise SourceError(f"Server '{server.name}' is not served: {words}", source=place, hint=_USE_AUTH)
    text = f"The tools of server '{server.name}' are called through its own handlers: {words}"
    if any(reason.reads_headers for reason in found.values()):
        return Finding(NOT_OVER_HTTP, "error", text, None, None, place.file, place.line, _USE_STDIO)
    return Finding("foreign-handlers", "advice", text, file=place.file, line=place.line)


def lists_features_itself(server: Any) -> bool:
    """Return whether code of the author makes the list of resources or prompts of a server, or of one mounted
    in it."""
    for _, part in _walk(server):
        names = (name for name in _library_names(part) if "resource" in name or "prompt" in name)
        if any(reason for name in names for reason in _find_override(part, name)):
            return True
        if any(_find_handlers(part, _FEATURE_KEYS)):
            return True
    return False


def find_override(part: Any) -> str | None:
    """Return which method of an object is not that of its library, or None where all are."""
    if not _is_of_library(part):
        return f"it is a {type(part).__name__}"
    found = (reason.words for name in sorted(_method_names(part)) for reason in _find_override(part, name))
    return next(found, None)


def _find_guards(server: Any) -> Iterator[_Reason]:
    if started_on.get() is not None:
        yield _Reason("its program starts it on an event loop of its own", None)
    for attribute, part in _walk(server):
        if not _is_of_library(part):
            yield _Reason(f"{attribute} is a {type(part).__name__}", type(part))
            continue
        for name in sorted(_method_names(part)):
            yield from _find_override(part, name)
        yield from _find_handlers(part)
        yield from _find_middleware(part)
        yield from _find_filters(part)
        yield from _find_authentication(part)


def _walk(server: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that calls pass through, each with the attribute it was found in: managers, low-level
    servers, providers, transforms, mounted servers."""
    seen: set[int] = set()
    waiting = [("server", server)]
    while waiting:
        attribute, part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        yield attribute, part
        if _is_of_library(part):  # any other object may have anything in these attributes
            waiting += [(name, getattr(part, name, None)) for name in _LINKS[library_of(part)]]
            waiting += [(name, item) for name in _LINK_LISTS for item in getattr(part, name, None) or ()]


def _is_of_library(part: Any) -> bool:
    return any(package_of(kind) in _LIBRARIES for kind in type(part).__mro__)


# --- methods -----------------------------------------------------------------------------------------


def _method_names(part: Any) -> set[str]:
    """Return the names of the library's methods and properties that stand between a client and a function."""
    return {name for name in _library_names(part) if not _is_harmless_name(name, part)} | {"__getattribute__"}


def _library_names(part: Any) -> set[str]:
    """Return the names of all methods and properties that the library has written for an object."""
    return {
        name
        for kind in type(part).__mro__
        if package_of(kind) in _LIBRARIES
        for name, value in vars(kind).items()
        if callable(value) or hasattr(value, "__get__")
    }


def _is_harmless_name(name: str, part: Any) -> bool:
    """Return whether a method only registers, describes or starts something, or is not about tools."""
    if name.startswith(("__", "add_", "from_", "model_", "remove_")) or name in _HARMLESS:
        return True  # pydantic writes the names with model_ into each class
    if "resource" in name or "prompt" in name:
        return True
    return name.startswith("run") and library_of(part) is not None


def _find_override(part: Any, name: str) -> Iterator[_Reason]:
    kind = next((kind for kind in type(part).__mro__ if name in vars(kind)), object)
    if kind is object:
        return
    written = vars(kind)[name]
    held = getattr(part, "__dict__", {}).get(name)
    if package_of(kind) not in _LIBRARIES:
        yield _Reason(f"class {kind.__name__} overrides {name}", kind)
    elif (foreign := _find_foreign(written)) is not None:
        yield _Reason(f"{name} of class {kind.__name__} was replaced", foreign)
    elif held is not None and not isinstance(written, functools.cached_property):
        yield _Reason(f"{name} was replaced on this {type(part).__name__} object", held)


def _find_foreign(thing: Any) -> Any:
    """Return the first callable in a method, or in what it wraps, that is not the library's, or None."""
    kind = type(thing)
    if kind in _WRAPPED:
        return _find_foreign(getattr(thing, _WRAPPED[kind]))
    if kind is functools.partial:
        return _first_foreign((thing.func, *thing.args, *thing.keywords.values()))
    if kind is FunctionType:
        # Not `__module__`, which a decorator copies from the function it wraps.
        package = str(thing.__globals__.get("__name__", "")).partition(".")[0]
        return thing if package not in _LIBRARIES | _HELPERS else _first_foreign(_closure_of(thing))
    if isinstance(thing, type):
        return None if package_of(thing) in _LIBRARIES | {"builtins"} else thing
    is_method = callable(thing) or hasattr(kind, "__get__")
    is_known = kind in (MemberDescriptorType, GetSetDescriptorType) or package_of(kind) in _LIBRARIES
    return thing if is_method and not is_known else None


def _first_foreign(things: Iterable[Any]) -> Any:
    """Return the first callable among some values that is not the library's, or None."""
    called = (item for item in things if callable(item) and not isinstance(item, type | BuiltinFunctionType))
    return next((found for item in called if (found := _find_foreign(item)) is not None), None)


def _closure_of(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not assigned yet


# --- what else stands between ------------------------------------------------------------------------


def _find_handlers(part: Any, keys: Mapping[str, str] = _HANDLER_KEYS) -> Iterator[_Reason]:
    """Yield the request handlers of a low-level server that its library did not install."""
    for table in ("_request_handlers", "request_handlers"):
        for key, entry in (getattr(part, table, None) or {}).items():
            method = keys.get(key if isinstance(key, str) else getattr(key, "__name__", ""))
            foreign = _find_foreign(getattr(entry, "handler", entry)) if method else None
            if foreign is not None:
                yield _Reason(f"the handler of {method} was replaced by {_name_of(foreign)}", foreign)


def _find_middleware(part: Any) -> Iterator[_Reason]:
    items = [item for item in getattr(part, "middleware", None) or () if not _is_default(item)]
    if items:
        own = next((item for item in items if _is_written_here(locate(_code_of(item)))), None)
        words = f"it has middleware ({', '.join(map(_name_of, items))})"
        yield _Reason(words, own, reads_headers=any(map(_may_read_headers, items)))
    extensions = getattr(part, "_extensions", None) or ()
    for item in extensions.values() if isinstance(extensions, dict) else extensions:
        if _find_foreign(getattr(item, "intercept_tool_call", None)) is not None:
            words = f"it has an extension that intercepts calls ({_name_of(item)})"
            yield _Reason(words, item, reads_headers=True)


def _may_read_headers(middleware: Any) -> bool:
    """Return whether middleware authenticates, or runs code that is not of its library."""
    kind = type(middleware)
    if package_of(kind) not in _LIBRARIES or "auth" in kind.__module__:
        return True
    return _first_foreign(getattr(middleware, "__dict__", {}).values()) is not None


def _is_default(middleware: Any) -> bool:
    """Return whether the library installs it by itself, or toolcrib does the same."""
    kind = type(middleware)
    if package_of(kind) not in _LIBRARIES:
        return False
    is_chosen = kind.__module__.startswith(_OPTIONAL_MIDDLEWARE)
    return not is_chosen or any(base.__name__ in _LISTED_MIDDLEWARE for base in kind.__mro__)


def _find_filters(part: Any) -> Iterator[_Reason]:
    """Yield filters of fastmcp 2, which its full list does not apply. Later versions mark the tools."""
    if hasattr(part, "_should_enable_component"):
        for name in ("include_tags", "exclude_tags"):
            if getattr(part, name, None):
                yield _Reason(f"{name} of server '{part.name}' hides tools", None)


def _find_authentication(part: Any) -> Iterator[_Reason]:
    """Yield the authentication of a server over HTTP: `auth` of fastmcp, settings and verifier of the SDK."""
    library = library_of(part)
    if library == "mcp":
        named = [getattr(part, name, None) for name in ("_auth_server_provider", "_token_verifier")]
        held = [*named, getattr(part.settings, "auth", None)]
    else:
        held = [getattr(part, "auth", None)] if library else []
    found = next((item for item in held if item is not None), None)
    if found is not None:
        words = f"toolcrib does not run the authentication of server '{part.name}' ({_name_of(found)})"
        yield _Reason(words, None, is_authentication=True)


# --- where it was written ----------------------------------------------------------------------------


def _locate(reasons: Iterable[_Reason], server: Any) -> Location:
    """Return where the first guard was written, or else the server; never a place in an installed package."""
    places = (locate(_code_of(reason.code)) for reason in reasons)
    return next(filter(_is_written_here, places), None) or locate_server(server)


def _is_written_here(place: Location) -> bool:
    return place.file is not None and not is_installed(place.file)


def locate_server(server: Any) -> Location:
    """Return where a server is assigned to a global name."""
    place = NO_LOCATION
    modules: list[Any] = list(sys.modules.values())
    for module in modules:
        values = dict(vars(module)) if isinstance(module, ModuleType) else {}
        name = next((name for name, value in values.items() if value is server), None)
        file = values.get("__file__")
        if name is None or not isinstance(file, str):
            continue
        line = _find_assignment(file, name)
        if line is not None:
            return Location(file, line)
        place = Location(file)
    return place


def _find_assignment(file: str, name: str) -> int | None:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return node.lineno
    return None


def _code_of(thing: Any) -> Any:
    """Return a function or class itself, and the class of any other object."""
    return thing if isinstance(getattr(thing, "__name__", None), str) else type(thing)


def _name_of(thing: Any) -> str:
    name: str = _code_of(thing).__name__
    return name
