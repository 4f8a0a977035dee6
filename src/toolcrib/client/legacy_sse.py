"""HTTP+SSE transport of protocol version 2024-11-05: one event stream in, one POST per message out.

Used only where a server does not speak streamable HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from urllib.parse import urljoin, urlsplit

from toolcrib.client.http import CONNECT_S, EventReader, ServerSentEvent, TooLongError, redact_url
from toolcrib.client.transport import MAX_BYTES, DuplexTransport, Outgoing, Receiver
from toolcrib.errors import APIError, ClientError, InvalidResponseError, TransportError
from toolcrib.http_client import HTTPClient

logger = logging.getLogger("toolcrib")


class LegacySseTransport(DuplexTransport):
    """`LegacySseTransport("http://127.0.0.1:8000/sse")`."""

    def __init__(self, address: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._address = address
        self.label = redact_url(address)
        own = {"accept-encoding": "identity", "user-agent": "toolcrib-client"}
        self._http = HTTPClient(headers={**own, **(headers or {})}, max_connections=1000)
        self._session_headers: dict[str, str] = {}
        self._reader: asyncio.Task[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.get_running_loop().create_task(self._read())
        try:
            async with asyncio.timeout(CONNECT_S):
                await asyncio.shield(self._endpoint)
        except TimeoutError:
            raise TransportError(f"{self.label} did not send the endpoint for messages") from None

    def set_session_headers(self, headers: Mapping[str, str]) -> None:
        self._session_headers = dict(headers)

    async def send(self, message: Outgoing) -> None:
        if not self._endpoint.done():
            raise TransportError(f"{self.label}: connection closed")
        try:
            answer = await self._http.arequest(
                "POST",
                self._endpoint.result(),
                headers={"content-type": "application/json", **self._session_headers},
                content=message.data,
            )
        except APIError as error:
            raise TransportError(f"{self.label}: {error}") from None
        if answer.status_code >= 300:
            text = answer.content[:200].decode("utf-8", "replace").strip()
            raise TransportError(
                f"{self.label} answered {answer.status_code}: {text}", status=answer.status_code
            )

    async def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            self._endpoint.cancel()
        await self._http.aclose()

    async def _read(self) -> None:
        error: ClientError
        try:
            error = await self._read_stream()
        except APIError as failure:
            error = TransportError(f"{self.label}: {failure}")
        except TooLongError:
            error = InvalidResponseError(f"{self.label} sent an event larger than {MAX_BYTES >> 20} MiB")
        except Exception as failure:
            logger.debug("reading events failed", exc_info=True)
            error = InvalidResponseError(f"{self.label} sent unreadable events: {type(failure).__name__}")
        if not self._endpoint.done():
            self._endpoint.set_exception(error)
            self._endpoint.exception()  # mark as retrieved: the starter may have given up
        self._receiver.closed(error)

    async def _read_stream(self) -> ClientError:
        events = EventReader(MAX_BYTES)
        headers = {"accept": "text/event-stream"}
        async with self._http.stream("GET", self._address, headers=headers, timeout_s=CONNECT_S) as answer:
            kind = answer.headers.get("content-type", "")
            if answer.status_code != 200 or not kind.startswith("text/event-stream"):
                status = answer.status_code
                return TransportError(f"No MCP server at {self.label} ({status})", status=status)
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    for event in events.feed(chunk):
                        self._take(event)
        return TransportError(f"{self.label} closed the connection")

    def _take(self, event: ServerSentEvent) -> None:
        if event.name == "message" and event.data:
            self._receiver.message(event.data)
        elif event.name == "endpoint" and not self._endpoint.done():
            target = urljoin(self._address, event.data.decode("utf-8", "replace"))
            here, there = urlsplit(self._address), urlsplit(target)
            if (here.scheme, here.netloc) == (there.scheme, there.netloc):
                self._endpoint.set_result(target)
            else:
                text = f"{self.label} names an endpoint on another server, {redact_url(target)}"
                self._endpoint.set_exception(TransportError(text))
