"""A4, A5, A6: deep nests, odd numbers and broken text are refused at once, for nothing, and answered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.raw_http_client import Peer
from tests.support.servers.http_servers import HTTP_STACKS
from tests.support.servers.stdio_program import Program
from tests.wire.cases import PARSE, REQUEST, encode, message
from toolcrib.validation import codec

PROMPT_S = 0.05
MIB = 1024 * 1024


@pytest.fixture(scope="module", params=HTTP_STACKS)
def program(request: Any) -> Iterator[Program]:
    with Program(request.param) as program:
        yield program
        assert "Traceback" not in program.errors


def _nests() -> dict[str, bytes]:
    found = {}
    for depth in (100, 1_000, 100_000, 1_000_000):
        found[f"{depth} lists"] = b"[" * depth + b"]" * depth
        found[f"{depth} lists, unclosed"] = b"[" * depth
        found[f"{depth} objects, unclosed"] = b'{"a":' * depth
        found[f"{depth} in a call"] = encode(message("tools/call", {"arguments": {"a": "@"}})).replace(
            b'"@"', b"[" * depth + b"]" * depth
        )
    return found


NESTS = _nests()


@pytest.mark.parametrize("name", NESTS)
def test_a_deep_nest_is_refused_at_once(name: str) -> None:
    assert any(_time_to_refuse(NESTS[name]) < PROMPT_S for _ in range(5))


def _time_to_refuse(data: bytes) -> float:
    started = time.thread_time()  # of work: what others do on this machine is not ours
    with pytest.raises(ValueError):
        codec.parse(data)
    return time.thread_time() - started


@pytest.mark.parametrize("name", [name for name in NESTS if len(NESTS[name]) < 4 * MIB])
def test_a_deep_nest_over_http_is_a_parse_error_in_no_time(program: Program, name: str) -> None:
    with Peer(program.port) as peer:
        times = []
        for _ in range(5):
            started = program.cpu_s
            response = peer.post(NESTS[name])
            times.append(program.cpu_s - started)
            assert (response.status, response.code) == (400, PARSE)
    assert min(times) < PROMPT_S


def test_nests_leave_no_memory_behind(program: Program) -> None:
    bodies = [body for body in NESTS.values() if len(body) < 4 * MIB]
    with Peer(program.port) as peer:
        for body in bodies:  # what is allocated once stays
            peer.post(body)
        before = program.memory
        for _ in range(3):
            for body in bodies:
                assert peer.post(body).code == PARSE
    assert program.memory - before < 8 * MIB


def test_a_deep_line_is_answered_too(stdio: Program) -> None:
    for body in NESTS.values():
        if len(body) < 4 * MIB:
            (reply,) = stdio.replies_to(body, expected=1)
            assert reply["error"]["code"] == PARSE


ODD = {
    "a key twice": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}', PARSE),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', PARSE),
    "Infinity": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":-Infinity}}', PARSE),
    "1e999": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e999}}', PARSE),
    "half a character": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}', PARSE),
    "UTF-16": ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"), PARSE),
    "a mark": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', PARSE),
    "an id of a megabyte": (encode(message("ping", id_="x" * 1_000_000)), REQUEST),
    "broken UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xc3"}}', PARSE),
    "overlong UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xc0\xaf"}}', PARSE),
}


@pytest.mark.parametrize("name", ODD)
def test_anything_that_two_readers_could_read_differently_is_refused_everywhere(
    program: Program, stdio: Program, name: str
) -> None:
    body, code = ODD[name]
    with Peer(program.port) as peer:
        response = peer.post(body)
        assert (response.status, response.code) == (400, code)
        assert "id" not in response.json
        assert len(response.body) < 1_000  # nothing of it is sent back
    (reply,) = stdio.replies_to(body, expected=1)
    assert reply["error"]["code"] == code


def test_the_largest_document_that_is_taken_costs_little_to_read() -> None:
    """The checks are linear: every shape of 4 MiB is read or refused within a second of work."""
    size = 4 * MIB
    shapes = {
        "digits": b"[" + b"1" * (size - 2) + b"]",
        "fractions": b"[0." + b"1" * (size - 4) + b"]",
        "short numbers": b"[" + b"1," * (size // 2 - 2) + b"1]",
        "lists": b"[" + b"[]," * 90_000 + b"1]",
        "objects": b"[" + b'{"a":1},' * 90_000 + b"1]",
        "escapes": b'["' + b"\\\\" * (MIB // 2 - 8) + b'"]',
        "quotes": b'["' + b'\\"' * (MIB // 2 - 8) + b'"]',
        "texts": b"[" + b'"a",' * (size // 4 - 2) + b"1]",
        "blanks": b"[" + b" " * (size - 2) + b"]",
    }
    for name, data in shapes.items():
        assert any(_time_to_read(data) < 1.0 for _ in range(3)), name


def _time_to_read(data: bytes) -> float:
    started = time.thread_time()
    try:
        codec.parse(data)
    except ValueError:
        pass  # refused is fine, if it is soon
    return time.thread_time() - started
