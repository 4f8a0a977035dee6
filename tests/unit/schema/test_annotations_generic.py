"""Type variables and type aliases."""

from __future__ import annotations

import sys
from typing import Any, Generic, Protocol, TypeVar

import pytest
from typing_extensions import TypeAliasType

from tests.support.definitions.hints import receive, schema_of
from toolcrib import DefinitionError
from toolcrib.schema.annotations import arguments_by_class, resolve_alias, substitute

A = TypeVar("A")
B = TypeVar("B")


class One(Generic[A]): ...


class Two(One[B], Generic[A, B]): ...


class Three(Two[int, str]): ...


class Plain: ...


class Both(Plain, Three): ...


class Shape(Protocol[A]): ...


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        (A, int),
        (list[A], list[int]),
        (dict[A, B], dict[int, B]),
        (A | None, int | None),
        (list[B], list[B]),
        (list[str], list[str]),
        (str, str),
        (One, One),
    ],
)
def test_variables_are_replaced_where_they_are_known(hint: Any, found: Any) -> None:
    assert substitute(hint, {A: int}) == found


def test_each_class_has_its_own_arguments() -> None:
    found = arguments_by_class(Both)
    assert {cls.__name__: found[cls] for cls in (Both, Three, Two, One)} == {
        "Both": {},
        "Three": {},
        "Two": {A: int, B: str},
        "One": {A: str},
    }
    assert arguments_by_class(Shape[int])[Shape] == {A: int}


def test_aliases_are_seen_through() -> None:
    pair = TypeAliasType("pair", dict[B, A], type_params=(A, B))
    assert resolve_alias(TypeAliasType("x", TypeAliasType("y", int))) is int
    assert resolve_alias(pair[int, str]) == dict[str, int]
    assert resolve_alias(list[int]) == list[int]


def test_a_generic_alias_has_its_arguments() -> None:
    pair = TypeAliasType("pair", dict[str, A], type_params=(A,))
    assert schema_of(pair[int]) == {"type": "object", "additionalProperties": {"type": "integer"}}


def test_an_alias_of_itself_is_given_up() -> None:
    class Circle:
        pass

    Circle.__name__ = "TypeAliasType"
    circle = Circle()
    circle.__value__ = circle  # type: ignore[attr-defined]
    assert resolve_alias(circle) is circle


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the `type` statement came with Python 3.12")
class TestTheTypeStatement:
    def make(self, source: str) -> dict[str, Any]:
        scope: dict[str, Any] = {"__name__": __name__}
        exec(source, scope)
        return scope

    def test_may_be_recursive(self) -> None:
        scope = self.make("type Json = dict[str, Json] | list[Json] | str | None")
        schema = schema_of(scope["Json"])
        assert schema["$ref"] == "#/$defs/Json"
        value = {"a": [{"b": "c"}, None]}
        assert receive(scope["Json"], value) == value

    def test_may_be_generic_and_recursive(self) -> None:
        scope = self.make("type Tree[T] = list[Tree[T]] | T")
        assert schema_of(scope["Tree"][int])["$defs"] == {
            "Tree": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Tree"}}, {"type": "integer"}]}
        }
        assert receive(scope["Tree"][int], [1, [2.0]]) == [1, [2]]

    def test_may_be_optional(self) -> None:
        scope = self.make("type Maybe[T] = T | None")
        assert schema_of(scope["Maybe"][int], None) == {"type": "integer"}

    def test_that_cannot_be_resolved_is_refused(self) -> None:
        scope = self.make("type Broken = list[Missing]")
        with pytest.raises(DefinitionError, match=r"Parameter 'x'.*'Missing' is not defined"):
            schema_of(scope["Broken"])

    @pytest.mark.parametrize("source", ["type Own = Own", "type Own = Own | int"])
    def test_that_only_means_itself_is_refused(self, source: str) -> None:
        scope = self.make(source)
        with pytest.raises(DefinitionError):
            schema_of(scope["Own"])
        with pytest.raises(
            DefinitionError, match="Parameter 'x' of tool 'taking' has a hint that cannot be used"
        ):
            schema_of(scope["Own"], 5)
