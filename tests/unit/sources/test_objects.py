"""The checks of tool objects by `register_tool`."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib.errors import (
    DefinitionError,
    InvalidNameError,
    InvalidSchemaError,
    InvalidToolError,
    ToolAlreadyExistsError,
)
from toolcrib.sources.objects import check_object

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


async def execute(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": []}


class CallableExecute:
    async def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": []}


def check(**attributes: Any) -> None:
    """Check an object that is right but for these attributes; None leaves one out."""
    given = {
        "name": "x",
        "description": "Ten letters",
        "input_schema": SCHEMA,
        "execute": execute,
        **attributes,
    }
    tool = SimpleNamespace(**{name: value for name, value in given.items() if value is not None})
    check_object(tool, lambda name: None)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (("name",), "'name' and 'description'"),
        (("description",), "'name' and 'description'"),
        (("name", "input_schema"), "'name' and 'description'"),
        (("input_schema",), "'input_schema' and 'execute'"),
        (("execute",), "'input_schema' and 'execute'"),
    ],
)
def test_an_object_has_all_attributes(missing: tuple[str, ...], message: str) -> None:
    check()
    with pytest.raises(InvalidToolError, match=message):
        check(**dict.fromkeys(missing))


def test_a_missing_attribute_is_both_kinds_of_error() -> None:
    assert issubclass(InvalidToolError, TypeError)
    assert issubclass(InvalidToolError, ValueError)


def test_a_name_keeps_the_strict_rule() -> None:
    check(name="add_memory")
    with pytest.raises(InvalidNameError):
        check(name="Add")


def test_a_name_must_be_free_before_the_rest_is_checked() -> None:
    def refuse(name: str) -> None:
        raise ToolAlreadyExistsError(name)

    with pytest.raises(ToolAlreadyExistsError):
        check_object(SimpleNamespace(name="x", description="", input_schema=[]), refuse)


def test_a_description_is_text_of_ten_to_five_hundred_characters() -> None:
    for description in ("x" * 10, "x" * 500, "ü" * 500):
        check(description=description)
    for description in (b"x" * 10, "x" * 9, "x" * 501, 5):
        with pytest.raises(DefinitionError) as caught:
            check(description=description)
        assert caught.value.tool == "x"


def test_a_schema_is_a_dict_of_an_object_with_properties() -> None:
    for schema in ([], {}, {"type": "array", "properties": {}}, {"type": "object"}):
        with pytest.raises(InvalidSchemaError):
            check(input_schema=schema)


def test_execute_is_callable_and_async() -> None:
    for good in (execute, CallableExecute(), partial(execute)):
        check(execute=good)
    for bad in (5, print, lambda arguments: execute(arguments)):
        with pytest.raises(InvalidToolError, match="execute"):
            check(execute=bad)
