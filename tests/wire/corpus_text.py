"""Text that is none: half characters, overlong bytes, other encodings, control characters. All -32700."""

from __future__ import annotations

from collections.abc import Iterator

from tests.wire.cases import PARSE, RESULT, Case, call, encode
from tests.wire.corpus_json import WHOLE

SLOTS = {
    "an argument": encode(call("modern", "touch", {"value": "@"})),
    "a key": encode(call("modern", "touch", {"@": 1})),
    "the method": b'{"jsonrpc":"2.0","id":1,"method":"@"}',
    "the id": b'{"jsonrpc":"2.0","id":"@","method":"ping"}',
}


def _at_every_place(name: str, raw: bytes) -> Iterator[Case]:
    for place, around in SLOTS.items():
        yield Case(f"{name} in {place}", around.replace(b"@", raw), PARSE)


def escapes() -> Iterator[Case]:
    """Escapes that JSON does not have, and halves of characters."""
    wrong = {
        "an x": rb"\x41",
        "a quote": rb"\'",
        "an a": rb"\a",
        "a zero": rb"\0",
        "an e": rb"\e",
        "a capital U": rb"\U0001f600",
        "braces": rb"\u{1f600}",
        "three digits": rb"\u123",
        "no digits": rb"\u",
        "letters beyond f": rb"\uzzzz",
        "a sign": rb"\u+123",
        "a blank": rb"\ ",
        "an end": b"\\",
    }
    for name, raw in wrong.items():
        yield from _at_every_place(f"escape: {name}", raw)
    halves = {
        "first half": rb"\ud800",
        "last first half": rb"\udbff",
        "second half": rb"\udc00",
        "last second half": rb"\udfff",
        "first half, letter": rb"\ud83dx",
        "two first halves": rb"\ud83d\ud83d",
        "halves the wrong way round": rb"\ude00\ud83d",
        "first half, other escape": rb"\ud83d\n",
        "first half, other character": rb"\ud83d\u0041",
        "a pair and a half": rb"\ud83d\ude00\ud83d",
        "upper case": rb"\uD800",
    }
    for name, raw in halves.items():
        yield from _at_every_place(name, raw)


def control_characters() -> Iterator[Case]:
    """Below 32, all have to be escaped."""
    for number in range(32):
        around = SLOTS["an argument"]
        yield Case(f"a raw {number:#04x} in a string", around.replace(b"@", bytes([number])), PARSE)
    for number in (0, 1, 0x0B, 0x0C, 0x0E, 0x1B, 0x1F):
        yield Case(f"a raw {number:#04x} between", WHOLE.replace(b":", b":" + bytes([number]), 1), PARSE)
        yield Case(f"a raw {number:#04x} in a key", SLOTS["a key"].replace(b"@", bytes([number])), PARSE)


def bad_utf8() -> Iterator[Case]:
    """Bytes that are no UTF-8, each where a text could be."""
    wrong = {
        "a continuation": b"\x80",
        "a last continuation": b"\xbf",
        "two continuations": b"\x80\x80",
        "FE": b"\xfe",
        "FF": b"\xff",
        "half of two": b"\xc3",
        "a third of three": b"\xe2",
        "two thirds of three": b"\xe2\x82",
        "three quarters of four": b"\xf0\x9f\x98",
        "two and a letter": b"\xe2\x82x",
        "overlong NUL": b"\xc0\x80",
        "overlong slash in two": b"\xc0\xaf",
        "overlong quote in two": b"\xc0\xa2",
        "overlong letter in two": b"\xc1\xa1",
        "overlong slash in three": b"\xe0\x80\xaf",
        "overlong slash in four": b"\xf0\x80\x80\xaf",
        "overlong e acute": b"\xe0\x83\xa9",
        "a raw first half": b"\xed\xa0\x80",
        "a raw second half": b"\xed\xb0\x80",
        "a raw pair": b"\xed\xa0\xbd\xed\xb8\x80",
        "beyond the last character": b"\xf4\x90\x80\x80",
        "far beyond": b"\xf7\xbf\xbf\xbf",
        "five bytes": b"\xf8\x88\x80\x80\x80",
        "six bytes": b"\xfc\x84\x80\x80\x80\x80",
        "Latin-1": "é".encode("latin-1") + b"t",
        "Windows-1252": b"\x93quoted\x94",
        "Shift JIS": "ツール".encode("shift_jis").replace(b"\\", b""),
    }
    for name, raw in wrong.items():
        yield from _at_every_place(name, raw)


def encodings() -> Iterator[Case]:
    """A good message in another encoding than UTF-8."""
    text = WHOLE.decode()
    for name in (
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "utf-32-le",
        "utf-32-be",
        "cp500",
        "utf-8-sig",
    ):
        yield Case(f"all of it in {name}", text.encode(name), PARSE)
    for mark in (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"\xef\xbb\xbf", b"+/v8", b"\xef\xbb"):
        yield Case(f"after the mark {mark.hex()}", mark + WHOLE, PARSE)
    yield Case("a mark after", WHOLE + b"\xef\xbb\xbf", PARSE)
    yield Case("a mark between", WHOLE.replace(b",", b",\xef\xbb\xbf", 1), PARSE)


def good_text() -> Iterator[Case]:
    """What looks wrong and is not: it must pass."""
    fine = {
        "a pair of escapes": rb"\ud83d\ude00",
        "an escaped NUL": rb"\u0000",
        "all short escapes": rb"\"\\\/\b\f\n\r\t",
        "an escaped first half of nothing": rb"\\ud800",
        "a raw mark": b"\xef\xbb\xbf",
        "the last character": b"\xf4\x8f\xbf\xbf",
        "a character that is none": b"\xef\xbf\xbf",
        "DEL": b"\x7f",
        "other directions": "\u202eevil\u202c".encode(),
        "separators": "\u2028\u2029\u0085".encode(),
        "tags": "\U000e0041".encode(),
        "zalgo": ("a" + "\u0301" * 50).encode(),
        "words of JavaScript": b"</script><!--",
        "braces": b"{[}]",
        "a colon after a quote": rb"\":\":",
    }
    for era in ("modern", "legacy"):
        around = encode(call(era, "echo", {"value": "@"}))
        for name, raw in fine.items():
            yield Case(f"{name}, {era}", around.replace(b"@", raw), RESULT, era, 7)
