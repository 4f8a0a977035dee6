"""Chooses tools by name, glob, regular expression or tag. Excluding wins; a selector that fits nothing fails.

A selector is a name or glob (`github_*`), `tag:NAME`, or `re:PATTERN` (the whole name must match). The long
form of a shortened name and aliases count as names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from toolcrib.errors import ConfigurationError, DefinitionError
from toolcrib.keyspace import spellings
from toolcrib.tool import Tool


def select(tools: Iterable[Tool], include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Tool]:
    """The tools that some `include` selector means (all, if there is none) and no `exclude` selector does."""
    everything = list(tools)
    wanted = _matching(everything, include) if include else set(everything)
    unwanted = _matching(everything, exclude)
    return [tool for tool in everything if tool in wanted and tool not in unwanted]


def without_repeats(tools: Iterable[Tool]) -> Iterator[Tool]:
    """A tool that two targets lead to was still written once."""
    seen: set[tuple[int, str, str | None, str | None]] = set()
    for tool in tools:
        key = (id(tool.origin), tool.name, tool.namespace, tool.version)
        if key not in seen:
            seen.add(key)
            yield tool


def _matching(tools: list[Tool], selectors: Sequence[str]) -> set[Tool]:
    if isinstance(selectors, str):
        raise ConfigurationError(f"selectors must be a list, got the text {selectors!r}")
    found: set[Tool] = set()
    for selector in selectors:
        fits = _read(selector)
        matched = {tool for tool in tools if fits(tool)}
        if not matched:
            raise ConfigurationError(f"selector {selector!r} matches no tool")
        found |= matched
    return found


def _read(selector: str) -> Callable[[Tool], bool]:
    if selector.startswith("tag:"):
        tag = selector.removeprefix("tag:")
        return lambda tool: tag in tags_of(tool)
    if selector.startswith("re:"):
        try:
            pattern = re.compile(selector.removeprefix("re:"))
        except re.error as error:
            raise ConfigurationError(f"selector {selector!r} is not a pattern: {error}") from None
        return lambda tool: any(pattern.fullmatch(name) for name in spellings(tool))
    return lambda tool: any(fnmatchcase(name, selector) for name in spellings(tool))


def tags_of(tool: Tool) -> tuple[str, ...]:
    """Tags as the author gave them, those in the docstring included, and those that hints imply."""
    options = tool.options
    try:
        tags = tool.definition.tags
    except DefinitionError:
        tags = tuple(options.tags)  # a tool that cannot be built still has the tags of its options
    implied = {
        "read-only": options.read_only,
        "destructive": options.destructive,
        "idempotent": options.idempotent,
        "open-world": options.open_world,
    }
    return (*tags, *(label for label, is_on in implied.items() if is_on))
