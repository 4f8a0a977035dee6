"""Intercept servers of `mcp` and `fastmcp` where their own program starts them, and tools that they refuse.

`install` replaces the methods that run a server, in the classes of the libraries, when they are imported. A
replaced method gives its server to the program that is running (`Host`) and returns when the host lets it.
Where there is no such program, it does what it did before.

The `tool` decorator is replaced, too: if the library refuses a function, `refused_tools` returns the error,
and the other tools of the file are still registered.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Protocol, Self

from toolcrib.errors import Finding, InvalidToolError, SourceError
from toolcrib.schema.parameters import locate
from toolcrib.sources.foreign.recognition import PACKAGES, library_of
from toolcrib.sources.loading import currently_loading

_RUNS = ("run_async", "run_stdio_async", "run_http_async", "run_sse_async", "run_streamable_http_async")
_APPS = ("http_app", "sse_app", "streamable_http_app")
_WEB = frozenset({"fastapi", "starlette"})
_CLASSES = {
    "fastmcp.server.server": "FastMCP",
    "mcp.server.fastmcp.server": "FastMCP",
    "mcp.server.mcpserver.server": "MCPServer",
}
"""The servers of the libraries, by module; the last is what `mcp` calls them since 2.0."""


class Host(Protocol):
    """A program that waits for its server to be served. `applications` are the HTTP applications that its
    servers have made, each with its server."""

    applications: list[tuple[Any, Any]]

    def serve(self, server: Any) -> None:
        """Serve a server that was started outside of an event loop; return when it is to stop."""

    async def serve_here(self, server: Any) -> None:
        """Serve a server that was started on the running event loop; return when it is to stop."""


current: ContextVar[Host | None] = ContextVar("toolcrib_program", default=None)
"""The program that this code belongs to."""
hosts: list[Host] = []
"""The programs that have not started a server yet: threads do not inherit `current`."""


def _find_host() -> Host | None:
    return current.get() or (hosts[-1] if hosts else None)


def _refuse_middleware(host: Host | None, middleware: Sequence[Any] | None) -> None:
    """Raise SourceError if a program runs its server with HTTP middleware of its own."""
    names = _unknown_middleware(middleware or ())
    if host is not None and names:
        raise _refusal(names)


def _refusal(names: Sequence[str]) -> SourceError:
    around = ", ".join(names)
    return SourceError(
        f"The program puts {around} around the HTTP application of its server, which does not run here",
        hint="set up [auth] of toolcrib, and name the server object to serve it without: file.py:server",
    )


def _unknown_middleware(items: Sequence[Any]) -> list[str]:
    """Return the names of middleware that may refuse requests, as an authentication does."""
    classes = [getattr(item, "cls", item) for item in items]
    return [getattr(cls, "__name__", repr(cls)) for cls in classes if not _is_known(cls)]


def _is_known(cls: Any) -> bool:
    """Return whether a class of the libraries or of starlette passes all requests on: it does not
    authenticate, and calls no function of the program (`starlette.middleware.base`)."""
    module = getattr(cls, "__module__", "")
    is_guard = "auth" in module or module.endswith("middleware.base")
    return module.partition(".")[0] in PACKAGES | _WEB and not is_guard


# --- the replaced methods ----------------------------------------------------------------------------


def _blocking(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `server.run()`."""

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        host = _find_host()
        _refuse_middleware(host, kwargs.get("middleware"))
        return original(self, *args, **kwargs) if host is None else host.serve(self)

    return run


