"""Tools for Anthropic's Messages API. Knows its spelling; refuses to know its package, its caching and its
own tools."""

from __future__ import annotations

from typing import Any

from toolcrib.catalog.export.schema import Node


def dress(name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG001
    tool = {"name": name, "description": description} if description else {"name": name}
    return {**tool, "input_schema": schema}
