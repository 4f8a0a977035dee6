"""The client: one connection to one MCP server, of whatever age, over whatever link.

Knows what can be asked of a server with tools, and puts session, handshake and links together for it.
Refuses to know bytes and eras where a part below knows them better.

Hears that a server's tools have changed, and tells whoever wants to know.

A legacy session says so by itself; 2026-07-28 is asked to with `subscriptions/listen`, again and again where
that breaks off. Knows both ways; refuses to know what the change is.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from toolcrib.client.http import HttpLink, argument_headers
from toolcrib.client.legacy_sse import PairLink
from toolcrib.client.link import Link, SessionEndedError
from toolcrib.client.questions import Answers, Ask, CannotAnswerError, Sample
from toolcrib.client.session import (
    DEAF,
    LEGACY,
    VERSIONS,
    Dialect,
    Hearing,
    OnLog,
    OnProgress,
    Peer,
    Session,
    greet,
)
from toolcrib.client.stdio import StdioLink
from toolcrib.client.tools import RemoteTool, read_result, read_tools
from toolcrib.content import Result
from toolcrib.context import Folder
from toolcrib.errors import (
    BadAnswerError,
    ClientError,
    ConfigurationError,
    LinkError,
    RemoteError,
    ToolNotFoundError,
)

logger = logging.getLogger("toolcrib")

OnChange = Callable[[], object]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


class Watch:
    """The listeners of one client, and the one subscription that serves them all."""

    def __init__(self, session: Session, peer: Peer, timeout_s: float) -> None:
        self._session = session
        self._peer = peer
        self._timeout_s = timeout_s
        self._bells: list[_Bell] = []
        self._is_heard: asyncio.Future[bool] | None = None

    def add(self, callback: OnChange) -> asyncio.Future[bool]:
        """From now on `callback` is called. The future says whether the server will tell anything."""
        self._bells.append(_Bell(callback, self._session))
        if self._is_heard is None:
            self._is_heard = asyncio.get_running_loop().create_future()
            if self._session.spawn(self._listen()) is None:
                self._settle(False)
        return asyncio.shield(self._is_heard)

    def ring(self) -> None:
        for bell in self._bells:
            bell.ring()

    def _settle(self, is_heard: bool) -> None:
        if self._is_heard is not None and not self._is_heard.done():
            self._is_heard.set_result(is_heard)

    async def _listen(self) -> None:
        timer = asyncio.get_running_loop().call_later(self._timeout_s, self._settle, False)
        try:
            if self._peer.tells_changes and self._peer.is_modern:
                await self._subscribe()
            elif self._peer.tells_changes:
                self._settle(await self._session.link.listen())
        finally:
            timer.cancel()
            self._settle(False)

    async def _subscribe(self) -> None:
        pause_s = _FIRST_PAUSE_S
        is_first = True

        def acknowledge() -> None:
            nonlocal pause_s, is_first
            pause_s = _FIRST_PAUSE_S
            self._settle(True)
            if not is_first:
                self.ring()  # what changed while nobody listened is not told again
            is_first = False

        wish = {"notifications": {"toolsListChanged": True}}
        hearing = Hearing(on_acknowledged=acknowledge)
        while True:
            try:
                await self._session.request("subscriptions/listen", wish, timeout_s=None, hearing=hearing)
            except RemoteError as error:
                logger.debug("%s does not tell what changes: %s", self._session.link.place, error)
                return
            except ClientError as error:
                logger.debug("%s: listening broke off: %s", self._session.link.place, error)
            if self._session.is_closed:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class _Bell:
    """Calls one listener, one call at a time: all that happens meanwhile is one more call."""

    def __init__(self, callback: OnChange, session: Session) -> None:
        self._callback = callback
        self._session = session
        self._is_busy = False
        self._is_due = False

    def ring(self) -> None:
        if self._is_busy:
            self._is_due = True
            return
        try:
            work = self._callback()
        except Exception as error:  # the listener is broken; the conversation is not
            logger.warning("a listener to changes failed: %s: %s", type(error).__name__, error)
            return
        if inspect.iscoroutine(work):
            self._is_busy = self._session.spawn(self._finish(work)) is not None
            if not self._is_busy:
                work.close()  # the session has ended, or is flooded: somebody else must look

    async def _finish(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except Exception as error:
            logger.warning("a listener to changes failed: %s: %s", type(error).__name__, error)
        finally:
            self._is_busy = False
        if self._is_due:
            self._is_due = False
            self.ring()


DEFAULT_TIMEOUT_S = 60.0
MAX_ROUNDS = 10
"""How often one call may come back with questions."""
MAX_PAGES = 1000
MAX_TOOLS = 100_000
_MAX_QUESTIONS = 100
_HEADER_MISMATCH, _UNKNOWN_METHOD, _INVALID_PARAMS = -32020, -32601, -32602
_SAYS_UNKNOWN = re.compile(r"(unknown|no such|not found|does not exist|doesn't exist)", re.IGNORECASE)


class Client:
    """`async with Client("http://127.0.0.1:8000/mcp") as client: await client.call("add", {"a": 1})`

    The target is an address, a command as a list of words (never a shell), or a link. `protocol` is "auto" or
    a version to insist on. `on_ask`, `on_sample` and `folders` answer what a server asks while it works.
    """

    def __init__(
        self,
        target: str | Sequence[str] | Link,
        *,
        protocol: str = "auto",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_ask: Ask | None = None,
        on_sample: Sample | None = None,
        folders: Iterable[str | Path | Folder] | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        if protocol != "auto" and protocol not in VERSIONS:
            raise ConfigurationError(
                f"unknown version {protocol!r}",
                key="protocol",
                hint=f"there are: auto, {', '.join(VERSIONS)}",
            )
        self.timeout_s = timeout_s
        self._protocol = protocol
        self._link = _link_to(target, headers)
        self._answers = Answers(on_ask, on_sample, folders)
        self._info = dict(info or {"name": "toolcrib", "version": _own_version()})
        self._session: Session | None = None
        self._peer: Peer | None = None
        self._watch: Watch | None = None
        self._renewing = asyncio.Lock()
        self._known: dict[str, RemoteTool] = {}
        self._hears_log = False

    # --- the connection ---

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Reach the server and settle on a version of the protocol. Raises a ClientError in words."""
        try:
            try:
                await self._begin(self._protocol)
            except ClientError as error:
                await self._begin_otherwise(error)
            if self._answers.are_any and not self._get_peer().is_modern:
                await self._link.listen()  # questions may come on a stream of their own
        except BaseException:
            await self.close()
            raise

    async def _begin(self, protocol: str) -> None:
        dialect = Dialect(LEGACY[0], self._info)
        self._session = Session(self._link, dialect, self._answers, self._notice_change)
        await self._link.start(self._session)
        self._peer = await greet(self._session, protocol, self.timeout_s)

    async def _begin_otherwise(self, error: ClientError) -> None:
        """Some old servers die of a greeting they do not know; some have only the oldest kind of HTTP."""
        old, version = self._link, LEGACY[0] if self._protocol == "auto" else self._protocol
        if isinstance(old, StdioLink) and self._protocol == "auto" and old.was_alive:
            other: Link = old
        elif isinstance(old, HttpLink) and isinstance(error, LinkError) and error.status in (404, 405):
            other = PairLink(old.address, headers=old.headers)
        else:
            raise error
        await self.close()
        self._link = other
        try:
            await self._begin(version)
        except ClientError as failure:
            raise (failure if other is old else error) from None

    async def close(self) -> None:
        """Let go of the server; what still waits fails. Safe to call twice."""
        session, self._session, self._peer, self._watch = self._session, None, None, None
        try:
            if session is not None:
                await session.close()
        finally:
            await self._link.close()

    # --- what the server says of itself ---

    @property
    def place(self) -> str:
        """Where the server is, for texts."""
        return self._link.place

    @property
    def protocol_version(self) -> str:
        return self._get_peer().protocol_version

    @property
    def server_info(self) -> Mapping[str, Any]:
        return self._get_peer().server_info

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self._get_peer().capabilities

    @property
    def instructions(self) -> str | None:
        return self._get_peer().instructions

    def _get_peer(self) -> Peer:
        if self._peer is None:
            raise LinkError(f"{self.place}: not connected", status=None)
        return self._peer

    # --- asking ---

    async def ping(self) -> None:
        """Whether the server is there: returns, or raises."""
        await self._request("server/discover" if self._get_peer().is_modern else "ping", {})

    async def list_tools(self) -> list[RemoteTool]:
        """All tools, over all pages. One that cannot be used is warned of and left out."""
        found: dict[str, RemoteTool] = {}
        async for tool in self._list_pages():
            if tool.name in found:
                logger.warning("%s lists '%.100s' twice; the first one counts", self.place, tool.name)
                continue
            found[tool.name] = tool
            if len(found) > MAX_TOOLS:
                raise BadAnswerError(f"{self.place} lists more than {MAX_TOOLS} tools")
        self._known = found
        return list(found.values())

    async def _list_pages(self) -> AsyncGenerator[RemoteTool, None]:
        peer = self._get_peer()
        over_http = self._link.has_streams and peer.is_modern
        seen: set[str] = set()
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            try:
                page = await self._request("tools/list", params)
            except RemoteError as error:
                if error.rpc_code == _UNKNOWN_METHOD and "tools" not in peer.capabilities:
                    return
                raise
            for tool in read_tools(page.get("tools"), self.place, over_http=over_http):
                yield tool
            cursor = page.get("nextCursor")
            if cursor is None:
                return
            if not isinstance(cursor, str) or cursor in seen:
                raise BadAnswerError(f"{self.place} lists its tools in a circle")
            seen.add(cursor)
            params = {"cursor": cursor}
        raise BadAnswerError(f"{self.place} lists its tools on more than {MAX_PAGES} pages")

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
        on_log: OnLog | None = None,
    ) -> Result:
        """Call a tool. A result with `is_error` is a result; ToolNotFoundError and ClientErrors are raised.

        `timeout_s` counts the server's time: while a person thinks about a question, the clock stands still.
        """
        peer = self._get_peer()
        hearing = Hearing(on_progress, on_log)
        if on_log is not None:
            await self._ask_for_log(peer)
        left_s = timeout_s or self.timeout_s
        asked = {"name": name, "arguments": dict(arguments or {})}
        answers: dict[str, Any] = {}
        for turn in range(MAX_ROUNDS):
            started = time.monotonic()
            result = await self._call_once({**asked, **answers}, max(left_s, 0.001), hearing)
            left_s -= time.monotonic() - started
            kind = result.get("resultType", "complete") if peer.is_modern else "complete"
            if kind == "complete":
                return read_result(result, self.place)
            if kind != "input_required":
                raise BadAnswerError(f"{self.place} returned a result of the unknown kind {kind!r:.40}")
            answers = await self._answer(result, turn)
        raise BadAnswerError(f"{self.place} asked {MAX_ROUNDS} times and still has no result")

    def on_tools_changed(self, callback: OnChange) -> asyncio.Future[bool]:
        """Have `callback`, plain or async, called whenever the server's tools change.

        What it returns can be awaited: True once the server has agreed to tell, False if it never will.
        """
        if self._watch is None:
            peer = self._get_peer()
            self._watch = Watch(self._get_session(), peer, self.timeout_s)
        return self._watch.add(callback)

    # --- inside ---

    async def _request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        hearing: Hearing = DEAF,
    ) -> dict[str, Any]:
        session, peer = self._get_session(), self._get_peer()
        limit_s = timeout_s or self.timeout_s
        try:
            return await session.request(method, params, timeout_s=limit_s, headers=headers, hearing=hearing)
        except SessionEndedError:
            async with self._renewing:
                if self._peer is peer:
                    self._peer = await greet(session, peer.protocol_version, self.timeout_s)
        return await session.request(method, params, timeout_s=limit_s, headers=headers, hearing=hearing)

    def _get_session(self) -> Session:
        if self._session is None:
            raise LinkError(f"{self.place}: not connected")
        return self._session

    def _notice_change(self) -> None:
        if self._watch is not None:
            self._watch.ring()

    async def _call_once(self, params: dict[str, Any], limit_s: float, hearing: Hearing) -> dict[str, Any]:
        name = params["name"]
        try:
            return await self._send_call(params, limit_s, hearing)
        except RemoteError as error:
            if error.rpc_code == _HEADER_MISMATCH and self._get_peer().is_modern:
                await self.list_tools()  # its schema says which headers were missing
                return await self._send_call(params, limit_s, hearing)
            about_name = error.rpc_code == _INVALID_PARAMS and name in error.message
            if about_name and name not in self._known and _SAYS_UNKNOWN.search(error.message):
                raise ToolNotFoundError(name) from None
            raise

    async def _send_call(self, params: dict[str, Any], limit_s: float, hearing: Hearing) -> dict[str, Any]:
        tool = self._known.get(params["name"])
        headers = argument_headers(tool.header_marks, params["arguments"]) if tool is not None else None
        return await self._request("tools/call", params, timeout_s=limit_s, headers=headers, hearing=hearing)

    async def _answer(self, result: Mapping[str, Any], turn: int) -> dict[str, Any]:
        """What the next round carries: the state as it came, and the answers to what was asked."""
        questions, state = result.get("inputRequests"), result.get("requestState")
        again: dict[str, Any] = {} if state is None else {"requestState": state}
        if not questions and state is not None:
            await asyncio.sleep(min(0.05 * 2**turn, 2))  # the server is busy and says: not now
            return again
        if not isinstance(questions, Mapping) or not 0 < len(questions) <= _MAX_QUESTIONS:
            raise BadAnswerError(f"{self.place} wants input and asks nothing")
        replies = again["inputResponses"] = {}
        for key, question in questions.items():
            question = question if isinstance(question, Mapping) else {}
            try:
                replies[key] = await self._answers.give(str(question.get("method")), question.get("params"))
            except CannotAnswerError as error:
                raise BadAnswerError(f"{self.place} asks what has no answer: {error}") from None
        return again

    async def _ask_for_log(self, peer: Peer) -> None:
        """A legacy session wants to be told once; 2026-07-28 with every request."""
        if self._hears_log or peer.is_modern or "logging" not in peer.capabilities:
            return
        self._hears_log = True
        try:
            await self._request("logging/setLevel", {"level": "debug"})
        except RemoteError as error:
            logger.debug("%s does not set its log's level: %s", self.place, error)


def _link_to(target: str | Sequence[str] | Link, headers: Mapping[str, str] | None) -> Link:
    if isinstance(target, str):
        if not target.lower().startswith(("http://", "https://")):
            raise ConfigurationError(
                f"not an address: {target!r:.100}",
                hint="a command is a list of words: ['python', 'server.py']",
            )
        return HttpLink(target, headers=headers)
    if headers:
        raise ConfigurationError("only an address takes headers", key="headers")
    return StdioLink(target) if isinstance(target, Sequence) else target


@cache
def _own_version() -> str:
    from importlib import metadata  # loads more than this whole package, and only a connection needs it

    try:
        return metadata.version("toolcrib")
    except metadata.PackageNotFoundError:
        return "0"
