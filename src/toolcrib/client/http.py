"""A link to a server behind an address: streamable HTTP, in both eras.

Every request is a POST of its own, answered by JSON or by a stream of events; a stream that ends early is
taken up again where the server gave its events numbers. Knows HTTP as MCP uses it. Refuses to know what the
messages say, and leaves the connections to `outbound`.

The HTTP headers that repeat what a 2026-07-28 request says, so that a proxy need not read its body.

Knows methods, tool schemas and header values as text. Refuses to know connections.

Splits what a server sends into lines, and lines into server-sent events, of bounded size.

Sans-IO: chunks go in, lines and events come out, however the chunks were cut. Knows nothing of messages.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin, urlsplit

from toolcrib.client.link import MAX_BYTES, Inbox, Outgoing, SessionEndedError
from toolcrib.errors import APIError, BadAnswerError, ClientError, LinkError
from toolcrib.http_client import Outbound, Stream
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import LISTED_SCHEMAS, SINGLE_SCHEMAS

Path = tuple[str, ...]

MARK = "x-mcp-header"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"(?! )[\x20-\x7e]*(?<! )")
_SENTINEL = re.compile(r"=\?base64\?.*\?=", re.DOTALL)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ALLOWED_TYPES = ("string", "integer", "boolean")
_HELD_BY_NAME = ("patternProperties", "dependentSchemas", "$defs", "definitions")


def headers_for(version: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Version, method, and the name of what is called."""
    headers = {"mcp-protocol-version": version, "mcp-method": method}
    name = params.get(_NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = to_header(name)
    return headers


def to_header(value: str) -> str:
    """The value as it is where a header can carry it, else in base64 between marks."""
    if _PLAIN.fullmatch(value) and not _SENTINEL.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


# --- arguments that are headers too ---------------------------------------------------------------------


def marks_in(schema: Any) -> dict[Path, str]:
    """Where the arguments are that go into headers, and what those are called.

    Raises ValueError for a mark that a client must not follow.
    """
    marks: dict[Path, str] = {}
    taken: set[str] = set()
    for path, place in _walk(schema):
        if MARK not in place:
            continue
        name = place[MARK]
        if not path:
            raise ValueError(f"{MARK} stands where no argument is meant for certain")
        where = f"{MARK} of '{'.'.join(path)}'"
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"{where} is not a name for a header")
        if place.get("type") not in _ALLOWED_TYPES:
            raise ValueError(f"{where} is on a value that is neither string, integer nor boolean")
        if name.lower() in taken:
            raise ValueError(f"{where} repeats another one")
        taken.add(name.lower())
        marks[path] = name
    return marks


def argument_headers(marks: Mapping[Path, str], arguments: Mapping[str, Any]) -> dict[str, str]:
    """A header for each marked argument that is there."""
    headers = {}
    for path, name in marks.items():
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            headers[f"mcp-param-{name.lower()}"] = "true" if value else "false"
        elif isinstance(value, str | int):
            headers[f"mcp-param-{name.lower()}"] = to_header(str(value))
        elif isinstance(value, float) and value.is_integer():
            headers[f"mcp-param-{name.lower()}"] = str(int(value))
    return headers


