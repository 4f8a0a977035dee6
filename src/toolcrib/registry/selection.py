"""Select tools, resources and prompts by name, glob, regular expression, tag, namespace or annotation.

A selector is a name or glob (`github_*`), the same for one kind (`tool:NAME`, `resource:URI`, `prompt:NAME`),
`tag:NAME`, `namespace:NAME`, `hint:NAME` (an annotation, or `hint:not-NAME` for tools without it), or
`re:PATTERN` (the whole name must match). The name of a resource is its URI or template. The long form of a
shortened name and aliases count as names; tags and namespaces take globs too. Excluding wins, and a selector
that matches no tool is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from toolcrib.component import Component
from toolcrib.definition import HINT_LABELS
from toolcrib.errors import ConfigurationError, DefinitionError, ErrorCollector, suggest
from toolcrib.registry.index import spellings

KINDS = ("tool", "resource", "prompt")
LIST_NAMES = {"tool": "tools", "resource": "resources", "template": "resourceTemplates", "prompt": "prompts"}
"""The lists of MCP by the kind of their entries."""
_LABELS = tuple(LIST_NAMES)
HINTS = tuple(HINT_LABELS.values())


def select(
    tools: Iterable[Component], include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[Component]:
    """Return the tools that match an `include` selector, by default all, and no `exclude` selector."""
    everything = list(tools)
    problems = ErrorCollector()
    wanted = _matching(everything, include, problems) if include else set(everything)
    unwanted = _matching(everything, exclude, problems)
    problems.raise_errors()
    return [tool for tool in everything if tool in wanted and tool not in unwanted]


def label_of(tool: Component) -> str:
    """Return the kind of a tool for people: a resource with variables in its URI is a `template`."""
    return "template" if getattr(tool, "template", None) is not None else tool.kind


def sort_kinds(tools: Iterable[Component]) -> list[Component]:
    """Return tools first, then resources, templates and prompts, each in the order given."""
    return sorted(tools, key=lambda tool: _LABELS.index(label_of(tool)))


def count_kinds(labels: Iterable[str]) -> str:
    """Return how many there are of each kind: `6 tools, 2 resources and 1 prompt`; `0 tools` for nothing."""
    counts = Counter(labels)
    found = [label for label in _LABELS if counts[label]] or ["tool"]
    *parts, last = (f"{counts[label]} {label}{'' if counts[label] == 1 else 's'}" for label in found)
    return f"{', '.join(parts)} and {last}" if parts else last


def drop_repeated(tools: Iterable[Component]) -> Iterator[Component]:
    """Yield each tool once, even if it was found through two targets."""
    seen: set[tuple[int, str, str, str | None, str | None]] = set()
    for tool in tools:
        key = (id(tool.origin), tool.kind, tool.name, tool.namespace, tool.version)
        if key not in seen:
            seen.add(key)
            yield tool


def _matching(tools: list[Component], selectors: Sequence[str], problems: ErrorCollector) -> set[Component]:
    if isinstance(selectors, str):
        raise ConfigurationError(f"selectors must be a list, got the string {selectors!r}")
    found: set[Component] = set()
    for selector in selectors:
        with problems.collecting():
            matches = parse_selector(selector)
            matched = {tool for tool in tools if matches(tool)}
            if not matched:
                hint = suggest(selector, [tool.name for tool in tools]) or None
                message = f"selector {selector!r} matches no {name_kinds(selector, tools)}"
                raise ConfigurationError(message, hint=hint)
            found |= matched
    return found


def name_kinds(selector: str, tools: Iterable[Component]) -> str:
    """Return what a selector could match: `resource` if it says so, else `tool`, `tool or prompt`, ..."""
    kind, colon, _ = selector.partition(":")
    if kind in KINDS and colon:
        return kind
    *kinds, last = sorted({"tool", *(tool.kind for tool in tools)}, key=KINDS.index)
    return f"{', '.join(kinds)} or {last}" if kinds else last


def parse_selector(selector: str) -> Callable[[Component], bool]:
    """Return a predicate that matches tools. Raises ConfigurationError."""
    kind, colon, rest = selector.partition(":")
    if kind in KINDS and colon:
        return lambda tool: tool.kind == kind and any(fnmatchcase(name, rest) for name in spellings(tool))
    if not colon or rest.startswith("//"):
        return lambda tool: any(fnmatchcase(name, selector) for name in spellings(tool))
    if kind == "tag":
        return lambda tool: any(fnmatchcase(tag, rest) for tag in tags_of(tool))
    if kind == "namespace":
        return lambda tool: fnmatchcase(tool.namespace or "", rest)
    if kind == "hint":
        return _parse_hint(selector, rest)
    if kind == "re":
        try:
            pattern = re.compile(rest)
        except re.error as error:
            raise ConfigurationError(f"selector {selector!r} is not a valid pattern: {error}") from None
        return lambda tool: any(pattern.fullmatch(name) for name in spellings(tool))
    hint = "use a name with globs, tool:, resource:, prompt:, tag:, namespace:, hint: or re:"
    raise ConfigurationError(f"unknown kind of selector: {selector!r}", hint=hint)


def _parse_hint(selector: str, rest: str) -> Callable[[Component], bool]:
    name = rest.removeprefix("not-")
    if name not in HINTS:
        raise ConfigurationError(
            f"unknown hint in selector {selector!r}", hint=f"known hints: {', '.join(HINTS)}"
        )
    key, wanted = name.replace("-", "_"), name == rest
    return lambda tool: bool(getattr(tool.options, key)) is wanted


def tags_of(tool: Component) -> tuple[str, ...]:
    """Return the tags of options and docstring, and those that annotations imply."""
    options = tool.options
    try:
        tags = tool.definition.tags
    except DefinitionError:
        tags = tuple(options.tags)  # of a tool that cannot be built
    return (*tags, *(label for label in HINTS if getattr(options, label.replace("-", "_"))))
