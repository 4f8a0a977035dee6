"""Call a server of another library through its own handlers, in this process.

The server runs as its library runs it, and toolcrib is its client. So everything that its author put
between clients and functions has its effect: overridden methods, middleware, transforms, visibility, the
Context and result types of the library. What the server sends during a call is passed to the caller.

The lifespan is entered once. Each client of toolcrib has a session of its own with the server, because
servers keep state by session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from toolcrib.content import Result
from toolcrib.context import Context
from toolcrib.errors import Finding, RelayedError, SourceError, ToolError
from toolcrib.logs import describe_error, escape
from toolcrib.sources.foreign.recognition import PACKAGES, library_of, low_level_of
from toolcrib.sources.foreign.sessions import DirectSession, StreamSession, is_direct
from toolcrib.sources.loading import find_location

logger = logging.getLogger("toolcrib")

MAX_SESSIONS = 256
"""Sessions that a server keeps for clients; the one that was not used for the longest time is closed."""
MAX_PAGES = 1_000
"""Pages of a list that are read."""
MAX_CAUSES = 10
"""Exceptions that are followed from one to its cause, to log the first."""
END_S = 5.0
"""How long a lifespan may take to end when the command is over."""
_OWN_META = frozenset({"fastmcp", "_fastmcp", "io.modelcontextprotocol/serverInfo"})
"""Keys that the libraries add to the `_meta` of each result."""
_LISTS = {
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
    "prompts/list": ("prompts", "prompts"),
}
"""The methods that list features: the capability of each, and its key in the reply."""
_METHOD_NOT_FOUND = -32601
Session = DirectSession | StreamSession


class Bridge:
    """A server of another library. `open` starts it, `close` stops it."""

    def __init__(self, server: Any, lifespan: Lifespan | None = None, *, has_run: bool = False) -> None:
        """`lifespan` is that of the listing, if it goes on; `has_run` means that it was entered and left."""
        self.server = server
        self.name: str = server.name
        self.lifespan = lifespan
        self._has_run = has_run
        self._lock = threading.Lock()

    async def open(self) -> None:
        _shorten_logs()
        if self.lifespan is not None and not self.lifespan.task.done():
            return
        self.lifespan = lifespan = Lifespan(run_server(self.server))
        try:
            await lifespan.begin()
        except BaseException as error:
            self.lifespan = None
            if not self._has_run or not isinstance(error, Exception):
                raise
            text = f"The lifespan of server '{self.name}' failed when it was entered again: {error}"
            hint = "it ran before, to list the tools: let it run twice, or use `toolcrib serve`"
            raise SourceError(text, hint=hint) from error

    async def close(self) -> None:
        lifespan, self.lifespan = self.lifespan, None
        if lifespan is not None:
            await lifespan.end()

    async def call(
        self, name: str, arguments: dict[str, Any], context: Context, version: str | None = None
    ) -> Result:
        """Call a tool."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if version is not None:
            params["_meta"] = {"fastmcp": {"version": version}}
        reply = await self.request("tools/call", params, context)
        structured = reply.get("structuredContent")
        is_error = reply.get("isError") is True
        return Result(reply["content"], structured, is_error, structured is not None, meta_of(reply))

    async def request(self, method: str, params: dict[str, Any], context: Context) -> dict[str, Any]:
        """Return the result of a request, from any event loop. A server whose loop was closed is started
        again on this one."""
        with self._lock:
            lifespan = self.lifespan
            if lifespan is None:
                raise ToolError(f"The server {self.name} has stopped.")
            if lifespan.task.done():
                lifespan = self.lifespan = Lifespan(run_server(self.server))
        sending = self._send(lifespan, method, params, context)
        if lifespan.loop is asyncio.get_running_loop():
            return await sending
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(sending, lifespan.loop))

    async def _send(
        self, lifespan: Lifespan, method: str, params: dict[str, Any], context: Context
    ) -> dict[str, Any]:
        if lifespan.value is None:
            await lifespan.begin()
        sessions: Sessions = lifespan.value
        return await sessions.call(_client_of(context), method, params, context)


