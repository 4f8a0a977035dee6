"""Arguments of a call as a dict or as keywords: the same on every client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolcrib import MCPServer, Result, ToolNotFoundError, testing

Call = Callable[..., Awaitable[Result]]


def make() -> MCPServer:
    server = MCPServer("shop")

    @server.tool
    async def take(article: str, name: str = "", self: str = "", timeout_s: float = 0) -> str:
        """Take a package from the stock."""
        return f"{article} {name} {self} {timeout_s:g}"

    return server


async def check(call: Call) -> None:
    sent = {"article": "tea", "name": "ana", "self": "x"}
    expected = "tea ana x 0"
    assert (await call("take", sent)).text == expected
    assert (await call("take", arguments=sent)).text == expected
    assert (await call("take", **sent)).text == expected
    assert (await call("take", None, **sent)).text == expected
    assert (await call("take", article="tea", timeout_s=5)).text == "tea   0", "it is an option of the call"
    given = {"article": "tea", "timeout_s": 7}
    assert (await call("take", given, timeout_s=5)).text == "tea   7"
    with pytest.raises(TypeError, match=r"did you mean 'timeout_s'\?"):
        await call("take", given, timeout=5)
    with pytest.raises(TypeError, match="put 'name' into the dict"):
        await call("take", {}, name="ana")
    with pytest.raises(ToolNotFoundError):
        await call("steal", article="tea")


async def test_a_server_takes_keywords() -> None:
    await check(make().call)
    assert "did you mean 'article'?" in (await make().call("take", artikel="tea")).text


@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
async def test_a_client_takes_keywords(version: str) -> None:
    async with make().connect(protocol=version) as client:
        await check(client.call)


def test_the_client_for_tests_takes_keywords() -> None:
    with testing.client(make()) as client:

        async def call(*given: Any, **keywords: Any) -> Result:
            return client.call(*given, **keywords)

        step = check(call)
        with pytest.raises(StopIteration):
            step.send(None)


def test_prompts_take_keywords_in_tests() -> None:
    server = make()

    @server.prompt
    def greet(name: str) -> str:
        return f"Hello, {name}"

    with testing.client(server) as client:
        for result in (client.get_prompt("greet", {"name": "Ana"}), client.get_prompt("greet", name="Ana")):
            assert result.messages[0].content["text"] == "Hello, Ana"
        with pytest.raises(TypeError, match="put 'name' into the dict"):
            client.get_prompt("greet", {}, name="Ana")
