"""Plays about calls: every kind of result, bad arguments, and news on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.clients.transcripts import MODERN, Play
from tests.wire.golden.said import OMIT, ask, call, log_level
from toolcrib.protocol.messages import LEVELS

GOOD: list[tuple[str, str, Any]] = [
    ("two whole numbers", "add", {"a": 40, "b": 2}),
    ("a default", "add", {"a": 40}),
    ("a negative number", "add", {"a": -5, "b": 5}),
    ("a large number", "add", {"a": 2**53, "b": 1}),
    ("null", "echo", {"value": None}),
    ("true", "echo", {"value": True}),
    ("zero", "echo", {"value": 0}),
    ("a fraction", "echo", {"value": -1.5}),
    ("a large fraction", "echo", {"value": 1e21}),
    ("an empty text", "echo", {"value": ""}),
    ("text of many scripts", "echo", {"value": "Grüße, 世界 💡"}),
    ("text with quotes and lines", "echo", {"value": 'say "hi"\nand\tgo\\'}),
    ("an empty list", "echo", {"value": []}),
    ("a list", "echo", {"value": [1, "two", None]}),
    ("an empty object", "echo", {"value": {}}),
    ("an object", "echo", {"value": {"b": 1, "a": {"c": [True]}}}),
    ("an object called result", "echo", {"value": {"result": 5}}),
    ("a record", "move", {"point": {"x": 1.5, "y": 2}, "by": 0.5}),
    ("a record with defaults", "move", {"point": {"x": 0}}),
    ("a list of numbers", "numbers", {}),
    ("no numbers", "numbers", {"count": 0}),
    ("nothing at all", "nothing", {}),
    ("no arguments given", "nothing", OMIT),
    ("a word", "maybe", {"give": True}),
    ("no word", "maybe", {}),
    ("a choice", "choose", {"size": "small"}),
    ("a choice with everything", "choose", {"size": "large", "tags": ["a", "b"], "sure": False}),
    ("a list with references to its root", "tree", {}),
    ("a schema of its own", "parcel", {"kind": "box", "size": 3}),
    ("the other branch of a schema", "parcel", {"kind": "bag"}),
    ("a refusal", "refuse", {}),
    ("a refusal in words", "refuse", {"words": "The shop is closed: come back at 9."}),
    ("a crash", "crash", {}),
    ("words beside data", "both", {}),
    ("a picture", "picture", {}),
    ("a sound", "sound", {}),
    ("a file with text", "page", {}),
    ("a file with bytes", "blob", {}),
    ("a link", "link", {}),
    ("some of everything", "mixture", {}),
    ("mirrored arguments left out", "mirror", {}),
]

BAD: list[tuple[str, Any, Any]] = [
    ("an argument missing", "add", {"b": 1}),
    ("no arguments where some are needed", "add", OMIT),
    ("a word for a number", "add", {"a": "many"}),
    ("a number in a text", "add", {"a": "5"}),
    ("a fraction for a whole number", "add", {"a": 1.5}),
    ("a whole fraction", "add", {"a": 2.0}),
    ("a boolean for a number", "add", {"a": True}),
    ("null for a number", "add", {"a": None}),
    ("an unknown argument", "add", {"a": 1, "c": 2}),
    ("a misspelt argument", "choose", {"sise": "small"}),
    ("several problems", "move", {"point": {"y": "up"}, "by": 0}),
    ("too small", "move", {"point": {"x": 1}, "by": 0}),
    ("too large", "move", {"point": {"x": 1}, "by": 101}),
    ("a text for an object", "move", {"point": "here"}),
    ("not one of a few", "choose", {"size": "medium"}),
    ("too many items", "choose", {"size": "small", "tags": ["a", "b", "c", "d"]}),
    ("an item of another kind", "choose", {"size": "small", "tags": [1]}),
    ("a condition not met", "parcel", {"kind": "box"}),
    ("a limit of a definition", "parcel", {"kind": "box", "size": 10}),
    ("a list of arguments", "add", [1, 2]),
    ("a text of arguments", "add", "a=1"),
    ("null arguments", "add", None),
    ("a number of arguments", "add", 5),
    ("an unknown tool", "missing", {}),
    ("a tool in another case", "Add", {"a": 1}),
    ("an empty name", "", {}),
    ("a number for a name", 5, {}),
    ("null for a name", None, {}),
    ("a list for a name", ["add"], {}),
    ("a long name", "x" * 300, {}),
]

TOKENS: list[tuple[str, Any]] = [
    ("a text", "t-1"),
    ("a number", 7),
    ("zero", 0),
    ("an empty text", ""),
    ("null", None),
    ("a fraction", 1.5),
    ("a boolean", True),
    ("an object", {}),
]


def results(version: str) -> Iterator[Play]:
    for name, tool, arguments in GOOD:
        ways = ["pipe", "http"] if tool in ("move", "crash", "refuse", "mixture", "nothing") else ["pipe"]
        yield Play(f"a call: {name}", [call(tool, arguments)], over=ways)


def arguments(version: str) -> Iterator[Play]:
    for name, tool, given in BAD:
        yield Play(f"a call: {name}", [call(tool, given)], over=["http" if tool != "add" else "pipe"])
    yield Play("a call without a name", [ask("tools/call", {"arguments": {}})], over=["http"])


def news(version: str) -> Iterator[Play]:
    for name, token in TOKENS:
        yield Play(
            f"progress, its token {name}", [call("steps", {"count": 2}, progressToken=token)], over=["http"]
        )
    yield Play("progress over a pipe", [call("steps", {"count": 3}, progressToken="p")], over=["pipe"])
    yield Play("progress in words", [call("steps", {"count": 1, "words": "nearly"}, progressToken="p")])
    yield Play("progress that goes back", [call("stumble", {}, progressToken="p")])
    yield Play("no progress without a token", [call("steps", {"count": 2})])
    yield Play("two calls with progress", [call("steps", {}, progressToken=n) for n in (1, 2)], over=["http"])
    yield Play("a log line that nobody asked for", [call("chat", {})])
    yield Play("a log line of no known level", [call("chat", {"level": "loud"})], over=["http"])
    yield Play("a log line with data", [call("chat", {"data": {"a": [1, None]}}, **_wish("info", version))])
    for level in LEVELS:
        lines = [call("chat", {"level": "warning"}, **_wish(level, version))]
        if version != MODERN:
            lines.insert(0, ask("logging/setLevel", {"level": level}))
        yield Play(f"a warning where {level} is wanted", lines, over=["http" if level < "j" else "pipe"])
    for level in ("loud", 3, None):
        lines = [call("chat", {}, **log_level(level))]
        if version != MODERN:
            lines = [ask("logging/setLevel", {"level": level})]
        yield Play(f"the level {level!r} is wanted", lines, over=["http"])


def _wish(level: str, version: str) -> dict[str, Any]:
    return log_level(level) if version == MODERN else {}
