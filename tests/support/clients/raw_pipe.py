"""A client in the process of the server that sends JSON-RPC as it is told, in either era.

It keeps every message that comes back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from toolcrib import MCPServer
from toolcrib.context import LOCAL, Principal

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
TIMEOUT_S = 10.0


class RawPipe:
    """One client. `version` is the revision it speaks; a legacy one is initialized by `open`."""

    def __init__(self, server: MCPServer, version: str = MODERN, principal: Principal = LOCAL) -> None:
        self.version = version
        self.capabilities: Mapping[str, Any] = {}
        self.offered: Mapping[str, Any] = {}  # the capabilities of the server
        self.meta: dict[str, Any] = {}
        self.heard: list[bytes] = []
        self.messages: list[dict[str, Any]] = []
        self._arrived = asyncio.Event()
        self._number = 0
        self._replies: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._pipe = server.transports.connect(self._hear, principal)

    def _hear(self, data: bytes) -> None:
        self.heard.append(data)
        self._keep(json.loads(data))

    def _keep(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self._arrived.set()
        reply = None if "method" in message else self._replies.pop(message.get("id"), None)
        if reply is not None and not reply.done():
            reply.set_result(message)

    async def open(self, capabilities: Mapping[str, Any]) -> None:
        """Initialize a legacy client, or discover the server of a modern one."""
        self.capabilities = capabilities
        if self.version == MODERN:
            found = await self.ask("server/discover")
        else:
            info = {"name": "raw", "version": "1"}
            opening = {"protocolVersion": self.version, "capabilities": capabilities, "clientInfo": info}
            found = await self.ask("initialize", opening)
            self._feed({"method": "notifications/initialized"})
        self.offered = found["result"]["capabilities"]

    def send(self, message: Mapping[str, Any]) -> None:
        self._feed(message)

    def _feed(self, message: Mapping[str, Any]) -> None:
        self._pipe.feed(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def begin(self, method: str, params: Mapping[str, Any] | None = None, id_: Any = None) -> Any:
        """Send a request; return its id."""
        return self._begin(method, params, id_)[0]

    def _begin(
        self, method: str, params: Mapping[str, Any] | None = None, id_: Any = None
    ) -> tuple[Any, asyncio.Future[dict[str, Any]]]:
        self._number += id_ is None
        id_ = self._number if id_ is None else id_
        content = dict(params or {})
        meta = {**self.meta, **content.get("_meta", {})}
        if self.version == MODERN:
            meta |= {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": self.capabilities}
            meta[PREFIX + "clientInfo"] = {"name": "raw", "version": "1"}
        if meta:
            content["_meta"] = meta
        reply = self._replies[id_] = asyncio.get_running_loop().create_future()
        self._feed({"id": id_, "method": method, "params": content})
        return id_, reply

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the reply to a request."""
        _, reply = self._begin(method, params)
        async with asyncio.timeout(TIMEOUT_S):
            return await reply

    async def result(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        reply = await self.ask(method, params)
        assert "result" in reply, reply
        return dict(reply["result"])

    async def error(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        reply = await self.ask(method, params)
        assert "error" in reply, reply
        return dict(reply["error"])

    async def notice(self, method: str) -> dict[str, Any]:
        """Return the next message of a method, and drop it."""
        found = await self.find(lambda message: message.get("method") == method)
        self.messages.remove(found)
        return found

    async def find(self, is_meant: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                for message in self.messages:
                    if is_meant(message):
                        return message
                self._arrived.clear()
                await self._arrived.wait()

    async def close(self) -> None:
        await self._pipe.aclose()

    def seen(self, method: str) -> list[dict[str, Any]]:
        """Return the messages of a method that are here now."""
        return [message for message in self.messages if message.get("method") == method]


@asynccontextmanager
async def raw_pipe(
    server: MCPServer,
    version: str = MODERN,
    *,
    capabilities: Mapping[str, Any] | None = None,
    principal: Principal = LOCAL,
) -> AsyncIterator[RawPipe]:
    """Yield a client of a server, which is started if it does not run."""
    is_own = not server._running
    if is_own:
        await server.start()
    try:
        pipe = RawPipe(server, version, principal)
        await pipe.open(capabilities or {})
        try:
            yield pipe
        finally:
            await pipe.close()
    finally:
        if is_own:
            await server.stop()
