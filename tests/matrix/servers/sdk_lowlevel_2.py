"""A low-level server of the official SDK 2.x: handlers for listing and calling as arguments."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@asynccontextmanager
async def open_books(_):
    yield {"books": ["red", "blue"]}


async def list_tools(ctx, params) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name="echo", description="Return the text.", input_schema=TEXT),
            types.Tool(name="draw", description="Return a picture.", input_schema={"type": "object"}),
            types.Tool(name="books", description="Return the books.", input_schema={"type": "object"}),
            types.Tool(name="fail", description="Fail.", input_schema=TEXT),
        ]
    )


def text_of(*texts: str, is_error: bool = False) -> types.CallToolResult:
    content = [types.TextContent(type="text", text=text) for text in texts]
    return types.CallToolResult(content=content, is_error=is_error)


async def call_tool(ctx, params) -> types.CallToolResult:
    arguments = params.arguments or {}
    if params.name == "echo":
        await ctx.session.send_log_message(level="info", data="echoing")
        return text_of(arguments["text"])
    if params.name == "draw":
        picture = types.ImageContent(type="image", data="iVBORw==", mime_type="image/png")
        return types.CallToolResult(content=[picture])
    if params.name == "books":
        return text_of(*ctx.lifespan_context["books"])
    if params.name == "fail":
        return text_of(arguments["text"], is_error=True)
    raise ValueError(f"Unknown tool: {params.name}")


server = Server("low", lifespan=open_books, on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
