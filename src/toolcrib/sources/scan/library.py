"""The files that may be read: the targets, and the files they import from beside them.

Files outside the roots are never read, even through links.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from toolcrib.errors import Finding, SourceError
from toolcrib.sources.loading import find_import_root
from toolcrib.sources.scan.scopes import Definition, Scope, changes_in, may_change, module_scope, parents_in
from toolcrib.sources.scan.text import parse_text, read_text

KNOWN_BY_NAME = frozenset(
    {
        *sys.stdlib_module_names,
        *("annotated_types", "fastmcp", "mcp", "mcp_types", "msgspec", "pydantic", "pydantic_core"),
        *("toolcrib", "typing_extensions"),
    }
)
"""Packages that a file of the same name beside the scanned ones does not stand for: importing puts the folder
of a file last."""
_LONGEST_NAME = 200


@dataclass(eq=False)
class SourceFile:
    """One file. `name` is the dotted name that importing it gives, `base` the folder it is imported from."""

    path: Path
    name: str
    base: Path
    tree: ast.Module
    text: str = ""

    @property
    def module(self) -> str:
        return self.name

    @property
    def package(self) -> str:
        """What a relative import begins at."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def scope(self) -> Scope:
        return module_scope(self.tree, self)

    @cached_property
    def around(self) -> dict[int, list[Definition]]:
        """The definitions around each definition of the file, by its id."""
        return parents_in(self.tree)

    @cached_property
    def is_lazy(self) -> bool:
        """Whether its annotations are text at run time: `from __future__ import annotations`."""
        return any(
            isinstance(statement, ast.ImportFrom)
            and statement.module == "__future__"
            and any(alias.name == "annotations" for alias in statement.names)
            for statement in self.tree.body[:20]
        )

    def is_changed(self, name: str) -> bool:
        """Whether what a name of the module stands for is changed somewhere in the file."""
        return may_change(name, self.text) and name in self._changes

    @cached_property
    def _changes(self) -> frozenset[str]:
        return frozenset(changes_in(self.tree))

    def scope_of(self, node: Definition) -> Scope:
        """The scope in which a definition stands; the module's where it is not one of this file."""
        scope = self.scope
        for binding in scope.names.get(node.name, ()):
            if binding.node is node:
                return scope  # as most do
        for outer in self.around.get(id(node), ()):
            scope = self._inner(outer, scope)
        return scope

    def scope_in(self, node: Definition) -> Scope:
        """The scope that the body of a definition makes."""
        return self._inner(node, self.scope_of(node))

    def _inner(self, node: Definition, scope: Scope) -> Scope:
        made = self._scopes.get(id(node))
        if made is None:
            made = self._scopes[id(node)] = scope.within(node)
        return made

    @cached_property
    def _scopes(self) -> dict[int, Scope]:
        return {}


@dataclass(eq=False)
class Library:
    """The files below the roots, each read when it is first wanted.

    A root is a folder or a file. Of a file that belongs to a package the whole package may be read, of any
    other what lies beside it, as importing would. `made` keeps what others make of the files' parts.
    """

    roots: Iterable[Path | str]
    made: dict[Any, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        roots = [_resolve(Path(root)) for root in self.roots]
        self.roots = roots
        self._files: dict[Path, SourceFile | SourceError] = {}
        self._modules: dict[tuple[Path, str], SourceFile | None] = {}
        self._places: dict[Path, tuple[Path, list[str]]] = {}
        self._areas = list(dict.fromkeys(_area(root) for root in roots))
        inner = [place / "src" for place in self._areas if (place / "src").is_dir()]
        starts = [root if root.is_dir() else root.parent for root in roots]
        self._bases = list(
            dict.fromkeys([*(find_import_root(start / "x.py")[0] for start in starts), *starts, *inner])
        )

    @property
    def files_read(self) -> list[Path]:
        """Every file that was looked into, also in vain, in order."""
        return list(self._files)

    def file(self, path: Path | str) -> SourceFile:
        """A file by its path. Raises SourceError where it cannot be read, each time the same one."""
        path = Path(path)
        key = _resolve(path)
        found = self._files.get(key)
        if found is None:
            found = self._files[key] = self._read(key)
        if isinstance(found, SourceError):
            raise found
        return found

    def _read(self, path: Path) -> SourceFile | SourceError:
        try:
            text = read_text(path)
            tree = parse_text(text, path)
        except SourceError as error:
            return error
        if path.parent not in self._places:
            self._places[path.parent] = find_import_root(path.parent / "__init__.py")
        base, parts = self._places[path.parent]
        if path.stem != "__init__":
            parts = [*parts, path.stem]
        return SourceFile(path, ".".join(parts) or path.parent.name, base, tree, text)

    def module(self, name: str, near: SourceFile | None = None) -> SourceFile | None:
        """The file behind a dotted name, seen from a file that imports it; None where none may be read."""
        parts = name.split(".")
        if parts[0] in KNOWN_BY_NAME or len(name) > _LONGEST_NAME or not all(map(str.isidentifier, parts)):
            return None
        bases = self._bases if near is None else [near.base, *self._bases]
        for base in bases:
            key = (base, name)
            if key not in self._modules:
                self._modules[key] = self._find(base, parts)
            if self._modules[key] is not None:
                return self._modules[key]
        return None

    def _find(self, base: Path, parts: list[str]) -> SourceFile | None:
        place = base.joinpath(*parts)
        for path in (place / "__init__.py", place.with_name(f"{parts[-1]}.py")):
            try:
                if not path.is_file() or not self._holds(path):
                    continue
                return self.file(path)
            except SourceError as error:
                self.findings.append(error.finding)
            except OSError:
                continue
        return None

    def _holds(self, path: Path) -> bool:
        real = _resolve(path)
        return any(real.is_relative_to(area) for area in self._areas)


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a name that cannot be one
        return path.absolute()


def _area(root: Path) -> Path:
    """The folder that may be read for the sake of a root: its package, or what is beside it."""
    base, parts = find_import_root(root / "x.py" if root.is_dir() else root)
    if root.is_dir():
        return base / parts[0] if len(parts) > 1 else root
    return base / parts[0] if len(parts) > 1 or root.name == "__init__.py" else root.parent
