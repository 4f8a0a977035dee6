"""Disabled, renamed, transformed and mounted tools of fastmcp."""

from __future__ import annotations

import fastmcp
from fastmcp import FastMCP
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform

IS_OLD = fastmcp.__version__.startswith("2.")
server = FastMCP("visibility")
phones = FastMCP("phones")


@phones.tool
def ring(number: str) -> str:
    """Ring somebody."""
    return f"ringing {number}"


def search(query: str, limit: int = 3, secret: str = "s3") -> str:
    """Search for something."""
    return f"{limit} results for {query} ({secret})"


server.add_tool(
    Tool.from_tool(
        Tool.from_function(search),
        name="find",
        description="Find something.",
        transform_args={"query": ArgTransform(name="words"), "secret": ArgTransform(hide=True, default="s4")},
    )
)


@server.tool(tags={"internal"})
def inner(text: str) -> str:
    """Only for ourselves."""
    raise SystemExit(text)


@server.tool
def shown(text: str) -> str:
    """For everybody."""
    return text


if IS_OLD:

    @server.tool(enabled=False)
    def off(text: str) -> str:
        """Switched off."""
        raise SystemExit(text)

    server.exclude_tags = {"internal"}
    server.mount(phones, prefix="phone")
else:
    from fastmcp.server.transforms import Namespace

    @server.tool
    def off(text: str) -> str:
        """Switched off."""
        raise SystemExit(text)

    server.disable(names={"off"})
    server.disable(tags={"internal"})
    phones.add_transform(Namespace("desk"))
    server.mount(phones, namespace="phone")


if __name__ == "__main__":
    server.run(show_banner=False)
