"""Unions, Optional in every spelling, and unsupported hints."""

# ruff: noqa: UP007, UP045 - every spelling is meant

from __future__ import annotations

import collections.abc as abc
import datetime as dt
import decimal
import re
import typing
from typing import Annotated, Any, Literal, Optional, Union

import pytest
import typing_extensions
from pydantic import Field

from tests.support.definitions.hints import codes, output_of, receive, schema_of, taking
from toolcrib import DefinitionError, InvalidArgumentsError
from toolcrib.schema.hints import split_optional


class Odd:
    """A class without a known schema."""


class TestUnions:
    def test_are_any_of_their_members(self) -> None:
        assert schema_of(int | str) == {"anyOf": [{"type": "integer"}, {"type": "string"}]}

    @pytest.mark.parametrize(
        ("hint", "sent", "made"),
        [
            (float | int, 5, 5),
            (int | float, 5.5, 5.5),
            (bool | int, True, True),
            (decimal.Decimal | int, 5, 5),
            (dt.date | str, "2026-01-31", dt.date(2026, 1, 31)),
            (dt.date | str, "tomorrow", "tomorrow"),
            (bytes | str, "abcd", "abcd"),
            (list[int] | dict[str, int], {"a": 1}, {"a": 1}),
            (list[dt.date] | dt.date, ["2026-01-31"], [dt.date(2026, 1, 31)]),
            (re.Pattern | int, 3, 3),
        ],
    )
    def test_give_the_member_that_fits_best(self, hint: Any, sent: Any, made: Any) -> None:
        found = receive(hint, sent)
        assert (found, type(found)) == (made, type(made))

    def test_choose_a_member_for_each_value(self) -> None:
        hint = list[dt.date | int | None]
        assert receive(hint, ["2026-01-31", 5, None]) == [dt.date(2026, 1, 31), 5, None]

    def test_of_literals_are_one_enum_without_repeats(self) -> None:
        hint = Literal["a", "b"] | Literal["b", "c"]
        assert schema_of(hint) == {"type": "string", "enum": ["a", "b", "c"]}

    def test_with_anything_are_anything(self) -> None:
        assert schema_of(Union[int, Any]) == {}
        assert codes(taking(Odd | int)) == ["unknown-type"]

    def test_whose_members_all_refuse_say_why(self) -> None:
        with pytest.raises(InvalidArgumentsError, match="expected base64"):
            receive(bytes | list[bytes], "!")


class TestOptional:
    @pytest.mark.parametrize(
        "hint",
        [
            int | None,
            None | int,
            Optional[int],
            Union[int, None],
            Annotated[int | None, "words"],
            Optional[Annotated[int, "words"]],
            typing_extensions.TypeAliasType("Maybe", int | None),
            Union[int, Literal[None]],
        ],
    )
    def test_is_the_bare_type_in_every_spelling(self, hint: Any) -> None:
        schema = schema_of(hint, None)
        schema.pop("description", None)
        assert schema == {"type": "integer"}
        assert codes(taking(hint, None)) == []

    def test_a_literal_with_none_is_the_literal(self) -> None:
        assert schema_of(Literal["a", None], None) == {"type": "string", "enum": ["a"]}
        assert schema_of(Literal["a", None]) == {"enum": ["a", None]}
        assert receive(Literal["a", None], None) is None

    def test_without_default_null_has_to_be_said(self) -> None:
        assert schema_of(int | None) == {"anyOf": [{"type": "integer"}, {"type": "null"}]}

    def test_deep_inside_null_has_to_be_said(self) -> None:
        assert schema_of(list[int | None]) == {
            "type": "array",
            "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        }

    @pytest.mark.parametrize(
        ("hint", "bare", "nullable"),
        [
            (int, int, False),
            (int | str, int | str, False),
            (Literal["a"], Literal["a"], False),
            (Literal[None], None, True),
            (type(None), type(None), True),
            (Annotated[int, "a"], Annotated[int, "a"], False),
            (typing_extensions.TypeAliasType("Plain", int), None, False),
        ],
    )
    def test_splitting_leaves_the_rest_alone(self, hint: Any, bare: Any, nullable: bool) -> None:
        expected = hint if typing_extensions.TypeAliasType is type(hint) else bare
        assert split_optional(hint) == (expected, nullable)


class TestUnknown:
    @pytest.mark.parametrize(
        ("hint", "name"),
        [(Odd, "Odd"), (abc.Callable[[int], int], "Callable"), (type[int], "type"), (typing.Never, "Never")],
    )
    def test_accepts_anything_with_a_finding(self, hint: Any, name: str) -> None:
        tool = taking(hint)
        assert tool.definition.input_schema["properties"] == {"x": {}}
        (finding,) = tool.findings
        assert (finding.code, finding.level, finding.parameter) == ("unknown-type", "warning", "x")
        assert f"'{name}'" in finding.message
        assert finding.hint

    def test_is_reported_once_even_if_it_may_be_none(self) -> None:
        assert codes(taking(Odd | None)) == codes(taking(Odd | None, None)) == ["unknown-type"]

    def test_in_a_list_leaves_the_list(self) -> None:
        assert schema_of(list[Odd]) == {"type": "array"}

    def test_result_has_no_schema(self) -> None:
        assert output_of(Odd) is None

    @pytest.mark.parametrize("hint", [5, 1.5, [int], (int, str), {"a": int}])
    def test_annotations_that_are_not_types_are_refused(self, hint: Any) -> None:
        with pytest.raises(
            DefinitionError, match=r"Parameter 'x' of tool 'taking'.* is not a type"
        ) as caught:
            schema_of(hint)
        assert caught.value.hint == "annotate with a type"

    def test_a_field_in_the_place_of_a_type_is_explained(self) -> None:
        with pytest.raises(DefinitionError) as caught:
            schema_of(Field(description="words"))
        assert caught.value.hint == "write Annotated[type, Field(...)]"

    def test_an_unhashable_note_does_no_harm(self) -> None:
        assert schema_of(Annotated[int, {"unit": "m"}]) == {"type": "integer"}
