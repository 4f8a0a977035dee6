"""gemini_cli against real processes that speak the line protocol well."""

from __future__ import annotations

import json
from typing import Any

from tests.support.agents import Bench, collect, line_runner
from toolcrib.agents import Final, Token, ToolCall, ToolResult


async def test_a_program_asks_for_a_tool_and_gets_its_result() -> None:
    async with line_runner(Bench(), "adds") as runner:
        events = await collect(runner)
        said = "".join(event.text for event in events if isinstance(event, Token))
        assert said == "Let me see.\nThe sum is 5.\n"
        assert [event for event in events if not isinstance(event, Token)] == [
            ToolCall("call_1", "add", {"a": 2, "b": 3}),
            ToolResult("call_1", "add", True, "5"),
            Final("The sum is 5."),
        ]
        assert await runner.ask("And again?") == "The sum is 5."
    assert [(item.role, item.text) for item in runner.session.messages] == [
        ("user", "What is 2 and 3?"),
        ("model", "The sum is 5."),
        ("user", "And again?"),
        ("model", "The sum is 5."),
    ]


def test_a_script_needs_one_line() -> None:
    assert line_runner(Bench(), "adds_and_exits").run("What is 2 and 3?") == "The sum is 5."


async def test_the_first_line_has_the_whole_catalog_and_the_next_only_the_question() -> None:
    async with line_runner(Bench(), "repeats", instructions="Be brief.") as runner:
        first = json.loads(await runner.ask("Who are you?"))
        second = json.loads(await runner.ask("And now?"))
    assert first["toolCatalog"] == runner.session.toolCatalog
    assert first["message"] == "Who are you?"
    prompt = first["prompt"]
    assert prompt.startswith("Be brief.")
    assert prompt.endswith("Who are you?")
    assert runner.session.toolCatalog is not None
    assert runner.session.toolCatalog["promptList"] in prompt
    assert '{"tool_call": {"name": "NAME"' in prompt
    assert 'add: {"type":"object","properties":{"a":{"type":"integer"' in prompt
    assert second == {"prompt": "And now?", "message": "And now?"}


async def test_a_program_that_exits_after_each_answer_is_restarted_with_the_conversation() -> None:
    async with line_runner(Bench(), "repeats_once") as runner:
        await runner.ask("First?")
        again = json.loads(await runner.ask("Second?"))
    assert "User: First?" in again["prompt"]
    assert again["prompt"].endswith("Second?")
    assert again["toolCatalog"]["count"] == 6


async def test_calls_made_together_are_answered_in_their_order() -> None:
    async with line_runner(Bench(), "asks_twice_at_once") as runner:
        assert await runner.ask("Add") == "2 and 11"


async def test_a_call_is_made_even_if_the_answer_ends_next_to_it() -> None:
    async with line_runner(Bench(), "ends_beside_its_call") as runner:
        events = await collect(runner)
    assert [event.text for event in events if isinstance(event, ToolResult)] == ["5"]
    assert events[-1] == Final("Added.")


async def test_an_answer_counts_even_if_its_program_exits_before_the_result() -> None:
    bench = Bench()
    providers: list[Any] = []

    @bench.server.tool
    async def linger() -> str:
        """Stay until the program is gone."""
        await providers[0]._child.wait()
        return "gone"

    async with line_runner(bench, "exits_beside_its_call") as runner:
        providers.append(runner.provider)
        events = await collect(runner)
    assert [event.text for event in events if isinstance(event, ToolResult)] == ["gone"]
    assert events[-1] == Final("Asked.")


async def test_a_program_that_reads_everything_first_is_started_for_every_turn() -> None:
    async with line_runner(Bench(), "writes_a_reading", way="transcript") as runner:
        events = await collect(runner)
        assert events[-1] == Final("The sum is 5.")
        assert [event.text for event in events if isinstance(event, ToolResult)] == ["5"]
        assert await runner.ask("Once more?") == "The sum is 5."


async def test_the_transcript_is_plain_text() -> None:
    async with line_runner(Bench(), "recites", way="transcript", instructions="Be brief.") as runner:
        await runner.ask("First?")
        text = await runner.ask("Second?")
    assert text.startswith("Be brief.")
    assert "User: First?" in text
    assert text.endswith("User: Second?")


async def test_tools_that_change_between_questions_are_sent_again() -> None:
    bench = Bench()
    bench.server.dynamic = True
    async with line_runner(bench, "repeats") as runner:
        await runner.ask("First?")

        @bench.server.tool
        def subtract(a: int, b: int) -> int:
            """Subtract."""
            return a - b

        told = json.loads(await runner.ask("Second?"))
    assert told["toolCatalog"]["count"] == 7
    assert "subtract" in told["prompt"]
    assert "First?" not in told["prompt"]  # the program heard that itself