def _walk(root: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every place of a schema, with the properties that lead there; none where anything else does too."""
    waiting: list[tuple[Path | None, Any]] = [((), root)]
    while waiting:
        path, place = waiting.pop()
        if not isinstance(place, Mapping):
            continue
        yield path or (), place
        for key, value in place.items():
            if key == "properties" and isinstance(value, Mapping):
                waiting += ((None if path is None else (*path, name), item) for name, item in value.items())
            elif key in SINGLE_SCHEMAS:
                waiting.append((None, value))
            elif key in LISTED_SCHEMAS and isinstance(value, list):
                waiting += ((None, item) for item in value)
            elif key in _HELD_BY_NAME and isinstance(value, Mapping):
                waiting += ((None, item) for item in value.values())


_ANY_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")  # a return at the very end may be half of a line end
_MAX_RETRY_DIGITS = 9


class TooLongError(ValueError):
    """A line or an event goes on beyond the limit."""


class Lines:
    """Lines that end with a newline. One that is too long is None, and the next is read again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        seen = len(self._held)
        self._held += chunk
        start = 0
        while (end := self._held.find(b"\n", max(start, seen))) >= 0:
            if self._is_skipping:
                self._is_skipping = False
            elif end - start > self._limit:
                yield None
            else:
                yield bytes(self._held[start:end])
            start = end + 1
        del self._held[:start]
        if self._is_skipping:
            self._held.clear()
        elif len(self._held) > self._limit:
            self._held.clear()
            self._is_skipping = True
            yield None


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; `id` is the last one given, by this event or before."""

    name: str
    data: bytes
    id: str | None
    retry_ms: int | None


class Events:
    """Server-sent events as the HTML standard has them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._seen = 0
        self._is_first = True
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self.last_id: str | None = None
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Raises TooLongError."""
        self._held += chunk
        start = 0
        while match := _ANY_END.search(self._held, max(start, self._seen)):
            line = bytes(self._held[start : match.start()])
            start = match.end()
            if self._is_first:
                line = line.removeprefix(b"\xef\xbb\xbf")
                self._is_first = False
            if line:
                self._take(line)
            elif event := self._finish():
                yield event
        del self._held[:start]
        self._seen = max(0, len(self._held) - 1)
        if len(self._held) + self._size > self._limit:
            raise TooLongError

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._size += len(value)
            if self._size > self._limit:
                raise TooLongError
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            self.last_id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry_ms = int(value)

    def _finish(self) -> Event | None:
        data, name = b"\n".join(self._data), self._name
        has_data = bool(self._data)
        self._data.clear()
        self._size, self._name = 0, ""
        return Event(name or "message", data, self.last_id, self.retry_ms) if has_data else None


logger = logging.getLogger("toolcrib")

CONNECT_S = 10.0
_ACCEPT = "application/json, text/event-stream"
_MAX_ERROR_BYTES = 1024 * 1024
_MAX_REST_BYTES = 64 * 1024
_MAX_REDIRECTS = 3
_MAX_RESUMES = 5  # in a row without anything new
_SHORT_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


@dataclass(slots=True)
class _Thread:
    """What is needed to take up a stream again: the number of its last event, and when to ask."""

    last_id: str | None = None
    retry_ms: int | None = None
    is_fresh: bool = True

    @property
    def pause_s(self) -> float:
        wanted = _FIRST_PAUSE_S if self.retry_ms is None else self.retry_ms / 1000
        return min(wanted, _LONGEST_PAUSE_S)


class HttpLink:
    """`HttpLink("http://127.0.0.1:8000/mcp", headers={"Authorization": "Bearer ..."})`."""

    has_streams = True

    def __init__(self, address: str, *, headers: Mapping[str, str] | None = None) -> None:
        self.address = address
        self.headers = dict(headers or {})
        self.place = show_address(address)
        own = {"accept-encoding": "identity", "user-agent": "toolcrib-client"}
        self._outbound = Outbound(headers={**own, **self.headers}, max_connections=1000)
        self._standing: dict[str, str] = {}
        self._session_id: str | None = None
        self._posts: dict[int, asyncio.Task[None]] = {}
        self._listener: asyncio.Task[None] | None = None

    async def start(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def reset(self) -> None:
        self._session_id = None
        self._standing = {}

    def settle(self, headers: Mapping[str, str]) -> None:
        self._standing = dict(headers)

    def abandon(self, number: int) -> None:
        task = self._posts.pop(number, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = [*self._posts.values(), *([self._listener] if self._listener else [])]
        self._posts, self._listener = {}, None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session_id is not None:
            await self._say_goodbye()
        await self._outbound.aclose()

    async def _say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(_SHORT_S), self._open("DELETE"):
                pass
        except (ClientError, TimeoutError) as error:
            logger.debug("%s: the session was not ended: %s", self.place, error)
        self.reset()

    # --- sending ---

    async def send(self, message: Outgoing) -> None:
        if message.number is None:
            async with self._open("POST", message) as answer:
                if answer.status_code >= 400:
                    raise self._refusal(answer, await self._read(answer, _MAX_ERROR_BYTES))
            return
        task = asyncio.get_running_loop().create_task(self._exchange(message, message.number))
        self._posts[message.number] = task
        task.add_done_callback(lambda _: self._posts.pop(message.number or 0, None))

    async def _exchange(self, message: Outgoing, number: int) -> None:
        """One request to its end; whatever happens, it is answered or failed afterwards."""
        try:
            thread = await self._post(message, number)
            while self._inbox.is_waiting(number) and thread.last_id is not None:
                await self._resume(thread, number)
            error: ClientError = LinkError(f"{self.place} ended its answer before it was complete")
        except ClientError as failure:
            error = failure
        except Exception as failure:
            logger.debug("reading an answer failed", exc_info=True)
            error = BadAnswerError(
                f"{self.place} answered with what cannot be read: {type(failure).__name__}"
            )
        self._inbox.failed(number, error)

    async def _post(self, message: Outgoing, number: int) -> _Thread:
        thread = _Thread()
        async with self._open("POST", message) as answer:
            if answer.status_code >= 400:
                await self._take_refusal(answer, number)
                return thread
            if session_id := answer.headers.get("mcp-session-id"):
                self._session_id = session_id
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/event-stream":
                await self._read_events(answer, thread, number)
            elif kind == "application/json":
                self._inbox.message(await self._read(answer, MAX_BYTES), number)
            elif answer.status_code == 202:
                raise BadAnswerError(f"{self.place} took the request and gave no answer")
            else:
                raise BadAnswerError(f"{self.place} answered with {kind or 'nothing'}, which is not MCP")
        return thread

    async def _read_events(self, answer: Stream, thread: _Thread, number: int | None) -> None:
        """Hand on events until the request is answered, or the stream ends, for whatever reason."""
        events = Events(MAX_BYTES)
        try:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    for event in events.feed(chunk):
                        thread.is_fresh = True
                        thread.last_id = event.id or thread.last_id
                        if event.data and event.name == "message":
                            self._inbox.message(event.data, number)
                    thread.retry_ms = events.retry_ms if events.retry_ms is not None else thread.retry_ms
                    thread.last_id = events.last_id or thread.last_id
                    if number is not None and not self._inbox.is_waiting(number):
                        await self._read_rest(chunks)
                        return
        except TooLongError:
            thread.last_id = None
            raise BadAnswerError(f"{self.place} answered with more than {MAX_BYTES >> 20} MiB") from None
        except APIError as error:
            if thread.last_id is None:
                raise self._in_words(error) from None

    async def _read_rest(self, chunks: AsyncGenerator[bytes, None]) -> None:
        """A stream that is read to its end leaves a connection for the next request."""
        size = 0
        try:
            async with asyncio.timeout(_SHORT_S):
                async for chunk in chunks:
                    size += len(chunk)
                    if size > _MAX_REST_BYTES:
                        return
        except (APIError, TimeoutError):
            pass  # then there is one connection less

    async def _resume(self, thread: _Thread, number: int | None) -> None:
        """Ask for what a stream still had to say. Raises LinkError where nothing new comes."""
        await asyncio.sleep(thread.pause_s)
        thread.is_fresh = False
        headers = {"accept": "text/event-stream", "last-event-id": thread.last_id or ""}
        for attempt in range(_MAX_RESUMES):
            try:
                async with self._open("GET", headers=headers) as answer:
                    if answer.status_code != 200:
                        raise self._refusal(answer, await self._read(answer, _MAX_ERROR_BYTES))
                    await self._read_events(answer, thread, number)
            except LinkError as error:
                if error.status is not None:
                    words = f"{self.place} ended its answer early and does not give the rest"
                    raise LinkError(words, status=error.status) from None
            if thread.is_fresh or (number is not None and not self._inbox.is_waiting(number)):
                return
            await asyncio.sleep(min(thread.pause_s * 2**attempt, _LONGEST_PAUSE_S))
        raise LinkError(f"{self.place} ended its answer before it was complete")

    # --- what the server says unasked, in a legacy session ---

    async def listen(self) -> bool:
        if self._listener is not None and not self._listener.done():
            return True
        opened: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._listener = asyncio.get_running_loop().create_task(self._keep_listening(opened))
        await asyncio.wait([opened], timeout=_SHORT_S)
        return not opened.done() or opened.result()  # some servers open the stream with its first event

    async def _keep_listening(self, opened: asyncio.Future[bool]) -> None:
        thread, pause_s = _Thread(), _FIRST_PAUSE_S
        try:
            while True:
                headers = {"accept": "text/event-stream"}
                if thread.last_id:
                    headers["last-event-id"] = thread.last_id
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                try:
                    async with self._open("GET", headers=headers) as answer:
                        if answer.status_code == 405:
                            return
                        if answer.status_code == 200:
                            pause_s = thread.pause_s
                            if not opened.done():
                                opened.set_result(True)
                            await self._read_events(answer, thread, None)
                        else:
                            thread = _Thread()  # a new session's events have numbers of their own
                except ClientError as error:
                    logger.debug("%s: listening was interrupted: %s", self.place, error)
                if not opened.done():
                    return
                await asyncio.sleep(pause_s)
        finally:
            if not opened.done():
                opened.set_result(False)

    # --- requests and refusals ---

    @asynccontextmanager
    async def _open(
        self, method: str, message: Outgoing | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Stream, None]:
        """The answer to one HTTP request, after redirects that stay on the same origin."""
        sent = {"accept": _ACCEPT, **self._standing, **(headers or {})}
        if self._session_id is not None:
            sent["mcp-session-id"] = self._session_id
        if message is not None:
            sent |= {"content-type": "application/json", **message.headers}
        try:
            for _ in range(_MAX_REDIRECTS):
                async with self._outbound.stream(
                    method,
                    self.address,
                    headers=sent,
                    content=None if message is None else message.data,
                    timeout_s=CONNECT_S,
                ) as answer:
                    if not self._is_moved(answer):
                        yield answer
                        return
        except APIError as error:
            raise self._in_words(error) from None
        raise LinkError(f"{self.place} redirects too often")

    def _is_moved(self, answer: Stream) -> bool:
        """Follow to another path of the same server; another server must be named by the user."""
        if not 300 <= answer.status_code < 400:
            return False
        target = urljoin(self.address, answer.headers.get("location", ""))
        here, there = urlsplit(self.address), urlsplit(target)
        same = (here.scheme, here.netloc) == (there.scheme, there.netloc)
        if answer.status_code not in (307, 308) or not same or target == self.address:
            words = f"{self.place} redirects to {show_address(target)}: use that address if you trust it"
            raise LinkError(words, status=answer.status_code)
        self.address = target
        return True

    def _in_words(self, error: APIError) -> LinkError:
        if not error.reached:
            return LinkError(f"nothing answers at {self.place}: is the server running?")
        return LinkError(f"{self.place}: {str(error).partition(': ')[2] or error}")

    async def _take_refusal(self, answer: Stream, number: int) -> None:
        body = await self._read(answer, _MAX_ERROR_BYTES)
        error = self._refusal(answer, body)
        if answer.status_code != 401 and not isinstance(error, SessionEndedError) and _is_rpc_error(body):
            self._inbox.message(body, number)
        self._inbox.failed(number, error)  # where it was no answer

    def _refusal(self, answer: Stream, body: bytes) -> LinkError:
        status = answer.status_code
        if status == 404 and self._session_id is not None:
            return SessionEndedError(f"{self.place} has forgotten the session", status=status)
        try:
            phrase = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            phrase = str(status)
        match status:
            case 401 if 'error="invalid_token"' in answer.headers.get("www-authenticate", ""):
                words = f"{self.place} does not take these credentials ({phrase}): wrong, expired or revoked?"
            case 401 | 403:
                words = f"{self.place} refuses access ({phrase}): does it want an Authorization header?"
            case 404 | 405:
                words = (
                    f"there is no MCP server at {self.place} ({phrase}): is the path right? It is often /mcp"
                )
            case _:
                said = body[:200].decode("utf-8", "replace").strip()
                words = f"{self.place} answered {phrase}" + (f": {said}" if said else "")
        return LinkError(words, status=status)

    async def _read(self, answer: Stream, limit: int) -> bytes:
        body = bytearray()
        try:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > limit:
                        raise BadAnswerError(f"{self.place} answered with more than {limit >> 20} MiB")
        except APIError as error:
            raise self._in_words(error) from None
        return bytes(body)


def show_address(address: str) -> str:
    """An address for texts: what may hold a secret is left out."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = codec.decode(body)
    except ValueError:
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict)
