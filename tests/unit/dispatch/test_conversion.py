"""Arguments that are converted before their tool runs: where, and whose time limit applies."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, Field

from toolcrib import Context, MCPServer, Result
from toolcrib.errors import ToolCrashedError, ToolTimeoutError
from toolcrib.policy import Policy, Rule

RULES = [Rule(allow=["*"], when={"value": {"not": "root"}})]
THREADS: list[str] = []
RELEASE = threading.Event()


def note(text: str) -> str:
    THREADS.append(threading.current_thread().name)
    return text


def block(text: str) -> str:
    RELEASE.wait(10)
    return text


def nap(text: str) -> str:
    time.sleep(0.15)
    return text


def crash(text: str) -> str:
    raise TypeError("secret words")


async def call(function: Any, value: str = "a", **options: Any) -> Result:
    server = MCPServer("shop", policy=Policy(rules=RULES))
    server.add(function, name="run", **options)
    async with server:
        return await server.call("run", {"value": value})


@pytest.mark.parametrize(("mode", "is_on_loop"), [("auto", False), ("inline", True)])
async def test_validators_run_where_the_tool_does(mode: Any, is_on_loop: bool) -> None:
    def run(value: Annotated[str, AfterValidator(note)]) -> str:
        return threading.current_thread().name

    THREADS.clear()
    result = await call(run, run=mode)
    assert ([threading.current_thread().name] == THREADS) is is_on_loop
    assert (result.text == threading.current_thread().name) is is_on_loop


async def test_a_validator_that_blocks_is_given_up_in_time() -> None:
    def run(value: Annotated[str, AfterValidator(block)]) -> str:
        return value

    try:
        result = await call(run, timeout_s=0.05)
    finally:
        RELEASE.set()
    assert isinstance(result.error, ToolTimeoutError)
    assert result.text == "Tool 'run' did not finish within 0.05 s."


async def test_validator_and_tool_share_one_time_limit() -> None:
    def run(value: Annotated[str, AfterValidator(nap)]) -> str:
        time.sleep(0.15)
        return value

    def run_with_context(value: Annotated[str, AfterValidator(nap)], ctx: Context) -> str:
        return run(value)

    for function in (run, run_with_context):
        result = await call(function, timeout_s=0.2)
        assert result.text == "Tool 'run' did not finish within 0.2 s."
        assert (await call(function, timeout_s=5)).text == "a"


@pytest.mark.parametrize("mode", ["auto", "inline"])
async def test_a_validator_that_crashes_says_nothing_about_itself(mode: Any) -> None:
    def run(value: Annotated[str, AfterValidator(crash)]) -> str:
        return value

    result = await call(run, run=mode)
    assert isinstance(result.error, ToolCrashedError)
    assert "secret" not in result.text


async def test_a_factory_makes_one_value_for_rule_and_tool() -> None:
    made = iter(["ana", "root", "bob"])

    async def run(value: str = Field(default_factory=lambda: next(made)), more: str = "") -> str:
        return value

    server = MCPServer("shop", policy=Policy(rules=[Rule(deny=["run"], when={"value": "root"})]))
    server.add(run)
    async with server:
        answers = [(await server.call("run", {})).text for _ in range(3)]
    assert answers == ["ana", "Tool 'run' may not be called with these arguments.", "bob"]


async def test_calls_at_once_do_not_mix_what_was_converted() -> None:
    def run(value: Annotated[str, AfterValidator(str.upper)]) -> str:
        return value

    server = MCPServer("shop", policy=Policy(rules=RULES))
    server.add(run)
    async with server:
        values = [f"value {number}" for number in range(50)]
        results = await asyncio.gather(*(server.call("run", {"value": value}) for value in values))
    assert [result.text for result in results] == [value.upper() for value in values]
