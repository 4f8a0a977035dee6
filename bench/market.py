"""`python -m bench.market FOLDER`: the share of the tools of public servers that the static scan finds.

The folder has one folder of sources per server, or wheels, which are unpacked. Tools and prompts are counted
a second time by a walk over each tree that resolves no names: functions decorated with something called
`tool` or `prompt`, and `Tool(name="...")` and `Prompt(name="...")` with a literal name. One that the scan
does not list is lost unless a finding names its line, or a line of a definition around it.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolcrib.errors import Finding
from toolcrib.sources.scan import Scan, scan

KINDS = {"tool": "tool", "prompt": "prompt", "Tool": "tool", "Prompt": "prompt"}
_LIBRARY = re.compile(r"\b(?:mcp|fastmcp|toolcrib)\b", re.IGNORECASE)
_ELSEWHERE = re.compile(
    r"^(?:from|import) (?:click|langchain|crewai|pydantic_ai|agents|smolagents|typer|strands)\b", re.M
)


@dataclass(frozen=True)
class Seen:
    """A tool or prompt that a reader of the source would count."""

    kind: str
    name: str
    path: Path
    first: int
    last: int
    around: tuple[tuple[int, int], ...] = ()


def count_by_hand(path: Path) -> Iterator[Seen]:
    """Yield the tools and prompts in a file."""
    text = path.read_text(errors="replace")
    if not _LIBRARY.search(text):
        return
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    is_theirs = _ELSEWHERE.search(text) is not None
    waiting: list[tuple[ast.AST, tuple[tuple[int, int], ...]]] = [(tree, ())]
    while waiting:
        node, around = waiting.pop()
        inner = around
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*around, (node.lineno, node.end_lineno or node.lineno))
            for decorator in node.decorator_list if not isinstance(node, ast.ClassDef) else ():
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                kind = KINDS.get(getattr(called, "attr", getattr(called, "id", "")))
                if kind and not (is_theirs and isinstance(called, ast.Name)):
                    name = _stated_name(decorator) or node.name
                    yield Seen(kind, name, path, decorator.lineno, node.end_lineno or 0, around)
                    break
        elif isinstance(node, ast.Call):
            noun = KINDS.get(getattr(node.func, "attr", getattr(node.func, "id", "")))
            given = next((item.value for item in node.keywords if item.arg == "name"), None)
            is_record = noun and str(getattr(node.func, "attr", getattr(node.func, "id", "")))[0].isupper()
            if is_record and isinstance(given, ast.Constant) and isinstance(given.value, str):
                yield Seen(str(noun), given.value, path, node.lineno, node.end_lineno or 0, around)
        waiting += [(child, inner) for child in ast.iter_child_nodes(node)]


def _stated_name(decorator: ast.expr) -> str | None:
    if not isinstance(decorator, ast.Call):
        return None
    given = [*decorator.args[:1], *(item.value for item in decorator.keywords if item.arg == "name")]
    return next(
        (item.value for item in given if isinstance(item, ast.Constant) and isinstance(item.value, str)), None
    )


def unpack(folder: Path) -> list[Path]:
    """Return the folder of each server, of wheels after unpacking them."""
    for wheel in folder.glob("*.whl"):
        place = folder / wheel.name.partition("-")[0]
        with zipfile.ZipFile(wheel) as archive:
            wanted = [
                name for name in archive.namelist() if name.endswith(".py") and "/tests/" not in f"/{name}"
            ]
            archive.extractall(place, wanted)
    return sorted(path for path in folder.iterdir() if path.is_dir())


def is_announced(seen: Seen, findings: list[Finding]) -> bool:
    """Return whether a finding names a line of a tool, or of what is around it."""
    lines = [item.line or 0 for item in findings if item.file == str(seen.path)]
    places = [(seen.first, seen.last), *seen.around]
    return any(first <= line <= last for line in lines for first, last in places)


def compare(found: Scan) -> tuple[Counter[str], list[Seen]]:
    """Return counts for one server, and what was lost."""
    counts: Counter[str] = Counter()
    lost = []
    listed: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for tool in [*found.tools, *found.features, *found.unlisted]:
        listed.setdefault((tool.kind, tool.source.file or ""), []).append((tool.name, tool.source.line or 0))
    for path in found.files:
        for seen in count_by_hand(path):
            counts[seen.kind] += 1
            near = listed.get((seen.kind, str(path)), ())
            if any(seen.first <= line <= seen.last or name.endswith(seen.name) for name, line in near):
                counts[f"{seen.kind} found"] += 1
            elif is_announced(seen, found.findings):
                counts[f"{seen.kind} announced"] += 1
            else:
                counts[f"{seen.kind} lost"] += 1
                lost.append(seen)
    counts["listed"] = len(found.tools)
    counts["findings"] = len(found.findings)
    return counts, lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lost", action="store_true", help="print each tool that was lost")
    parser.add_argument("--codes", action="store_true", help="print the findings by code")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    for folder in unpack(options.folder):
        found = scan(folder)
        counts, lost = compare(found)
        total += counts
        codes.update(item.code for item in found.findings)
        for seen in lost if options.lost else ():
            print(f"lost {seen.kind} {seen.name} {seen.path.relative_to(options.folder)}:{seen.first}")
        print(folder.name, json.dumps(counts), file=sys.stderr)
    print(json.dumps(total, indent=1))
    if options.codes:
        print(json.dumps(dict(codes.most_common()), indent=1))


if __name__ == "__main__":
    main()
