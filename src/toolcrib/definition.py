"""Definitions of tools as clients see them: name, description, schemas, annotations, and a fingerprint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from toolcrib.errors import (
    NO_LOCATION,
    DefinitionError,
    InvalidNameError,
    InvalidSchemaError,
    InvalidToolError,
    Location,
)
from toolcrib.validation import codec
from toolcrib.validation import validator as validation
from toolcrib.validation.schema_tree import HEADER_MARK, Mirrored, mirrored_parameters

# --- annotations -----------------------------------------------------------------------------------

HINT_LABELS = {
    "readOnlyHint": "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open-world",
}
"""The hints of MCP, and their names for people."""


def describe_hints(annotations: Mapping[str, Any]) -> str:
    """Return hints for people: `read-only, not open-world`."""
    given = {label: annotations.get(hint) for hint, label in HINT_LABELS.items()}
    return ", ".join(
        label if value else f"not {label}" for label, value in given.items() if value is not None
    )


def find_wrong_annotations(annotations: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the annotations of a wrong type, each with the type that MCP requires."""
    wrong = [
        (key, "true or false")
        for key in HINT_LABELS
        if key in annotations and not isinstance(annotations[key], bool)
    ]
    if "title" in annotations and not isinstance(annotations["title"], str):
        wrong.append(("title", "a string"))
    return wrong


# --- definitions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToolDefinition:
    """The definition of a tool as clients see it, with metadata that only toolcrib uses.

    `description` is the text of the docstring without the parts that are published in schemas. `returns` and
    `raises` keep the Returns and Raises sections, see `standalone_description`.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    output_schema: Mapping[str, Any] | None = None
    title: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    version: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: Location = NO_LOCATION
    returns: str = ""
    raises: tuple[tuple[str, str], ...] = ()
    icons: Sequence[Mapping[str, Any]] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """Return the tool as MCP 2026-07-28 lists it, without metadata and tags."""
        wire: dict[str, Any] = {"name": self.name}
        if self.title is not None:
            wire["title"] = self.title
        if self.description:
            wire["description"] = self.description
        wire["inputSchema"] = self.input_schema
        if self.output_schema is not None:
            wire["outputSchema"] = self.output_schema
        if self.annotations:
            wire["annotations"] = self.annotations
        if self.icons:
            wire["icons"] = self.icons
        if self.meta:
            wire["_meta"] = self.meta
        return wire

    @property
    def app_uri(self) -> str | None:
        """The URI of the page that shows the results of the tool."""
        ui = self.meta.get("ui")
        uri = ui.get("resourceUri") if isinstance(ui, Mapping) else None
        return uri if isinstance(uri, str) else None

    @property
    def is_for_model(self) -> bool:
        """Whether hosts show the tool to models: one with the visibility "app" is for its page only."""
        ui = self.meta.get("ui") if self.meta else None
        visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
        return not isinstance(visibility, list | tuple) or "model" in visibility

    @cached_property
    def mirrored(self) -> Mirrored:
        """The arguments that clients repeat in headers: path and label."""
        try:
            if f'"{HEADER_MARK}"'.encode() not in codec.write(self.input_schema):
                return {}  # nearly always
        except (TypeError, ValueError):
            pass  # not plain data, which is reported elsewhere
        return mirrored_parameters(self.input_schema)

    @cached_property
    def standalone_description(self) -> str:
        """The description with Returns and Raises, for readers that get no output schema."""
        if self.output_schema is None:
            return self.description
        return publish_docs(self.description, self.returns, self.raises, None)[0]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the canonical definition."""
        return codec.digest(self.to_wire())


def publish_docs(
    description: str,
    returns: str,
    raises: Sequence[tuple[str, str]],
    output_schema: Mapping[str, Any] | None,
    *,
    is_explicit: bool = False,
) -> tuple[str, Mapping[str, Any] | None]:
    """Return the description and the output schema with the Returns and Raises sections of a docstring.

    This is the only place that decides where they go: Returns to the description of the output schema,
    unless the author wrote that schema; where there is none, both to the end of the tool's description.
    """
    if output_schema is not None:
        if returns and not is_explicit:
            returns = join_descriptions(returns, output_schema.get("description"))
            output_schema = {**output_schema, "description": returns}
        return description, output_schema
    sections = [f"Returns: {returns}"] if returns else []
    if raises:
        lines = [f"- {name}: {text}" if text else f"- {name}" for name, text in raises]
        sections.append("\n".join(["Raises:", *lines]))
    if sections and description and "\n" not in description and description[-1].isalnum():
        description += "."  # docstring parsing removes the full stop of a single sentence
    return "\n\n".join([description, *sections] if description else sections), None


def join_descriptions(description: str, class_description: str | None) -> str:
    """Join the description of a parameter, field or result with that of its class."""
    if not class_description or class_description == description:
        return description
    return f"{description}\n\n{class_description}"


def check_input_schema(schema: Any, name: str) -> Mapping[str, Any]:
    """Return the schema, or raise where arguments cannot be checked against it."""
    if not isinstance(schema, Mapping):
        raise InvalidSchemaError(f"The input schema of tool '{name}' must be a dict", tool=name)
    if schema.get("type") != "object":
        raise InvalidSchemaError(
            f"The input schema of tool '{name}' must have type='object'",
            tool=name,
            hint="arguments are an object; put other values in a property",
        )
    try:
        validation.check_schema(schema)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(
            f"The input schema of tool '{name}' is invalid: {error}", tool=name, hint=error.hint
        ) from None
    return schema


# --- public checks, whose names and messages are fixed by a requirement -------------------------------


def validate_tool_schema(schema: Any) -> None:
    """Raise InvalidSchemaError unless `schema` is a JSON Schema for a tool's arguments."""
    try:
        validation.check_schema(schema)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"Invalid schema: {error}", hint=error.hint) from None
    if schema.get("type") != "object":
        raise InvalidSchemaError("Tool schema must be of type 'object'")
    if "properties" not in schema:
        raise InvalidSchemaError("Tool schema must have 'properties' field")


def validate_tool_definition(tool: Any) -> None:
    """Raise DefinitionError unless `tool` has a name, a description and a valid schema.

    Accepts anything with `name`, `description` and `input_schema` (or `inputSchema`).
    """
    if not getattr(tool, "name", None):
        raise DefinitionError("Tool name is required")
    if not isinstance(tool.name, str):
        raise InvalidToolError(f"Tool name must be string, got {type(tool.name)}")
    if not getattr(tool, "description", None):
        raise DefinitionError("Tool description is required", tool=tool.name)
    schema = getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", None)
    try:
        validation.check_schema(schema)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"Invalid schema: {error}", tool=tool.name, hint=error.hint) from None
    if re.fullmatch(r"[a-zA-Z0-9_]+", tool.name) is None:
        raise InvalidNameError(
            "Tool name must contain only letters, numbers, and underscores", tool=tool.name
        )
