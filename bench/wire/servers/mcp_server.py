"""The official SDK's `MCPServer`; over HTTP its app on uvicorn, to have the same loop and parser as all."""

from __future__ import annotations

import importlib

from bench.wire.servers import HOST, sum_of, wanted


def main() -> None:
    transport, port, functions = wanted()
    # By name: the environment that checks types has no peers installed.
    server = importlib.import_module("mcp.server").MCPServer("bench", log_level="CRITICAL")
    for function in functions:
        server.add_tool(function)
    server.resource("sums://{a}/{b}")(sum_of)
    server.prompt("sum")(sum_of)
    if transport == "http":
        uvicorn = importlib.import_module("uvicorn")
        uvicorn.run(server.streamable_http_app(), host=HOST, port=port, log_level="critical")
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
