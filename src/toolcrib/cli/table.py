"""Pages for people: lists of tools, everything about one tool, reports of findings.

Names, descriptions and the like are foreign text: the table and the terminal escape it.

Lines and tables that fit a terminal. Time and memory grow with the size of the text and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import le
from typing import Any

from toolcrib.cli.output import Terminal, shorten_paths, show_place
from toolcrib.cli.text import (
    Styled,
    first_line,
    fit,
    hints_of,
    name_type,
    one_line,
    parameters_of,
    safe,
    short_name,
    sign,
    style,
    width_of,
)
from toolcrib.errors import Finding
from toolcrib.tool import Tool

NARROWEST = 8
"""What a column that is wrapped is left with, however little room there is."""
GAP = "  "
HOLD = "\u00a0"
"""Stands for a blank where a line must not be broken."""
_BLANKS = re.compile(" *")

Style = Mapping[str, Any]
PLAIN: Style = {}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, whether its cells are wrapped before others, and how they look."""

    heading: str = ""
    wraps: bool = True
    style: Style = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that looks different from its column."""

    text: str
    style: Style


def wrap(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Where the lines of a text begin and end, broken at blanks; a longer word is broken where it must be."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield from _wrap_line(text, start, end, width)
        start = end + 1


def _wrap_line(text: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    while True:
        stop = min(fit(text, start, width), end)
        if stop == end:
            yield start, end
            return
        cut = stop if text[stop] == " " else text.rfind(" ", start, stop)
        cut = cut if cut > start else stop
        yield start, cut
        start = _next_word(text, cut)
        if start >= end:
            return


def _next_word(text: str, start: int) -> int:
    found = _BLANKS.match(text, start)
    return start if found is None else found.end()


def wrap_text(text: object, width: int) -> list[str]:
    """The lines of a text, escaped."""
    words = _prepare(text)
    return [words[start:stop].rstrip(" ") for start, stop in wrap(words, width)]


def _prepare(text: object) -> str:
    words = safe(text)
    return words.expandtabs() if "\t" in words else words


def lay_out(
    columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], width: int, colour: bool
) -> Styled:
    """A table, as wide as it has to be and not wider than the terminal."""
    styles: list[list[Style]] = []
    cells: list[list[str]] = []
    if any(column.heading for column in columns):
        cells.append([column.heading for column in columns])
        styles.append([{"bold": True}] * len(columns))
    plain = [column.style for column in columns]
    for row in rows:
        cells.append([_prepare(cell.text if isinstance(cell, Cell) else cell) for cell in row])
        has_own = any(isinstance(cell, Cell) for cell in row)
        styles.append(
            [cell.style if isinstance(cell, Cell) else look for cell, look in zip(row, plain, strict=True)]
            if has_own
            else plain
        )
    sizes = [list(map(_widest_line, row)) for row in cells]
    widths = _share(columns, sizes, width)
    lines: list[str] = []
    for row_cells, row_sizes, row_styles in zip(cells, sizes, styles, strict=True):
        if not colour and all(map(le, row_sizes, widths)):  # as nearly all rows of a long list
            line = GAP.join(map(_pad, row_cells, row_sizes, widths))
            if "\n" not in line:
                lines.append(line.rstrip(" "))
                continue
        lines += _lay_out_row(row_cells, widths, row_styles if colour else None)
    return Styled("\n".join(lines).replace(HOLD, " "))


def _share(columns: Sequence[Column], sizes: Sequence[Sequence[int]], width: int) -> list[int]:
    """The widths of the columns: where there is too little room, those that wrap give way, the widest first;
    the others only where that is not enough."""
    wanted = [max((row[index] for row in sizes), default=0) for index in range(len(columns))]
    room = width - len(GAP) * (len(columns) - 1)
    wrapped = [size for size, column in zip(wanted, columns, strict=True) if column.wraps]
    others = [size for size, column in zip(wanted, columns, strict=True) if not column.wraps]
    most_other = _fill(others, room - sum(min(size, NARROWEST) for size in wrapped))
    most = _fill(wrapped, room - sum(min(size, most_other) for size in others))
    return [
        min(size, most if column.wraps else most_other) for size, column in zip(wanted, columns, strict=True)
    ]


def _fill(sizes: Sequence[int], room: int) -> int:
    """How wide the widest may be, so that all of them fit into the room."""
    most = 0
    for index, size in enumerate(sorted(sizes)):
        most = max(NARROWEST, room // (len(sizes) - index))
        if size > most:
            break
        room -= size
        most = size
    return most


def _widest_line(cell: str) -> int:
    if "\n" in cell:
        return max(map(width_of, cell.split("\n")))
    return width_of(cell)


def _lay_out_row(cells: Sequence[str], widths: Sequence[int], styles: Sequence[Style] | None) -> list[str]:
    pieces = [
        [cell[start:stop] for start, stop in wrap(cell, max(width, 1))]
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for number in range(max(map(len, pieces))):
        parts, rest = [], 0  # what was left out before, because nothing may follow
        for index, (column, width) in enumerate(zip(pieces, widths, strict=True)):
            text = column[number].rstrip(" ") if number < len(column) else ""
            if text:
                look = styles[index] if styles is not None else PLAIN
                parts.append(" " * rest + (style(text, **look) if look else text))
                rest = 0
            rest += max(0, width - width_of(text)) + len(GAP)
        lines.append("".join(parts))
    return lines


def _pad(cell: str, size: int, width: int) -> str:
    return cell + " " * (width - size)


_LEVELS: dict[str, Style] = {
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "advice": {"fg": "cyan", "bold": True},
}
_STATES: dict[str, Style] = {
    "ok": {"fg": "green"},
    "off": {"dim": True},
    "refused": {"fg": "red", "bold": True},
}
_NAME: Style = {"fg": "green", "bold": True}
_DIM: Style = {"dim": True}
_BOLD: Style = {"bold": True}
_HINT: Style = {"fg": "cyan"}
_LONGEST_NAME = 30

Piece = tuple[str, Style]


def break_name(name: str, width: int = _LONGEST_NAME) -> str:
    """A long name on several lines, broken behind underscores; a short one as it is."""
    lines = [""]
    for part in name.replace("_", "_\n").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def list_tools(tools: Sequence[Tool], terminal: Terminal) -> None:
    """Name, first line of the description, parameters."""
    columns = (Column("NAME", wraps=False, style=_NAME), Column("DESCRIPTION"), Column("PARAMETERS"))
    _print_table(columns, (_describe(tool) for tool in tools), terminal)


def list_places(tools: Sequence[Tool], terminal: Terminal) -> None:
    """Name, first line of the description, parameters, file and line."""
    columns = (
        Column("NAME", wraps=False, style=_NAME),
        Column("DESCRIPTION"),
        Column("PARAMETERS"),
        Column("WHERE", style=_DIM),
    )
    _print_table(columns, ((*_describe(tool), show_place(tool.source)) for tool in tools), terminal)


def _describe(tool: Tool) -> tuple[str, str, str]:
    definition = tool.definition
    parameters = sign(definition).replace(": ", f":{HOLD}") or "-"
    return break_name(short_name(definition)), first_line(definition) or "-", parameters


def list_rows(headings: Sequence[str], rows: Iterable[Sequence[str]], terminal: Terminal) -> None:
    """Rows of words under headings; what comes first in each is not broken."""
    first, *others = headings
    columns = (Column(first, wraps=False, style=_NAME), *map(Column, others))
    _print_table(columns, rows, terminal)


def report_groups(groups: Iterable[tuple[str, Sequence[Finding]]], summary: str, terminal: Terminal) -> None:
    """Findings under headings, one line in sum."""
    for heading, findings in groups:
        terminal.data(terminal.style_out(f"{heading}:", **_LEVELS[findings[0].level]))
        for finding, following in zip(findings, [*findings[1:], None], strict=True):
            place = f"{show_place(finding.where)}: " if finding.file else ""
            _print_paragraph([(place, _BOLD), (finding.message, PLAIN)], terminal, indent=2)
            if finding.hint and (following is None or following.hint != finding.hint):
                _print_paragraph([("hint: ", _HINT), (finding.hint, PLAIN)], terminal, indent=4)
        terminal.data("")
    terminal.data(summary)


def report(
    rows: Iterable[tuple[str, str, str]], findings: Sequence[Finding], summary: str, terminal: Terminal
) -> None:
    """What `check` has to say: each tool with its state, each finding with a way out, one line in sum."""
    cells = [(Cell(state, _STATES[state]), break_name(safe(name)), place) for state, name, place in rows]
    if cells:
        columns = (Column(wraps=False), Column(wraps=False), Column(style=_DIM))
        _print_table(columns, cells, terminal)
        terminal.data("")
    for finding in findings:
        place = f"{show_place(finding.where)}: " if finding.file else ""
        level = (f"{finding.level}: ", _LEVELS[finding.level])
        words = [(place, _BOLD), level, (finding.message, PLAIN), (f" [{finding.code}]", _DIM)]
        _print_paragraph(words, terminal, indent=0)
        if finding.hint:
            _print_paragraph([("hint: ", _HINT), (finding.hint, PLAIN)], terminal, indent=4)
    terminal.data(f"\n{summary}" if findings else summary)


def show_tool(tool: Tool, limit_s: float | None, terminal: Terminal) -> None:
    """Everything about one tool."""
    definition = tool.definition
    title = f"  {one_line(definition.title)}" if definition.title else ""
    terminal.data(terminal.style_out(one_line(definition.name), **_NAME), title)
    lines = wrap_text(definition.description or "(no description)", terminal.width - 2)
    terminal.data("\n".join(f"  {line}" if line else "" for line in lines), "\n\n")
    _show_parameters(tool, terminal)
    output = definition.output_schema
    returns = name_type(output, output) if output is not None else "text or content"
    words = definition.returns or (output or {}).get("description", "")
    run = tool.options.run
    how = {"auto": "event loop" if tool.is_async else "thread", "inline": "inline"}.get(run, run)
    facts = {
        "Result": f"{returns}: {words}" if words and output is not None else returns,
        "Hints": hints_of(definition),
        "Tags": ", ".join(definition.tags),
        "Version": definition.version or "",
        "Group": tool.options.group or "",
        "Aliases": ", ".join(tool.options.aliases),
        "Full name": tool.long_name or "",
        "Source": show_place(tool.source),
        "Runs": how,
        "Timeout": f"{limit_s:g} s" if limit_s is not None else "none",
        "Fingerprint": definition.fingerprint,
    }
    columns = (Column(wraps=False, style=_BOLD), Column())
    _print_table(columns, [(label, value) for label, value in facts.items() if value], terminal)


def _show_parameters(tool: Tool, terminal: Terminal) -> None:
    parameters = parameters_of(tool.definition)
    if not parameters:
        terminal.data("It takes no parameters.\n\n")
        return
    rows = []
    for item in parameters:
        need = "required" if item.is_required else f"default {item.default}" if item.default else "optional"
        rows.append((item.name, item.type, need, item.description or "-"))
    columns = (Column("PARAMETER", style={"fg": "green"}), Column("TYPE"), Column(), Column("DESCRIPTION"))
    _print_table(columns, rows, terminal)
    terminal.data("")


def _print_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], terminal: Terminal) -> None:
    terminal.data(lay_out(columns, rows, terminal.width, terminal.out_colour))


def _print_paragraph(pieces: Sequence[Piece], terminal: Terminal, *, indent: int) -> None:
    """Words under a hanging indent on a terminal; one line each for a program that looks for them."""
    escaped = [(safe(shorten_paths(text)), look) for text, look in pieces]
    text = "".join(words for words, _ in escaped)
    if not terminal.out.isatty():
        terminal.data(" " * indent, text)
        return
    lines = wrap(text, terminal.width - indent - (0 if indent else 4))
    for number, (start, stop) in enumerate(lines):
        shown = _slice(escaped, start, stop) if terminal.out_colour else [text[start:stop]]
        terminal.data(" " * (indent or (4 if number else 0)), *shown)


def _slice(pieces: Sequence[Piece], start: int, stop: int) -> list[str]:
    """The part of styled text between two places."""
    parts: list[str] = []
    for text, look in pieces:
        part = text[max(start, 0) : max(stop, 0)]
        if part:
            parts.append(style(part, **look) if look else part)
        start, stop = start - len(text), stop - len(text)
    return parts
