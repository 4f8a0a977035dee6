"""Middleware: code of your own around every call.

python examples/middleware.py
"""

from __future__ import annotations

import asyncio
import time

from toolcrib import MCPServer, Result
from toolcrib.dispatch.middleware import Call, Next

server = MCPServer("sums")
slowest: dict[str, float] = {}


@server.middleware
async def measure(call: Call, next: Next) -> Result:
    """Keep the longest time of each tool."""
    started = time.perf_counter()
    try:
        return await next(call)
    finally:
        name = call.tool.name
        slowest[name] = max(slowest.get(name, 0), time.perf_counter() - started)


@server.tool(read_only=True)
def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: First number
        b: Second number

    Returns:
        The sum
    """
    return a + b


async def main() -> None:
    async with server.connect() as client:
        result = await client.call("add", {"a": 2, "b": 3})
        print(result.text)
    for name, seconds in slowest.items():
        print(f"{name}: {seconds * 1000:.1f} ms at most")


if __name__ == "__main__":
    asyncio.run(main())