def _awaited(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `await server.run_async()` and the like."""

    @functools.wraps(original)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        host = _find_host()
        _refuse_middleware(host, kwargs.get("middleware"))
        if host is None:
            return await original(self, *args, **kwargs)
        return await host.serve_here(self)

    return run


def _either(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `run` of toolcrib's own server, which blocks, or returns an awaitable inside an event loop."""

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        host = _find_host()
        if host is None:
            return original(self, *args, **kwargs)
        return host.serve_here(self) if asyncio._get_running_loop() else host.serve(self)

    return run


def _over_streams(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `Server.run(read, write, options)` over standard streams. It also serves connections in memory,
    which are left alone."""

    @functools.wraps(original)
    async def run(self: Any, read: Any, *args: Any, **kwargs: Any) -> Any:
        host = _find_host() if isinstance(read, _StandardStream) else None
        if host is None:
            return await original(self, read, *args, **kwargs)
        return await host.serve_here(self)

    return run


class _StandardStream:
    """One of the streams of `stdio_server`. It is not connected to anything."""

    async def __anext__(self) -> Any:
        return await asyncio.get_running_loop().create_future()  # until it is cancelled

    receive = __anext__

    def __aiter__(self) -> Self:
        return self

    async def send(self, item: Any) -> None:
        pass

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def _standard_streams(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `stdio_server()`."""

    @functools.wraps(original)
    @asynccontextmanager
    async def stdio_server(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if _find_host() is None:
            async with original(*args, **kwargs) as streams:
                yield streams
        else:
            yield _StandardStream(), _StandardStream()

    return stdio_server


# --- refused tools -----------------------------------------------------------------------------------

_refused: weakref.WeakKeyDictionary[Any, list[Finding]] = weakref.WeakKeyDictionary()


def is_searching() -> bool:
    """Whether a file is imported, or a program started, in search of tools."""
    return currently_loading() is not None or bool(hosts)


def refused_tools(server: Any) -> list[Finding]:
    """Return the problems of the functions that a server refused while their file was imported or run."""
    return _refused.get(server, [])


def _decorating(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `server.tool`, which is called with a function, or with options to return a decorator."""

    @functools.wraps(original)
    def tool(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_searching():
            return original(self, *args, **kwargs)
        function = next((item for item in args if callable(item)), None)
        try:
            made = original(self, *args, **kwargs)
        except Exception as error:
            if function is None:
                raise
            return _keep_refused(self, function, error)
        return (
            made if function is not None or not callable(made) else functools.partial(_decorate, self, made)
        )

    return tool


def _decorate(server: Any, decorate: Callable[[Any], Any], function: Any) -> Any:
    try:
        return decorate(function)
    except Exception as error:
        return _keep_refused(server, function, error)


def _keep_refused(server: Any, function: Any, error: Exception) -> Any:
    name = getattr(function, "__name__", type(function).__name__)
    text = str(error).partition("\n")[0] or type(error).__name__
    message = f"Tool '{name}' is refused by {library_of(server) or 'its server'}: {text}"
    refused = InvalidToolError(message, tool=name, source=locate(function))
    _refused.setdefault(server, []).append(refused.finding)
    return function


# --- HTTP applications -------------------------------------------------------------------------------


def _application(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a method that makes the HTTP application of a server, to remember the two."""

    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        app = original(self, *args, **kwargs)
        host = _find_host()
        if host is not None:
            host.applications.append((self, app))
        return app

    return make


def _session_manager(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace the constructor of a session manager, by which a low-level server is an HTTP application."""

    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        host = _find_host()
        if host is not None:
            host.applications.append((self.app, self.handle_request))

    return make


def _sse_transport(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace the constructor of a transport whose server is known only to the program's own endpoint."""

    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        host = _find_host()
        if host is not None:
            host.applications.append((None, self))

    return make


def _blocking_uvicorn(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `uvicorn.run(app)` and `uvicorn.Server(config).run()`."""

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        host = _find_host()
        server = None if host is None else _find_served(host, args, kwargs)
        return original(*args, **kwargs) if host is None or server is None else host.serve(server)

    return run


def _awaited_uvicorn(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `await uvicorn.Server(config).serve()`."""

    @functools.wraps(original)
    async def serve(*args: Any, **kwargs: Any) -> Any:
        host = _find_host()
        server = None if host is None else _find_served(host, args, kwargs)
        if host is None or server is None:
            return await original(*args, **kwargs)
        return await host.serve_here(server)

    return serve


def _find_served(host: Host, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the server behind the application, or the factory of one, that uvicorn gets: `run(app)`, or
    `Server(Config(app)).run()`. None where the program has made no application of a server. Raise SourceError
    if other code of the program is around it, such as an authentication: that does not run here."""
    first = kwargs.get("app", args[0] if args else None)
    config = getattr(first, "config", None)
    app = getattr(config, "app", first)
    if isinstance(app, str):
        app = sys.modules["uvicorn.importer"].import_from_string(app)
    if kwargs.get("factory") or getattr(config, "factory", False):
        app = app()
    around: list[str] = []
    for server, made in reversed(host.applications):
        if _leads_to(app, made, around):
            return server
    if host.applications:
        raise _refusal(list(dict.fromkeys(around)) or [type(app).__name__])
    return None


def _leads_to(app: Any, made: Any, around: list[str]) -> bool:
    """Return whether an application is one that a server has made, or passes requests to it unseen, as the
    routes of starlette do. Add the names of parts that may do anything to `around`."""
    if app == made:  # not `is`: a bound method is a new object each time
        return not _add_unknown(app, around)
    if not _is_known(type(app)):
        around.append(getattr(app, "__name__", type(app).__name__))
        return False
    if _add_unknown(app, around):
        return False
    if hasattr(app, "endpoint"):
        return bool(app.endpoint == made)
    inner = [app.app] if hasattr(app, "app") else getattr(app, "routes", ())
    return any(_leads_to(part, made, around) for part in inner)


def _add_unknown(app: Any, around: list[str]) -> bool:
    """Add the names of middleware of an application that may refuse requests; return whether it has any."""
    names = _unknown_middleware(getattr(app, "user_middleware", ()))
    around += names
    return bool(names)


# --- threads: no program runs in the main thread -----------------------------------------------------


def _without_signals(original: Callable[..., Any], result: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a function that sets signal handlers, which only the main thread can."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        is_main = threading.current_thread() is threading.main_thread()
        return original(*args, **kwargs) if is_main or _find_host() is None else result(*args)

    return call


@functools.cache
def ignore_signals() -> None:
    """Ignore signal handlers that programs set."""
    signal.signal = _without_signals(signal.signal, lambda number, _: signal.getsignal(number))
    loop: Any = getattr(asyncio, "SelectorEventLoop", None)
    for name in ("add_signal_handler", "remove_signal_handler"):
        setattr(loop, name, _without_signals(getattr(loop, name), lambda *_: False))


def _for_all_threads(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `sqlite3.connect`: a program opens its database on its own thread, and toolcrib calls the async
    functions that use it on another one. Under their library both are the same thread."""

    @functools.wraps(original)
    def connect(*args: Any, **kwargs: Any) -> Any:
        if current.get() is not None and len(args) < _SAME_THREAD:
            kwargs.setdefault("check_same_thread", False)
        return original(*args, **kwargs)

    return connect


_SAME_THREAD = 5
"""The position of `check_same_thread` among the parameters of `sqlite3.connect`, counted from 1."""


# --- replacing them as they are imported -------------------------------------------------------------


def _replace(thing: Any, names: Sequence[str], wrap: Callable[[Any], Any]) -> None:
    for name in names:
        if hasattr(thing, name):
            setattr(thing, name, wrap(getattr(thing, name)))


def _patch(module: ModuleType) -> None:
    name = module.__name__
    if name in _CLASSES:
        server = getattr(module, _CLASSES[name], None)
        _replace(server, ("run",), _blocking)
        _replace(server, _RUNS, _awaited)
        _replace(server, _APPS, _application)
        _replace(server, ("tool",), _decorating)
    elif name == "toolcrib.server":
        _replace(module.MCPServer, ("run",), _either)
    elif name == "mcp.server.lowlevel.server":
        _replace(module.Server, ("run",), _over_streams)
    elif name == "mcp.server.stdio":
        _replace(module, ("stdio_server",), _standard_streams)
    elif name == "uvicorn.server":
        _replace(module.Server, ("run",), _blocking_uvicorn)
        _replace(module.Server, ("serve",), _awaited_uvicorn)
    elif name == "uvicorn.main":
        _replace(module, ("run",), _blocking_uvicorn)
    elif name == "mcp.server.streamable_http_manager":
        _replace(module.StreamableHTTPSessionManager, ("__init__",), _session_manager)
    elif name == "mcp.server.sse":
        _replace(module.SseServerTransport, ("__init__",), _sse_transport)
    elif name in ("sqlite3", "sqlite3.dbapi2"):
        _replace(module, ("connect",), _for_all_threads)


_MODULES = frozenset({*_CLASSES, "mcp.server.lowlevel.server", "mcp.server.stdio"}) | {
    *("mcp.server.sse", "mcp.server.streamable_http_manager"),
    *("sqlite3", "sqlite3.dbapi2", "toolcrib.server", "uvicorn.main", "uvicorn.server"),
}


class _Finder(MetaPathFinder):
    """Finds the modules to be changed with the other finders, and changes them once they are loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _MODULES:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None and spec.loader is not None:
                _change_loader(spec.loader)
                return spec
        return None


def _change_loader(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _patch(module)

    loader.exec_module = exec_module


@functools.cache
def install() -> None:
    """Intercept servers from now on. Modules of the libraries that are loaded already are changed too."""
    sys.meta_path.insert(0, _Finder())
    for name in _MODULES & sys.modules.keys():
        _patch(sys.modules[name])
