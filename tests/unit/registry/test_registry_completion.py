"""Values for arguments: from hints, from functions, and their order."""

from __future__ import annotations

import enum
from typing import Any, Literal

import pytest

from toolcrib import MCPServer, testing
from toolcrib.errors import InvalidToolError, RemoteError
from toolcrib.registry.completion import MAX_VALUES, bind_completer, choices_of, rank


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


def make_prompt() -> Any:
    server = MCPServer("shop")

    @server.prompt
    def paint(
        color: Color,
        size: Literal[1, 2, "xl"],
        glossy: bool = False,
        other: Literal["a", "b"] | None = None,
        name: str = "",
    ) -> str:
        return ""

    return server.prompts.get("paint")


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("color", ["red", "green"]),
        ("size", ["1", "2", "xl"]),
        ("glossy", ["true", "false"]),
        ("other", ["a", "b"]),
        ("name", []),
        ("nothing", []),
    ],
)
def test_hints_name_the_values_of_an_argument(argument: str, values: list[str]) -> None:
    assert [value for value in choices_of(make_prompt(), argument) if value != "None"] == values


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("", ["new york", "york", "zurich yo", "Oslo", "new_york", "boyo"]),
        ("yo", ["york", "new york", "zurich yo", "new_york", "boyo"]),
        ("YO", ["york", "new york", "zurich yo", "new_york", "boyo"]),
        ("oslo", ["Oslo"]),
        ("w_y", ["new_york"]),
    ],
)
def test_a_start_comes_before_the_start_of_a_word_and_that_before_the_middle(
    typed: str, values: list[str]
) -> None:
    cities = ["new york", "york", "zurich yo", "Oslo", "new_york", "boyo"]
    assert rank(cities, typed).values == values


def test_values_that_do_not_fit_are_kept_for_functions_and_dropped_for_hints() -> None:
    assert rank(["a", "b"], "x").values == ["a", "b"]
    assert rank(["a", "b"], "x", strict=True) == ([], 0)


def test_there_are_at_most_a_hundred_values_and_all_are_counted() -> None:
    found = rank(range(1000), "")
    assert (len(found.values), found.total, found.values[:2]) == (MAX_VALUES, 1000, ["0", "1"])


def test_values_are_strings_without_repetition() -> None:
    assert rank([1, True, "1", None, 2.5, "1"], "").values == ["1", "true", "2.5"]


def test_a_function_completes_an_argument_that_exists() -> None:
    server = MCPServer("shop")

    @server.prompt
    def greet(name: str, city: str) -> str:
        return name

    with pytest.raises(InvalidToolError, match="'greet' has no argument 'nam'"):
        greet.complete("nam")
    with pytest.raises(InvalidToolError, match="needs a parameter 'value'"):
        greet.complete("name")(lambda text: [])
    with pytest.raises(InvalidToolError, match="takes 'country'"):
        greet.complete("name")(lambda value, country: [])

    @greet.complete("name")
    def names(value: str, city: str = "", arguments: dict[str, str] | None = None) -> list[str]:
        return [value, city]

    assert names("a", "b") == ["a", "b"]
    made: Any = server.prompts.get("greet")
    assert list(made.completers) == ["name"]


def test_a_function_gets_the_arguments_that_are_known() -> None:
    server = MCPServer("shop")
    server.prompt("greet")(_greet)
    made: Any = server.prompts.get("greet")
    complete: Any = _greet
    complete.complete("name")(lambda value, city, arguments=None: [])
    completer = made.completers["name"]
    assert bind_completer(completer, "a", {}) is None
    assert bind_completer(completer, "a", {"city": "Oslo", "other": "x"}) == {
        "value": "a",
        "city": "Oslo",
        "arguments": {"city": "Oslo", "other": "x"},
    }


def _greet(name: str, city: str) -> str:
    return name


@pytest.mark.parametrize("hint", [str, list[str], None])
def test_a_function_that_returns_one_value_is_an_error_in_the_log(
    hint: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = MCPServer("shop")

    @server.prompt
    def plan(city: str) -> str:
        return city

    def cities(value: str):  # type: ignore[no-untyped-def]
        return "Oslo"

    if hint is not None:
        cities.__annotations__["return"] = hint
    plan.complete("city")(cities)
    with testing.client(server) as client, pytest.raises(RemoteError, match="'cities' returned a result"):
        client.complete("plan", "city", "O")
    (record,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert "Completion function 'cities' returned" in record.getMessage()
    assert record.getMessage().endswith("it is a string; return a list of strings")
