"""The tests that show each requirement, read from their markers and written to docs/requirements.md.

A test marked `@pytest.mark.requirement("U-14", "X-16")` shows both. `python tests/requirements/inventory.py`
rewrites the table; a test keeps it true.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TABLE = TESTS.parent / "docs" / "requirements.md"

_SPANS = {
    "U": [(1, 34)],
    "C": [(1, 21)],
    "T": [(1, 27)],
    "Z": [(1, 58)],
    "A": [(1, 23)],
    "X": [(1, 21), (23, 40)],
    "G": [(1, 19), (21, 22)],
}
HELD = [
    f"{letter}-{number:02d}"
    for letter, spans in _SPANS.items()
    for first, last in spans
    for number in range(first, last + 1)
]
"""The requirements that hold so far."""

AMENDED = {
    "C-21, G-16": "`toolcrib.lock` is the static descriptor: `build_catalog` and every command take it as a"
    " target, and it is used where the adapter is not there. A second format for the same definitions would"
    " differ from it one day. Descriptors in JSON and YAML stay for tools whose code is elsewhere.",
    "G-18": "the self-check is `lock --check` of an import or of a running server against the lock file of a"
    " scan. A second comparison of definitions, `check --against-scan`, showed nothing that a lock does not.",
    "X-01": "the rule without a setting is `mcp`, no longer `portable`: 50 tools of two public servers have"
    " dots in their names, which MCP allows since 2025-11-25. Exports replace what a provider refuses.",
    "G8": "1,000 reloads restart the serving process behind its supervisor, and leave no process and no"
    " descriptor. Modules that were swapped in the running process kept parts of the old ones alive.",
    "F4": "unread answers are kept in memory, 16 MiB for each connection and 64 MiB in all, and no longer in"
    " files; the longest unread is closed first.",
    "T21": "`--accept-gap` is gone: a log that was deleted or damaged is never continued. Move it away, and a"
    " new log begins a new chain.",
    "C1": "injected instructions are found by mechanical rules and 150 lines of English phrases. The 1,210"
    " lines before, in 15 languages, found a third of wordings that they were not made for: no shield.",
    "C3, T10": "names that look alike are a finding of the linter (`look-alike-name`), no longer refused: a"
    " server cannot tell honest names from a disguise. Duplicate and case-only names are refused as before.",
}
"""Requirements, and rows of the reliability matrix, that were changed, with the reason."""


def collect_ids() -> dict[str, list[tuple[str, str]]]:
    """Requirement id to (file, test), in the order of the files."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        if "node_modules" in path.parts or ".requirement(" not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for identifier in _ids(node):
                    found[identifier].append((path.relative_to(TESTS).as_posix(), node.name))
    return found


def _ids(test: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [
        str(argument.value)
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement"
        for argument in mark.args
        if isinstance(argument, ast.Constant)
    ]


def render() -> str:
    lines = [
        *("---", "search: {boost: 0.1}", "---", ""),
        "# Requirements and the tests that hold them",
        "",
        "Written by `python tests/requirements/inventory.py`; a test fails when it is out of date.",
        "Ids: U, C, T, Z and A are the documents the project began with, X settles where they disagree,",
        "G is what users of such systems ask for besides.",
        "",
        "| id | tests in `tests/` |",
        "|---|---|",
    ]
    found = collect_ids()
    for identifier in sorted(found, key=lambda text: ("UCTZAXG".index(text[0]), text)):
        cells = "<br>".join(f"`{file}::{name}`" for file, name in found[identifier])
        lines.append(f"| {identifier} | {cells} |")
    lines += ["", "## Amended", "", "Changed after the project began, with the reason.", ""]
    lines += ["| id | now |", "|---|---|", *(f"| {name} | {reason} |" for name, reason in AMENDED.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(render())
