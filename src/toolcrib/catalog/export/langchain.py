"""Tools for LangChain: a JSON Schema that carries the tool's name as its title.

That one form can be handed to `bind_tools` and `convert_to_openai_tool`, and be the `args_schema` of a
`StructuredTool`. Knows that spelling; refuses to know LangChain's packages.
"""

from __future__ import annotations

from typing import Any

from toolcrib.catalog.export.schema import Node


def dress(name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG001
    rest = {key: value for key, value in schema.items() if key not in ("title", "description")}
    tool = {"title": name, "description": description} if description else {"title": name}
    return {**tool, **rest}
