"""What a call came to, as each provider wants it told.

Knows content blocks and the providers' spellings for them. Refuses to know what was called.

Calls as providers' messages hold them: whole answers, messages, parts, as JSON, as dicts or as a package's
objects.

Every provider spells a call otherwise, and none of the spellings can be taken for another, so one reader
knows them all. Knows messages as plain data; refuses to know which tools there are.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.content import Block, Result
from toolcrib.validation import codec

_HOLDERS = (
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
"""Where calls are to be found in an answer. Never in what a call holds itself."""
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model wants done. `name` is the tool's own, `exported` the one at the provider.

    `error` says why it cannot be: a tool that is not there, arguments that are not JSON. The rest of the
    message is read all the same.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    exported: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as it stands in a message."""

    id: str
    name: str
    arguments: Any


def find_calls(message: Any) -> list[RawCall]:
    """All calls in a provider's message, in order."""
    return list(_search(_plain(message), 0))


def read_arguments(given: Any) -> dict[str, Any]:
    """The arguments of a call as an object. Raises ValueError, in words for the model."""
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


def _plain(message: Any) -> Any:
    """Dicts and lists out of JSON text or out of the objects of a provider's package."""
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


def _search(node: Any, depth: int) -> Iterator[RawCall]:
    if depth > _DEEPEST:
        return
    if isinstance(node, list | tuple):
        for item in node:
            yield from _search(item if isinstance(item, Mapping | list | str) else _plain(item), depth + 1)
        return
    if not isinstance(node, Mapping):
        return
    for read in _READERS:
        found = read(node)
        if found is not None:
            yield found
            return
    seen: set[tuple[str, str]] = set()
    for key in _HOLDERS:
        if key in node:
            here = list(_search(node[key], depth + 1))
            # LangChain repeats the calls of a message in its content.
            yield from (call for call in here if not call.id or (call.id, call.name) not in seen)
            seen.update((call.id, call.name) for call in here)


# --- spellings ---------------------------------------------------------------------------------------


def _read_chat(node: Mapping[str, Any]) -> RawCall | None:
    """OpenAI, chat: `{"id", "type": "function", "function": {"name", "arguments": "{...}"}}`."""
    inner = node.get("function")
    if isinstance(inner, Mapping) and "name" in inner and "parameters" not in inner:
        return _make(node.get("id"), inner["name"], inner.get("arguments"))
    return None


def _read_responses(node: Mapping[str, Any]) -> RawCall | None:
    """OpenAI, responses: `{"type": "function_call", "call_id", "name", "arguments": "{...}"}`."""
    if node.get("type") == "function_call" and "name" in node:
        return _make(node.get("call_id") or node.get("id"), node["name"], node.get("arguments"))
    return None


def _read_anthropic(node: Mapping[str, Any]) -> RawCall | None:
    """`{"type": "tool_use", "id", "name", "input": {...}}`."""
    if node.get("type") == "tool_use" and "name" in node:
        return _make(node.get("id"), node["name"], node.get("input"))
    return None


def _read_gemini(node: Mapping[str, Any]) -> RawCall | None:
    """`{"functionCall": {"id"?, "name", "args": {...}}}`; its package says `function_call`."""
    inner = node.get("functionCall", node.get("function_call"))
    if isinstance(inner, Mapping) and "name" in inner:
        return _make(inner.get("id"), inner["name"], inner.get("args", inner.get("arguments")))
    return None


def _read_bedrock(node: Mapping[str, Any]) -> RawCall | None:
    """`{"toolUse": {"toolUseId", "name", "input": {...}}}`."""
    inner = node.get("toolUse")
    if isinstance(inner, Mapping) and "name" in inner:
        return _make(inner.get("toolUseId"), inner["name"], inner.get("input"))
    return None


def _read_langchain(node: Mapping[str, Any]) -> RawCall | None:
    """`{"type": "tool_call", "id", "name", "args": {...}}`; a bare `{"name", "args"}` is taken too."""
    if "name" in node and isinstance(node.get("args"), Mapping | str):
        return _make(node.get("id"), node["name"], node["args"])
    return None


def _read_line(node: Mapping[str, Any]) -> RawCall | None:
    """The line that a prompted model writes: `{"tool_call": {"name", "args": {...}}}`."""
    inner = node.get("tool_call")
    if isinstance(inner, Mapping) and "name" in inner:
        return _make(inner.get("id"), inner["name"], inner.get("args", inner.get("arguments")))
    return None


