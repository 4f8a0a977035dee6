"""`python -m bench.foreign LIBRARY BATCH_S`: what it costs to adopt a server of another library.

Everything is measured in one process, in turns. A plain function is called through the ASGI application of a
server of ours, once registered there and once adopted. A function with a Context, which runs through its
server's handlers, is called by `server.call` and by the in-memory client of its own library.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from bench.wire.engine import Application, spend
from bench.wire.messages import MODERN, question
from bench.wire.replies import ReplyError
from bench.wire.servers import add

TURNS = 30
WARM_UP = 50


def their_server(library: str) -> Any:
    """A server with the function of all rows, and the same with a Context."""
    # By name: the environment that checks types has no peers installed.
    module = importlib.import_module("mcp.server.mcpserver" if library == "mcp" else "fastmcp")
    is_official = library == "mcp"
    made: Any = module.MCPServer("bench", log_level="CRITICAL") if is_official else module.FastMCP("bench")

    async def add_there(a: int, b: int, ctx: Any) -> int:  # noqa: ARG001 - it makes the difference
        return a + b

    add_there.__annotations__ = {"a": int, "b": int, "ctx": module.Context, "return": int}
    made.add_tool(add)
    made.add_tool(add_there)
    return made


async def measure_plain(library: str, batch_s: float) -> float:
    """The cost of an adopted function, in calls of one that was registered."""
    applications = []
    for tools in (add, their_server(library)):
        server: Any = importlib.import_module("toolcrib").MCPServer("bench")
        server.add(tools)
        application = Application(server.asgi())
        await application.start()
        application.use(MODERN)
        applications.append(application)
    asked = question(MODERN, "add", 0).body
    replies = [await application.post(asked) for application in applications]
    if replies[0] != replies[1]:
        raise ReplyError("an adopted function has another reply")
    elapsed = await spend(applications[0].post, asked, replies[0], WARM_UP)
    repeats = max(1, round(WARM_UP * batch_s / elapsed))
    quotients = []
    for _ in range(TURNS):
        own, adopted = [
            await spend(application.post, asked, replies[0], repeats) for application in applications
        ]
        quotients.append(adopted / own)
    for application in applications:
        await application.stop()
    return statistics.median(quotients)


async def measure_bridged(library: str, batch_s: float) -> tuple[float, float]:
    """The CPU seconds of a call through the handlers of a server: by its library's client, and by us."""
    theirs = their_server(library)
    server: Any = importlib.import_module("toolcrib").MCPServer("bench")
    server.add(theirs)
    arguments = {"a": 1, "b": 2}
    client = importlib.import_module("mcp.client.client" if library == "mcp" else "fastmcp").Client(theirs)
    async with server, client:
        methods: list[Callable[..., Awaitable[Any]]] = [client.call_tool, server.call]
        calls = [partial(method, "add_there", arguments) for method in methods]
        for call in calls:
            if (await call()).structured_content not in (3, {"result": 3}):
                raise ReplyError("a wrong result")
        elapsed = await _spend(calls[0], WARM_UP)
        repeats = max(1, round(WARM_UP * batch_s / elapsed))
        rounds = [[await _spend(call, repeats) / repeats for call in calls] for _ in range(TURNS)]
    home, ours = (statistics.median(figures) for figures in zip(*rounds, strict=True))
    return home, ours


async def _spend(call: Callable[[], Awaitable[Any]], repeats: int) -> float:
    begin = time.process_time()
    for _ in range(repeats):
        await call()
    return time.process_time() - begin


def main() -> None:
    library, batch_s = sys.argv[1], float(sys.argv[2])
    logging.disable(logging.CRITICAL)
    plain = asyncio.run(measure_plain(library, batch_s))
    home, ours = asyncio.run(measure_bridged(library, batch_s))
    print(json.dumps({"plain": plain, "home_s": home, "bridged_s": ours, "bridged": ours / home}))


if __name__ == "__main__":
    main()
