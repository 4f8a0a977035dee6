"""The tool objects of document Z, and a helper for refused registrations."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import MCPServer

VALID = "Add a memory to the knowledge graph"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Memory:
    """A tool object as the document describes it."""

    input_schema: Any = SCHEMA

    def __init__(self, name: Any = "add_memory", description: Any = VALID, **others: Any) -> None:
        self.name, self.description = name, description
        for key, value in others.items():
            setattr(self, key, value)

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": arguments["text"]}], "isError": False}


class Without:
    """A tool object that lacks some of its parts."""

    def __init__(self, *missing: str) -> None:
        whole = Memory()
        parts = {"name": whole.name, "description": VALID, "input_schema": SCHEMA, "execute": whole.execute}
        vars(self).update((key, value) for key, value in parts.items() if key not in missing)


def refuse(server: MCPServer, tool: Any, kind: type[Exception] = ValueError) -> str:
    """Return the message of a refused registration, after checking that nothing was registered."""
    before = (server.registry.snapshot, server.registry.revision)
    with pytest.raises(kind) as refusal:
        server.register_tool(tool)
    assert (server.registry.snapshot, server.registry.revision) == before
    return str(refusal.value)
