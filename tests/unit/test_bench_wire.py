"""The wire benchmark counts right answers only, and says which way a ratio goes."""

from __future__ import annotations

import json
import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import chart
from bench.lab import Lab, ProbeError
from bench.lines import AtLeast, Bar, Line, Panel
from bench.wire import watch
from bench.wire.load import Load, run
from bench.wire.messages import ERAS, LEGACY, MODERN, Question, post, question
from bench.wire.replies import ReplyError, check, learn, message_of, split

WIRE = Path(__file__).resolve().parents[2] / "bench" / "wire"

linux_only = pytest.mark.skipif(
    not watch.SUPPORTED, reason="reads another process's CPU clock, on Linux only"
)


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


@pytest.mark.parametrize("era", ERAS)
def test_requests_and_answers_have_one_length_whatever_their_number(era: str) -> None:
    asked = [question(era, "add", number) for number in (0, 1, 16_383)]  # type: ignore[arg-type]
    assert len({len(one.body) for one in asked}) == 1
    assert len({len(str(one.answer)) for one in asked}) == 1
    for one in asked:
        message = json.loads(one.body)
        given = message["params"]["arguments"]
        assert (message["id"], given["a"] + given["b"]) == (one.id, one.answer)
        assert ("_meta" in message["params"]) == (era == MODERN)


def test_a_modern_request_says_in_its_headers_what_its_body_says() -> None:
    head = post(80, b"{}", MODERN, method="tools/call", name="add").decode()
    assert {"Mcp-Method: tools/call", "Mcp-Name: add", f"MCP-Protocol-Version: {MODERN}"} <= set(
        head.split("\r\n")
    )
    assert "Mcp-Method" not in post(80, b"{}", LEGACY, method="tools/call", name="add").decode()


def test_one_reply_foretells_the_next() -> None:
    first, next_ = (question(MODERN, "add", number) for number in (3, 4))
    pattern = learn(streamed(body_of(first.id, first.answer)), first)
    assert pattern is not None
    assert pattern.reply_to(next_) == streamed(body_of(next_.id, next_.answer))
    assert learn(b"no id at all", first) is None


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


@contextmanager
def answering(framed: Callable[[bytes], bytes], *, wrong_after: int = 10**9) -> Iterator[int]:
    """A server that adds. Yields its port."""
    with AdderServer(framed, wrong_after) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@linux_only
@pytest.mark.parametrize("framed", [plain, streamed])
def test_the_load_keeps_all_connections_busy_and_counts_what_it_measures(
    framed: Callable[[bytes], bytes],
) -> None:
    with answering(framed) as port:
        load = Load(port, [os.getpid()], MODERN, 4, warm_s=0.02, measure_s=0.02, at_least=40)
        outcome = run(load)
    assert outcome["calls"] >= 40
    assert outcome["compared"] is True
    assert 0 < outcome["p50_s"] <= outcome["p99_s"]
    assert outcome["cpu_per_call_s"] > 0
    assert outcome["calls_per_s"] == pytest.approx(outcome["calls"] / outcome["wall_s"])


@linux_only
def test_the_load_refuses_a_server_that_miscounts() -> None:
    with (
        answering(plain, wrong_after=20) as port,
        pytest.raises(ReplyError, match="not the answer"),
    ):
        run(Load(port, [os.getpid()], MODERN, 2, warm_s=0.02, measure_s=0.02, at_least=1000))


@linux_only
def test_the_clock_of_a_process_is_the_one_it_reads_itself() -> None:
    before = watch.cpu_s([os.getpid()])
    sum(range(200_000))
    assert watch.cpu_s([os.getpid()]) > before
    assert os.getpid() in watch.family(os.getpid())
    assert watch.rss_bytes([os.getpid()]) > 1_000_000


def test_of_a_rate_more_is_better_and_of_a_cost_less() -> None:
    rate = Line("r", "l", "rate", {"toolcrib": 500.0, "mcp": 100.0}, (AtLeast("mcp", 5),))
    cost = Line("r", "l", "time", {"toolcrib": 500.0, "mcp": 100.0}, (AtLeast("mcp", 5),))
    assert (rate.ratio("mcp"), rate.met()) == (5.0, True)
    assert (cost.ratio("mcp"), cost.met()) == (0.2, False)
    assert Line("r", "l", "rate", {"toolcrib": None, "mcp": 1.0}, (AtLeast("mcp", 5),)).met() is None


def test_anything_that_cannot_be_measured_is_shown_as_such_and_the_others_go_on(tmp_path: Path) -> None:
    def broken() -> dict[str, float]:
        raise ProbeError("it does not start")

    lab = Lab(tmp_path, ("toolcrib",))
    outcomes = lab.rounds("row", 3, {"here": lambda: {"s": 1.0}, "gone": broken}, warm_up=1)
    assert outcomes == {"here": [{"s": 1.0}] * 3, "gone": []}
    assert lab.lost == {"row: gone": "it does not start"}
    panel = Panel("calls", "time", "CPU", (Bar("toolcrib", 1e-5), Bar("mcp", 1e-3), Bar("gone", None)))
    text = chart.text([panel])
    assert "100x" in text
    assert text.splitlines()[-1].split() == ["gone", "-", "-"]
    drawn = chart.svg([panel], "a < b")
    assert "not measured" in drawn
    assert "a &lt; b" in drawn


def test_the_typescript_peer_is_pinned_and_names_no_registry() -> None:
    wanted = json.loads((WIRE / "package.json").read_text())["dependencies"]
    text = (WIRE / "package-lock.json").read_text()
    locked = json.loads(text)["packages"]
    assert all(locked[f"node_modules/{name}"]["version"] == version for name, version in wanted.items())
    assert '"resolved"' not in text
