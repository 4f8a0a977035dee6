"""Chooses tools by name, glob, regular expression or tag. Excluding wins; a selector that fits nothing fails.

A selector is a name or glob (`github_*`), `tag:NAME`, or `re:PATTERN` (the whole name must match).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from toolcrib.errors import ConfigurationError
from toolcrib.tool import Tool


def select(tools: Iterable[Tool], include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Tool]:
    """The tools that some `include` selector means (all, if there is none) and no `exclude` selector does."""
    everything = list(tools)
    wanted = _matching(everything, include) if include else {id(tool) for tool in everything}
    unwanted = _matching(everything, exclude)
    return [tool for tool in everything if id(tool) in wanted and id(tool) not in unwanted]


def _matching(tools: list[Tool], selectors: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for selector in selectors:
        matched = {id(tool) for tool in tools if matches(tool, selector)}
        if not matched:
            raise ConfigurationError(f"selector {selector!r} matches no tool")
        found |= matched
    return found


def matches(tool: Tool, selector: str) -> bool:
    if selector.startswith("tag:"):
        return selector[4:] in tags_of(tool)
    if selector.startswith("re:"):
        try:
            return re.fullmatch(selector[3:], tool.name) is not None
        except re.error as error:
            raise ConfigurationError(f"selector {selector!r} is not a pattern: {error}") from None
    return fnmatchcase(tool.name, selector) or tool.long_name == selector


def tags_of(tool: Tool) -> tuple[str, ...]:
    """Tags as the author gave them, those in the docstring included, and those that hints imply."""
    tags = tool.options.tags
    try:
        tags = tool.definition.tags
    except ValueError:
        pass  # a tool that cannot be built still has the tags of its options
    implied = [
        label
        for label, on in (
            ("read-only", tool.options.read_only),
            ("destructive", tool.options.destructive),
            ("idempotent", tool.options.idempotent),
            ("open-world", tool.options.open_world),
        )
        if on
    ]
    return (*tags, *implied)
