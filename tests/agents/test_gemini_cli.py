"""gemini_cli against real processes that speak the line protocol well."""

from __future__ import annotations

from tests.support.models.agent_tools import Bench, collect, line_runner
from toolcrib.agents import Final, Token, ToolCall, ToolResult


def heard(answer: str) -> str:
    """Return the input that a model recites."""
    return "\n".join(line.removeprefix("| ") for line in answer.splitlines())


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
    assert line_runner(Bench(), "adds").run("What is 2 and 3?") == "The sum is 5."


async def test_calls_made_together_are_answered_in_their_order() -> None:
    async with line_runner(Bench(), "asks_twice_at_once") as runner:
        assert await runner.ask("Add") == "2 and 11"


async def test_the_prompt_is_plain_text_with_instructions_tools_and_conversation() -> None:
    async with line_runner(Bench(), "recites", instructions="Be brief.") as runner:
        first = heard(await runner.ask("First?"))
        second = await runner.ask("Second?")
    assert runner.session.toolCatalog is not None
    assert first.startswith("Be brief.")
    assert runner.session.toolCatalog["promptList"] in first
    assert '{"tool_call": {"name": "NAME"' in first
    assert 'add: {"type":"object","properties":{"a":{"type":"integer"' in first
    assert first.endswith("User: First?")
    assert heard(second).endswith("User: Second?")
    assert "User: First?\nYou: | Be brief." in heard(second)


async def test_tools_that_change_between_questions_are_in_the_next_prompt() -> None:
    bench = Bench()
    bench.server.dynamic = True
    async with line_runner(bench, "recites") as runner:
        assert "subtract" not in await runner.ask("First?")

        @bench.server.tool
        def subtract(a: int, b: int) -> int:
            """Subtract."""
            return a - b

        assert "- subtract: Subtract." in await runner.ask("Second?")
