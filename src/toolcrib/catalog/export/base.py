"""The contract of export formats.

A format is a class with a `name`, a `summary` and an `export` method. One for a model provider derives from
ProviderExporter: it names the JSON Schema that the provider supports, and writes tools, reads calls and
writes results (docs/extending.md has an example). Built-in formats are listed in `export.formats`; a package
adds one with an entry point in the group `toolcrib.exporters` that names an instance or the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from toolcrib.catalog.export.calls import RawCall, ToolCall
from toolcrib.catalog.export.decode import ArgumentDecoder
from toolcrib.catalog.export.dialect import Dialect, rewrite_schema
from toolcrib.catalog.export.verdict import Change, NotStrictError, RefusedError
from toolcrib.catalog.schema_algebra import Node
from toolcrib.content import Result
from toolcrib.tool import Tool
from toolcrib.validation import codec


@dataclass(frozen=True)
class ExportedTool:
    """One tool in a format. `text` is what its cost is estimated from."""

    tool: Tool
    value: Any
    text: str
    changes: tuple[Change, ...] = ()
    strict: bool | None = None
    decoder: ArgumentDecoder | None = None


class Exporter(ABC):
    """A format that tools can be exported in."""

    name: ClassVar[str]
    summary: ClassVar[str]
    maps_names: ClassVar[bool] = False
    """Tools get names that every provider accepts."""

    @abstractmethod
    def export(self, tool: Tool, name: str, *, strict: bool) -> ExportedTool:
        """Return one tool in this format, under `name`. Raise RefusedError where it has no form for it."""

    def combine(self, tools: Sequence[ExportedTool], title: str) -> Any:  # noqa: ARG002 - for pages
        """Return all tools as one document: data for JSON, or text."""
        return [exported.value for exported in tools]

    def refuses(self, document: Any, name: str) -> str | None:  # noqa: ARG002 - for overriding
        """Return why a combined document does not have the tool `name` after all."""
        return None

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:  # noqa: ARG002 - for overriding
        """Return the call that a part of a provider's message is, None where it is something else."""
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:  # noqa: ARG002 - for overriding
        """Return the result of a call in the form the provider expects."""
        return result.to_json()


class ProviderExporter(Exporter):
    """A format for a model provider: the input schema is rewritten in its dialect."""

    maps_names = True
    dialect: ClassVar[Dialect]
    strict_dialect: ClassVar[Dialect | None] = None
    """Tried first, where the provider has a strict mode."""

    @abstractmethod
    def write_tool(self, name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:
        """Return a tool as the provider's API takes it."""

    def check_strict(self, schema: Node) -> None:
        """Raise NotStrictError where a schema exceeds the limits of strict mode."""

    def export(self, tool: Tool, name: str, *, strict: bool) -> ExportedTool:
        definition = tool.definition
        is_closed = tool.arguments.closed
        is_strict: bool | None = None if self.strict_dialect is None else False
        reason = None
        rewritten = None
        if strict and self.strict_dialect is not None:
            try:
                rewritten = rewrite_schema(definition.input_schema, self.strict_dialect, is_closed=is_closed)
                self.check_strict(rewritten.schema)
                is_strict = True
            except (NotStrictError, RefusedError) as error:
                reason, rewritten = str(error), None
        if rewritten is None:
            rewritten = rewrite_schema(definition.input_schema, self.dialect, is_closed=is_closed)
        texts = (definition.standalone_description, *rewritten.notes)
        description = "\n\n".join(text for text in texts if text)
        changes = rewritten.changes
        if reason is not None:
            changes = (Change("", f"not strict: {reason}"), *changes)
        value = self.write_tool(name, description, rewritten.schema, is_strict)
        return ExportedTool(tool, value, codec.write(value).decode(), changes, is_strict, rewritten.decoder)


def describe_tool(name: str, description: str) -> dict[str, Any]:
    """Return the name and, where there is one, the description: providers reject an empty one."""
    return {"name": name, "description": description} if description.strip() else {"name": name}
