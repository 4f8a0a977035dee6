"""Prompts: messages that a server offers by name, made by a function from its arguments.

A prompt is a tool with another form on the wire: its arguments come as strings, and what it returns becomes
messages instead of a result (docs/decisions/resources.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, cast

from toolcrib.component import Component
from toolcrib.content import MEDIA, ROLES, Block, Message, RelayedResult, Result, text_block
from toolcrib.errors import InvalidToolError
from toolcrib.options import OptionFields, ToolOptions, check_option_names
from toolcrib.registry.completion import Completers
from toolcrib.registry.resources import ComponentFields, check_fields
from toolcrib.schema.function import ToolParts
from toolcrib.schema.parameters import HandlerInfo, check_parameters, inspect_handler, name_of
from toolcrib.schema.pydantic_types import to_plain
from toolcrib.schema.result import ToolResults, is_block
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Resolver


class PromptFields(ComponentFields, total=False):
    """The options of a prompt, as keyword arguments of `server.prompt`."""

    version: str | None


class Prompt(Component):
    """A prompt with its arguments and the function that makes its messages."""

    kind = "prompt"
    __slots__ = ("completers",)

    def __init__(self, info: HandlerInfo, name: str, options: ToolOptions, origin: Any) -> None:
        super().__init__(info, name, options, "function", origin)
        self.completers: Completers = {}

    def _make_results(self, parts: ToolParts) -> ToolResults:
        return PromptResults(self.name, None, parts.dump, trusted=True)

    def to_wire(self) -> dict[str, Any]:
        """Return the prompt as the newest revision lists it."""
        wire: dict[str, Any] = {"name": self.name}
        given = {
            "title": self.options.title,
            "description": self.definition.description,
            "arguments": self._list_arguments(),
            "icons": list(self.options.icons),
            "_meta": dict(self.options.meta),
        }
        return wire | {key: value for key, value in given.items() if value not in (None, "", {}, [])}

    def _list_arguments(self) -> list[dict[str, Any]]:
        schema = self.arguments.schema
        required = schema.get("required", ())
        found = []
        for name, shape in schema["properties"].items():
            entry: dict[str, Any] = {"name": name}
            words = " ".join(filter(None, (shape.get("description", ""), _describe_form(shape, schema))))
            if words:
                entry["description"] = words
            if name in required:
                entry["required"] = True
            found.append(entry)
        return found


def make_prompt(function: Callable[..., Any], name: str | None, fields: PromptFields) -> Prompt:
    """Make a prompt of a function. Raise DefinitionError where it cannot be one."""
    if not callable(function):
        raise InvalidToolError(f"A prompt needs a function, got {type(function).__name__}")
    if name and fields.get("name"):
        raise InvalidToolError("Option 'name' is given twice", tool=name)
    check_fields({"name": name, **fields}, name)
    name = name or fields.get("name") or name_of(function)
    if not name:
        raise InvalidToolError("A lambda needs a name", hint="give one: server.prompt(..., name=...)")
    check_option_names(fields, "prompt", PromptFields.__annotations__)
    options = ToolOptions().override(cast(OptionFields, fields))
    if options.run == "process":
        raise InvalidToolError("A prompt cannot run in a process", tool=name, hint="use run='thread'")
    info = inspect_handler(function, name, "prompt")
    check_parameters(info, name)
    return Prompt(info, name, options, function)


def _describe_form(shape: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return how to write an argument that is not a plain string, "" for one that is."""
    shape = Resolver(schema).follow(shape)
    if "enum" in shape:
        return f"(one of: {', '.join(str(value) for value in shape['enum'])})"
    kind = shape.get("type")
    if kind in ("array", "object"):
        return f"(JSON {kind})"
    if kind is None and "anyOf" in shape:
        shown = [_describe_form(part, schema) for part in shape["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(shown)) if all(shown) else ""
    if kind in ("integer", "number", "boolean"):
        return f"({'true or false' if kind == 'boolean' else kind})"
    return ""


class PromptResults(ToolResults):
    """Makes messages of what a prompt returns: text, content, messages, or a list of these."""

    kind = "Prompt"
    __slots__ = ()

    def _finish(self, value: Any) -> Result:
        if isinstance(value, RelayedResult):
            return self._keep(value)
        if isinstance(value, Result):
            made = self._check_whole(value)
            return made if made.is_error else self._messages(made.content)
        if type(value) is dict and isinstance(value.get("messages"), list):
            made = self._messages(value["messages"])
            if isinstance(value.get("description"), str):
                made.structured_content = value["description"]
            return made
        return self._messages(value if isinstance(value, list | tuple) else [value])

    def _structured(self, data: Any) -> Result:
        return self._messages([data])

    def _messages(self, items: Sequence[Any]) -> Result:
        made = [self._message(item) for item in items]
        self._check_size(len(codec.encode(made)))
        return Result(made)

    def _message(self, item: Any) -> Block:
        if isinstance(item, Message):
            return {"role": item.role, "content": self._content(item.content)}
        if isinstance(item, dict) and item.keys() >= {"role", "content"}:
            if item["role"] not in ROLES:
                raise self._error(f"unknown role {item['role']!r:.40}: use user or assistant")
            return {"role": item["role"], "content": self._content(item["content"])}
        return {"role": "user", "content": self._content(item)}

    def _content(self, value: Any) -> Block:
        if isinstance(value, str):
            return text_block(self._check_text(str.__str__(value)))
        if isinstance(value, MEDIA):
            return value.to_block()
        if is_block(value):
            plain: Block = to_plain(value)
            return plain
        if value is None:
            raise self._error("it is None; return text or messages")
        if isinstance(value, bytes | bytearray | memoryview):
            raise self._error("bytes are no message; return an Image, Audio or File")
        data = self._to_json_data(value)
        is_name = type(data) is str and isinstance(value, Enum)
        return text_block(data if is_name else codec.encode(data).decode())
