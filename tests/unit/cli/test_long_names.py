"""Names of a megabyte are shortened in errors, replies and the output of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.clients.raw_pipe import raw_pipe
from toolcrib import MCPServer, Tool, ToolcribError
from toolcrib.errors import DefinitionError, Finding

LONG = "x" * 1_000_000
SHORT = f"{'x' * 200}... (1,000,000 characters)"


async def register_argument() -> None:
    Tool.from_handler(lambda a: a, LONG, "Do.", {"type": "object", "required": ["b"]}).check()


async def set_option() -> None:
    MCPServer().tool(**{LONG: 1})(lambda: 1)  # type: ignore[arg-type]


async def call() -> None:
    await MCPServer().call(LONG)


async def select() -> None:
    MCPServer().add(lambda: 1, name="one", include=[LONG])


@pytest.mark.parametrize("fail", [register_argument, set_option, call, select])
async def test_an_error_shortens_a_name(fail: Callable[[], Any]) -> None:
    with pytest.raises(ToolcribError) as caught:
        await fail()
    assert "x... (" in str(caught.value)
    assert len(str(caught.value)) < 2_000
    if isinstance(caught.value, DefinitionError):
        assert len(str(caught.value.finding)) < 2_000


def test_a_finding_shortens_a_name_and_keeps_an_ordinary_message() -> None:
    assert str(Finding("x", "error", f"'{LONG}' is wrong")) == (
        f"error[x] '{'x' * 199}... (1,000,002 characters) is wrong"
    )
    message = "word " * 1_000
    assert str(Finding("x", "error", message)) == f"error[x] {message}"


async def test_a_reply_shortens_the_name_of_an_unknown_tool() -> None:
    async with raw_pipe(MCPServer()) as pipe:
        error = await pipe.error("tools/call", {"name": LONG, "arguments": {}})
    assert error["message"] == f"Unknown tool: {SHORT}"
