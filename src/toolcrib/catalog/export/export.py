"""Export tools in a format, with a verdict on each, and read the calls that a provider's model makes.

The table of formats is here: to add one, write its class and add a line.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args

from toolcrib.catalog.export.base import ExportedTool, Exporter, RawCall, ToolCall, find_calls, read_arguments
from toolcrib.catalog.export.decode import ArgumentDecoder, map_names
from toolcrib.catalog.export.documents import MCP, Catalog, Descriptor, Markdown, Prompt
from toolcrib.catalog.export.gemini import Gemini, GeminiJSON
from toolcrib.catalog.export.openai import OpenAI, OpenAIResponses
from toolcrib.catalog.export.providers import Anthropic, Bedrock, LangChain
from toolcrib.catalog.export.verdict import Change, RefusedError, Verdict, status_of
from toolcrib.catalog.tokens import estimate
from toolcrib.content import Result
from toolcrib.errors import ConfigurationError, DefinitionError, ToolNotFoundError, suggest
from toolcrib.registry.plugins import load_plugins
from toolcrib.tool import Tool

ENTRY_POINTS = "toolcrib.exporters"
_BUILT_IN: tuple[Exporter, ...] = (
    OpenAI(),
    OpenAIResponses(),
    Anthropic(),
    Gemini(),
    GeminiJSON(),
    Bedrock(),
    LangChain(),
    MCP(),
    Prompt(),
    Markdown(),
    Catalog(),
    Descriptor(),
)
EXPORTERS: Mapping[str, Exporter] = MappingProxyType({exporter.name: exporter for exporter in _BUILT_IN})
"""The built-in formats."""


@cache
def load_exporters() -> Mapping[str, Exporter]:
    """Return all formats, with those of plugins. Raise ConfigurationError for a plugin that is none."""
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
    """Return a format by name. Raise ConfigurationError with a suggestion where there is none."""
    exporters = EXPORTERS if name in EXPORTERS else load_exporters()
    if name in exporters:
        return exporters[name]
    hint = suggest(name, exporters, f"there are: {', '.join(exporters)}")
    raise ConfigurationError(f"there is no format '{name}'", hint=hint)


Only = Literal["exact", "all"]


@dataclass(frozen=True)
class Export:
    """Tools in one format. `tools` is ready for JSON, or text where the format is text.

    `names` maps exported names to the tools' own; `tokens` is about what each costs in a request.
    """

    to: str
    tools: Any
    verdicts: tuple[Verdict, ...]
    names: Mapping[str, str]
    tokens: Mapping[str, int]
    _exporter: Exporter = field(repr=False)
    _decoders: Mapping[str, ArgumentDecoder] = field(default_factory=dict, repr=False)

    @property
    def total_tokens(self) -> int:
        return sum(self.tokens.values())

    @property
    def refused(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.status == "refused")

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
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "names": dict(self.names),
            "tokens": {"total": self.total_tokens, "tools": dict(self.tokens)},
        }


def export(
    tools: Iterable[Tool],
    to: str | Exporter = "openai",
    *,
    strict: bool = True,
    only: Only = "all",
    title: str = "Tools",
    progress: Callable[[int, int], None] | None = None,
) -> Export:
    """Export tools in the format `to`: a name, see `load_exporters`, or an Exporter. Resources and prompts
    are exported where the format has them, and otherwise left out.

    `strict=False` does not ask for a provider's strict mode; `only="exact"` leaves out lossy tools; `title`
    is the heading of a page; `progress` is called with the number of exported tools, and of all. A tool that
    cannot be exported is refused by itself. Raise ConfigurationError for an unknown format.
    """
    exporter = find_exporter(to) if isinstance(to, str) else to
    if only not in get_args(Only):
        raise ConfigurationError(f"there is no choice {only!r}", key="only", hint="there are: exact, all")
    everything = list(tools)
    chosen = [tool for tool in everything if tool.kind == "tool"]
    features = [tool for tool in everything if tool.kind != "tool"]
    labels = _label(chosen)
    names = map_names(label for label in labels if label is not None) if exporter.maps_names else {}
    verdicts: list[Verdict] = []
    exported: dict[str, ExportedTool] = {}
    for position, (tool, label) in enumerate(zip(chosen, labels, strict=True)):
        if progress is not None:
            progress(position, len(chosen))
        verdict, found = _export_one(tool, label, names.get(label or "", label), exporter, strict)
        verdicts.append(verdict)
        if (
            found is not None
            and verdict.exported is not None
            and (only == "all" or verdict.status == "exact")
        ):
            exported[verdict.exported] = found
    document = exporter.combine(list(exported.values()), title)
    refused = exporter.find_refused(document, exported.keys())
    for index, verdict in enumerate(verdicts):
        if verdict.exported in refused:
            verdicts[index] = Verdict(verdict.name, None, "refused", reason=refused[verdict.exported])
            del exported[verdict.exported]
    if exporter.has_features:
        document = exporter.combine_features(document, features)
    kept = [verdict for verdict in verdicts if verdict.exported in exported]
    return Export(
        exporter.name,
        document,
        tuple(verdicts),
        {str(verdict.exported): verdict.name for verdict in kept},
        {str(verdict.exported): verdict.tokens for verdict in kept},
        exporter,
        {name: found.decoder for name, found in exported.items() if found.decoder is not None},
    )


def _label(tools: list[Tool]) -> list[str | None]:
    """Return the name that callers use for each tool, with the version where several share a name.

    None stands for a repetition.
    """
    shared = Counter(tool.name for tool in tools)
    found: list[str | None] = []
    taken: set[str] = set()
    for tool in tools:
        label = f"{tool.name}@{tool.version}" if shared[tool.name] > 1 and tool.version else tool.name
        found.append(None if label in taken else label)
        taken.add(label)
    return found


def _export_one(
    tool: Tool, label: str | None, exported: str | None, exporter: Exporter, strict: bool
) -> tuple[Verdict, ExportedTool | None]:
    if label is None or exported is None:
        return Verdict(tool.name, None, "refused", reason="another tool has this name already"), None
    if not label:
        return Verdict(label, None, "refused", reason="it has no name"), None
    try:
        found = exporter.export(tool, exported, strict=strict)
    except (DefinitionError, RefusedError) as error:
        return Verdict(label, None, "refused", reason=str(error)), None
    except RecursionError:
        return Verdict(label, None, "refused", reason="its schema has too many levels"), None
    changes = found.changes
    if exported != label:
        changes = (Change("", f"renamed to {exported!r}"), *changes)
    tokens = estimate(found.text)
    return Verdict(label, exported, status_of(changes), changes, tokens=tokens, strict=found.strict), found
