"""What each dialect of docstring means, one habit of its authors at a time."""

from __future__ import annotations

import ast
import dataclasses
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from toolcrib.schema import docstrings
from toolcrib.schema.docstrings import Docstring, Documented, parse_docstring, type_hint_of


def params_of(text: str) -> dict[str, str]:
    return {entry.name: entry.description for entry in parse_docstring(text).params}


def types_of(text: str) -> dict[str, str | None]:
    return {entry.name: entry.type for entry in parse_docstring(text).params}


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
    @pytest.mark.parametrize("style", GITHUB)
    def test_the_same_function_reads_the_same_in_each(self, style: str) -> None:
        docs = parse_docstring(GITHUB[style])
        assert docs.style == style
        assert docs.description == "Create a new GitHub issue"
        assert docs.summary == docs.first_line == "Create a new GitHub issue."
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
        with pytest.raises(dataclasses.FrozenInstanceError):
            parse_docstring("Text.").summary = "Other."  # type: ignore[misc]

    def test_reading_docstrings_needs_only_the_standard_library(self) -> None:
        imported: set[str] = set()
        for file in Path(docstrings.__file__).parent.glob("docstring*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    imported.add(node.module or "")
        ours = {name for name in imported if name.startswith("toolcrib.schema.docstring_")}
        assert {name.partition(".")[0] for name in imported - ours} <= sys.stdlib_module_names


class TestDescription:
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
        assert docs.summary == "Create an issue in the repository of the given owner."
        assert docs.first_line == "Create an issue in the repository"

    def test_several_sentences_keep_their_lines(self) -> None:
        docs = parse_docstring("Sum up. Be\n    careful with\n    zeros.")
        assert docs.description == "Sum up. Be\ncareful with\nzeros."
        assert docs.summary == "Sum up. Be careful with zeros."

    @pytest.mark.parametrize(
        "line", ["- a bullet.", "Example: f(1).", "    indented.", ">>> f(1)", "1. first."]
    )
    def test_lines_that_stand_alone_are_not_drawn_into_the_sentence(self, line: str) -> None:
        assert parse_docstring(f"Do\n{line}\nmore.").description == f"Do\n{line}\nmore."

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

    def test_a_header_inside_a_sentence_is_no_header(self) -> None:
        text = "Takes\nargs: foo\nand Returns: bar\n\nARGS:\n    x: y\n\nOn Args:\n    x: y"
        docs = parse_docstring(text)
        assert (docs.style, docs.params, docs.description) == ("plain", (), text)

    def test_a_header_with_nothing_below_it_is_prose(self) -> None:
        docs = parse_docstring("Do it.\n\nArgs:\n\nReturns: nothing.")
        assert docs.style == "plain"
        assert docs.description == "Do it.\n\nArgs:\n\nReturns: nothing."

    def test_the_first_line_is_the_first_that_says_something(self) -> None:
        assert parse_docstring("\n\n   First here\n   and there.").first_line == "First here"


class TestGoogle:
    @pytest.mark.parametrize(
        "header", ["Args", "Arguments", "Parameters", "Params", "Keyword Args", "Other Parameters", "args"]
    )
    def test_parameters_have_many_headers(self, header: str) -> None:
        assert params_of(f"Do.\n\n{header}:\n    x: The x.") == {"x": "The x."}

    @pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
    def test_any_indent_will_do(self, indent: str) -> None:
        text = f"Do.\n\nArgs:\n{indent}x: The x\n{indent}{indent}goes on.\n{indent}y: The y."
        assert params_of(text) == {"x": "The x goes on.", "y": "The y."}

    def test_types_stand_in_parentheses(self) -> None:
        text = """Do.

        Args:
            a (int): One.
            b (list[str], optional): Two (more or less).
            c (Callable[[int], tuple(int, str)]): Three: 3.
            d (optional): Four.
            e (:obj:`str`, *optional*, defaults to `"x"`): Five.
            f (int, must be positive): Six.
            g (tuple(int, str)): Seven.
            h (:py:class:`~app.User`): Eight.
        """
        assert types_of(text) == {
            "a": "int",
            "b": "list[str]",
            "c": "Callable[[int], tuple(int, str)]",
            "d": None,
            "e": "str",
            "f": "int, must be positive",
            "g": "tuple(int, str)",
            "h": "app.User",
        }
        assert params_of(text)["b"] == "Two (more or less)."
        assert params_of(text)["c"] == "Three: 3."

    @pytest.mark.parametrize("name", ["tags", "returns", "args", "example", "note", "raises"])
    def test_a_parameter_may_be_called_like_a_section(self, name: str) -> None:
        assert params_of(f"Do.\n\nArgs:\n    x: The x.\n    {name}: Some.") == {"x": "The x.", name: "Some."}

    def test_colons_and_quotes_survive_as_they_are(self) -> None:
        text = 'City name (e.g., "London",  "New York"): see http://x.org/a?b=c: it\'s {"a": 1}'
        assert params_of(f"Do.\n\nArgs:\n    city: {text}") == {"city": text}

    def test_stars_and_backticks_are_not_part_of_a_name(self) -> None:
        text = (
            "Do.\n\nArgs:\n    *args: One.\n    **kwargs (Any): Two.\n    `code`: Three.\n    **bold**: Four."
        )
        assert params_of(text) == {"args": "One.", "kwargs": "Two.", "code": "Three.", "bold": "Four."}

    def test_one_entry_may_describe_several_parameters(self) -> None:
        docs = parse_docstring("Do.\n\nArgs:\n    x, y (int): The place.")
        assert docs.params == (Documented("x", "The place.", "int"), Documented("y", "The place.", "int"))

    def test_a_parameter_may_have_no_description(self) -> None:
        assert params_of("Do.\n\nArgs:\n    x:\n    y (int):\n    z: The z.") == {
            "x": "",
            "y": "",
            "z": "The z.",
        }

    def test_a_description_may_begin_on_the_next_line(self) -> None:
        assert params_of("Do.\n\nArgs:\n    x (int):\n        The x\n        here.") == {"x": "The x here."}

    def test_bullets_and_paragraphs_of_a_parameter_keep_their_lines(self) -> None:
        text = """Do.

        Args:
            mode: Do it how?
                By one of
                - fast: at
                  once
                - slow: later

                Slow is
                the default.
            x: The x.
        """
        assert params_of(text) == {
            "mode": "Do it how? By one of\n- fast: at\n  once\n- slow: later\n\nSlow is the default.",
            "x": "The x.",
        }

    def test_code_in_a_parameter_keeps_its_lines(self) -> None:
        text = """Do.

        Args:
            x: Like
                {
                  "a": 1
                }

                ```
                a

                b
                ```
        """
        assert params_of(text) == {"x": 'Like {\n  "a": 1\n}\n\n```\na\n\nb\n```'}

    def test_a_line_that_names_nothing_continues_the_entry_above(self) -> None:
        text = "Do.\n\nArgs:\n    x: The x\n    goes on (here): as\n    12:30 or http://x.org: b\n    y: Y."
        assert params_of(text) == {"x": "The x goes on (here): as 12:30 or http://x.org: b", "y": "Y."}

    @pytest.mark.parametrize("line", ["http://x.org/a is the place", "std::vector it is"])
    def test_a_colon_inside_a_word_names_nothing(self, line: str) -> None:
        assert params_of(f"Do.\n\nArgs:\n    x: The x\n    {line}.") == {"x": f"The x {line}."}

    def test_words_before_the_first_entry_stay_in_the_description(self) -> None:
        docs = parse_docstring("Do.\n\nArgs:\n    All of these are needed.\n    x: The x.\n\nMore.")
        assert docs.description == "Do.\n\nAll of these are needed.\n\nMore."
        assert docs.params == (Documented("x", "The x."),)

    @pytest.mark.parametrize("words", ["None", "None.", "the same as `other`", "None: nothing at all"])
    def test_a_section_without_entries_stays_whole(self, words: str) -> None:
        docs = parse_docstring(f"Do.\n\nArgs:\n    {words}")
        assert docs.params == ()
        assert docs.description == f"Do.\n\nArgs:\n    {words}"

    def test_entries_may_be_bullets(self) -> None:
        text = "Do.\n\nArgs:\n    - x: The x.\n    - y (int): The y\n      goes on."
        assert params_of(text) == {"x": "The x.", "y": "The y goes on."}

    def test_blank_lines_may_separate_header_and_entries(self) -> None:
        assert params_of("Do.\n\nArgs:\n\n    x: The x.\n\n    y: The y.\n") == {"x": "The x.", "y": "The y."}

    @pytest.mark.parametrize(
        "rest", ["\n        x: The x.\n        y: The y.\n    ", "\nx: The x.\ny: The y."]
    )
    def test_a_docstring_may_begin_with_its_arguments(self, rest: str) -> None:
        docs = parse_docstring("Args:" + rest)
        assert docs.params == (Documented("x", "The x."), Documented("y", "The y."))
        assert (docs.description, docs.summary, docs.first_line) == ("", "", "Args:")

    def test_sections_after_a_leading_one_are_found_too(self) -> None:
        docs = parse_docstring("Args:\nx: The x.\nReturns:\n    The y.\n\nProse.")
        assert params_of("Args:\nx: The x.\nReturns:\n    The y.") == {"x": "The x."}
        assert (docs.returns, docs.description) == ("The y.", "Prose")

    def test_returns_keep_nested_bullets_and_the_words_of_their_type(self) -> None:
        docs = parse_docstring(
            """Fetch user profile.

            Returns:
                dict: User data containing:
                    - id (int): User ID
                    - username (str): Username
            """
        )
        assert docs.description == "Fetch user profile"
        assert docs.returns == "dict: User data containing:\n- id (int): User ID\n- username (str): Username"
        assert docs.returns_type == "dict"

    @pytest.mark.parametrize(
        ("text", "type_text"),
        [
            ("str: The name.", "str"),
            ("list[dict[str, int]]: Rows.", "list[dict[str, int]]"),
            ("str | None: The name.", "str | None"),
            ("list of str: The names.", "list of str"),
            ("UserProfile: The user.", "UserProfile"),
            ("pandas.DataFrame: The rows.", "pandas.DataFrame"),
            ("(dict): The data.", "dict"),
            ("bool", "bool"),
            ("Weather data: temperature and more", None),
            ("Note: nothing.", None),
            ("The id: a number.", None),
            ("JSON text", None),
            ("str:x", None),
            ("a" * 300 + ": b", None),
        ],
    )
    def test_a_returned_type_is_told_from_prose(self, text: str, type_text: str | None) -> None:
        docs = parse_docstring(f"Do.\n\nReturns:\n    {text}")
        assert (docs.returns, docs.returns_type) == (text, type_text)

    def test_wrapped_returns_become_one_line(self) -> None:
        assert parse_docstring("Do.\n\nReturns:\n    The sum\n    of both.").returns == "The sum of both."

    def test_returns_and_yields_are_both_kept(self) -> None:
        docs = parse_docstring("Do.\n\nYields:\n    int: One.\n\nReturns:\n    str: Two.")
        assert (docs.returns, docs.returns_type) == ("int: One.\n\nstr: Two.", "int")

    def test_errors_are_named(self) -> None:
        docs = parse_docstring(
            "Do.\n\nRaises:\n    ValueError: If x\n        is bad.\n    requests.HTTPError, KeyError: If y.\n"
        )
        assert docs.raises == (
            Documented("ValueError", "If x is bad."),
            Documented("requests.HTTPError", "If y."),
            Documented("KeyError", "If y."),
        )

    @pytest.mark.parametrize(
        "block",
        ["create, issue, important", "create issue\n    important", "- create\n    - issue,important"],
    )
    def test_tags_are_words(self, block: str) -> None:
        docs = parse_docstring(f"Do.\n\nTags:\n    {block}\n")
        assert docs.tags == ("create", "issue", "important")
        assert docs.description == "Do"

    def test_attributes_of_a_class_are_apart_from_parameters(self) -> None:
        docs = parse_docstring("A point.\n\nArgs:\n    x: Given.\n\nAttributes:\n    y (int): Found.")
        assert docs.params == (Documented("x", "Given."),)
        assert docs.attributes == (Documented("y", "Found.", "int"),)


class TestNumpy:
    def test_entries_name_type_and_words(self) -> None:
        text = """Do.

        Parameters
        ----------
        a : int
            One
            goes on.
        b, c : float, optional
            Two.

            - x
            - y
        d
            Three.
        mode : {'fast', 'slow'}, default='fast'
        *args, **kwargs
            Rest.
        n : int, optional (default=5)
        k : int (default 5)

        Other Parameters
        ----------------
        e : str
            Four.
        """
        assert params_of(text) == {
            "a": "One goes on.",
            "b": "Two.\n\n- x\n- y",
            "c": "Two.\n\n- x\n- y",
            "d": "Three.",
            "mode": "",
            "args": "Rest.",
            "kwargs": "Rest.",
            "n": "",
            "k": "",
            "e": "Four.",
        }
        assert types_of(text) == {
            "a": "int",
            "b": "float",
            "c": "float",
            "d": None,
            "mode": "{'fast', 'slow'}",
            "args": None,
            "kwargs": None,
            "n": "int",
            "k": "int",
            "e": "str",
        }

    def test_words_after_a_colon_are_words_unless_they_look_like_a_type(self) -> None:
        docs = parse_docstring("Do.\n\nParameters\n----------\nx: the place of it\ny: int\nz : special thing")
        assert docs.params == (
            Documented("x", "the place of it"),
            Documented("y", "", "int"),
            Documented("z", "", "special thing"),
        )

    def test_other_sections_stay_with_their_titles(self) -> None:
        docs = parse_docstring(
            """Do.

            Parameters
            ----------
            x : int
                The x.

            Warns
            -----
            UserWarning
                If odd.

            Notes
            -----
            Be careful.

            Own Title
            ---------
            Own words.
            """
        )
        assert docs.description == (
            "Do.\n\nWarns:\nUserWarning\n    If odd.\n\nNotes:\nBe careful.\n\nOwn Title:\nOwn words."
        )
        assert params_of("Do.\n\nParameters:\n-----------\nx : int\n    The x.") == {"x": "The x."}

    def test_a_rule_below_a_sentence_is_no_title(self) -> None:
        docs = parse_docstring("Do it now.\n---\nMore\n\nReturns\n-------\nThe x.")
        assert docs.description == "Do it now.\n---\nMore"
        assert parse_docstring("Some words\n----------\nMore.").style == "plain"

    def test_prose_after_the_entries_stays_in_the_description(self) -> None:
        text = "Do.\n\nParameters\n----------\nx : int\n    The x.\n\nClosing prose follows\nhere"
        docs = parse_docstring(text)
        assert docs.description == "Do.\n\nClosing prose follows\nhere"
        assert docs.params == (Documented("x", "The x.", "int"),)

    def test_a_section_without_entries_stays_whole(self) -> None:
        docs = parse_docstring("Do.\n\nParameters\n----------\nNone")
        assert (docs.params, docs.description) == ((), "Do.\n\nParameters:\nNone")

    @pytest.mark.parametrize(
        ("block", "returns", "returns_type"),
        [
            ("dict\n    The data\n    here.", "The data here.", "dict"),
            ("ndarray, shape (n,)\n    The array.", "The array.", "ndarray, shape (n,)"),
            ("total : int\n    The total.", "total: The total.", "int"),
            ("total : int", "total", "int"),
            ("int", "int", "int"),
            ("The total of\nall.", "The total of all.", None),
            ("The total of all.\n    And more.", "The total of all.\nAnd more.", None),
            ("a : int\n    First.\nb : str\n    Second.", "a (int): First.\nb (str): Second.", None),
            ("int\n    First.\nstr", "int: First.\nstr", None),
        ],
    )
    def test_returns_keep_all_words(self, block: str, returns: str, returns_type: str | None) -> None:
        docs = parse_docstring(f"Do.\n\nReturns\n-------\n{block}")
        assert docs.returns.replace("\n", " ") == returns.replace("\n", " ")
        assert docs.returns_type == returns_type

    def test_errors_and_attributes_are_named(self) -> None:
        docs = parse_docstring(
            "Do.\n\nRaises\n------\nValueError\n    If bad.\nKeyError: If missing.\n\n"
            "Attributes\n----------\nx : int\n    The x.\n\nTags\n----\na, b"
        )
        assert docs.raises == (Documented("ValueError", "If bad."), Documented("KeyError", "If missing."))
        assert docs.attributes == (Documented("x", "The x.", "int"),)
        assert docs.tags == ("a", "b")

    def test_a_second_result_keeps_its_type_among_its_words(self) -> None:
        docs = parse_docstring("Do.\n\nYields\n------\nint\n    One.\n\nReturns\n-------\nstr\n    Two.")
        assert (docs.returns, docs.returns_type) == ("One.\n\nstr: Two.", "int")

    def test_the_examples_section_is_an_example(self) -> None:
        docs = parse_docstring("Do.\n\nExamples\n--------\n>>> f(1)\n2\n")
        assert docs.examples == (">>> f(1)\n2",)
        assert docs.description == "Do.\n\nExamples:\n>>> f(1)\n2"


class TestRest:
    def test_fields_name_type_and_words(self) -> None:
        docs = parse_docstring(
            """Do.

            :param x: The x: "quoted"
                goes on.
            :param int y: The y.
            :param list[str] | None z: The z.
            :type x: str, optional
            :param \\*args: Rest.
            :parameter a, b: Both.
            :param c (int): The c.
            :raises ValueError: If bad.
            :raises KeyError, http.Error: If worse.
            :return: A thing:

                - one
                - two
            :rtype: dict
            :ivar v: Seen.
            :vartype v: int
            :tags: read, write

            More prose.
            """
        )
        assert docs.style == "rest"
        assert docs.params == (
            Documented("x", 'The x: "quoted" goes on.', "str"),
            Documented("y", "The y.", "int"),
            Documented("z", "The z.", "list[str] | None"),
            Documented("args", "Rest."),
            Documented("a", "Both."),
            Documented("b", "Both."),
            Documented("c", "The c.", "int"),
        )
        assert docs.raises == (
            Documented("ValueError", "If bad."),
            Documented("KeyError", "If worse."),
            Documented("http.Error", "If worse."),
        )
        assert (docs.returns, docs.returns_type) == ("A thing:\n\n- one\n- two", "dict")
        assert docs.attributes == (Documented("v", "Seen.", "int"),)
        assert docs.tags == ("read", "write")
        assert docs.description == "Do.\n\nMore prose."

    def test_epydoc_is_the_same_with_another_sign(self) -> None:
        docs = parse_docstring(
            "Do.\n\n@type x: int\n@param x: The x.\n@return: The y.\n@raise KeyError: If z."
        )
        assert docs.style == "rest"
        assert docs.params == (Documented("x", "The x.", "int"),)
        assert docs.returns == "The y."
        assert docs.raises == (Documented("KeyError", "If z."),)

    def test_the_returned_type_may_stand_in_its_field(self) -> None:
        docs = parse_docstring("Do.\n\n:returns int: The sum.")
        assert (docs.returns, docs.returns_type) == ("The sum.", "int")

    def test_tags_may_stand_in_their_field(self) -> None:
        assert parse_docstring("Do.\n\n:tags read write:\n:tags: admin").tags == ("read", "write", "admin")

    def test_a_type_alone_documents_a_parameter(self) -> None:
        assert parse_docstring("Do.\n\n:type x: int").params == (Documented("x", "", "int"),)

    def test_two_types_of_one_parameter_are_a_union(self) -> None:
        docs = parse_docstring("Do.\n\n:param int x: The x.\n:type x: str\n:type x: int")
        assert docs.params == (Documented("x", "The x.", "int | str"),)

    @pytest.mark.parametrize(
        "line",
        [
            ":param: Words",
            ":raises: Words",
            ":type: int",
            ":unknown x: Words",
            ":param 1 2: Words",
            ":class:`X` y",
        ],
    )
    def test_a_field_that_names_nothing_stays_in_the_description(self, line: str) -> None:
        docs = parse_docstring(f"Do.\n\n{line}\n    and more.\n\n:param y: The y.")
        assert docs.description == f"Do.\n\n{line}\n    and more."

    def test_fields_in_an_indented_example_are_no_fields(self) -> None:
        text = "Do.\n\n:param x: The x.\n\nWrite it so::\n\n    :param y: words"
        docs = parse_docstring(text)
        assert params_of(text) == {"x": "The x."}
        assert docs.description == "Do.\n\nWrite it so::\n\n    :param y: words"


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


class TestExamples:
    @pytest.mark.parametrize("word", ["Example", "Examples", "Ejemplo", "Ejemplos", "example"])
    def test_text_on_the_line_and_deeper_below_it_is_an_example(self, word: str) -> None:
        text = f"Do.\n\n{word}: f(1)\n    g(2)\n      h(3)\n\nMore."
        docs = parse_docstring(text)
        assert docs.examples == ("f(1)\ng(2)\n  h(3)",)
        assert docs.description == text

    def test_a_block_is_one_example_with_its_lines(self) -> None:
        docs = parse_docstring("Do.\n\nExample::\n\n    >>> f(1)\n    2\n\n    >>> g(2)\n\nEjemplo: h(3)")
        assert docs.examples == (">>> f(1)\n2\n\n>>> g(2)", "h(3)")

    def test_lines_one_below_the_other_are_each_an_example(self) -> None:
        assert parse_docstring("Do.\nEjemplo: f(1)\nEjemplo: g(2)").examples == ("f(1)", "g(2)")

    def test_the_colon_makes_the_example(self) -> None:
        assert parse_docstring("Do.\n\nExample f(1)\nFor example: f(2)\nExample:").examples == ()

    def test_a_parameter_called_example_is_no_example(self) -> None:
        docs = parse_docstring("Do.\n\nArgs:\n    example: Some text.")
        assert (docs.examples, params_of("Do.\n\nArgs:\n    example: Some text.")) == (
            (),
            {"example": "Some text."},
        )


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
            ),
        ],
    )
    def test_anything_else_is_no_hint(self, text: str) -> None:
        assert type_hint_of(text) is None
