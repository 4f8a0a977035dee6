"""What in a definition somebody should look at before a model does, and was not there before.

The linter's rules on planted, hidden and smuggled text say what is odd; here it counts only where it is new.
So does an address of a host that was not named. Knows definitions and those rules; refuses to know schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.catalog.compare_difference import Difference
from toolcrib.catalog.lint import credentials, disguise, outward, planted
from toolcrib.catalog.lint.rule import Remark, Rule, Subject
from toolcrib.definition import ToolDefinition
from toolcrib.tool import Tool

_RULES = (*planted.RULES, *credentials.RULES, *outward.RULES, *disguise.RULES)
_ADDRESS = re.compile(
    r"(?:https?|wss?|ftp)://(?:[^\s/@]*@)?([\w.:\[\]-]+)|\b(www\.[\w.-]+)|[\w+-]@((?:[\w-]+\.)+[a-z]{2,})",
    re.IGNORECASE,
)
_LONGEST = 80


def find_suspicious(
    old: tuple[Tool, ToolDefinition] | None, new: tuple[Tool, ToolDefinition]
) -> Iterator[Difference]:
    """What is of a kind that the old definition had not."""
    found = list(_inspect(*new))
    known = {_mark(rule, remark) for rule, remark in _inspect(*old)} if found and old is not None else set()
    for rule, remark in found:
        mark = _mark(rule, remark)
        if mark in known:
            continue
        known.add(mark)
        summary = rule.summary.replace("{", "{{").replace("}", "}}")
        template = f"{summary[0].lower()}{summary[1:]}: {{0}}"
        pointer = f"/inputSchema/properties/{remark.parameter}" if remark.parameter else ""
        yield Difference(rule.code, "suspicious", pointer, template, (_show(remark),))
    addresses = list(_addresses(new[1].to_wire()))
    hosts = {host for host, _, _ in _addresses(old[1].to_wire())} if addresses and old is not None else set()
    for host, pointer, text in addresses:
        if host not in hosts:
            hosts.add(host)
            template = "it now names the address {0}"
            yield Difference("new-address", "suspicious", pointer, template, (host,), None, text)


def _inspect(tool: Tool, definition: ToolDefinition) -> Iterator[tuple[Rule, Remark]]:
    subject = Subject(tool, definition)
    for rule in _RULES:
        if rule.look is not None:
            for remark in rule.look(subject):
                yield rule, remark


def _mark(rule: Rule, remark: Remark) -> tuple[str, str]:
    return rule.code, remark.excerpt or remark.message


def _show(remark: Remark) -> str:
    text = " ".join((remark.excerpt or remark.message).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _addresses(node: Any, pointer: str = "") -> Iterator[tuple[str, str, str]]:
    """Every host that some text names, where, and the text."""
    waiting: list[tuple[Any, str]] = [(node, pointer)]
    while waiting:
        item, place = waiting.pop()
        if isinstance(item, str):
            for found in _ADDRESS.finditer(item):
                host = (found[1] or found[2] or found[3]).casefold().rstrip(".:-")
                yield re.sub(r":(?:80|443)$", "", host), place, item
        elif isinstance(item, Mapping):
            for key, child in item.items():
                name = str(key).replace("~", "~0").replace("/", "~1")
                if key not in ("$schema", "$ref", "$id"):
                    waiting.append((child, f"{place}/{name}"))
        elif isinstance(item, list | tuple):
            waiting += [(child, f"{place}/{index}") for index, child in enumerate(item)]
