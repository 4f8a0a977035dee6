"""The server whose time is measured, and the client whose time it is measured against.

    python -m tests.support.costing PORT COUNT < request

sends a request again and again with as little work as Python can do, and prints the seconds of processor time
that it took, and the statuses that came.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from toolcrib import Context, MCPServer, ToolError


class Point(BaseModel):
    x: float
    y: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


def make_server() -> MCPServer:
    server = MCPServer("costing")

    @server.tool(run="inline")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool(run="inline")
    def echo(value: Any) -> str:
        """Take anything, and say little of it."""
        return type(value).__name__

    @server.tool(run="inline")
    def total(value: list[float]) -> float:
        """Add many."""
        return sum(value)

    @server.tool(run="inline")
    def points(value: list[Point]) -> int:
        """Count points."""
        return len(value)

    @server.tool(run="inline")
    def choose(value: Square | Circle | Point) -> str:
        """Take one of several."""
        return type(value).__name__

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
    def tangle() -> str:
        """Raise while dealing with another error, many times over."""
        error: BaseException | None = None
        for number in range(100):
            new = ValueError(f"error {number}")
            new.__context__ = error
            error = new
        raise error or ValueError

    @server.tool
    def chain() -> str:
        """Raise many errors at once."""
        raise ExceptionGroup("many", [ValueError(str(number)) for number in range(500)])

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        return str(await ctx.ask("who", "Who?"))

    _ = Annotated[int, Field()]
    return server


def main(port: int, count: int) -> None:
    request = sys.stdin.buffer.read()
    seen: Counter[str] = Counter()
    buffer = bytearray(1 << 20)
    connection = _connect(port)
    began = time.process_time()
    for _ in range(count):
        if connection is None:
            connection = _connect(port)
        status, keeps = _ask(connection, request, buffer)
        seen[status] += 1
        if not keeps:
            connection.close()
            connection = None
    took = time.process_time() - began
    print(json.dumps({"cpu_s": took, "seen": seen}))


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _ask(connection: socket.socket, request: bytes, buffer: bytearray) -> tuple[str, bool]:
    try:
        connection.sendall(request)
    except OSError:
        pass  # it does not take all of it, but has answered
    try:
        size = connection.recv_into(buffer)
    except OSError:
        return "none", False
    head, _, _ = bytes(buffer[:4096]).partition(b"\r\n\r\n")
    if not size:
        return "none", False
    lower = head.lower()
    place = lower.find(b"content-length: ")
    if place < 0 or b"connection: close" in lower:
        return head[9:12].decode("latin-1"), False
    whole = len(head) + 4 + int(lower[place + 16 :].split(b"\r", 1)[0])
    while size < whole:
        size += connection.recv_into(buffer)
    return head[9:12].decode("latin-1"), True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
