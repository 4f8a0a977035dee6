"""Read the options of decorators and registration methods, of toolcrib and of other libraries.

An option whose value cannot be known without running code is left out, with a finding.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.definition import OptionFields
from toolcrib.errors import Finding
from toolcrib.sources.scan.resolve import Arguments, Known, Resolver
from toolcrib.sources.scan.values import Unresolved, show
from toolcrib.tool import merge_options

_OURS = ("name", "description", "schema")
_SDK = ("name", "title", "description", "annotations", "icons", "meta", "structured_output")
_HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_SPELLINGS = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
    "mime_type": "mimeType",
}
_RECORDS = frozenset({"Icon", "ToolAnnotations"})


@dataclass(slots=True)
class Options:
    """The options by name, findings, and the names of those that could not be read."""

    given: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unresolved: set[str] = field(default_factory=set)


def read_ours(resolver: Resolver, call: Arguments) -> tuple[OptionFields, list[Finding]]:
    """Return the options of `@tool("name", "description", {...}, ...)`."""
    read = read_options(resolver, call, _OURS)
    given: Any = {key: value for key, value in read.given.items() if key not in _OURS}
    places = [read.given.get(key) for key in _OURS]
    for position, key in enumerate(_OURS[:2]):
        if position >= len(call.args) and key in read.given:  # given as a keyword
            given[key], places[position] = read.given[key], None
    return merge_options(places[0], places[1], places[2], given), read.findings


def read_options(resolver: Resolver, call: Arguments, places: tuple[str, ...]) -> Options:
    """Return all arguments of a call by name; `places` are the names of positional ones."""
    read = Options()
    for name, node in zip(places, call.args, strict=False):
        if isinstance(node, ast.Starred):
            break
        _take(resolver, read, name, node, call)
    for keyword in call.keywords:
        if keyword.arg is not None:
            _take(resolver, read, keyword.arg, keyword.value, call)
            continue
        for item in resolver.items(keyword.value, call.scope, call.frame):
            try:
                if item.key is None:
                    raise Unresolved("it is computed")
                name = str(resolver.data(item.key, item.scope, item.frame))
                read.given[name] = resolver.data_of(item)
            except (Unresolved, RecursionError):
                _note(read, "**", keyword.value, call)
    return read


def _take(resolver: Resolver, read: Options, name: str, node: ast.expr, call: Arguments) -> None:
    try:
        read.given[name] = read_value(resolver, node, call)
    except (Unresolved, RecursionError):
        _note(read, name, node, call)


def read_value(resolver: Resolver, node: ast.expr, call: Arguments) -> Any:
    """Return data, and the records of other libraries as the data they hold."""
    if isinstance(node, ast.List | ast.Tuple) and any(isinstance(item, ast.Call) for item in node.elts):
        return [read_value(resolver, item, call) for item in node.elts]
    made = None
    if isinstance(node, ast.Name | ast.Attribute | ast.Call):
        made = resolver.resolve(node, call.scope, call.frame)
    if not isinstance(made, Known) or made.call is None or made.last not in _RECORDS or made.call.args:
        return resolver.data(node, call.scope, call.frame)
    facts = {
        str(item.arg): resolver.data(item.value, made.call.scope, made.call.frame)
        for item in made.call.keywords
    }
    return {_SPELLINGS.get(key, key): value for key, value in facts.items() if value is not None}


def _note(read: Options, name: str, node: ast.expr, call: Arguments) -> None:
    read.unresolved.add(name)
    label = "Options" if name == "**" else f"Option '{name}'"
    words = f"{label} cannot be told without running the code: {show(node)}"
    hint = "write it as a literal, or as a constant of the module"
    file, line = str(call.file.path), node.lineno
    read.findings.append(Finding("unresolved-option", "warning", words, file=file, line=line, hint=hint))


# --- other libraries ---------------------------------------------------------------------------------


@dataclass(slots=True)
class ForeignOptions:
    """The options of another library's decorator. `stated` is an output schema given there, `hidden` are
    parameters that callers do not see."""

    options: OptionFields
    description: str | None = None
    stated: Mapping[str, Any] | None = None
    is_structured: bool = True
    hidden: frozenset[str] = frozenset()
    findings: list[Finding] = field(default_factory=list)


def read_theirs(resolver: Resolver, call: Arguments, maker: str) -> ForeignOptions:
    """Return the options of `@mcp.tool(...)` as options of toolcrib."""
    read = read_options(resolver, call, _SDK if maker == "mcp" else ("name",))
    given = read.given
    notes = _respelled(given.get("annotations"))
    meta = dict(given.get("meta") or {})
    if given.get("app") is True:
        meta["ui"] = True
    is_open = not given.get("auth") and "auth" not in read.unresolved
    options: dict[str, Any] = {
        "name": given.get("name"),
        "title": given.get("title") or notes.get("title"),
        **{option: notes.get(hint) for hint, option in _HINTS.items()},
        "tags": sorted(given.get("tags") or ()),
        "version": str(given["version"]) if given.get("version") is not None else None,
        "icons": [_respelled(icon) or icon for icon in given.get("icons") or ()],
        "meta": {key: value for key, value in meta.items() if key != "fastmcp"},
        "enabled": given.get("enabled") is not False and is_open,
    }
    if options["read_only"] and options["destructive"]:
        options["destructive"] = None  # it has no meaning for a tool that only reads
    stated = given.get("output_schema")
    is_described = "output_schema" not in given or isinstance(stated, Mapping)
    return ForeignOptions(
        options,  # type: ignore[arg-type]
        given.get("description") or None,
        stated if isinstance(stated, Mapping) else None,
        given.get("structured_output") is not False and is_described,
        frozenset(given.get("exclude_args") or ()),
        read.findings,
    )


def _respelled(value: Any) -> dict[str, Any]:
    return (
        {_SPELLINGS.get(str(key), str(key)): item for key, item in value.items()}
        if isinstance(value, dict)
        else {}
    )
