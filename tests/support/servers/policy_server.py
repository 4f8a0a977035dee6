"""A server with a policy, and clients of any revision in the same process.

The tools end in every way that a call can end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from tests.support.clients.raw_pipe import MODERN, TIMEOUT_S, RawPipe
from toolcrib import Context, MCPServer, ToolError
from toolcrib.context import LOCAL, Principal
from toolcrib.policy import Audit, Policy
from toolcrib.policy.audit import open_log

LIVE = ("2025-06-18", "2025-11-25")
"""The revisions whose clients are asked while the call waits."""
META = "io.modelcontextprotocol/"
CONFIRM = "toolcrib.confirm"
YES = {"action": "accept", "content": {}}
NO = {"action": "decline"}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ANA, BEN = Principal("key:ana"), Principal("key:ben")


class Bench:
    """A server, a record of what its tools did, and its audit file."""

    def __init__(self, folder: Path, *, audit: bool = True, wait_s: float = 2.0, **demands: Any) -> None:
        self.file = folder / "audit.db"
        if audit:
            demands.setdefault("audit", Audit(self.file, wait_s=wait_s))
        self.runs: Counter[str] = Counter()
        self.entered = threading.Event()
        self.release = threading.Event()
        self.server = MCPServer("bench", version="1.0.0", policy=Policy(**demands))
        _add_tools(self)

    @property
    def enforcer(self) -> Any:
        return self.server.enforcer

    def records(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the audit records, by default those of calls."""
        wanted = kinds or ("call",)
        return [record for record in open_log(self.file).records() if record["kind"] in wanted]

    def outcomes(self) -> list[str]:
        return [record["outcome"] for record in self.records()]


def _add_tools(bench: Bench) -> None:
    server, runs = bench.server, bench.runs

    @server.tool(run="inline", aliases=["plus"])
    def add(a: int, b: int = 1) -> int:
        """Add two whole numbers."""
        runs["add"] += 1
        return a + b

    @server.tool(destructive=True)
    async def wipe(what: str, ctx: Context) -> str:
        """Wipe something."""
        runs["wipe"] += 1
        return f"{ctx.principal.name} wiped {what}"

    @server.tool(audit="required")
    async def pay(amount: int) -> str:
        """Pay an amount."""
        runs["pay"] += 1
        return f"paid {amount}"

    @server.tool(scopes=["orders:write"])
    async def order(item: str) -> str:
        """Order something."""
        runs["order"] += 1
        return f"ordered {item}"

    @server.tool
    async def greet(ctx: Context) -> str:
        """Ask for a name, and greet."""
        runs["greet"] += 1
        answer = await ctx.ask("who", "What is your name?", NAME)
        return f"Hello, {answer['name']}!" if answer else f"They {answer.action}."

    @server.tool
    async def wait(seconds: float = 30.0) -> str:
        """Wait without blocking."""
        runs["wait"] += 1
        bench.entered.set()
        await asyncio.sleep(seconds)
        return "waited"

    @server.tool
    def block() -> str:
        """Block a thread until it is released."""
        runs["block"] += 1
        bench.entered.set()
        bench.release.wait(TIMEOUT_S)
        return "blocked"

    _add_failures(server)


def _add_failures(server: MCPServer) -> None:
    @server.tool
    def refuse() -> str:
        """Say no."""
        raise ToolError("no")

    @server.tool
    def crash() -> str:
        """Fail in a way nobody thought of."""
        raise RuntimeError("secret words")

    @server.tool
    async def long(size: int = 1000) -> str:
        """Return that many letters."""
        return "x" * size

    @server.tool(timeout_s=0.02)
    async def late() -> str:
        """Take too long."""
        await asyncio.sleep(TIMEOUT_S)
        return "never"

    server.add(sleep_apart, run="process")


def sleep_apart(seconds: float = 0.0) -> str:
    """Sleep in a worker process."""
    time.sleep(seconds)
    return "slept"


@asynccontextmanager
async def open_bench(folder: Path, **demands: Any) -> AsyncIterator[Bench]:
    bench = Bench(folder, **demands)
    async with bench.server:
        try:
            yield bench
        finally:
            bench.release.set()


class Voice(RawPipe):
    """One client at the other end of a pipe. `asked` has the questions of the server while a call waits."""

    def __init__(
        self, server: MCPServer, version: str = MODERN, principal: Principal = LOCAL, **capabilities: Any
    ) -> None:
        super().__init__(server, version, principal)
        self.capabilities = capabilities
        self.asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        if self.version != MODERN:
            await self.open(self.capabilities)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _keep(self, message: dict[str, Any]) -> None:
        super()._keep(message)
        if "method" in message and "id" in message:
            self.asked.put_nowait(message)

    def begin_call(
        self, name: str, arguments: Any = None, id_: Any = None, **more: Any
    ) -> asyncio.Future[dict[str, Any]]:
        """Make a call without waiting for its reply."""
        return self._begin("tools/call", {"name": name, "arguments": arguments or {}, **more}, id_)[1]

    async def call(self, name: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
        """Make a call and return its reply."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self.begin_call(name, arguments, **more)

    async def text(self, name: str, arguments: Any = None, **more: Any) -> str:
        found: str = (await self.call(name, arguments, **more))["result"]["content"][0]["text"]
        return found

    async def state(self, name: str, arguments: Any = None, **more: Any) -> str:
        """The sealed state of a call that ends with a question."""
        result = (await self.call(name, arguments, **more))["result"]
        assert result["resultType"] == "input_required", result
        found: str = result["requestState"]
        return found

    def cancel(self, id_: Any) -> None:
        params: dict[str, Any] = {"requestId": id_}
        if self.version == MODERN:
            params["_meta"] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
        self._feed({"method": "notifications/cancelled", "params": params})

    def reply(self, id_: Any, result: Any) -> None:
        """Answer a question of the server."""
        self._feed({"id": id_, "result": result})

    async def names(self) -> list[str]:
        return [tool["name"] for tool in (await self.ask("tools/list", {}))["result"]["tools"]]


async def until(is_so: Any, explain: str = "it never came about") -> None:
    """Poll for something that happens on another thread."""
    end = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < end, explain
        await asyncio.sleep(0.002)
