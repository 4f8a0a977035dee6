"""Bytes that are not JSON, or that two readers could understand differently: all -32700 in every era."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from tests.wire.cases import PARSE, Case, call, encode, modern

WHOLE = encode(modern("tools/call", name="echo", arguments={"value": ["x", 1.5, None, True]}))
SLOTS = {
    "an argument": encode(call("modern", "touch", {"value": "@"})),
    "the id": b'{"jsonrpc":"2.0","id":"@","method":"ping"}',
    "alone": b'"@"',
}
_SLOT = b'"@"'


def _at(places: dict[str, bytes], raw: dict[str, bytes]) -> Iterator[Case]:
    """Every raw value at every place."""
    for place, around in places.items():
        for name, value in raw.items():
            yield Case(f"{name} as {place}", around.replace(_SLOT, value), PARSE)


def malformed() -> Iterator[Case]:
    """Texts that look like JSON, or like something else."""
    texts = {
        "nothing": b"",
        "blanks": b" \t\r ",
        "a word": b"hello",
        "an open brace": b"{",
        "a closing brace": b"}",
        "an open bracket": b"[",
        "a closing bracket": b"]",
        "brackets the wrong way round": b"][",
        "mixed brackets": b'{"a":[1}',
        "a colon": b":",
        "a comma": b",",
        "a quote": b'"',
        "an unclosed string": b'{"jsonrpc":"2.0',
        "an unclosed key": b'{"jsonrpc',
        "a key alone": b'{"jsonrpc"}',
        "a key and a colon": b'{"jsonrpc":}',
        "no key": b'{:"2.0"}',
        "no colon": b'{"jsonrpc" "2.0"}',
        "two colons": b'{"jsonrpc"::"2.0"}',
        "two commas": b'{"a":1,,"b":2}',
        "a comma first": b'{,"a":1}',
        "a comma last": b'{"a":1,}',
        "a comma last in a list": b"[1,]",
        "a comma first in a list": b"[,1]",
        "a list without commas": b"[1 2]",
        "a semicolon": b'{"a":1;"b":2}',
        "an equals sign": b'{"a"=1}',
        "single quotes": b"{'jsonrpc':'2.0','id':1,'method':'ping'}",
        "bare keys": b'{jsonrpc:"2.0",id:1,method:"ping"}',
        "a number as key": b'{1:"2.0"}',
        "null as key": b'{null:"2.0"}',
        "a list as key": b'{[1]:"2.0"}',
        "a block comment": b'/* hi */{"jsonrpc":"2.0","id":1,"method":"ping"}',
        "a comment inside": b'{"jsonrpc":"2.0",/**/"id":1,"method":"ping"}',
        "a line comment": b'{"jsonrpc":"2.0","id":1,"method":"ping"}//',
        "a hash comment": b'#{"jsonrpc":"2.0","id":1,"method":"ping"}',
        "True": b"True",
        "TRUE": b"TRUE",
        "None": b"None",
        "undefined": b"undefined",
        "nil": b"nil",
        "tru": b"tru",
        "truex": b"truex",
        "nulls": b"nullnull",
        "a guard prefix": b')]}\',{"jsonrpc":"2.0","id":1,"method":"ping"}',
        "a callback": b'callback({"jsonrpc":"2.0","id":1,"method":"ping"})',
        "an event": b'data: {"jsonrpc":"2.0","id":1,"method":"ping"}',
        "a frame of another protocol": b'Content-Length: 4\r\r{"jsonrpc":"2.0","id":1,"method":"ping"}',
        "an assignment": b'x = {"jsonrpc":"2.0"}',
        "a form": b"jsonrpc=2.0&id=1&method=ping",
        "markup": b"<?xml version='1.0'?><methodCall/>",
        "a page": b"<!doctype html><script>alert(1)</script>",
        "a request in a request": b"GET / HTTP/1.1\r\rHost: x\r\r",
        "a pickle": b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00]\x94.",
        "gzip": gzip.compress(WHOLE, mtime=0).replace(b"\n", b"\x0b"),
        "message pack": b"\x83\xa7jsonrpc\xa32.0\xa2id\x01\xa6method\xa4ping",
        "a picture": b"\x89PNG\r\x1a\x0b\x00\x00\x00\x0dIHDR",
        "one NUL": b"\x00",
        "many NULs": bytes(100),
        "a template": b"{{7*7}}",
        "a shell": b"$(id)",
        "two messages": WHOLE + WHOLE,
        "two messages and a blank": WHOLE + b" " + WHOLE,
        "two messages and a comma": WHOLE + b"," + WHOLE,
        "something after": WHOLE + b"x",
        "a bracket after": WHOLE + b"]",
        "a brace after": WHOLE + b"}",
        "a NUL after": WHOLE + b"\x00",
        "a NUL before": b"\x00" + WHOLE,
        "a form feed before": b"\x0c" + WHOLE,
        "a vertical tab after": WHOLE + b"\x0b",
        "a no-break space before": b"\xc2\xa0" + WHOLE,
        "a line separator before": b"\xe2\x80\xa8" + WHOLE,
        "a zero width space before": b"\xe2\x80\x8b" + WHOLE,
        "typographic quotes": "{“jsonrpc”:“2.0”}".encode(),
    }
    for name, body in texts.items():
        yield Case(name, body, PARSE)


def truncated() -> Iterator[Case]:
    """A good message that ends too early, or starts too late."""
    for size in range(1, len(WHOLE), 4):
        yield Case(f"the first {size} bytes", WHOLE[:size], PARSE)
    for start in range(1, len(WHOLE) - 1, 9):
        rest = WHOLE[start:]
        if not (rest[:1].isdigit() or rest.startswith(b'"')):  # which may be a value of its own
            yield Case(f"without the first {start} bytes", rest, PARSE)


def damaged() -> Iterator[Case]:
    """A good message in which one mark is missing or another."""
    marks = [place for place, byte in enumerate(WHOLE) if byte in b'{}[]:,"']
    for place in marks:
        yield Case(f"no mark at {place}", WHOLE[:place] + WHOLE[place + 1 :], PARSE)
    for place in marks[::3]:
        yield Case(f"a NUL for the mark at {place}", WHOLE[:place] + b"\x00" + WHOLE[place + 1 :], PARSE)
        yield Case(f"no UTF-8 for the mark at {place}", WHOLE[:place] + b"\xff" + WHOLE[place + 1 :], PARSE)


def numbers() -> Iterator[Case]:
    """Numbers that JSON does not have, or that no reader could agree on."""
    raw = {
        "NaN": b"NaN",
        "-NaN": b"-NaN",
        "nan": b"nan",
        "Infinity": b"Infinity",
        "-Infinity": b"-Infinity",
        "inf": b"inf",
        "1e999": b"1e999",
        "-1e999": b"-1e999",
        "1E+400": b"1E+400",
        "a zero first": b"01",
        "a negative zero first": b"-01",
        "a plus": b"+1",
        "a point first": b".5",
        "a point last": b"1.",
        "a point before the exponent": b"1.e5",
        "an empty exponent": b"1e",
        "an empty signed exponent": b"1e+",
        "a minus alone": b"-",
        "two minuses": b"--1",
        "hexadecimal": b"0x10",
        "octal": b"0o17",
        "binary": b"0b1",
        "underscores": b"1_000",
        "a suffix": b"1n",
        "a complex one": b"1j",
        "a fraction": b"1/2",
        "two points": b"1.2.3",
        "a comma in it": b"1,5",
        "other digits": "١٢".encode(),
        "101 digits": b"9" * 101,
        "-101 digits": b"-" + b"9" * 101,
        "5,000 digits": b"1" * 5_000,
        "a megabyte of digits": b"1" * 1_000_000,
    }
    yield from _at(SLOTS, raw)
