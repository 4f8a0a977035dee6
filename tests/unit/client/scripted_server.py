"""A scripted server in memory that records the messages it receives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from toolcrib.client import Client, MemoryTransport

Reply = dict[str, Any] | Callable[["ScriptedServer", dict[str, Any]], Any]

META = "io.modelcontextprotocol/"
DISCOVERED: dict[str, Any] = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}, "logging": {}},
    "_meta": {f"{META}serverInfo": {"name": "scripted", "version": "1"}},
}
INITIALIZED: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}, "logging": {}},
    "serverInfo": {"name": "scripted", "version": "1"},
    "instructions": "Be kind.",
}
MODERN: dict[str, Reply] = {"server/discover": DISCOVERED}
LEGACY: dict[str, Reply] = {"initialize": INITIALIZED, "ping": {}, "logging/setLevel": {}}


class ScriptedServer:
    """`ScriptedServer({"tools/call": {...}})`: a reply is a result or a function."""

    def __init__(self, replies: dict[str, Reply]) -> None:
        self.replies = replies
        self.heard: list[dict[str, Any]] = []
        self.is_open = False
        self._news = asyncio.Event()

    # --- the pipe ---

    def open(self, send: Callable[[bytes], None]) -> ScriptedServer:
        self.is_open = True
        self._send = send
        return self

    def feed(self, data: bytes) -> None:
        message = json.loads(data)
        self.heard.append(message)
        self._news.set()
        reply = self.replies.get(message.get("method", ""))
        if callable(reply):
            reply(self, message)
        elif reply is not None and "id" in message:
            self.answer(message, reply)
        elif "id" in message and "method" in message:
            self.refuse(message, -32601, "Method not found")

    async def aclose(self) -> None:
        self.is_open = False

    # --- what it says ---

    def say(self, message: Any) -> None:
        self.say_raw(json.dumps(message).encode())

    def say_raw(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._send, data)

    def answer(self, message: dict[str, Any], result: Any) -> None:
        self.say({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def refuse(self, message: dict[str, Any], code: int, words: str, data: Any = None) -> None:
        error = {"code": code, "message": words} | ({} if data is None else {"data": data})
        self.say({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def notify(self, method: str, **params: Any) -> None:
        self.say({"jsonrpc": "2.0", "method": method, "params": params})

    # --- what it heard ---

    def named(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.heard if message.get("method") == method]

    async def wait_for(self, method: str, count: int = 1) -> dict[str, Any]:
        """The message, once it has come `count` times."""
        async with asyncio.timeout(5):
            while len(self.named(method)) < count:
                self._news.clear()
                await self._news.wait()
        return self.named(method)[count - 1]

    async def wait_for_reply(self, number: Any) -> dict[str, Any]:
        """What the client replied to a request of the server's."""
        async with asyncio.timeout(5):
            while True:
                for message in self.heard:
                    if "method" not in message and message.get("id") == number:
                        return message
                self._news.clear()
                await self._news.wait()

    def client(self, **options: Any) -> Client:
        return Client(MemoryTransport(self.open, "scripted"), **{"timeout_s": 5, **options})


def text(words: str) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": words}]}


def modern(**replies: Reply) -> ScriptedServer:
    """A scripted server of 2026-07-28; `tools_call` is the reply to `tools/call`, and so on."""
    return ScriptedServer({**MODERN, **_by_method(replies)})


def legacy(**replies: Reply) -> ScriptedServer:
    """A scripted server of 2025-11-25."""
    return ScriptedServer({**LEGACY, **_by_method(replies)})


def both(**replies: Reply) -> list[ScriptedServer]:
    return [modern(**replies), legacy(**replies)]


def _by_method(replies: dict[str, Reply]) -> dict[str, Reply]:
    return {name.replace("_", "/", 1): reply for name, reply in replies.items()}


def silence(scripted: ScriptedServer, message: dict[str, Any]) -> None:
    """A reply that never comes."""
