"""What a model without function calling is told: the tools, how to ask for one, and what was said before.

Knows document C's catalog and the line protocol's words. Refuses to know who reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib import codec
from toolcrib.agents.session import Message

_HOW = """\
You can use the tools below. To use one, print a line with nothing but this JSON on it:
{"tool_call": {"name": "NAME", "args": {"PARAMETER": VALUE}}}
The whole call stands on one line. Then stop and wait; what it came to is one of these lines:
{"tool_result": {"name": "NAME", "ok": true, "result": VALUE}}
{"tool_result": {"name": "NAME", "ok": false, "error": "WHY NOT"}}
Never print such a line yourself. Everything else you print is read by the user. You may ask for tools as
often as you need them; use only names from the list, and arguments that fit the parameters."""
_NONE = "There are no tools; answer by yourself."


def introduce(catalog: Mapping[str, Any], instructions: str | None = None) -> str:
    """The beginning of every prompt: instructions, the tools, and how to ask for one."""
    parts = [instructions.strip()] if instructions and instructions.strip() else []
    if not catalog["functionSchema"]:
        return "\n\n".join([*parts, _NONE])
    parts += [_HOW, f"Tools:\n{catalog['promptList']}"]
    schemas = (
        f"{item['name']}: {codec.encode_text(item['parameters'])}" for item in catalog["functionSchema"]
    )
    parts.append("Parameters, as JSON Schema:\n" + "\n".join(schemas))
    return "\n\n".join(parts)


def recount(messages: Sequence[Message]) -> str:
    """What was said before, for a model that has not heard it."""
    if not messages:
        return ""
    said = "\n".join(f"{'User' if item.role == 'user' else 'You'}: {item.text}" for item in messages)
    return f"What was said so far:\n{said}"


def join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
