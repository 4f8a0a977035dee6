"""The editors of JSON and TOML files: one entry is added or removed, everything else stays."""

from __future__ import annotations

import json
import random
import re
import tomllib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolcrib.cli.connect.edit import CannotEditError, Editor, JsonEditor, TomlEditor
from toolcrib.errors import ConfigurationError

ENTRY: dict[str, Any] = {"type": "stdio", "command": "/bin/toolcrib", "args": ["serve", "--stdio"]}
EDITOR = JsonEditor("servers", comments=True, trailing_commas=True)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*[\s\S]*?\*/|[\s\S]')


# --- random JSON documents ---------------------------------------------------------------------------


class RandomFormat:
    """Writes JSON with random space, comments anywhere, and trailing commas."""

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
            words = self.chance.choice(['{ "servers": {', "}, //", '"', "it's", "x", "http://y", "* /"])
            is_line = self.chance.random() < 0.5
            text = f"// {number} {words}" if is_line else f"/* {number} {words} */"
            self.comments.append(text)
            gap += text + (self.eol if is_line else self.chance.choice(["", " ", self.eol]))
        return gap


def read(text: str) -> Any:
    """Parse JSON with comments in another way than the code under test."""
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
def test_only_the_new_entry_is_new(document: dict[str, Any], seed: int) -> None:
    assume("tools" not in document.get("servers", {}))
    writer = RandomFormat(seed)
    text = writer.write(document)
    new = EDITOR.put(text, "tools", ENTRY)
    assert read(new) == {**document, "servers": {**document.get("servers", {}), "tools": ENTRY}}
    assert all(new.count(comment) == text.count(comment) for comment in writer.comments)
    if "\r\n" not in text:
        assert "\r" not in new.replace("\\r", "")


@given(DOCUMENTS, st.integers(0, 2**32))
def test_removing_a_new_entry_restores_the_text(document: dict[str, Any], seed: int) -> None:
    assume("tools" not in document.get("servers", {}))
    text = RandomFormat(seed).write(document)
    again = EDITOR.drop(EDITOR.put(text, "tools", ENTRY), "tools")
    if document.get("servers"):
        assert again == text
    else:
        assert read(again) == {**document, "servers": {}}


@given(DOCUMENTS, st.sampled_from(["x", "y", "z"]), st.integers(0, 2**32))
def test_any_entry_can_be_removed(document: dict[str, Any], name: str, seed: int) -> None:
    servers = {"x": {"command": "1"}, "y": {}, "z": None}
    new = EDITOR.drop(RandomFormat(seed).write({**document, "servers": servers}), name)
    assert read(new) == {**document, "servers": {key: servers[key] for key in servers if key != name}}


# --- format -----------------------------------------------------------------------------------------


def test_a_new_entry_has_the_indentation_of_the_document() -> None:
    text = '{\n\t"servers": {\n\t\t"a": {\n\t\t\t"url": "x"\n\t\t}\n\t}\n}\n'
    new = '{\n\t"servers": {\n\t\t"b": {\n\t\t\t"url": "y"\n\t\t},\n\t\t"a": {'
    assert EDITOR.put(text, "b", {"url": "y"}) == text.replace('{\n\t"servers": {\n\t\t"a": {', new)


def test_four_spaces_windows_line_ends_and_trailing_commas_are_kept() -> None:
    text = '{\r\n    "servers": {\r\n        "a": {}, // first\r\n    },\r\n}\r\n'
    assert EDITOR.put(text, "b", {"url": "y"}) == (
        '{\r\n    "servers": {\r\n        "b": {\r\n            "url": "y"\r\n        },'
        '\r\n        "a": {}, // first\r\n    },\r\n}\r\n'
    )


@pytest.mark.parametrize("text", ["", "\n", "{}", "{ }", "{\n}"])
def test_an_empty_document_becomes_a_readable_one(text: str) -> None:
    assert EDITOR.put(text, "b", {"url": "y"}).rstrip("\n") == (
        '{\n  "servers": {\n    "b": {\n      "url": "y"\n    }\n  }\n}'
    )


def test_a_document_of_comments_only_gets_a_value_below_them() -> None:
    assert EDITOR.put("// mine", "b", {}) == '// mine\n{\n  "servers": {\n    "b": {}\n  }\n}\n'


