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

from tests.support.clients.raw_pipe import MODERN, RawPipe
from toolcrib import MCPServer
from toolcrib.context import LOCAL, Principal

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


class TaskClient(RawPipe):
    """A client in this process."""

    def __init__(
        self, server: MCPServer, principal: Principal = LOCAL, *, declares: bool = True, **capabilities: Any
    ) -> None:
        super().__init__(server, MODERN, principal)
        made = make_params({}, declares=declares, **capabilities)
        self.capabilities = made["_meta"][f"{META}clientCapabilities"]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def notes(self) -> list[dict[str, Any]]:
        """The notifications that it got."""
        return [message for message in self.messages if "method" in message]

    def send(self, method: str, **params: Any) -> tuple[int, asyncio.Future[dict[str, Any]]]:  # type: ignore[override]
        """Send a request; return its id and a future with its reply."""
        return self._begin(method, params)

    def notify(self, method: str, **params: Any) -> None:
        self._feed({"method": method, "params": params})

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        return _result_of(await self.ask(method, params))

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
