"""Tables and reports for people: lists of tools, details of one tool, findings.

Names and descriptions are untrusted text, and schemas may be malformed; the table and the terminal escape
them. Time and memory are linear in the size of the text.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from textwrap import indent
from typing import Any

from toolcrib.catalog.schemas import show_type
from toolcrib.cli.output import Terminal, format_source, shorten_paths
from toolcrib.cli.text import (
    NAME_STYLE,
    NO_BREAK,
    STATE_STYLES,
    Styled,
    cut,
    first_line,
    join,
    one_line,
    safe,
    style,
    width_of,
    wrap,
)
from toolcrib.component import Component
from toolcrib.definition import ToolDefinition, describe_hints
from toolcrib.errors import Finding
from toolcrib.registry.selection import label_of, sort_kinds
from toolcrib.validation.schema_tree import Resolver

MIN_WIDTH = 16
"""Columns are not wrapped to less than this width."""
GAP = "  "
_MAX_PARAMETERS = 20
_MAX_SIGNATURE = 600
_MAX_FIELDS = 200
_MAX_DEPTH = 12
_CONSTRAINTS = (
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "pattern"),
)
Style = Mapping[str, Any]


# --- tables ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `styles` is for cells with a certain text. Where space is short, columns with
    `wraps` are wrapped between words."""

    heading: str = ""
    wraps: bool = True
    style: Style = field(default_factory=dict)
    styles: Mapping[str, Style] = field(default_factory=dict)


NAME = Column("NAME", wraps=False, style=NAME_STYLE)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], terminal: Terminal) -> None:
    terminal.echo(format_table(columns, rows, terminal.width))


def format_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None) -> Styled:
    """Return a table that is as wide as necessary. The widest columns are wrapped until it fits the width, or
    none is left to be wrapped."""
    cells = [[safe(cell).expandtabs() for cell in row] for row in rows]
    has_heading = any(column.heading for column in columns)
    if has_heading:
        cells.insert(0, [column.heading for column in columns])
    sizes = [[max(map(width_of, cell.split("\n"))) for cell in row] for row in cells]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    while width is not None and sum(widths) + len(GAP) * (len(columns) - 1) > width:
        shrinkable = [index for index, item in enumerate(columns) if item.wraps and widths[index] > MIN_WIDTH]
        if not shrinkable:
            break
        widths[max(shrinkable, key=widths.__getitem__)] -= 1
    lines: list[str] = []
    for number, row in enumerate(cells):
        pieces, styles = [], []
        for column, cell, size, most in zip(columns, row, sizes[number], widths, strict=True):
            is_heading = has_heading and number == 0
            styles.append({"bold": True} if is_heading else column.styles.get(cell, column.style))
            pieces.append(cell.split("\n") if size <= most else wrap(cell, most))
        lines += [_format_line(pieces, index, widths, styles) for index in range(max(map(len, pieces)))]
    return Styled("\n".join(lines).replace(NO_BREAK, " "))


def _format_line(
    pieces: Sequence[Sequence[str]], index: int, widths: Sequence[int], styles: Sequence[Style]
) -> str:
    """Return one line of a row; blanks are written only if a cell follows."""
    line, blanks = "", 0
    for lines, width, how in zip(pieces, widths, styles, strict=True):
        text = lines[index].rstrip(" ") if index < len(lines) else ""
        if text:
            line += " " * blanks + (style(text, **how) if how else text)
            blanks = 0
        blanks += max(0, width - width_of(text)) + len(GAP)
    return line


# --- findings --------------------------------------------------------------------------------------------


def print_findings(findings: Sequence[Finding], terminal: Terminal) -> None:
    """Print findings as other linters do: editors recognize `file:line:`. A hint that several findings in a
    row have is printed after the last of them."""
    for finding, following_hint in zip(findings, [*(item.hint for item in findings[1:]), None], strict=False):
        # A tool of a server has no line; its name is shown instead.
        where = one_line(finding.tool) if finding.tool and not finding.line else format_source(finding.where)
        place = join(style(where, bold=True), ": ") if finding.file else ""
        label = style(f"{finding.level}[{finding.code}]", **{**STATE_STYLES[finding.level], "bold": True})
        terminal.echo(place, label, " ", one_line(shorten_paths(finding.message)))
        if finding.excerpt:
            terminal.echo(indent(safe(finding.excerpt), "    "))
        if finding.hint and following_hint != finding.hint:
            terminal.echo("    ", style("hint:", fg="cyan"), " ", one_line(shorten_paths(finding.hint)))
    if findings:
        terminal.echo("")


# --- tools, resources and prompts --------------------------------------------------------------------------

_HEADINGS = {"tool": "NAME", "resource": "RESOURCE", "template": "TEMPLATE", "prompt": "PROMPT"}


def print_components(
    components: Iterable[Component], terminal: Terminal, *, with_source: bool = False
) -> None:
    """Print a table of each kind: name, first line of the description, parameters or media type; and the
    place if asked for."""
    for number, (label, members) in enumerate(groupby(sort_kinds(components), label_of)):
        has_type = label in ("resource", "template")
        columns = [
            Column(_HEADINGS[label], wraps=False, style=NAME_STYLE),
            Column("DESCRIPTION"),
            Column("TYPE" if has_type else "PARAMETERS"),
            *([Column("SOURCE", wraps=False, style={"dim": True})] if with_source else []),
        ]
        rows = []
        for item in members:
            third = cut(item.to_wire().get("mimeType", "")) if has_type else signature(item.definition)
            row = (
                cut(item.name),
                first_line(item.definition) or "-",
                third.replace(": ", f":{NO_BREAK}") or "-",
            )
            rows.append((*row, format_source(item.source)) if with_source else row)
        if number:
            terminal.echo("")
        print_table(columns, rows, terminal)