def test_a_replaced_entry_moves_to_the_beginning() -> None:
    text = '{"servers": {\n "b": {"url": "y"}, // other\n "c": {}\n}}'
    assert EDITOR.put(text, "b", {}) == '{"servers": {\n  "b": {}, // other\n "c": {}\n}}'


# --- invalid JSON files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("editor", "text", "line", "problem"),
    [
        (EDITOR, "[]", 1, "must be an object"),
        (EDITOR, '{\n  "servers": []\n}', 2, '"servers" must hold named servers'),
        (EDITOR, '{\n  "servers": null\n}', 2, '"servers" must hold named servers'),
        (EDITOR, '{"servers": {', 1, "expecting property name"),
        (EDITOR, '{\n  "a": 1\n  "b": 2\n}', 3, "expecting ',' delimiter"),
        (EDITOR, "{\r\n  a: 1}", 2, "expecting property name enclosed in double quotes"),
        (EDITOR, '{"a": "x\ny"}', 1, "invalid control character"),
        (EDITOR, "{} {}", 1, "extra data"),
        (EDITOR, "{}\n/* never", 2, "extra data"),
        (EDITOR, "[" * 100_000, None, "nested too deeply"),
        (JsonEditor("servers"), '{\n  // note\n  "a": 1}', 2, "expecting property name"),
        (JsonEditor("servers"), '{"a": 1,}', 1, ""),
        (JsonEditor("servers", comments=True), '{"a": [1, 2,]}', 1, ""),
        (TomlEditor("servers"), "a = 1\nb =\n", 2, "not valid TOML: Invalid value"),
        (TomlEditor("servers"), "a = [1,", 1, "not valid TOML"),
        (TomlEditor("servers"), "a = 1\nservers = 3\n", 2, '"servers" must hold named servers'),
        (TomlEditor("servers"), "[[servers]]\n", 1, '"servers" must hold named servers'),
    ],
)
def test_an_invalid_document_is_refused(editor: Editor, text: str, line: int | None, problem: str) -> None:
    for act in (lambda: editor.put(text, "b", {"url": "x"}), lambda: editor.drop(text, "b")):
        with pytest.raises(ConfigurationError) as caught:
            act()
        assert problem in caught.value.message
        assert caught.value.line == line


@given(st.text(alphabet='{}[]",:/*\\ \n\r1etn-.'))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(ConfigurationError):
        EDITOR.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {"b": {"url": "x"}}, "servers": {"b": {}, "b": {}}}',
        '{"servers": {"b": {"url": "x", /* mine */ "timeout": 5}}}',
    ],
)
def test_an_entry_is_not_replaced_where_something_would_be_lost(text: str) -> None:
    with pytest.raises(CannotEditError):
        EDITOR.put(text, "b", {"url": "z"})


@pytest.mark.parametrize("editor", [EDITOR, TomlEditor("servers")])
def test_removing_a_missing_entry_raises_key_error(editor: Editor) -> None:
    with pytest.raises(KeyError):
        editor.drop(editor.put("", "a", {}), "b")


# --- TOML --------------------------------------------------------------------------------------------

TOML_ENTRY: dict[str, Any] = {
    "command": "/bin/toolcrib",
    "args": ["serve", "--stdio"],
    "env": {"A B": 'x"\\\x7fé'},
}
CODEX = TomlEditor("mcp_servers")
ROOT = [
    'model = "o4" # which',
    "# a remark of mine",
    "'quoted key' = 1979-05-27 07:32:00",
    'dotted.key . "and more" = { a = 1, b = [ 2 ] }',
    'notes = """\ncommand = "no" # no comment\n"quotes""""',
    "raw = '''\n# no comment'''''",
    "list = [ # inside\n  \"a]\", # [x]\n  'b#', \n]",
    "",
]
TABLES = [
    '[projects."/home/me # x"]\ntrust_level = "trusted"',
    "[[profiles]]\nname = 'one' # first\n\n[[profiles]]\nname = 'two'",
    '[mcp_servers.docs] # theirs\ncommand = "npx"\nargs = [\n  "-y", # yes\n  "docs",\n]',
    '[ mcp_servers . "other one" ]\nurl = "https://x/mcp"\n\n[mcp_servers."other one".http_headers]\nX = "y"',
    '# [mcp_servers.tools]\n# command = "off"',
    "[tui]",
]
OWN = [
    '[mcp_servers.tools]\ncommand = "old" # program\nargs = [ # words\n "a",\n]\ntool_timeout_sec = 2 # slow',
    '[mcp_servers."tools"] # ours\nurl = "http://x"\nenabled = false',
    "[mcp_servers.'tools']\ncommand = 'old'\nenv.A = '1' # one\nenv.B = '2'",
    "[mcp_servers.tools]\ncommand = 'old'\n\n# variables\n[mcp_servers.tools.env]\nA = '1' # one\n# end\n"
    "\n[mcp_servers.tools.tools.x]\napproval_mode = 'prompt'",
]


