"""The single checks of the strict door; in which order they come is tested with `register_tool` itself."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib.errors import DefinitionError, InvalidNameError, InvalidSchemaError, InvalidToolError
from toolcrib.sources import objects

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


async def execute(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": []}


class CallableExecute:
    async def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": []}


def thing(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


def test_attributes_are_asked_for_in_pairs() -> None:
    for attributes in ({}, {"name": "x"}, {"description": "d"}):
        with pytest.raises(InvalidToolError, match="'name' and 'description'"):
            objects.check_attributes(thing(**attributes))
    with pytest.raises(InvalidToolError, match="'input_schema' and 'execute'"):
        objects.check_attributes(thing(name="x", description="d"))
    objects.check_attributes(thing(name="x", description="d", input_schema=SCHEMA))


def test_a_refusal_of_attributes_is_both_kinds_of_error() -> None:
    assert issubclass(InvalidToolError, TypeError)
    assert issubclass(InvalidToolError, ValueError)


def test_a_name_keeps_the_strict_rule() -> None:
    objects.check_name(thing(name="add_memory"))
    with pytest.raises(InvalidNameError):
        objects.check_name(thing(name="Add"))


def test_a_description_is_text_of_ten_to_five_hundred_characters() -> None:
    for description in ("x" * 10, "x" * 500, "ü" * 500):
        objects.check_description(thing(name="x", description=description))
    for description in (b"x" * 10, "x" * 9, "x" * 501, None):
        with pytest.raises(DefinitionError) as refusal:
            objects.check_description(thing(name="x", description=description))
        assert refusal.value.tool == "x"


def test_a_schema_is_a_dict_of_an_object_with_properties() -> None:
    objects.check_schema(thing(name="x", input_schema=SCHEMA))
    for schema in ([], {}, {"type": "array", "properties": {}}, {"type": "object"}):
        with pytest.raises(InvalidSchemaError):
            objects.check_schema(thing(name="x", input_schema=schema))


def test_execute_is_callable_and_async() -> None:
    for good in (execute, CallableExecute(), partial(execute)):
        objects.check_execute(thing(name="x", execute=good))
    for attributes in (
        {},
        {"execute": 5},
        {"execute": print},
        {"execute": lambda arguments: execute(arguments)},
    ):
        with pytest.raises(InvalidToolError, match="execute"):
            objects.check_execute(thing(name="x", **attributes))
