"""NumPy and reST docstrings."""

from __future__ import annotations

import pytest

from toolcrib.schema.docstrings import Documented, parse_docstring


def params_of(text: str) -> dict[str, str]:
    return {entry.name: entry.description for entry in parse_docstring(text).params}


def types_of(text: str) -> dict[str, str | None]:
    return {entry.name: entry.type for entry in parse_docstring(text).params}


class TestNumpy:
    @pytest.mark.requirement("U-09")
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

    def test_a_rule_below_a_sentence_is_not_a_title(self) -> None:
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
            ("total : int", "total : int", None),
            ("int", "int", None),
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

    def test_the_examples_section_stays_in_the_description(self) -> None:
        docs = parse_docstring("Do.\n\nExamples\n--------\n>>> f(1)\n2\n")
        assert docs.description == "Do.\n\nExamples:\n>>> f(1)\n2"


class TestRest:
    @pytest.mark.requirement("U-10")
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

    def test_the_returned_type_may_be_in_its_field(self) -> None:
        docs = parse_docstring("Do.\n\n:returns int: The sum.")
        assert (docs.returns, docs.returns_type) == ("The sum.", "int")

    def test_tags_may_be_in_their_field(self) -> None:
        assert parse_docstring("Do.\n\n:tags read write:\n:tags: admin").tags == ("read", "write", "admin")

    def test_a_type_alone_documents_a_parameter(self) -> None:
        assert parse_docstring("Do.\n\n:type x: int").params == (Documented("x", "", "int"),)

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

    def test_fields_in_an_indented_example_are_not_fields(self) -> None:
        text = "Do.\n\n:param x: The x.\n\nWrite it so::\n\n    :param y: words"
        docs = parse_docstring(text)
        assert params_of(text) == {"x": "The x."}
        assert docs.description == "Do.\n\nWrite it so::\n\n    :param y: words"


def test_a_sentence_among_numpy_parameters_does_not_end_them() -> None:
    docs = parse_docstring(
        "Plot.\n\nParameters\n----------\nx : int\n    X.\n\nThe rest is optional.\n\n"
        "y : int\n    Y.\n\nThe end.\n"
    )
    assert [(item.name, item.description) for item in docs.params] == [("x", "X."), ("y", "Y.")]
    assert "The rest is optional." in docs.description
    assert "The end." in docs.description


def test_parameter_in_the_singular_is_a_title() -> None:
    assert [
        item.name for item in parse_docstring("Do.\n\nParameter\n---------\nx : int\n    X.\n").params
    ] == ["x"]
