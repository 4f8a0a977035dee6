"""Evaluating annotations, and errors for names that cannot be resolved."""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.support.definitions.hints import definition_of
from toolcrib import Tool
from toolcrib.errors import InvalidSignatureError

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTheChecker


def properties(function: Any) -> Any:
    return definition_of(function)["inputSchema"]["properties"]


def test_annotations_may_be_text() -> None:
    def search(query: str, limit: "int | None" = None, mode: Literal["a"] = "a") -> None: ...  # noqa: UP037

    assert properties(search) == {
        "query": {"type": "string"},
        "limit": {"type": "integer"},
        "mode": {"type": "string", "enum": ["a"], "default": "a"},
    }


def test_text_inside_a_type_is_resolved() -> None:
    def search(paths: Any) -> None: ...

    search.__annotations__ = {"paths": list["Path"]}
    assert properties(search) == {"paths": {"type": "array", "items": {"type": "string"}}}


def test_a_local_class_that_the_function_closes_over_is_found() -> None:
    @dataclasses.dataclass
    class Local:
        a: int

    def take(item: Local) -> int:
        return Local(1).a if item is None else item.a

    assert properties(take)["item"]["properties"] == {"a": {"type": "integer"}}


def test_a_name_that_is_assigned_later_is_not_there_yet() -> None:
    def take(item: Later) -> Any:
        return Later

    with pytest.raises(InvalidSignatureError, match="'Later' is not defined"):
        properties(take)
    Later = int
    assert properties(take) == {"item": {"type": "integer"}}


def test_a_name_that_only_the_type_checker_sees_is_refused_with_place_and_hint() -> None:
    def pay(who: str, amount: OnlyForTheChecker) -> None: ...

    with pytest.raises(InvalidSignatureError) as caught:
        properties(pay)
    error = caught.value
    assert str(error) == (
        "Parameter 'amount' of tool 'pay' has an annotation that cannot be resolved: "
        "name 'OnlyForTheChecker' is not defined"
    )
    assert (error.tool, error.parameter) == ("pay", "amount")
    assert (Path(error.source.file or "").name, error.source.line) == (
        "test_annotations.py",
        pay.__code__.co_firstlineno,
    )
    assert error.hint == "import the name at run time, at the top of the module, not under TYPE_CHECKING"


def test_an_error_in_the_hint_of_the_result_names_the_result() -> None:
    def pay(who: str) -> OnlyForTheChecker: ...

    with pytest.raises(InvalidSignatureError, match="The result of tool 'pay' has an annotation") as caught:
        properties(pay)
    assert caught.value.parameter == "return"


def test_text_that_is_not_python_is_refused() -> None:
    def take(a: Any) -> None: ...

    take.__annotations__["a"] = "int +"
    with pytest.raises(InvalidSignatureError, match="Parameter 'a' of tool 'take'"):
        Tool.from_function(take).check()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="functions have type parameters since Python 3.12")
def test_a_type_parameter_of_the_function_itself_is_found() -> None:
    scope: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef first[T: int](items: list[T]) -> T: ...", scope)
    assert properties(scope["first"]) == {"items": {"type": "array", "items": {"type": "integer"}}}


def test_hints_of_a_partial_and_of_a_wrapper_are_those_of_the_function() -> None:
    def add(a: int, b: float) -> None: ...

    @functools.wraps(add)
    def wrapped(*args: Any) -> None: ...

    assert properties(functools.partial(add, 1)) == {"b": {"type": "number"}}
    assert properties(wrapped) == {"a": {"type": "integer"}, "b": {"type": "number"}}


def test_a_signature_may_have_hints_that_the_function_does_not() -> None:
    import inspect

    def loose(**values: Any) -> None: ...

    parameter = inspect.Parameter("n", inspect.Parameter.KEYWORD_ONLY, annotation=int)
    loose.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    assert properties(loose) == {"n": {"type": "integer"}}
