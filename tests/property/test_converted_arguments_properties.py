"""No value reaches a tool that its rule refuses, whatever validators make of what was sent.

The oracle is what the function received, read and compared by code of its own: each kind of argument says how
to read it, and `compare` is a second reading of the operators.
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import UUID

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from toolcrib import MCPServer
from toolcrib.errors import DeniedError, InvalidArgumentsError, NotConfirmedError, ToolNotFoundError
from toolcrib.policy import Policy, Rule

# --- arguments that are not what they look like --------------------------------------------------------

Folded = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
Normal = Annotated[str, AfterValidator(os.path.normpath)]
Clamped = Annotated[int, AfterValidator(lambda number: min(max(number, 10), 100))]
Rounded = Annotated[float, AfterValidator(lambda number: float(round(number)))]
Cents = Annotated[Decimal, AfterValidator(lambda price: price.quantize(Decimal("0.1"), ROUND_HALF_UP))]
Spelt = Annotated[str, AfterValidator(lambda text: int(float(text)) if text[:1].isdigit() else 0)]
Flag = Annotated[bool, AfterValidator(lambda flag: not flag)]
Moment = Annotated[datetime, AfterValidator(lambda at: at.astimezone(UTC))]
Monday = Annotated[date, AfterValidator(lambda day: day - timedelta(days=day.weekday()))]
Secret = Annotated[SecretStr, BeforeValidator(lambda text: text.strip().lower())]


class Shout(str):
    def __new__(cls, text: str) -> Shout:
        return super().__new__(cls, text.upper())


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Stripping(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    name: str = Field("nobody", alias="Name")
    limit: int = 10

    @field_validator("limit")
    @classmethod
    def clamp(cls, value: int) -> int:
        return min(max(value, 10), 100)


class Moving(BaseModel):
    """Read by pydantic itself, and by two names."""

    model_config = ConfigDict(populate_by_name=True, extra="allow")

    name: str = Field("nobody", alias="Name")

    @model_validator(mode="before")
    @classmethod
    def move(cls, value: Any) -> Any:
        return {**value, "Name": value["old"]} if "old" in value else value

    @field_validator("name")
    @classmethod
    def fold(cls, value: str) -> str:
        return value.strip().lower()


class Text(RootModel[Folded]):
    pass


@dataclass
class Parcel:
    name: str = "nobody"

    def __post_init__(self) -> None:
        self.name = self.name.strip().lower()


class Row(TypedDict, total=False):
    name: Folded
    limit: Clamped


class Pair(NamedTuple):
    name: Folded = "nobody"
    limit: Clamped = 10


class Kind(NamedTuple):
    """A type of the argument `value`, what is sent for it, where conditions look, how to read it there."""

    hint: Any
    sent: st.SearchStrategy[Any]
    path: str
    read: Callable[[Any], list[Any]]


words = st.sampled_from(["root", " root", "ROOT", "Root ", "ana", "ANA", "nobody", ""]) | st.text(
    "roT ", max_size=5
)
numbers = st.integers(-5, 120) | st.sampled_from([9.5, 10.0, 99.6, 100.4, 2**53 + 1, "7", "1e2"])
texts = st.sampled_from(["1e2", "100", "100.0", " 100", "0100", "99.9", "x"])
paths = st.sampled_from(["/srv/a", "/srv/../etc", "/etc", "/srv//a", "/srv/./a", "etc", "../etc", "/srv/a/"])
urls = st.sampled_from(
    [
        "http://internal/x",
        "HTTP://INTERNAL/x",
        "http://internal",
        "http://INTERNAL:80/x",
        "https://example.com",
    ]
)
moments = st.sampled_from(
    [
        "2026-12-31T23:00:00-05:00",
        "2027-01-01T04:00:00Z",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:00:00.0Z",
    ]
)
days = st.sampled_from(["2026-01-01", "2025-12-29", "2026-01-05", "2026-01-06"])
ids = st.sampled_from(["550e8400-e29b-41d4-a716-446655440000", "550E8400-E29B-41D4-A716-446655440000"])


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


KINDS = {
    "folded": Kind(Folded, words, "value", lambda value: [value]),
    "normal": Kind(Normal, paths, "value", lambda value: [value]),
    "shout": Kind(Shout, words, "value", lambda value: ["".join(value)]),
    "secret": Kind(Secret, words, "value", lambda value: [value.get_secret_value()]),
    "path": Kind(PurePosixPath, paths, "value", lambda value: [str(value)]),
    "url": Kind(AnyHttpUrl, urls, "value", lambda value: [str(value)]),
    "uuid": Kind(UUID, ids, "value", lambda value: [str(value)]),
    "color": Kind(Color, st.sampled_from(["red", "blue"]), "value", lambda value: [value.value]),
    "plain": Kind(int, numbers, "value", lambda value: [value]),
    "float": Kind(float, numbers, "value", lambda value: [value]),
    "clamped": Kind(Clamped, numbers, "value", lambda value: [value]),
    "rounded": Kind(Rounded, numbers, "value", lambda value: [value]),
    "cents": Kind(
        Cents, st.sampled_from([0.04, 0.05, 9.96, 10, 100.04]), "value", lambda value: [float(value)]
    ),
    "spelt": Kind(Spelt, texts, "value", lambda value: [value]),
    "flag": Kind(Flag, st.booleans() | st.sampled_from(["true", "false"]), "value", lambda value: [value]),
    "moment": Kind(Moment, moments, "value", lambda value: [iso(value)]),
    "monday": Kind(Monday, days, "value", lambda value: [value.isoformat()]),
    "list": Kind(list[Folded], st.lists(words, max_size=3), "value", lambda value: list(value)),
    "set": Kind(set[Folded], st.lists(words, max_size=3, unique=True), "value", lambda value: list(value)),
    "root": Kind(Text, words, "value", lambda value: [value.root]),
    "stripping": Kind(
        Stripping, objects(Name=words, limit=numbers), "value.Name", lambda value: [value.name]
    ),
    "limit": Kind(Stripping, objects(Name=words, limit=numbers), "value.limit", lambda value: [value.limit]),
    "moving": Kind(
        Moving, objects(Name=words, name=words, old=words), "value.Name", lambda value: [value.name]
    ),
    "parcel": Kind(Parcel, objects(name=words), "value.name", lambda value: [value.name]),
    "parcels": Kind(
        list[Parcel],
        st.lists(objects(name=words), max_size=3),
        "value.name",
        lambda value: [item.name for item in value],
    ),
    "row": Kind(
        Row,
        objects(name=words, limit=numbers),
        "value.name",
        lambda value: [value["name"]] if "name" in value else [],
    ),
    "pair": Kind(Pair, objects(name=words, limit=numbers), "value.limit", lambda value: [value.limit]),
    "table": Kind(
        dict[str, Folded], objects(a=words), "value.a", lambda value: [value["a"]] if "a" in value else []
    ),
}
DEFAULTS = {"folded": "Nobody", "cents": Decimal("100.04"), "moment": datetime(2027, 1, 1, tzinfo=UTC)}

# --- rules, and a second reading of them ---------------------------------------------------------------

constants = {
    "text": st.sampled_from(
        ["root", "ROOT", "ana", "nobody", "/etc", "/srv/a", "/srv", "http://internal/", "2026"]
    )
    | ids
    | moments
    | days
    | urls,
    "number": st.sampled_from([0, 5, 10, 11, 99.6, 100, 101, 2**53, 2**53 + 1, 0.1]),
}
operators = st.one_of(
    st.builds(
        lambda name, text: {name: text}, st.sampled_from(["equals", "prefix", "suffix"]), constants["text"]
    ),
    st.builds(lambda text: {"one_of": text}, st.lists(constants["text"] | constants["number"], min_size=1)),
    st.builds(lambda most: {"max_length": most}, st.integers(0, 6)),
    st.builds(lambda flag: {"equals": flag}, st.booleans()),
    st.builds(
        lambda name, number: {name: number},
        st.sampled_from(["equals", "above", "at_least", "below", "at_most"]),
        constants["number"],
    ),
)
demands = operators | st.builds(lambda inner: {"not": inner}, operators)


def compare(value: Any, demand: dict[str, Any]) -> bool | None:
    """Whether a value meets a demand; None where the two cannot be compared."""
    ((operator, constant),) = demand.items()
    match operator:
        case "not":
            found = compare(value, constant)
            return None if found is None else not found
        case "equals" | "one_of":
            known = constant if operator == "one_of" else [constant]
            return any((type(value) is bool) is (type(item) is bool) and value == item for item in known)
        case "prefix" | "suffix" | "max_length":
            if not isinstance(value, str):
                return None
            if operator == "max_length":
                return len(value) <= constant
            return (
                value[: len(constant)] == constant
                if operator == "prefix"
                else value[::-1].startswith(constant[::-1])
            )
    if isinstance(value, str | bool):
        return None
    return {
        "above": value > constant,
        "at_least": value >= constant,
        "below": value < constant,
        "at_most": value <= constant,
    }[operator]


class Shop:
    """One server with a tool for every kind, each of which writes down what it got."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.got: list[Any] = []
        self.server = MCPServer("shop")
        for name, kind in KINDS.items():
            self._add(name, kind, ...)
        for name, default in DEFAULTS.items():
            self._add(f"{name}_left", KINDS[name], default)
            self._add(f"{name}_made", KINDS[name], Field(default_factory=lambda value=default: value))

    def _add(self, name: str, kind: Kind, default: Any) -> None:
        def run(value: Any) -> str:
            self.got.append(value)
            return "ran"

        async def run_async(value: Any) -> str:
            return run(value)

        chosen = run_async if len(name) % 2 else run
        chosen.__annotations__["value"] = kind.hint
        if default is not ...:
            chosen.__defaults__ = (default,)
        self.server.add(chosen, name=name, run="auto" if chosen is run_async else "inline")

    def call(self, name: str, arguments: dict[str, Any], rule: Rule) -> tuple[list[Any], Any]:
        """What the tool got, and the error of the call."""
        self.got.clear()
        self.server.enforce(Policy(rules=[rule]))
        call = self.server.call(name, arguments)
        result = self.loop.run_until_complete(call)
        return list(self.got), result.error


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    made = Shop()
    yield made
    made.loop.run_until_complete(made.server.stop())
    made.loop.close()


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Kind, dict[str, Any]]:
    name = draw(
        st.sampled_from([*KINDS, *(f"{base}_{way}" for base in DEFAULTS for way in ("left", "made"))])
    )
    kind = KINDS[name.removesuffix("_left").removesuffix("_made")]
    left_out = name not in KINDS and draw(st.booleans())
    return name, kind, {} if left_out else {"value": draw(kind.sent)}


