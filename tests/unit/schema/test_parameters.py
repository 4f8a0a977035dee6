"""Parameters, location, name and docstring of callables."""

from __future__ import annotations

import functools
import inspect
import math
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from toolcrib import DefinitionError, Tool
from toolcrib.errors import InvalidSignatureError, InvalidToolError
from toolcrib.schema.parameters import (
    HandlerInfo,
    docstring_of,
    find_function,
    locate,
    name_of,
)


def plain(a: int, b: str = "x") -> str:
    """Plain words."""
    return f"{a}{b}"


async def coroutine(a: int) -> int:
    return a


async def stream(a: int):
    yield a


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **values: Any) -> Any:
        return function(*args, **values)

    return wrapper


class Office:
    """An office."""

    def method(self, a: int) -> int:
        """Method words."""
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        return a

    @staticmethod
    def static(a: int) -> int:
        return a


class Branch(Office):
    def method(self, a: int) -> int:
        return a


class HTTPClient:
    """Words of the class."""

    def __call__(self, url: str) -> str:
        return url


class Speaker:
    """Words of the class."""

    async def __call__(self, text: str) -> str:
        """Words of the call."""
        return text


class Lamp:
    def __init__(self, watts: int) -> None:
        """Words of the constructor."""


class Lantern(Lamp):
    pass


class Spot(NamedTuple):
    x: int


def input_names(callable_: Any, **options: Any) -> list[str]:
    return list(Tool.from_function(callable_, **options).definition.input_schema["properties"])


class TestEverythingCallable:
    @pytest.mark.parametrize(
        ("handler", "name", "names"),
        [
            (plain, "plain", ["a", "b"]),
            (coroutine, "coroutine", ["a"]),
            (Office().method, "method", ["a"]),
            (Office.of_class, "of_class", ["a"]),
            (Office().static, "static", ["a"]),
            (Office.static, "static", ["a"]),
            (HTTPClient(), "http_client", ["url"]),
            (functools.partial(plain, 1), "plain", ["b"]),
            (functools.partial(functools.partial(plain, 1), b="y"), "plain", ["b"]),
            (functools.lru_cache(plain), "plain", ["a", "b"]),
            (decorated(decorated(plain)), "plain", ["a", "b"]),
            (decorated(Office().method), "method", ["a"]),
            (functools.partial(HTTPClient()), "http_client", ["url"]),
            (math.sqrt, "sqrt", ["x"]),
            (Lamp, "Lamp", ["watts"]),
        ],
    )
    def test_has_a_name_and_its_parameters(self, handler: Any, name: str, names: list[str]) -> None:
        assert Tool.from_function(handler).name == name
        assert input_names(handler) == names

    @pytest.mark.parametrize(
        ("handler", "is_async"),
        [
            (plain, False),
            (coroutine, True),
            (stream, True),
            (functools.partial(coroutine, 1), True),
            (Speaker(), True),
            (HTTPClient(), False),
            (decorated(plain), False),
            (math.sqrt, False),
        ],
    )
    def test_is_known_to_be_async_or_not(self, handler: Any, is_async: bool) -> None:
        assert Tool.from_function(handler).is_async is is_async

    def test_is_found_where_it_was_written(self) -> None:
        for handler in (plain, functools.partial(plain, 1), decorated(plain), functools.lru_cache(plain)):
            source = Tool.from_function(handler).source
            assert (Path(source.file or "").name, source.line) == (
                "test_parameters.py",
                plain.__code__.co_firstlineno,
            )

    def test_a_class_is_found_by_its_source(self) -> None:
        assert locate(Lamp).line == inspect.getsourcelines(Lamp)[1]
        assert str(locate(int)) == str(locate(math.sqrt)) == "<unknown>"

    def test_a_lambda_needs_a_name(self) -> None:
        with pytest.raises(InvalidToolError, match="A lambda needs a name") as caught:
            Tool.from_function(lambda x: x)
        assert caught.value.hint == "give one: name=..."
        assert caught.value.source.line
        assert Tool.from_function(lambda x: x, name="same").name == "same"

    @pytest.mark.parametrize("thing", [5, "text", None])
    def test_anything_that_cannot_be_called_is_refused(self, thing: Any) -> None:
        with pytest.raises(InvalidToolError, match="A tool must be callable"):
            Tool.from_function(thing)

    def test_a_builtin_without_signature_is_refused(self) -> None:
        with pytest.raises(InvalidToolError, match="Cannot read the signature of tool 'max'") as caught:
            Tool.from_function(max)
        assert caught.value.hint == "wrap it in a function"

    def test_wrappers_of_wrappers_end_somewhere(self) -> None:
        def loop() -> None: ...

        loop.__wrapped__ = loop  # type: ignore[attr-defined]
        assert find_function(loop) is loop

    def test_anything_that_is_callable_by_a_builtin_stays_itself(self) -> None:
        class Shouter:
            __call__ = "abc".upper

        shouter = Shouter()
        assert find_function(shouter) is shouter
        assert find_function(shouter.__call__) is shouter.__call__


