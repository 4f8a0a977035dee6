"""Type hints: the published schema, and the values that functions receive."""

from __future__ import annotations

import collections
import collections.abc as abc
import datetime as dt
import decimal
import fractions
import ipaddress
import os
import pathlib
import re
import typing
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypeVar

import pytest
import typing_extensions
from pydantic import AwareDatetime, BaseModel, Field, field_validator

from tests.support.definitions.hints import emit, receive, schema_of
from toolcrib import DefinitionError, InvalidArgumentsError

UTC = dt.UTC
UserId = NewType("UserId", int)
Free = TypeVar("Free")
Bound = TypeVar("Bound", bound=int)
Chosen = TypeVar("Chosen", int, str)


class Odd:
    """A class without a known schema."""


class Text(str):
    __slots__ = ()


class Count(int):
    pass


class Ratio(float):
    pass


class Parcel(NamedTuple):
    content: bytes


class Dated(BaseModel):
    when: dt.datetime


class DatedByPydantic(BaseModel):
    when: dt.datetime

    @field_validator("when", mode="before")
    @classmethod
    def strip(cls, value: str) -> str:
        return value.strip()


class TestPlainTypes:
    @pytest.mark.requirement("U-11")
    @pytest.mark.parametrize(
        ("hint", "schema"),
        [
            (str, {"type": "string"}),
            (typing.LiteralString, {"type": "string"}),
            (int, {"type": "integer"}),
            (float, {"type": "number"}),
            (bool, {"type": "boolean"}),
            (list, {"type": "array"}),
            (dict, {"type": "object"}),
            (None, {"type": "null"}),
            (Any, {}),
            (object, {}),
            (decimal.Decimal, {"type": "number"}),
            (complex, {"type": "string"}),
            (fractions.Fraction, {"type": "string"}),
            (bytes, {"type": "string", "contentEncoding": "base64"}),
            (bytearray, {"type": "string", "contentEncoding": "base64"}),
            (dt.datetime, {"type": "string", "format": "date-time"}),
            (dt.date, {"type": "string", "format": "date"}),
            (uuid.UUID, {"type": "string", "format": "uuid"}),
            (pathlib.Path, {"type": "string"}),
            (pathlib.PurePath, {"type": "string"}),
            (pathlib.PurePosixPath, {"type": "string"}),
            (os.PathLike[str], {"type": "string"}),
            (re.Pattern, {"type": "string", "format": "regex"}),
            (re.Pattern[str], {"type": "string", "format": "regex"}),
            (ipaddress.IPv4Address, {"type": "string", "format": "ipv4"}),
            (ipaddress.IPv6Address, {"type": "string", "format": "ipv6"}),
            (ipaddress.IPv4Network, {"type": "string"}),
            (UserId, {"type": "integer"}),
            (Free, {}),
            (Bound, {"type": "integer"}),
            (Chosen, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            (Text, {"type": "string"}),
            (Count, {"type": "integer"}),
            (Ratio, {"type": "number"}),
            (typing.Final[int], {"type": "integer"}),
            (typing_extensions.ReadOnly[int], {"type": "integer"}),
        ],
    )
    def test_is_published_as(self, hint: Any, schema: dict[str, Any]) -> None:
        assert schema_of(hint) == schema

    @pytest.mark.parametrize(
        ("hint", "sent", "made"),
        [
            (str, "5", "5"),
            (int, 5.0, 5),
            (float, 5, 5.0),
            (bool, True, True),
            (decimal.Decimal, 1.1, decimal.Decimal("1.1")),
            (complex, "1+2j", 1 + 2j),
            (fractions.Fraction, "1/3", fractions.Fraction(1, 3)),
            (bytes, "aGmA", b"hi\x80"),
            (bytearray, "aGk=", bytearray(b"hi")),
            (dt.datetime, "2026-01-31T09:30:00Z", dt.datetime(2026, 1, 31, 9, 30, tzinfo=UTC)),
            (dt.date, "2026-01-31", dt.date(2026, 1, 31)),
            (dt.time, "09:30", dt.time(9, 30)),
            (dt.time, "09:30:15.5+00:00", dt.time(9, 30, 15, 500_000, tzinfo=UTC)),
            (dt.timedelta, "P1DT2H3M4.5S", dt.timedelta(1, 4.5, hours=2, minutes=3)),
            (dt.timedelta, "-PT1M", dt.timedelta(minutes=-1)),
            (dt.timedelta, "P2W", dt.timedelta(weeks=2)),
            (uuid.UUID, "12345678123456781234567812345678", None),
            (uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
            (pathlib.Path, "a/b", pathlib.Path("a/b")),
            (pathlib.PurePosixPath, "a/b", pathlib.PurePosixPath("a/b")),
            (re.Pattern, "^a", re.compile("^a")),
            (ipaddress.IPv4Address, "127.0.0.1", ipaddress.IPv4Address("127.0.0.1")),
            (ipaddress.IPv6Network, "::/64", ipaddress.IPv6Network("::/64")),
            (UserId, 3, 3),
            (Text, "a", Text("a")),
            (Count, 2, Count(2)),
            (Ratio, 0.5, Ratio(0.5)),
        ],
    )
    def test_is_received_as(self, hint: Any, sent: Any, made: Any) -> None:
        if made is None:
            with pytest.raises(InvalidArgumentsError):
                receive(hint, sent)
            return
        found = receive(hint, sent)
        assert (found, type(found)) == (made, type(made))

    @pytest.mark.parametrize("text", ["09:30:00", "09:30", "23:59:59.999999", "09:30:00Z", "09:30:00+02:00"])
    def test_a_time_needs_no_offset(self, text: str) -> None:
        assert receive(dt.time, text) == dt.time.fromisoformat(text)

    @pytest.mark.parametrize(
        "text",
        [
            "2026-01-31T09:30:00",
            "2026-01-31 09:30",
            "2026-01-31T09:30:00.25",
            "2026-01-31T09:30:00+02:00",
            "2026-01-31t09:30:00z",
        ],
    )
    @pytest.mark.parametrize("hint", [dt.datetime, Dated, DatedByPydantic])
    @pytest.mark.parametrize("extra", ["refuse", "ignore"])
    def test_a_datetime_needs_no_offset(self, hint: Any, text: str, extra: Any) -> None:
        when = dt.datetime.fromisoformat(text.upper())
        found = receive(hint, text if hint is dt.datetime else {"when": text}, extra=extra)
        assert (found if hint is dt.datetime else found.when) == when
        assert receive(dt.date | dt.datetime, text) == when
        assert schema_of(dt.datetime) == {"type": "string", "format": "date-time"}

    @pytest.mark.parametrize("text", ["PT", "P", "P1Y", "1D", "P1H", "PT1D", "P1W2D"])
    def test_anything_that_is_not_a_duration_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidArgumentsError, match="'x'"):
            receive(dt.timedelta, text)

    @pytest.mark.parametrize(
        ("hint", "sent", "words"),
        [
            (bytes, "not base64!", "expected base64"),
            (re.Pattern, "(?P<a", "expected a regular expression"),
            (re.Pattern, r"\p{L}", "expected a regular expression: bad escape"),
            (dt.timedelta, "P999999999999D", "expected a duration of at most 999999999 days"),
            (dt.timedelta, "P99999999999W", "expected a duration of at most 999999999 days"),
            (fractions.Fraction, "half", "half"),
            (float, 10**400, "number is too large"),
            (dt.date, "2026-02-30", "expected a date"),
            (dt.date, "tomorrow", "expected a date such as 2026-11-16, got string 'tomorrow'"),
            (dt.datetime, "2026-01-31", "expected a date-time such as 2026-11-16T10:00:00Z, got string"),
            (dt.datetime, "2026-02-30T10:00:00", "day is out of range for month, got string"),
            (dt.time, "noon", "expected a time such as 10:00:00, got string 'noon'"),
            (dt.timedelta, "a day", "expected a duration such as P1DT2H30M, got string 'a day'"),
            (AwareDatetime, "2026-01-31T09:30:00", "the offset from UTC is missing: add Z, or one such as"),
        ],
    )
    def test_invalid_values_are_refused_with_the_parameter(self, hint: Any, sent: Any, words: str) -> None:
        with pytest.raises(InvalidArgumentsError, match=f"'x'.*{words}"):
            receive(hint, sent)


class TestContainers:
    @pytest.mark.requirement("U-12", "U-13")
    @pytest.mark.parametrize(
        ("hint", "schema", "sent", "made"),
        [
            (list[str], {"type": "array", "items": {"type": "string"}}, ["a"], ["a"]),
            (typing.List[int], {"type": "array", "items": {"type": "integer"}}, [1.0], [1]),  # noqa: UP006
            (typing.List, {"type": "array"}, [1], [1]),  # noqa: UP006
            (list[Any], {"type": "array"}, [1, "a"], [1, "a"]),
            (tuple, {"type": "array"}, [1], (1,)),
            (typing.Tuple, {"type": "array"}, [1], (1,)),  # noqa: UP006
            (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2)),
            (tuple[()], {"type": "array", "maxItems": 0}, [], ()),
            (set, {"type": "array", "uniqueItems": True}, [1], {1}),
            (frozenset, {"type": "array", "uniqueItems": True}, [1], frozenset({1})),
            (
                collections.deque[int],
                {"type": "array", "items": {"type": "integer"}},
                [1],
                collections.deque([1]),
            ),
            (abc.Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
            (abc.Iterable, {"type": "array"}, [1], [1]),
            (abc.MutableSet, {"type": "array", "uniqueItems": True}, [1], {1}),
            (dict[str, Any], {"type": "object"}, {"a": 1}, {"a": 1}),
            (typing.Dict, {"type": "object"}, {"a": 1}, {"a": 1}),  # noqa: UP006
            (abc.Mapping, {"type": "object"}, {"a": 1}, {"a": 1}),
            (
                dict[str, dt.date],
                {"type": "object", "additionalProperties": {"type": "string", "format": "date"}},
                {"a": "2026-01-31"},
                {"a": dt.date(2026, 1, 31)},
            ),
            (
                collections.Counter[str],
                {"type": "object", "additionalProperties": {"type": "integer"}},
                {"a": 2},
                collections.Counter("aa"),
            ),
            (collections.Counter, {"type": "object"}, {"a": 2}, collections.Counter("aa")),
            (collections.OrderedDict, {"type": "object"}, {"a": 2}, collections.OrderedDict(a=2)),
        ],
    )
    def test_are_published_and_received_as(self, hint: Any, schema: Any, sent: Any, made: Any) -> None:
        assert schema_of(hint) == schema
        found = receive(hint, sent)
        assert (found, type(found)) == (made, type(made))

    def test_a_tuple_has_a_schema_for_each_item(self) -> None:
        hint = tuple[int, dt.date, str]
        assert schema_of(hint) == {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string", "format": "date"}, {"type": "string"}],
            "minItems": 3,
            "maxItems": 3,
        }
        assert receive(hint, [1, "2026-01-31", "a"]) == (1, dt.date(2026, 1, 31), "a")

    def test_an_iterator_can_be_iterated_step_by_step(self) -> None:
        assert next(receive(abc.Iterator[int], [1, 2])) == 1

    def test_a_defaultdict_has_the_factory_of_a_plain_type(self) -> None:
        found = receive(collections.defaultdict[str, list[int]], {"a": [1]})
        assert (found["a"], found["missing"]) == ([1], [])

    @pytest.mark.parametrize("hint", [collections.defaultdict, collections.defaultdict[str, dt.date]])
    def test_a_defaultdict_of_another_type_has_no_factory(self, hint: Any) -> None:
        assert receive(hint, {}).default_factory is None

    def test_a_set_refuses_what_a_set_cannot_hold(self) -> None:
        with pytest.raises(InvalidArgumentsError, match=r"'x'.*a set can hold"):
            receive(set, [[1], [2]])

    @pytest.mark.parametrize(
        ("hint", "sent", "place"),
        [
            (list[bytes], ["aGk=", "!"], "x[1]"),
            (tuple[bytes, ...], ["!"], "x[0]"),
            (dict[bytes, int], {"!": 1}, "x.!"),
            (Parcel, {"content": "!"}, "x.content"),
            (dict[str, list[tuple[int, bytes]]], {"pictures": [[1, "aGk="], [2, "!"]]}, "x.pictures[1][1]"),
        ],
    )
    def test_a_refusal_deep_inside_says_where(self, hint: Any, sent: Any, place: str) -> None:
        with pytest.raises(InvalidArgumentsError, match=re.escape(f"'{place}': expected base64")):
            receive(hint, sent)


class TestKeys:
    @pytest.mark.parametrize(
        ("key", "names", "sent", "made"),
        [
            (int, {"pattern": "^-?[0-9]+$"}, "-12", -12),
            (float, {"pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"}, "1.5e3", 1500.0),
            (bool, {"enum": ["true", "false"]}, "true", True),
            (dt.date, {"format": "date"}, "2026-01-31", dt.date(2026, 1, 31)),
            (Literal["a", "b"], {"enum": ["a", "b"]}, "a", "a"),
            (Literal[1, 2], {"enum": ["1", "2"]}, "2", 2),
            (Annotated[str, Field(pattern="^a")], {"pattern": "^a"}, "ab", "ab"),
            (Annotated[Literal["a"], "which"], {"enum": ["a"]}, "a", "a"),
            (typing_extensions.TypeAliasType("Key", int), {"pattern": "^-?[0-9]+$"}, "3", 3),
            (
                int | dt.date,
                {
                    "anyOf": [
                        {"type": "string", "pattern": "^-?[0-9]+$"},
                        {"type": "string", "format": "date"},
                    ]
                },
                "7",
                7,
            ),
        ],
    )
    def test_are_converted_to_values(self, key: Any, names: dict[str, Any], sent: str, made: Any) -> None:
        hint = dict[key, int]
        assert schema_of(hint) == {
            "type": "object",
            "propertyNames": names,
            "additionalProperties": {"type": "integer"},
        }
        assert receive(hint, {sent: 1}) == {made: 1}
        assert emit(hint, {made: 1}) == {sent if sent != "1.5e3" else "1500.0": 1}

    @pytest.mark.parametrize("key", [str, Any, object, str | int, Odd])
    def test_that_may_be_any_text_are_not_described(self, key: Any) -> None:
        assert schema_of(dict[key, int]) == {"type": "object", "additionalProperties": {"type": "integer"}}
        assert receive(dict[key, int], {"1": 1}) == {"1": 1}

    def test_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(InvalidArgumentsError):
            receive(dict[int, int], {"one": 1})

    @pytest.mark.parametrize("key", [tuple[int, int], list[str], None, Annotated[int, Field(ge=1)]])
    def test_that_json_cannot_have_are_refused_with_the_definition(self, key: Any) -> None:
        with pytest.raises(DefinitionError, match=r"Parameter 'x'.*keys that JSON cannot represent"):
            schema_of(dict[key, int])
