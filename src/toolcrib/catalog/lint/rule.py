"""What a rule is, what it is shown, and what it says.

A rule is a small function with a code that never changes. Most look at one tool; a few look at all of them
together. A rule says what it saw; its code, its level and the place are put to that elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolcrib.catalog.lint.folding import fold
from toolcrib.catalog.lint.phrases import Gist
from toolcrib.catalog.lint.texts import Text, list_texts
from toolcrib.catalog.tokens import cost_of
from toolcrib.definition import ToolDefinition
from toolcrib.described import is_described
from toolcrib.finding import Finding, Level
from toolcrib.tool import Tool

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")


class Subject:
    """A tool under inspection; what several rules want to know is found out once."""

    def __init__(self, tool: Tool, definition: ToolDefinition | None = None) -> None:
        self.tool = tool
        self.definition = tool.definition if definition is None else definition

    @property
    def name(self) -> str:
        return self.definition.name

    @cached_property
    def description(self) -> str:
        return self.definition.description.strip()

    @cached_property
    def name_words(self) -> tuple[str, ...]:
        """The words of the name in lower case: `findOpenOrders` is find, open, orders."""
        return tuple(split_words(self.name))

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        properties = self.definition.input_schema.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    @cached_property
    def required(self) -> frozenset[str]:
        required = self.definition.input_schema.get("required")
        given = required if isinstance(required, list | tuple) else ()
        return frozenset(item for item in given if isinstance(item, str))

    @cached_property
    def has_own_schema(self) -> bool:
        """Whether the schema was written and not made from a function's hints."""
        return self.tool.options.input_schema is not None

    @cached_property
    def is_described(self) -> bool:
        return is_described(self.tool)

    @cached_property
    def texts(self) -> list[Text]:
        """Every text that a model, a client or a person may be shown."""
        return list_texts(self.definition, self.tool.options.aliases)

    @cached_property
    def cost(self) -> int:
        """About how many tokens it is to a model."""
        try:
            return cost_of(self.definition)
        except (TypeError, ValueError, RecursionError):
            return 0  # not the plain data that it should be; that is found elsewhere

    @cached_property
    def joined(self) -> str:
        """All texts in one. What is not found here is in none of them, which nearly always ends a search."""
        return "\n".join([text.text for text in self.texts])

    @cached_property
    def lowered(self) -> str:
        return self.joined.lower()

    def forget_texts(self) -> None:
        """Let go of what only rules about one tool ask for: with ten thousand tools it adds up."""
        for name in ("texts", "joined", "lowered", "gist"):
            self.__dict__.pop(name, None)

    @cached_property
    def gist(self) -> Gist:
        return Gist.of(fold(".\n".join([text.plain for text in self.texts])))  # a text ends a sentence


def split_words(name: str) -> list[str]:
    return [word for word in _NO_WORD.split(_WORD_STARTS.sub("_", name).lower()) if word]


@dataclass(frozen=True, slots=True)
class Remark:
    """What a rule saw. No hint: the rule's own way out. `excerpt` is text to look for in the source."""

    message: str
    hint: str | None = None
    parameter: str | None = None
    excerpt: str | None = None


Look = Callable[[Subject], Iterable[Remark]]
LookAcross = Callable[[Sequence[Subject]], Iterable[tuple[Subject, Remark]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table. `in_check` are those that `toolcrib check` speaks of, too."""

    code: str
    level: Level
    summary: str
    why: str
    mend: str
    look: Look | None = None
    across: LookAcross | None = None
    in_check: bool = False

    def finding(self, subject: Subject, remark: Remark) -> Finding:
        source = subject.definition.source
        return Finding(
            self.code,
            self.level,
            remark.message,
            subject.name,
            remark.parameter,
            source.file,
            source.line,
            remark.hint or self.mend,
        )


def each_parameter(subject: Subject) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parameters whose schema says something; `true` says nothing."""
    for name, schema in subject.parameters.items():
        if isinstance(schema, Mapping):
            yield name, schema


def quote(text: str, longest: int = 60) -> str:
    """Foreign text inside a message: one line, nothing in it that a reader could not see, not too long."""
    plain = " ".join(text.split())
    shown = plain if plain.isprintable() else plain.encode("unicode_escape").decode()
    return f"'{shown}'" if len(shown) <= longest else f"'{shown[: longest - 3]}...'"
