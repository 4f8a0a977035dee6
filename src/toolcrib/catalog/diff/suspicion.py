"""Find what in a changed definition somebody should look at before a model does.

That is what the linter's rules on injected instructions, credentials, links and hidden text report, where the
old definition did not have it; a host that was not named before; and a new parameter that invites a model to
send its conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.catalog.diff.schemas import Difference
from toolcrib.catalog.lint import LintedTool, Problem, Rule
from toolcrib.catalog.lint.table import SUSPICION_RULES
from toolcrib.definition import ToolDefinition
from toolcrib.tool import Tool

_ADDRESS = re.compile(
    r"(?:https?|wss?|ftp)://(?:[^\s/@]*@)?([\w.:\[\]-]+)|\b(www\.[\w.-]+)|[\w+-]@((?:[\w-]+\.)+[a-z]{2,})",
    re.IGNORECASE,
)
_CONTEXT_NAME = re.compile(
    r"(?:full|user|chat|conversation|session|model|system|agent|extra|additional|side|previous|complete)*"
    r"(?:context|conversations?|history|messages|transcript|prompts?|sidenotes?|reasoning|thoughts?|"
    r"environment|memory|background)"
)
_MAX_EXCERPT = 80


def find_suspicious(
    old: tuple[Tool, ToolDefinition] | None, new: tuple[Tool, ToolDefinition]
) -> Iterator[Difference]:
    """Yield what the linter reports of the new definition and not of the old one, and hosts that are new."""
    found = list(_lint(*new))
    known = {_key(*item) for item in _lint(*old)} if found and old is not None else set()
    for rule, problem in found:
        if _key(rule, problem) in known:
            continue
        known.add(_key(rule, problem))
        summary = rule.summary.replace("{", "{{").replace("}", "}}")
        template = f"{summary[0].lower()}{summary[1:]}: {{0}}"
        pointer = f"/inputSchema/properties/{problem.parameter}" if problem.parameter else ""
        yield Difference(rule.code, "suspicious", pointer, template, (_excerpt(problem),))
    addresses = list(_addresses(new[1].to_wire()))
    hosts = {host for host, _, _ in _addresses(old[1].to_wire())} if addresses and old is not None else set()
    for host, pointer, text in addresses:
        if host not in hosts:
            hosts.add(host)
            template = "it now names the address {0}"
            yield Difference("new-address", "suspicious", pointer, template, (host,), None, text)


def _lint(tool: Tool, definition: ToolDefinition) -> Iterator[tuple[Rule, Problem]]:
    linted = LintedTool(tool, definition)
    for rule in SUSPICION_RULES:
        if rule.check is not None:
            for problem in rule.check(linted):
                yield rule, problem


def _key(rule: Rule, problem: Problem) -> tuple[str, str]:
    return rule.code, problem.excerpt or problem.message


def _excerpt(problem: Problem) -> str:
    text = " ".join((problem.excerpt or problem.message).split())
    return text if len(text) <= _MAX_EXCERPT else f"{text[: _MAX_EXCERPT - 3]}..."


def _addresses(definition: Any) -> Iterator[tuple[str, str, str]]:
    """Yield every host that a text in a definition names, a pointer to the text, and the text."""
    pending: list[tuple[Any, str]] = [(definition, "")]
    while pending:
        item, pointer = pending.pop()
        if isinstance(item, str):
            for found in _ADDRESS.finditer(item):
                host = (found[1] or found[2] or found[3]).casefold().rstrip(".:-")
                yield re.sub(r":(?:80|443)$", "", host), pointer, item
        elif isinstance(item, Mapping):
            for key, child in item.items():
                token = str(key).replace("~", "~0").replace("/", "~1")
                if key not in ("$schema", "$ref", "$id"):
                    pending.append((child, f"{pointer}/{token}"))
        elif isinstance(item, list | tuple):
            pending += [(child, f"{pointer}/{index}") for index, child in enumerate(item)]


def check_new_parameter(item: Difference) -> Iterator[Difference]:
    """Grade a new parameter as suspicious where it invites a model to send its conversation."""
    if not _is_context_parameter(item):
        yield item
        return
    if item.code == "added-required":  # it breaks callers too
        yield item
    template = "{0} is new and takes any text: by its name, models may put their conversation there"
    yield replace(item, code="context-parameter", grade="suspicious", template=template)


def _is_context_parameter(item: Difference) -> bool:
    if item.code not in ("added", "added-required") or not item.pointer.startswith("/inputSchema"):
        return False
    letters = re.sub(r"[^a-z]", "", item.names[0].rpartition(".")[2].casefold())
    return _CONTEXT_NAME.fullmatch(letters) is not None and _takes_free_text(item.new)


def _takes_free_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if schema.keys() & {"enum", "const", "pattern", "format"}:
        return False
    types = schema.get("type", "string")
    return not {"integer", "number", "boolean"}.issuperset(types if isinstance(types, list) else [types])