@settings(max_examples=max(300, settings().max_examples))
@given(calls(), demands, st.sampled_from(["allow", "deny", "confirm"]))
def test_no_value_reaches_a_tool_that_its_rule_refuses(
    shop: Shop, call: tuple[str, Kind, dict[str, Any]], demand: dict[str, Any], effect: str
) -> None:
    name, kind, arguments = call
    rule = Rule(**{effect: [name]}, when={kind.path: demand})
    try:
        got, error = shop.call(name, arguments, rule)
    except ToolNotFoundError:  # nothing that is sent can pass
        event(f"{effect}: hidden")
        return
    if not got:
        refused = NotConfirmedError if effect == "confirm" else DeniedError
        assert isinstance(error, refused | InvalidArgumentsError)
        event(f"{effect}: {type(error).__name__}")
        return
    assert error is None
    [value] = got
    judged = {compare(item, demand) for item in kind.read(value)}
    event(f"{effect}: ran")
    assert judged == {True} if effect == "allow" else judged <= {False}, (value, judged)


@given(words, st.sampled_from(["root", "ana", "nobody"]), st.sampled_from(["allow", "deny", "confirm"]))
def test_anything_that_both_forms_pass_runs(shop: Shop, sent: str, constant: str, effect: str) -> None:
    """The other way round, so that refusing everything would not do."""
    forms = {sent, sent.strip().lower()}
    passes = forms == {constant} if effect == "allow" else constant not in forms
    got, _ = shop.call("folded", {"value": sent}, Rule(**{effect: ["folded"]}, when={"value": constant}))
    assert bool(got) is passes
