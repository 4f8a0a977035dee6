"""Changes of a catalog in words: for people at a terminal, and as Markdown for a review.

Names, descriptions and values are another's text. At a terminal nothing in them can steer it; in Markdown
they stand in code spans, where nothing is a link, a mention or markup. Knows words; compares nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from toolcrib.catalog.compare import GRADES, Change, Comparison
from toolcrib.cli.escaping import Styled, join, one_line, style
from toolcrib.cli.terminal import Terminal, show_place
from toolcrib.cli.words import count

_COLOURS = {"suspicious": "magenta", "breaking": "red", "compatible": "green", "cosmetic": "cyan"}
_WIDTH = max(map(len, GRADES))
_MOST_IN_REVIEW = 300


def say_changes(comparison: Comparison, terminal: Terminal) -> None:
    """Every change on stderr, and the sum."""
    for line in _lines(comparison, terminal.err_colour):
        terminal.put(line)


def print_changes(comparison: Comparison, terminal: Terminal) -> None:
    """Every change on stdout, and the sum."""
    for line in _lines(comparison, terminal.out_colour):
        terminal.data(line)


def _lines(comparison: Comparison, colour: bool) -> Iterator[Styled]:
    for tool, changes in groupby(comparison.changes, key=lambda change: change.tool):
        several = list(changes)
        place = show_place(several[0].source)
        yield join(_style(one_line(tool), colour, bold=True), f"  {place}" if place != "-" else "")
        for change in several:
            grade = _style(change.grade.ljust(_WIDTH), colour, fg=_COLOURS[change.grade])
            yield join("  ", grade, "  ", one_line(change.message))
            yield from (join(f"  {' ' * _WIDTH}    {text}") for text in _details(change))
        yield join()
    yield join(sum_up(comparison))


def _details(change: Change) -> Iterator[str]:
    if change.pointer and (change.old is not None or change.new is not None):
        yield f"at {one_line(change.pointer)}"
    if change.old is not None:
        yield f"- {one_line(change.old)}"
    if change.new is not None:
        yield f"+ {one_line(change.new)}"


def _style(text: str, colour: bool, **how: Any) -> str:
    return style(text, **how) if colour else text


def sum_up(comparison: Comparison) -> str:
    """How much of what, and what it means for a version."""
    if not comparison.changes:
        return f"No changes: {count(comparison.after, 'tool')}."
    counts = ", ".join(f"{number} {grade}" for grade, number in comparison.counts.items() if number)
    tools = count(len(comparison.tools), "tool")
    advice = f"the next version is a {comparison.advice} one"
    if comparison.counts["suspicious"]:
        advice = f"look at what is suspicious first; then {advice}"
    return f"{tools} changed ({comparison.before} before, {comparison.after} after): {counts}; {advice}."


# --- Markdown --------------------------------------------------------------------------------------------


def to_markdown(comparison: Comparison, old: str, new: str) -> str:
    """The changes as a comment on a pull request."""
    lines = [f"### Tools: {code(old)} → {code(new)}", "", sum_up(comparison)]
    shown = comparison.changes[:_MOST_IN_REVIEW]
    for tool, changes in groupby(shown, key=lambda change: change.tool):
        several = list(changes)
        place = show_place(several[0].source)
        lines += ["", f"**{code(tool)}**{f' ({code(place)})' if place != '-' else ''}", ""]
        for change in several:
            message = change.template.format(*(code(name) for name in change.names))
            lines.append(f"- **{change.grade}**: {message}")
            lines += [
                f"  - {sign} {code(text)}" for sign, text in (("was", change.old), ("is", change.new)) if text
            ]
    if len(comparison.changes) > len(shown):
        lines += ["", f"And {len(comparison.changes) - len(shown)} more."]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Another's text as a code span that it cannot get out of."""
    plain = one_line(text) or " "
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or plain.startswith(" ") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"
