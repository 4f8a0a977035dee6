"""Where in a file a table speaks of a tool: a dict remembers no lines, the source does.

Knows syntax trees; runs nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from toolcrib.finding import Finding
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE

_TABLES = frozenset({HANDLER_TABLE, *DEFINITION_TABLES})


def place_findings(findings: Iterable[Finding], modules: Sequence[ModuleType]) -> list[Finding]:
    """The findings; those about an entry of a table get the file and the line that names it."""
    return [_place(finding, modules) if finding.file is None else finding for finding in findings]


def _place(finding: Finding, modules: Sequence[ModuleType]) -> Finding:
    for module in modules:
        file = getattr(module, "__file__", None)
        for text, line in _texts_in_tables(module, file):
            if text == finding.tool:
                return replace(finding, file=file, line=line)
    return finding


def _texts_in_tables(module: ModuleType, file: str | None) -> Iterator[tuple[str, int]]:
    if not _TABLES & vars(module).keys():
        return
    try:
        tree = ast.parse(Path(file or "").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # no source to look at
    for statement in tree.body:
        bound = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if isinstance(statement, ast.Assign | ast.AnnAssign) and bound & _TABLES:
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value, node.lineno
