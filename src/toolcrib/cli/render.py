"""Pages for people: lists of tools, everything about one tool, reports of findings.

Names, descriptions and the like are foreign text: the table and the terminal escape it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcrib.cli.escaping import one_line, safe, style
from toolcrib.cli.table import HOLD, PLAIN, Cell, Column, Style, lay_out, wrap, wrap_text
from toolcrib.cli.terminal import Terminal, shorten_paths, show_place
from toolcrib.cli.words import first_line, hints_of, name_type, parameters_of, short_name, sign
from toolcrib.finding import Finding
from toolcrib.tool import Tool

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
