"""Read the options of decorators and registration methods, including those of other libraries.

An option whose value cannot be known without running code is left out, with a finding.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.definition import OptionFields
from toolcrib.errors import Finding
from toolcrib.sources.scan.objects import Known, Pairs, Said, Scope
from toolcrib.sources.scan.values import Unresolved, show
from toolcrib.tool import merge_options

if TYPE_CHECKING:
    from toolcrib.sources.scan.calls import Evaluator

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
    """What was said, by name, and what could not be told."""

    given: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unresolved: set[str] = field(default_factory=set)


def read_ours(evaluator: Evaluator, said: Said) -> tuple[OptionFields, list[Finding]]:
    """The keywords behind `@tool("name", "description", {...}, ...)`."""
    read = read_said(evaluator, said, _OURS)
    given: Any = {key: value for key, value in read.given.items() if key not in _OURS}
    places = [read.given.get(key) for key in _OURS]
    for position, key in enumerate(_OURS[:2]):
        if position >= len(said.args) and key in read.given:  # given as a keyword
            given[key], places[position] = read.given[key], None
    return merge_options(places[0], places[1], places[2], given), read.findings


def read_said(evaluator: Evaluator, said: Said, places: tuple[str, ...]) -> Options:
    """Everything that was said, by name."""
    read = Options()
    for name, node in zip(places, said.args, strict=False):
        if isinstance(node, ast.Starred):
            break
        _take(evaluator, read, name, node, said.scope)
    for keyword in said.keywords:
        if keyword.arg is not None:
            _take(evaluator, read, keyword.arg, keyword.value, said.scope)
            continue
        try:
            thing = evaluator.of(keyword.value, said.scope)
            is_built = isinstance(thing, Pairs) and bool(thing.parts or thing.node is None)
            more = evaluator.data_of(thing) if is_built else evaluator.data(keyword.value, said.scope)
            read.given |= {str(key): value for key, value in more.items()}
        except (Unresolved, AttributeError, RecursionError):
            _note(read, "**", keyword.value, said.scope)
    return read


def _take(evaluator: Evaluator, read: Options, name: str, node: ast.expr, scope: Scope) -> None:
    try:
        read.given[name] = _value(evaluator, node, scope)
    except (Unresolved, RecursionError):
        _note(read, name, node, scope)


def _value(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Any:
    """Data, and the libraries' records as the data they say."""
    if isinstance(node, ast.List | ast.Tuple) and any(isinstance(item, ast.Call) for item in node.elts):
        return [_value(evaluator, item, scope) for item in node.elts]
    if not isinstance(node, ast.Call):
        return evaluator.data(node, scope)
    made = evaluator.of(node.func, scope)
    if not isinstance(made, Known) or made.last not in _RECORDS or node.args:
        return evaluator.data(node, scope)
    facts = {item.arg: evaluator.data(item.value, scope) for item in node.keywords if item.arg is not None}
    return {_SPELLINGS.get(key, key): value for key, value in facts.items() if value is not None}


def _note(read: Options, name: str, node: ast.expr, scope: Scope) -> None:
    read.unresolved.add(name)
    label = "Options" if name == "**" else f"Option '{name}'"
    read.findings.append(
        Finding(
            "unresolved-option",
            "warning",
            f"{label} cannot be told without running the code: {show(node)}",
            file=str(scope.module.file.path),
            line=node.lineno,
            hint="write it down as it is, or as a constant of the module",
        )
    )


# --- the other libraries -----------------------------------------------------------------------------


@dataclass(slots=True)
class ForeignSaid:
    """What their decorator was told. `stated` is an output schema that somebody wrote, `hidden` parameters
    that callers do not see."""

    options: OptionFields
    description: str | None = None
    stated: Mapping[str, Any] | None = None
    is_structured: bool = True
    hidden: frozenset[str] = frozenset()
    findings: list[Finding] = field(default_factory=list)


def read_theirs(evaluator: Evaluator, said: Said, maker: str) -> ForeignSaid:
    """The options of `@mcp.tool(...)` as options of ours."""
    read = read_said(evaluator, said, _SDK if maker == "mcp" else ("name",))
    given = read.given
    notes = given.get("annotations") or {}
    notes = (
        {_SPELLINGS.get(key, key): value for key, value in notes.items()} if isinstance(notes, dict) else {}
    )
    meta = dict(given.get("meta") or {})
    if given.get("app") is True:
        meta["ui"] = True
    options: dict[str, Any] = {
        "name": given.get("name"),
        "title": given.get("title") or notes.get("title"),
        **{option: notes.get(hint) for hint, option in _HINTS.items()},
        "tags": sorted(given.get("tags") or ()),
        "version": str(given["version"]) if given.get("version") is not None else None,
        "icons": [_plain(icon) for icon in given.get("icons") or ()],
        "meta": {key: value for key, value in meta.items() if key != "fastmcp"},
        "enabled": given.get("enabled") is not False
        and not given.get("auth")
        and "auth" not in read.unresolved,
    }
    if options["read_only"] and options["destructive"]:
        options["destructive"] = None  # says nothing about a tool that only reads
    stated = given.get("output_schema")
    asked = "output_schema" in given
    return ForeignSaid(
        options,  # type: ignore[arg-type]
        given.get("description") or None,
        stated if isinstance(stated, Mapping) else None,
        given.get("structured_output") is not False and not (asked and not isinstance(stated, Mapping)),
        frozenset(given.get("exclude_args") or ()),
        read.findings,
    )


def _plain(icon: Any) -> Any:
    return (
        {_SPELLINGS.get(key, key): value for key, value in icon.items()} if isinstance(icon, dict) else icon
    )