def write_toml(seed: int, *extra: str) -> str:
    """Return a random configuration file of Codex."""
    chance = random.Random(seed)
    roots = chance.sample(ROOT, chance.randrange(len(ROOT)))
    tables = [*chance.sample(TABLES, chance.randrange(len(TABLES))), *extra]
    chance.shuffle(tables)
    gap = chance.choice(["\n", "\n\n"])
    text = gap.join([*roots, *tables]) + chance.choice(["", "\n", "\n\n"])
    return text.replace("\n", "\r\n") if chance.random() < 0.3 else text


def with_entry(document: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    return {**document, "mcp_servers": {**document.get("mcp_servers", {}), "tools": entry}}


@given(st.integers(0, 2**32))
def test_only_the_new_table_is_new(seed: int) -> None:
    text = write_toml(seed)
    new = CODEX.put(text, "tools", TOML_ENTRY)
    assert new.startswith(text)
    assert tomllib.loads(new) == with_entry(tomllib.loads(text), TOML_ENTRY)
    assert ("\r\n" in text) == ("\r\n" in new) or "\n" not in text


@given(st.integers(0, 2**32))
def test_removing_a_new_table_restores_the_text(seed: int) -> None:
    text = write_toml(seed)
    again = CODEX.drop(CODEX.put(text, "tools", TOML_ENTRY), "tools")
    assert again.rstrip() == text.rstrip()


@given(st.integers(0, 2**32), st.sampled_from(OWN))
def test_a_table_that_was_written_by_hand_can_be_removed(seed: int, own: str) -> None:
    text = write_toml(seed, own)
    new = CODEX.drop(text, "tools")
    document = tomllib.loads(text)
    del document["mcp_servers"]["tools"]
    assert {"mcp_servers": {}, **tomllib.loads(new)} == document


def test_a_table_without_comments_can_be_replaced() -> None:
    text = 'a = 1\n\n[mcp_servers.tools]\nurl = "http://x"\nenabled = false\n\n[tui] # mine\n'
    assert CODEX.put(text, "tools", {"url": "http://y"}) == (
        'a = 1\n\n[tui] # mine\n\n[mcp_servers.tools]\nurl = "http://y"\n'
    )


def test_a_new_table_is_set_apart_by_an_empty_line() -> None:
    assert CODEX.put('model = "o4"\n', "tools", {"url": "http://x/mcp"}) == (
        'model = "o4"\n\n[mcp_servers.tools]\nurl = "http://x/mcp"\n'
    )
    assert CODEX.put("", "tools", {"url": "http://x/mcp"}) == '[mcp_servers.tools]\nurl = "http://x/mcp"\n'
    assert CODEX.put("a = 1", "tools", {}) == "a = 1\n\n[mcp_servers.tools]\n"


def test_a_removed_table_leaves_no_gap() -> None:
    text = "a = 1\n\n[mcp_servers.tools]\nurl = 'x'\n\n# about it\n[tui]\nb = 2\n"
    assert CODEX.drop(text, "tools") == "a = 1\n\n# about it\n[tui]\nb = 2\n"


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = { tools = { url = 'x' } }\n",
        "mcp_servers.tools = { url = 'x' }\n",
        "[mcp_servers]\ntools = { url = 'x' }\n",
        "[mcp_servers]\ntools.url = 'x'\n",
        '[mcp_servers.tools]\nurl = """\n[tui]\n"""\n',
    ],
)
def test_an_entry_that_is_not_a_plain_table_is_left_alone(text: str) -> None:
    with pytest.raises(CannotEditError):
        CODEX.put(text, "tools", {"command": "x"})
    with pytest.raises(CannotEditError):
        CODEX.drop(text, "tools")


def test_a_table_with_comments_is_not_replaced() -> None:
    with pytest.raises(CannotEditError):
        CODEX.put("[mcp_servers.tools]\nurl = 'http://x' # mine\n", "tools", {"command": "x"})
