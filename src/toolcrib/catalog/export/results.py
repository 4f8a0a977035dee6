"""What a call came to, as each provider wants it told.

Knows content blocks and the providers' spellings for them. Refuses to know what was called.
"""

from __future__ import annotations

import base64
from typing import Any

from toolcrib import codec
from toolcrib.catalog.export.calls import ToolCall
from toolcrib.content import Block, Result

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
