"""Result hints: output schemas, and where descriptions of results go."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from typing import Annotated, Any, Literal, Never, NoReturn

import pytest
from pydantic import Field

from tests.support.definitions.hints import definition_of, giving, output_of
from toolcrib import Image, Result, Tool
from toolcrib.content import Link
from toolcrib.errors import InvalidSchemaError, InvalidSignatureError


class Odd:
    """A class without a known schema."""


@pytest.mark.parametrize(
    "hint",
    [
        str,
        None,
        type(None),
        Any,
        object,
        Never,
        NoReturn,
        str | None,
        Annotated[str, "words"],
        Image,
        Result,
        Image | None,
        str | Image,
        list[Image],
        list[str | Image],
        tuple[str, Link],
        Iterator[Image],
        Odd,
        Awaitable[str],
    ],
)
def test_text_nothing_media_and_the_unknown_have_no_schema(hint: Any) -> None:
    assert output_of(hint) is None


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (dict, {"type": "object"}),
        (list[dict], {"type": "array", "items": {"type": "object"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Annotated[int, Field(ge=0)], {"type": "integer", "minimum": 0}),
        (Iterator[int], {"type": "array", "items": {"type": "integer"}}),
        (AsyncIterator[int], {"type": "array", "items": {"type": "integer"}}),
        (Awaitable[int], {"type": "integer"}),
        (Coroutine[Any, Any, Awaitable[int]], {"type": "integer"}),
        (dt.date, {"type": "string", "format": "date"}),
    ],
)
def test_data_has_one(hint: Any, schema: dict[str, Any]) -> None:
    assert output_of(hint) == schema


def test_a_result_that_cannot_be_described_is_refused_as_such() -> None:
    with pytest.raises(
        InvalidSignatureError, match=r"The result of tool 'giving' .* 5 is not a type"
    ) as caught:
        output_of(5)
    assert caught.value.parameter == "return"


def test_an_unknown_result_is_reported() -> None:
    (finding,) = giving(Odd).findings
    assert (finding.code, finding.parameter) == ("unknown-type", "return")


class TestWords:
    def test_about_data_go_to_its_schema(self) -> None:
        def count() -> int:
            """Count them.

            Returns:
                How many there are

            Raises:
                KeyError: if there is none
            """

        tool = Tool.from_function(count)
        definition = tool.definition
        assert definition.description == "Count them"
        assert definition.output_schema == {"type": "integer", "description": "How many there are"}
        assert definition.metadata == {"raises": {"KeyError": "if there is none"}}
        assert definition.standalone_description == (
            "Count them.\n\nReturns: How many there are\n\nRaises:\n- KeyError: if there is none"
        )

    def test_about_text_stay_in_the_description(self) -> None:
        def name() -> str:
            """Name it.

            Returns:
                The name

            Raises:
                KeyError: if there is none
                ValueError:
            """

        definition = Tool.from_function(name).definition
        assert definition.description == (
            "Name it.\n\nReturns: The name\n\nRaises:\n- KeyError: if there is none\n- ValueError"
        )
        assert definition.standalone_description == definition.description

    def test_beside_the_hint_win_over_the_docstring(self) -> None:
        def count() -> Annotated[int, Field(description="said here")]:
            """Count.

            Returns:
                said there
            """

        def name() -> Annotated[str, "said here"]:
            """Name."""

        assert definition_of(count)["outputSchema"]["description"] == "said here"
        assert definition_of(name)["description"] == "Name.\n\nReturns: said here"

    @pytest.mark.parametrize("style", ["Returns:\n    {}: The orders", ":return: The orders\n:rtype: {}"])
    @pytest.mark.parametrize(
        ("hint", "documented"),
        [
            (dict, "dict"),
            (dict, "Dict[str, Any]"),
            (dict[str, Any], "dict"),
            (dict[str, Any], "dict[str, Any]"),
            (list[dict[str, Any]], "List[Dict[str, Any]]"),
            (list[dict], "list of dicts"),
            (list[dict], "list"),
            (list[str] | None, "Optional[List[str]]"),
            (list[str] | None, "list[str]"),
            (int, "integer"),
            (Odd, "Odd"),
        ],
    )
    def test_have_no_type_that_the_hint_has(self, style: str, hint: Any, documented: str) -> None:
        def find() -> None: ...

        find.__annotations__["return"] = hint
        find.__doc__ = "Find them.\n\n" + style.format(documented)
        definition = Tool.from_function(find).definition
        assert definition.returns == "The orders"
        assert f"{documented}: " not in str(definition.to_wire())

    @pytest.mark.parametrize(
        "style",
        [
            "Returns:\n    {}: The orders",
            ":return: The orders\n:rtype: {}",
            "Returns\n-------\n{}\n    The orders",
        ],
    )
    @pytest.mark.parametrize(
        ("hint", "documented"),
        [
            (None, "dict[str, Any]"),
            (Any, "dict[str, Any]"),
            (str, "dict"),
            (dict, "dict[str, Order]"),
            (list, "list[int]"),
        ],
    )
    def test_keep_a_type_that_the_hint_does_not_have(self, style: str, hint: Any, documented: str) -> None:
        def find(): ...

        if hint is not None:
            find.__annotations__["return"] = hint
        find.__doc__ = "Find them.\n\n" + style.format(documented)
        definition = Tool.from_function(find).definition
        assert definition.returns == f"{documented}: The orders"
        assert f"{documented}: The orders" in str(definition.to_wire())

    def test_are_a_type_alone_where_there_is_nothing_else(self) -> None:
        def find():
            """Find them.

            :rtype: list[int]
            """

        assert definition_of(find)["description"] == "Find them.\n\nReturns: list[int]"

    def test_keep_their_type_beside_an_explicit_schema(self) -> None:
        def find(arguments):
            """Find them.

            Returns:
                dict[str, Any]: The orders
            """

        tool = Tool.from_function(find, input_schema={"type": "object"})
        assert tool.definition.description == "Find them.\n\nReturns: dict[str, Any]: The orders"

    def test_given_as_an_option_are_published_word_for_word(self) -> None:
        def name() -> str:
            """Name it.

            Returns:
                The name
            """

        assert definition_of(name, description="Given.")["description"] == "Given."
        assert definition_of(name, description="")["inputSchema"] == {"type": "object", "properties": {}}

    def test_about_a_class_stand_after_those_about_the_result(self) -> None:
        @dataclasses.dataclass
        class Place:
            """A place on the map."""

        def find() -> Any:
            """Find it.

            Returns:
                Where it is
            """

        find.__annotations__["return"] = Place
        assert definition_of(find)["outputSchema"]["description"] == "Where it is\n\nA place on the map"

    def test_are_kept_for_an_explicit_output_schema_as_it_is(self) -> None:
        def count() -> int:
            """Count.

            Returns:
                How many
            """

        schema = {"type": "integer", "minimum": 0}
        definition = Tool.from_function(count, output_schema=schema).definition
        assert definition.output_schema == schema
        assert definition.description == "Count"
        assert definition.standalone_description == "Count.\n\nReturns: How many"
        assert Tool.from_function(count, output_schema={}).definition.description == "Count"

    def test_an_explicit_output_schema_is_checked(self) -> None:
        tool = Tool.from_function(lambda: 1, name="one", output_schema={"type": "nonsense"})
        with pytest.raises(InvalidSchemaError) as caught:
            tool.check()
        assert (caught.value.tool, caught.value.source.line is not None) == ("one", True)
