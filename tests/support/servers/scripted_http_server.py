"""A real HTTP server on the loopback that behaves, or misbehaves, as scripted."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from toolcrib.http_client import Response

SECRET = "s3cret-v4lue"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: World

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.server.requests.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = getattr(self, "answer_" + url.path.strip("/").split("/")[0], None)
        if answer is not None:
            answer(dict(parse_qsl(url.query)))
            return
        told = {
            "method": self.command,
            "target": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode("latin-1"),
        }
        self.send(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_slow(self, query: dict[str, str]) -> None:
        self.server.released.wait(5)
        self.close_connection = True

    def answer_drip(self, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        try:
            while not self.server.released.wait(0.02):
                self.wfile.write(b".")
        except OSError:
            pass
        self.close_connection = True

    def answer_endless(self, query: dict[str, str]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * 65536)
                self.server.sent_bytes += 65536
        except OSError:
            pass

    def answer_bomb(self, query: dict[str, str]) -> None:
        self.send(200, gzip.compress(bytes(20_000_000)), {"Content-Encoding": "gzip"})

    def answer_zipped(self, query: dict[str, str]) -> None:
        self.send(200, gzip.compress(b"unfolded"), {"Content-Encoding": "gzip"})

    def answer_garbled(self, query: dict[str, str]) -> None:
        self.send(200, b"this is not gzip", {"Content-Encoding": "gzip"})

    def answer_cut(self, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"only this")
        self.close_connection = True

    def answer_moved(self, query: dict[str, str]) -> None:
        self.send(302, b"elsewhere", {"Location": query["to"]})

    def answer_circle(self, query: dict[str, str]) -> None:
        self.send(307, b"", {"Location": "/circle"})

    def answer_cookie(self, query: dict[str, str]) -> None:
        self.send(200, b"", {"Set-Cookie": "who=first-caller; Path=/"})

    def log_message(self, *args: Any) -> None:
        pass


class World(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.connections = 0
        self.requests: list[str] = []
        self.sent_bytes = 0
        self.released = threading.Event()
        self.origin = f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def told(response: Response) -> Any:
    assert response.status_code == 200
    return json.loads(response.content)
