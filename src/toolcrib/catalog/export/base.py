"""The contract of export formats, and calls and results in providers' messages.

A format is a class with a `name`, a `summary` and an `export` method. One for a model provider derives from
ProviderExporter: it names the JSON Schema that the provider supports, and writes tools, reads calls and
writes results (docs/extending.md has an example). Built-in formats are listed in `export`; a package
adds one with an entry point in the group `toolcrib.exporters` that names an instance or the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from toolcrib.catalog.export.dialect import ArgumentDecoder, Dialect, NotStrictError, rewrite_schema
from toolcrib.catalog.schemas import Node
from toolcrib.component import Component
from toolcrib.content import Block, Result
from toolcrib.validation import codec


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call by a model. `name` is the tool's own, `exported` the one in the export.

    `error` says why the call cannot be made: an unknown tool, or arguments that are not JSON.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    exported: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as a message has it."""

    id: Any
    name: Any
    arguments: Any


@dataclass(frozen=True)
class ExportedTool:
    """One tool in a format. Its cost is estimated from `text`; `notes` name lost rules."""

    tool: Component
    value: Any
    text: str
    notes: tuple[str, ...] = ()
    decoder: ArgumentDecoder | None = None


class Exporter(ABC):
    """A format that tools can be exported in."""

    name: ClassVar[str]
    summary: ClassVar[str]
    maps_names: ClassVar[bool] = False
    """Tools get names that every provider accepts."""
    has_features: ClassVar[bool] = False
    """The format has resources and prompts, too: `combine_features` adds them."""

    @abstractmethod
    def export(self, tool: Component, name: str, *, strict: bool) -> ExportedTool:
        """Return one tool in this format, under `name`. Raise SkippedError if it has no form for it."""

    def combine(self, tools: Sequence[ExportedTool], title: str) -> Any:  # noqa: ARG002 - for pages
        """Return all tools as one document: data for JSON, or text."""
        return [exported.value for exported in tools]

    def combine_features(self, document: Any, features: Sequence[Component]) -> Any:  # noqa: ARG002 - for overriding
        """Return the document of all tools with resources and prompts."""
        return document

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:  # noqa: ARG002 - for overriding
        """Return the call that a part of a provider's message is, None if it is something else."""
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:  # noqa: ARG002 - for overriding
        """Return the result of a call in the form the provider expects."""
        return result.to_json()


class ProviderExporter(Exporter):
    """A format for a model provider: the input schema is rewritten in its dialect."""

    maps_names = True
    dialect: ClassVar[Dialect]
    strict_dialect: ClassVar[Dialect | None] = None
    """Tried first, if the provider has a strict mode."""

    @abstractmethod
    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:
        """Return a tool as the provider's API takes it."""

    def check_strict(self, schema: Node) -> None:
        """Raise NotStrictError if a schema exceeds the limits of strict mode."""

    def export(self, tool: Component, name: str, *, strict: bool) -> ExportedTool:
        definition = tool.definition
        is_closed = tool.arguments.closed
        is_strict, reasons = False, []
        rewritten = rewrite_schema(definition.input_schema, self.dialect, is_closed=is_closed)
        if strict and self.strict_dialect is not None:
            try:
                found = rewrite_schema(definition.input_schema, self.strict_dialect, is_closed=is_closed)
                self.check_strict(found.schema)
                rewritten, is_strict = found, True
            except NotStrictError as error:
                reasons = [f"not strict: {error}"]
        texts = (definition.standalone_description, rewritten.description)
        description = "\n\n".join(text for text in texts if text)
        value = self.write_tool(name, description, rewritten.schema, is_strict)
        notes = (*reasons, *rewritten.notes)
        return ExportedTool(tool, value, codec.write(value).decode(), notes, rewritten.decoder)


def describe_tool(name: str, description: str) -> dict[str, Any]:
    """Return the name and, if there is one, the description: providers reject an empty one."""
    return {"name": name, "description": description} if description.strip() else {"name": name}


# --- calls in messages --------------------------------------------------------------------------------------
#
# Every provider writes a call differently, and no form can be mistaken for another. So a message may be a
# whole answer, a message, a part or a list of them: JSON, dicts, or objects of the provider's package.

_CONTAINERS = (
    "candidates",
    "choices",
    "content",
    "message",
    "messages",
    "output",
    "parts",
    "tool_calls",
    "toolCalls",
    "delta",
)
"""The keys under which answers have calls."""
_MAX_DEPTH = 12
IMAGE_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
"""The images that models take."""

CallReader = Callable[[Mapping[str, Any]], RawCall | None]


def find_calls(message: Any, readers: Sequence[CallReader]) -> list[RawCall]:
    """Return all calls in a provider's message, in order."""
    return list(_search(_to_plain(message), readers, 0))


def read_arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a call as a dict. Raise ValueError with a message for the model."""
    if isinstance(given, str | bytes):
        data = given.encode() if isinstance(given, str) else given
        if not data.strip():
            return {}
        try:
            given = codec.parse(data)
        except ValueError as error:
            raise ValueError(f"the arguments are not JSON: {error}") from None
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    raise ValueError(f"the arguments must be an object, not {type(given).__name__}")


def _to_plain(message: Any) -> Any:
    """Return dicts and lists for JSON text or for the objects of a provider's package."""
    if isinstance(message, str | bytes):
        try:
            return codec.parse(message.encode() if isinstance(message, str) else message)
        except ValueError as error:
            raise ValueError(f"the message is not JSON: {error}") from None
    for method in ("model_dump", "to_dict", "dict"):
        dump = getattr(message, method, None)
        if callable(dump) and not isinstance(message, Mapping | type):
            return dump()
    return message


def _search(node: Any, readers: Sequence[CallReader], depth: int) -> Iterator[RawCall]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(node, list | tuple):
        for item in node:
            plain = item if isinstance(item, Mapping | list | str) else _to_plain(item)
            yield from _search(plain, readers, depth + 1)
        return
    if not isinstance(node, Mapping):
        return
    for read in readers:
        found = read(node)
        if found is not None:
            yield RawCall("" if found.id is None else str(found.id), str(found.name), found.arguments)
            return
    for key in _CONTAINERS:
        if key in node:
            yield from _search(node[key], readers, depth + 1)


def result_text(result: Result) -> str:
    """Return a result as one text: its blocks, or else its data. Blocks that are not text are named."""
    parts = [block_text(block) for block in result.content]
    if not parts and result.is_structured:
        parts = [codec.encode_text(result.structured_content)]
    return "\n".join(parts)


def block_text(block: Block) -> str:
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "resource":
            resource = block.get("resource", {})
            if "text" in resource:
                return str(resource["text"])
            return f"[{resource.get('mimeType', 'a file')} at {resource.get('uri')}, not shown]"
        case "resource_link":
            return f"[{block.get('name')}: {block.get('uri')}]"
        case kind:
            return f"[{kind} {block.get('mimeType', '')}, not shown]"
