"""`toolcrib agent`: ask a model a question; it may use the tools."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import Any

import click

from toolcrib.agents import (
    AgentRunner,
    Event,
    Failure,
    Final,
    Limits,
    Token,
    ToolCall,
    ToolResult,
    event_to_json,
    providers,
)
from toolcrib.cli.catalog import ToolSource, source_options, split_command
from toolcrib.cli.load import load
from toolcrib.cli.options import Command, CommandError, complete_from, json_option
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import one_line
from toolcrib.client import Client
from toolcrib.validation import codec

EXAMPLES = """
toolcrib agent --provider openai --model gpt-5 "what time is it?"
toolcrib agent -t tools.py --provider gemini_cli "which orders are late?"
toolcrib agent --provider openai --model qwen3 hello \\
    --base-url http://127.0.0.1:11434/v1
toolcrib agent --provider gemini_cli --program "my-model --quiet" "hello"
"""
_MAX_SHOWN = 200
_ENDINGS = {"length": "the answer was cut off", "refused": "the model refused to answer"}


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("question", required=False)
@source_options(target=True, static=False)
@click.option(
    "--provider",
    required=True,
    metavar="NAME",
    shell_complete=complete_from(providers),
    help=f"One of: {', '.join(providers)}.",
)
@click.option("--model", metavar="NAME", help="Model of the provider.")
@click.option("--base-url", metavar="URL", help="Base URL of the service.")
@click.option("--program", metavar="WORDS", help="gemini_cli: program to start instead, without a shell.")
@click.option(
    "--way",
    type=click.Choice(["conversation", "transcript"]),
    help="gemini_cli: keep the program running, or start it for each turn.",
)
@click.option("--instructions", metavar="TEXT", help="System prompt.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, 86_400, min_open=True),
    metavar="SECONDS",
    help="Time limit of the answer.",
)
@json_option
def agent(
    terminal: Terminal,
    question: str | None,
    source: ToolSource,
    provider: str,
    instructions: str | None,
    timeout_s: float | None,
    as_json: bool,
    program: str | None,
    **provider_options: str | None,
) -> int:
    """Ask a model a question; it may use the tools.

    The answer goes to stdout, the tool calls to stderr; --json prints each event on a line. The question may
    come on stdin. API keys are read from OPENAI_API_KEY, ANTHROPIC_API_KEY and GEMINI_API_KEY. Exit code 0:
    there is an answer. 1: there is none.
    """
    text = _read_question(question)
    options: dict[str, Any] = {**provider_options, "command": program and split_command(program, "--program")}
    options = {name: value for name, value in options.items() if value is not None}
    limits = Limits() if timeout_s is None else Limits(answer_s=timeout_s, turn_s=timeout_s)
    remote = source.remote
    if remote is None:
        loaded = load(source.targets, terminal)
        loaded.check_config()  # no call bypasses a policy
        tools: Any = loaded.server
        for finding in loaded.errors:
            terminal.finding(finding)
    else:
        tools = Client(remote.target, headers=remote.headers, protocol=remote.protocol)
    runner = AgentRunner(tools, provider, instructions=instructions, limits=limits, **options)
    return asyncio.run(_run(runner, text, _EventPrinter(terminal, as_json)))


async def _run(runner: AgentRunner, question: str, printer: _EventPrinter) -> int:
    async with runner, aclosing(runner.send(question)) as events:
        async for event in events:
            printer.show(event)
            if isinstance(event, Failure):
                return 1
    return 0


class _EventPrinter:
    """Prints events as JSON lines, or the answer on stdout and the rest on stderr."""

    def __init__(self, terminal: Terminal, as_json: bool) -> None:
        self._terminal = terminal
        self._as_json = as_json
        self._written: list[str] = []

    def show(self, event: Event) -> None:
        if self._as_json:
            self._terminal.json(event_to_json(event), indent=None)
            return
        match event:
            case Token():
                self._write(event.text)
            case ToolCall():
                arguments = codec.encode_text(dict(event.arguments))
                self._message("call", f"{event.name or '?'} {arguments}")
            case ToolResult():
                self._message("result" if event.ok else "failed", f"{event.name or '?'}: {event.text}")
            case Final():
                if event.text not in "".join(self._written):
                    self._write(event.text)  # the answer came without tokens
                self._end_line()
                if not event.text.strip():
                    self._terminal.message("note", "the answer is empty")
                if event.reason != "stop":
                    self._terminal.message("note", _ENDINGS.get(event.reason, event.reason))
            case Failure():
                self._end_line()
                self._terminal.message("error", event.message, event.hint)

    def _write(self, text: str) -> None:
        self._written.append(text)
        self._terminal.write(text)

    def _message(self, label: str, text: str) -> None:
        self._end_line()
        self._terminal.message(label, one_line(text)[:_MAX_SHOWN])

    def _end_line(self) -> None:
        if self._written and not self._written[-1].endswith("\n"):
            self._write("\n")


def _read_question(question: str | None) -> str:
    if question is None or question == "-":
        if question is None and sys.stdin.isatty():
            raise CommandError("Missing argument 'QUESTION'", 'toolcrib agent --provider NAME "..."')
        question = sys.stdin.read()
    if not question.strip():
        raise CommandError("The question is empty")
    return question
