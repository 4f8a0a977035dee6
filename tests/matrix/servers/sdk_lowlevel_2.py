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


async def list_resources(ctx, params) -> types.ListResourcesResult:
    today = types.Resource(uri="notes://today", name="today", description="The note of today", size=7)
    return types.ListResourcesResult(resources=[today])


async def list_templates(ctx, params) -> types.ListResourceTemplatesResult:
    note = types.ResourceTemplate(uri_template="notes://on/{topic}", name="note", mime_type="text/plain")
    return types.ListResourceTemplatesResult(resource_templates=[note])


async def read_resource(ctx, params) -> types.ReadResourceResult:
    if params.uri == "notes://nothing":
        raise ValueError(f"Unknown resource: {params.uri}")
    contents = types.TextResourceContents(uri=params.uri, text=params.uri, mime_type="text/plain")
    return types.ReadResourceResult(contents=[contents])


async def list_prompts(ctx, params) -> types.ListPromptsResult:
    topic = types.PromptArgument(name="topic", description="What about", required=True)
    return types.ListPromptsResult(
        prompts=[types.Prompt(name="write", description="Ask for a text.", arguments=[topic])]
    )


async def get_prompt(ctx, params) -> types.GetPromptResult:
    content = types.TextContent(type="text", text=f"{params.name} {params.arguments}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="assistant", content=content)])


async def complete(ctx, params) -> types.CompleteResult:
    found = types.Completion(values=["toast", "tea", params.argument.value], has_more=True)
    return types.CompleteResult(completion=found)


server = Server(
    "low",
    lifespan=open_books,
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
)


async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
