"""JSON in and out."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import codec

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_what_is_encoded_is_read_back(value: Any) -> None:
    assert codec.decode(codec.encode(value)) == value
    assert codec.decode(codec.encode_text(value)) == value


@pytest.mark.parametrize(
    ("value", "path"),
    [(math.nan, ""), ([1.0, math.inf], "[1]"), ({"a": {"b": (None, -math.inf)}}, "a.b[1]")],
)
def test_what_is_no_number_is_named_by_its_place(value: Any, path: str) -> None:
    with pytest.raises(codec.NotFiniteError) as refused:
        codec.encode(value)
    assert refused.value.path == path


def test_nulls_alone_are_fine() -> None:
    assert (
        codec.encode({"a": None, "b": [1.5, "null", ({"c": 2},)]}) == b'{"a":null,"b":[1.5,"null",[{"c":2}]]}'
    )


def test_what_cannot_be_encoded_says_why() -> None:
    with pytest.raises(UnicodeEncodeError):
        codec.encode("\ud800")
    with pytest.raises(OverflowError, match="too many digits"):
        codec.encode(10**5000)
    with pytest.raises(TypeError):
        codec.encode(object())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nope",
        "NaN",
        "Infinity",
        "1e999",
        "[1,]",
        "{'a': 1}",
        "[" * 100_000,
        '"\\ud800"',
        "\ud800",
        b"\xff",
    ],
)
def test_what_is_not_json_is_a_value_error(text: Any) -> None:
    with pytest.raises(ValueError):
        codec.decode(text)


def test_one_value_has_one_canonical_spelling() -> None:
    assert codec.canonical({"b": 1, "a": [2, 3]}) == b'{"a":[2,3],"b":1}'
    assert codec.digest({"b": 1, "a": 2}) == codec.digest({"a": 2, "b": 1})
    assert codec.digest({"a": 1}) != codec.digest({"a": 2})


def test_plain_data_holds_no_tuples() -> None:
    def unknown(value: Any) -> Any:
        raise TypeError

    plain = codec.to_plain({"a": (1, (2, [(3,)])), "b": [(4,), 5]}, unknown)
    assert plain == {"a": [1, [2, [[3]]]], "b": [[4], 5]}
    assert codec.to_plain((1, 2), unknown) == [1, 2]


def test_durations_are_read() -> None:
    assert codec.parse_duration("PT90S") == dt.timedelta(seconds=90)
    with pytest.raises(ValueError):
        codec.parse_duration("soon")
