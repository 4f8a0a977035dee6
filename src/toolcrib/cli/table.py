"""Lines and tables that fit a terminal. Time and memory grow with the size of the text and no faster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import le
from typing import Any

from toolcrib.cli.escaping import Styled, fit, safe, style, width_of

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
