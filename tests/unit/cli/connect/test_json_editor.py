"""One entry more or less in a JSON file, and not a letter else."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolcrib.cli.connect.json_file import PLAIN, CannotEditError, JsonEditor, MalformedError

ENTRY: dict[str, Any] = {"type": "stdio", "command": "/bin/toolcrib", "args": ["serve", "--stdio"]}
OTHER: dict[str, Any] = {"type": "stdio", "command": "other", "args": [], "env": {"A": "b"}}
EDITOR = JsonEditor("servers")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*[\s\S]*?\*/|[\s\S]')


# --- documents to try it on --------------------------------------------------------------------------


class Scribe:
    """Writes a value as JSON in a hand of its own: any space, comments anywhere, commas behind the last."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.eol = self.chance.choice(["\n", "\r\n"])
        self.comment_rate = self.chance.choice([0, 0.1, 0.4])
        self.trailing_rate = self.chance.choice([0, 0.5, 1])
        self.comments: list[str] = []

    def write(self, value: Any) -> str:
        return self._gap() + self._value(value) + self._gap()

    def _value(self, value: Any) -> str:
        if isinstance(value, dict):
            items = [
                f"{self._value(key)}{self._gap()}:{self._gap()}{self._value(item)}"
                for key, item in value.items()
            ]
            return "{" + self._items(items) + "}"
        if isinstance(value, list):
            return "[" + self._items([self._value(item) for item in value]) + "]"
        return json.dumps(value, ensure_ascii=self.chance.random() < 0.5)

    def _items(self, items: list[str]) -> str:
        parts = [self._gap() + item + self._gap() for item in items]
        tail = "," + self._gap() if items and self.chance.random() < self.trailing_rate else ""
        return ",".join(parts) + tail if parts else self._gap()

    def _gap(self) -> str:
        gap = self.chance.choice(["", "", " ", "\t", self.eol, self.eol + "  ", self.eol + "    "])
        while self.chance.random() < self.comment_rate:
            number = len(self.comments)
            words = self.chance.choice(['{ "servers": {', "}, //", '"', "it's", "x ", "http://y", "* /"])
            is_line = self.chance.random() < 0.5
            text = f"// {number} {words}" if is_line else f"/* {number} {words} */"
            self.comments.append(text)
            gap += text + (self.eol if is_line else self.chance.choice(["", " ", self.eol]))
        return gap


def read(text: str) -> Any:
    """Another reader than the one under test: takes comments and trailing commas out, then `json`."""
    tokens = [token for token in _TOKEN.findall(text) if not token.startswith(("//", "/*"))]
    plain = [token for token in tokens if token.strip()]
    kept = [
        token
        for token, following in zip(plain, [*plain[1:], ""], strict=True)
        if not (token == "," and following in ("}", "]"))
    ]
    return json.loads("".join(kept))


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
SERVERS = st.dictionaries(
    st.sampled_from(["a", "b", "Tools", "tools "]) | st.text(max_size=5), JSON, max_size=3
)
DOCUMENTS = st.tuples(
    st.dictionaries(st.text(max_size=6), JSON, max_size=3), st.none() | SERVERS, st.booleans()
).map(lambda parts: _document(*parts))


def _document(rest: dict[str, Any], servers: dict[str, Any] | None, is_first: bool) -> dict[str, Any]:
    own = {} if servers is None else {"servers": servers}
    rest.pop("servers", None)
    return {**own, **rest} if is_first else {**rest, **own}


@given(DOCUMENTS, st.integers(0, 2**32))
def test_a_new_entry_is_all_that_is_new(document: dict[str, Any], seed: int) -> None:
    assume("tools" not in document.get("servers", {}))
    scribe = Scribe(seed)
    text = scribe.write(document)
    new = EDITOR.put(text, "tools", ENTRY)
    assert read(new) == {**document, "servers": {**document.get("servers", {}), "tools": ENTRY}}
    assert list(read(new)) == list({**document, "servers": 0})
    assert all(new.count(comment) == text.count(comment) for comment in scribe.comments)
    if "\r\n" not in text:
        assert "\r" not in new.replace("\\r", "")


@given(DOCUMENTS, st.integers(0, 2**32))
def test_taking_a_new_entry_out_again_gives_the_text_back(document: dict[str, Any], seed: int) -> None:
    assume("tools" not in document.get("servers", {}))
    text = Scribe(seed).write(document)
    again = EDITOR.drop(EDITOR.put(text, "tools", ENTRY), "tools")
    if document.get("servers"):
        assert again == text
    else:
        assert read(again) == {**document, "servers": {}}


@given(DOCUMENTS, JSON | st.just(OTHER), st.integers(0, 2**32))
def test_a_changed_entry_keeps_every_comment(document: dict[str, Any], old: Any, seed: int) -> None:
    servers = {"a": 1, "tools": old, "b": 2}
    scribe = Scribe(seed)
    text = scribe.write({**document, "servers": servers})
    new = EDITOR.put(text, "tools", ENTRY)
    assert read(new) == {**document, "servers": {**servers, "tools": ENTRY}}
    assert all(new.count(comment) == text.count(comment) for comment in scribe.comments)


