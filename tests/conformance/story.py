"""The script that every official client runs against the server, and its expected report.

The TypeScript clients do the same in `clients/story.mjs`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import FileUrl

STDIO_SERVER = [sys.executable, "-m", "tests.conformance.server", "--http-stack", "stdio"]
TIMEOUT_S = 20.0

KNOWN = {"name": "Ada", "color": "blue"}


def story_of(revision: str) -> dict[str, Any]:
    """Return the expected report."""
    return {
        "revision": revision,
        "server": "conformance",
        "instructions": "Tools for tests of the wire.",
        "tools": 27,
        "text": "This is a simple text response for testing.",
        "progress": [0, 50, 100],
        "greeting": "Hello, Ada!",
        "rounds": "Ada likes blue",
        "sampled": "LLM response: from the model",
        "folders": "file:///work",
        "mirrored": "region Zürich",
        "failed": True,
        "unknown": -32602,
        "appeared": 1,
    }


async def answer(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    content = {name: KNOWN[name] for name in params.requested_schema["properties"]}
    return types.ElicitResult(action="accept", content=dict(content))


async def complete(
    context: ClientRequestContext, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="from the model")
    return types.CreateMessageResult(role="assistant", content=said, model="test-model")


async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///work"), name="Work")])


class Ears:
    """Receives list_changed notifications on a legacy connection."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.heard.set()


async def tell(client: Client, ears: Ears) -> dict[str, Any]:
    async def text(name: str, arguments: dict[str, Any] | None = None) -> str:
        block = (await client.call_tool(name, arguments)).content[0]
        assert isinstance(block, types.TextContent)
        return block.text

    steps: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    before = (await client.list_tools()).tools
    await client.call_tool("test_tool_with_progress", progress_callback=note)
    try:
        await client.call_tool("no_such_tool")
        unknown = 0
    except MCPError as error:
        unknown = error.code
    assert client.server_info is not None
    story = {
        "revision": client.protocol_version,
        "server": client.server_info.name,
        "instructions": client.instructions,
        "tools": len(before),
        "text": await text("test_simple_text"),
        "progress": steps,
        "greeting": await text("test_input_required_result_elicitation"),
        "rounds": await text("test_input_required_result_multi_round"),
        "sampled": await text("test_sampling", {"prompt": "Say something"}),
        "folders": await text("test_input_required_result_list_roots"),
        "mirrored": await text("mirrored_argument", {"region": "Zürich"}),
        "failed": (await client.call_tool("test_error_handling")).is_error,
        "unknown": unknown,
    }
    await _change(client, ears)
    story["appeared"] = len((await client.list_tools(cache_mode="refresh")).tools) - len(before)
    await client.call_tool("test_trigger_tool_change")
    return story


async def _change(client: Client, ears: Ears) -> None:
    """Change the list of tools and wait for the notification."""
    async with asyncio.timeout(TIMEOUT_S):
        if client.protocol_version < "2026-07-28":
            await client.call_tool("test_trigger_tool_change")
            await ears.heard.wait()
            return
        async with client.listen(tools_list_changed=True) as events:
            await client.call_tool("test_trigger_tool_change")
            await anext(aiter(events))
