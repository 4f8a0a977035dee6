"""Tables and reports for people: lists of tools, details of one tool, findings.

Names and descriptions are untrusted text; the table and the terminal escape it. Time and memory are linear in
the size of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import le
from typing import Any

from toolcrib.cli.output import Terminal, format_source, shorten_paths
from toolcrib.cli.text import (
    Styled,
    cut,
    first_line,
    fit_columns,
    list_annotations,
    list_parameters,
    one_line,
    safe,
    signature,
    style,
    type_name,
    width_of,
)
from toolcrib.errors import Finding
from toolcrib.tool import Tool

MIN_WIDTH = 8
"""Columns that are wrapped keep at least this width."""
GAP = "  "
NO_BREAK = "\u00a0"
"""A blank at which a line is not broken."""
_BLANKS = re.compile(" *")

Style = Mapping[str, Any]
PLAIN: Style = {}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; one that does not wrap shrinks last."""

    heading: str = ""
    wraps: bool = True
    style: Style = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with a style of its own."""

    text: str
    style: Style


def wrap(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line of a text wrapped at blanks; longer words are broken."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield from _wrap_line(text, start, end, width)
        start = end + 1


def _wrap_line(text: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    while True:
        stop = min(fit_columns(text, start, width), end)
        if stop == end:
            yield start, end
            return
        cut = stop if text[stop] == " " else text.rfind(" ", start, stop)
        cut = cut if cut > start else stop
        yield start, cut
        start = _skip_blanks(text, cut)
        if start >= end:
            return


def _skip_blanks(text: str, start: int) -> int:
    found = _BLANKS.match(text, start)
    return start if found is None else found.end()


def wrap_text(text: object, width: int) -> list[str]:
    """Return the lines of a text, escaped and wrapped."""
    escaped = _escape(text)
    return [escaped[start:stop].rstrip(" ") for start, stop in wrap(escaped, width)]


def _escape(text: object) -> str:
    escaped = safe(text)
    return escaped.expandtabs() if "\t" in escaped else escaped


def format_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], width: int, colour: bool
) -> Styled:
    """Return a table that is as wide as necessary, and at most as wide as the terminal."""
    styles: list[list[Style]] = []
    cells: list[list[str]] = []
    if any(column.heading for column in columns):
        cells.append([column.heading for column in columns])
        styles.append([{"bold": True}] * len(columns))
    plain = [column.style for column in columns]
    for row in rows:
        cells.append([_escape(cell.text if isinstance(cell, Cell) else cell) for cell in row])
        has_own = any(isinstance(cell, Cell) for cell in row)
        styles.append(
            [cell.style if isinstance(cell, Cell) else how for cell, how in zip(row, plain, strict=True)]
            if has_own
            else plain
        )
    sizes = [list(map(_line_width, row)) for row in cells]
    widths = _column_widths(columns, sizes, width)
    lines: list[str] = []
    for row_cells, row_sizes, row_styles in zip(cells, sizes, styles, strict=True):
        if not colour and all(map(le, row_sizes, widths)):  # the usual row of a long list
            line = GAP.join(map(_pad, row_cells, row_sizes, widths))
            if "\n" not in line:
                lines.append(line.rstrip(" "))
                continue
        lines += _format_row(row_cells, widths, row_styles if colour else None)
    return Styled("\n".join(lines).replace(NO_BREAK, " "))


def _column_widths(columns: Sequence[Column], sizes: Sequence[Sequence[int]], width: int) -> list[int]:
    """Return the widths of the columns. Where space is short, columns that wrap shrink first, the widest
    before the others; the rest only if that is not enough."""
    wanted = [max((row[index] for row in sizes), default=0) for index in range(len(columns))]
    room = width - len(GAP) * (len(columns) - 1)
    wrapped = [size for size, column in zip(wanted, columns, strict=True) if column.wraps]
    others = [size for size, column in zip(wanted, columns, strict=True) if not column.wraps]
    most_other = _widest_allowed(others, room - sum(min(size, MIN_WIDTH) for size in wrapped))
    most = _widest_allowed(wrapped, room - sum(min(size, most_other) for size in others))
    return [
        min(size, most if column.wraps else most_other) for size, column in zip(wanted, columns, strict=True)
    ]


def _widest_allowed(sizes: Sequence[int], room: int) -> int:
    """Return the largest width allowed for each, so that all of them fit into `room` columns."""
    most = 0
    for index, size in enumerate(sorted(sizes)):
        most = max(MIN_WIDTH, room // (len(sizes) - index))
        if size > most:
            break
        room -= size
        most = size
    return most


def _line_width(cell: str) -> int:
    if "\n" in cell:
        return max(map(width_of, cell.split("\n")))
    return width_of(cell)


def _format_row(cells: Sequence[str], widths: Sequence[int], styles: Sequence[Style] | None) -> list[str]:
    pieces = [
        [cell[start:stop] for start, stop in wrap(cell, max(width, 1))]
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for number in range(max(map(len, pieces))):
        parts, padding = [], 0  # padding is written only when a cell follows
        for index, (column, width) in enumerate(zip(pieces, widths, strict=True)):
            text = column[number].rstrip(" ") if number < len(column) else ""
            if text:
                how = styles[index] if styles is not None else PLAIN
                parts.append(" " * padding + (style(text, **how) if how else text))
                padding = 0
            padding += max(0, width - width_of(text)) + len(GAP)
        lines.append("".join(parts))
    return lines


def _pad(cell: str, size: int, width: int) -> str:
    return cell + " " * (width - size)


# --- tools and findings ----------------------------------------------------------------------------------

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
_MAX_NAME = 30

Piece = tuple[str, Style]


def break_name(name: str, width: int = _MAX_NAME) -> str:
    """Break a long name into lines after underscores."""
    lines = [""]
    for part in name.replace("_", "_\n").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def print_tools(tools: Sequence[Tool], terminal: Terminal, *, with_source: bool = False) -> None:
    """Print name, first line of the description and parameters; with file and line where asked for."""
    columns = [Column("NAME", wraps=False, style=_NAME), Column("DESCRIPTION"), Column("PARAMETERS")]
    if with_source:
        columns.append(Column("SOURCE", style=_DIM))

    def row(tool: Tool) -> list[str]:
        definition = tool.definition
        parameters = signature(definition).replace(": ", f":{NO_BREAK}") or "-"
        cells = [break_name(cut(definition.name)), first_line(definition) or "-", parameters]
        return [*cells, format_source(tool.source)] if with_source else cells

    _print_table(columns, map(row, tools), terminal)


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]], terminal: Terminal) -> None:
    """Print rows under headings; the first column is not wrapped."""
    first, *others = headings
    _print_table((Column(first, wraps=False, style=_NAME), *map(Column, others)), rows, terminal)


def print_groups(groups: Iterable[tuple[str, Sequence[Finding]]], summary: str, terminal: Terminal) -> None:
    """Print findings under headings, then a summary."""
    for heading, findings in groups:
        terminal.echo(terminal.style_out(f"{heading}:", **_LEVELS[findings[0].level]))
        for finding, following in zip(findings, [*findings[1:], None], strict=True):
            pieces = [(_place(finding), _BOLD), (finding.message, PLAIN)]
            is_last_with_hint = following is None or following.hint != finding.hint
            _print_finding(pieces, finding.hint if is_last_with_hint else None, terminal, indent=2)
        terminal.echo("")
    terminal.echo(summary)


def print_report(
    rows: Iterable[tuple[str, str, str]], findings: Sequence[Finding], summary: str, terminal: Terminal
) -> None:
    """Print tools with their state, then findings with hints, then a summary."""
    cells = [(Cell(state, _STATES[state]), break_name(safe(name)), place) for state, name, place in rows]
    if cells:
        _print_table((Column(wraps=False), Column(wraps=False), Column(style=_DIM)), cells, terminal)
        terminal.echo("")
    for finding in findings:
        level = (f"{finding.level}: ", _LEVELS[finding.level])
        pieces = [(_place(finding), _BOLD), level, (finding.message, PLAIN), (f" [{finding.code}]", _DIM)]
        _print_finding(pieces, finding.hint, terminal, indent=0)
    terminal.echo(f"\n{summary}" if findings else summary)


def _place(finding: Finding) -> str:
    return f"{format_source(finding.where)}: " if finding.file else ""


def _print_finding(pieces: Sequence[Piece], hint: str | None, terminal: Terminal, *, indent: int) -> None:
    _print_paragraph(pieces, terminal, indent=indent)
    if hint:
        _print_paragraph([("hint: ", _HINT), (hint, PLAIN)], terminal, indent=4)


def print_tool(tool: Tool, timeout_s: float | None, terminal: Terminal) -> None:
    """Print all details of one tool."""
    definition = tool.definition
    title = f"  {one_line(definition.title)}" if definition.title else ""
    terminal.echo(terminal.style_out(one_line(definition.name), **_NAME), title)
    lines = wrap_text(definition.description or "(no description)", terminal.width - 2)
    terminal.echo("\n".join(f"  {line}" if line else "" for line in lines), "\n\n")
    _print_parameters(tool, terminal)
    output = definition.output_schema
    returns = type_name(output, output) if output is not None else "text or content"
    description = definition.returns or (output or {}).get("description", "")
    run = tool.options.run
    details = {
        "Result": f"{returns}: {description}" if description and output is not None else returns,
        "Hints": list_annotations(definition),
        "Tags": ", ".join(definition.tags),
        "Version": definition.version or "",
        "Group": tool.options.group or "",
        "Aliases": ", ".join(tool.options.aliases),
        "Full name": tool.long_name or "",
        "Source": format_source(tool.source),
        "Runs": {"auto": "event loop" if tool.is_async else "thread"}.get(run, run),
        "Timeout": f"{timeout_s:g} s" if timeout_s is not None else "none",
        "Fingerprint": definition.fingerprint,
    }
    columns = (Column(wraps=False, style=_BOLD), Column())
    _print_table(columns, [(label, value) for label, value in details.items() if value], terminal)


def _print_parameters(tool: Tool, terminal: Terminal) -> None:
    parameters = list_parameters(tool.definition)
    if not parameters:
        terminal.echo("No parameters.\n\n")
        return
    columns = (Column("PARAMETER", style={"fg": "green"}), Column("TYPE"), Column(), Column("DESCRIPTION"))
    _print_table(columns, parameters, terminal)
    terminal.echo("")


def _print_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], terminal: Terminal) -> None:
    terminal.echo(format_table(columns, rows, terminal.width, terminal.out_colour))


def _print_paragraph(pieces: Sequence[Piece], terminal: Terminal, *, indent: int) -> None:
    """Print text with a hanging indent on a terminal, on one line for a program."""
    escaped = [(safe(shorten_paths(text)), how) for text, how in pieces]
    text = "".join(part for part, _ in escaped)
    if not terminal.out.isatty():
        terminal.echo(" " * indent, text)
        return
    lines = wrap(text, terminal.width - indent - (0 if indent else 4))
    for number, (start, stop) in enumerate(lines):
        shown = _slice(escaped, start, stop) if terminal.out_colour else [text[start:stop]]
        terminal.echo(" " * (indent or (4 if number else 0)), *shown)


def _slice(pieces: Sequence[Piece], start: int, stop: int) -> list[str]:
    """Return the part of styled text between two positions."""
    parts: list[str] = []
    for text, how in pieces:
        part = text[max(start, 0) : max(stop, 0)]
        if part:
            parts.append(style(part, **how) if how else part)
        start, stop = start - len(text), stop - len(text)
    return parts
