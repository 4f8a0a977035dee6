"""A low-level server of the official SDK 1.x: decorated handlers for listing and calling."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from mcp.server.lowlevel import Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.stdio import stdio_server
from mcp.types import (
    Completion,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    Resource,
    ResourceTemplate,
    TextContent,
    Tool,
)


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


@server.list_resources()
async def list_resources() -> list[Resource]:
    return [Resource(uri="notes://today", name="today", description="The note of today", size=7)]


@server.list_resource_templates()
async def list_resource_templates() -> list[ResourceTemplate]:
    return [ResourceTemplate(uriTemplate="notes://on/{topic}", name="note", mimeType="text/plain")]


@server.read_resource()
async def read_resource(uri):
    if str(uri) == "notes://nothing":
        raise ValueError(f"Unknown resource: {uri}")
    return [ReadResourceContents(content=str(uri), mime_type="text/plain")]


@server.list_prompts()
async def list_prompts() -> list[Prompt]:
    topic = PromptArgument(name="topic", description="What about", required=True)
    return [Prompt(name="write", description="Ask for a text.", arguments=[topic])]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict | None) -> GetPromptResult:
    content = TextContent(type="text", text=f"{name} {arguments}")
    return GetPromptResult(messages=[PromptMessage(role="assistant", content=content)])


@server.completion()
async def complete(ref, argument, *context) -> Completion:
    return Completion(values=["toast", "tea", argument.value], hasMore=True)


async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
