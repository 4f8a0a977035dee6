"""Where in a source file a finding belongs, and where a tool begins and ends there.

Reads Python source as text and syntax; never runs it. A file that is no Python has lines and nothing else.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

_LARGEST_BYTES = 20 * 1024 * 1024
_SHORTEST_EXCERPT = 6


@dataclass(slots=True)
class Span:
    """A function or class: where its decorators begin, its `def`, its body, and where it ends."""

    first: int
    head: int
    body: int
    last: int
    parameters: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class SourceText:
    lines: list[str]
    spans: dict[int, Span]

    def span_at(self, line: int) -> Span | None:
        """The definition that begins in a line, its decorators counted."""
        return self.spans.get(line)

    def find(self, excerpt: str, span: Span) -> int | None:
        """The first line of a definition that holds the beginning of a text, case and blanks aside."""
        wanted = " ".join(excerpt.split()).casefold()[:24]
        if len(wanted) < _SHORTEST_EXCERPT:
            return None
        for number in range(span.first, min(span.last, len(self.lines)) + 1):
            if wanted in " ".join(self.lines[number - 1].split()).casefold():
                return number
        return None

    def find_parameter(self, name: str, span: Span) -> int | None:
        """Where a parameter is described, or else where it is declared."""
        described = re.compile(
            rf"\s*(?::param\s+(?:\w+\s+)?)?\*{{0,2}}{re.escape(name)}\s*(?:\([^)]*\))?\s*:"
        )
        for number in range(span.body, min(span.last, len(self.lines)) + 1):
            if described.match(self.lines[number - 1]):
                return number
        return span.parameters.get(name)


def read_source(file: str) -> SourceText | None:
    """The lines of a file, and its definitions where it is Python; None where it cannot be read."""
    try:
        facts = os.stat(file)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_BYTES:
        return None
    return _read(file, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=512)
def _read(file: str, mtime_ns: int, size: int) -> SourceText | None:  # noqa: ARG001 - they tell versions apart
    path = Path(file)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    text = data.decode("utf-8", "replace")
    return SourceText(text.split("\n"), _read_spans(data) if path.suffix in (".py", ".pyi") else {})


def _read_spans(data: bytes) -> dict[int, Span]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the source does wrong is not ours to say
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    spans: dict[int, Span] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                span = _span_of(child)
                spans[span.first] = spans[span.head] = span
            if not isinstance(child, ast.expr):
                waiting.append(child)
    return spans


def _span_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Span:
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    last = node.end_lineno or node.lineno
    body = node.body[0].lineno if node.body else last
    if isinstance(node, ast.ClassDef):
        return Span(first, node.lineno, body, last)
    arguments = node.args
    found = {
        item.arg: item.lineno for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    }
    return Span(first, node.lineno, body, last, found)
