"""HTTP transports of the client: streamable HTTP, and HTTP+SSE of 2024-11-05.

With streamable HTTP each request is a POST, answered by JSON or by a stream of server-sent events. A stream
that breaks off is resumed if the server numbered its events. HTTP+SSE is used only for servers that have
nothing newer.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from toolcrib.client.transport import MAX_BYTES, Outgoing, SessionEndedError, Transport
from toolcrib.errors import APIError, ClientError, InvalidResponseError, TransportError
from toolcrib.http_client import HTTPClient, InvalidEventsError, Stream
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.client.session import Session
    from toolcrib.http_client import ServerSentEvent

logger = logging.getLogger("toolcrib")

CONNECT_S = 10.0
_ACCEPT = "application/json, text/event-stream"
_MAX_ERROR_BYTES = 1024 * 1024
_MAX_REST_BYTES = 64 * 1024
_MAX_REDIRECTS = 3
_MAX_RESUMES = 5  # in a row without anything new
_SHORT_S = 2.0
_SHORTEST_PAUSE_S, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0, 30.0
_NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
"""The parameter that is repeated in the header Mcp-Name, by method."""
_PLAIN = re.compile(r"(?! )[\x20-\x7e]*(?<! )")
_SENTINEL = re.compile(r"=\?base64\?.*\?=", re.DOTALL)
_MARKUP = re.compile(r"<[^<>]*>")


def headers_for(version: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers for version, method and name that 2026-07-28 requires with each request."""
    headers = {"mcp-protocol-version": version, "mcp-method": method}
    name = params.get(_NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = to_header(name)
    return headers


def to_header(value: str) -> str:
    """Return the value as is if a header can carry it, else base64 in the form the protocol defines."""
    if _PLAIN.fullmatch(value) and not _SENTINEL.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def argument_headers(marked: Mapping[tuple[str, ...], str], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return one header per argument that the tool's schema marks with `x-mcp-header`."""
    headers = {}
    for path, name in marked.items():
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


@dataclass(slots=True)
class _Position:
    """Where a stream broke off: the id of its last event, and how long to pause before it is resumed."""

    last_id: str | None = None
    retry_ms: int | None = None
    failures: int = 0
    """Attempts in a row that brought nothing new."""

    @property
    def pause_s(self) -> float:
        first_s = (
            _FIRST_PAUSE_S if self.retry_ms is None else min(self.retry_ms, _LONGEST_PAUSE_S * 1000) / 1000
        )
        pause_s = max(first_s, _SHORTEST_PAUSE_S) * float(2 ** min(self.failures, 10))
        return min(pause_s, _LONGEST_PAUSE_S)

    @property
    def headers(self) -> dict[str, str]:
        accept = {"accept": "text/event-stream"}
        return {**accept, "last-event-id": self.last_id} if self.last_id else accept


class HttpTransport(Transport):
    """`HttpTransport("http://127.0.0.1:8000/mcp", headers={"Authorization": "Bearer ..."})`."""

    has_request_streams = True

    def __init__(self, address: str, *, headers: Mapping[str, str] | None = None) -> None:
        self.address = address
        self.headers = dict(headers or {})
        self.label = redact_url(address)
        own = {"accept-encoding": "identity", "user-agent": "toolcrib-client"}
        self._http = HTTPClient(headers={**own, **self.headers}, max_connections=1000)
        self._session_headers: dict[str, str] = {}
        self._session_id: str | None = None
        self._posts: dict[int, asyncio.Task[None]] = {}
        self._listener: asyncio.Task[None] | None = None

    async def start(self, session: Session) -> None:
        self._session = session

    def reset(self) -> None:
        self._session_id = None
        self._session_headers = {}

    def set_session_headers(self, headers: Mapping[str, str]) -> None:
        self._session_headers = dict(headers)

    def cancel(self, request_id: int) -> None:
        task = self._posts.pop(request_id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = [*self._posts.values(), *([self._listener] if self._listener else [])]
        self._posts, self._listener = {}, None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session_id is not None:
            try:
                async with asyncio.timeout(_SHORT_S), self._open("DELETE"):
                    pass
            except (ClientError, TimeoutError) as error:
                logger.debug("%s: could not end the session: %s", self.label, error)
            self.reset()
        await self._http.aclose()

    # --- sending ---

    async def send(self, message: Outgoing) -> None:
        if message.request_id is None:
            async with self._open("POST", message) as answer:
                if answer.status_code >= 400:
                    raise self._error_for(answer, await self._read(answer, _MAX_ERROR_BYTES))
            return
        task = asyncio.get_running_loop().create_task(self._exchange(message, message.request_id))
        self._posts[message.request_id] = task
        task.add_done_callback(lambda _: self._posts.pop(message.request_id or 0, None))

    async def _exchange(self, message: Outgoing, request_id: int) -> None:
        """Perform one request; on return it has a response or has failed."""
        position = _Position()
        try:
            await self._post(message, request_id, position)
            while position.last_id is not None and self._session.is_pending(request_id):
                await self._resume(position, request_id)
            error: ClientError = TransportError(
                f"{self.label} closed the stream before the response was complete"
            )
        except ClientError as failure:
            error = failure
        except Exception as failure:
            logger.debug("reading a response failed", exc_info=True)
            error = InvalidResponseError(
                f"{self.label} sent an unreadable response: {type(failure).__name__}"
            )
        self._session.failed(request_id, error)

    async def _post(self, message: Outgoing, request_id: int, position: _Position) -> None:
        async with self._open("POST", message) as answer:
            if answer.status_code >= 400:
                await self._take_error_response(answer, request_id)
                return
            if session_id := answer.headers.get("mcp-session-id"):
                self._session_id = session_id
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/event-stream":
                await self._read_events(answer, position, request_id)
            elif kind == "application/json":
                self._session.message(await self._read(answer, MAX_BYTES), request_id)
            elif answer.status_code == 202:
                raise InvalidResponseError(f"{self.label} accepted the request but sent no response")
            else:
                raise InvalidResponseError(
                    f"{self.label} sent {kind or 'no content type'}, expected JSON or an event stream"
                )

    async def _read_events(self, answer: Stream, position: _Position, request_id: int | None) -> None:
        """Deliver events until the request has a response or the stream ends."""
        try:
            async with aclosing(answer.events(MAX_BYTES)) as events:
                async for event in events:
                    position.failures = 0
                    position.retry_ms = position.retry_ms if event.retry is None else event.retry
                    position.last_id = event.id or position.last_id
                    self._take(event, request_id)
                    if request_id is not None and not self._session.is_pending(request_id):
                        await self._drain(events)
                        return
        except InvalidEventsError as error:
            position.last_id = None
            raise InvalidResponseError(f"{self.label} sent invalid events: {error}") from None
        except APIError as error:
            if position.last_id is None:
                raise self._to_transport_error(error) from None

    def _take(self, event: ServerSentEvent, request_id: int | None) -> None:
        if event.data and event.event == "message":
            self._session.message(event.data.encode(), request_id)

    async def _drain(self, events: AsyncGenerator[ServerSentEvent, None]) -> None:
        """Read a stream to its end, so that the connection can be reused."""
        size = 0
        with suppress(APIError, InvalidEventsError, TimeoutError):  # then the connection is not reused
            async with asyncio.timeout(_SHORT_S):
                async for event in events:
                    size += len(event.data)
                    if size > _MAX_REST_BYTES:
                        return

    async def _resume(self, position: _Position, request_id: int) -> None:
        """Resume a broken stream. Raises TransportError if nothing new arrives several times."""
        await asyncio.sleep(position.pause_s)
        position.failures += 1
        try:
            async with self._open("GET", headers=position.headers) as answer:
                if answer.status_code != 200:
                    raise self._error_for(answer, await self._read(answer, _MAX_ERROR_BYTES))
                await self._read_events(answer, position, request_id)
        except TransportError as error:
            if error.status is not None:
                text = f"{self.label} closed the stream early and does not resume it"
                raise TransportError(text, status=error.status) from None
        if position.failures >= _MAX_RESUMES:
            raise TransportError(f"{self.label} closed the stream before the response was complete")

    # --- server-initiated messages of a legacy session ---

    async def listen(self) -> bool:
        if self._listener is not None and not self._listener.done():
            return True
        opened: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._listener = asyncio.get_running_loop().create_task(self._keep_listening(opened))
        await asyncio.wait([opened], timeout=_SHORT_S)
        return not opened.done() or opened.result()  # some servers send no headers before the first event

    async def _keep_listening(self, opened: asyncio.Future[bool]) -> None:
        position = _Position()
        try:
            while True:
                position.failures += 1
                try:
                    async with self._open("GET", headers=position.headers) as answer:
                        if answer.status_code == 405:
                            return
                        if answer.status_code == 200:
                            position.failures = 0
                            if not opened.done():
                                opened.set_result(True)
                            await self._read_events(answer, position, None)
                        else:  # event ids of another session mean nothing here
                            position.last_id = position.retry_ms = None
                except ClientError as error:
                    logger.debug("%s: event stream interrupted: %s", self.label, error)
                if not opened.done():
                    return
                await asyncio.sleep(position.pause_s)
        finally:
            if not opened.done():
                opened.set_result(False)

    # --- requests and error responses ---

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        message: Outgoing | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        address: str | None = None,
    ) -> AsyncGenerator[Stream, None]:
        """Yield the response to one HTTP request, following redirects on the same origin."""
        sent = {"accept": _ACCEPT, **self._session_headers, **(headers or {})}
        if self._session_id is not None:
            sent["mcp-session-id"] = self._session_id
        if message is not None:
            sent |= {"content-type": "application/json", **message.headers}
        content = None if message is None else message.data
        url = address or self.address
        try:
            for _ in range(_MAX_REDIRECTS):
                async with self._http.stream(
                    method, url, headers=sent, content=content, timeout_s=CONNECT_S
                ) as answer:
                    if not 300 <= answer.status_code < 400:
                        yield answer
                        return
                    url = self._redirect_target(answer, url)
                    if address is None:
                        self.address = url
        except APIError as error:
            raise self._to_transport_error(error) from None
        raise TransportError(f"{self.label} redirects too many times")

    def _redirect_target(self, answer: Stream, url: str) -> str:
        """Return the target of a redirect within the same origin; raise TransportError for any other."""
        target, is_same_origin = _resolve(url, answer.headers.get("location", ""))
        if answer.status_code not in (307, 308) or not is_same_origin or target == url:
            text = f"{self.label} redirects to {redact_url(target)}; use that address if you trust it"
            raise TransportError(text, status=answer.status_code)
        return target

    def _to_transport_error(self, error: APIError) -> TransportError:
        if not error.reached:
            cause = str(error).partition(": ")[2].partition(": ")[2]
            return TransportError(f"Cannot connect to {self.label}: {cause or 'is the server running?'}")
        return TransportError(f"{self.label}: {str(error).partition(': ')[2] or error}")

    async def _take_error_response(self, answer: Stream, request_id: int) -> None:
        body = await self._read(answer, _MAX_ERROR_BYTES)
        error = self._error_for(answer, body)
        is_refusal = answer.status_code in (401, 405)  # of the caller or of the path, whatever the message is
        if not is_refusal and not isinstance(error, SessionEndedError) and _is_rpc_error(body):
            self._session.message(body, request_id)
        self._session.failed(request_id, error)  # no effect if the message was a response

    def _error_for(self, answer: Stream, body: bytes) -> TransportError:
        status = answer.status_code
        if status == 404 and self._session_id is not None:
            return SessionEndedError(f"{self.label} no longer knows the session", status=status)
        try:
            phrase = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            phrase = str(status)
        match status:
            case 401 if 'error="invalid_token"' in answer.headers.get("www-authenticate", ""):
                text = f"{self.label} rejected the credentials ({phrase}): wrong, expired or revoked?"
            case 401 | 403:
                text = f"{self.label} denied access ({phrase}): an Authorization header may be required"
            case 404 | 405 | 501 if self.has_request_streams:
                is_usual = self.label.endswith("/mcp")
                path = "one that is mounted has a prefix, /tools/mcp" if is_usual else "usually /mcp"
                text = f"No MCP server at {self.label} ({phrase}): check the path, {path}"
            case _:
                said = " ".join(_MARKUP.sub(" ", body[:2000].decode("utf-8", "replace")).split())[:200]
                text = f"{self.label} answered {phrase}" + (f": {said}" if said else "")
        return TransportError(text, status=status)

    async def _read(self, answer: Stream, limit: int) -> bytes:
        body = bytearray()
        try:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > limit:
                        raise InvalidResponseError(
                            f"{self.label} sent a response larger than {limit >> 20} MiB"
                        )
        except APIError as error:
            raise self._to_transport_error(error) from None
        return bytes(body)


def redact_url(address: str) -> str:
    """Return a URL for messages, without user, password and query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _resolve(base: str, reference: str) -> tuple[str, bool]:
    """Return the URL that a server refers to, and whether it has the same origin as the base."""
    try:
        target = urljoin(base, reference)
        here, there = urlsplit(base), urlsplit(target)
    except ValueError:
        return reference, False
    return target, (here.scheme, here.netloc) == (there.scheme, there.netloc)


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = codec.decode(body)
    except ValueError:
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict)


class LegacySseTransport(HttpTransport):
    """`LegacySseTransport("http://127.0.0.1:8000/sse")`: all messages come on one stream."""

    has_request_streams = False
    _reader: asyncio.Task[None] | None = None

    async def start(self, session: Session) -> None:
        await super().start(session)
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.get_running_loop().create_task(self._read_stream())
        try:
            async with asyncio.timeout(CONNECT_S):
                await asyncio.shield(self._endpoint)
        except TimeoutError:
            raise TransportError(f"{self.label} did not send the endpoint for messages") from None

    async def send(self, message: Outgoing) -> None:
        if not self._endpoint.done():
            raise TransportError(f"{self.label}: connection closed")
        async with self._open("POST", message, address=self._endpoint.result()) as answer:
            if answer.status_code >= 300:
                raise self._error_for(answer, await self._read(answer, _MAX_ERROR_BYTES))

    async def listen(self) -> bool:
        return True

    async def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            self._endpoint.cancel()
        await super().close()

    async def _read_stream(self) -> None:
        error: ClientError = TransportError(f"{self.label} closed the connection")
        try:
            async with self._open("GET", headers=_Position().headers) as answer:
                kind, status = answer.headers.get("content-type", ""), answer.status_code
                if status == 200 and kind.startswith("text/event-stream"):
                    await self._read_events(answer, _Position(), None)
                else:
                    error = TransportError(f"No MCP server at {self.label} ({status})", status=status)
        except ClientError as failure:
            error = failure
        except Exception as failure:
            logger.debug("reading events failed", exc_info=True)
            error = InvalidResponseError(f"{self.label} sent unreadable events: {type(failure).__name__}")
        if not self._endpoint.done():
            self._endpoint.set_exception(error)
            self._endpoint.exception()  # mark as retrieved: the starter may have given up
        self._session.closed(error)

    def _take(self, event: ServerSentEvent, request_id: int | None) -> None:
        if event.event != "endpoint" or self._endpoint.done():
            super()._take(event, request_id)
            return
        target, is_same_origin = _resolve(self.address, event.data)
        if is_same_origin:
            self._endpoint.set_result(target)
        else:
            text = f"{self.label} names an endpoint on another server, {redact_url(target)}"
            self._endpoint.set_exception(TransportError(text))
