"""Small tools to fill registries with."""

from __future__ import annotations

from typing import Any

from toolcrib import Tool, ToolRegistry


def named(name: str, **options: Any) -> Tool:
    return Tool.from_function(lambda: name, name=name, **options)


def broken(name: str = "broken") -> Tool:
    """Return a tool whose error shows only when it is built."""
    return Tool.from_handler(lambda: 1, name, "Does not build.", {"type": "array"})


def names(found: ToolRegistry) -> list[str]:
    return [tool.name for tool in found]


def state(found: ToolRegistry) -> tuple[Any, ...]:
    return (found.revision, found.entries(), names(found), len(found))
