"""Types that pydantic describes, and the JSON data of any value."""

from __future__ import annotations

import array
import datetime as dt
import fractions
import ipaddress
import pathlib
import re
import types
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import BaseModel, Field

from tests.support.definitions.hints import emit, output_of, receive, schema_of, taking
from tests.support.definitions.pydantic_models import (
    DAY,
    Before,
    Called,
    Cat,
    Chosen,
    Codes,
    Computed,
    Dog,
    Item,
    Listed,
    Open,
    Owner,
    Secretive,
    SelfMade,
    Served,
    Titled,
    Wrapper,
)
from toolcrib.errors import InvalidResultError
from toolcrib.schema import pydantic_types


class TestByPydantic:
    def test_a_validator_that_wants_the_raw_value_gets_it(self) -> None:
        assert receive(Before, {"day": "monday", "when": "2026-02-01"}) == Before(
            day="MONDAY", when=dt.date(2026, 2, 1)
        )

    def test_words_about_fields_are_not_lost(self) -> None:
        schema = schema_of(Before)
        assert schema["description"] == "Takes a date in words"
        assert schema["properties"]["day"] == {"type": "string", "description": "an ISO date"}

    def test_a_choice_of_aliases_is_published_by_the_first(self) -> None:
        assert list(schema_of(Chosen)["properties"]) == ["id"]
        assert receive(Chosen, {"id": 5}).ident == 5

    def test_a_discriminated_union_is_a_plain_one_of(self) -> None:
        schema = schema_of(Owner)
        pets = schema["properties"]["pet"].pop("oneOf")
        assert [pet["properties"]["kind"]["const"] for pet in pets] == ["cat", "dog"]
        assert schema["properties"]["pet"] == {}
        assert receive(Owner, {"pet": {"kind": "cat", "lives": 9}}).pet == Cat(kind="cat", lives=9)
        hint = Annotated[Cat | Dog, Field(discriminator="kind")]
        assert receive(hint, {"kind": "dog"}) == Dog(kind="dog")

    def test_a_root_model_is_what_it_wraps(self) -> None:
        assert schema_of(Codes) == {"type": "array", "items": {"type": "integer"}}
        assert receive(Codes, [1]).root == [1]
        assert emit(Codes, Codes([1])) == [1]

    @pytest.mark.parametrize("model", [Called, SelfMade])
    def test_code_that_makes_the_schema_is_run(self, model: Any) -> None:
        assert schema_of(model)["marked"] is True

    def test_permitted_extras_are_received_and_sent(self) -> None:
        made = receive(Open, {"a": 1, "b": 2})
        assert made.b == 2
        assert emit(Open, made) == {"a": 1, "b": 2}

    def test_titles_that_repeat_names_are_dropped_and_the_authors_kept(self) -> None:
        schema = schema_of(Titled)
        assert schema["title"] == "Given"
        assert schema["properties"]["other"]["title"] == "By the author"
        assert "title" not in schema["properties"]["some_name"]
        hidden = [
            schema_of(model) for model in (Open, Owner, Codes, Wrapper[Open], list[Open], dict[str, Owner])
        ]
        assert "title" not in str(hidden)

    def test_validators_inside_a_field_run_once(self) -> None:
        assert receive(Listed, {"numbers": [1]}).numbers == [2]

    def test_two_classes_of_one_name_stay_apart(self) -> None:
        def other() -> Any:
            class Cat(BaseModel):
                claws: int

            class Zoo(BaseModel):
                cat: Cat
                next: Cat

            return Zoo

        class Pair(BaseModel):
            first: Cat
            second: Cat

        schema = schema_of(tuple[Pair, other(), Pair])
        assert schema["$defs"]["Cat"]["properties"].keys() == {"kind", "lives"}
        assert schema["$defs"]["Cat2"]["properties"].keys() == {"claws"}
        assert schema["prefixItems"][1]["properties"]["cat"] == {"$ref": "#/$defs/Cat2"}
        assert "Cat3" not in schema["$defs"]

    def test_a_secret_default_is_not_published(self) -> None:
        tool = taking(pydantic.SecretStr, pydantic.SecretStr("hunter2"))
        assert "default" not in tool.definition.input_schema["properties"]["x"]
        assert [finding.code for finding in tool.findings] == ["unpublished-default"]

    def test_anything_that_pydantic_cannot_describe_is_refused_in_one_line(self) -> None:
        from toolcrib import DefinitionError

        class Unknown:
            pass

        with pytest.raises(DefinitionError, match=r"Parameter 'x'.*Unable to generate") as caught:
            schema_of(Annotated[Unknown, pydantic.AfterValidator(print)])
        assert "\n" not in str(caught.value)


