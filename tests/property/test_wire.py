"""A3: any JSON goes in and comes out the same; what is refused is what a strict reference refuses too."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.wire.cases import call, encode
from tests.wire.site import make_server
from toolcrib.protocol import Peer, Reply
from toolcrib.validation import codec

NUMBERS = st.integers(-(10**100) + 1, 10**100 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXT, inner, max_size=8),
    max_leaves=40,
)


# --- there and back ----------------------------------------------------------------------------------------


@given(VALUES)
def test_anything_that_is_written_is_parsed_back(value: Any) -> None:
    assert _same(codec.parse(codec.write(value)), value)


@pytest.fixture(scope="module")
def engine() -> Any:
    return make_server().transports.engine


@pytest.mark.parametrize("era", ["modern", "legacy"])
@given(value=VALUES)
@example(value={"__proto__": {"": [-0.0, 10**99, "\x00\u2028💥"]}})
def test_any_value_goes_through_a_tool_unharmed(engine: Any, era: str, value: Any) -> None:
    reply = _receive(engine, encode(call(era, "echo", {"value": value})))
    answer = json.loads(reply)
    assert answer["id"] == 7
    assert answer["result"]["isError"] is False
    assert _same(json.loads(answer["result"]["content"][0]["text"]), {"echo": value})
    if era == "modern":
        assert _same(answer["result"]["structuredContent"], {"echo": value})


@given(st.binary(max_size=200) | VALUES.map(encode) | VALUES.map(lambda value: encode([value])[:-1]))
def test_whatever_comes_in_valid_json_rpc_goes_out(engine: Any, data: bytes) -> None:
    answer = json.loads(_receive(engine, data))
    assert answer["jsonrpc"] == "2.0"
    assert answer["error"]["code"] in (-32700, -32600)
    assert "id" not in answer or answer["id"] == json.loads(data)["id"]


def _receive(engine: Any, data: bytes) -> bytes:
    outcome = engine.receive(data, Peer())
    reply = outcome if isinstance(outcome, Reply) else asyncio.run(outcome.run())
    assert reply.body is not None
    return reply.body


def _same(found: Any, sent: Any) -> bool:
    """Equal, and of the same type all the way down: 1 is not 1.0, nor is it true."""
    if type(found) is not type(sent):
        return False
    if isinstance(sent, dict):
        return list(found) == list(sent) and all(_same(found[key], sent[key]) for key in sent)
    if isinstance(sent, list):
        return len(found) == len(sent) and all(map(_same, found, sent))
    return bool(found == sent)


# --- against a reference -----------------------------------------------------------------------------------


class Unfit(ValueError):
    pass


def read_strictly(data: bytes) -> Any:
    """The standard library's reader, with the rules that strangers are held to put into its hooks."""
    text = data.decode()  # raises for what is no UTF-8
    if text.startswith("\ufeff"):
        raise Unfit("mark")
    value = json.loads(
        text, object_pairs_hook=_pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant
    )
    if _depth(value) > codec.MAX_DEPTH:
        raise Unfit("depth")
    json.dumps(value, ensure_ascii=False).encode()  # raises for half a character
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs) or len(pairs) > codec.MAX_MEMBERS:
        raise Unfit("members")
    return dict(pairs)


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > 100:
        raise Unfit("digits")
    return int(text)


def _float(text: str) -> float:
    if math.isinf(float(text)):
        raise Unfit("overflow")
    return float(text)


def _constant(text: str) -> Any:
    raise Unfit(text)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


BLANKS = st.text(" \t\n\r", max_size=3)
SHORT = st.text(st.sampled_from('ab"\\/:{}[], é💥\u2028\n\x00'), max_size=4)


@st.composite
def spelt(draw: st.DrawFn, text: str) -> str:
    """A text as a JSON string, each character in one of the ways it can be written."""
    out = []
    for character in text:
        ways = [json.dumps(character)[1:-1]]
        if character == "/":
            ways.append("\\/")
        if character >= " " and character not in '"\\':
            ways.append(character)
        if ord(character) < 0x10000:
            ways += [f"\\u{ord(character):04x}", f"\\u{ord(character):04X}"]
        out.append(draw(st.sampled_from(ways)))
    return f'"{"".join(out)}"'


@st.composite
def documents(draw: st.DrawFn, depth: int = 4) -> str:
    """JSON with odd blanks and spellings, whose keys are few, so that some are there twice."""
    kinds = ["number", "word", "text"] + (["list", "object", "object", "object"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    before, after = draw(BLANKS), draw(BLANKS)
    if kind == "number":
        inner = draw(
            st.sampled_from(["0", "-0", "1", "-1.5", "1e5", "1E-400", "9" * 100, "9" * 101, "0." + "3" * 120])
        )
    elif kind == "word":
        inner = draw(st.sampled_from(["null", "true", "false"]))
    elif kind == "text":
        inner = draw(SHORT.flatmap(spelt))
    elif kind == "list":
        inner = "[" + ",".join(draw(st.lists(documents(depth - 1), max_size=3))) + "]"
    else:
        members = []
        for _ in range(draw(st.integers(0, 4))):
            key = draw(st.sampled_from(["a", "b", '"', "", "é", '":', "a/b"]).flatmap(spelt))
            members.append(f"{draw(BLANKS)}{key}{draw(BLANKS)}:{draw(documents(depth - 1))}")
        inner = "{" + ",".join(members) + (draw(BLANKS) if not members else "") + "}"
    return before + inner + after


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A document with a byte or two changed, taken out or put in."""
    data = bytearray(draw(documents()).encode())
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.integers(0, len(data)))
        piece = draw(
            st.sampled_from(b'{}[]:,"\\u0123456789eE+-. \n\t\x00\xff\xc3\xa9ntf').map(
                lambda byte: bytes([byte])
            )
        )
        data[place : place + draw(st.integers(0, 1))] = piece if draw(st.booleans()) else b""
    return bytes(data)


LARGE = documents().map(lambda text: f'[{text},"{"x" * 20_000}"]')


@settings(max_examples=settings().max_examples * 2)
@given(documents().map(str.encode) | damaged() | LARGE.map(str.encode))
@example(b'{"a":1,"a":2}')
@example(b'{"a":1,"\\u0061":2}')
@example(b'{"a" :1,"a":"\\":"}')
@example(b'{"a":{"a":1},"b":"\\":"}')
@example(b"9" * 101)
@example(b'"\\ud800"')
@example(b'{"\\ud800":1,"\\ud800":2}')
@example(b"[" * 65 + b"]" * 65)
@example(b"[" * 64 + b"]" * 64)
@example(b"\xef\xbb\xbf1")
@example(b"[1e999]")
@example(b"[NaN]")
def test_anything_that_is_parsed_and_what_is_refused_is_what_a_strict_reader_says(data: bytes) -> None:
    try:
        expected = read_strictly(data)
    except ValueError:
        with pytest.raises(ValueError):
            codec.parse(data)
    else:
        assert _same(codec.parse(data), expected)
