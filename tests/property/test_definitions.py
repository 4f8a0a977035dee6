"""Any signature out of a grammar of types: its schema holds, and values come back as they went."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import operator
import pathlib
import string
import uuid
from typing import Annotated, Any, Literal, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.support.definitions.hints import giving, received_by, taking
from toolcrib import Tool
from toolcrib.validation.validator import check_schema

UTC = dt.UTC


class Colour(enum.Enum):
    RED = "r"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type hint, values of it, and the JSON type they travel as."""

    hint: Any
    values: st.SearchStrategy[Any]
    json: str
    hashable: bool = True


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
PLAIN = st.text(string.ascii_letters, min_size=1, max_size=6)
MOMENTS = st.datetimes(timezones=st.just(UTC))
LEAVES = [
    Kind(str, TEXT, "string"),
    Kind(int, st.integers(-(2**53), 2**53), "integer"),
    Kind(float, st.floats(allow_nan=False, allow_infinity=False), "number"),
    Kind(bool, st.booleans(), "boolean"),
    Kind(dt.date, st.dates(), "string"),
    Kind(dt.datetime, MOMENTS, "string"),
    Kind(dt.time, st.times(), "string"),
    Kind(dt.timedelta, st.timedeltas(), "string"),
    Kind(uuid.UUID, st.uuids(), "string"),
    Kind(pathlib.PurePosixPath, st.builds(pathlib.PurePosixPath, PLAIN, PLAIN), "string"),
    Kind(bytes, TEXT.map(str.encode), "string"),  # models of pydantic send bytes as text
    Kind(decimal.Decimal, st.decimals(-(10**6), 10**6, places=3), "number"),
    Kind(Literal["a", 1, True], st.sampled_from(["a", 1, True]), "mixed"),
    Kind(Colour, st.sampled_from(Colour), "mixed"),
    Kind(Level, st.sampled_from(Level), "integer"),
    Kind(Annotated[int, Field(ge=0, le=9, description="a digit")], st.integers(0, 9), "integer"),
    Kind(Annotated[str, Field(max_length=3)], st.text(string.printable, max_size=3), "string"),
]
KEYS = [kind for kind in LEAVES if kind.hint in (str, int, bool, dt.date, uuid.UUID, Colour, Level)]


def list_of(kind: Kind) -> Kind:
    return Kind(list[kind.hint], st.lists(kind.values, max_size=3), "array", hashable=False)


def deque_of(kind: Kind) -> Kind:
    values = st.lists(kind.values, max_size=3).map(collections.deque)
    return Kind(collections.deque[kind.hint], values, "array", hashable=False)


def set_of(kind: Kind) -> Kind:
    return Kind(frozenset[kind.hint], st.frozensets(kind.values, max_size=3), "array", hashable=True)


def row_of(kinds: list[Kind]) -> Kind:
    values = st.tuples(*(kind.values for kind in kinds))
    hashable = all(kind.hashable for kind in kinds)
    return Kind(tuple[tuple(kind.hint for kind in kinds)], values, "array", hashable)


def table_of(key: Kind, kind: Kind) -> Kind:
    values = st.dictionaries(key.values, kind.values, max_size=3)
    return Kind(dict[key.hint, kind.hint], values, "object", hashable=False)


def optional(kind: Kind) -> Kind:
    return Kind(kind.hint | None, st.none() | kind.values, "mixed", kind.hashable)


def union_of(kinds: list[Kind]) -> Kind:
    hint = functools.reduce(operator.or_, (kind.hint for kind in kinds))
    return Kind(hint, st.one_of(*(kind.values for kind in kinds)), "mixed", all(k.hashable for k in kinds))


def record_of(kinds: list[Kind], flavour: str) -> Kind:
    hints = {f"field_{index}": kind.hint for index, kind in enumerate(kinds)}
    values = {f"field_{index}": kind.values for index, kind in enumerate(kinds)}
    made: Any
    if flavour == "dataclass":
        made = dataclasses.make_dataclass("Made", hints.items())
    elif flavour == "typed":
        made = TypedDict("Made", hints)  # type: ignore[operator]
    elif flavour == "named":
        made = NamedTuple("Made", list(hints.items()))  # type: ignore[misc]
    else:
        made = type("Made", (BaseModel,), {"__annotations__": hints, "__module__": __name__})
    return Kind(
        made, st.fixed_dictionaries(values).map(lambda given: made(**given)), "object", hashable=False
    )


