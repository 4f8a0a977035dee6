"""A fastmcp server class that decides which tools are listed and called."""

from __future__ import annotations

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

ALLOWED = {"read"}


class Restricted(FastMCP):
    """Overrides the methods that clients reach: public since 3.0, with an underscore before."""

    async def list_tools(self, *given, **named):
        return [tool for tool in await super().list_tools(*given, **named) if tool.name in ALLOWED]

    async def call_tool(self, name, *given, **named):
        check(name)
        return await super().call_tool(name, *given, **named)

    async def _list_tools(self, *given, **named):
        return [tool for tool in await super()._list_tools(*given, **named) if tool.name in ALLOWED]

    async def _call_tool(self, called, *given, **named):
        check(called if isinstance(called, str) else called.message.name)  # a name before 2.13
        return await super()._call_tool(called, *given, **named)


def check(name: str) -> None:
    if name not in ALLOWED:
        raise ToolError(f"{name} is not allowed")


server = Restricted("overrides")


@server.tool
def read(path: str) -> str:
    """Read something."""
    return f"content of {path}"


@server.tool
def delete(path: str) -> str:
    """Delete something."""
    raise SystemExit(f"{path} was deleted")


if __name__ == "__main__":
    server.run(show_banner=False)
