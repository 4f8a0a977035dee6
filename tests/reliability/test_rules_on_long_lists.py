"""A condition on a list does not stop the server: judging it costs little more than reading the request."""

from __future__ import annotations

import json
import time
import timeit
from typing import Any

import pytest

from toolcrib import MCPServer
from toolcrib.policy import Policy, Rule

COUNT = 100_000
COLLIDING = [number * (2**61 - 1) for number in range(1, 20_001)]
"""Numbers with one hash: as keys of a dict they would take half a minute."""


def load(values: list[float]) -> int:
    return len(values)


def note(values: list[str]) -> int:
    return len(values)


def keep(values: list[Any]) -> int:
    return len(values)


async def best_of(server: MCPServer, name: str, values: list[Any]) -> float:
    spent = []
    for _ in range(3):
        start = time.process_time()
        result = await server.call(name, {"values": values})
        spent.append(time.process_time() - start)
        assert result.text == str(len(values))
    return min(spent)


@pytest.mark.parametrize(
    ("function", "values", "demand"),
    [
        (load, [1] * COUNT, {"above": 1000}),
        (load, [number / 8 for number in range(COUNT)], {"above": COUNT}),
        (note, ["a"] * COUNT, {"one_of": [f"q{number}" for number in range(20)]}),
        (note, [f"{number}" for number in range(COUNT)], {"one_of": [f"q{number}" for number in range(20)]}),
        (keep, ["a", None] * (COUNT // 2), {"one_of": list(range(200))}),
        (keep, COLLIDING, {"above": 2**90}),
    ],
    ids=[
        "numbers",
        "numbers that differ",
        "texts",
        "texts that differ",
        "texts and null",
        "numbers with one hash",
    ],
)
async def test_judging_a_long_list_takes_a_few_times_as_long_as_reading_it(
    function: Any, values: list[Any], demand: dict[str, Any]
) -> None:
    free, ruled = (
        MCPServer("shop", policy=Policy(rules=rules))
        for rules in ([], [Rule(deny=["*"], when={"values": demand})])
    )
    for server in (free, ruled):
        server.add(function, run="inline")
    name = function.__name__
    text = json.dumps(values)
    reading = min(timeit.repeat(lambda: json.loads(text), timer=time.process_time, number=1, repeat=5))
    judging = await best_of(ruled, name, values) - await best_of(free, name, values)
    assert judging < 40 * reading
