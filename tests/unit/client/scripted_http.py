"""A raw HTTP server on the loopback: every byte of its answers is written by a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from toolcrib.client import Client

from .scripted_server import DISCOVERED, INITIALIZED, Reply, text


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        return dict(json.loads(self.body)) if self.body else {}

    @property
    def rpc(self) -> str:
        return str(self.message.get("method", ""))


@dataclass
class Answer:
    """One answer on its way."""

    request: Request
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_over: bool = False

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        self.send(status, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def result(self, result: Any, **headers: str) -> None:
        self.json({"jsonrpc": "2.0", "id": self.request.message.get("id"), "result": result}, **headers)

    def error(self, code: int, words: str, status: int = 200, data: Any = None) -> None:
        error = {"code": code, "message": words, "data": data}
        self.json({"jsonrpc": "2.0", "id": self.request.message.get("id"), "error": error}, status)

    def start_events(self, **headers: str) -> None:
        """Events end with the connection."""
        self.is_over = True
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")

    def event(self, value: Any = None, *, number: str | None = None, retry: int | None = None) -> None:
        lines = [f"id: {number}"] if number is not None else []
        lines += [f"retry: {retry}"] if retry is not None else []
        lines += [f"data: {json.dumps(value) if value is not None else ''}", "", ""]
        self.writer.write("\n".join(lines).encode())

    def event_result(self, result: Any, request: Request | None = None, **more: Any) -> None:
        number = (request or self.request).message["id"]
        self.event({"jsonrpc": "2.0", "id": number, "result": result}, **more)

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        async with asyncio.timeout(5):
            while await self.reader.read(1024):
                pass


Act = Callable[[Answer], Awaitable[None] | None]


@dataclass
class ScriptedHTTP:
    """`async with ScriptedHTTP({"tools/call": act}) as scripted`: an act per JSON-RPC or HTTP method."""

    acts: dict[str, Act | Reply]
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    async def __aenter__(self) -> Self:
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while request := await _read(reader):
                self.requests.append(request)
                self._news.set()
                answer = Answer(request, reader, writer)
                await self._act(answer)
                await writer.drain()
                if answer.is_over:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass  # the play is over
        finally:
            writer.close()

    async def _act(self, answer: Answer) -> None:
        request = answer.request
        act = self.acts.get(request.rpc or request.method)
        if isinstance(act, dict):
            answer.result(act)
        elif act is not None:
            done = act(answer)  # type: ignore[call-arg, arg-type]
            if done is not None:
                await done
        elif request.rpc.startswith("notifications/"):
            answer.send(202)
        elif request.method in ("GET", "DELETE"):
            answer.send(405)
        else:
            answer.error(-32601, "Method not found", 404)

    def named(self, method: str) -> list[Request]:
        return [request for request in self.requests if method in (request.rpc, request.method)]

    async def wait_for(self, method: str, count: int = 1) -> Request:
        async with asyncio.timeout(5):
            while len(self.named(method)) < count:
                self._news.clear()
                await self._news.wait()
        return self.named(method)[count - 1]

    def client(self, **options: Any) -> Client:
        return Client(self.url, **{"timeout_s": 5, **options})


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def modern(**acts: Act | Reply) -> ScriptedHTTP:
    """A server of 2026-07-28 whose call answers "well"; `tools_call` is what `tools/call` does, and so on."""
    return ScriptedHTTP({"server/discover": DISCOVERED, "tools/call": text("well"), **_by_method(acts)})


def legacy(**acts: Act | Reply) -> ScriptedHTTP:
    """A scripted server of 2025-11-25 with a session."""

    def greet(answer: Answer) -> None:
        answer.result(INITIALIZED, Mcp_Session_Id="session-1")

    def bye(answer: Answer) -> None:
        answer.send(200)

    def refuse(answer: Answer) -> None:
        answer.error(-32600, "Bad Request: Missing session ID", 400)

    acts = {"server_discover": refuse, "initialize": greet, "DELETE": bye, "tools_call": text("well"), **acts}
    return ScriptedHTTP(_by_method(acts))


def _by_method(acts: dict[str, Act | Reply]) -> dict[str, Act | Reply]:
    return {name.replace("_", "/", 1): act for name, act in acts.items()}