def of_different_json(kinds: list[Kind]) -> bool:
    names = [kind.json for kind in kinds]
    numbers = sum(name in ("integer", "number") for name in names)
    return len(set(names)) == len(names) and "mixed" not in names and numbers < 2


def extend(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    several = st.lists(inner, min_size=1, max_size=3)
    flavours = st.sampled_from(["dataclass", "typed", "named", "model"])
    return st.one_of(
        inner.map(list_of),
        inner.map(deque_of),
        inner.filter(lambda kind: kind.hashable).map(set_of),
        several.map(row_of),
        st.builds(table_of, st.sampled_from(KEYS), inner),
        inner.map(optional),
        st.lists(inner, min_size=2, max_size=3).filter(of_different_json).map(union_of),
        st.builds(record_of, several, flavours),
    )


KINDS = st.recursive(st.sampled_from(LEAVES), extend, max_leaves=5)


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    kind = draw(KINDS)
    return kind.hint, draw(kind.values)


@st.composite
def functions(draw: st.DrawFn) -> Any:
    """A function of up to four parameters, some with defaults, as a programmer would write it."""
    kinds = draw(st.lists(KINDS, max_size=4))
    names = draw(st.lists(PLAIN.map(lambda name: f"{name.lower()}_"), min_size=4, max_size=4, unique=True))
    defaults = [draw(kind.values) if draw(st.booleans()) else None for kind in kinds]
    scope: dict[str, Any] = {"given": defaults}
    written = [
        f"{name}=given[{index}]" if defaults[index] is not None else name
        for index, (name, _) in enumerate(zip(names, kinds, strict=False))
    ]
    documented = "\n".join(f"        {name}: About {name}." for name, _ in zip(names, kinds, strict=False))
    words = f'    """Do something.\n\n    Args:\n{documented}\n    """' if kinds else "    ..."
    exec(f"def made(*, {', '.join(written)}):\n{words}" if kinds else f"def made():\n{words}", scope)
    function = scope["made"]
    function.__annotations__ = {name: kind.hint for name, kind in zip(names, kinds, strict=False)}
    return function


def has_title(node: Any, *, is_names: bool = False) -> bool:
    if isinstance(node, dict):
        return any(
            (key == "title" and not is_names)
            or has_title(value, is_names=key in ("properties", "$defs") and not is_names)
            for key, value in node.items()
        )
    return isinstance(node, list) and any(has_title(item) for item in node)


@given(functions())
def test_every_signature_becomes_a_schema_that_holds(function: Any) -> None:
    tool = Tool.from_function(function)
    definition = tool.definition
    check_schema(definition.input_schema)
    hints = function.__annotations__
    defaults = function.__kwdefaults__ or {}
    properties = definition.input_schema["properties"]
    assert list(properties) == list(hints)
    assert definition.input_schema.get("required", []) == [name for name in hints if name not in defaults]
    assert all(properties[name]["description"].startswith((f"About {name}.", "a digit")) for name in hints)
    hidden = {finding.parameter for finding in tool.findings if finding.code == "unpublished-default"}
    assert {name for name in defaults if "default" not in properties[name]} == hidden


@given(functions())
def test_a_definition_is_the_same_every_time_and_has_no_title_that_nobody_gave(function: Any) -> None:
    first, second = (Tool.from_function(function).definition for _ in range(2))
    assert first.to_wire() == second.to_wire()
    assert first.fingerprint == second.fingerprint
    assert not has_title(first.to_wire())


@given(typed_values())
def test_a_value_comes_back_as_it_went_out(pair: tuple[Any, Any]) -> None:
    hint, value = pair
    results = giving(hint).results
    sent = results.finish(value)
    plain = sent.structured_content if sent.is_structured else (sent.text if sent.content else None)
    tool = taking(hint)
    check_schema(tool.definition.input_schema)
    received = received_by(tool, x=plain)["x"]
    assert received == value
    assert type(received) is type(value)
    again = results.finish(received)
    assert again.to_json() == sent.to_json()
