"""Docstrings of every style: descriptions, mixed styles, types."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from toolcrib.schema import docstrings
from toolcrib.schema.docstrings import Docstring, Documented, parse_docstring, type_hint_of


def params_of(text: str) -> dict[str, str]:
    return {entry.name: entry.description for entry in parse_docstring(text).params}


GITHUB = {
    "google": """Create a new GitHub issue.

    Args:
        title: The issue title
        body: The issue description

    Returns:
        The created issue data
    """,
    "numpy": """Create a new GitHub issue.

    Parameters
    ----------
    title : str
        The issue title
    body : str
        The issue description

    Returns
    -------
    dict
        The created issue data
    """,
    "rest": """Create a new GitHub issue.

    :param title: The issue title
    :param body: The issue description
    :return: The created issue data
    """,
}


class TestAnyDialect:
    @pytest.mark.requirement("U-06", "U-07", "G-02")
    @pytest.mark.parametrize("style", GITHUB)
    def test_the_same_function_reads_the_same_in_each(self, style: str) -> None:
        docs = parse_docstring(GITHUB[style])
        assert docs.style == style
        assert docs.description == "Create a new GitHub issue"
        assert {entry.name: entry.description for entry in docs.params} == {
            "title": "The issue title",
            "body": "The issue description",
        }
        assert docs.returns == "The created issue data"

    @pytest.mark.parametrize("style", GITHUB)
    def test_windows_newlines_make_no_difference(self, style: str) -> None:
        assert parse_docstring(GITHUB[style].replace("\n", "\r\n")) == parse_docstring(GITHUB[style])

    @pytest.mark.parametrize("style", GITHUB)
    def test_text_may_begin_on_the_line_after_the_quotes(self, style: str) -> None:
        assert parse_docstring("\n    " + GITHUB[style]) == parse_docstring(GITHUB[style])

    @pytest.mark.parametrize("text", [None, "", "   ", "\n\n    \n"])
    def test_no_docstring_is_an_empty_one(self, text: str | None) -> None:
        assert parse_docstring(text) == Docstring()
        assert parse_docstring(text).style == "plain"

    def test_a_docstring_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            parse_docstring("Text.").description = "Other."  # type: ignore[misc]

    @pytest.mark.reads_source
    def test_reading_docstrings_needs_only_the_standard_library(self) -> None:
        imported: set[str] = set()
        for node in ast.walk(ast.parse(Path(docstrings.__file__).read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
        assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


class TestDescription:
    @pytest.mark.requirement("U-21", "X-20")
    @pytest.mark.parametrize(
        ("text", "description"),
        [
            ("Create a new GitHub issue.", "Create a new GitHub issue"),
            ("Create a new GitHub issue", "Create a new GitHub issue"),
            ("Get a city's weather, e.g. london.", "Get a city's weather, e.g. london"),
            ("Get a city's weather, e.g. London.", "Get a city's weather, e.g. London"),
            ("Visit example.com.", "Visit example.com"),
            ("Keep working...", "Keep working..."),
            ("Really?", "Really?"),
            ("Stop!", "Stop!"),
            ("List files, folders, etc.", "List files, folders, etc."),
            ("Wake me at 7 a.m.", "Wake me at 7 a.m."),
            (".", "."),
        ],
    )
    def test_a_lone_sentence_loses_its_full_stop_and_nothing_else(self, text: str, description: str) -> None:
        assert parse_docstring(text).description == description

    @pytest.mark.parametrize(
        "text",
        [
            "Sum up. Be careful.",
            "Is it? Then do.",
            "Call it (never twice.) Then stop.",
            "Sum up.\n\nBe careful.",
            "Ändere es. Österreich zuerst.",
        ],
    )
    def test_more_prose_keeps_its_stops(self, text: str) -> None:
        assert parse_docstring(text).description == text

    def test_a_lone_sentence_over_several_lines_becomes_one_line(self) -> None:
        docs = parse_docstring("Create an issue in the repository\n    of the given\n    owner.\n    ")
        assert docs.description == "Create an issue in the repository of the given owner"

    def test_several_sentences_keep_their_lines(self) -> None:
        docs = parse_docstring("Sum up. Be\n    careful with\n    zeros.")
        assert docs.description == "Sum up. Be\ncareful with\nzeros."

    @pytest.mark.parametrize(
        "line", ["- a bullet.", "Example: f(1).", "    indented.", ">>> f(1)", "1. first."]
    )
    def test_lists_and_labels_are_not_joined_to_the_sentence(self, line: str) -> None:
        assert parse_docstring(f"Do\n{line}\nmore.").description == f"Do\n{line}\nmore."

    @pytest.mark.requirement("X-20")
    def test_everything_that_describes_no_parameter_stays_in_its_place(self) -> None:
        docs = parse_docstring(
            """Sum.

            Note: Be careful.

            Args:
                a: One.

            Warning:
                Never call
                  it twice.

            Returns:
                The sum.



            Usage notes here:
            - one
            - two

            Todo: Nothing.
            """
        )
        assert docs.description == (
            "Sum.\n\nNote: Be careful.\n\nWarning:\n    Never call\n      it twice.\n\n"
            "Usage notes here:\n- one\n- two\n\nTodo: Nothing."
        )

    def test_prose_on_both_sides_of_a_section_stays_two_paragraphs(self) -> None:
        assert parse_docstring("Before\nArgs:\n    x: y\nAfter").description == "Before\n\nAfter"

    def test_code_keeps_its_indentation(self) -> None:
        text = "Run code.\n\nLike this:\n\n    if x:\n        y()"
        assert parse_docstring(text).description == text

    def test_a_header_inside_a_sentence_is_not_a_header(self) -> None:
        text = "Takes\nargs: foo\nand Returns: bar\n\nARGS:\n    x: y\n\nOn Args:\n    x: y"
        docs = parse_docstring(text)
        assert (docs.style, docs.params, docs.description) == ("plain", (), text)

    def test_a_header_with_nothing_below_it_is_prose(self) -> None:
        docs = parse_docstring("Do it.\n\nArgs:\n\nReturns: nothing.")
        assert docs.style == "plain"
        assert docs.description == "Do it.\n\nArgs:\n\nReturns: nothing."


class TestMixedDialects:
    def test_the_one_that_knows_parameters_is_read_and_the_rest_stays(self) -> None:
        docs = parse_docstring("Do.\n\n:param x: The x.\n\nReturns:\n    The y.")
        assert docs.style == "rest"
        assert docs.params == (Documented("x", "The x."),)
        assert docs.description == "Do.\n\nReturns:\n    The y."

    def test_fields_below_a_google_header_are_read_as_fields(self) -> None:
        docs = parse_docstring("Do.\n\nArgs:\n    :param x: The x.\n    :param y: The y.")
        assert docs.style == "rest"
        assert [entry.name for entry in docs.params] == ["x", "y"]
        assert docs.description == "Do"

    def test_a_field_quoted_in_google_text_is_words(self) -> None:
        docs = parse_docstring("Do.\n\nArgs:\n    x: The x.\n        :return: is a field.\n    y: The y.")
        assert docs.style == "google"
        assert docs.params == (Documented("x", "The x. :return: is a field."), Documented("y", "The y."))


class TestTypeHints:
    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("str", str),
            ("string", str),
            ("int", int),
            ("Integer", int),
            ("float", float),
            ("number", float),
            ("bool", bool),
            ("boolean", bool),
            ("list", list),
            ("dict", dict),
            ("object", dict),
            (" `str` ", str),
            ("str, optional", str),
            ("int, default 5", int),
            ("list[str]", list[str]),
            ("List[int]", list[int]),
            ("typing.List[int]", list[int]),
            ("list of str", list[str]),
            ("list of integers", list[int]),
            ("list[list[int]]", list[list[int]]),
            ("list[dict[str, Any]]", list[dict[str, Any]]),
            ("list[Any]", list[Any]),
            ("Dict[str, int]", dict[str, int]),
            ("Optional[str]", str | None),
            ("Optional[List[str]]", list[str] | None),
            ("str | None", str | None),
            ("str or None", str | None),
            ("None or int", int | None),
            ("int | str", int | str),
            ("Union[int, str, None]", int | str | None),
            ("{'a', 'b'}", Literal["a", "b"]),
            ('{"a|b", "c or d", 1, True}', Literal["a|b", "c or d", 1, True]),
            ("{'a', 'b'} or None", Literal["a", "b"] | None),
            ("Literal['x', -1, None]", Literal["x", -1, None]),
        ],
    )
    def test_simple_types_are_real(self, text: str, hint: object) -> None:
        assert type_hint_of(text) == hint

    @pytest.mark.parametrize(
        "text",
        [
            *(
                "",
                "None",
                "optional",
                "User",
                "list[User]",
                "list of User",
                "dict[int, str]",
                "dict[str, User]",
            ),
            *(
                "int | User",
                "Optional[]",
                "{}",
                "{a, b}",
                "{0.5, 1}",
                "{'a\\'b'}",
                "tuple[int]",
                "__import__('os')",
            ),
            *(
                "list[" * 5000 + "int" + "]" * 5000,
                "list of " * 5000 + "int",
                "{" + "9" * 5000 + "}",
                "[",
                "]]]",
                *("Union[()]", "list[()]", "Literal[()]", "{{[1]: 2}}"),
            ),
        ],
    )
    def test_anything_else_is_not_a_hint(self, text: str) -> None:
        assert type_hint_of(text) is None
