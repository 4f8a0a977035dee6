"""Tables and colours for people; the only module that imports rich, and loaded only when somebody looks.

Knows how a page looks. Everything it is given is foreign text: nothing is read as markup, and what could
steer a terminal was written out before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolcrib.cli.terminal import Terminal, safe, shorten_paths, show_place
from toolcrib.cli.words import first_line, hints_of, name_type, parameters_of, sign
from toolcrib.finding import Finding
from toolcrib.tool import Tool

_LEVELS = {"error": "bold red", "warning": "bold yellow", "advice": "bold cyan"}
_STATES = {"ok": "green", "off": "dim", "refused": "bold red"}
_LONGEST_NAME = 30
_HOLD = "\ue000"  # stands for a blank where a line must not be broken


def _console(terminal: Terminal) -> Console:
    return Console(
        file=terminal.out,
        width=terminal.width,
        force_terminal=terminal.out_colour,
        no_color=not terminal.out_colour,
        color_system="standard" if terminal.out_colour else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(headers))
    for header in headers:
        table.add_column(header, header_style="bold", overflow="fold")
    return table


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
    table = _table("NAME", "DESCRIPTION", "PARAMETERS")
    table.columns[0].no_wrap = True
    table.columns[0].style = "bold green"
    for tool in tools:
        definition = tool.definition
        parameters = sign(definition).replace(": ", f":{_HOLD}") or "-"
        table.add_row(Text(break_name(tool.name)), Text(first_line(definition) or "-"), Text(parameters))
    _print(table, terminal)


def list_places(tools: Sequence[Tool], terminal: Terminal) -> None:
    """Name, first line of the description, parameters, file and line."""
    table = _table("NAME", "DESCRIPTION", "PARAMETERS", "WHERE")
    table.columns[0].no_wrap = True
    table.columns[0].style = "bold green"
    table.columns[3].style = "dim"
    for tool in tools:
        definition = tool.definition
        parameters = sign(definition).replace(": ", f":{_HOLD}") or "-"
        words = Text(first_line(definition) or "-")
        table.add_row(Text(break_name(tool.name)), words, Text(parameters), Text(show_place(tool.source)))
    _print(table, terminal)


def list_rows(headings: Sequence[str], rows: Iterable[Sequence[str]], terminal: Terminal) -> None:
    """Rows of words under headings; what comes first in each is not broken."""
    table = _table(*headings)
    table.columns[0].no_wrap = True
    table.columns[0].style = "bold green"
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    _print(table, terminal)


def report_groups(groups: Iterable[tuple[str, Sequence[Finding]]], summary: str, terminal: Terminal) -> None:
    """Findings under headings, one line in sum."""
    console = _console(terminal)
    for heading, findings in groups:
        console.print(Text(f"{heading}:", style=_LEVELS[findings[0].level]), soft_wrap=True)
        for finding, following in zip(findings, [*findings[1:], None], strict=True):
            place = f"{show_place(finding.where)}: " if finding.file else ""
            line = Text.assemble((place, "bold"), safe(shorten_paths(finding.message)))
            _paragraph(line, console, terminal, indent=2)
            if finding.hint and (following is None or following.hint != finding.hint):
                hint = Text.assemble(("hint: ", "cyan"), safe(shorten_paths(finding.hint)))
                _paragraph(hint, console, terminal, indent=4)
        terminal.data("")
    terminal.data(summary)


def report(
    rows: Iterable[tuple[str, str, str]], findings: Sequence[Finding], summary: str, terminal: Terminal
) -> None:
    """What `check` has to say: each tool with its state, each finding with a way out, one line in sum."""
    table = _table("", "", "")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for state, name, place in rows:
        table.add_row(Text(state, style=_STATES[state]), Text(break_name(name)), Text(place, style="dim"))
    if table.row_count:
        _print(table, terminal)
        terminal.data("")
    console = _console(terminal)
    for finding in findings:
        place = f"{show_place(finding.where)}: " if finding.file else ""
        line = Text.assemble(
            (place, "bold"),
            (f"{finding.level}: ", _LEVELS[finding.level]),
            safe(shorten_paths(finding.message)),
            (f" [{finding.code}]", "dim"),
        )
        _paragraph(line, console, terminal, indent=0)
        if finding.hint:
            hint = Text.assemble(("hint: ", "cyan"), safe(shorten_paths(finding.hint)))
            _paragraph(hint, console, terminal, indent=4)
    terminal.data(f"\n{summary}" if findings else summary)


def show_tool(tool: Tool, limit_s: float | None, terminal: Terminal) -> None:
    """Everything about one tool."""
    definition = tool.definition
    console = _console(terminal)
    title = f"  {safe(definition.title)}" if definition.title else ""
    console.print(Text.assemble((tool.name, "bold green"), title), soft_wrap=True)
    _print(Padding(Text(safe(definition.description or "(no description)")), (0, 0, 0, 2)), terminal)
    terminal.data("")
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
    table = _table("", "")
    table.columns[0].style = "bold"
    table.columns[0].no_wrap = True
    for label, value in facts.items():
        if value:
            table.add_row(label, Text(safe(value)))
    _print(table, terminal)


def _show_parameters(tool: Tool, terminal: Terminal) -> None:
    parameters = parameters_of(tool.definition)
    if not parameters:
        terminal.data("It takes no parameters.\n")
        return
    table = _table("PARAMETER", "TYPE", "", "DESCRIPTION")
    table.columns[0].style = "green"
    table.columns[2].no_wrap = False
    for item in parameters:
        need = "required" if item.is_required else f"default {item.default}" if item.default else "optional"
        table.add_row(Text(item.name), Text(item.type), Text(need), Text(item.description or "-"))
    _print(table, terminal)
    terminal.data("")


def _paragraph(text: Text, console: Console, terminal: Terminal, *, indent: int) -> None:
    """Words under a hanging indent on a terminal; one line each for a program that looks for them."""
    if not terminal.out.isatty():
        terminal.data(" " * indent + text.plain)
        return
    lines = text.wrap(console, terminal.width - indent - (0 if indent else 4))
    for number, line in enumerate(lines):
        line.rstrip()
        console.print(Text(" " * (indent or (4 if number else 0))) + line, soft_wrap=True)


def _print(page: Table | Padding, terminal: Terminal) -> None:
    """Print a page without the blanks that fill its lines."""
    console = _console(terminal)
    with console.capture() as captured:
        console.print(page)
    lines = captured.get().replace(_HOLD, " ").splitlines()
    terminal.data("\n".join(line.rstrip() for line in lines))
