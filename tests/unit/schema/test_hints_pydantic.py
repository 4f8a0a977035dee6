"""Pydantic classes that are read by their fields."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import BaseModel

from tests.support.definitions.hints import emit, output_of, receive, schema_of
from tests.support.definitions.pydantic_models import (
    DAY,
    After,
    Aliased,
    ByName,
    Closed,
    Early,
    Extended,
    Generated,
    Holder,
    Item,
    Linked,
    Order,
    Raw,
    Slot,
    Strict,
    Wrapper,
)
from toolcrib import DefinitionError, InvalidArgumentsError


class TestByFields:
    def test_the_docstring_describes_fields_that_do_not_describe_themselves(self) -> None:
        assert schema_of(Item) == {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 20, "description": "as on the label"},
                "price": {
                    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
                    "description": "in euros",
                    "default": "1.5",
                },
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "labels",
                },
                "weight": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]},
                "day": {"type": "string", "format": "date"},
            },
            "required": ["name"],
            "description": "A thing to buy",
        }

    def test_a_recursive_model_is_made_and_sent(self) -> None:
        sent = {"first": {"name": "a", "day": "2026-01-31"}, "parent": {"first": {"name": "b"}}}
        order = receive(Order, sent)
        assert isinstance(order.parent, Order)
        assert order.parent.first.name == "b"
        assert emit(Order, order)["parent"]["first"]["name"] == "b"

    def test_bytes_are_text_and_times_may_have_no_offset(self) -> None:
        raw = receive(Raw, {"data": "aGk=", "span": "-PT1.5S"})
        assert (raw.data, raw.span) == (b"aGk=", dt.timedelta(seconds=-1.5))
        assert emit(Raw, raw) == {"data": "aGk=", "span": "-PT1.5S", "at": None}
        assert emit(Raw, Raw(data=b"", span=dt.timedelta(), at=dt.datetime(2026, 1, 31)))["at"]

    def test_a_strict_model_gets_python_values(self) -> None:
        assert receive(Strict, {"day": "2026-01-31"}) == Strict(day=DAY)

    def test_validators_run_and_say_where_they_refuse(self) -> None:
        assert receive(After, {"share": 0.5}).share == 50
        with pytest.raises(InvalidArgumentsError, match=r"'x\[0\]\.share': .*a share is at most 1") as caught:
            receive(list[After], [{"share": 2}])
        assert "pydantic" not in str(caught.value)

    def test_aliases_are_the_names_in_json(self) -> None:
        assert list(schema_of(Aliased)["properties"]) == ["from", "to"]
        made = receive(Aliased, {"from": "a"})
        assert made.from_ == "a"
        assert output_of(Aliased)["properties"].keys() == {"from", "until"}
        assert emit(Aliased, made) == {"from": "a", "until": "b"}
        assert receive(Generated, {"firstName": "a"}).first_name == "a"

    def test_a_model_made_by_name_is_published_by_name(self) -> None:
        assert list(schema_of(ByName)["properties"]) == ["name"]
        assert receive(ByName, {"name": "a"}).name == "a"

    def test_forbidden_extras_are_refused(self) -> None:
        assert schema_of(Closed)["additionalProperties"] is False
        with pytest.raises(InvalidArgumentsError, match=r"'x\.b'"):
            receive(Closed, {"a": 1, "b": 2})

    def test_schema_extras_are_kept(self) -> None:
        assert schema_of(Extended)["examples"] == [{"a": 1}]

    def test_a_generic_model_has_its_argument(self) -> None:
        assert schema_of(Wrapper[dt.date])["properties"]["item"] == {"type": "string", "format": "date"}
        assert schema_of(Holder[int])["properties"]["item"] == {"type": "integer"}
        assert receive(Holder[int], {"item": 1.0}) == Holder(item=1)

    def test_a_pydantic_dataclass_is_read_alike(self) -> None:
        assert schema_of(Slot) == {
            "type": "object",
            "properties": {
                "w": {"type": "integer", "minimum": 1, "description": "in mm"},
                "seed": {"type": "integer", "default": 3},
            },
            "required": ["w"],
        }
        assert receive(Slot, {"w": 2}).width == 2

    def test_pydantics_own_types_are_left_to_it_field_by_field(self) -> None:
        made = receive(Linked, {"address": "https://example.org/a", "key": "s3cret"})
        assert made.key.get_secret_value() == "s3cret"
        assert emit(Linked, made) == {"address": "https://example.org/a", "key": "**********"}

    def test_a_model_that_waits_for_another_is_completed(self) -> None:
        assert schema_of(Early)["properties"]["late"]["properties"] == {"a": {"type": "integer"}}

    def test_a_model_that_cannot_be_completed_is_refused(self) -> None:
        class Waiting(BaseModel):
            never: Unseen

        class Unseen(BaseModel):
            a: int

        with pytest.raises(
            DefinitionError, match=r"'x' of tool 'taking'.*class 'Waiting' is not fully defined"
        ):
            schema_of(Waiting)
