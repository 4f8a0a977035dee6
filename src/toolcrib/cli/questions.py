"""Ask the person at the terminal the questions of a server or tool, field by field.

Without a terminal, questions are declined with a note. The texts are untrusted: they are escaped, and nothing
is sent before the person has confirmed all of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from toolcrib.cli.output import Terminal
from toolcrib.cli.table import type_name
from toolcrib.cli.text import one_line
from toolcrib.context import Answer, Elicitation, URLElicitation
from toolcrib.errors import DefinitionError
from toolcrib.schema.arguments import Repairer
from toolcrib.validation.validator import Validator

_BOOLEANS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_SKIPPED = object()


class Prompter:
    """Asks one question at a time on one terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._lock = asyncio.Lock()
        self.is_attended = sys.stdin.isatty() and terminal.err.isatty()

    async def ask(self, question: Elicitation | URLElicitation) -> Answer:
        if not self.is_attended:
            text = f"declined, because stdin is not a terminal: {one_line(question.message)}"
            self._terminal.message("note", text)
            return Answer("decline")
        async with self._lock:
            self._terminal.status("")
            self._terminal.message("question", question.message)
            try:
                if isinstance(question, URLElicitation):
                    self._terminal.echo_err("  ", question.url)
                    is_done = await self._confirm("Open this page in a browser. Done?")
                    return Answer("accept" if is_done else "decline")
                return await self._fill_in(question)
            except EOFError:
                self._terminal.echo_err()
                return Answer("cancel")

    async def _fill_in(self, form: Elicitation) -> Answer:
        fields, required = form.schema.get("properties"), form.schema.get("required")
        content: dict[str, Any] = {}
        for name, schema in fields.items() if isinstance(fields, Mapping) else ():
            is_required = isinstance(required, list) and name in required
            value = await self._ask_field(name, schema if isinstance(schema, Mapping) else {}, is_required)
            if value is not _SKIPPED:
                content[name] = value
        question = f"Send {json.dumps(content, ensure_ascii=False)}?" if content else "Accept?"
        return Answer("accept", content) if await self._confirm(question) else Answer("decline")

    async def _ask_field(self, name: str, schema: Mapping[str, Any], is_required: bool) -> Any:
        if schema.get("description"):
            self._terminal.echo_err(f"  {schema['description']}")
        titles = list_titles(schema)
        for value, title in titles.items():
            self._terminal.echo_err(f"    {one_line(value)}  {one_line(title)}")
        default = schema.get("default", _SKIPPED)
        need = "" if is_required else " (optional)"
        if default is not _SKIPPED:
            need = f" [{one_line(json.dumps(default, ensure_ascii=False))}]"
        kind = "comma-separated " if schema.get("type") == "array" else ""
        prompt = f"  {one_line(schema.get('title') or name)}, {kind}{type_name(schema, {})}{need}: "
        while True:
            word = (await self._read(prompt)).strip()
            if not word and (default is not _SKIPPED or not is_required):
                return default
            value = parse_value(word, schema, titles)
            problem = find_problem(value, schema) if word else "a value is required"
            if problem is None:
                return value
            self._terminal.echo_err(f"  {problem}")

    async def _confirm(self, question: str) -> bool:
        while True:
            word = (await self._read(f"  {question} [y/n] ")).strip().lower()
            if word in _BOOLEANS:
                return _BOOLEANS[word]

    async def _read(self, prompt: str) -> str:
        self._terminal.echo_err(prompt, end="")
        line = await read_line()
        if not line:
            raise EOFError
        return line


async def read_line() -> str:
    """Return a line from the terminal, empty at the end of input, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    ready: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not ready.done():
            ready.set_result(os.read(descriptor, 65536))

    try:
        loop.add_reader(descriptor, read)
    except NotImplementedError:  # Windows
        return await loop.run_in_executor(None, sys.stdin.readline)
    try:
        return (await ready).decode("utf-8", "replace")
    finally:
        loop.remove_reader(descriptor)


# --- fields ------------------------------------------------------------------------------------------


def list_titles(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the choices of a field that have titles."""
    items = schema.get("items", schema)
    options = (items.get("oneOf") or items.get("anyOf")) if isinstance(items, Mapping) else None
    named = [item for item in options if isinstance(item, Mapping)] if isinstance(options, list) else []
    return {str(item["const"]): str(item["title"]) for item in named if item.keys() >= {"const", "title"}}


def parse_value(word: str, schema: Mapping[str, Any], titles: Mapping[str, str]) -> Any:
    """Return the value of a typed word: a choice may be given by its title, an array with commas."""
    values = {title.casefold(): value for value, title in titles.items()}
    match schema.get("type"):
        case "array":
            words = [part.strip() for part in word.split(",")]
            return [values.get(part.casefold(), part) for part in words if part]
        case "boolean":
            return _BOOLEANS.get(word.lower(), word)
        case "integer" | "number":
            return Repairer(schema).repair(word)
    return values.get(word.casefold(), word)


def find_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return why the value is invalid; None if it is valid, or only the server can tell."""
    try:
        validator = Validator(schema)
        if validator.find_excess(value) is not None or validator.is_valid(value):
            return None
        problems = validator.problems(value)
    except (DefinitionError, ValueError):
        return None
    return str(problems[0]) if problems else "invalid value"
