"""A low-level server of the official SDK 1.x: decorated handlers for listing and calling."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import ImageContent, TextContent, Tool


@asynccontextmanager
async def open_books(_):
    yield {"books": ["red", "blue"]}


server = Server("low", lifespan=open_books)
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@server.list_tools()
async def list_tools() -> list[Tool]:
    return [
        Tool(name="echo", description="Return the text.", inputSchema=TEXT),
        Tool(name="draw", description="Return a picture.", inputSchema={"type": "object"}),
        Tool(name="books", description="Return the books.", inputSchema={"type": "object"}),
        Tool(name="fail", description="Fail.", inputSchema=TEXT),
    ]


@server.call_tool()
async def call_tool(name: str, arguments: dict) -> list:
    if name == "echo":
        session = server.request_context.session
        await session.send_log_message(level="info", data="echoing")
        return [TextContent(type="text", text=arguments["text"])]
    if name == "draw":
        return [ImageContent(type="image", data="iVBORw==", mimeType="image/png")]
    if name == "books":
        books = server.request_context.lifespan_context["books"]
        return [TextContent(type="text", text=book) for book in books]
    if name == "fail":
        raise ValueError(arguments["text"])
    raise ValueError(f"Unknown tool: {name}")


async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
