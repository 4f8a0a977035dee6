"""What servers of other libraries hide and deny stays hidden and denied, with a policy of ours too."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client as FastClient
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError as FastError
from fastmcp.server.middleware import Middleware
from fastmcp.server.transforms import Transform
from mcp.client.client import Client
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.mcpserver.exceptions import ToolError

from toolcrib import MCPServer
from toolcrib.errors import ToolNotFoundError
from toolcrib.policy import Policy, Rule

NAMES = ("read", "write", "delete")
HIDDEN, DENIED = "delete", "write"


class OfficialSubclass(OfficialServer):
    async def list_tools(self) -> Any:
        return [tool for tool in await super().list_tools() if tool.name != HIDDEN]

    async def call_tool(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in (HIDDEN, DENIED):
            raise ToolError(f"{name} is not for you")
        return await super().call_tool(name, *args, **kwargs)


class FastSubclass(FastMCP):
    async def list_tools(self, *args: Any, **kwargs: Any) -> Any:
        return [tool for tool in await super().list_tools(*args, **kwargs) if tool.name != HIDDEN]

    async def call_tool(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in (HIDDEN, DENIED):
            raise FastError(f"{name} is not for you")
        return await super().call_tool(name, *args, **kwargs)


class Denying(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        if context.message.name == DENIED:
            raise FastError("not for you")
        return await call_next(context)


class Hiding(Transform):
    async def list_tools(self, tools: Any) -> Any:
        return [tool for tool in tools if tool.name != HIDDEN]

    async def get_tool(self, name: str, call_next: Any, **options: Any) -> Any:
        return None if name == HIDDEN else await call_next(name, **options)


async def deny(ctx: Any, call_next: Any) -> Any:
    if ctx.method == "tools/call" and ctx.params["name"] == DENIED:
        raise ToolError("not for you")
    return await call_next(ctx)


SERVERS = {
    "a subclass of mcp": lambda: OfficialSubclass("x"),
    "a subclass of fastmcp": lambda: FastSubclass("x"),
    "middleware of mcp": lambda: OfficialServer("x", middleware=[deny]),
    "middleware of fastmcp": lambda: FastMCP("x", middleware=[Denying()]),
    "a transform": lambda: FastMCP("x", transforms=[Hiding()]),
}
RULES = {
    "no policy": None,
    "all allowed": Policy(rules=[Rule(allow=["*"])]),
    "one denied": Policy(rules=[Rule(allow=["*"]), Rule(deny=["read"])]),
}


def make(kind: str) -> Any:
    theirs: Any = SERVERS[kind]()
    for name in NAMES:
        theirs.add_tool(_tool(name))
    return theirs


def _tool(name: str) -> Any:
    def run() -> str:
        return f"done: {name}"

    run.__name__ = name
    return run


async def ask_theirs(theirs: Any) -> dict[str, bool]:
    """The tools that a client sees under their library, and whether a call succeeds."""
    client: Any = FastClient(theirs) if isinstance(theirs, FastMCP) else Client(theirs)
    async with client:
        found = await client.list_tools()
        session = client.session if isinstance(theirs, FastMCP) else client
        answers = {}
        for tool in getattr(found, "tools", found):
            try:
                answers[tool.name] = not (await session.call_tool(tool.name, {})).is_error
            except Exception:
                answers[tool.name] = False
        return answers


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("rules", RULES)
async def test_the_same_tools_are_visible_and_callable(kind: str, rules: str) -> None:
    expected = await ask_theirs(make(kind))
    policy = RULES[rules]
    server = MCPServer("ours", **({} if policy is None else {"policy": policy}))
    server.add(make(kind))
    if rules == "one denied":
        expected.pop("read")

    async with server:
        visible = [tool.name for tool in server.list_tools()]
        found = {name: not (await server.call(name)).is_error for name in visible}
        for name in set(NAMES) - set(visible):
            with pytest.raises(ToolNotFoundError):
                await server.call(name)

    assert found == expected
    assert HIDDEN not in found or "middleware" in kind
    assert not found.get(DENIED, False) or kind == "a transform"
