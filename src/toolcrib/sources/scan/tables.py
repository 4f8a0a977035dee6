"""Tables of definitions, with stubs in place of handlers.

An entry that cannot be known without running code is left out, with a finding.
"""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from toolcrib.errors import DefinitionError, Finding, Location
from toolcrib.sources.scan.remarks import Unresolved
from toolcrib.sources.scan.things import Function, Guess, Known, Listing, Module, Pairs, Part, Thing

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import Workshop

_SCHEMA_KEYS = frozenset({"schema", "input_schema", "inputSchema", "parameters"})
_MISSING: Any = object()


def read_table(workshop: Workshop, module: Module, name: str, thing: Thing) -> Any:
    """A table as importing would find it, with stubs for handlers; None where it cannot be followed."""
    reader = _TableReader(workshop, module, name)
    if isinstance(thing, Listing):
        return reader.entries(workshop.evaluator.items(thing))
    if isinstance(thing, Pairs):
        return reader.table(thing)
    made = reader.entry(thing)
    if made is _MISSING:
        reader.refuse(None)
        return None
    return made


def read_handlers(workshop: Workshop, module: Module, name: str, thing: Thing) -> Any:
    """A table of handlers; whatever else stands there is handed on, for others to refuse."""
    reader = _TableReader(workshop, module, name)
    if not isinstance(thing, Pairs):
        return reader.entry(thing)
    handlers: dict[str, Any] = {}
    for part in workshop.evaluator.pairs(thing):
        key = reader.key(part)
        if key is not _MISSING:
            handlers[key] = reader.handler(part.thing, str(key), part.key)
    return handlers


class _TableReader:
    def __init__(self, workshop: Workshop, module: Module, name: str) -> None:
        self.workshop = workshop
        self.evaluator = workshop.evaluator
        self.module = module
        self.name = name

    def entries(self, parts: Any) -> list[Any]:
        made = []
        for part in parts:
            entry = _MISSING if part.is_many else self.entry(part.thing)
            if entry is _MISSING:
                self.refuse(part)
            else:
                made.append(entry)
        return made

    def table(self, thing: Pairs) -> dict[Any, Any]:
        """One definition, or definitions by name."""
        parts = list(self.evaluator.pairs(thing))
        keys = [self.key(part) for part in parts]
        if "name" in keys and _SCHEMA_KEYS & {key for key in keys if isinstance(key, str)}:
            return self.definition(parts, keys)
        made: dict[Any, Any] = {}
        for key, part in zip(keys, parts, strict=True):
            entry = _MISSING if key is _MISSING else self.entry(part.thing, key)
            if entry is _MISSING:
                self.refuse(part)
            else:
                made[key] = entry
        return made

    def entry(self, thing: Thing, label: Any = None) -> Any:
        if isinstance(thing, Pairs):
            parts = list(self.evaluator.pairs(thing))
            return self.definition(parts, [self.key(part) for part in parts], label)
        if isinstance(thing, Known) and thing.is_made and thing.said is not None:
            return self.record(thing)
        try:
            return self.evaluator.data_of(thing)
        except (Unresolved, RecursionError):
            return _MISSING

    def record(self, thing: Known) -> Any:
        """`Tool(name=..., inputSchema=...)` of the official SDK."""
        said = thing.said
        if said is None or thing.package not in ("mcp", "mcp_types") or thing.last != "Tool":
            return _MISSING
        facts: dict[str, Any] = {}
        for keyword in said.keywords:
            try:
                facts[str(keyword.arg)] = self.evaluator.data(keyword.value, said.scope)
            except (Unresolved, RecursionError):
                self.doubt(str(facts.get("name", self.name)), str(keyword.arg), keyword.value.lineno)
        return SimpleNamespace(**facts)

    def definition(self, parts: list[Part], keys: list[Any], label: Any = None) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        handlers: list[Part] = []
        for key, part in zip(keys, parts, strict=True):
            if key == "handler":
                handlers.append(part)
            elif key is not _MISSING:
                try:
                    made[key] = self.evaluator.data_of(part.thing)
                except (Unresolved, RecursionError):
                    line = part.key.lineno if part.key is not None else None
                    self.doubt(str(made.get("name", label or self.name)), str(key), line)
            else:
                self.refuse(part)
        for part in handlers:
            made["handler"] = self.handler(part.thing, str(made.get("name", label)), part.key)
        return made

    def handler(self, thing: Thing, label: str, key: ast.expr | None) -> Any:
        try:
            if isinstance(thing, Function):
                return self.workshop.stub(thing)
            return self.evaluator.data_of(thing)  # no function at all: others say so
        except (Unresolved, RecursionError, DefinitionError):
            guess = Guess("guessed-handler", "its handler cannot be followed")
            where = Location(str(self.module.file.path), 1 if key is None else key.lineno)
            return self.workshop.unknown_handler(label, where, guess)

    def key(self, part: Part) -> Any:
        if part.key is None or part.scope is None or part.is_many:
            return _MISSING
        try:
            key = self.evaluator.data(part.key, part.scope)
            hash(key)
        except (Unresolved, RecursionError, TypeError):
            return _MISSING
        return key

    def doubt(self, tool: str, key: str, line: int | None) -> None:
        words = f"'{key}' of tool '{tool}' cannot be told without running the code"
        self.workshop.findings.append(
            Finding(
                "unresolved-option",
                "warning",
                words,
                tool=tool,
                file=str(self.module.file.path),
                line=line,
                hint="write it down as it is, or as a constant of the module",
            )
        )

    def refuse(self, part: Part | None) -> None:
        line = part.key.lineno if part is not None and part.key is not None else None
        self.workshop.has_open_tables = True
        self.workshop.findings.append(
            Finding(
                "guessed-table",
                "warning",
                f"{self.name} holds something that cannot be told without running the code",
                file=str(self.module.file.path),
                line=line,
                hint="write the definitions down in the table",
            )
        )