@given(DOCUMENTS, st.sampled_from(["x", "y", "z"]), st.integers(0, 2**32))
def test_any_entry_can_be_taken_out(document: dict[str, Any], name: str, seed: int) -> None:
    servers = {"x": {"command": "1"}, "y": {}, "z": None}
    new = EDITOR.drop(Scribe(seed).write({**document, "servers": servers}), name)
    assert read(new) == {**document, "servers": {key: servers[key] for key in servers if key != name}}


# --- how it looks ------------------------------------------------------------------------------------


def test_a_new_entry_is_indented_like_its_neighbours() -> None:
    text = '{\n\t"servers": {\n\t\t"a": {\n\t\t\t"url": "x"\n\t\t}\n\t}\n}\n'
    new = '\n\t\t},\n\t\t"b": {\n\t\t\t"url": "y"\n\t\t}\n\t}\n}\n'
    assert EDITOR.put(text, "b", {"url": "y"}) == text.removesuffix("\n\t\t}\n\t}\n}\n") + new


def test_four_spaces_windows_line_ends_and_trailing_commas_are_kept() -> None:
    text = '{\r\n    "servers": {\r\n        "a": {}, // first\r\n    },\r\n}\r\n'
    assert EDITOR.put(text, "b", {"url": "y"}) == (
        '{\r\n    "servers": {\r\n        "a": {}, // first\r\n'
        '        "b": {\r\n            "url": "y"\r\n        },\r\n    },\r\n}\r\n'
    )


def test_a_comment_behind_the_last_entry_stays_with_it() -> None:
    text = '{\n  "servers": {\n    "a": {} // mine\n    // "old": {}\n  }\n}'
    assert EDITOR.put(text, "b", {}) == (
        '{\n  "servers": {\n    "a": {}, // mine\n    "b": {}\n    // "old": {}\n  }\n}'
    )


def test_a_document_on_one_line_stays_on_one_line() -> None:
    assert EDITOR.put('{"a":1}', "b", {"url": "y"}) == '{"a":1,"servers":{"b":{"url":"y"}}}'
    assert EDITOR.put('{"servers": {}}', "b", {"url": "y"}) == '{"servers": {"b": {"url": "y"}}}'


@pytest.mark.parametrize("text", ["", "\n", "{}", "{ }", "{\n}"])
def test_an_empty_document_becomes_a_readable_one(text: str) -> None:
    assert EDITOR.put(text, "b", {"url": "y"}).rstrip("\n") == (
        '{\n  "servers": {\n    "b": {\n      "url": "y"\n    }\n  }\n}'
    )


def test_a_document_of_comments_only_gets_a_value_below_them() -> None:
    assert EDITOR.put("// mine", "b", {}) == '// mine\n{\n  "servers": {\n    "b": {}\n  }\n}\n'


def test_a_changed_entry_keeps_what_did_not_change_as_it_was_written() -> None:
    text = '{"servers": {\n "b": {\n  "url": "y",  // old\n  "timeout":   5, // slow\n  "env": {}\n }\n}}'
    assert EDITOR.put(text, "b", {"url": "z", "timeout": 5}) == (
        '{"servers": {\n "b": {\n  "url": "z",  // old\n  "timeout":   5 // slow\n }\n}}'
    )


# --- what it refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("[]", 1, "must be an object, got a list"),
        ("\n1", 2, "must be an object, got a number"),
        ('{\n  "servers": []\n}', 2, '"servers" must be an object, got a list'),
        ('{\n  "servers": null\n}', 2, '"servers" must be an object, got null'),
        ('{"servers": {},\n "servers": {}}', 2, '"servers" occurs twice'),
        ('{"servers": {"b": {},\n "b": {}}}', 2, 'the server "b" occurs twice'),
        ('{"servers": {', 1, "expecting property name"),
    ],
)
def test_a_document_of_another_shape_is_refused(text: str, line: int, problem: str) -> None:
    for act in (lambda: EDITOR.put(text, "b", {"url": "x"}), lambda: EDITOR.drop(text, "b")):
        with pytest.raises(MalformedError) as caught:
            act()
        assert problem in caught.value.message
        assert caught.value.line == line


def test_an_entry_that_names_a_key_twice_is_not_guessed_at() -> None:
    with pytest.raises(CannotEditError):
        EDITOR.put('{"servers": {"b": {"url": "x", "url": "y"}}}', "b", {"url": "z"})


def test_a_plain_reader_gets_no_comments() -> None:
    with pytest.raises(MalformedError, match="comments are not allowed"):
        JsonEditor("servers", PLAIN).put('{"servers": {} // note\n}', "b", {})


def test_there_must_be_something_to_take_out() -> None:
    for text in ("", "{}", '{"servers": {}}'):
        with pytest.raises(KeyError):
            EDITOR.drop(text, "b")