class TestLeaving:
    def test_fields_of_a_subclass_are_not_sent(self) -> None:
        made = Secretive(name="a")
        for hint, value in ((Item, made), (list[Item], [made]), (Item | None, made)):
            assert "hunter2" not in str(emit(hint, value))

    def test_computed_fields_are_declared_and_excluded_ones_are_not(self) -> None:
        assert output_of(Computed)["properties"].keys() == {"side", "area"}
        assert output_of(Computed)["properties"]["side"]["description"] == "in cm"
        assert emit(Computed, Computed(side=3)) == {"side": 3, "area": 9}

    def test_bytes_that_are_not_text_are_refused_with_the_setting_that_permits_them(self) -> None:
        class Raw(BaseModel):
            data: bytes

        class Encoded(Raw):
            model_config = pydantic.ConfigDict(ser_json_bytes="base64")

        with pytest.raises(InvalidResultError, match="not UTF-8; set ser_json_bytes='base64'"):
            emit(Raw, Raw(data=b"\x80"))
        assert emit(Encoded, Encoded(data=b"\x80")) == {"data": "gA=="}

    def test_a_serializer_says_what_leaves(self) -> None:
        assert output_of(Served)["properties"]["value"] == {"type": "string"}
        assert emit(Served, Served(value=3)) == {"value": "<3>"}

    def test_a_dict_in_the_place_of_a_model_is_checked_as_one(self) -> None:
        assert emit(Served, {"value": 3, "password": "x"}) == {"value": "<3>"}
        with pytest.raises(InvalidResultError, match="it is not a Served"):
            emit(Served, {"value": "none"})

    def test_a_union_sends_each_by_its_own_class(self) -> None:
        class Kennel(BaseModel):
            size: int

        assert emit(Served | Kennel, Served(value=3)) == {"value": "<3>"}
        assert emit(Served | Kennel, Kennel(size=3)) == {"size": 3}
        assert emit(Served | Computed, {"side": 2, "password": "x"}) == {"side": 2, "area": 4}
        assert emit(Served | Computed, {"value": 2, "password": "x"}) == {"value": "<2>"}
        assert emit(Annotated[Cat | Dog, Field(discriminator="kind")] | int, Dog(kind="dog"))["kind"] == "dog"


class TestPlainData:
    @pytest.mark.parametrize(
        ("value", "plain"),
        [
            (Item(name="a", day=DAY).model_copy(update={"price": None}), None),
            (Codes([1]), [1]),
            (pydantic.SecretStr("x"), "**********"),
            (pydantic.AnyUrl("https://a.b/"), "https://a.b/"),
            ({1: "a"}.keys(), [1]),
            ({1: "a"}.values(), ["a"]),
            (range(2), [0, 1]),
            (iter([1]), [1]),
            (1 + 2j, "(1+2j)"),
            (re.compile("^a"), "^a"),
            (types.MappingProxyType({"a": 1}), {"a": 1}),
            (fractions.Fraction(1, 2), "1/2"),
            (ipaddress.ip_address("::1"), "::1"),
            (pathlib.PurePath("a"), "a"),
            (array.array("i", [1]), [1]),
        ],
    )
    def test_has_the_obvious_form(self, value: Any, plain: Any) -> None:
        found = pydantic_types.to_plain(value)
        assert found == plain if plain is not None else found["name"] == "a"

    def test_of_a_subclass_is_the_one_of_the_type_below(self) -> None:
        class Name(str):
            def __str__(self) -> str:
                return "shown"

        class Many(int):
            pass

        class Part(float):
            pass

        found = pydantic_types.to_plain([Name("a"), Many(3), Part(0.5)])
        assert [(item, type(item)) for item in found] == [("a", str), (3, int), (0.5, float)]

    def test_of_arrays_is_found_by_the_methods_they_share(self) -> None:
        class Scalar:
            shape = ()

            def item(self) -> int:
                return 7

        class Matrix:
            shape = (2,)

            def item(self) -> int:
                raise AssertionError("has several")

            def tolist(self) -> list[int]:
                return [1, 2]

        assert pydantic_types.to_plain([Scalar(), Matrix()]) == [7, [1, 2]]

    def test_is_missing_where_there_is_no_form(self) -> None:
        with pytest.raises(TypeError, match="a value of type object has no JSON form"):
            pydantic_types.to_plain(object())
        with pytest.raises(TypeError, match="the class Item has no JSON form"):
            pydantic_types.to_plain(Item)
