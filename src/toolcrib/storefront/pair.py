"""The two tools themselves: what models read of them, and what clients are told.

Knows words and schemas; what the tools do is given to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolcrib.context import Context, Principal
from toolcrib.definition import OptionFields
from toolcrib.errors import ToolError
from toolcrib.tool import Tool

SEARCH, CALL = "search_tools", "call_tool"
MAX_FOUND = 50
SHOWN = ("name", "description", "inputSchema")
"""What every tool that is found comes with."""

_FOUND = {
    "type": "object",
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "title": {"type": "string"},
                    "description": {"type": "string"},
                    "inputSchema": {"type": "object"},
                    "annotations": {"type": "object"},
                },
                "required": list(SHOWN),
            },
        },
        "note": {"type": "string"},
    },
    "required": ["tools"],
}


def make_finder(name: str, caller: str, find: Callable[[str, int, Principal], dict[str, Any]]) -> Tool:
    """`search_tools`. It runs on a thread: the first search of many tools takes a while."""

    def search(query: str, ctx: Context, limit: int = 5) -> dict[str, Any]:
        return find(query, limit, ctx.principal)

    return Tool.from_handler(
        search,
        name,
        "Find tools of this server by what they do. It has more tools than are listed: say in a few words "
        "what you want done, and you get the names, descriptions and input schemas of the tools that fit, "
        f"the best first. Then call one of them with {caller}.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What you want done, or a part of a tool's name."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_FOUND,
                    "default": 5,
                    "description": "How many tools at most.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        title="Search tools",
        output_schema=_FOUND,
        read_only=True,
        idempotent=True,
        open_world=False,
    )


def make_caller(
    name: str, finder: str, hints: OptionFields, explain_missing: Callable[[str, Principal], str]
) -> Tool:
    """`call_tool`. Whoever runs calls runs the tool that is meant; this runs where there is none."""

    def call(name: str, ctx: Context, arguments: dict[str, Any] | None = None) -> Any:  # noqa: ARG001
        raise ToolError(explain_missing(name, ctx.principal))

    return Tool.from_handler(
        call,
        name,
        f"Call a tool that {finder} has found.",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"The name of the tool, as {finder} gives it."},
                "arguments": {
                    "type": "object",
                    "description": "The arguments of that tool, as its inputSchema wants them.",
                    "default": {},
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        **hints,
    )


def hints_for_all(tools: Sequence[Tool]) -> OptionFields:
    """What can be said of `call_tool` without knowing which tool is meant: what holds for every one."""
    said = [tool.definition.annotations for tool in tools]
    hints: OptionFields = {"title": "Call a tool"}
    if not said:
        return hints
    if all(each.get("readOnlyHint") is True for each in said):
        hints["read_only"] = True
    elif all(each.get("readOnlyHint") is True or each.get("destructiveHint") is False for each in said):
        hints["destructive"] = False
    if all(each.get("idempotentHint") is True for each in said):
        hints["idempotent"] = True
    if all(each.get("openWorldHint") is False for each in said):
        hints["open_world"] = False
    return hints
