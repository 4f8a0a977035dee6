"""Puts a server's questions to the person at the terminal, field by field, and shows how far a call is.

Where nobody is at the terminal, questions are declined and a note says so. What a server says is foreign
text: it cannot steer the terminal, and nothing is sent before the person has seen it all.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from toolcrib.cli.output import Terminal
from toolcrib.cli.text import one_line
from toolcrib.context import Answer, Form, NullChannel, Question, Reply, Visit
from toolcrib.errors import CannotAskError, DefinitionError
from toolcrib.schema.arguments import Repairer
from toolcrib.validation.validator import Validator

_YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_SKIPPED = object()
_TYPE_WORDS = {
    "array": "several with commas between",
    "boolean": "yes or no",
    "integer": "whole number",
    "number": "number",
}


class AtTerminal(NullChannel):
    """The channel of a call that is made here: whoever sits at the terminal is asked."""

    def __init__(self, terminal: Terminal) -> None:
        self._interview = Interview(terminal)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        if not self._interview.is_attended:
            return await super().ask(questions)
        replies: dict[str, Reply] = {}
        for key, question in questions.items():
            if not isinstance(question, Form | Visit):
                raise CannotAskError("There is a person at the terminal, and neither a model nor folders.")
            replies[key] = await self._interview.ask(question)
        return replies


class Interview:
    """One person, one terminal, one question at a time."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._turn = asyncio.Lock()
        self.is_attended = sys.stdin.isatty() and terminal.err.isatty()

    async def ask(self, question: Form | Visit) -> Answer:
        if not self.is_attended:
            words = f"nobody is at the terminal, so this was declined: {one_line(question.message)}"
            self._terminal.say("note", words)
            return Answer("decline")
        async with self._turn:
            self._terminal.say("question", question.message)
            try:
                if isinstance(question, Visit):
                    return await self._visit(question)
                return await self._fill_in(question)
            except EOFError:
                self._terminal.put()
                return Answer("cancel")

    async def _visit(self, question: Visit) -> Answer:
        self._terminal.put("  ", question.url)
        return Answer("accept" if await self._confirm("Open this page yourself; done?") else "decline")

    async def _fill_in(self, form: Form) -> Answer:
        fields = form.schema.get("properties")
        fields = fields if isinstance(fields, Mapping) else {}
        required = form.schema.get("required")
        content: dict[str, Any] = {}
        for name, schema in fields.items():
            is_required = isinstance(required, list) and name in required
            value = await self._ask_field(name, schema if isinstance(schema, Mapping) else {}, is_required)
            if value is not _SKIPPED:
                content[name] = value
        question = f"Send {json.dumps(content, ensure_ascii=False)}?" if content else "Agree?"
        return Answer("accept", content) if await self._confirm(question) else Answer("decline")

    async def _ask_field(self, name: str, schema: Mapping[str, Any], is_required: bool) -> Any:
        if schema.get("description"):
            self._terminal.put(f"  {schema['description']}")
        choices = choices_of(schema)
        for value, title in choices.items():
            self._terminal.put(f"    {one_line(value)}{f'  {one_line(title)}' if title else ''}")
        default = schema.get("default", _SKIPPED)
        need = f" [{one_line(json.dumps(default, ensure_ascii=False))}]" if default is not _SKIPPED else ""
        need = need or ("" if is_required else " (may be left out)")
        prompt = f"  {one_line(schema.get('title') or name)}, {_type_word(schema)}{need}: "
        while True:
            word = (await self._read(prompt)).strip()
            if not word and (default is not _SKIPPED or not is_required):
                return default
            value = read_value(word, schema, choices)
            problem = find_problem(value, schema) if word else "an answer is needed"
            if problem is None:
                return value
            self._terminal.put(f"  {problem}")

    async def _confirm(self, question: str) -> bool:
        while True:
            word = (await self._read(f"  {question} [y/n] ")).strip().lower()
            if word in _YES:
                return _YES[word]

    async def _read(self, prompt: str) -> str:
        self._terminal.put(prompt, end="")
        line = await read_line()
        if not line:
            raise EOFError
        return line


async def read_line() -> str:
    """A line from the terminal, empty at its end. Meanwhile the loop hears Ctrl-C and the server."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    ready: asyncio.Future[bytes] = loop.create_future()

    def take() -> None:
        if not ready.done():
            ready.set_result(os.read(descriptor, 65536))

    try:
        loop.add_reader(descriptor, take)
    except NotImplementedError:  # Windows' loop watches no terminals
        return await loop.run_in_executor(None, sys.stdin.readline)
    try:
        return (await ready).decode("utf-8", "replace")
    finally:
        loop.remove_reader(descriptor)


# --- fields ------------------------------------------------------------------------------------------


def choices_of(schema: Mapping[str, Any]) -> dict[Any, str]:
    """What a field may be, with titles where there are some; empty where it may be anything."""
    items = schema.get("items")
    place = items if isinstance(items, Mapping) else schema
    for keyword in ("oneOf", "anyOf"):
        options = place.get(keyword)
        if isinstance(options, list):
            pairs = [item for item in options if isinstance(item, Mapping) and "const" in item]
            return {str(item["const"]): str(item.get("title", "")) for item in pairs}
    values, names = place.get("enum"), place.get("enumNames")
    if not isinstance(values, list):
        return {}
    titles = [*names] if isinstance(names, list) else []
    titles += [""] * (len(values) - len(titles))
    return dict(zip(map(str, values), map(str, titles), strict=False))


def read_value(word: str, schema: Mapping[str, Any], choices: Mapping[Any, str]) -> Any:
    """What a typed word means for a field: a choice may be given by its title, several with commas."""
    titles = {title.casefold(): value for value, title in choices.items() if title}
    if schema.get("type") == "array":
        words = [part.strip() for part in word.split(",")]
        return [titles.get(part.casefold(), part) for part in words if part]
    if schema.get("type") == "boolean":
        return _YES.get(word.lower(), word)
    if schema.get("type") in ("integer", "number"):
        return Repairer(schema).repair(word)
    return titles.get(word.casefold(), word)


def find_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Why the value does not fit; None where it does, or where the server alone can tell."""
    try:
        validator = Validator(schema)
        if validator.find_excess(value) is not None or validator.is_valid(value):
            return None
        problems = validator.problems(value)
    except (DefinitionError, ValueError):
        return None
    return str(problems[0]) if problems else "that does not fit"


def _type_word(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    word = _TYPE_WORDS.get(kind, "text") if isinstance(kind, str) else "text"
    return f"{word} ({one_line(schema['format'])})" if schema.get("format") else word


# --- progress ----------------------------------------------------------------------------------------


class ProgressLine:
    """One line on a terminal that says how far a call is, and is gone afterwards."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._is_shown = terminal.err.isatty()

    def show(self, progress: float, total: float | None, message: str | None) -> None:
        if not self._is_shown:
            return
        share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        self._terminal.show_status(f"{share} {message}" if message else share)

    def clear(self) -> None:
        self._terminal.show_status("")
