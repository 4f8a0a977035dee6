"""Keys that are there twice, and documents at the limits: just within, and just beyond."""

from __future__ import annotations

from collections.abc import Iterator

from tests.wire.cases import CAPABILITIES, PARSE, RESULT, VERSION, Case, call, encode

_META = f'"_meta":{{"{VERSION}":"2026-07-28","{CAPABILITIES}":{{}}}}'
_OPEN = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"touch",' + _META
_MIB = 1024 * 1024


def _with_arguments(arguments: str) -> bytes:
    return f'{_OPEN},"arguments":{arguments}}}}}'.encode()


def repeated_keys() -> Iterator[Case]:
    """Which of the two counts? Nobody may guess."""
    parts = {
        "jsonrpc": '"jsonrpc":"2.0"',
        "id": '"id":7',
        "another id": '"id":8',
        "method": '"method":"tools/call"',
        "another method": '"method":"tools/list"',
        "params": '"params":{}',
    }
    whole = _with_arguments("{}").decode()
    for name, part in parts.items():
        yield Case(f"{name} twice, at the start", f"{{{part},{whole[1:]}".encode(), PARSE)
        yield Case(f"{name} twice, at the end", f"{whole[:-1]},{part}}}".encode(), PARSE)
    inside = {
        "_meta": _META,
        "name": '"name":"touch"',
        "another name": '"name":"echo"',
        "arguments": '"arguments":{}',
    }
    for name, part in inside.items():
        yield Case(f"{name} twice", f"{whole[:-2]},{part}}}}}".encode(), PARSE)
    yield Case("the version twice", whole.replace("{}}", f'{{}},"{VERSION}":"x"}}', 1).encode(), PARSE)
    yield Case(
        "the capabilities twice", whole.replace("{}}", f'{{}},"{CAPABILITIES}":{{}}}}', 1).encode(), PARSE
    )
    arguments = {
        "in arguments": '{"a":1,"a":2}',
        "with the same value": '{"a":1,"a":1}',
        "three times": '{"a":1,"a":2,"a":3}',
        "an empty one": '{"":1,"":2}',
        "apart": '{"a":1,"b":2,"c":3,"a":4}',
        "deep": '{"a":{"b":{"c":{"d":1,"d":2}}}}',
        "in a list": '{"a":[1,{"b":1,"b":2}]}',
        "in a list of lists": '{"a":[[[{"b":1,"b":2}]]]}',
        "spelt with an escape": r'{"a":1,"\u0061":2}',
        "spelt with two escapes": r'{"\u0061":1,"\u0061":2}',
        "spelt with other digits": r'{"\u00e9":1,"\u00E9":2}',
        "spelt with an escaped slash": r'{"a/b":1,"a\/b":2}',
        "spelt as a pair": r'{"😀":1,"\ud83d\ude00":2}',
        "beyond ASCII": '{"é":1,"é":2}',
        "a blank before the colon": '{"a" :1,"a":2}',
        "blanks before both colons": '{"a" :1,"a"\t:2}',
        "a return before the colon": '{"a"\r:1,"a":2}',
        "blanks everywhere": '{ "a" : 1 , "a" : 2 }',
        "as many marks as members": r'{"a":1,"a":2,"b":"\":"}',
        "a blank in one, a mark in another": r'{"a" :1,"a":"x\":y"}',
        "a mark in the key": r'{"\":":1,"\":":2}',
        "with containers": '{"a":{},"a":[]}',
        "with null": '{"a":null,"a":null}',
        "the key __proto__": '{"__proto__":1,"__proto__":2}',
        "a quote in the key": r'{"\"":1,"\"":2}',
        "a NUL in the key": r'{"\u0000":1,"\u0000":2}',
        "far apart": '{"a":1,' + ",".join(f'"k{n}":{n}' for n in range(500)) + ',"a":2}',
        "in a large document": '{"a":1,"a":2,"b":"' + "x" * 20_000 + '"}',
        "at the end of a large document": '{"b":"' + "x" * 20_000 + '","a":1,"a":2}',
        "in a large list": '{"l":[' + "{}," * 5_000 + '{"a":1,"a":2}]}',
        "in a large document with marks": r'{"m":"' + r"\":" * 9_000 + '","a":1,"a":2}',
    }
    for name, text in arguments.items():
        yield Case(f"a key twice: {name}", _with_arguments(text), PARSE)


