"""Quality that can be linted: U-31, T-24, T-25, A-16, A-17, C-19, G-14."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from toolcrib import Tool
from toolcrib.catalog.lint import inspect_tools
from toolcrib.cli import app


def codes(*functions: Any, **options: Any) -> set[tuple[str, str | None]]:
    tools = [Tool.from_function(function, **options) for function in functions]
    return {(finding.code, finding.parameter) for finding in inspect_tools(tools).findings}


def find_orders(customer: str, state: Literal["open", "closed"] = "open", limit: int = 10) -> list[str]:
    """Find the orders of a customer. Use this when the number of an order is not known.

    Example: find_orders(customer="Ann", state="closed")

    Args:
        customer: Name of the customer
        state: Which orders to look at
        limit: How many at most

    Returns:
        The numbers of the orders, newest first
    """
    return []


@pytest.mark.requirement("U-31")
def test_summary_parameter_docs_hints_literals_and_returns_are_asked_for() -> None:
    def doStuff(x, mode: str, rest: dict[str, int]) -> list[int]:
        """Things.

        Args:
            mode: Either "fast" or "slow"
        """
        return [x]

    found = codes(doStuff)
    assert ("short-description", None) in found
    assert {("undocumented-parameter", "x"), ("undocumented-parameter", "rest")} <= found
    assert ("untyped-parameter", "x") in found
    assert ("could-be-literal", "mode") in found
    assert ("undocumented-result", None) in found
    assert codes(find_orders) == set()


@pytest.mark.requirement("T-24", "A-16")
@pytest.mark.parametrize("name", ["FindOrders", "find-orders", "find.orders", "x", "do", "a" * 51])
def test_names_are_snake_case_short_telling_and_plain(name: str) -> None:
    found = {code for code, _ in codes(find_orders, name=name)}
    assert found & {"name-style", "vague-name", "long-name"}
    assert not {code for code, _ in codes(find_orders, name="find_orders")}


@pytest.mark.requirement("T-25")
def test_descriptions_say_what() -> None:
    def find_order(number: int) -> str:
        """Order."""
        return ""

    assert ("repeats-name", None) in codes(find_order)
    assert codes(find_orders) == set()


@pytest.mark.requirement("T-25")
def test_parameters_have_words_defaults_and_rules_that_agree() -> None:
    schema = {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "default": 20, "description": "How many (default: 10)"},
            "state": {"type": "string", "enum": ["open", "open"], "description": "Which"},
            "page": {"type": "integer", "minimum": 5, "maximum": 1, "description": "Where to begin"},
        },
        "required": ["limit", "missing"],
    }

    def handle(arguments: dict[str, Any]) -> str:
        return ""

    found = codes(handle, name="find_orders", description="Find the orders.", input_schema=schema)
    assert {
        ("duplicate-choice", "state"),
        ("impossible-limits", "page"),
        ("unknown-required", "missing"),
    } <= found


@pytest.mark.requirement("A-17")
def test_every_parameter_has_type_description_and_required() -> None:
    schema = {
        "type": "object",
        "properties": {"text": {}, "limit": {"type": "integer", "description": "Most"}},
    }

    def handle(arguments: dict[str, Any]) -> str:
        return ""

    found = codes(handle, name="find_orders", description="Find the orders.", input_schema=schema)
    assert {
        ("untyped-parameter", "text"),
        ("undocumented-parameter", "text"),
        ("missing-required", None),
    } <= found
    assert not {item for item in found if item[1] == "limit"}


@pytest.mark.requirement("C-19")
def test_docstrings_have_an_example_where_a_call_is_not_plain_and_simple_annotations() -> None:
    def send_letter(to: dict[str, str]) -> str:
        """Send a letter."""
        return ""

    def send_card(to: dict[str, str]) -> str:
        """Send a card.

        Ejemplo: send_card(to={"name": "Ana"})
        """
        return ""

    def send_note(to: str, text: str) -> str:
        """Send a note."""
        return ""

    assert ("no-example", None) in codes(send_letter)
    assert ("no-example", None) not in codes(send_card)
    assert ("no-example", None) not in codes(find_orders)
    assert ("no-example", None) not in codes(send_note)


@pytest.mark.requirement("G-14")
def test_metadata_is_linted_in_a_pipeline_with_codes_json_and_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.py").write_text(
        "from toolcrib import tool\n\n\n@tool\ndef delete_order(number):\n    '''Delete it for good.'''\n"
    )
    done = CliRunner().invoke(app, ["check", "--static", "--strict", "orders.py", "--json"])
    found = json.loads(done.stdout)["findings"]
    assert done.exit_code == 1
    assert {finding["code"]: (finding["level"], finding["line"]) for finding in found} == {
        "missing-destructive-hint": ("warning", 4),
        "undocumented-parameter": ("advice", 5),
        "untyped-parameter": ("warning", 5),
    }
    text = Path("orders.py").read_text()
    Path("orders.py").write_text(text.replace("(number):", "(number):  # toolcrib: ignore"))
    assert CliRunner().invoke(app, ["check", "--static", "--strict", "orders.py"]).exit_code == 0
