"""Opt-outs: comments in the source, and `code` or `code:TOOL` in settings and on the command line.

    # toolcrib: ignore[long-description]     on the line of a decorator, of the def, or of the finding
    # toolcrib: ignore                       everything about that tool

Knows findings by code, tool and line. Refuses to hide that a tool was refused: that is no question of taste.

Where in a source file a finding belongs, and where a tool begins and ends there.

Reads Python source as text and syntax; never runs it. A file that is no Python has lines and nothing else.
"""

from __future__ import annotations

import ast
import io
import os
import re
import stat
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from toolcrib.catalog.lint.table import RULES, is_known
from toolcrib.errors import Finding

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


_MARK = re.compile(r"#\s*toolcrib:\s*ignore\b(?:\[(?P<codes>[^\]]*)\]?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Choice:
    """A code, and the tools that it is meant for: `undocumented-result:shop_*`."""

    code: str
    tools: str = "*"

    @classmethod
    def parse(cls, text: str) -> Choice:
        code, _, tools = text.partition(":")
        return cls(code.strip().lower(), tools.strip() or "*")

    def fits(self, finding: Finding) -> bool:
        return self.code == finding.code and (
            self.tools == "*" or fnmatchcase(finding.tool or "", self.tools)
        )


def can_be_ignored(finding: Finding) -> bool:
    return finding.code in RULES or finding.level != "error"


def is_chosen(finding: Finding, choices: Sequence[Choice]) -> bool:
    return any(choice.fits(finding) for choice in choices)


def remark_unknown(choices: Iterable[Choice], file: str | None, line: int | None) -> Iterator[Finding]:
    for choice in choices:
        if not is_known(choice.code):
            yield unknown(choice.code, file, line)


def unknown(code: str, file: str | None, line: int | None) -> Finding:
    import difflib  # only where something is misspelt

    rule = RULES["unknown-rule"]
    close = difflib.get_close_matches(code, list(RULES), n=1)
    hint = f"did you mean '{close[0]}'?" if close else rule.mend
    return Finding(rule.code, rule.level, f"There is no rule '{code}'", file=file, line=line, hint=hint)


# --- comments ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Mark:
    """One comment. No codes: everything."""

    line: int
    codes: frozenset[str]
    used: set[str] = field(default_factory=set)


class Marks:
    """The comments of the files that findings and tools are in; each file is read once."""

    def __init__(self) -> None:
        self.files: dict[str, dict[int, Mark]] = {}

    def visit(self, file: str) -> dict[int, Mark]:
        marks = self.files.get(file)
        if marks is None:
            source = read_source(file)
            marks = self.files[file] = {} if source is None else _read_marks(source)
        return marks

    def ignores(self, finding: Finding, tool_line: int | None) -> bool:
        """Whether a comment on the finding's line, or at the head of its tool, speaks of it."""
        if finding.file is None or not (marks := self.visit(finding.file)):
            return False
        lines = {finding.line, tool_line}
        source = read_source(finding.file)
        span = source.span_at(tool_line) if source is not None and tool_line else None
        if span is not None:
            lines.update(_head_of(span))
        for line in lines:
            mark = marks.get(line or 0)
            if mark is not None and (not mark.codes or finding.code in mark.codes):
                mark.used.add(finding.code)
                return True
        return False

    def remarks(self) -> Iterator[Finding]:
        """What is wrong with the comments themselves."""
        idle = RULES["idle-ignore"]
        for file, marks in self.files.items():
            for mark in marks.values():
                for code in sorted(mark.codes):
                    if not is_known(code):
                        yield unknown(code, file, mark.line)
                unused = sorted(code for code in mark.codes - mark.used if is_known(code))
                if unused or not (mark.codes or mark.used):
                    what = f"of {', '.join(unused)} " if unused else ""
                    words = f"Nothing {what}is left to ignore here"
                    yield Finding(idle.code, idle.level, words, file=file, line=mark.line, hint=idle.mend)


def _head_of(span: Span) -> range:
    """The decorators and the signature, up to where the body begins."""
    return range(span.first, max(span.head + 1, span.body))


def _read_marks(source: SourceText) -> dict[int, Mark]:
    if not any("toolcrib:" in line for line in source.lines):
        return {}
    found = {}
    for line, comment in _comments(source):
        mark = _MARK.search(comment)
        if mark is not None:
            codes = (item.strip().lower() for item in (mark["codes"] or "").split(","))
            found[line] = Mark(line, frozenset(code for code in codes if code))
    return found


def _comments(source: SourceText) -> Iterator[tuple[int, str]]:
    """Comments alone, where the file is Python: a docstring that shows one is no opt-out."""
    if not source.spans:
        yield from enumerate(source.lines, 1)
        return
    text = "\n".join(source.lines)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):
        return
