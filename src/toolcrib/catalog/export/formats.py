"""The table of export formats, by name. To add one, write its module and add a line here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from toolcrib.catalog.export.anthropic import Anthropic
from toolcrib.catalog.export.base import Exporter
from toolcrib.catalog.export.bedrock import Bedrock
from toolcrib.catalog.export.gemini import Gemini, GeminiJSON
from toolcrib.catalog.export.langchain import LangChain
from toolcrib.catalog.export.markdown import Markdown
from toolcrib.catalog.export.mcp import MCP, Catalog, Descriptor
from toolcrib.catalog.export.openai import OpenAI, OpenAIResponses
from toolcrib.catalog.export.prompt import Prompt
from toolcrib.errors import ConfigurationError, suggest
from toolcrib.registry.plugins import load_plugins

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
