"""Documents that cost more to read than to send are refused."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.validation import codec
from toolcrib.validation.codec import MAX_STRING, has_repeated_key

PAD = b'"' + b"p" * 20_000 + b'"'
"""Makes a document one of the large ones."""
MB = 1024 * 1024


def large(inner: bytes) -> bytes:
    return b"[" + PAD + b"," + inner + b"]"


def is_taken(data: bytes) -> bool:
    try:
        value = codec.parse(data)
    except ValueError:
        return False
    assert value == json.loads(data)
    return True


def repeated(piece: bytes, size: int) -> bytes:
    return b"[" + b",".join([piece] * (size // (len(piece) + 1))) + b"]"


# --- what is taken -----------------------------------------------------------------------------------


ORDINARY = {
    "digits": b"0",
    "whole numbers": b"1234567890",
    "fractions": b"-1.5",
    "long fractions": b"1.2345678901234567",
    "small fractions": b"1.234567890123456e-05",
    "a hundred digits": b"9" * 100,
    "words": b'"word"',
    "escapes": rb'"\u00e9\n"',
    "times": b'"12:30:45"',
    "colons": b'"a: b"',
    "addresses": b'"http://x.example/?q=[1]{2}"',
    "numbers in texts": b'"3e500 and 1e999"',
    "digits in texts": b'"' + b"0123456789" * 30 + b'"',
    "literals": b"null",
    "records": b'{"name":"Ada Lovelace","age":36,"tags":["first","second"]}',
    "places": b"[13.404954,52.520008]",
    "places with blanks": b'{"lat" : 13.4049, "lon" : 52.5200}',
    "JSON in texts": rb'{"id":1,"text":"{\"a\":[1,2,3]}"}',
}


@pytest.mark.parametrize("piece", ORDINARY)
@pytest.mark.parametrize("size", [20_000, 300_000, 2 * MB])
def test_ordinary_documents_are_taken_whatever_their_size(piece: str, size: int) -> None:
    assert is_taken(repeated(ORDINARY[piece], size))


@pytest.mark.parametrize(
    "text", [b"a" * MAX_STRING, rb"\"" * (MAX_STRING // 2), b"[{:" * 300_000, b"9" * 500_000]
)
def test_a_long_string_is_taken_whatever_is_in_it(text: bytes) -> None:
    assert is_taken(large(b'{"text":"' + text + b'"}'))


# --- what is not -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        (b'"' + b"a" * (MAX_STRING + 1) + b'"', "a string of more than"),
        (b'"' + rb"\"" * (MAX_STRING // 2) + b'a"', "a string of more than"),
        (b'"' + b"a" * 900_000 + rb"\"" + b"a" * 900_000 + b'"', "a string of more than"),
        (b"9" * 101, "an integer of more than 100 digits"),
        (b"-" + b"9" * 101, "an integer of more than 100 digits"),
        (b"[1," + b"9" * 5000 + b"]", "an integer of more than 100 digits"),
        (repeated(b"{}", 300_000), "too many objects and arrays"),
        (repeated(b'{"a":1}', 900_000), "too many .* for its size"),
        (repeated(b"1e300", 30_000), "too many numbers with large exponents"),
        (repeated(b"1E+300", 30_000), "too many numbers with large exponents"),
        (repeated(b"5e-324", 30_000), "too many numbers with large exponents"),
        (repeated(b"1e23", 60_000), "too many numbers with large exponents"),
        (repeated(b"3.7000000000000002247e+80", 300_000), "too many numbers with large exponents"),
        (b"{" + b",".join(b'"%d":0' % number for number in range(20_001)) + b"}", "an object of more than"),
        (b"[" * 70 + b"]" * 70, "nested deeper than 64"),
        (b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b'{"a":1,"b":{"c":1,"c":2}}', "an object has a key twice"),
        (b'{"a":"x:y","b" :1, "b":2}', "an object has a key twice"),
        (b'{"a":1,"\\u0061":2}', "an object has a key twice"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else str(len(value)),
)
def test_expensive_and_ambiguous_documents_are_refused(inner: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        codec.parse(large(inner))


@pytest.mark.parametrize("number", [b"1e300", b"1e-310", b"2.5E+200"])
def test_a_thousand_numbers_may_have_an_exponent_of_three_digits(number: bytes) -> None:
    assert is_taken(b"[" + b",".join([number] * 1_000) + b"]")
    with pytest.raises(ValueError, match="large exponents"):
        codec.parse(b"[" + b",".join([number] * 1_001) + b"]")


def test_other_exponents_may_be_more() -> None:
    assert is_taken(b"[" + b",".join([b"1.5e-07"] * 100_000) + b"]")
    assert is_taken(b"[" + b",".join([b"1.5e+23"] * 10_000) + b"]")


def test_numbers_in_strings_are_not_expensive() -> None:
    assert is_taken(repeated(b'"1e300,5e-324,1e300,5e-324,1e300,5e-324"', 300_000))
    assert is_taken(large(b'["' + b"1e300 " * 50_000 + b'"]'))


@pytest.mark.parametrize("digits", [99, 100, 101, 102, 150, 199, 200, 201, 300])
@pytest.mark.parametrize("shift", range(0, 100, 7))
def test_a_long_integer_is_found_wherever_it_begins(digits: int, shift: int) -> None:
    around = b'{"' + b"k" * shift + b'":%b,"z":1}'
    for number, is_integer in (
        (b"7" * digits, True),
        (b"-" + b"7" * digits, True),
        (b"0." + b"7" * digits, False),
        (b"1" * digits + b".5", False),
        (b"1e" + b"0" * digits + b"1", False),
        (b"1e-" + b"0" * digits + b"1", False),
        (b'"' + b"7" * digits + b'"', False),
    ):
        assert is_taken(large(around % number)) == (not is_integer or digits <= 100), number[:20]


# --- against a plain reading -------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)


@given(JSON, st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :"), (",\n", "\t:")]), st.booleans())
def test_a_large_document_is_read_as_the_standard_library_reads_it(
    value: Any, separators: tuple[str, str], ascii_only: bool
) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
    try:
        data = large(text.encode())
    except UnicodeEncodeError:
        return  # half a character
    assert codec.parse(data)[1] == value


@given(st.lists(st.tuples(st.text('ab:\\"{', max_size=3), st.integers(0, 9)), max_size=6), st.booleans())
def test_a_key_that_is_there_twice_is_found(pairs: list[tuple[str, int]], blanks: bool) -> None:
    colon = " : " if blanks else ":"
    text = "{" + ",".join(f"{json.dumps(key)}{colon}{value}" for key, value in pairs) + "}"
    members = len(dict(pairs))
    assert has_repeated_key(text.encode(), members) == (members != len(pairs))


def test_no_document_takes_long_to_judge() -> None:
    """Bytes in random patterns, four megabytes of each: linear, whatever they are."""
    dice = random.Random(7)
    for _ in range(12):
        pattern = bytes(
            dice.choice(b'0123456789eE.+-,[]{}:" \\x') for _ in range(dice.choice((3, 7, 60, 130)))
        )
        data = b"[" + (pattern * (4 * MB // len(pattern)))[: 4 * MB - 2] + b"]"
        started = time.thread_time()
        try:
            codec.parse(data)
        except ValueError:
            pass
        assert time.thread_time() - started < 1.5, pattern


def test_a_crowded_object_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_decoder", lambda: pytest.fail("decoded"))
    data = json.dumps({f"k{number}": 0 for number in range(10_001)}).encode()
    with pytest.raises(ValueError, match="an object of more than 10000 members"):
        codec.parse(data)


def test_colons_in_strings_are_not_members() -> None:
    value = {"a": ['":'] * 10_001}
    assert codec.parse(json.dumps(value).encode()) == value
