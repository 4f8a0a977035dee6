"""The tools of document T, as in the document."""

from __future__ import annotations

from typing import Any

SAMPLES = "toolcrib.samples"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
HELLO = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "Name to greet (optional)", "default": "World"}},
    "required": [],
}
ADD = {
    "type": "object",
    "properties": {
        "a": {"type": "number", "description": "First number"},
        "b": {"type": "number", "description": "Second number"},
    },
    "required": ["a", "b"],
}


async def handle_hello(arguments: dict[str, Any]) -> str:
    return f"Hello, {arguments.get('name', 'World')}!"


async def handle_add(arguments: dict[str, Any]) -> str:
    return f"{arguments['a']} + {arguments['b']} = {arguments['a'] + arguments['b']}"


def sample_entry(**more: Any) -> dict[str, Any]:
    return {"description": "A simple greeting tool", "schema": HELLO, "handler": handle_hello, **more}
