"""Examples are found by their headings, one for each in the singular, several below one in the plural."""

from __future__ import annotations

import pytest

from toolcrib.catalog.build import examples_in


@pytest.mark.parametrize(
    ("text", "examples"),
    [
        ('Greet.\n\n    Ejemplo: greet("Ana")\n    ', ['greet("Ana")']),
        ("Example: a\nEjemplo: b\nexample: c", ["a", "b", "c"]),
        ('Greet.\n\n    Example: greet("Ana",\n        loud=True)\n    More.', ['greet("Ana",\nloud=True)']),
        ("X.\n\nExample:\n    a = 1\n    b(a)\n\n    c()\nEnd.", ["a = 1\nb(a)\n\nc()"]),
        ("X.\n\nExample::\n\n    code()\n", ["code()"]),
        ("X.\n\nArgs:\n    a: One.\n\n        Example: 5\n", ["5"]),
        (
            "X.\n\nExamples:\n    add(1)\n    add(\n        2,\n    )\n    add(3)\n",
            ["add(1)", "add(\n    2,\n)", "add(3)"],
        ),
        ("X.\n\nEjemplos: a\n    b\n", ["a", "b"]),
        ("X.\n\nExamples:\n    - add(1)\n      goes on\n    - add(2)\n", ["add(1)\ngoes on", "add(2)"]),
        ("X.\n\nExamples:\n    1. add(1)\n    2. add(2)\n", ["add(1)", "add(2)"]),
        (
            "X.\n\nExamples:\n    First:\n    add(1)\n\n    Then:\n    add(2)\n",
            ["First:\nadd(1)", "Then:\nadd(2)"],
        ),
        (
            "X.\n\nExamples\n--------\n>>> add(1)\n1\n>>> x = 2\n>>> add(x)\n2\n\nNotes\n-----\nNone",
            [">>> add(1)\n1", ">>> x = 2\n>>> add(x)\n2"],
        ),
        ("X.\n\nExamples:\n    ```\n    a\n\n    b\n    ```\n", ["```\na\n\nb\n```"]),
        ("X.\n\nExamples:\n    ```\n    a\n    b\n    ```\n", ["```\na\nb\n```"]),
        ("For example: this is none\nExampled: nor this\nExample nor this\nExample:\n", []),
        ("Example:::\nExamples", []),
        ("", []),
    ],
)
def test_examples_are_what_their_author_meant(text: str, examples: list[str]) -> None:
    assert examples_in(text) == examples


def test_no_text_has_no_examples() -> None:
    assert examples_in(None) == []
