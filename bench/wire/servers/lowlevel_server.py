"""The official SDK's low-level `Server`: schemas written by hand, arguments taken as they come, no checks."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from bench.wire.servers import HOST, wanted

# By name: the environment that checks types has no peers installed.
_types = importlib.import_module("mcp_types")
_lowlevel = importlib.import_module("mcp.server.lowlevel")

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


def tool(name: str, properties: dict[str, Any], result: dict[str, Any]) -> Any:
    return _types.Tool(
        name=name,
        description=name,
        input_schema={"type": "object", "properties": properties, "required": list(properties)},
        output_schema={"type": "object", "properties": {"result": result}, "required": ["result"]},
    )


def new_server(names: list[str]) -> Any:
    """A server with `add` and `echo`; all further names get the schema of `echo`."""
    tools = [tool("add", {"a": INTEGER, "b": INTEGER}, INTEGER)]
    tools += [tool(name, {"text": TEXT}, TEXT) for name in names if name != "add"]

    async def list_tools(context: Any, parameters: Any) -> Any:  # noqa: ARG001 - the SDK's signature
        return _types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, parameters: Any) -> Any:  # noqa: ARG001 - the SDK's signature
        given = parameters.arguments
        value = given["a"] + given["b"] if parameters.name == "add" else given["text"]
        content = [_types.TextContent(type="text", text=str(value))]
        return _types.CallToolResult(content=content, structured_content={"result": value})

    return _lowlevel.Server("bench", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio(server: Any) -> None:
    stdio = importlib.import_module("mcp.server.stdio")
    async with stdio.stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    transport, port, functions = wanted()
    server = new_server([function.__name__ for function in functions])
    if transport == "http":
        uvicorn = importlib.import_module("uvicorn")
        uvicorn.run(server.streamable_http_app(), host=HOST, port=port, log_level="critical")
    else:
        asyncio.run(serve_stdio(server))


if __name__ == "__main__":
    main()
