"""toolcrib: `http` is the http_stack that `toolcrib serve` takes, `asgi` its ASGI app on uvicorn."""

from __future__ import annotations

import importlib
from typing import Any

from bench.wire.servers import HOST, sum_of, wanted
from toolcrib import MCPServer


def main() -> None:
    transport, port, functions = wanted()
    server: Any = MCPServer("bench", search="never")  # the rows compare whole lists
    for function in functions:
        server.add(function)
    server.resource("sums://{a}/{b}")(sum_of)
    server.prompt("sum")(sum_of)
    if transport == "asgi":
        uvicorn = importlib.import_module("uvicorn")
        uvicorn.run(server.asgi(), host=HOST, port=port, log_level="critical")
    elif transport == "http":
        server.run("http", host=HOST, port=port)
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
