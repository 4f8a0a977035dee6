"""A link to a server of 2024-11-05: one stream of events in, a POST to the address it names for each message.

Knows that pair of requests and nothing of what they carry. Streamable HTTP is tried first: this is what
remains where a server has only the old way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from urllib.parse import urljoin, urlsplit

from toolcrib.client.http import CONNECT_S, Event, Events, TooLongError, show_address
from toolcrib.client.link import MAX_BYTES, Duplex, Inbox, Outgoing
from toolcrib.errors import APIError, BadAnswerError, ClientError, LinkError
from toolcrib.http_client import Outbound

logger = logging.getLogger("toolcrib")


class PairLink(Duplex):
    """`PairLink("http://127.0.0.1:8000/sse")`."""

    def __init__(self, address: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._address = address
        self.place = show_address(address)
        own = {"accept-encoding": "identity", "user-agent": "toolcrib-client"}
        self._outbound = Outbound(headers={**own, **(headers or {})}, max_connections=1000)
        self._standing: dict[str, str] = {}
        self._reader: asyncio.Task[None] | None = None

    async def start(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.get_running_loop().create_task(self._read())
        try:
            async with asyncio.timeout(CONNECT_S):
                await asyncio.shield(self._endpoint)
        except TimeoutError:
            raise LinkError(f"{self.place} does not say where to send messages") from None

    def settle(self, headers: Mapping[str, str]) -> None:
        self._standing = dict(headers)

    async def send(self, message: Outgoing) -> None:
        if not self._endpoint.done():
            raise LinkError(f"{self.place}: the connection is closed")
        try:
            answer = await self._outbound.arequest(
                "POST",
                self._endpoint.result(),
                headers={"content-type": "application/json", **self._standing},
                content=message.data,
            )
        except APIError as error:
            raise LinkError(f"{self.place}: {error}") from None
        if answer.status_code >= 300:
            words = answer.content[:200].decode("utf-8", "replace").strip()
            raise LinkError(f"{self.place} answered {answer.status_code}: {words}", status=answer.status_code)

    async def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            self._endpoint.cancel()
        await self._outbound.aclose()

    async def _read(self) -> None:
        error: ClientError
        try:
            error = await self._read_stream()
        except APIError as failure:
            error = LinkError(f"{self.place}: {failure}")
        except TooLongError:
            error = BadAnswerError(f"{self.place} sent more than {MAX_BYTES >> 20} MiB at once")
        except Exception as failure:
            logger.debug("reading events failed", exc_info=True)
            error = BadAnswerError(f"{self.place} sent what cannot be read: {type(failure).__name__}")
        if not self._endpoint.done():
            self._endpoint.set_exception(error)
            self._endpoint.exception()  # seen: whoever started may have given up
        self._inbox.closed(error)

    async def _read_stream(self) -> ClientError:
        events = Events(MAX_BYTES)
        headers = {"accept": "text/event-stream"}
        async with self._outbound.stream(
            "GET", self._address, headers=headers, timeout_s=CONNECT_S
        ) as answer:
            kind = answer.headers.get("content-type", "")
            if answer.status_code != 200 or not kind.startswith("text/event-stream"):
                status = answer.status_code
                return LinkError(f"there is no MCP server at {self.place} ({status})", status=status)
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    for event in events.feed(chunk):
                        self._take(event)
        return LinkError(f"{self.place} closed the connection")

    def _take(self, event: Event) -> None:
        if event.name == "message" and event.data:
            self._inbox.message(event.data)
        elif event.name == "endpoint" and not self._endpoint.done():
            target = urljoin(self._address, event.data.decode("utf-8", "replace"))
            here, there = urlsplit(self._address), urlsplit(target)
            if (here.scheme, here.netloc) == (there.scheme, there.netloc):
                self._endpoint.set_result(target)
            else:
                words = f"{self.place} wants messages sent to another server, {show_address(target)}"
                self._endpoint.set_exception(LinkError(words))