def print_component(item: Component, details: Mapping[str, str], terminal: Terminal) -> None:
    """Print everything about a tool, resource, template or prompt; `details` are lines that the definition
    does not have."""
    definition, label = item.definition, label_of(item)
    title = f"  {one_line(definition.title)}" if definition.title else ""
    terminal.echo(style(one_line(definition.name), **NAME_STYLE), title)
    description = safe(definition.description or "(no description)").expandtabs()
    lines = description.split("\n") if terminal.width is None else wrap(description, terminal.width - 2)
    terminal.echo("\n".join(f"  {line}" if line else "" for line in lines), "\n\n")
    heading = {"tool": "PARAMETER", "prompt": "ARGUMENT"}.get(label, "VARIABLE")
    if parameters := list_parameters(definition):
        green = Column(heading, wraps=False, style={"fg": "green"})
        print_table((green, Column("TYPE"), Column(), Column("DESCRIPTION")), parameters, terminal)
        terminal.echo("")
    elif heading != "VARIABLE":
        terminal.echo(f"No {heading.lower()}s.\n\n")
    facts = _describe_tool(definition) if label == "tool" else {"Kind": label, **_describe_entry(item)}
    shown = {
        **facts,
        "Tags": ", ".join(definition.tags),
        "Version": definition.version or "",
        "Source": format_source(definition.source),
        **details,
        "Fingerprint": definition.fingerprint if label == "tool" else "",
    }
    columns = (Column(wraps=False, style={"bold": True}), Column())
    print_table(columns, [(name, value) for name, value in shown.items() if value], terminal)


def _describe_tool(definition: ToolDefinition) -> dict[str, str]:
    output = definition.output_schema
    returns = type_name(output, output) if output is not None else "text or content"
    meaning = definition.returns or (output or {}).get("description", "")
    return {
        "Result": f"{returns}: {meaning}" if meaning and output is not None else returns,
        "Hints": describe_hints(definition.annotations),
    }


def _describe_entry(item: Component) -> dict[str, str]:
    wire, ttl_ms = item.to_wire(), getattr(item, "ttl_ms", None)
    notes = wire.get("annotations", {})
    return {
        "Name": "" if item.kind == "prompt" else wire["name"],
        "Type": wire.get("mimeType", ""),
        "Size": f"{wire['size']} bytes" if "size" in wire else "",
        "Annotations": ", ".join(f"{key}: {json.dumps(value, default=str)}" for key, value in notes.items()),
        "Cached": f"by clients, for {ttl_ms / 1000:g} s" if ttl_ms else "",
    }


def signature(definition: ToolDefinition) -> str:
    """Return the parameters on one line, `a: integer, b?: string`; only the first if they are many."""
    schema = definition.input_schema
    properties, required = _read_properties(schema)
    parts = [
        f"{cut(name)}{'' if name in required else '?'}: {type_name(value, schema)}"
        for name, value in islice(properties.items(), _MAX_PARAMETERS)
    ]
    return cut(", ".join([*parts, "..."] if len(properties) > len(parts) else parts), _MAX_SIGNATURE)


def list_parameters(definition: ToolDefinition) -> list[tuple[str, str, str, str]]:
    """Return name, type, `required` or default, and description of every parameter, and of the fields inside
    of it: `lines[].article`."""
    schema = definition.input_schema
    rows = list(islice(_list_fields("", schema, Resolver(schema), ()), _MAX_FIELDS + 1))
    return [*rows[:_MAX_FIELDS], ("...", "", "", "more fields")] if len(rows) > _MAX_FIELDS else rows


def _list_fields(
    prefix: str, schema: Mapping[str, Any], resolver: Resolver, inside: tuple[int, ...]
) -> Iterator[tuple[str, str, str, str]]:
    root = resolver.root
    properties, required = _read_properties(schema)
    for name, value in properties.items():
        field = value if isinstance(value, Mapping) else {}
        limits = [f"{key} {cut(field[key])}" for key in _CONSTRAINTS if key in field]
        need = "required" if name in required else "optional"
        if "default" in field and name not in required:
            need = f"default {one_line(json.dumps(field['default'], ensure_ascii=False, default=str))}"
        type_ = ", ".join([type_name(field, root), *limits])
        path = f"{prefix}{one_line(name)}"
        yield path, type_, need, str(field.get("description", "")) or "-"
        yield from _list_nested(path, field, resolver, inside)


def _list_nested(
    path: str, schema: Any, resolver: Resolver, inside: tuple[int, ...]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the fields of the objects in a value. `inside` are the schemas around it: some refer to
    themselves."""
    schema = resolver.follow(schema)
    if not isinstance(schema, Mapping) or id(schema) in inside or len(inside) >= _MAX_DEPTH:
        return
    inside = (*inside, id(schema))
    yield from _list_fields(f"{path}.", schema, resolver, inside)
    yield from _list_nested(f"{path}[]", schema.get("items"), resolver, inside)
    yield from _list_nested(f"{path}.*", schema.get("additionalProperties"), resolver, inside)
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        options = schema.get(keyword)
        place = f"{path}[]" if keyword == "prefixItems" else path
        for option in options if isinstance(options, list) else ():
            yield from _list_nested(place, option, resolver, inside)


def _read_properties(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], Container[str]]:
    """Return the properties and the required names of a schema that may be malformed."""
    properties, required = schema.get("properties"), schema.get("required")
    return (
        properties if isinstance(properties, Mapping) else {},
        required if isinstance(required, list | tuple) else (),
    )


def type_name(schema: Any, root: Mapping[str, Any]) -> str:
    """Return the type of a schema for people: `integer[]`, `"a" | "b"`."""
    return cut(show_type(schema, root=root))
