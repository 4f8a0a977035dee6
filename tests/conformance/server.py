"""The server for the official suite and the official clients.

python -m tests.conformance.server --port 8000 --http-stack own      our own HTTP server
python -m tests.conformance.server --port 8000 --http-stack asgi     the ASGI application, on uvicorn
python -m tests.conformance.server --http-stack stdio
python -m tests.conformance.server --port 8000 --key-file fleet.key  a replica of a fleet
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance import features, jobs, questions, tools
from toolcrib import MCPServer
from toolcrib.policy import Fleet, Tasks

HTTP_STACKS = ("own", "asgi")
"""The ways to serve HTTP."""


def make_server(folder: Path, fleet: Fleet | None = None) -> MCPServer:
    server = MCPServer(
        "conformance",
        version="1.0.0",
        dynamic=True,
        instructions="Tools for tests of the wire.",
        tasks=Tasks(wait_s=0.05, poll_s=0.1),
        **({"state": f"sqlite:///{folder}/tasks.db"} if fleet is None else {"fleet": fleet}),
    )
    server.add(tools, questions, jobs, strict=True)
    features.register(server)
    return server


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--http-stack", choices=(*HTTP_STACKS, "stdio"), default="own")
    parser.add_argument("--key-file", type=Path, help="be a replica of a fleet")
    options = parser.parse_args()
    fleet = None
    if options.key_file is not None:
        engines = {"postgres": "env:TOOLCRIB_POSTGRES", "redis": "env:TOOLCRIB_REDIS"}
        fleet = Fleet(**engines, key_file=options.key_file)
    with TemporaryDirectory() as folder:
        serve(make_server(Path(folder), fleet), options)


def serve(server: MCPServer, options: argparse.Namespace) -> None:
    if options.http_stack == "own":
        server.run("http", port=options.port)
    elif options.http_stack == "asgi":
        import uvicorn  # not for the others, whose clients start them and wait

        uvicorn.run(server.asgi(), host="127.0.0.1", port=options.port, log_level="warning")
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
