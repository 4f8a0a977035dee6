"""YAML is read as JSON values, within limits, and otherwise refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import SourceError
from toolcrib.sources.descriptors import read_descriptors
from toolcrib.validation.formats import parse_text


def value_of(text: str) -> Any:
    return parse_text(text, Path("a.yaml"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[yes, no, on, off, Yes]", ["yes", "no", "on", "off", "Yes"]),
        ("[true, False, null, ~, Null]", [True, False, None, None, None]),
        ("[1, -2, +3, 0, 1.5, -1e3, 1E-2]", [1, -2, 3, 0, 1.5, -1000.0, 0.01]),
        (
            "[007, 0x1F, 0o17, 1_000, 1:30, 2020-01-01, .5, 1.]",
            ["007", "0x1F", "0o17", "1_000", "1:30", "2020-01-01", ".5", "1."],
        ),
        ("['1', \"true\", !!str 5]", ["1", "true", "5"]),
        ("{'<<': 1}", {"<<": 1}),
        ("text: |\n  one\n  two\n", {"text": "one\ntwo\n"}),
        ("", None),
        ("# nothing but words\n", None),
    ],
)
def test_a_text_means_what_json_could_say(text: str, value: Any) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate key 'a'", 3),
        ("a: 1\n2: x\n", "a key must be a string, got 2", 2),
        ("a: 1\nnull: x\n", "a key must be a string, got None", 2),
        ("? [a, b]\n: x\n", "a key must be a string", 1),
        (
            "a: !!python/object/apply:os.system [echo]\n",
            "the tag !!python/object/apply:os.system is not supported",
            1,
        ),
        ("a: !thing 5\n", "the tag !thing is not supported", 1),
        ("a: !!binary aGk=\n", "is not supported", 1),
        ("a: &x [1]\nb: *x\n", "the alias *x is not supported; write the value in full", 2),
        ("a: 1\n<<: {b: 2}\n", "the merge key << is not supported; write its keys in full", 2),
        ("a: 1\n--- \nb: 2\n", "another document", 2),
        ("a: 1e999\n", "is too large", 1),
        ("a: [1\n", "", 2),
        ("a: b: c\n", "", 1),
        ("a: \x01\n", "", None),
        ("[" * 100 + "]" * 100, "nested deeper than 64", 1),
    ],
)
def test_anything_that_is_not_plain_data_is_refused_with_its_line(
    text: str, words: str, line: int | None
) -> None:
    with pytest.raises(SourceError) as refusal:
        value_of(text)
    assert words in str(refusal.value)
    assert refusal.value.source.line == line


def test_many_brackets_are_refused_and_not_followed() -> None:
    with pytest.raises(SourceError):
        value_of("[" * 200_000)
    with pytest.raises(SourceError):
        value_of("{a: " * 200_000)


def test_aliases_cannot_make_a_large_value_of_a_small_file() -> None:
    lines = [
        "a: &a [x, x, x, x, x, x, x, x]",
        *(f"{n}: &{n} [{', '.join([f'*{p}'] * 8)}]" for p, n in zip("abcdef", "bcdefg", strict=True)),
    ]
    text = "\n".join(lines)
    assert len(text) < 300
    with pytest.raises(SourceError, match=r"the alias \*a is not supported"):
        value_of(text)


def test_every_tool_knows_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tools.yml"
    path.write_text(
        "# tools\ntools:\n"
        "  - name: first\n    description: Do one thing\n    schema: {type: object}\n"
        "  - name: second\n    description: Do another\n    schema: {type: string}\n"
        "  - {name: third, description: Do a third}\n"
    )
    read = read_descriptors(path)
    assert [(tool.name, tool.source.line) for tool in read.tools] == [("first", 3), ("third", 9)]
    assert [(finding.tool, finding.line) for finding in read.findings] == [("second", 6)]


def test_without_the_engine_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tools.yaml"
    path.write_text("tools: []")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(SourceError, match="PyYAML is not installed") as refusal:
        read_descriptors(path)
    assert "toolcrib[yaml]" in str(refusal.value.hint)
