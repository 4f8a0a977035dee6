"""One entry more or less in a TOML file, and not a letter else."""

from __future__ import annotations

import random
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.connect.json_file import CannotEditError, MalformedError
from toolcrib.cli.connect.toml_file import TomlEditor
from toolcrib.cli.connect.toml_file import list_comments as comments_in

ENTRY: dict[str, Any] = {
    "command": "/bin/toolcrib",
    "args": ["serve", "--stdio"],
    "env": {"A B": 'x"\\\x7fé'},
}
EDITOR = TomlEditor("mcp_servers")
ROOT = [
    'model = "o4" # which',
    "# a remark of mine",
    "'quoted key' = 1979-05-27 07:32:00",
    'dotted.key . "and more" = { a = 1, b = [ 2 ] }',
    'notes = """\n[mcp_servers.tools]\ncommand = "no" # no comment\n"quotes""""',
    "raw = '''\n[mcp_servers.tools]\n# no comment'''''",
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


def write(seed: int, *extra: str) -> str:
    """A file as somebody may have written it."""
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
def test_a_new_entry_is_all_that_is_new(seed: int) -> None:
    text = write(seed)
    new = EDITOR.put(text, "tools", ENTRY)
    assert new.startswith(text)
    assert tomllib.loads(new) == with_entry(tomllib.loads(text), ENTRY)
    assert ("\r\n" in text) == ("\r\n" in new) or "\n" not in text


@given(st.integers(0, 2**32))
def test_taking_a_new_entry_out_again_gives_the_text_back(seed: int) -> None:
    text = write(seed)
    again = EDITOR.drop(EDITOR.put(text, "tools", ENTRY), "tools")
    assert again.rstrip() == text.rstrip()


@given(st.integers(0, 2**32), st.sampled_from(OWN), st.booleans())
def test_a_changed_entry_keeps_comments_and_everything_else(seed: int, own: str, extra: bool) -> None:
    text = write(seed, own)
    old = tomllib.loads(text)["mcp_servers"]["tools"]
    kept = {key: value for key, value in old.items() if extra and key not in {*ENTRY, "url"}}
    new = EDITOR.put(text, "tools", {**ENTRY, **kept})
    assert tomllib.loads(new) == with_entry(tomllib.loads(text), {**ENTRY, **kept})
    assert sorted(comments_in(new)) == sorted(comments_in(text))


@given(st.integers(0, 2**32), st.sampled_from(OWN))
def test_an_entry_that_was_written_by_hand_can_be_taken_out(seed: int, own: str) -> None:
    text = write(seed, own)
    new = EDITOR.drop(text, "tools")
    document = tomllib.loads(text)
    del document["mcp_servers"]["tools"]
    assert {"mcp_servers": {}, **tomllib.loads(new)} == document
    lost = set(comments_in(text)) - set(comments_in(new))
    assert lost <= set(comments_in(own.replace("\n", "\r\n"))) | set(comments_in(own))


def test_a_new_table_is_set_apart_by_an_empty_line() -> None:
    assert EDITOR.put('model = "o4"\n', "tools", {"url": "http://x/mcp"}) == (
        'model = "o4"\n\n[mcp_servers.tools]\nurl = "http://x/mcp"\n'
    )
    assert EDITOR.put("", "tools", {"url": "http://x/mcp"}) == '[mcp_servers.tools]\nurl = "http://x/mcp"\n'
    assert EDITOR.put("a = 1", "tools", {"env": {}}) == "a = 1\n\n[mcp_servers.tools]\nenv = {}\n"


def test_a_changed_value_keeps_its_line_and_its_comment() -> None:
    text = '[mcp_servers.tools] # ours\nurl = "http://x" # old\nenabled = false\n\n[tui]\n'
    assert EDITOR.put(text, "tools", {"url": "http://y", "enabled": False}) == text.replace("//x", "//y")


def test_what_is_taken_out_leaves_no_gap() -> None:
    text = "a = 1\n\n[mcp_servers.tools]\nurl = 'x'\n\n# about it\n[tui]\nb = 2\n"
    assert EDITOR.drop(text, "tools") == "a = 1\n\n# about it\n[tui]\nb = 2\n"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a = 1\nb =\n", 2, "is not TOML"),
        ("a = [1,", 1, "is not TOML"),
        ("a = 1\nmcp_servers = 3\n", 2, "mcp_servers must be a table"),
        ("[[mcp_servers]]\n", 1, "mcp_servers must be a table"),
    ],
)
def test_a_document_of_another_shape_is_refused(text: str, line: int, problem: str) -> None:
    for act in (lambda: EDITOR.put(text, "tools", ENTRY), lambda: EDITOR.drop(text, "tools")):
        with pytest.raises(MalformedError) as caught:
            act()
        assert problem in caught.value.message
        assert caught.value.line == line


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers.tools = { url = 'x' }\n",
        "[mcp_servers.tools.env]\nA = '1'\n",
    ],
)
def test_an_entry_that_is_not_a_table_of_its_own_can_be_changed(text: str) -> None:
    new = EDITOR.put(text, "tools", {"command": "x"})
    assert tomllib.loads(new) == {"mcp_servers": {"tools": {"command": "x"}}}


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = { docs = { url = 'x' } }\n",
        "[mcp_servers]\ntools = { url = 'x' }\n",
        "[mcp_servers]\ntools.url = 'x'\n",
    ],
)
def test_what_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(CannotEditError):
        EDITOR.put(text, "tools", {"command": "x"})


@pytest.mark.parametrize("text", ["mcp_servers.tools = { url = 'x' }\n", "[mcp_servers]\ntools.url = 'x'\n"])
def test_an_entry_that_is_not_a_table_of_its_own_can_still_be_taken_out(text: str) -> None:
    assert tomllib.loads(EDITOR.drop(text, "tools")).get("mcp_servers", {}) == {}


def test_there_must_be_something_to_take_out() -> None:
    with pytest.raises(KeyError):
        EDITOR.drop("", "tools")
    with pytest.raises(CannotEditError):
        EDITOR.drop("mcp_servers = { tools = { url = 'x' } }\n", "tools")
