"""Token estimates. The true counts here were made with o200k."""

from __future__ import annotations

import time

import pytest

from toolcrib.catalog.tokens import cost_of, estimate
from toolcrib.component import Tool
from toolcrib.definition import ToolDefinition

COUNTED = {
    "English": (
        "Searches the archive for letters that mention a person, newest first. Give the name as it is "
        "written on the envelope; initials are enough where the family name is rare. The answer holds at "
        "most fifty letters, each with its date, its sender and the first two lines.",
        56,
    ),
    "a schema": (
        '{"type":"object","properties":{"path":{"type":"string","description":"The file to read, seen from '
        'the folder of the project."},"encoding":{"type":"string","enum":["utf-8","latin-1","ascii"],'
        '"default":"utf-8"},"max_lines":{"type":"integer","minimum":1,"maximum":5000}},"required":["path"],'
        '"additionalProperties":false}',
        82,
    ),
    "code": (
        "def find_order(number: int, *, with_items: bool = False) -> Order | None:\n"
        "    for order in self._orders.values():\n"
        "        if order.number == number and not order.is_cancelled:\n"
        "            return order.with_items() if with_items else order\n"
        "    return None\n",
        58,
    ),
    "Russian": ("Показывает погоду в городе на завтра: температуру, ветер и осадки.", 19),
    "Japanese": ("指定した都市の明日の天気を表示します。気温と風速も返します。", 21),
    "Chinese": ("显示指定城市明天的天气，包括温度、风速和降水量。", 18),
    "Korean": ("지정한 도시의 내일 날씨를 보여 줍니다. 기온과 바람도 알려 줍니다.", 26),
    "French": ("Affiche la météo de demain pour une ville donnée, avec la température et le vent.", 18),
    "Polish": ("Pokazuje jutrzejszą pogodę w wybranym mieście, wraz z temperaturą i siłą wiatru.", 27),
    "emoji": ("🚀🔍✅🎉", 7),
}


@pytest.mark.parametrize("kind", COUNTED)
def test_an_estimate_is_near_the_true_count(kind: str) -> None:
    text, counted = COUNTED[kind]
    assert abs(estimate(text) - counted) <= max(2, 0.25 * counted), (estimate(text), counted)


@pytest.mark.parametrize("kind", ["English", "a schema"])
def test_texts_of_tools_are_estimated_within_a_tenth(kind: str) -> None:
    text, counted = COUNTED[kind]
    assert abs(estimate(text) - counted) <= 0.1 * counted, (estimate(text), counted)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), (" ", 1), ("\n", 1), ("{}", 1), ("123456", 2)]
)
def test_the_smallest_texts(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@pytest.mark.parametrize(
    "unit", ["a", "A", " ", "\n", " \n", '"', "'", "é", "日", "\u0301", "😀", "\ud800", "\x00", "²", "1"]
)
def test_no_text_takes_long_and_longer_ones_do_not_cost_less(unit: str) -> None:
    started = time.process_time()
    few, many = estimate(unit * 1000), estimate(unit * 100_000)
    assert 0 < few < many
    assert time.process_time() - started < 1


def test_a_tool_costs_its_name_description_and_schema() -> None:
    bare = ToolDefinition("find_order")
    told = ToolDefinition("find_order", "Find an order by its number, in the books of this year.")
    typed = ToolDefinition(
        "find_order",
        told.description,
        {"type": "object", "properties": {"number": {"type": "integer", "description": "As printed."}}},
    )
    assert 10 < cost_of(bare) < cost_of(told) < cost_of(typed) < 60


def test_anything_that_models_do_not_see_costs_nothing() -> None:
    def find_order(number: int) -> dict[str, int]:
        """Find an order."""
        return {"number": number}

    plain = Tool.from_function(find_order).definition
    rich = Tool.from_function(find_order, title="Orders", read_only=True, tags=["books"], icons=[]).definition
    assert plain.output_schema is not None
    assert cost_of(plain) == cost_of(rich)
    assert cost_of(plain) == cost_of(ToolDefinition(plain.name, plain.description, plain.input_schema))
