"""A client of 2026-07-28 that declares the tasks extension: in this process, or over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import time
import urllib.error
import urllib.request
from typing import Any, Self

from toolcrib import MCPServer
from toolcrib.context import LOCAL, Principal
from toolcrib.transports.pipe import Pipe

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
EXTENSION = f"{META}tasks"
WAIT_S = 10.0
ENDS = ("completed", "failed", "cancelled")
YES = {"action": "accept", "content": {}}


class RefusedError(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


def make_params(params: dict[str, Any], *, declares: bool = True, **capabilities: Any) -> dict[str, Any]:
    extensions = {"extensions": {EXTENSION: {}}} if declares else {}
    meta = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientCapabilities": {"elicitation": {}, **extensions, **capabilities},
    }
    return {**params, "_meta": meta}


class TaskClient:
    """A client in this process. `notes` are the notifications that it got."""

    _pipe: Pipe

    def __init__(
        self, server: MCPServer, principal: Principal = LOCAL, *, declares: bool = True, **capabilities: Any
    ) -> None:
        self._server = server
        self._principal = principal
        self._capabilities = {"declares": declares, **capabilities}
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.notes: list[dict[str, Any]] = []

    async def __aenter__(self) -> Self:
        self._pipe = self._server.transports.connect(self._receive, self._principal)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pipe.aclose()

    def _receive(self, data: bytes) -> None:
        message = json.loads(data)
        reply = self._replies.get(message.get("id"))
        if "method" in message or reply is None:
            self.notes.append(message)
        elif not reply.done():
            reply.set_result(message)

    def send(self, method: str, **params: Any) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        """Send a request; return its id and a future with its reply."""
        id_ = next(self._ids)
        reply = self._replies[id_] = asyncio.get_running_loop().create_future()
        made = make_params(params, **self._capabilities)
        self._pipe.feed(json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": made}).encode())
        return id_, reply

    def notify(self, method: str, **params: Any) -> None:
        self._pipe.feed(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        _, reply = self.send(method, **params)
        async with asyncio.timeout(WAIT_S):
            return _result_of(await reply)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.request("tools/call", name=name, arguments=arguments)

    async def start(self, name: str, **arguments: Any) -> str:
        """Call a tool that becomes a task, and return its id."""
        created = await self.call(name, **arguments)
        assert created["resultType"] == "task", created
        id_: str = created["taskId"]
        return id_

    async def get(self, id_: str) -> dict[str, Any]:
        return await self.request("tasks/get", taskId=id_)

    async def update(self, id_: str, **answers: Any) -> dict[str, Any]:
        return await self.request("tasks/update", taskId=id_, inputResponses=answers)

    async def cancel(self, id_: str) -> dict[str, Any]:
        return await self.request("tasks/cancel", taskId=id_)

    async def until(self, id_: str, *statuses: str) -> dict[str, Any]:
        """Return the task as soon as it has one of these statuses; by default, when it has ended."""
        async with asyncio.timeout(WAIT_S):
            while (task := await self.get(id_))["status"] not in (statuses or ENDS):
                await asyncio.sleep(0.01)
        return task


class HTTPTaskClient:
    """A client over HTTP, for servers in other processes. Every request is a new connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ids = itertools.count(1)

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": make_params(params)}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "connection": "close",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            "mcp-name": params.get("name") or params.get("taskId") or "",
        }
        sent = urllib.request.Request(self._url, json.dumps(message).encode(), headers)
        try:
            with urllib.request.urlopen(sent, timeout=WAIT_S) as response:
                body = response.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        if body.startswith((b"event:", b"data:", b"id:", b":")):
            body = [line[5:] for line in body.splitlines() if line.startswith(b"data:")][-1]
        return _result_of(json.loads(body))

    def start(self, name: str, **arguments: Any) -> str:
        created = self.request("tools/call", name=name, arguments=arguments)
        assert created["resultType"] == "task", created
        id_: str = created["taskId"]
        return id_

    def get(self, id_: str) -> dict[str, Any]:
        return self.request("tasks/get", taskId=id_)

    def until(self, id_: str, *statuses: str, wait_s: float = 30.0) -> dict[str, Any]:
        """Return the task as soon as it has one of these statuses. A worker may be killed meanwhile."""
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            try:
                task = self.get(id_)
            except (OSError, http.client.HTTPException):
                continue
            if task["status"] in (statuses or ENDS):
                return task
            time.sleep(0.05)
        raise AssertionError(f"{task} is not {statuses or ENDS}")


def _result_of(message: dict[str, Any]) -> dict[str, Any]:
    if "error" in message:
        raise RefusedError(message["error"])
    result: dict[str, Any] = message["result"]
    result.pop("_meta", None)
    return result
