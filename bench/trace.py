"""`python -m bench.trace`: the Python functions that one HTTP call runs, from the socket to the tool and
back.

Starts a server in this process, warms it up over a real socket, and traces one more call of a plain async
tool on the same connection. Prints every function of toolcrib in the order it was called, and three counts:
how many functions were called, in how many modules, and how often the call came back to a module that it had
left. `--policy` traces the call with a rule on an argument, a rate, a concurrency limit and the audit log;
`--markdown` prints the same as a section for docs/architecture.md.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import socket
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from bench.wire.messages import ERAS, LEGACY, MODERN, Era, initialize, initialized, post, question
from bench.wire.replies import check, message_of, split

WARM_UP = 50


@dataclass(frozen=True)
class Step:
    """One call of a Python function."""

    module: str
    function: str
    depth: int


class Tracer:
    """Records the functions of one package that a thread calls while it is on."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.is_on = False
        self.steps: list[Step] = []
        self._names: dict[CodeType, str | None] = {}
        self._depth = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            module = self._module_of(frame.f_code)
            if module is not None and self.is_on:
                self.steps.append(Step(module, frame.f_code.co_qualname, self._depth))
                self._depth += 1
        elif event == "return" and self._depth and self._module_of(frame.f_code) is not None:
            self._depth -= 1

    def _module_of(self, code: CodeType) -> str | None:
        if code not in self._names:
            inside = code.co_filename.startswith(self._folder + os.sep)
            name = os.path.relpath(code.co_filename, self._folder).removesuffix(".py").replace(os.sep, ".")
            self._names[code] = name.removesuffix(".__init__") if inside else None
        return self._names[code]


def trace(era: Era, *, policy: bool = False) -> list[Step]:
    """The steps of one call over HTTP on a connection that has served others before. `policy`: with a rule
    on an argument, a rate, a concurrency limit and the audit log."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_trace(era, make_policy(Path(folder)) if policy else None))


def make_policy(folder: Path) -> Any:
    """Return one of everything that a policy can demand of a call."""
    from toolcrib.policy import Audit, Limit, Policy, Rule

    return Policy(
        rules=[Rule(allow=["add"]), Rule(deny=["add"], when={"a": {"above": 1_000_000_000}})],
        limits=[Limit(rate="500000/s", burst=1_000_000), Limit(concurrency=1000, per="tool")],
        audit=Audit(folder / "audit.db"),
    )


async def _trace(era: Era, policy: Any) -> list[Step]:
    toolcrib: Any = importlib.import_module("toolcrib")
    logging.getLogger("toolcrib").setLevel(logging.WARNING)
    server: Any = toolcrib.MCPServer("trace", policy=policy)

    async def add(a: int, b: int) -> int:
        return a + b

    server.add(add)
    addresses: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        server.run("http", port=0, ready=addresses.set_result, catches_signals=False)
    )
    await asyncio.wait([serving, addresses], return_when=asyncio.FIRST_COMPLETED)
    port = int((await addresses)[0].rpartition(":")[2].partition("/")[0])
    tracer = Tracer(os.path.dirname(toolcrib.__file__))
    try:
        sys.setprofile(tracer)
        await asyncio.to_thread(_call, port, era, tracer, asyncio.get_running_loop())
    finally:
        sys.setprofile(None)
        serving.cancel()
        await asyncio.wait([serving])
    return tracer.steps


def _call(port: int, era: Era, tracer: Tracer, loop: asyncio.AbstractEventLoop) -> None:
    """The client, on a thread of its own; the profile function is that of the server's thread alone."""

    def switch(is_on: bool) -> None:
        """Turn the tracer on or off once the server has done all that it had to do."""
        switched = threading.Event()

        def set_now() -> None:
            tracer.is_on = is_on
            switched.set()

        loop.call_soon_threadsafe(set_now)
        switched.wait()

    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:

        def exchange(request: bytes) -> Any:
            connection.sendall(request)
            data = b""
            while (reply := split(data)) is None:
                data += connection.recv(65536)
            return reply

        session = None
        if era == LEGACY:
            reply = exchange(post(port, initialize(), era, method="initialize"))
            session = reply.headers.get("mcp-session-id")
            exchange(post(port, initialized(), era, method="notifications/initialized", session=session))
        for number in range(WARM_UP + 1):
            asked = question(era, "add", number)
            if number == WARM_UP:
                switch(True)
            reply = exchange(post(port, asked.body, era, method="tools/call", name="add", session=session))
            check(message_of(reply), asked)
        switch(False)


@dataclass(frozen=True)
class Counts:
    """The length of a path, and how straight it is."""

    functions: int
    modules: int
    returns: int


MOST = {False: Counts(42, 16, 12), True: Counts(80, 20, 20)}
"""The ceilings of a call of 2026-07-28, without and with a policy: see tests/unit/test_traced_call.py."""


def count(steps: list[Step]) -> Counts:
    """Count functions, modules, and how often the path comes back to a module that it had left."""
    visited: list[str] = []
    for step in steps:
        if not visited or visited[-1] != step.module:
            visited.append(step.module)
    return Counts(len(steps), len(set(visited)), len(visited) - len(set(visited)))


def as_text(steps: list[Step]) -> str:
    lines = []
    before = ""
    for step in steps:
        shown = step.module if step.module != before else ""
        lines.append(f"{shown:28} {'  ' * step.depth}{step.function}")
        before = step.module
    return "\n".join(lines)


def as_markdown(steps: list[Step]) -> str:
    """A numbered list: one entry for each stay in a module, with the functions that ran there."""
    lines = []
    before = ""
    for step in steps:
        if step.module != before:
            lines.append(f"1. `{step.module}`: `{step.function}`")
            before = step.module
        else:
            lines[-1] += f", `{step.function}`"
    return "\n".join(lines)


def summary(era: Era, steps: list[Step]) -> str:
    counts = count(steps)
    return (
        f"{era}: {counts.functions} functions in {counts.modules} modules, "
        f"{counts.returns} returns to a module left before"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.trace", description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="print a section for docs/architecture.md")
    parser.add_argument("--era", choices=ERAS, default=MODERN, help="the revision of the call")
    parser.add_argument("--policy", action="store_true", help="the call with a policy around it")
    options = parser.parse_args()
    steps = trace(options.era, policy=options.policy)
    print(as_markdown(steps) if options.markdown else as_text(steps))
    print()
    print(summary(options.era, steps))


if __name__ == "__main__":
    main()
