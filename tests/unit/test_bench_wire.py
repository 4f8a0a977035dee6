"""The wire benchmark counts right answers only, and says which way a ratio goes."""

from __future__ import annotations

import json
import socketserver
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.lines import AtLeast, Line
from bench.wire.messages import Question
from bench.wire.replies import ReplyError, check, message_of, split

WIRE = Path(__file__).resolve().parents[2] / "bench" / "wire"


def body_of(id_: int, answer: int) -> bytes:
    result = {"content": [{"type": "text", "text": str(answer)}], "structuredContent": {"result": answer}}
    return json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode()


def plain(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def streamed(body: bytes) -> bytes:
    event = b"event: message\r\ndata: " + body + b"\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)


@pytest.mark.parametrize("framed", [plain, streamed])
def test_a_reply_is_read_when_its_last_byte_is_there_and_not_before(framed: Callable[[bytes], bytes]) -> None:
    data = framed(body_of(7, 4_000_000))
    assert all(split(data[:cut]) is None for cut in range(len(data)))
    reply = split(data + b"HTTP/1.1 next")
    assert reply is not None
    assert (message_of(reply)["id"], reply.rest) == (7, b"HTTP/1.1 next")


def test_a_refused_request_is_not_a_message() -> None:
    reply = split(plain(b"{}", "403 Forbidden"))
    assert reply is not None
    with pytest.raises(ReplyError, match="403"):
        message_of(reply)


def test_a_wrong_sum_or_id_and_a_failed_call_are_refused() -> None:
    asked = Question(5, 4_000_000, b"", "tools/call", "add")
    check(json.loads(body_of(5, 4_000_000)), asked)
    failed = json.loads(body_of(5, 4_000_000))
    failed["result"]["isError"] = True
    half = json.loads(body_of(5, 4_000_000))
    half["result"]["structuredContent"] = {"result": 1}
    error = {"jsonrpc": "2.0", "id": 5, "error": {"code": -32602, "message": "no"}}
    for wrong in (json.loads(body_of(6, 4_000_000)), json.loads(body_of(5, 4_000_001)), failed, half, error):
        with pytest.raises(ReplyError):
            check(wrong, asked)


class Adder(socketserver.StreamRequestHandler):
    """Adds; after some calls it begins to miscount."""

    server: AdderServer

    def handle(self) -> None:
        while head := self._head():
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            message = json.loads(self.rfile.read(length))
            given = message["params"]["arguments"]
            self.server.served += 1
            wrong = self.server.served > self.server.wrong_after
            data = self.server.framed(body_of(message["id"], given["a"] + given["b"] + wrong))
            for piece in (data[:40], data[40:]):  # as servers do: the head, then the body
                self.wfile.write(piece)

    def _head(self) -> bytes:
        lines = []
        try:
            while (line := self.rfile.readline()) not in (b"", b"\r\n"):
                lines.append(line)
        except ConnectionError:
            return b""
        return b"".join(lines)


class AdderServer(socketserver.ThreadingTCPServer):
    daemon_threads = False

    def __init__(self, framed: Callable[[bytes], bytes], wrong_after: int) -> None:
        super().__init__(("127.0.0.1", 0), Adder)
        self.framed = framed
        self.wrong_after = wrong_after
        self.served = 0


def test_of_a_rate_more_is_better_and_of_a_cost_less() -> None:
    rate = Line("r", "l", "rate", {"toolcrib": 500.0, "mcp": 100.0}, (AtLeast("mcp", 5),))
    cost = Line("r", "l", "time", {"toolcrib": 500.0, "mcp": 100.0}, (AtLeast("mcp", 5),))
    assert (rate.ratio("mcp"), rate.met()) == (5.0, True)
    assert (cost.ratio("mcp"), cost.met()) == (0.2, False)
    assert Line("r", "l", "rate", {"toolcrib": None, "mcp": 1.0}, (AtLeast("mcp", 5),)).met() is None


def test_the_typescript_peer_is_pinned_and_names_no_registry() -> None:
    wanted = json.loads((WIRE / "package.json").read_text())["dependencies"]
    text = (WIRE / "package-lock.json").read_text()
    locked = json.loads(text)["packages"]
    assert all(locked[f"node_modules/{name}"]["version"] == version for name, version in wanted.items())
    assert '"resolved"' not in text
