"""Export tools in the format of a model provider, and read its calls back.

    exported = export(tools, to="anthropic")       # exported.tools, .names, .notes, .tokens
    calls = exported.read_call(message)             # the calls in a provider's message
    exported.result_for(call, result)               # a result in the form the provider expects

`base` has the contract of formats; their table is here: to add one, write its class and add a line. `dialect`
rewrites JSON Schemas, and undoes that for the arguments of a call. No provider's package is imported.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from toolcrib.catalog.export.base import (
    ExportedTool,
    Exporter,
    ProviderExporter,
    RawCall,
    ToolCall,
    find_calls,
    read_arguments,
    result_text,
)
from toolcrib.catalog.export.dialect import ArgumentDecoder, Dialect, SkippedError, map_names
from toolcrib.catalog.export.formats import (
    MCP,
    Anthropic,
    Bedrock,
    Gemini,
    Markdown,
    OpenAI,
    OpenAIResponses,
    Prompt,
)
from toolcrib.catalog.tokens import estimate
from toolcrib.component import Component
from toolcrib.content import Result
from toolcrib.errors import ConfigurationError, DefinitionError, ToolNotFoundError, suggest
from toolcrib.registry.plugins import load_plugins

__all__ = [
    "EXPORTERS",
    "Dialect",
    "Export",
    "ExportedTool",
    "Exporter",
    "ProviderExporter",
    "RawCall",
    "SkippedError",
    "ToolCall",
    "export",
    "find_exporter",
    "load_exporters",
    "result_text",
]

ENTRY_POINTS = "toolcrib.exporters"
_BUILT_IN: tuple[Exporter, ...] = (
    OpenAI(),
    OpenAIResponses(),
    Anthropic(),
    Gemini(),
    Bedrock(),
    MCP(),
    Prompt(),
    Markdown(),
)
EXPORTERS: Mapping[str, Exporter] = MappingProxyType({exporter.name: exporter for exporter in _BUILT_IN})
"""The built-in formats."""


@cache
def load_exporters() -> Mapping[str, Exporter]:
    """Return all formats, plugins included. Raise ConfigurationError for a plugin that is not a format."""
    found = dict(EXPORTERS)
    for name, plugin in load_plugins(ENTRY_POINTS):
        exporter = plugin() if isinstance(plugin, type) and issubclass(plugin, Exporter) else plugin
        if not isinstance(exporter, Exporter):
            raise ConfigurationError(f"The plugin '{name}' ({ENTRY_POINTS}) is not an Exporter")
        if exporter.name in found:
            raise ConfigurationError(f"The plugin '{name}' ({ENTRY_POINTS}) redefines '{exporter.name}'")
        found[exporter.name] = exporter
    return MappingProxyType(found)


def find_exporter(name: str) -> Exporter:
    """Return a format by name. Raise ConfigurationError with a suggestion if there is none."""
    exporters = EXPORTERS if name in EXPORTERS else load_exporters()
    if name in exporters:
        return exporters[name]
    hint = suggest(name, exporters, f"there are: {', '.join(exporters)}")
    raise ConfigurationError(f"there is no format '{name}'", hint=hint)


@dataclass(frozen=True)
class Export:
    """Tools in one format. `tools` is ready for JSON, or text if the format is text.

    `names` maps exported names to the tools' own. By the tools' own names, `notes` name lost rules, and
    `skipped` says why a tool was left out. `tokens` is about what each exported tool costs in a request.
    """

    to: str
    tools: Any
    names: Mapping[str, str]
    notes: Mapping[str, tuple[str, ...]]
    skipped: Mapping[str, str]
    tokens: Mapping[str, int]
    _exporter: Exporter = field(repr=False)
    _decoders: Mapping[str, ArgumentDecoder] = field(default_factory=dict, repr=False)

    @property
    def total_tokens(self) -> int:
        return sum(self.tokens.values())

    def route(self, exported: str) -> str:
        """Return the tool's own name for an exported one. Raise ToolNotFoundError with a suggestion."""
        if exported in self.names:
            return self.names[exported]
        close = difflib.get_close_matches(exported[:128], self.names, n=1)
        error = ToolNotFoundError(exported)
        error.args = (f"{error}; did you mean '{close[0]}'?" if close else str(error),)
        raise error

    def read_call(self, message: Any) -> list[ToolCall]:
        """Return the calls in a provider's message, with the arguments that the tools take.

        A message is a whole answer, a message, a part or a list; JSON, dicts or the provider's objects. A
        call that cannot be made has its `error` set.
        """
        exporters = [self._exporter, *EXPORTERS.values()]
        return [self._read(call) for call in find_calls(message, [item.read_call for item in exporters])]

    def _read(self, call: RawCall) -> ToolCall:
        try:
            name = self.route(call.name)
        except ToolNotFoundError as error:
            return ToolCall(call.id, call.name, {}, call.name, str(error))
        try:
            arguments = read_arguments(call.arguments)
        except ValueError as error:
            return ToolCall(call.id, name, {}, call.name, str(error))
        decoder = self._decoders.get(call.name)
        return ToolCall(call.id, name, decoder.decode(arguments) if decoder else arguments, call.name)

    def result_for(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return the result of a call in the form that the provider expects."""
        return self._exporter.write_result(call, result)

    def to_json(self) -> dict[str, Any]:
        return {
            "to": self.to,
            "tools": self.tools,
            "names": dict(self.names),
            "notes": {name: list(notes) for name, notes in self.notes.items()},
            "skipped": dict(self.skipped),
            "tokens": {"total": self.total_tokens, "tools": dict(self.tokens)},
        }


def export(
    tools: Iterable[Component],
    to: str | Exporter = "openai",
    *,
    strict: bool = True,
    title: str = "Tools",
    progress: Callable[[int, int], None] | None = None,
) -> Export:
    """Export tools in the format `to`: a name, see `load_exporters`, or an Exporter. Resources and prompts
    are exported where the format has them, and otherwise left out.

    `strict=False` does not ask for a provider's strict mode; `title` is the heading of a page; `progress` is
    called with the number of exported tools, and of all. A tool that cannot be exported is skipped, and the
    others are exported. Raise ConfigurationError for an unknown format.
    """
    exporter = find_exporter(to) if isinstance(to, str) else to
    everything = list(tools)
    chosen = [tool for tool in everything if tool.kind == "tool"]
    labels = _label(chosen)
    names = map_names(label for label in labels if label) if exporter.maps_names else {}
    exported: dict[str, ExportedTool] = {}
    own_names: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for position, (tool, label) in enumerate(zip(chosen, labels, strict=True)):
        if progress is not None:
            progress(position, len(chosen))
        if not label:
            skipped[tool.name] = "it has no name" if label == "" else "another tool has this name already"
            continue
        name = names.get(label, label)
        try:
            exported[name] = exporter.export(tool, name, strict=strict)
            own_names[name] = label
        except (DefinitionError, SkippedError) as error:
            skipped[label] = str(error)
        except RecursionError:
            skipped[label] = "its schema has too many levels"
    document = exporter.combine(list(exported.values()), title)
    if exporter.has_features:
        document = exporter.combine_features(document, [tool for tool in everything if tool.kind != "tool"])
    return Export(
        exporter.name,
        document,
        own_names,
        {own_names[name]: found.notes for name, found in exported.items() if found.notes},
        skipped,
        {name: estimate(found.text) for name, found in exported.items()},
        exporter,
        {name: found.decoder for name, found in exported.items() if found.decoder is not None},
    )


def _label(tools: list[Component]) -> list[str | None]:
    """Return the name that callers use for each tool, with the version where several share a name.

    None marks a repetition.
    """
    shared = Counter(tool.name for tool in tools)
    found: list[str | None] = []
    taken: set[str] = set()
    for tool in tools:
        label = f"{tool.name}@{tool.version}" if shared[tool.name] > 1 and tool.version else tool.name
        found.append(None if label in taken else label)
        taken.add(label)
    return found