def _read_mcp(node: Mapping[str, Any]) -> RawCall | None:
    """MCP's own: `{"id", "method": "tools/call", "params": {"name", "arguments": {...}}}`."""
    inner = node.get("params")
    if node.get("method") == "tools/call" and isinstance(inner, Mapping) and "name" in inner:
        return _make(node.get("id"), inner["name"], inner.get("arguments"))
    return None


def _make(identity: Any, name: Any, arguments: Any) -> RawCall:
    return RawCall("" if identity is None else str(identity), str(name), arguments)


_READERS: tuple[Callable[[Mapping[str, Any]], RawCall | None], ...] = (
    _read_chat,
    _read_responses,
    _read_anthropic,
    _read_gemini,
    _read_bedrock,
    _read_line,
    _read_mcp,
    _read_langchain,
)


_PICTURES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}


def say_result(result: Result) -> str:
    """A result as one text: its text blocks, else its data; other blocks are named."""
    parts = [_say_block(block) for block in result.content]
    if not parts and result.is_structured:
        parts = [codec.encode_text(result.structured_content)]
    return "\n".join(parts)


def _say_block(block: Block) -> str:
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


def answer_chat(call: ToolCall, result: Result) -> dict[str, Any]:
    """A message for OpenAI's chat completions."""
    return {"role": "tool", "tool_call_id": call.id, "content": _mark(result)}


def answer_responses(call: ToolCall, result: Result) -> dict[str, Any]:
    """An input item for OpenAI's responses."""
    return {"type": "function_call_output", "call_id": call.id, "output": _mark(result)}


def answer_anthropic(call: ToolCall, result: Result) -> dict[str, Any]:
    """A content block of the next user message."""
    content: list[dict[str, Any]] = []
    for block in result.content:
        if block.get("type") == "image" and block.get("mimeType") in _PICTURES:
            source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
            content.append({"type": "image", "source": source})
        elif text := _say_block(block):
            content.append({"type": "text", "text": text})
    if not content and result.is_structured:
        content.append({"type": "text", "text": codec.encode_text(result.structured_content)})
    answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    if result.is_error:
        answer["is_error"] = True
    return answer


def answer_gemini(call: ToolCall, result: Result) -> dict[str, Any]:
    """A part of the next user content."""
    if result.is_error:
        response: dict[str, Any] = {"error": say_result(result)}
    else:
        response = {"output": result.structured_content if result.is_structured else say_result(result)}
    inner: dict[str, Any] = {"name": call.exported or call.name, "response": response}
    return {"functionResponse": {"id": call.id, **inner} if call.id else inner}


def answer_bedrock(call: ToolCall, result: Result) -> dict[str, Any]:
    """A content block of the next user message. Pictures are bytes, as boto3 takes them."""
    content: list[dict[str, Any]] = []
    for block in result.content:
        if block.get("type") == "image" and block.get("mimeType") in _PICTURES:
            data = base64.b64decode(block["data"])
            content.append({"image": {"format": _PICTURES[block["mimeType"]], "source": {"bytes": data}}})
        else:
            content.append({"text": _say_block(block)})
    if not content:
        data = result.structured_content
        is_object = result.is_structured and isinstance(data, dict)
        content.append({"json": data} if is_object else {"text": say_result(result)})
    status = "error" if result.is_error else "success"
    return {"toolResult": {"toolUseId": call.id, "content": content, "status": status}}


def answer_langchain(call: ToolCall, result: Result) -> dict[str, Any]:
    """What `ToolMessage(**...)` and `convert_to_messages` take."""
    status = "error" if result.is_error else "success"
    name = call.exported or call.name
    return {
        "role": "tool",
        "tool_call_id": call.id,
        "name": name,
        "content": say_result(result),
        "status": status,
    }


def answer_mcp(call: ToolCall, result: Result) -> dict[str, Any]:  # noqa: ARG001 - one shape for all
    return result.to_json()


def answer_line(call: ToolCall, result: Result) -> dict[str, Any]:
    """The line that a prompted model gets back."""
    told: dict[str, Any] = {"name": call.exported or call.name, "ok": not result.is_error}
    if result.is_error:
        told["error"] = say_result(result)
    else:
        told["result"] = result.structured_content if result.is_structured else say_result(result)
    return {"tool_result": told}


def _mark(result: Result) -> str:
    """OpenAI has no place for errors but the text."""
    text = say_result(result)
    return f"Error: {text}" if result.is_error and not text.startswith("Error") else text
