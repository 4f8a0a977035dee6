"""Source files of a scan: the files of a target, the files that may be read, and what imports lead to."""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from toolcrib.errors import Finding, SourceError
from toolcrib.sources.loading import find_import_root, find_module_file, find_python_files
from toolcrib.sources.scan.scopes import Definition, Scope, changes_in, module_scope, parents_in
from toolcrib.sources.source_text import parse_text, read_text
from toolcrib.sources.targets import DESCRIPTOR_SUFFIXES

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
    def package(self) -> str:
        """What a relative import begins at."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

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
        return name in self._changes

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
        self._listings: dict[Path, frozenset[str]] = {}
        self._imports: dict[int, list[Path]] = {}
        self._found: dict[tuple[Any, ...], list[Path]] = {}
        self._real: dict[Path, Path] = {}
        self._names: dict[tuple[Path, str, bool], list[Path]] = {}
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
        key = self._resolve(Path(path))
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

    def beside(self, near: SourceFile, level: int, name: str) -> SourceFile | None:
        """The file that a relative import means, by folders: a package need not have an `__init__.py`."""
        folder = near.path.parent
        for _ in range(level - 1):
            folder = folder.parent
        parts = name.split(".") if name else []
        if len(name) > _LONGEST_NAME or not all(map(str.isidentifier, parts)):
            return None
        return self._find(folder, parts)

    def imported(self, node: ast.Import | ast.ImportFrom, near: SourceFile) -> list[Path]:
        """The files that an import statement may lead to, without reading them."""
        if id(node) not in self._imports:
            names = [alias.name for alias in node.names]
            level = node.level if isinstance(node, ast.ImportFrom) else 0
            if isinstance(node, ast.ImportFrom):
                names = [".".join(filter(None, (node.module, name))) for name in names if name != "*"]
                names += [node.module] if node.module else []
            base = near.path.parents[level - 1] if 0 < level <= len(near.path.parents) else near.base
            found = [path for name in names for path in self._located(base, name, is_relative=level > 0)]
            self._imports[id(node)] = list(dict.fromkeys(found))
        return self._imports[id(node)]

    def _located(self, base: Path, name: str, *, is_relative: bool) -> list[Path]:
        """The files of a dotted name and of the packages above it."""
        key = (base, name, is_relative)
        if key not in self._names:
            self._names[key] = []
            parts = name.split(".")
            bases = [base] if is_relative else [base, *self._bases]
            if len(name) > _LONGEST_NAME or (parts[0] in KNOWN_BY_NAME and not is_relative):
                parts = []
            for count in range(1, len(parts) + 1):
                found = (path for each in bases for path in self._paths(each, parts[:count]))
                self._names[key] += [self._resolve(path) for path in (next(found, None),) if path is not None]
        return self._names[key]

    def _paths(self, base: Path, parts: list[str]) -> list[Path]:
        """The files that may be read of a dotted name below a folder; looked up once."""
        key = (base, *parts)
        if key not in self._found:
            if base not in self._listings:
                try:
                    self._listings[base] = frozenset(os.listdir(base))
                except OSError:
                    self._listings[base] = frozenset()
            self._found[key] = []
            if not parts or {parts[0], f"{parts[0]}.py"} & self._listings[base]:
                place = base.joinpath(*parts)
                paths = [place / "__init__.py", *([place.with_name(f"{parts[-1]}.py")] if parts else [])]
                self._found[key] = [path for path in paths if os.path.isfile(path) and self._holds(path)]
        return self._found[key]

    def _find(self, base: Path, parts: list[str]) -> SourceFile | None:
        for path in self._paths(base, parts):
            try:
                return self.file(path)
            except SourceError as error:
                self.findings.append(error.finding)
        return None

    def _holds(self, path: Path) -> bool:
        real = str(self._resolve(path))
        return any(real == area or real.startswith(area + os.sep) for area in map(str, self._areas))

    def _resolve(self, path: Path) -> Path:
        if path not in self._real:
            self._real[path] = _resolve(path)
        return self._real[path]


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


@dataclass(slots=True)
class Aim:
    """What one target means. `name` is what in the file is meant; `described` is a descriptor instead."""

    label: str
    files: list[Path] = field(default_factory=list)
    name: str = ""
    is_folder: bool = False
    described: Path | None = None
    findings: list[Finding] = field(default_factory=list)


def take_aim(target: str | os.PathLike[str], search: Sequence[str] | None = None) -> Aim:
    """The files of a target. Raises SourceError where there is nothing of the name."""
    text = os.fspath(target)
    if os.path.exists(text):  # unlike Path.exists, it takes any text
        return _aim_at_path(Path(text))
    place, colon, name = text.rpartition(":")
    if not colon:
        if text.endswith((".py", *DESCRIPTOR_SUFFIXES)) or "/" in text or os.sep in text:
            raise SourceError(f"There is no file or folder {text}")
        return _aim_at_module(text, search)
    if place.endswith(".py"):
        if not os.path.exists(place):
            raise SourceError(f"There is no file {place}")
        aim = _aim_at_path(Path(place))
    else:
        aim = _aim_at_module(place, search)
        aim.files = aim.files[:1]
    aim.name, aim.label = name, text
    return aim


def _aim_at_path(path: Path) -> Aim:
    whole = _in_folder(path, Aim(str(path), is_folder=True)) if path.is_dir() else None
    if whole is not None and whole.files:
        return whole  # where there is code, descriptions stand beside it and not for it
    if whole is not None or path.suffix in DESCRIPTOR_SUFFIXES:
        from toolcrib.sources.descriptors import is_descriptor  # most targets are code

        if is_descriptor(path):
            return Aim(str(path), described=path)
    if whole is not None:
        return whole
    if path.suffix == ".py":
        return Aim(path.name, [_resolved(path)])
    raise SourceError(
        f"Tools cannot be read from {path}", hint="give a Python file, a folder, a module or a descriptor"
    )


def _in_folder(folder: Path, aim: Aim) -> Aim:
    def tell(error: OSError) -> None:
        words = f"The folder cannot be read: {error.strerror or error}"
        hint = "give yourself the right to read it"
        file = str(error.filename or folder)
        aim.findings.append(Finding("unreadable-source", "error", words, file=file, hint=hint))

    aim.files = list(
        dict.fromkeys([*aim.files, *map(_resolved, find_python_files(folder, tell, with_main=True))])
    )
    return aim


def _resolved(path: Path) -> Path:
    """The path as importing names it; one whose links go in circles stays as it is, and cannot be read."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def _aim_at_module(name: str, search: Sequence[str] | None) -> Aim:
    path = find_module_file(name, search)
    if path is None:
        raise SourceError(
            f"There is no module '{name}'", hint="give a file, a folder, a module or module:object"
        )
    if path.is_dir():  # a package without a file of its own
        return _in_folder(path, Aim(name, is_folder=True))
    aim = Aim(name, [_resolved(path)])
    return _in_folder(path.parent, aim) if path.name == "__init__.py" else aim


MAX_BYTES_FOLLOWING = 8_000_000
_ODD = re.compile(rb"\0|coding[:=][ \t]*(?!utf-?8\b)", re.IGNORECASE)
"""Encodings in which words may be written otherwise."""
_TOOLS = re.compile(rb"tool|execute|mcp", re.IGNORECASE)


def mentions_tools(path: Path, words: re.Pattern[bytes] = _TOOLS) -> bool:
    """Whether a file is worth parsing: one that cannot be looked into is, so that its reader says why."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES_FOLLOWING:
            return True
        with open(path, "rb", buffering=0) as stream:
            data = stream.readall()
        if not data.isascii():  # identifiers are folded: a letter of another kind is the plain one
            data = unicodedata.normalize("NFKC", data.decode(errors="replace")).encode()
        return words.search(data) is not None or _ODD.search(data[:500]) is not None
    except OSError:
        return True