def meta_of(reply: dict[str, Any]) -> dict[str, Any] | None:
    """Return the `_meta` of a result without what the libraries add to each."""
    return {key: value for key, value in (reply.get("_meta") or {}).items() if key not in _OWN_META} or None


class _ShortLog(logging.Filter):
    """Log an exception that a library logs in one line, and its traceback only at debug level."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        for _ in range(MAX_CAUSES):
            error = error.__cause__ or error
        text = f"{escape(record.getMessage())}: {describe_error(error)} ({find_location(error, None)})"
        logger.log(record.levelno, "%s", text, exc_info=error if logger.isEnabledFor(logging.DEBUG) else None)
        return False


_SHORT_LOG = _ShortLog()


def _shorten_logs() -> None:
    """Keep the libraries from writing a traceback of dozens of lines for each call that fails."""
    for name, each in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] in PACKAGES and isinstance(each, logging.Logger):
            each.addFilter(_SHORT_LOG)


def _client_of(context: Context) -> Hashable:
    """Return what identifies the client of a call: its session, or else its credentials. None for a remote
    client without either: its next call cannot be told from that of another client."""
    session = context.channel.session
    if session is not None:
        return weakref.ref(session)
    return context.principal.binding if context.is_identified else None


@contextlib.asynccontextmanager
async def run_server(server: Any, *, enters_lifespan: bool = True) -> AsyncIterator[Sessions]:
    """Run a server. Raise what its lifespan raises."""
    low_level = low_level_of(server)
    async with contextlib.AsyncExitStack() as stack:
        state: Any = {}
        if enters_lifespan:
            if hasattr(server, "_lifespan_manager"):  # of fastmcp, with mounted servers and providers
                await stack.enter_async_context(server._lifespan_manager())
            state = await stack.enter_async_context(low_level.lifespan(low_level))
        sessions = Sessions(low_level, state, is_fast=library_of(server) == "fastmcp")
        stack.push_async_callback(sessions.close)
        yield sessions


class Sessions:
    """The sessions of a running server, by client."""

    def __init__(self, low_level: Any, state: Any, *, is_fast: bool) -> None:
        self._low_level = low_level
        self._state = state
        self._is_fast = is_fast
        self._variables = copy_context()  # those that the lifespan has set
        self._open: OrderedDict[Hashable, asyncio.Task[Session]] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def connect(self) -> Session:
        """Open a session."""
        session: Session
        if is_direct(self._low_level):
            session = DirectSession(self._low_level, self._state, is_modern=not self._is_fast)
        else:
            session = StreamSession(self._low_level, self._state, self._variables)
        await session.open()
        return session

    async def call(
        self, client: Hashable, method: str, params: dict[str, Any], context: Context
    ) -> dict[str, Any]:
        """Send a request in the session of a client. One that is None gets a session for it alone."""
        session = await (self.connect() if client is None else self._find(client))
        session.uses += 1
        try:
            return await session.call(method, params, context)
        finally:
            session.uses -= 1
            if client is None:
                await session.close()

    async def _find(self, client: Hashable) -> Session:
        opening = self._open.get(client)
        if opening is not None and opening.done() and not _has_failed(opening):
            self._open.move_to_end(client)
            return opening.result()
        if opening is None or opening.done():
            opening = asyncio.ensure_future(self.connect())
            self._open[client] = opening
            self._drop_unused()
        return await asyncio.shield(opening)

    def _drop_unused(self) -> None:
        """Close the sessions of clients that are gone, and the oldest one where there are too many."""
        idle = [client for client, opened in self._open.items() if _is_idle(opened)]
        gone: list[Hashable] = [
            client for client in idle if isinstance(client, weakref.ref) and client() is None
        ]
        if not gone and len(self._open) > MAX_SESSIONS:
            gone = idle[:1]
        for client in gone:
            opened = self._open.pop(client)
            if not _has_failed(opened):
                closing = asyncio.ensure_future(opened.result().close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        opened = [task for task in self._open.values() if task.done() and not _has_failed(task)]
        self._open.clear()
        await asyncio.gather(
            *(task.result().close() for task in opened), *self._closing, return_exceptions=True
        )


def _is_idle(opened: asyncio.Task[Session]) -> bool:
    return opened.done() and (_has_failed(opened) or not opened.result().uses)


def _has_failed(opened: asyncio.Task[Session]) -> bool:
    return opened.cancelled() or opened.exception() is not None or opened.result().has_stopped


async def list_all(session: Session, method: str, key: str) -> list[dict[str, Any]]:
    """Return all pages of a list."""
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        page = await session.request(method, params)
        found += page[key]
        if not page.get("nextCursor"):
            break
        params = {"cursor": page["nextCursor"]}
    return found


@dataclass(slots=True)
class Features:
    """What a server lists besides its tools, and whether it completes arguments."""

    resources: list[dict[str, Any]] = field(default_factory=list)
    templates: list[dict[str, Any]] = field(default_factory=list)
    prompts: list[dict[str, Any]] = field(default_factory=list)
    completes: bool = False
    findings: list[Finding] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.resources or self.templates or self.prompts)


async def list_features(session: Session, low_level: Any) -> Features:
    """Ask a server for its resources, templates and prompts. A list that fails becomes a finding."""
    found = Features(completes=_completes(session, low_level))
    lists = (found.resources, found.templates, found.prompts)
    for (method, (capability, key)), entries in zip(_LISTS.items(), lists, strict=True):
        if capability not in session.capabilities:
            continue
        try:
            entries += await list_all(session, method, key)
        except Exception as error:  # the tools are served anyway
            if not isinstance(error, RelayedError) or error.rpc_code != _METHOD_NOT_FOUND:
                text = f"Server '{low_level.name}' failed to answer {method}: {error}"
                found.findings.append(Finding("foreign-list", "warning", text))
    return found


def _completes(session: Session, low_level: Any) -> bool:
    """Return whether a server answers completion/complete. Older versions do so without the capability."""
    handlers = getattr(low_level, "request_handlers", None) or {}
    names = (getattr(kind, "__name__", "") for kind in handlers)
    return "completions" in session.capabilities or "CompleteRequest" in names


class Lifespan:
    """A context manager that is entered and left in one task, because task groups and clients that it opens
    must be closed by the task that opened them."""

    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self.value: Any = None
        self._manager = manager
        self.loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self.task = self.loop.create_task(self._live(), name="lifespan of a foreign server")

    async def _live(self) -> None:
        async with self._manager as value:
            self.value = value
            self._ready.set()
            await self._over.wait()

    async def begin(self) -> None:
        """Wait until it is entered. Raise what entering raises. A caller that stops waiting stops it."""
        ready = self.loop.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self.task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        finally:
            ready.cancel()
        if self.task.done():
            await self.task
            raise RuntimeError("the lifespan ended at once")

    async def end(self) -> None:
        """Leave it, on the loop it lives on. Raise what leaving raises."""
        if self.loop is asyncio.get_running_loop():
            self._over.set()
            await self.task
        elif not self.loop.is_closed():
            ended = asyncio.run_coroutine_threadsafe(self.end(), self.loop)
            await asyncio.wrap_future(ended)
        # Where its loop is closed, the task was cancelled with it, and has left already.

    def keep(self) -> None:
        """Let it go on, and `end_lifespans` end it if nothing else does."""
        _kept.add(self)
        self.task.add_done_callback(lambda _: _kept.discard(self))


_kept: set[Lifespan] = set()


def end_lifespans() -> None:
    """End the lifespans that were entered to list tools and that no server has closed."""
    for lifespan in list(_kept):
        try:
            asyncio.run_coroutine_threadsafe(lifespan.end(), lifespan.loop).result(END_S)
        except Exception as error:
            logger.warning("The lifespan of a server failed to end: %s", describe_error(error))
