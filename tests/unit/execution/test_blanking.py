"""What is said of a failure holds no value that the tool was given."""

from __future__ import annotations

import pytest

from toolcrib.dispatch.crash_log import blank


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("invalid literal: 'hunter22'", {"pin": "hunter22"}, "invalid literal: '[value]'"),
        ("no row 123456789 here", {"n": 123456789}, "no row [value] here"),
        ("short: abc", {"a": "abc"}, "short: abc"),
        ("in a list: secret-one", {"a": ["x", {"b": "secret-one"}]}, "in a list: [value]"),
        ("'two\\nlines'", {"a": "two\nlines"}, "'[value]'"),
        ("a longer-secret-text", {"a": "longer", "b": "longer-secret-text"}, "a [value]"),
        ("ValueErrors", {"a": "ValueError"}, "ValueErrors"),
        ("nothing given", None, "nothing given"),
        ("a.b*c+d", {"a": "a.b*c+d"}, "[value]"),
    ],
)
def test_values_are_taken_out_wherever_they_are_repeated(text: str, given: object, expected: str) -> None:
    assert blank(text, given) == expected


def test_values_without_end_are_looked_at_only_so_far() -> None:
    deep: list[object] = ["buried-secret"]
    for _ in range(20):
        deep = [deep]
    assert blank("buried-secret", deep) == "buried-secret"
    assert blank("x" * 10, ["y" * 10] * 10_000) == "x" * 10