class TestParametersThatCannotBe:
    @pytest.mark.parametrize(("stars", "name"), [("*", "args"), ("**", "options")])
    def test_variable_parameters_are_refused_with_all_there_is_to_know(self, stars: str, name: str) -> None:
        scope: dict[str, Any] = {}
        exec(f"def many(a, {stars}{name}): ...", scope)
        with pytest.raises(InvalidSignatureError) as caught:
            Tool.from_function(scope["many"])
        error = caught.value
        assert f"Tool 'many' takes {stars}{name}" in str(error)
        assert (error.tool, error.parameter, str(error.source)) == ("many", name, "<string>:1")
        assert error.hint == "name each parameter, or give an explicit input_schema"

    def test_a_wrapper_without_wraps_is_refused_too(self) -> None:
        class Loose:
            def __call__(self, *args: Any) -> None: ...

        with pytest.raises(InvalidSignatureError, match=r"takes \*args"):
            Tool.from_function(Loose())

    def test_a_method_without_its_object_is_refused_with_a_way_out(self) -> None:
        with pytest.raises(
            InvalidSignatureError, match="an unbound method: the caller would have to send 'self'"
        ) as caught:
            Tool.from_function(Office.method)
        assert caught.value.hint == "add a method of an instance: Office().method"

    def test_a_parameter_called_self_is_fine_elsewhere(self) -> None:
        def about(self: str) -> str:
            return self

        class Odd:
            def typed(self: Any, a: int) -> int:
                return a

            @staticmethod
            def nothing() -> None: ...

        assert input_names(about) == ["self"]
        assert input_names(Odd.typed) == ["self", "a"]
        assert input_names(Odd.nothing) == []

    def test_a_signature_of_ones_own_counts(self) -> None:
        def shown(*args: Any) -> None: ...

        shown.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
        assert input_names(shown) == ["a", "b"]


class TestWords:
    @pytest.mark.parametrize(
        ("handler", "words"),
        [
            (plain, "Plain words."),
            (functools.partial(plain, 1), "Plain words."),
            (decorated(plain), "Plain words."),
            (Office().method, "Method words."),
            (Branch().method, "Method words."),
            (HTTPClient(), "Words of the class."),
            (Speaker(), "Words of the call."),
            (HTTPClient, "Words of the class."),
            (Lamp, "Words of the constructor."),
            (Lantern, "Words of the constructor."),
            (Spot, None),
            (coroutine, None),
            (type("Empty", (), {}), None),
        ],
    )
    def test_come_from_where_they_were_written(self, handler: Any, words: str | None) -> None:
        assert docstring_of(handler) == words

    def test_the_name_of_what_has_none_is_empty(self) -> None:
        assert name_of(lambda: None) == ""


def test_a_signature_is_read_once_and_only_when_wanted() -> None:
    callee = HandlerInfo(plain)
    assert [item.name for item in callee.parameters] == ["a", "b"]
    assert callee._signature is None
    assert callee.signature is callee.signature


def test_the_code_object_tells_what_the_signature_tells() -> None:
    def mixed(a, b: int, /, c="c", d: str = "d", *, e, f: Any = None) -> None: ...

    class Holder:
        def method(self, a: int, b=2, *, c=3) -> None: ...

    for handler in (mixed, plain, Holder().method, Holder().method, lambda: None, lambda *, a=1: a):
        shown = [
            (item.name, item.kind, item.default, item.annotation)
            for item in inspect.signature(handler).parameters.values()
        ]
        assert HandlerInfo(handler).parameters == shown


def test_a_tool_of_a_class_that_inherits_its_constructor_has_its_hints() -> None:
    assert Tool.from_function(Lantern).definition.input_schema["properties"] == {"watts": {"type": "integer"}}
    assert Tool.from_function(Spot).definition.input_schema["properties"] == {"x": {"type": "integer"}}


def test_every_refusal_is_a_definition_error() -> None:
    assert issubclass(InvalidSignatureError, DefinitionError)
    assert issubclass(InvalidToolError, DefinitionError)
