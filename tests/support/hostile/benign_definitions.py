"""Honest definitions that come close to injected ones: no rule for injected text may report one of them.

All were written for the tests, in the manner of public servers; tests/fixtures/benign_definitions.jsonl has
one definition in each line.
"""

from __future__ import annotations

import json
from pathlib import Path

from toolcrib.definition import ToolDefinition

FILE = Path(__file__).parents[2] / "fixtures" / "benign_definitions.jsonl"


def benign_definitions() -> list[ToolDefinition]:
    entries = [json.loads(line) for line in FILE.read_text().splitlines()]
    return [
        ToolDefinition(entry.get("name", "do_it"), entry["description"], _schema(entry.get("parameters", {})))
        for entry in entries
    ]


def _schema(parameters: dict[str, str]) -> dict[str, object]:
    properties = {name: {"type": "string", "description": text} for name, text in parameters.items()}
    return {"type": "object", "properties": properties}
