"""`toolcrib agent`: one question to a model that may use the tools of the targets."""

from __future__ import annotations

import asyncio
import inspect
import shlex
import sys
from collections.abc import Mapping, Sequence
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
from toolcrib.cli import options as frame
from toolcrib.cli.load import load
from toolcrib.cli.options import Command, takes_json, takes_target_options
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, takes_server_options
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
_SHOWN_CHARS = 200


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("question", required=False)
@takes_target_options
@click.option("--provider", required=True, metavar="NAME", help=f"One of: {', '.join(providers)}.")
@click.option("--model", metavar="NAME", help="Which model of the provider.")
@click.option("--base-url", metavar="URL", help="The address of the service, where it is not the usual one.")
@click.option("--program", metavar="WORDS", help="gemini_cli: what to start instead; no shell is used.")
@click.option(
    "--way",
    type=click.Choice(["conversation", "transcript"]),
    help="gemini_cli: whether the program keeps running, or reads all, answers and exits.",
)
@click.option("--instructions", metavar="TEXT", help="What the model is told before everything else.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0, 86_400, min_open=True), metavar="SECONDS",
    help="How long the answer may take.",
)  # fmt: skip
@takes_json
@takes_server_options
def agent(
    terminal: Terminal,
    question: str | None,
    targets: Sequence[str],
    provider: str,
    model: str | None,
    base_url: str | None,
    program: str | None,
    way: str | None,
    instructions: str | None,
    timeout_s: float | None,
    as_json: bool,
    command: str | None,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """Ask a model that may use the tools.

    The answer goes to stdout, what the tools do to stderr; --json prints every event on a line of its own.
    The question may come on stdin. Keys are in OPENAI_API_KEY, ANTHROPIC_API_KEY and GEMINI_API_KEY. Exit
    code 0: there is an answer. 1: there is none.
    """
    asked = _read_question(question)
    options: dict[str, Any] = {"model": model, "base_url": base_url, "command": _split(program), "way": way}
    options = {name: value for name, value in options.items() if value is not None}
    _refuse_strange(provider, options)
    limits = Limits() if timeout_s is None else Limits(answer_s=timeout_s, turn_s=timeout_s)
    remote = Remote.read(targets, command, headers, protocol)
    if remote is None:
        loaded = load(targets, terminal)
        tools: Any = loaded.server
        for finding in loaded.errors:
            terminal.tell(finding)
    else:
        tools = Client(remote.target, headers=remote.headers, protocol=remote.protocol)
    runner = AgentRunner(tools, provider, instructions=instructions, limits=limits, **options)
    return asyncio.run(_talk(runner, asked, _Printer(terminal, as_json)))


async def _talk(runner: AgentRunner, question: str, printer: _Printer) -> int:
    async with runner, aclosing(runner.send(question)) as events:
        async for event in events:
            printer.show(event)
            if isinstance(event, Failure):
                return 1
    return 0


class _Printer:
    """Events as lines of JSON, or as words where they belong."""

    def __init__(self, terminal: Terminal, as_json: bool) -> None:
        self._terminal = terminal
        self._as_json = as_json
        self._said: list[str] = []

    def show(self, event: Event) -> None:
        if self._as_json:
            self._terminal.json_line(codec.encode_text(event_to_json(event)))
            return
        match event:
            case Token():
                self._write(event.text)
            case ToolCall():
                arguments = codec.encode_text(dict(event.arguments))
                self._tell("call", f"{event.name or '?'} {arguments}")
            case ToolResult():
                self._tell("result" if event.ok else "failed", f"{event.name or '?'}: {event.text}")
            case Final():
                if event.text not in "".join(self._said):
                    self._write(event.text)  # said at once, without tokens
                self._write("\n" if self._said and not self._said[-1].endswith("\n") else "")
                if not event.text.strip():
                    self._terminal.say("note", "the answer is empty")
                if event.reason != "stop":
                    words = {"length": "the answer is cut short", "refused": "the model would not answer"}
                    self._terminal.say("note", words.get(event.reason, event.reason))
            case Failure():
                self._break_line()
                self._terminal.say("error", event.message, event.hint)

    def _write(self, text: str) -> None:
        self._said.append(text)
        self._terminal.content(text)

    def _tell(self, label: str, text: str) -> None:
        self._break_line()
        self._terminal.say(label, one_line(text)[:_SHOWN_CHARS])

    def _break_line(self) -> None:
        if self._said and not self._said[-1].endswith("\n"):
            self._write("\n")


def _read_question(question: str | None) -> str:
    if question is None or question == "-":
        if question is None and sys.stdin.isatty():
            raise frame.Failure("There is no question", 'toolcrib agent --provider NAME "..."')
        question = sys.stdin.read()
    if not question.strip():
        raise frame.Failure("The question is empty")
    return question


def _refuse_strange(provider: str, options: Mapping[str, Any]) -> None:
    """What is of another provider is told by the name it has on the command line."""
    taken = inspect.signature(providers[provider]).parameters
    if any(item.kind is inspect.Parameter.VAR_KEYWORD for item in taken.values()):
        return
    for name in options.keys() - taken.keys():
        option = {"command": "--program", "base_url": "--base-url"}.get(name, f"--{name}")
        fitting = [other for other in providers if name in inspect.signature(providers[other]).parameters]
        raise frame.Failure(f"{option} is not for {provider}", f"it is for {', '.join(fitting)}")


def _split(program: str | None) -> list[str] | None:
    try:
        return None if program is None else shlex.split(program)
    except ValueError as error:
        raise frame.Failure(f"--program cannot be read: {error}") from None
