"""Shared parts of the agent tests: tools, model programs, and a list of running child processes."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from pathlib import Path
from typing import Any

from toolcrib import MCPServer, ToolError
from toolcrib.agents import AgentRunner, Event, Limits

LINE_MODEL = Path(__file__).with_name("line_model.py")
QUICK = Limits(turn_s=10, answer_s=20, tool_s=5)


class Bench:
    """A server with a few tools, which records how the waiting tool ended."""

    def __init__(self) -> None:
        self.server = MCPServer("bench")
        self.begun = asyncio.Event()
        self.ended: list[str] = []
        self.together = 0
        server = self.server

        @server.tool(run="inline")
        def add(a: int, b: int = 1) -> int:
            """Add two whole numbers.

            Example: add(a=2, b=3)
            """
            return a + b

        @server.tool(run="inline")
        def fail() -> str:
            """Refuse."""
            raise ToolError("not today")

        @server.tool(run="inline")
        def crash() -> str:
            """Fail unexpectedly."""
            raise RuntimeError("secret words")

        @server.tool(run="inline")
        def letters(count: int) -> str:
            """So many letters."""
            return "x" * count

        @server.tool
        async def wait() -> str:
            """Wait until somebody ends it."""
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.ended.append("wait")
                raise
            return "never"

        @server.tool
        async def meet(name: str) -> str:
            """Wait for the other one."""
            self.together += 1
            if self.together == 2:
                self.begun.set()
            await self.begun.wait()
            return f"{name} was there"


def line_runner(bench: Bench, manner: str, *, limits: Limits = QUICK, **options: Any) -> AgentRunner:
    """Return a runner whose model is `line_model.py` with this behaviour."""
    command = [sys.executable, "-S", str(LINE_MODEL), manner]
    options.setdefault("grace_s", 0.5)
    return AgentRunner(bench.server, provider="gemini_cli", command=command, limits=limits, **options)


async def collect(runner: AgentRunner, text: str = "What is 2 and 3?") -> list[Event]:
    return [event async for event in runner.send(text)]


def is_gone(pid: int, timeout_s: float = 5.0) -> bool:
    """Return whether a process has ended or ends within a moment; a zombie counts as ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], timeout_s)[0])
    finally:
        os.close(descriptor)


def children() -> set[int]:
    """Return the child processes of this one that still run."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(") ")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == os.getpid() and state != "Z":
                found.add(int(entry.name))
    return found
