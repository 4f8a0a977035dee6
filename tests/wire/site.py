"""The server that hostile bytes are sent to.

`touch` counts how often it has run, so that a test can say that it has not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

from toolcrib import MCPServer

ANY = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
MIRRORED = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
    },
}


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("site", version="1.0.0", instructions="Be rude.", **options)
    runs = {"touch": 0, "mirror": 0}
    gate: dict[str, asyncio.Event] = {}

    @server.tool("echo", "Give back what came.", ANY, run="inline")
    def echo(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"echo": arguments["value"]}

    @server.tool("touch", "Count a run.", {"type": "object", "properties": {}}, run="inline")
    def touch(arguments: dict[str, Any]) -> str:
        runs["touch"] += 1
        return "touched"

    @server.tool("mirror", "Repeat arguments that headers repeat.", MIRRORED, run="inline")
    def mirror(arguments: dict[str, Any]) -> dict[str, Any]:
        runs["mirror"] += 1
        return {"arguments": arguments}

    @server.tool(run="inline")
    def tally(name: str) -> int:
        """How often a tool has run."""
        return runs[name]

    @server.tool
    async def wait(key: str) -> str:
        """Wait until `release` is called with the same key."""
        await gate.setdefault(key, asyncio.Event()).wait()
        return f"waited for {key}"

    @server.tool
    async def release(key: str) -> str:
        """Let everybody go who waits for a key."""
        gate.setdefault(key, asyncio.Event()).set()
        return "released"

    @server.tool(run="inline")
    def add(a: int, b: int) -> int:
        """Add two whole numbers."""
        return a + b

    @server.tool
    def noisy(words: str) -> str:
        """Write these words wherever one can."""
        print(words)
        print(words, file=sys.stderr)
        os.write(1, words.encode() + b"\n")
        os.system(f"echo {words}")
        logging.getLogger("toolcrib").warning("%s", words)
        logging.getLogger("elsewhere").error("%s", words)
        return "quiet"

    @server.tool
    async def fail() -> str:
        """Fail in a way nobody thought of."""
        raise RuntimeError("secret words")

    return server
