"""The tools that the official suite calls and that ask nothing: kinds of content, errors, progress, schemas.

The first one must succeed without arguments: the suite calls the first of the list so.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any

from pydantic import Field

from toolcrib import Audio, Context, File, Image, ToolError, tool

RED_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool
async def test_simple_text() -> str:
    """Answers with a line of text."""
    return "This is a simple text response for testing."


@tool
async def test_image_content() -> Image:
    """Answers with a picture."""
    return Image(RED_PIXEL)


@tool
async def test_audio_content() -> Audio:
    """Answers with sound."""
    return Audio(SILENCE)


@tool
async def test_embedded_resource() -> File:
    """Answers with a file."""
    return File("This is an embedded resource content.", uri="test://embedded-resource")


@tool
async def test_multiple_content_types() -> list[str | Image | File]:
    """Answers with text, a picture and a file."""
    data = File(
        '{"test": "data", "value": 123}', uri="test://mixed-content-resource", mime_type="application/json"
    )
    return ["Multiple content types test:", Image(RED_PIXEL), data]


@tool
async def test_error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Tells how far it is, three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Sends three log lines while it works."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.log("info", line)
        await asyncio.sleep(0.05)
    return "done"


@tool
async def test_logging_tool(ctx: Context) -> str:
    """Sends a log line, to those who want it."""
    await ctx.log("info", "a line that nobody asked for")
    return "done"


@tool
async def test_reconnection(ctx: Context) -> str:
    """Lets go of its stream and finishes later."""
    ctx.close_stream()
    await asyncio.sleep(0.2)
    return "finished after the stream was closed"


@tool
async def test_trigger_tool_change(ctx: Context) -> str:
    """Adds a tool to the list, or takes it away again."""
    server = ctx.server
    if "test_passing_tool" in server.registry:
        server.registry.remove("test_passing_tool")
    else:
        server.add(test_passing_tool)
    return "changed"


async def test_passing_tool() -> str:
    """Comes and goes."""
    return "still here"


@tool("json_schema_2020_12_tool", "Has a schema with everything in it.", SCHEMA_2020_12)
async def json_schema_2020_12_tool(arguments: dict[str, Any]) -> str:
    return f"got {sorted(arguments)}"


@tool
async def mirrored_argument(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "nowhere",
) -> str:
    """Takes an argument that HTTP clients repeat in a header."""
    return f"region {region}"
