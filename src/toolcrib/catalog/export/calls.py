"""Tool calls in providers' messages, and results as text.

Every provider writes a call differently, and no form can be mistaken for another. So a message may be a
whole answer, a message, a part or a list of them, as JSON, as dicts or as objects of the provider's package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.content import Block, Result
from toolcrib.validation import codec

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
    seen: set[tuple[str, str]] = set()
    for key in _CONTAINERS:
        if key in node:
            calls = list(_search(node[key], readers, depth + 1))
            # LangChain repeats the calls of a message in its content.
            yield from (call for call in calls if not call.id or (call.id, call.name) not in seen)
            seen.update((call.id, call.name) for call in calls)


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
