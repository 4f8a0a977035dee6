"""A7: requests whose length is a lie, whose pieces do not fit, or that are not HTTP at all.

Whatever cannot be told apart from the next request ends the connection; no tool runs for it.
"""

from __future__ import annotations

import pytest

from tests.support.clients.raw_http_client import ClosedError, Peer, request
from tests.support.servers.http_servers import Served, serving
from tests.wire.cases import PARSE, call, encode, headers_for, message
from tests.wire.sending import count_runs
from tests.wire.site import make_server
from toolcrib.transports.http.server import Timeouts

TOUCH = encode(call("modern", "touch", {}))
HEADERS = headers_for(TOUCH)
PING = encode(message("ping"))


def outcome(peer: Peer) -> int:
    """The status of the next answer; 0 where the server hangs up without one."""
    try:
        return peer.read().status
    except ClosedError:
        return 0


def _refused(site: Served, data: bytes, *, statuses: tuple[int, ...] = (400,)) -> None:
    """These bytes are refused, the connection ends, no tool has run, and the server is there for others."""
    with site.connect() as peer:
        runs = count_runs(peer)
    with site.connect() as peer:
        peer.send(data)
        assert outcome(peer) in statuses
        assert peer.is_closed()
    with site.connect() as peer:
        assert count_runs(peer) == runs


def _with(*lines: str, body: bytes = TOUCH) -> bytes:
    """A good request with these header lines for its length."""
    head = request(b"", [*HEADERS.items(), ("Content-Length", "@")]).decode()
    return head.replace("Content-Length: @", "\r\n".join(lines)).encode("latin-1") + body


LENGTH = f"Content-Length: {len(TOUCH)}"
CHUNKED = "Transfer-Encoding: chunked"
CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(TOUCH), TOUCH)


def test_the_good_forms_are_served(site: Served) -> None:
    pieces = b"".join(b"1;x=y\r\n%c\r\n" % byte for byte in TOUCH) + b"0\r\nTrailer: x\r\n\r\n"
    for data in (_with(LENGTH), _with(CHUNKED, body=CHUNK), _with(CHUNKED, body=pieces)):
        assert site.exchange(data).result["content"][0]["text"] == "touched"


@pytest.mark.parametrize(
    "value", ["-1", "abc", "1e3", "0x10", "+5", "5,5", "5 5", "", "5;", "１", "5\x00", "\xb2"]
)
def test_a_length_that_is_not_a_number_is_refused(site: Served, value: str) -> None:
    data = _with(LENGTH).replace(LENGTH.encode(), b"Content-Length: " + value.encode("utf-8"))
    _refused(site, data, statuses=(400, 413))


@pytest.mark.parametrize("value", ["4194305", "50000000", "99999999999", "18446744073709551616", "9" * 30])
def test_a_length_beyond_the_limit_is_refused_before_the_body_comes(site: Served, value: str) -> None:
    _refused(site, _with(f"Content-Length: {value}", body=b""), statuses=(413, 400))


@pytest.mark.parametrize(
    "lines",
    [
        (LENGTH, LENGTH),
        (LENGTH, "Content-Length: 5"),
        (LENGTH, "content-length: 0"),
        (LENGTH, CHUNKED),
        (CHUNKED, LENGTH),
        ("Content-Length: 0", CHUNKED),
        (CHUNKED, CHUNKED, "Content-Length: 5"),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding: gzip",),
        ("Transfer-Encoding : chunked",),
        ("Content-Length : 5",),
        ("Transfer-Encoding: chunked\x00",),
    ],
    ids=lambda lines: ", ".join(lines)[:60],
)
def test_lengths_that_contradict_each_other_are_refused(site: Served, lines: tuple[str, ...]) -> None:
    _refused(site, _with(*lines, body=CHUNK))


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"0x5\r\nabcde\r\n0\r\n\r\n",
        b"\r\n",
        b" 5\r\nabcde\r\n",
        b"5 5\r\nabcde\r\n",
        b"fffffffffffffffff\r\n",
        b"5\r\nabcdefgh\r\n0\r\n\r\n",
        b"3\r\nabcde\r\n0\r\n\r\n",
        b"5\nabcde\n0\n\n",
        "５\r\nabcde\r\n0\r\n\r\n".encode(),
    ],
    ids=repr,
)
def test_pieces_that_do_not_fit_are_refused(site: Served, body: bytes) -> None:
    _refused(site, _with(CHUNKED, body=body))


