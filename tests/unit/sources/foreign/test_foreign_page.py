"""The examples of docs/coming-from.md run, and tools of foreign servers ask over a pipe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.system import fork_server
from tests.unit.sources.foreign.answering_client import GUESTS

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "coming-from.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SERVE = (
    "import sys; from toolcrib import MCPServer; server = MCPServer('guests');"
    "server.add(sys.argv[1]); server.add(sys.argv[2]); server.run('stdio')"
)


def test_the_examples_run_in_order() -> None:
    text, names = PAGE.read_text(), {"__name__": "documented"}
    for match in _BLOCK.finditer(text):
        source = "\n" * (text[: match.start()].count("\n") + 1) + match[1]
        exec(compile(source, str(PAGE), "exec", dont_inherit=True), names)


async def person(_: Any, params: Any) -> types.ElicitResult:
    fields = params.requested_schema["properties"]
    content = {name: True if field.get("type") == "boolean" else "x" for name, field in fields.items()}
    return types.ElicitResult(action="accept", content=content)


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.long), "auto"])
async def test_a_tool_of_theirs_asks_a_person_at_the_other_end_of_a_pipe(mode: str) -> None:
    targets = (str(GUESTS / "sdk_shop.py"), str(GUESTS / "fast_desk.py"))
    program, *arguments = fork_server.command_of("-c", _SERVE, *targets, libraries=True)
    command = StdioServerParameters(command=program, args=arguments)
    with Path("/dev/null").open("w") as nowhere:
        link = stdio_client(command, errlog=nowhere)
        async with Client(link, mode=mode, elicitation_callback=person) as client:
            bought = await client.call_tool("buy", {"item": "tea"})
            guarded = await client.call_tool("guard", {"city": "Oslo"})

    assert bought.content == [types.TextContent(type="text", text="bought tea: True, x")]
    assert guarded.content == [types.TextContent(type="text", text="Oslo: True, state of Oslo")]
