"""Imports targets as the command line does, each in the same process, and prints what was registered.

    python import_targets.py < targets.json > registered.json

Run by tests in a separate process, to compare a scan with the imported tools.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STAND_INS = Path(__file__).parents[2] / "fixtures" / "stand_ins"


def describe(tool: Any) -> dict[str, Any]:
    """Return the facts about a tool that a scan must find too."""
    definition = tool.definition
    source = definition.source
    return {
        "wire": definition.to_wire(),
        "tags": sorted(definition.tags),
        "version": definition.version,
        "metadata": dict(definition.metadata),
        "source": [str(Path(source.file).resolve()) if source.file else None, source.line],
        "group": tool.options.group,
        "aliases": list(tool.options.aliases),
    }


def register(target: str) -> dict[str, Any]:
    """Return the tools and findings of importing a target."""
    from toolcrib.cli.load import load
    from toolcrib.cli.output import Terminal

    loaded = load([target], Terminal(sys.stderr, sys.stderr, debug=False))
    tools, refused = {}, [finding.to_json() for finding in loaded.findings]
    for entry in loaded.entries:
        key = f"{entry.tool.name}@{entry.tool.version or ''}"
        try:
            tools[key] = {**describe(entry.tool), "enabled": entry.enabled}
        except ValueError as error:
            refused.append(error.finding.to_json())
    return {"tools": tools, "findings": refused}


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr
    sys.path.append(str(STAND_INS))
    found = {}
    for target in json.load(sys.stdin):
        try:
            found[target] = register(target)
        except Exception as error:
            found[target] = {"tools": {}, "findings": [], "failed": f"{type(error).__name__}: {error}"}
    json.dump(found, out, default=str)


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # the fixtures are read, not written to
    main()
