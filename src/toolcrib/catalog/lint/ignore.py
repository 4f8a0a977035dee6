"""Ignoring findings: comments in the source, and `code` or `code:TOOL` in settings and on the command line.

    # toolcrib: ignore[long-description]     on the line of a decorator, of the def, or of the finding
    # toolcrib: ignore                       everything about that tool

Refused tools cannot be ignored. This module also finds the line of a source file that a finding is about; it
reads source as text and syntax and never runs it.
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

from toolcrib.catalog.lint.table import RULES, is_known, load_rules
from toolcrib.errors import Finding, suggest

# --- source files -------------------------------------------------------------------------------------

_MAX_BYTES = 20 * 1024 * 1024
_MIN_EXCERPT = 6


@dataclass(slots=True)
class Span:
    """The lines of a function or class: its first decorator, its `def`, its body and its end."""

    first: int
    head: int
    body: int
    last: int
    parameters: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class SourceText:
    """The lines of a file and, for Python, its definitions by the line that they begin in."""

    lines: list[str]
    spans: dict[int, Span]

    def find(self, excerpt: str, span: Span) -> int | None:
        """Return the first line of a definition with the beginning of a text, ignoring case and blanks."""
        wanted = " ".join(excerpt.split()).casefold()[:24]
        if len(wanted) < _MIN_EXCERPT:
            return None
        for number in range(span.first, min(span.last, len(self.lines)) + 1):
            if wanted in " ".join(self.lines[number - 1].split()).casefold():
                return number
        return None

    def find_parameter(self, name: str, span: Span) -> int | None:
        """Return the line where a parameter is described, or else where it is declared."""
        described = re.compile(
            rf"\s*(?::param\s+(?:\w+\s+)?)?\*{{0,2}}{re.escape(name)}\s*(?:\([^)]*\))?\s*:"
        )
        for number in range(span.body, min(span.last, len(self.lines)) + 1):
            if described.match(self.lines[number - 1]):
                return number
        return span.parameters.get(name)


def read_source(file: str) -> SourceText | None:
    """Read a source file; return None if that fails."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
        return None
    return _read_version(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=512)
def _read_version(file: str, mtime_ns: int, size: int) -> SourceText | None:  # noqa: ARG001 - part of the key
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
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    spans: dict[int, Span] = {}
    nodes: list[ast.AST] = [tree]
    while nodes:
        for child in ast.iter_child_nodes(nodes.pop()):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                span = _span_of(child)
                spans[span.first] = spans[span.head] = span
            if not isinstance(child, ast.expr):
                nodes.append(child)
    return spans


def _span_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Span:
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    last = node.end_lineno or node.lineno
    body = node.body[0].lineno if node.body else last
    parameters = {}
    if not isinstance(node, ast.ClassDef):
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        parameters = {item.arg: item.lineno for item in arguments}
    return Span(first, node.lineno, body, last, parameters)


# --- settings -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """A code and a glob of the tools it applies to: `undocumented-result:shop_*`."""

    code: str
    tools: str = "*"

    @classmethod
    def parse(cls, text: str) -> Choice:
        code, _, tools = text.partition(":")
        return cls(code.strip().lower(), tools.strip() or "*")

    def matches(self, finding: Finding) -> bool:
        return self.code == finding.code and (
            self.tools == "*" or fnmatchcase(finding.tool or "", self.tools)
        )


def can_be_ignored(finding: Finding) -> bool:
    return finding.level != "error" or finding.code in load_rules()


def is_chosen(finding: Finding, choices: Sequence[Choice]) -> bool:
    return any(choice.matches(finding) for choice in choices)


def find_unknown_codes(codes: Iterable[str], file: str | None, line: int | None) -> Iterator[Finding]:
    """Yield a finding for each code that no rule has."""
    for code in codes:
        if not is_known(code):
            rule = RULES["unknown-rule"]
            hint = suggest(code, load_rules(), rule.fix)
            yield Finding(rule.code, rule.level, f"Unknown rule '{code}'", file=file, line=line, hint=hint)


# --- comments -----------------------------------------------------------------------------------------

_COMMENT = re.compile(r"#\s*toolcrib:\s*ignore\b(?:\[(?P<codes>[^\]]*)\]?)?", re.IGNORECASE)


@dataclass(slots=True)
class IgnoreComment:
    """One comment; without codes it ignores everything."""

    line: int
    codes: frozenset[str]
    used: set[str] = field(default_factory=set)


class IgnoreComments:
    """The ignore comments of all files with findings or tools; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, dict[int, IgnoreComment]] = {}

    def read(self, file: str) -> dict[int, IgnoreComment]:
        """Return the comments of a file by line."""
        comments = self._files.get(file)
        if comments is None:
            source = read_source(file)
            comments = self._files[file] = {} if source is None else _read_comments(source)
        return comments

    def ignore(self, finding: Finding, tool_line: int | None) -> bool:
        """Tell whether a comment on the finding's line, or at the head of its tool, ignores it."""
        if finding.file is None or not (comments := self.read(finding.file)):
            return False
        lines = {finding.line, tool_line}
        source = read_source(finding.file)
        span = source.spans.get(tool_line) if source is not None and tool_line else None
        if span is not None:
            lines.update(range(span.first, max(span.head + 1, span.body)))  # decorators and signature
        for line in lines:
            comment = comments.get(line or 0)
            if comment is not None and (not comment.codes or finding.code in comment.codes):
                comment.used.add(finding.code)
                return True
        return False

    def find_problems(self) -> Iterator[Finding]:
        """Yield findings about the comments: unknown codes, and codes that ignore nothing."""
        rule = RULES["idle-ignore"]
        for file, comments in self._files.items():
            for comment in comments.values():
                yield from find_unknown_codes(sorted(comment.codes), file, comment.line)
                unused = sorted(code for code in comment.codes - comment.used if is_known(code))
                if unused or not (comment.codes or comment.used):
                    what = f"{', '.join(unused)} findings" if unused else "findings"
                    message = f"There are no {what} to ignore here"
                    yield Finding(rule.code, rule.level, message, file=file, line=comment.line, hint=rule.fix)


def _read_comments(source: SourceText) -> dict[int, IgnoreComment]:
    if not any("toolcrib:" in line for line in source.lines):
        return {}
    comments = {}
    for line, text in _list_comments(source):
        found = _COMMENT.search(text)
        if found is not None:
            codes = (item.strip().lower() for item in (found["codes"] or "").split(","))
            comments[line] = IgnoreComment(line, frozenset(code for code in codes if code))
    return comments


def _list_comments(source: SourceText) -> Iterator[tuple[int, str]]:
    """Yield the comments of Python source, so that a docstring which shows one has no effect."""
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
