"""Tools for Bedrock's Converse: what goes into `toolConfig.tools`. Knows its spelling; refuses to know
botocore."""

from __future__ import annotations

from typing import Any

from toolcrib.catalog.export.schema import Node


def dress(name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG001
    """A description of nothing is refused there, so that an empty one is left out."""
    tool: dict[str, Any] = {"name": name}
    if description.strip():
        tool["description"] = description
    return {"toolSpec": {**tool, "inputSchema": {"json": schema}}}
