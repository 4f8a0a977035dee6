"""The chart: panels of bars, as text for a terminal or as SVG for a page. Knows not what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.lines import OURS, Bar, Panel, quotient, show, three_digits

WIDTH = 40
_COLOURS = ("#0f766e", "#94a3b8")  # ours, theirs
_ROW, _HEAD, _LEFT, _RIGHT, _BARS = 22, 34, 130, 150, 420


def text(panels: Sequence[Panel]) -> str:
    """All panels as plain text; bars are drawn to one scale within a panel."""
    return "\n".join(_text_of(panel) for panel in panels)


def _text_of(panel: Panel) -> str:
    longest = max((bar.value or 0 for bar in panel.bars), default=0)
    cells = [("", panel.measure, "ratio", *panel.notes)]
    cells += [(bar.name, show(bar.value, panel.unit), _ratio(panel, bar), *bar.notes) for bar in panel.bars]
    columns = max(len(row) for row in cells)
    cells = [row + ("",) * (columns - len(row)) for row in cells]
    widths = [max(len(row[column]) for row in cells) for column in range(columns)]
    lines = ["", panel.title]
    for row, bar in zip(cells, [None, *panel.bars], strict=True):
        shown = "  ".join(
            f"{cell:{'>' if column else '<'}{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        blocks = "#" * max(1, round(WIDTH * bar.value / longest)) if bar and bar.value else ""
        lines.append(f"  {shown}  {blocks}".rstrip())
    return "\n".join(lines)


def _ratio(panel: Panel, bar: Bar) -> str:
    """How many times better we are than this one."""
    ours = next((other.value for other in panel.bars if other.name == OURS), None)
    ratio = quotient(ours, bar.value) if panel.unit == "rate" else quotient(bar.value, ours)
    return "-" if ratio is None else f"{three_digits(ratio)}x"


def svg(panels: Sequence[Panel], caption: str = "") -> str:
    """All panels in one picture, one below the other."""
    width = _LEFT + _BARS + _RIGHT
    parts: list[str] = []
    y = 24 if caption else 8
    if caption:
        parts.append(_words(8, 16, caption, "start", "#64748b", 11))
    for panel in panels:
        longest = max((bar.value or 0 for bar in panel.bars), default=0) or 1
        title = f"{panel.title}: {panel.measure} ({'more' if panel.unit == 'rate' else 'less'} is better)"
        parts.append(_words(8, y + 20, title, "start", "#0f172a", 13))
        y += _HEAD
        for bar in panel.bars:
            is_ours = bar.name.startswith(OURS)
            parts.append(_words(_LEFT - 8, y + 15, bar.name, "end", "#334155", 12))
            if bar.value is not None:
                length = max(2.0, _BARS * bar.value / longest)
                colour = _COLOURS[0 if is_ours else 1]
                parts.append(
                    f'<rect x="{_LEFT}" y="{y + 3}" width="{length:.1f}" height="16" rx="2" fill="{colour}"/>'
                )
                label = f"{show(bar.value, panel.unit)}  {_ratio(panel, bar)}"
                parts.append(_words(_LEFT + length + 6, y + 15, label, "start", "#334155", 12))
            else:
                parts.append(_words(_LEFT, y + 15, "not measured", "start", "#94a3b8", 12))
            y += _ROW
        y += 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" viewBox="0 0 {width} {y}">'
    background = f'<rect width="{width}" height="{y}" fill="#ffffff"/>'
    return "\n".join([head, background, *parts, "</svg>", ""])


def _words(x: float, y: float, words: str, anchor: str, colour: str, size: int) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-family="system-ui, sans-serif" font-size="{size}">{escape(words)}</text>'
    )
