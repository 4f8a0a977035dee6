"""Export tools in the format of a model provider, and read its calls back.

    exported = export(tools, to="anthropic")       # exported.tools, .names, .notes, .tokens
    calls = exported.read_call(message)             # the calls in a provider's message
    exported.result_for(call, result)               # a result in the form the provider expects

`base` has the contract of formats, `export` the table. `dialect` rewrites JSON Schemas, and undoes that for
the arguments of a call. No provider's package is imported.
"""

from toolcrib.catalog.export.base import (
    ExportedTool,
    Exporter,
    ProviderExporter,
    RawCall,
    ToolCall,
    result_text,
)
from toolcrib.catalog.export.dialect import Dialect, SkippedError
from toolcrib.catalog.export.export import EXPORTERS, Export, export, find_exporter, load_exporters

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
