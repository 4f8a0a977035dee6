"""Reading JSON with comments: what is accepted, and what is said of the rest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.connect.json_file import (
    COMMENTED,
    LENIENT,
    MAX_DEPTH,
    PLAIN,
    Dialect,
    MalformedError,
    parse_json,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 1, 4, "\t"]), st.booleans())
def test_plain_json_is_read_as_the_standard_library_reads_it(
    value: object, indent: int | str | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    found = parse_json(text, PLAIN)
    assert found.root is not None
    assert found.root.value == value
    assert text[found.root.start : found.root.end] == text


def test_comments_and_trailing_commas_are_read_where_the_dialect_has_them() -> None:
    found = parse_json('// one\n{"a": [1, /* two */ 2,], // "three"\n}\n', LENIENT)
    assert found.root is not None
    assert found.root.value == {"a": [1, 2]}
    assert found.list_comments() == ["// one", "/* two */", '// "three"']


def test_a_comment_inside_a_string_is_none() -> None:
    found = parse_json('{"url": "http://x", "b": "/* no */"}', PLAIN)
    assert found.root is not None
    assert found.root.value == {"url": "http://x", "b": "/* no */"}


@pytest.mark.parametrize("text", ["", " \r\n\t", "// only this"])
def test_a_text_without_a_value_has_no_root(text: str) -> None:
    assert parse_json(text).root is None


@pytest.mark.parametrize(
    ("text", "dialect", "line", "problem"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', LENIENT, 3, "expecting ',' delimiter"),
        ('{\n  "a" 1}', LENIENT, 2, "expecting ':' delimiter"),
        ("{\r\n  a: 1}", LENIENT, 2, "expecting property name enclosed in double quotes"),
        ('{"a": 1', LENIENT, 1, "expecting ',' delimiter"),
        ('{"a": }', LENIENT, 1, "expecting value"),
        ('{"a": 01}', LENIENT, 1, "expecting ',' delimiter"),
        ('{"a": NaN}', LENIENT, 1, "invalid value NaN"),
        ('{"a": "\\x"}', LENIENT, 1, "invalid \\escape"),
        ('{"a": "x\ny"}', LENIENT, 1, "invalid control character"),
        ('{\n"a: 1}', LENIENT, 2, "unterminated string"),
        ("{} {}", LENIENT, 1, "extra data"),
        ("{}\n/* never", LENIENT, 2, "extra data"),
        ("{}\n/", LENIENT, 2, "extra data"),
        ('{\n  // note\n  "a": 1}', PLAIN, 2, "comments are not allowed"),
        ('{"a": 1,\n}', PLAIN, 1, "comma after the last item"),
        ('{"a": [1, 2\n,]}', COMMENTED, 2, "comma after the last item"),
        ("[" * (MAX_DEPTH + 2), LENIENT, 1, "nested too deeply"),
        ("[,]", LENIENT, 1, "expecting value"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, dialect: Dialect, line: int, problem: str) -> None:
    with pytest.raises(MalformedError) as caught:
        parse_json(text, dialect)
    assert problem in caught.value.message
    assert caught.value.line == line


@given(st.text(alphabet='{}[]",:/*\\ \n\r1etn-.'))
def test_no_text_makes_it_fail_in_another_way(text: str) -> None:
    line: int | None = 1
    try:
        parse_json(text)
    except MalformedError as error:
        line = error.line
    assert line is not None
    assert 1 <= line <= text.count("\n") + text.count("\r") + 1
