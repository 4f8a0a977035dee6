"""Opt-outs: comments in the source, and `code` or `code:TOOL` in settings and on the command line.

    # toolcrib: ignore[long-description]     on the line of a decorator, of the def, or of the finding
    # toolcrib: ignore                       everything about that tool

Knows findings by code, tool and line. Refuses to hide that a tool was refused: that is no question of taste.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from toolcrib.catalog.lint.places import SourceText, Span, read_source
from toolcrib.catalog.lint.table import RULES, is_known
from toolcrib.finding import Finding

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
