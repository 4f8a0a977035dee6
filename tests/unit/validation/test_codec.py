"""Encoding and decoding JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import uuid
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.validation import codec

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_anything_that_is_encoded_is_read_back(value: Any) -> None:
    assert codec.decode(codec.encode(value)) == value
    assert codec.decode(codec.encode_text(value)) == value
    assert codec.to_plain(value, refuse) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None, True, "é"]}, '{"a":[1,null,true,"é"]}'),
        (10**40, "1" + "0" * 40),
        (-0.0, "-0.0"),
        (1e16, "1e16"),
        ("null", '"null"'),
        ((1, (2,)), "[1,[2]]"),
    ],
)
def test_plain_data_is_written_as_json(value: Any, text: str) -> None:
    assert codec.encode_text(value) == text
    assert codec.encode(value) == text.encode()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, ""),
        ({"a": [1.0, {"b": math.inf}]}, "a[1].b"),
        ([(None, -math.inf)], "[0][1]"),
        ({1: {2: math.nan}}, "1.2"),
    ],
)
def test_anything_that_is_not_a_number_is_named_and_never_becomes_null(value: Any, path: str) -> None:
    with pytest.raises(codec.NotFiniteError) as refused:
        codec.encode(value)
    assert refused.value.path == path
    assert not math.isfinite(refused.value.value)
    assert "is not a JSON number" in str(refused.value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        pytest.param("\ud800", UnicodeEncodeError, id="surrogate"),
        pytest.param([10**5_000], OverflowError, id="digits"),
        pytest.param({"a": object()}, TypeError, id="object"),
        pytest.param({(1, 2): 3}, TypeError, id="key"),
    ],
)
def test_anything_that_json_cannot_say_raises(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        codec.encode(value)


def test_anything_that_contains_itself_raises() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(RecursionError):
        codec.encode(circle)


@pytest.mark.parametrize("text", ['{"a":[1,2.5,null]}', b'"\xc3\xa9"', " 5 ", "-0", "1e-400", "9" * 100])
def test_json_is_read(text: str | bytes) -> None:
    assert codec.decode(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "nul",
            "NaN",
            "Infinity",
            "[1,]",
            "{'a':1}",
            "1 2",
            "01",
            "+1",
            ".5",
            "\ufeff1",
            '"\x00"',
            "1e999",
        ),
        *('"\\ud800"', '"\\udc00"', '"\ud800"', "9" * 5_000, b'"\xff"', b"\xff\xfe1\x00"),
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_anything_that_is_not_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        codec.decode(text)


def test_errors_of_the_engine_have_messages_of_toolcrib() -> None:
    with pytest.raises(OverflowError, match=r"^an integer has too many digits$"):
        codec.encode([10**5_000])
    with pytest.raises(ValueError, match=r"^JSON is nested too deeply$"):
        codec.decode("[" * 100_000)
    with pytest.raises(ValueError, match=r"^JSON contains a lone surrogate$"):
        codec.decode('"\ud800"')
    with pytest.raises(ValueError, match=r"^nested too deeply$"):
        codec.parse(b"[" * 5_000)
    with pytest.raises(ValueError, match=r"^not valid UTF-8$"):
        codec.parse(b'"\xff"')
    with pytest.raises(ValueError, match=r"^invalid character"):
        codec.parse(b"[x]")
    with pytest.raises(ValueError, match=r"^an object has a key twice$"):
        codec.parse(b'{"a":1,"a":2}')


@pytest.mark.parametrize("sign", [b"", b"-"])
@pytest.mark.parametrize("spelt", [b"[%b]", b"[ %b ]", b" %b"])
def test_an_integer_has_a_hundred_digits_and_not_one_more(sign: bytes, spelt: bytes) -> None:
    longest = sign + b"9" * 100
    assert codec.parse(spelt % longest) in ([int(longest)], int(longest))
    with pytest.raises(ValueError, match=r"^an integer of more than 100 digits$"):
        codec.parse(spelt % (sign + b"1" + b"0" * 100))


def test_a_value_has_one_canonical_spelling() -> None:
    assert codec.canonical({"b": 1, "a": {"d": 2, "c": 3}}) == b'{"a":{"c":3,"d":2},"b":1}'
    assert codec.digest({"b": 1, "a": 2}) == codec.digest({"a": 2, "b": 1})
    assert codec.digest({"a": 1}) != codec.digest({"a": 1.0})
    assert len(codec.digest(None)) == 64


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Line:
    start: Point
    points: tuple[Point, ...]
    colour: Colour = Colour.RED
    made: dt.date = dt.date(2026, 11, 15)


def refuse(value: Any) -> Any:
    raise TypeError(f"not {type(value).__name__}")


def test_plain_data_comes_out_of_records_and_the_like() -> None:
    line = Line(Point(1, 2), (Point(3, 4),))
    plain = codec.to_plain({"lines": ({1: line},), "id": uuid.UUID(int=1), "raw": b"\xff"}, refuse)
    assert plain == {
        "lines": [{"1": {"start": [1, 2], "points": [[3, 4]], "colour": "red", "made": "2026-11-15"}}],
        "id": "00000000-0000-0000-0000-000000000001",
        "raw": "/w==",
    }


@pytest.mark.parametrize("value", [(1, [(2,), {"a": (3, 4)}]), [[], [[1]]], {"a": {"b": [1]}, "c": 1}, (), 5])
def test_plain_data_has_lists_and_no_tuples(value: Any) -> None:
    plain = codec.to_plain(value, refuse)
    assert plain == codec.decode(codec.encode(value))


def test_types_that_the_engine_does_not_support_are_converted_by_the_hook() -> None:
    class Own:
        pass

    assert codec.to_plain([Own()], lambda value: {"own": (1,)}) == [{"own": [1]}]
    with pytest.raises(TypeError, match="not Own"):
        codec.to_plain({"a": Own()}, refuse)
