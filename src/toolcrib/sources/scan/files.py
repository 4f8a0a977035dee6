"""The source files of a scan: those of its targets, and those that their imports lead to."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from toolcrib.errors import Finding, SourceError, suggest_file
from toolcrib.sources.loading import find_import_root, find_module_file, find_python_files, names_in, resolve
from toolcrib.sources.scan.source_file import SourceFile, words_in
from toolcrib.sources.source_text import check_compiles, parse_text, read_text, read_words
from toolcrib.sources.targets import parse_target

KNOWN_BY_NAME = frozenset(sys.stdlib_module_names) | words_in(
    "annotated_types fastmcp mcp mcp_types msgspec pydantic pydantic_core toolcrib typing_extensions"
)
"""Packages that a file of the same name beside the scanned ones does not replace: importing puts the folder
of a file last."""
_ODD = re.compile(rb"\0|coding[:=][ \t]*(?!utf-?8\b)", re.IGNORECASE)
"""Encodings in which the words may be written otherwise."""
_TOOLS = re.compile(
    rb"toolcrib|fastmcp|MCPServer|(?:from|import)[ \t]+mcp\b|@(?:[\w.]+\.)?(?:prompt|resource|tool)\b|"
    rb"\.(?:add_)?(?:prompt|resource|tool)\(|TOOL_(?:CONFIGS|DEFINITIONS|HANDLERS)|_tool_registry|"
    rb"def[ \t]+(?:list_tools|[eE]xecute(?:_async|Async)?)\b",
)
"""What a file has that offers tools, whatever it imports."""


class Library:
    """The files below the roots, each read when it is first needed.

    A root is a folder or a file. For a file of a package the whole package may be read, for any other file
    the folder that it is in, as importing would.
    """

    def __init__(self, roots: Iterable[Path | str]) -> None:
        starts = [resolve(Path(root)) for root in roots]
        self.files: dict[Path, SourceFile | SourceError] = {}  # all that were looked into, also in vain
        self._package_of = cache(find_import_root)
        self._list, self._real = cache(names_in), cache(self._permitted)
        self.mentions_tools = cache(mentions_tools)
        self.imported = cache(self._find_imported)
        self._areas = dict.fromkeys(_area(start) for start in starts)
        starts = [start if start.is_dir() else start.parent for start in starts]
        inner = [area / "src" for area in self._areas if (area / "src").is_dir()]
        outer = [find_import_root(start / "x.py")[0] for start in starts]
        self._bases: dict[str, list[Path]] = {}  # by the name of a module or package that is there
        for base in dict.fromkeys([*outer, *starts, *inner]):
            for name in {name.removesuffix(".py") for name in self._list(str(base))}:
                self._bases.setdefault(name, []).append(base)

    def file(self, path: Path) -> SourceFile:
        """Return a file by its resolved path. Raise SourceError, each time the same, if it is unreadable."""
        if path not in self.files:
            try:
                self.files[path] = self._read(path)
            except SourceError as error:
                self.files[path] = error
        found = self.files[path]
        if isinstance(found, SourceError):
            raise found
        return found

    def forget(self) -> None:
        """Let go of all trees. Scopes and files refer to each other, and finding that out takes the garbage
        collector as long as looking through the files did."""
        for file in self.files.values():
            if isinstance(file, SourceFile):
                for scope in (file.scope, *file.scopes.values()):
                    vars(scope).clear()
                vars(file).clear()

    def _read(self, path: Path) -> SourceFile:
        base, parts = self._package_of(path.parent / "__init__.py")
        if path.stem != "__init__":
            parts = [*parts, path.stem]
        text = read_text(path)
        tree = parse_text(text, path)
        check_compiles(tree, text, path)
        return SourceFile(path, ".".join(parts) or path.parent.name, base, tree, text)

    def module(self, name: str, near: SourceFile | None, level: int = 0) -> SourceFile | None:
        """Return the file behind a dotted name that a file imports; None where none may be read. Relative
        ones go by folders: `__init__.py` is not required."""
        path = self._locate(name.split(".") if name else [], near, level)
        try:
            return None if path is None else self.file(path)
        except SourceError:
            return None

    def _locate(self, parts: Sequence[str], near: SourceFile | None, level: int = 0) -> Path | None:
        bases = [near.base] if near is not None else []
        if near is not None and level:
            bases = list(near.path.parents[level - 1 : level])
        elif not parts or parts[0] in KNOWN_BY_NAME:
            return None
        else:
            bases += self._bases.get(parts[0], ())
        return next(filter(None, (self._find(base, *parts) for base in bases)), None)

    def _find_imported(self, node: ast.Import | ast.ImportFrom, near: SourceFile) -> list[Path]:
        """Return the files that an import statement may lead to, without reading them."""
        level, module = getattr(node, "level", 0), getattr(node, "module", None)
        names = [".".join(filter(None, (module, alias.name))) for alias in node.names if alias.name != "*"]
        dotted = [name.split(".") for name in (*names, *([module] if module else []))]
        found = {
            self._locate(parts[:count], near, level) for parts in dotted for count in range(1, len(parts) + 1)
        }
        return [path for path in found if path is not None]

    def _find(self, base: Path, *parts: str) -> Path | None:
        """Return the file of a dotted name below a folder, if it may be read."""
        folder, last = os.path.join(base, *parts[:-1]), parts[-1] if parts else ""
        package = os.path.join(folder, last)
        is_package = (not last or last in self._list(folder)) and "__init__.py" in self._list(package)
        paths = [os.path.join(package, "__init__.py")] if is_package else []
        paths += [f"{package}.py"] if f"{last}.py" in self._list(folder) else []
        return next(filter(None, map(self._real, paths)), None)

    def _permitted(self, path: str) -> Path | None:
        real = resolve(Path(path))
        is_inside = any(place in self._areas for place in (real, *real.parents))
        return real if is_inside and real.is_file() else None


def _area(root: Path) -> Path:
    """Return the folder that may be read for a root: its package, or the folder that it is in."""
    base, parts = find_import_root(root / "x.py" if root.is_dir() else root)
    if len(parts) > 1 or root.name == "__init__.py":
        return base / parts[0]
    return root if root.is_dir() else root.parent


# --- targets -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class ScanTarget:
    """The files of a target. `name` is the object in the file; `described` is a descriptor instead."""

    label: str
    files: list[Path] = field(default_factory=list)
    name: str = ""
    is_folder: bool = False
    described: Path | None = None
    findings: list[Finding] = field(default_factory=list)


def find_target(target: str | os.PathLike[str], search: Sequence[str] | None = None) -> ScanTarget:
    """Return the files of a target. Raise SourceError where it does not exist."""
    text = os.fspath(target)
    parsed = parse_target(text)
    parsed.check_exists()
    if parsed.kind == "descriptor":
        return ScanTarget(text, described=parsed.path)
    if parsed.kind in ("other", "address"):
        hint = "give a Python file, a folder, a module or a descriptor"
        raise SourceError(f"Tools cannot be read from {text}", hint=hint)
    path = parsed.path or find_module_file(parsed.module or text, search)
    if path is None:
        name = parsed.module or text
        raise SourceError(f"There is no module '{name}'", hint=suggest_file(name))
    is_file = parsed.path is not None and path.is_file() and not parsed.name
    found = ScanTarget(path.name if is_file else text, name=parsed.name)
    if path.is_file():
        found.files = [resolve(path)]
    if path.is_dir() or (parsed.module and path.name == "__init__.py" and not found.name):
        found.is_folder = path.is_dir()
        _add_folder(found, path if path.is_dir() else path.parent)
    return found


def _add_folder(found: ScanTarget, folder: Path) -> None:
    def tell(error: OSError) -> None:
        words = f"The folder cannot be read: {error.strerror or error}"
        hint = "give yourself the right to read it"
        file = str(error.filename or folder)
        found.findings.append(Finding("unreadable-source", "error", words, file=file, hint=hint))

    paths = map(resolve, find_python_files(folder, tell, with_main=True))
    found.files = list(dict.fromkeys([*found.files, *paths]))


def mentions_tools(path: Path) -> bool:
    """Return whether a file is worth parsing. One that cannot be read is, so that the reason is told."""
    data = read_words(path)
    return data is None or _TOOLS.search(data) is not None or _ODD.search(data[:500]) is not None