def not_repeated() -> Iterator[Case]:
    """The same key in different objects, or nearly the same one: all of them pass."""
    fine = {
        "one above the other": '{"a":{"a":{"a":1}}}',
        "side by side": '[{"a":1},{"a":2}]',
        "by case": '{"a":1,"A":2}',
        "by a blank": '{"a":1,"a ":2}',
        "by composition": '{"\u00e9":1,"e\u0301":2}',
        "by width": '{"a":1,"\uff41":2}',
        "by a NUL": r'{"a":1,"a\u0000":2}',
        "as text": r'"{\"a\":1,\"a\":2}"',
        "a blank before colons": '{"a" : 1, "b"\t: 2, "c"\r:3}',
        "marks in texts": r'{"a":"\":\":\":","b":"\" :"}',
        "large": '{"a":"' + "x" * 20_000 + '","b":{"a":1}}',
    }
    for era in ("modern", "legacy"):
        around = encode(call(era, "echo", {"value": "@"}))
        for name, text in fine.items():
            yield Case(
                f"keys that differ {name}, {era}", around.replace(b'"@"', text.encode()), RESULT, era, 7
            )


def at_the_limits() -> Iterator[Case]:
    """The value stands four levels deep in a call."""
    edges = {
        "nested 64 deep": (_nested("[", "]", 61), _nested("[", "]", 62)),
        "objects nested 64 deep": (_nested('{"a":', "}", 61, "1"), _nested('{"a":', "}", 62, "1")),
        "a hundred digits": ("9" * 100, "9" * 101),
        "a hundred digits below zero": ("-" + "9" * 100, "-" + "9" * 101),
        "10,000 members": (_members(10_000), _members(10_001)),
        "a text of 1 MiB": (f'"{"x" * _MIB}"', f'"{"x" * (_MIB + 1)}"'),
        "100 digits in a large document": (_beside("9" * 100), _beside("9" * 101)),
        "nested 64 deep in a large document": (
            _beside(_nested("[", "]", 60)),
            _beside(_nested("[", "]", 61)),
        ),
    }
    for name, (within, beyond) in edges.items():
        yield Case(
            f"beyond {name}",
            encode(call("modern", "echo", {"value": "@"})).replace(b'"@"', beyond.encode()),
            PARSE,
        )
        for era in ("modern", "legacy"):
            around = encode(call(era, "echo", {"value": "@"}))
            yield Case(f"{name}, {era}", around.replace(b'"@"', within.encode()), RESULT, era, 7)
    fine = {
        "a list of 50,000": "[" + "0," * 49_999 + "0]",
        "a long fraction": "0." + "1" * 101,
        "a long fraction in a large document": _beside("0." + "1" * 101),
        "a long exponent": "1e" + "0" * 101 + "1",
        "a small number": "1e-400",
        "the largest number": "1.7976931348623157e308",
        "brackets in a text": '"' + "[{" * 500 + '"',
        "brackets in a large text": '"' + "[{" * 20_000 + '"',
        "digits in a large text": '"' + "9" * 20_000 + '"',
        "blanks": " " * 20_000 + "1" + "\t" * 20_000,
    }
    for era in ("modern", "legacy"):
        around = encode(call(era, "echo", {"value": "@"}))
        for name, text in fine.items():
            yield Case(f"{name}, {era}", around.replace(b'"@"', text.encode()), RESULT, era, 7)


def depths() -> Iterator[Case]:
    """Nests that nobody means."""
    for depth in (100, 900, 1_000, 5_000, 20_000, 100_000):
        for name, opening, closing in (
            ("lists", "[", "]"),
            ("objects", '{"a":', "}"),
            ("both", '[{"a":', "}]"),
        ):
            yield Case(f"{depth} {name} deep", _with_arguments(_nested(opening, closing, depth, "1")), PARSE)
            yield Case(f"{depth} {name}, unclosed", _with_arguments(opening * depth)[:-2], PARSE)
    yield Case("a million lists, unclosed", b"[" * 1_000_000, PARSE)
    yield Case("a million lists", b"[" * 1_000_000 + b"]" * 1_000_000, PARSE)
    yield Case("a million objects, unclosed", b'{"":' * 1_000_000, PARSE)
    yield Case("100,001 lists side by side", _with_arguments('{"a":[' + "[]," * 100_001 + "1]}"), PARSE)


def _nested(opening: str, closing: str, depth: int, inner: str = "") -> str:
    return opening * depth + inner + closing * depth


def _members(count: int) -> str:
    return "{" + ",".join(f'"{number}":0' for number in range(count)) + "}"


def _beside(text: str) -> str:
    """A value in a document that is large enough to be checked another way."""
    return f'["{"x" * 20_000}",{text}]'
