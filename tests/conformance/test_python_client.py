"""The official Python client, over stdio and HTTP, in both eras."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters

from tests.conformance.server import HTTP_STACKS
from tests.conformance.story import STDIO_SERVER, Ears, answer, complete, list_roots, story_of, tell
from tests.support.servers.server_processes import ROOT, ServerProcess, child_environment

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

REVISIONS = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}


def connect(server: Any, mode: str, ears: Ears) -> Client:
    return Client(
        server,
        mode=mode,
        elicitation_callback=answer,
        sampling_callback=complete,
        list_roots_callback=list_roots,
        message_handler=ears.hear,
    )


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_the_python_client_is_served_over_http(
    servers: dict[str, ServerProcess], http_stack: str, mode: str
) -> None:
    ears = Ears()
    async with connect(servers[http_stack].url, mode, ears) as client:
        assert await tell(client, ears) == story_of(REVISIONS[mode])


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_the_python_client_is_served_over_the_old_pair_of_http_and_sse(
    servers: dict[str, ServerProcess], http_stack: str
) -> None:
    ears = Ears()
    async with connect(sse_client(f"{servers[http_stack].origin}/sse"), "legacy", ears) as client:
        assert await tell(client, ears) == story_of("2025-11-25")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_python_client_is_served_over_stdio(mode: str) -> None:
    command, *arguments = STDIO_SERVER
    server = StdioServerParameters(command=command, args=arguments, env=child_environment(), cwd=ROOT)
    ears = Ears()
    async with connect(server, mode, ears) as client:
        assert await tell(client, ears) == story_of(REVISIONS[mode])


async def test_a_client_that_knows_the_revision_needs_no_handshake(servers: dict[str, ServerProcess]) -> None:
    async with connect(servers["own"].url, "2026-07-28", Ears()) as client:
        assert len((await client.list_tools()).tools) == story_of("")["tools"]
        assert not (await client.call_tool("test_simple_text")).is_error
