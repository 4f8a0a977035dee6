"""A loopback HTTP server that answers like an MCP server, with any definitions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = "2025-11-25"


@contextmanager
def posing(
    tools: Sequence[Mapping[str, Any]],
    result: Mapping[str, Any] | None = None,
    name: str = "posing",
    refusal: str | None = None,
) -> Iterator[str]:
    """Serve these tools, and one result or one error for all calls. Yields the address."""
    info = {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": {"name": name}}
    results = {
        "initialize": json.dumps(info),
        "tools/list": json.dumps({"tools": list(tools)}),
        "tools/call": json.dumps(result or {"content": []}),
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in message:
                self._answer(202, b"")
                return
            method = message["method"]
            body = f'"result": {results[method]}' if method in results else None
            if body is None or (refusal is not None and method == "tools/call"):
                body = f'"error": {json.dumps({"code": -32601, "message": refusal or "Method not found"})}'
            head = f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, '
            self._answer(200, f"{head}{body}}}".encode())

        def do_GET(self) -> None:
            self._answer(405, b"")

        do_DELETE = do_GET

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
