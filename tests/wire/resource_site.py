"""A server with resources and prompts, for tests over HTTP and stdio."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from toolcrib import MCPServer

FOLDER = "TOOLCRIB_TEST_FOLDER"


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("shop", **options)

    @server.tool
    async def change(uri: str) -> str:
        """Announce that a resource has changed."""
        await server.resource_changed(uri)
        return uri

    server.add_resource("shop://hours", "9 to 5")
    server.add_resource("shop://a%20b/%C3%A9?x=1", "spaced")

    @server.resource("shop://orders/{id}")
    def order(id: int) -> dict[str, int]:
        """One order."""
        return {"id": id}

    @server.prompt
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    if FOLDER in os.environ:
        server.add_resource("docs://", Path(os.environ[FOLDER]))
    return server