def test_a_body_longer_than_it_says_is_cut_and_the_rest_is_not_a_request(site: Served) -> None:
    with site.connect() as peer:
        runs = count_runs(peer)
        peer.send(_with("Content-Length: 20"))
        response = peer.read()
        assert response.status == 400  # uvicorn sees the rest first, and speaks of that
        if site.http_stack == "own":
            assert response.code == PARSE
        assert outcome(peer) in (0, 400)
        assert peer.is_closed()
    with site.connect() as peer:
        assert count_runs(peer) == runs


def test_a_body_that_never_comes_whole_runs_nothing(site: Served) -> None:
    with site.connect() as peer:
        runs = count_runs(peer)
    for data in (_with(f"Content-Length: {len(TOUCH) + 1}"), _with(CHUNKED, body=CHUNK[:-1])):
        with site.connect() as peer:
            peer.send(data)
            peer.socket.shutdown(1)  # nothing more will come
            assert outcome(peer) in (0, 400)
    with site.connect() as peer:
        assert count_runs(peer) == runs


def test_our_lane_does_not_wait_for_a_body_for_ever() -> None:
    times = Timeouts(header_s=0.2, body_idle_s=0.2, body_s=0.4)
    with serving("own", make_server(), times=times) as served:
        for data in (
            _with(f"Content-Length: {len(TOUCH) + 1}"),
            _with(CHUNKED, body=CHUNK[:-1]),
            b"POST /mc",
        ):
            with served.connect() as peer:
                peer.send(data)
                assert outcome(peer) == 408
                assert peer.is_closed()


# --- several requests --------------------------------------------------------------------------------------


def test_requests_sent_ahead_are_answered_in_order(site: Served) -> None:
    with site.connect() as peer:
        bodies = [encode(message("ping", id_=number)) for number in range(16)]
        peer.send(b"".join(request(body) for body in bodies))
        assert [peer.read().json["id"] for _ in bodies] == list(range(16))


def test_calls_sent_ahead_wait_for_those_before_them(site: Served) -> None:
    with site.connect() as peer, site.connect() as other:
        held = encode(call("legacy", "wait", {"key": site.http_stack}) | {"id": "held"})
        peer.send(request(held) + request(encode(message("ping", id_="after"))))
        other.post(encode(call("legacy", "release", {"key": site.http_stack})))
        assert [peer.read().json["id"] for _ in range(2)] == ["held", "after"]


def test_anything_that_follows_a_bad_request_is_not_served(site: Served) -> None:
    with site.connect() as peer:
        runs = count_runs(peer)
        peer.send(request(PING) + b"NOT HTTP\r\n\r\n" + _with(LENGTH))
        assert outcome(peer) == (
            200 if site.http_stack == "own" else 400
        )  # uvicorn drops what it read together
        assert outcome(peer) in (0, 400)
        assert peer.is_closed()
    with site.connect() as peer:
        assert count_runs(peer) == runs


def test_a_request_hidden_in_a_body_is_not_served(site: Served) -> None:
    hidden = request(TOUCH, HEADERS)
    with site.connect() as peer:
        runs = count_runs(peer)
        assert peer.post(hidden).code == PARSE
        assert count_runs(peer) == runs


# --- no HTTP -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"POST /mcp\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"post /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nNo colon here\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n: no name\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHo st: localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nX\x01Y: z\r\n\r\n",
        b"POST /m\x00cp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n\r\n',
        b"*1\r\n$4\r\nPING\r\n",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_anything_that_is_not_http_is_refused(site: Served, data: bytes) -> None:
    _refused(site, data, statuses=(400, 0, 421, 505))


def test_other_paths_and_methods_are_named_as_such(site: Served) -> None:
    with site.connect() as peer:
        for path in ("/", "/mcp/x", "/MCP", "//mcp", "/../mcp", "/mcp;x"):
            assert peer.post(PING, path=path).status == 404
        for method in ("PUT", "PATCH", "OPTIONS"):
            peer.send(request(PING, method=method))
            response = peer.read()
            assert (response.status, response.headers["allow"]) == (405, "GET, POST, DELETE")
