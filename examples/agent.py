"""A small agent: a few tools, any model. The hosted ones are in hosted_models.py, beside this file.

    python examples/agent.py --provider openai --model gpt-5 "What time is it in 90 minutes?"
    python examples/agent.py --provider openai --base-url http://127.0.0.1:11434/v1 --model llama3.3 "..."
    python examples/agent.py --provider anthropic --model claude-sonnet-5 "..."
    python examples/agent.py --provider gemini_cli "..."
    python examples/agent.py --provider gemini_cli --command "my-model --quiet" "..."

Keys come from OPENAI_API_KEY, ANTHROPIC_API_KEY and GEMINI_API_KEY. Without a question it asks for some,
until there are no more. What the model says goes to standard output, what its tools do to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

import hosted_models  # noqa: F401 - registers its providers

from toolcrib import MCPServer
from toolcrib.agents import AgentRunner, Failure, Final, Limits, Token, ToolCall, ToolResult, providers
from toolcrib.errors import ConfigurationError

server = MCPServer("example")


@server.tool(read_only=True)
def now(in_minutes: float = 0) -> str:
    """The time of day.

    Example: now(in_minutes=90)

    Args:
        in_minutes: How much later to look at the clock
    """
    return (datetime.now() + timedelta(minutes=in_minutes)).strftime("%H:%M")


@server.tool(read_only=True)
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@server.tool(read_only=True)
def count_words(text: str) -> dict[str, int]:
    """How many lines, words and letters a text has."""
    return {"lines": len(text.splitlines()), "words": len(text.split()), "letters": len(text)}


async def answer(runner: AgentRunner, question: str) -> bool:
    """Show everything that happens; whether there was an answer."""
    said = ""
    async with aclosing(runner.send(question)) as events:
        async for event in events:
            match event:
                case Token():
                    said += event.text
                    print(event.text, end="", flush=True)
                case ToolCall():
                    print(f"[{event.name} {dict(event.arguments)}]", file=sys.stderr)
                case ToolResult():
                    print(f"[{event.name}: {event.text[:200]}]", file=sys.stderr)
                case Final():
                    if event.text not in said:  # a model may say it all at once
                        print(event.text, end="")
                    print(flush=True)
                    return True
                case Failure():
                    print(f"error: {event.message}", file=sys.stderr)
                    if event.hint:
                        print(f"hint: {event.hint}", file=sys.stderr)
    return False


async def main(question: str | None, options: dict[str, Any]) -> int:
    async with AgentRunner(server, limits=Limits(answer_s=300), **options) as runner:
        if question is not None:
            return 0 if await answer(runner, question) else 1
        while question := (await asyncio.to_thread(read_line)).strip():
            await answer(runner, question)
    return 0


def read_line() -> str:
    try:
        return input("> " if sys.stdin.isatty() else "")
    except EOFError:
        return ""


def read_options() -> tuple[str | None, dict[str, Any]]:
    parser = argparse.ArgumentParser(description="A small agent: a few tools, any model.")
    parser.add_argument("question", nargs="?")
    parser.add_argument("--provider", default="gemini_cli", help=", ".join(providers))
    parser.add_argument("--model")
    parser.add_argument("--base-url", help="the address of a service")
    parser.add_argument(
        "--command", type=shlex.split, help="the words that start a program; no shell is used"
    )
    given = vars(parser.parse_args())
    question = given.pop("question")
    return question, {name: value for name, value in given.items() if value is not None}


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(*read_options())))
    except ConfigurationError as error:
        sys.exit(f"error: {error}" + (f"\nhint: {error.hint}" if error.hint else ""))
    except KeyboardInterrupt:
        sys.exit(130)
