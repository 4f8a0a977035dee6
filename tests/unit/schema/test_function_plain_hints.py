"""Plain hints have the same meaning as if they were read like any other hint."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, Literal

import pytest

from toolcrib import Tool
from toolcrib.errors import DefinitionError
from toolcrib.schema import function as signature
from toolcrib.schema.function import find_plain_hint

PLAIN: dict[str, Any] = {
    "text": str,
    "a whole number": int,
    "a number": float,
    "a truth value": bool,
    "a list": list,
    "a dict": dict,
    "a list of text": list[str],
    "a dict of numbers": dict[str, float],
    "a dict by number": dict[int, str],
    "a list of dicts of lists": list[dict[str, list[int]]],
    "a list of dicts of anything": list[dict[str, Any]],
    "text or nothing": str | None,
    "text or nothing, as typing has it": typing.Optional[str],  # noqa: UP045
    "one of two": int | str,
    "one of two, as typing has it": typing.Union[str, int],  # noqa: UP007
    "one of two or nothing": int | list[str] | None,
    "a choice of words": Literal["a", "b"],
    "a choice of hidden words": Literal["a", "b\u200b"],
    "a choice of very many words": Literal[tuple(f"word {number}" for number in range(1_000))],
}
OTHERS: dict[str, Any] = {
    "anything": Any,
    "nothing": None,
    "a tuple": tuple[int, str],
    "a set": set[int],
    "a list of unions": list[int | str],
    "a choice of numbers": Literal[1, 2],
    "something annotated": typing.Annotated[int, "how many"],
    "an annotated item": list[typing.Annotated[str, ["no hash"]]],
    "a list, as typing has it": typing.List[int],  # noqa: UP006
    "keys that JSON cannot have": dict[list[int], str],
    "bytes": bytes,
}
DEFAULTS = (
    None,
    "",
    "a",
    "b",
    "two\nlines",
    "\u200b",
    "x" * 2_000,
    0,
    7,
    2**60,
    0.5,
    float("inf"),
    True,
    ["a"],
)


def make(hint: Any, default: Any = ...) -> Callable[..., Any]:
    def unsure(crate: Any = default) -> Any:
        """Weigh it.

        Args:
            crate: Which one.
        """

    def sure(crate: Any) -> Any:
        """Weigh it.

        Args:
            crate: Which one.
        """

    made = sure if default is ... else unsure
    made.__annotations__ = {"crate": hint, "return": hint}
    return made


def describe(function: Callable[..., Any]) -> Any:
    """Everything about a tool, or why it cannot be built."""
    try:
        built = Tool.from_function(function).check()
    except DefinitionError as error:
        return str(error)
    said = [(finding.code, finding.message) for finding in built.findings]
    arguments = built.arguments
    how = (arguments.parameters, arguments.nullable, arguments.optional, list(arguments.loaders))
    wire = built.definition.to_wire() | {"name": "", "returns": built.definition.returns}
    return wire, said, how, built.results.dump is None


@pytest.mark.parametrize("hint", PLAIN.values(), ids=PLAIN)
def test_a_plain_hint_is_known(hint: Any) -> None:
    assert find_plain_hint(hint) is find_plain_hint(hint) is not None


@pytest.mark.parametrize("hint", OTHERS.values(), ids=OTHERS)
def test_every_other_hint_is_left_to_the_reader_of_hints(hint: Any) -> None:
    assert find_plain_hint(hint) is None


@pytest.mark.parametrize("hint", [*PLAIN.values(), *OTHERS.values()], ids=[*PLAIN, *OTHERS])
def test_the_short_way_says_what_the_long_one_says(hint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = [..., *DEFAULTS]
    short = [describe(make(hint, default)) for default in defaults]
    monkeypatch.setattr(signature, "find_plain_hint", lambda _: None)
    assert short == [describe(make(hint, default)) for default in defaults]


def test_the_order_of_a_union_is_its_own() -> None:
    orders = [
        describe(make(hint))[0]["inputSchema"]["properties"]["crate"]["anyOf"]
        for hint in (int | str, str | int)
    ]
    assert orders[0] == orders[1][::-1] != orders[1]


def test_a_value_that_equals_another_is_not_taken_for_it() -> None:
    assert find_plain_hint(Literal["1"]) is not find_plain_hint(Literal["1", "2"])
    assert find_plain_hint(list[int]) is not find_plain_hint(list[bool])


def test_definitions_share_no_dict_that_somebody_could_change() -> None:
    first, second = (Tool.from_function(make(dict[str, list[int]])).definition for _ in range(2))
    assert first.input_schema == second.input_schema
    inner, other = (item.input_schema["properties"]["crate"] for item in (first, second))
    assert inner is not other
    assert inner["additionalProperties"] is not other["additionalProperties"]
