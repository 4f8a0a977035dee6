"""Google docstrings."""

from __future__ import annotations

import pytest

from toolcrib.schema.docstrings import Documented, parse_docstring


def params_of(text: str) -> dict[str, str]:
    return {entry.name: entry.description for entry in parse_docstring(text).params}


def types_of(text: str) -> dict[str, str | None]:
    return {entry.name: entry.type for entry in parse_docstring(text).params}


class TestGoogle:
    @pytest.mark.requirement("U-08")
    @pytest.mark.parametrize(
        "header", ["Args", "Arguments", "Parameters", "Params", "Keyword Args", "Other Parameters", "args"]
    )
    def test_parameters_have_many_headers(self, header: str) -> None:
        assert params_of(f"Do.\n\n{header}:\n    x: The x.") == {"x": "The x."}

    @pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
    def test_any_indent_is_accepted(self, indent: str) -> None:
        text = f"Do.\n\nArgs:\n{indent}x: The x\n{indent}{indent}goes on.\n{indent}y: The y."
        assert params_of(text) == {"x": "The x goes on.", "y": "The y."}

    def test_types_are_in_parentheses(self) -> None:
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

    @pytest.mark.requirement("U-22")
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

    @pytest.mark.parametrize(
        "rest",
        [
            "Prose follows.",
            "Prose follows.\n    It is indented.",
            "\nProse follows.\n    odd (int): It is another paragraph.",
            "Prose follows.\n    odd: It has no type.",
        ],
    )
    def test_other_lines_at_the_margin_end_the_arguments(self, rest: str) -> None:
        docs = parse_docstring(f"Do.\n\nArgs:\n    x (str): The x.\n{rest}")
        assert docs.params == (Documented("x", "The x.", "str"),)
        assert docs.description == f"Do.\n\n{rest.lstrip()}"

    @pytest.mark.parametrize("header", ["Returns:", "returns:", "Raises:", "Example:"])
    def test_a_section_without_a_blank_line_before_it_ends_the_arguments(self, header: str) -> None:
        text = f"Do.\n\nArgs:\n    x (str): The x.\n{header}\n    y (int): The y."
        assert params_of(text) == {"x": "The x."}

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
        assert docs.description == ""

    def test_sections_after_a_leading_one_are_found_too(self) -> None:
        docs = parse_docstring("Args:\nx: The x.\nReturns:\n    The y.\n\nProse.")
        assert params_of("Args:\nx: The x.\nReturns:\n    The y.") == {"x": "The x."}
        assert (docs.returns, docs.description) == ("The y.", "Prose")

    def test_returns_keep_nested_bullets_and_their_type(self) -> None:
        docs = parse_docstring(
            """Fetch user profile.

            Returns:
                dict: User data containing:
                    - id (int): User ID
                    - username (str): Username
            """
        )
        assert docs.description == "Fetch user profile"
        assert docs.returns == "User data containing:\n- id (int): User ID\n- username (str): Username"
        assert docs.returns_type == "dict"

    @pytest.mark.parametrize(
        ("block", "returns", "returns_type"),
        [
            ("dict[str, Any]: The data.", "The data.", "dict[str, Any]"),
            (
                "Dict[str, List[int]]:\n        The data\n        here.",
                "The data here.",
                "Dict[str, List[int]]",
            ),
            ("list of str: The names.", "The names.", "list of str"),
            ("str | None: The name.", "The name.", "str | None"),
            ("int or None: The sum.", "The sum.", "int or None"),
            ("`shop.Order`: The order: all of it.", "The order: all of it.", "shop.Order"),
            ("The order: all of it.", "The order: all of it.", None),
            ("A dict[str, Any]: the data.", "A dict[str, Any]: the data.", None),
            ("std::vector it is", "std::vector it is", None),
            ("http://x.org/a: the place", "http://x.org/a: the place", None),
            ("{'a': 1}: the data", "{'a': 1}: the data", None),
            ("dict", "dict", None),
        ],
    )
    def test_a_type_before_the_words_about_the_result_is_apart(
        self, block: str, returns: str, returns_type: str | None
    ) -> None:
        docs = parse_docstring(f"Do.\n\nReturns:\n    {block}")
        assert (docs.returns, docs.returns_type) == (returns, returns_type)

    def test_wrapped_returns_become_one_line(self) -> None:
        assert parse_docstring("Do.\n\nReturns:\n    The sum\n    of both.").returns == "The sum of both."

    def test_returns_and_yields_are_both_kept(self) -> None:
        docs = parse_docstring("Do.\n\nYields:\n    int: One.\n\nReturns:\n    str: Two.")
        assert (docs.returns, docs.returns_type) == ("One.\n\nstr: Two.", "int")

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


@pytest.mark.parametrize("blank", ["", "\n"])
def test_arguments_at_the_margin_are_read_where_every_line_is_one(blank: str) -> None:
    text = f"Sign in.\n\nArgs:\n{blank}token (str): The token,\n    if there is one.\nexpiry: When it ends.\n"
    docs = parse_docstring(text)
    assert [(item.name, item.type, item.description) for item in docs.params] == [
        ("token", "str", "The token, if there is one."),
        ("expiry", None, "When it ends."),
    ]
    assert parse_docstring("Do.\n\nArgs:\nThis takes a name.\nname: Its name.\n").params == ()
