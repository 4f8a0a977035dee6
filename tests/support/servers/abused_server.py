"""A server for abuse tests, run as a separate process on our own HTTP server or on ASGI.

    python tests/support/servers/abused_server.py --http-stack own|asgi --port 0 [--header-s 10 ...] [--stdio]
                                   [--audit FILE] [--keys FILE] [--places COUNT]

Prints its port once it listens. Its tools report on standard error how each call ended.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import subprocess
import sys
import time

from toolcrib import Context, MCPServer, ToolError
from toolcrib.policy import Audit, Auth, Limit, Policy
from toolcrib.transports.http.server import Timeouts, bind

server = MCPServer("served", dynamic=True)


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


@server.tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@server.tool
def increment(a: int) -> int:
    """Add one, on a thread."""
    return a + 1


@server.tool
async def slow(seconds: float = 1.0) -> str:
    """Wait without blocking."""
    say("slow begun")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        say("slow cancelled")
        raise
    say("slow ended")
    return "slept"


@server.tool
async def chatter(ctx: Context, seconds: float = 30.0) -> str:
    """Report progress until it ends."""
    say("chatter begun")
    try:
        for number in range(int(seconds / 0.02)):
            await ctx.progress(number + 1)
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        say("chatter cancelled")
        raise
    return "done"


@server.tool
def block(ctx: Context, seconds: float = 1.0) -> str:
    """Block a thread, and check now and then whether the call was cancelled."""
    say("block begun")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ctx.cancelled:
            say("block saw that no caller waits")
            return "stopped"
        time.sleep(0.01)
    say("block ended")
    return "blocked"


def child(seconds: float = 30.0) -> str:
    """Block a process."""
    say(f"child {os.getpid()}")
    time.sleep(seconds)
    return "never"


server.add(child, run="process")


@server.tool
async def large(size: int = 10_000_000) -> str:
    """Return that many letters."""
    return "x" * size


@server.tool
def boom(depth: int = 200) -> str:
    """Raise from deep down."""
    if depth:
        return boom(depth - 1)
    raise RuntimeError("boom")


@server.tool
def recurse() -> str:
    """Never end."""
    return recurse()


@server.tool
def refuse() -> str:
    """Refuse."""
    raise ToolError("no")


@server.tool
def leave() -> str:
    """Exit."""
    raise SystemExit(3)


@server.tool
def noisy(way: str = "print") -> str:
    """Write where the protocol is."""
    if way == "print":
        print("noise from print")
    elif way == "descriptor":
        os.write(1, b"noise from a descriptor\n")
    elif way == "child":
        subprocess.run([sys.executable, "-c", "print('noise from a child')"], check=True)
    elif way == "stdin":
        return repr(sys.stdin.read())
    else:
        os.system("echo noise from a shell")
    return "quiet"


@server.tool
async def leak() -> dict[str, int]:
    """Return the resources that this process has in use."""
    runner = server.dispatcher.runner
    return {"abandoned": runner.abandoned, "running": server.transports.engine.running}


def demand(options: argparse.Namespace) -> None:
    """Apply a policy to the server if the command line asks for one."""
    if options.audit is None and options.keys is None and options.places is None:
        return
    server.enforce(
        Policy(
            audit=None if options.audit is None else Audit(options.audit),
            auth=None if options.keys is None else Auth(keys=options.keys),
            limits=() if options.places is None else [Limit(concurrency=options.places, tools=["block"])],
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http-stack", default="own", choices=["own", "asgi"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--audit")
    parser.add_argument("--keys")
    parser.add_argument("--places", type=int)
    for field in dataclasses.fields(Timeouts):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=float, default=field.default)
    options = parser.parse_args()
    demand(options)
    if options.stdio:
        server.run("stdio")
        return
    sockets = bind("127.0.0.1", options.port)
    port = sockets[0].getsockname()[1]
    sockets[0].listen(1024)  # from now on who comes early waits
    if options.http_stack == "own":
        names = [field.name for field in dataclasses.fields(Timeouts)]
        times = Timeouts(**{name: getattr(options, name) for name in names})
        print(port, flush=True)
        server.run("http", sockets=sockets, times=times)
        return
    import uvicorn

    config = uvicorn.Config(server.asgi(), log_level="warning", timeout_graceful_shutdown=10)
    print(port, flush=True)
    asyncio.run(uvicorn.Server(config).serve(sockets=sockets))


if __name__ == "__main__":
    main()
