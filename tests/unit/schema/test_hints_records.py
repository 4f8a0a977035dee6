"""Classes with fields, as parameters and as results."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import uuid
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, NotRequired, Required, TypedDict, TypeVar

import attrs
import pytest
import typing_extensions
from pydantic import Field

from tests.support.definitions.hints import emit, output_of, receive, schema_of
from toolcrib import DefinitionError, InvalidArgumentsError

T = TypeVar("T")
K = TypeVar("K")
DAY = dt.date(2026, 1, 31)


@dataclasses.dataclass
class Point:
    """A place on the map.

    Attributes:
        x: how far east
        y: how far north
    """

    x: int
    y: int = 0


@dataclasses.dataclass
class Flagged(Point):
    flag: str = dataclasses.field(default="", metadata={"description": "its flag"})


@dataclasses.dataclass
class Trip:
    start: Point
    stops: list[Point] = dataclasses.field(default_factory=list)
    day: dt.date = DAY
    ident: uuid.UUID = dataclasses.field(default_factory=uuid.uuid4)
    names: tuple[str, ...] = dataclasses.field(default_factory=lambda: ("a",))
    note: Annotated[str | None, "free text"] = None
    length_km: float = dataclasses.field(default=1.5, init=False)
    kind: ClassVar[str] = "trip"
    seed: dataclasses.InitVar[int] = 3

    def __post_init__(self, seed: int) -> None:
        self.seeded = seed


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box(Generic[T]):
    item: T
    others: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Pair(Box[K], Generic[K, T]):
    second: T | None = None


@dataclasses.dataclass
class Dates(Box[dt.date]):
    pass


@dataclasses.dataclass
class Lost:
    where: Nowhere  # noqa: F821


@dataclasses.dataclass
class Checked:
    share: float

    def __post_init__(self) -> None:
        if self.share > 1:
            raise ValueError("a share is at most 1")


class Movie(TypedDict):
    """A film.

    Attributes:
        title: as on the poster
    """

    title: str
    year: NotRequired[int]
    seen: Annotated[NotRequired[bool], "by me"]


class Patch(TypedDict, total=False):
    ident: Required[int]
    day: dt.date


class Newer(typing_extensions.TypedDict, total=False):
    ident: typing_extensions.Required[typing_extensions.ReadOnly[int]]
    day: typing_extensions.NotRequired[Annotated[dt.date, "when"]]


class Shut(typing_extensions.TypedDict, closed=True):
    a: int


class Crate(TypedDict, Generic[T]):
    item: T


class Size(NamedTuple):
    """How large.

    Args:
        width: in pixels
    """

    width: int
    day: dt.date = DAY


Bare = collections.namedtuple("Bare", "a b", defaults=[2])


@attrs.define
class Account:
    """An account.

    Attributes:
        owner: who pays
    """

    owner: str
    tags: list[str] = attrs.field(factory=list, metadata={"description": "labels"})
    limit: int = attrs.field(default=5, alias="max")
    _secret: int = 3
    code: int = attrs.field(converter=int, default="7")
    copy: str = attrs.field(default=attrs.Factory(lambda self: self.owner, takes_self=True))
    made: uuid.UUID = attrs.field(factory=uuid.uuid4)
    serial: int = attrs.field(init=False, default=9)


POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer", "description": "how far east"},
        "y": {"type": "integer", "description": "how far north", "default": 0},
    },
    "required": ["x"],
    "description": "A place on the map",
}


class TestDataclass:
    def test_is_an_object_whose_fields_are_described(self) -> None:
        assert schema_of(Point) == POINT

    def test_inherits_the_words_about_its_fields(self) -> None:
        assert schema_of(Flagged)["properties"] == {
            **POINT["properties"],
            "flag": {"type": "string", "description": "its flag", "default": ""},
        }
        assert "description" not in schema_of(Flagged)

    def test_publishes_what_the_constructor_takes(self) -> None:
        assert schema_of(Trip)["properties"] == {
            "start": {"$ref": "#/$defs/Point"},
            "stops": {"type": "array", "items": {"$ref": "#/$defs/Point"}, "default": []},
            "day": {"type": "string", "format": "date", "default": "2026-01-31"},
            "ident": {"type": "string", "format": "uuid"},
            "names": {"type": "array", "items": {"type": "string"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "free text"},
            "seed": {"type": "integer", "default": 3},
        }
        assert schema_of(Trip)["$defs"] == {"Point": POINT}

    def test_as_a_result_publishes_what_the_object_keeps(self) -> None:
        properties = output_of(Trip)["properties"]
        assert list(properties) == ["start", "stops", "day", "ident", "names", "note", "length_km"]
        assert not any("default" in schema for schema in properties.values())

    def test_is_made_with_everything_inside_it(self) -> None:
        trip = receive(Trip, {"start": {"x": 1}, "stops": [{"x": 2, "y": 3}], "seed": 8})
        assert (trip.start, trip.stops, trip.day, trip.seeded) == (Point(1), [Point(2, 3)], DAY, 8)

    def test_that_refers_to_itself_is_made_and_sent(self) -> None:
        schema = schema_of(Node)
        assert schema["$ref"] == "#/$defs/Node"
        assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
        tree = {"value": 1, "children": [{"value": 2, "children": []}]}
        assert receive(Node, tree) == Node(1, [Node(2)])
        assert emit(Node, Node(1, [Node(2)])) == tree

    def test_that_refuses_says_where(self) -> None:
        with pytest.raises(InvalidArgumentsError, match=r"'x\[1\]': a share is at most 1"):
            receive(list[Checked], [{"share": 1}, {"share": 2}])

    def test_with_an_unresolvable_hint_is_refused(self) -> None:
        with pytest.raises(DefinitionError, match=r"Parameter 'x'.*class 'Lost'.*'Nowhere'") as caught:
            schema_of(Lost)
        assert "import it there at run time" in (caught.value.hint or "")

    def test_a_parameters_words_stand_before_those_of_the_class(self) -> None:
        schema = schema_of(Annotated[Point, "where to begin"])
        assert schema["description"] == "where to begin\n\nA place on the map"


class TestGenericDataclass:
    def test_has_its_arguments_filled_in_everywhere(self) -> None:
        assert schema_of(Box[dt.date])["properties"] == {
            "item": {"type": "string", "format": "date"},
            "others": {"type": "array", "items": {"type": "string", "format": "date"}, "default": []},
        }
        assert receive(Box[dt.date], {"item": "2026-01-31", "others": ["2026-01-31"]}) == Box(DAY, [DAY])

    def test_means_what_its_subclass_says(self) -> None:
        assert receive(Dates, {"item": "2026-01-31"}) == Dates(DAY)

    def test_keeps_variables_of_different_classes_apart(self) -> None:
        assert schema_of(Pair[int, str])["properties"] == {
            "item": {"type": "integer"},
            "others": {"type": "array", "items": {"type": "integer"}, "default": []},
            "second": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        }

    def test_without_arguments_takes_anything(self) -> None:
        assert schema_of(Box)["properties"]["item"] == {}


class TestTypedDict:
    def test_requires_what_it_requires_even_in_a_module_of_string_annotations(self) -> None:
        assert schema_of(Movie) == {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "as on the poster"},
                "year": {"type": "integer"},
                "seen": {"type": "boolean", "description": "by me"},
            },
            "required": ["title"],
            "description": "A film",
        }
        assert schema_of(Patch)["required"] == ["ident"]

    def test_of_typing_extensions_is_read_alike(self) -> None:
        assert schema_of(Newer) == {
            "type": "object",
            "properties": {
                "ident": {"type": "integer"},
                "day": {"type": "string", "format": "date", "description": "when"},
            },
            "required": ["ident"],
        }

    def test_that_is_closed_refuses_other_keys(self) -> None:
        assert schema_of(Shut)["additionalProperties"] is False

    def test_may_be_generic(self) -> None:
        assert schema_of(Crate[int])["properties"] == {"item": {"type": "integer"}}

    def test_is_received_as_a_dict_of_converted_values(self) -> None:
        assert receive(Patch, {"ident": 1, "day": "2026-01-31"}) == {"ident": 1, "day": DAY}
        assert receive(Patch, {"ident": 1}) == {"ident": 1}

    def test_lets_only_its_own_keys_out(self) -> None:
        assert emit(Patch, {"ident": 1, "day": DAY, "password": "x"}) == {"ident": 1, "day": "2026-01-31"}


class TestNamedTuple:
    def test_goes_by_its_names(self) -> None:
        assert schema_of(Size) == {
            "type": "object",
            "properties": {
                "width": {"type": "integer", "description": "in pixels"},
                "day": {"type": "string", "format": "date", "default": "2026-01-31"},
            },
            "required": ["width"],
            "description": "How large",
        }
        assert receive(Size, {"width": 3}) == Size(3)
        assert emit(Size, Size(3)) == {"width": 3, "day": "2026-01-31"}

    def test_without_hints_takes_anything(self) -> None:
        assert schema_of(Bare)["properties"] == {"a": {}, "b": {"default": 2}}
        assert receive(Bare, {"a": [1]}) == Bare([1], 2)


class TestAttrs:
    def test_goes_by_the_names_its_constructor_knows(self) -> None:
        assert schema_of(Account) == {
            "type": "object",
            "properties": {
                "owner": {"type": "string", "description": "who pays"},
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "labels",
                    "default": [],
                },
                "max": {"type": "integer", "default": 5},
                "secret": {"type": "integer", "default": 3},
                "code": {"type": "integer"},
                "copy": {"type": "string"},
                "made": {"type": "string", "format": "uuid"},
            },
            "required": ["owner"],
            "description": "An account",
        }

    def test_is_made_and_sent_under_those_names(self) -> None:
        made = receive(Account, {"owner": "me", "max": 1, "secret": 2, "code": 4})
        assert (made.limit, made._secret, made.code, made.copy) == (1, 2, 4, "me")
        sent = emit(Account, made)
        assert {key: sent[key] for key in ("owner", "max", "secret", "copy", "serial")} == {
            "owner": "me",
            "max": 1,
            "secret": 2,
            "copy": "me",
            "serial": 9,
        }


class TestLeaving:
    def test_fields_of_a_subclass_are_not_sent(self) -> None:
        assert emit(Point, Flagged(1, 2, "secret")) == {"x": 1, "y": 2}
        assert emit(list[Point], [Flagged(1, 2, "secret")]) == [{"x": 1, "y": 2}]
        assert emit(dict[str, Point | None], {"a": Flagged(1, 2, "s")}) == {"a": {"x": 1, "y": 2}}
        assert emit(tuple[Point, int], (Flagged(1, 2, "s"), 1)) == [{"x": 1, "y": 2}, 1]
        assert emit(Trip, Trip(Flagged(1, 2, "s")))["start"] == {"x": 1, "y": 2}

    def test_a_dict_in_the_place_of_an_object_keeps_to_the_fields(self) -> None:
        assert emit(Point, {"x": 1, "password": "x"}) == {"x": 1}

    def test_any_object_with_the_fields_will_do(self) -> None:
        @dataclasses.dataclass
        class Other:
            x: int = 1
            z: int = 2

        assert emit(Point, Other()) == {"x": 1}

    def test_nothing_is_not_an_empty_object(self) -> None:
        from toolcrib.errors import InvalidResultError

        @dataclasses.dataclass
        class Settings:
            a: int = 1

        @dataclasses.dataclass
        class Blank:
            pass

        with pytest.raises(InvalidResultError, match="expected object"):
            emit(Settings, None)
        assert emit(Blank, Blank()) == {}

    def test_a_renamed_field_leaves_under_its_alias(self) -> None:
        @dataclasses.dataclass
        class Renamed:
            from_: Annotated[str, Field(alias="from")]

        Renamed.__annotations__ = {"from_": Annotated[str, Field(alias="from")]}
        assert receive(Renamed, {"from": "a"}) == Renamed("a")
        assert emit(Renamed, Renamed("a")) == {"from": "a"}
        assert emit(Renamed, {"from_": "a"}) == {"from": "a"}

    def test_a_result_that_cannot_be_read_as_declared_is_refused(self) -> None:
        from toolcrib.errors import InvalidResultError

        for hint, value in ((Point, 5), (list[Point], 5), (dict[str, Point], 5), (tuple[Point, int], [1])):
            with pytest.raises(InvalidResultError):
                emit(hint, value)


def test_a_default_that_json_cannot_say_is_left_out() -> None:
    @dataclasses.dataclass
    class Strange:
        a: Any = dataclasses.field(default_factory=object)
        b: Any = object()  # noqa: RUF009
        c: float = float("inf")

    Strange.__annotations__ = {"a": Any, "b": Any, "c": float}
    assert schema_of(Strange) == {
        "type": "object",
        "properties": {"a": {}, "b": {}, "c": {"type": "number"}},
    }
