"""The editor of YAML files: one entry is added, replaced or removed, everything else stays."""

from __future__ import annotations

import builtins
import random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.connect.edit import CannotEditError, YamlEditor
from toolcrib.errors import ConfigurationError

EDITOR = YamlEditor("extensions")
ENTRY: dict[str, Any] = {
    "enabled": True,
    "type": "stdio",
    "cmd": "/bin/toolcrib",
    "args": ["serve"],
    "envs": {"A": "1"},
}
GOOSE = """\
# my settings
GOOSE_MODEL: gpt-4o # the good one
extensions:
  # do not remove
  developer:
    enabled: true   # always
    type: builtin
    args:
    - "a"

  # the last one
  memory:
    enabled: false
    type: builtin
    # a note in the entry

# the end
GOOSE_MODE: auto
"""


def test_an_entry_is_added_above_the_others_and_removed_again() -> None:
    text = EDITOR.put(GOOSE, "shop", ENTRY)
    added = """\
extensions:
  shop:
    enabled: true
    type: stdio
    cmd: /bin/toolcrib
    args:
      - serve
    envs:
      A: "1"
  # do not remove
"""
    assert text == GOOSE.replace("extensions:\n  # do not remove\n", added)
    assert EDITOR.drop(text, "shop") == GOOSE


def test_the_indentation_and_line_ends_of_the_file_are_kept() -> None:
    text = "a: 1\r\nextensions:\r\n    x:\r\n        type: builtin\r\n"
    assert EDITOR.put(text, "shop", {"uri": "u"}) == (
        "a: 1\r\nextensions:\r\n    shop:\r\n      uri: u\r\n    x:\r\n        type: builtin\r\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "extensions:\n  s:\n    uri: u\n"),
        ("# nothing yet\n", "# nothing yet\nextensions:\n  s:\n    uri: u\n"),
        ("a: 1", "a: 1\nextensions:\n  s:\n    uri: u\n"),
        ("extensions: {} # none\na: 1\n", "extensions: # none\n  s:\n    uri: u\na: 1\n"),
        ("extensions:\na: 1\n", "extensions:\n  s:\n    uri: u\na: 1\n"),
        ("extensions: null\n", "extensions:\n  s:\n    uri: u\n"),
        ("'extensions':\n", "'extensions':\n  s:\n    uri: u\n"),
        ("---\nextensions: ~\n", "---\nextensions:\n  s:\n    uri: u\n"),
    ],
)
def test_a_file_without_servers_gets_the_first_one(before: str, after: str) -> None:
    assert EDITOR.put(before, "s", {"uri": "u"}) == after


def test_the_last_server_leaves_an_empty_mapping() -> None:
    text = EDITOR.put("a: 1\n", "s", {"uri": "u"})
    assert EDITOR.drop(text, "s") == "a: 1\nextensions: {}\n"


def test_an_entry_is_removed_with_its_comments_and_the_next_keeps_its_own() -> None:
    assert EDITOR.drop(GOOSE, "developer") == GOOSE.replace(
        '  developer:\n    enabled: true   # always\n    type: builtin\n    args:\n    - "a"\n', ""
    )
    with pytest.raises(KeyError):
        EDITOR.drop(GOOSE, "gone")


def test_an_entry_with_comments_is_not_replaced() -> None:
    with pytest.raises(CannotEditError):
        EDITOR.put(GOOSE, "developer", ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        "extensions: {x: {uri: y}}\n",
        "extensions:\n  {x: {uri: y}}\n",
        "{extensions: {}}\n",
        "? extensions\n: x: {uri: y}\n",
        'a: "\nextensions:\n"\nb: 1\n',
    ],
)
def test_what_cannot_be_edited_is_left_alone(text: str) -> None:
    try:
        changed = EDITOR.put(text, "s", {"uri": "u"})
    except ConfigurationError:
        return
    assert yaml.safe_load(changed) == {**yaml.safe_load(text), "extensions": {"s": {"uri": "u"}}}


def test_words_and_numbers_stay_strings() -> None:
    entry = {"args": ["yes", "null", "8000", "a: b", "- x", "#c", "", "C:\\x", "é", "\x85", "~"], "on": "off"}
    text = EDITOR.show("true", entry)
    assert yaml.safe_load(text) == {"extensions": {"true": entry}}
    assert EDITOR.servers(text) == {"true": entry}


def test_without_pyyaml_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def fail(name: str, *rest: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fail)
    assert EDITOR.servers("# only a comment\n") == {}
    with pytest.raises(ConfigurationError, match="PyYAML is not installed") as caught:
        EDITOR.servers(GOOSE)
    assert caught.value.hint == "pip install 'toolcrib[yaml]', or use --print and paste the entry"
    assert EDITOR.show("s", ENTRY).startswith("extensions:\n  s:\n")


# --- random documents --------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Zl", "Zp"]), max_size=8)
KEYS = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True).filter(
    lambda key: key not in ("extensions", "tools")
)
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | TEXTS.map(lambda text: f"x{text}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.builds(
    lambda before, servers, after: {**before, "extensions": servers, **after},
    st.dictionaries(KEYS, VALUES, max_size=3),
    st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), max_size=3),
    st.dictionaries(KEYS, VALUES, max_size=2),
)


def with_comments(text: str, seed: int) -> str:
    """Add comments on lines of their own, before lines that begin a key."""
    chance = random.Random(seed)
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(keepends=True)):
        is_key = line.lstrip(" ")[:1].isalpha() and ":" in line
        if is_key and chance.random() < 0.3:
            lines.append(f'{" " * chance.randrange(5)}# {number}: it\'s "here"\n')
        lines.append(line)
    return "".join(lines)


@given(DOCUMENTS, st.integers(0, 10**6), st.sampled_from([2, 4]))
def test_any_file_keeps_every_other_character(document: dict[str, Any], seed: int, indent: int) -> None:
    text = with_comments(yaml.safe_dump(document, indent=indent, allow_unicode=True, width=10**6), seed)
    try:
        if EDITOR.parse(text) != document:
            return  # a comment fell into a value
    except ConfigurationError:
        return
    added = EDITOR.put(text, "tools", ENTRY)
    assert yaml.safe_load(added)["extensions"] == {**document["extensions"], "tools": ENTRY}
    assert [line for line in added.splitlines() if "#" in line] == [
        line for line in text.splitlines() if "#" in line
    ]
    removed = EDITOR.drop(added, "tools")
    if document["extensions"]:
        assert removed == text
