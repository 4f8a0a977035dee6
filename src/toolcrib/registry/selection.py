"""Chooses tools by name, glob, regular expression or tag. Excluding wins; a selector that fits nothing fails.

A selector is a name or glob (`github_*`), `tag:NAME`, `namespace:NAME`, `hint:NAME` (an annotation, or
`hint:not-NAME` for tools without it), or `re:PATTERN` (the whole name must match). The long form of a
shortened name and aliases count as names; tags and namespaces take globs too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from toolcrib.errors import ConfigurationError, DefinitionError, ErrorCollector
from toolcrib.registry.index import spellings
from toolcrib.tool import Tool

HINTS = ("read-only", "destructive", "idempotent", "open-world")


def select(tools: Iterable[Tool], include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Tool]:
    """The tools that some `include` selector means (all, if there is none) and no `exclude` selector does."""
    everything = list(tools)
    problems = ErrorCollector()
    wanted = _matching(everything, include, problems) if include else set(everything)
    unwanted = _matching(everything, exclude, problems)
    problems.raise_errors()
    return [tool for tool in everything if tool in wanted and tool not in unwanted]


def without_repeats(tools: Iterable[Tool]) -> Iterator[Tool]:
    """A tool that two targets lead to was still written once."""
    seen: set[tuple[int, str, str | None, str | None]] = set()
    for tool in tools:
        key = (id(tool.origin), tool.name, tool.namespace, tool.version)
        if key not in seen:
            seen.add(key)
            yield tool


def _matching(tools: list[Tool], selectors: Sequence[str], problems: ErrorCollector) -> set[Tool]:
    if isinstance(selectors, str):
        raise ConfigurationError(f"selectors must be a list, got the text {selectors!r}")
    found: set[Tool] = set()
    for selector in selectors:
        with problems.collecting():
            fits = read_selector(selector)
            matched = {tool for tool in tools if fits(tool)}
            if not matched:
                raise ConfigurationError(f"selector {selector!r} matches no tool")
            found |= matched
    return found


def read_selector(selector: str) -> Callable[[Tool], bool]:
    """Whether a tool is meant. Raises ConfigurationError for what is no selector."""
    kind, colon, rest = selector.partition(":")
    if not colon:
        return lambda tool: any(fnmatchcase(name, selector) for name in spellings(tool))
    if kind == "tag":
        return lambda tool: any(fnmatchcase(tag, rest) for tag in tags_of(tool))
    if kind == "namespace":
        return lambda tool: fnmatchcase(tool.namespace or "", rest)
    if kind == "hint":
        return _read_hint(selector, rest)
    if kind == "re":
        try:
            pattern = re.compile(rest)
        except re.error as error:
            raise ConfigurationError(f"selector {selector!r} is not a pattern: {error}") from None
        return lambda tool: any(pattern.fullmatch(name) for name in spellings(tool))
    hint = "there are names with globs, tag:, namespace:, hint: and re:"
    raise ConfigurationError(f"selector {selector!r} is of no kind that is known", hint=hint)


def _read_hint(selector: str, rest: str) -> Callable[[Tool], bool]:
    name = rest.removeprefix("not-")
    if name not in HINTS:
        raise ConfigurationError(
            f"selector {selector!r} names no hint", hint=f"there are: {', '.join(HINTS)}"
        )
    key, wanted = name.replace("-", "_"), name == rest
    return lambda tool: bool(getattr(tool.options, key)) is wanted


def tags_of(tool: Tool) -> tuple[str, ...]:
    """Tags as the author gave them, those in the docstring included, and those that hints imply."""
    options = tool.options
    try:
        tags = tool.definition.tags
    except DefinitionError:
        tags = tuple(options.tags)  # a tool that cannot be built still has the tags of its options
    return (*tags, *(label for label in HINTS if getattr(options, label.replace("-", "_"))))
