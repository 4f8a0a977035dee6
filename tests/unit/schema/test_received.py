"""Arguments as tools receive them, as plain data for conditions."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv6Address
from pathlib import PurePosixPath
from re import compile as pattern
from typing import Annotated, Any, NamedTuple
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    AliasChoices,
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    field_serializer,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from toolcrib import Tool
from toolcrib.schema.arguments import Converted
from toolcrib.schema.received import OPAQUE, Received, plain_value


class Level(enum.IntEnum):
    LOW = 1


class Odd(enum.Enum):
    PAIR = (1, 2)


class Bits(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Parcel:
    to: str
    secret: InitVar[str]
    tags: list[str] = field(default_factory=list)
    alias: Annotated[int, Field(alias="Alias")] = 1

    def __post_init__(self, secret: str) -> None: ...


class Masked(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = Field(alias="Name", serialization_alias="other")
    password: SecretStr = SecretStr("s3cret")
    either: int = Field(1, validation_alias=AliasChoices("One", "Two"))

    @field_serializer("name")
    def hide(self, _: str) -> str:
        return "***"


class Swapped(BaseModel):
    a: int = Field(alias="b")
    b: int = Field(alias="a")


class Named(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)

    a: int = Field(1, alias="b")


class Broken:
    @property
    def get_secret_value(self) -> str:
        raise RuntimeError("no")


@pydantic_dataclass
class Checked:
    size: Annotated[int, Field(alias="Size")]


class Numbers(RootModel[list[int]]):
    pass


class Lazy(BaseModel):
    items: Iterable[int]


class Loud(str):
    def __str__(self) -> str:
        return "something else"


Address: TypeAdapter[AnyUrl] = TypeAdapter(AnyUrl)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (5, 5),
        (1.5, 1.5),
        (float("nan"), OPAQUE),
        (float("inf"), OPAQUE),
        ("a", "a"),
        (Loud("a"), "a"),
        (Decimal("100.0"), 100),
        (Decimal("1e3"), 1000),
        (Decimal("0.1"), 0.1),
        (Decimal("100.00000000000000001"), OPAQUE),
        (Decimal("1e400"), 10**400),
        (Decimal("1e401"), OPAQUE),
        (Decimal("1e-401"), OPAQUE),
        (Decimal("NaN"), OPAQUE),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))), "2026-01-01T00:00:00+02:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(10), "10:00:00"),
        (timedelta(hours=24), "P1D"),
        (UUID(int=10), "00000000-0000-0000-0000-00000000000a"),
        (PurePosixPath("/a//b"), "/a/b"),
        (Fraction(2, 4), "1/2"),
        (ZoneInfo("UTC"), "UTC"),
        (IPv6Address("0:0::1"), "::1"),
        (Address.validate_python("HTTP://A/x"), "http://a/x"),
        (1 + 2j, "(1+2j)"),
        (pattern("a+"), "a+"),
        (Level.LOW, 1),
        (Odd.PAIR, "PAIR"),
        (Bits.READ | Bits.WRITE, 3),
        (SecretStr("a"), "a"),
        ((1, "a"), [1, "a"]),
        (frozenset({1}), [1]),
        (deque([1, [2]]), [1, [2]]),
        (OrderedDict({"a": date(2026, 1, 2)}), {"a": "2026-01-02"}),
        ({1: "a", 1.5: "b"}, {"1": "a", "1.5": "b"}),
        ({UUID(int=0): 1, False: 2, Level.LOW: 3}, {str(UUID(int=0)): 1, "false": 2, "1": 3}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Parcel("a", "b"), {"to": "a", "tags": [], "Alias": 1}),
        (Numbers([1]), [1]),
        (Checked(Size=1), {"size": 1, "Size": 1}),  # type: ignore[call-arg]
        (Swapped(b=1, a=2), {"b": 1, "a": 2}),
        (Named(a=2), {"a": 2}),
        (
            Masked(Name="a", more=PurePosixPath("b")),  # type: ignore[call-arg]
            {"more": "b", "name": "a", "Name": "a", "password": "s3cret", "either": 1, "One": 1, "Two": 1},
        ),
        (Lazy(items=iter([1])), {"items": OPAQUE}),
        (object(), OPAQUE),
        (Broken(), OPAQUE),
        ([1, object()], [1, OPAQUE]),
        (int, OPAQUE),
        (b"a", OPAQUE),
    ],
)
def test_a_value_is_what_the_tool_sees_of_it(value: Any, expected: Any) -> None:
    found = plain_value(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "sent", "expected"),
    [
        (b"root", "root", "root"),
        (b"root", "cm9vdA==", "cm9vdA=="),
        (bytearray(b"root"), "cm9vdA==", "cm9vdA=="),
        (b"root", " root", OPAQUE),
        (b"root", ["root"], OPAQUE),
        (SecretBytes(b"root"), "root", "root"),
        ([b"a", b"b"], ["a", "c"], ["a", OPAQUE]),
        ([b"a"], ["a", "b"], [OPAQUE]),
        ({"x": b"a"}, {"x": "a"}, {"x": "a"}),
        ({"x": b"a"}, "a", {"x": OPAQUE}),
    ],
)
def test_bytes_are_the_text_they_came_as(value: Any, sent: Any, expected: Any) -> None:
    assert plain_value(value, sent) == expected


def test_an_iterator_is_read_and_not_consumed() -> None:
    items = iter([1, 2])
    assert plain_value(items) == [1, 2]
    assert list(items) == [1, 2]


def test_a_value_that_contains_itself_is_opaque() -> None:
    loop: list[Any] = []
    loop.append(loop)
    found = plain_value(loop)
    while isinstance(found, list):
        found = found[0]
    assert found is OPAQUE


def test_a_value_becomes_plain_once_when_it_is_first_used() -> None:
    asked: list[str] = []

    class Asking(SecretStr):
        def get_secret_value(self) -> str:
            asked.append("x")
            return "secret"

    received = Received({"a": Asking("a"), "b": 1}, {"a": "a"})
    assert (list(received), len(received), asked) == (["a", "b"], 2, [])
    assert (received["a"], received.get("a"), received.get("c", 5), asked) == ("secret", "secret", 5, ["x"])


@pytest.mark.parametrize(
    ("values", "sent", "expected"),
    [
        ({"a": "root", "b": 5}, {"a": " root"}, {"a": "root"}),
        ({}, {"a": "x"}, {"a": "x"}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": "1", "z": 3}}, {"a": {"x": 1, "y": 2}}),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": "1"}]}, {"a": [{"x": 1, "y": 2}]}),
        ({"a": [1, 2]}, {"a": "1,2"}, {"a": [1, 2]}),
        ({"a": {"x": 1}}, {"a": "x=1"}, {"a": {"x": 1}}),
        ({"a": object()}, {"a": "x"}, {"a": {"received": "(cannot be shown)", "sent": "x"}}),
        (
            {"a": {"x": [object(), 1]}},
            {"a": {"x": [0, 1]}},
            {"a": {"received": {"x": ["(cannot be shown)", 1]}, "sent": {"x": [0, 1]}}},
        ),
    ],
)
def test_the_whole_received_value_is_shown(
    values: dict[str, Any], sent: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert Received(values, sent).shown() == expected


class Ticket(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    owner: str = Field(alias="Owner")
    id: UUID = Field(default_factory=uuid4)
    tags: list[str] = Field(default_factory=lambda: ["new"])


@pytest.mark.parametrize("name", ["owner", "Owner"])
def test_a_field_is_shown_once_and_not_if_a_factory_made_it(name: str) -> None:
    sent = {name: "ana"}
    shown = Received({"a": Ticket(**sent)}, {"a": sent}).shown()
    assert shown == {"a": {name: "ana", "tags": ["new"]}}


def test_a_field_that_was_set_is_shown_although_it_has_a_factory() -> None:
    ticket = Ticket(Owner="ana")
    ticket.id = UUID(int=1)
    shown = Received({"a": ticket}, {"a": {"Owner": "ana"}}).shown()
    assert shown["a"]["id"] == str(UUID(int=1))


def test_keys_that_are_the_same_in_json_make_a_table_opaque() -> None:
    assert plain_value({1: "a", "1": "b"}) is OPAQUE


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1.5, 2.0], [1.5, 2.0]),
        ((1, "a", None, True), [1, "a", None, True]),
        ([1.5, float("inf")], [1.5, OPAQUE]),
        ([1, 1.5, Decimal("0.5")], [1, 1.5, 0.5]),
        ([Level.LOW, 1], [1, 1]),
    ],
)
def test_lists_of_scalars(value: Any, expected: list[Any]) -> None:
    found = plain_value(value)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


def test_sets_are_always_in_the_same_order() -> None:
    assert plain_value({"b", "c", "a"}) == ["a", "b", "c"]
    found = plain_value({"b", 1, (object(),)})
    assert found == ["b", 1, [OPAQUE]]


# --- the arguments of a tool -----------------------------------------------------------------------------


def made() -> int:
    return 7


def take(
    plain: int,
    renamed: Annotated[float, Field(alias="Renamed")] = 1.0,
    price: Decimal = Decimal("0.5"),
    note: str | None = None,
    size: int = Field(default_factory=made),
    place: int = Field(default=3),
) -> None: ...


def test_omitted_arguments_have_their_defaults() -> None:
    check = Tool.from_function(take).arguments
    assert check.changing == {"Renamed", "price", "note", "size"}
    assert check.runs_user_code
    arguments = {"plain": 1, "Renamed": 2}
    values = check.convert(arguments)
    assert values == {"plain": 1, "renamed": 2.0, "size": 7, "place": 3}
    assert check.bind(values) is values
    received = check.receive(arguments, values)
    expected = {"plain": 1, "Renamed": 2.0, "price": 0.5, "note": None, "size": 7, "place": 3}
    assert dict(received) == expected


def test_a_factory_does_not_make_what_was_given() -> None:
    check = Tool.from_function(take).arguments
    assert check.convert({"plain": 1, "size": 2}) == Converted(plain=1, size=2, place=3)


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}, "d": {"type": "string"}}}


def test_a_handler_beside_its_schema_gets_its_own_defaults() -> None:
    def keywords(n: int = 1000, d: date | None = None) -> str:
        return ""

    check = Tool.from_handler(keywords, "keywords", "Keywords.", SCHEMA).arguments
    assert check.changing == {"n", "d"}
    assert not check.runs_user_code
    assert dict(check.receive({}, check.convert({}))) == {"n": 1000, "d": None}
    arguments = {"d": "2026-01-02", "more": 1}
    assert dict(check.receive(arguments, check.convert(arguments))) == {
        "n": 1000,
        "d": "2026-01-02",
        "more": 1,
    }


def test_a_handler_that_takes_arguments_as_they_came_has_one_form() -> None:
    def whole(arguments: dict[str, Any]) -> str:
        return ""

    assert not Tool.from_handler(whole, "whole", "Whole.", SCHEMA).arguments.changing

    def plain(n: int, text: str = "a", flag: bool = True, names: list[str] | None = None) -> None: ...

    assert Tool.from_function(plain).arguments.changing == {"names"}  # None where it is left out
