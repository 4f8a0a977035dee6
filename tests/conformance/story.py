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

KNOWN = {"name": "Ada", "color": "blue", "context": "tests"}
WATCHED = "test://watched-resource"


def story_of(revision: str) -> dict[str, Any]:
    """Return the expected report."""
    return {
        "revision": revision,
        "server": "conformance",
        "instructions": "Tools for tests of the wire.",
        "tools": 36,
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
        "resources": ["test://static-text", "test://static-binary", "test://watched-resource"],
        "templates": ["test://template/{id}/data"],
        "read": "This is the text of a static resource.",
        "instance": '{"id":"1 2","data":"Data of 1 2"}',
        "missing": -32602 if revision == "2026-07-28" else -32002,
        "prompts": 5,
        "prompt": "Arguments: arg1='a', arg2='b'",
        "asked": "The user says: tests",
        "completed": ["paris", "park", "party"],
        "updated": "test://watched-resource",
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
        self.updated: asyncio.Queue[str] = asyncio.Queue()

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.heard.set()
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.put_nowait(message.params.uri)


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
    return story | await _tell_features(client, ears)


async def _tell_features(client: Client, ears: Ears) -> dict[str, Any]:
    async def read(uri: str) -> str:
        [contents] = (await client.read_resource(uri)).contents
        assert isinstance(contents, types.TextResourceContents)
        return contents.text

    async def list_uris() -> list[str]:
        return [str(resource.uri) for resource in (await client.list_resources()).resources]

    async def get(name: str, arguments: dict[str, str] | None = None) -> str:
        content = (await client.get_prompt(name, arguments)).messages[0].content
        assert isinstance(content, types.TextContent)
        return content.text

    try:
        await client.read_resource("test://missing")
        missing = 0
    except MCPError as error:
        missing = error.code
    reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    completed = await client.complete(reference, {"name": "arg1", "value": "par"})
    templates = (await client.list_resource_templates()).resource_templates
    return {
        "resources": [uri for uri in await list_uris() if uri.startswith("test://")],
        "templates": [each.uri_template for each in templates if each.uri_template.startswith("test://")],
        "read": await read("test://static-text"),
        "instance": await read("test://template/1%202/data"),
        "missing": missing,
        "prompts": len((await client.list_prompts()).prompts),
        "prompt": await get("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}),
        "asked": await get("test_input_required_result_prompt"),
        "completed": completed.completion.values,
        "updated": await _update(client, ears),
    }


async def _update(client: Client, ears: Ears) -> str:
    """Subscribe to a resource, have it change, and return the URI in the notification."""
    async with asyncio.timeout(TIMEOUT_S):
        if client.protocol_version < "2026-07-28":
            await client.subscribe_resource(WATCHED)
            await client.call_tool("test_trigger_resource_update")
            return await ears.updated.get()
        async with client.listen(resource_subscriptions=[WATCHED]) as events:
            await client.call_tool("test_trigger_resource_update")
            return str((await anext(aiter(events))).uri)  # type: ignore[union-attr]


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
