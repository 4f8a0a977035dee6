"""Follow import statements into other files that may be read.

A file that could register tools is followed where it is imported, as Python would; any other only when one
of its names is needed.
"""

from __future__ import annotations

import ast
import re
import stat
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.sources.scan.things import UNKNOWN, Known, Later, Module, Scope, Thing

if TYPE_CHECKING:
    from toolcrib.sources.scan.tracing import Tracer

NEVER_READ = frozenset({"toolcrib", "mcp", "mcp_types", "fastmcp", "pydantic", *sys.stdlib_module_names})
"""Packages that are known by name; a file of the same name beside the scanned ones is not them."""
MAX_BYTES = 8_000_000
_ODD = re.compile(rb"\0|coding[:=][ \t]*(?!utf-?8\b)", re.IGNORECASE)
"""Encodings in which words may be written otherwise."""
_TOOLS = re.compile(rb"tool|execute|mcp", re.IGNORECASE)


def mentions_tools(path: Path, words: re.Pattern[bytes] = _TOOLS) -> bool:
    """Whether a file is worth parsing: one that cannot be looked into is, so that its reader says why."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            return True
        with open(path, "rb", buffering=0) as stream:
            data = stream.readall()
        if not data.isascii():  # identifiers are folded: a letter of another kind is the plain one
            data = unicodedata.normalize("NFKC", data.decode(errors="replace")).encode()
        return words.search(data) is not None or _ODD.search(data[:500]) is not None
    except OSError:
        return True


def follow_import(tracer: Tracer, node: ast.Import, scope: Scope) -> None:
    near = scope.module.file.base
    for alias in node.names:
        _enter(tracer, alias.name, near)  # what it registers counts, whatever name it gets
        name = alias.name if alias.asname else alias.name.partition(".")[0]
        module = find_module(tracer, name, near)
        thing = module if module is not None else Known(name, is_module=True)
        scope.bind(alias.asname or name, thing, imported=True)


def follow_import_from(tracer: Tracer, node: ast.ImportFrom, scope: Scope) -> None:
    name = _absolute(node, scope.module)
    if name is None:
        return
    near = scope.module.file.base
    _enter(tracer, name, near)
    for alias in node.names:
        if alias.name != "*":
            _enter(tracer, f"{name}.{alias.name}", near)
            scope.bind(alias.asname or alias.name, Later(name, alias.name, near), imported=True)
            continue
        scope.stars.append(name)
        module = find_module(tracer, name, near)
        if module is not None:
            for key, thing in public_names(module).items():
                scope.bind(key, thing, imported=True)


def resolve(tracer: Tracer, later: Later) -> Thing:
    """What `from module import key` gives."""
    module = find_module(tracer, later.module, later.near)
    if module is not None and later.key in module.scope.names:
        thing = module.scope.names[later.key]
        return resolve(tracer, thing) if isinstance(thing, Later) and thing is not later else thing
    below = find_module(tracer, f"{later.module}.{later.key}", later.near)
    if below is not None:
        return below
    return Known(f"{later.module}.{later.key}") if module is None else UNKNOWN


def _enter(tracer: Tracer, name: str, near: Path) -> None:
    """Importing a module imports the packages above it, and runs them all."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        path = tracer.find_path(".".join(parts[:count]), near)
        if path is not None and path not in tracer.modules and mentions_tools(path):
            tracer.module(path)


def find_module(tracer: Tracer, name: str, near: Path) -> Module | None:
    """The module of a dotted name, followed; None where it is not among what may be read."""
    path = tracer.find_path(name, near)
    return None if path is None else tracer.module(path)


def find_path(roots: Iterable[Path], name: str) -> Path | None:
    """The file of a dotted name below one of the folders that imports start from."""
    parts = name.split(".")
    if parts[0] in NEVER_READ or not all(part.isidentifier() for part in parts):
        return None
    for root in roots:
        place = root.joinpath(*parts)
        for path in (place / "__init__.py", place.with_name(f"{parts[-1]}.py")):
            if path.is_file():
                return path
    return None


def public_names(module: Module) -> dict[str, Thing]:
    """What `from module import *` gives."""
    names = module.scope.names
    wanted = listed_names(module)
    if wanted is None:
        return {key: thing for key, thing in names.items() if not key.startswith("_")}
    return {key: names[key] for key in wanted if key in names}


def listed_names(module: Module) -> list[str] | None:
    """What `__all__` says; None where there is none that can be read."""
    for statement in module.file.tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets
        ):
            try:
                return [str(name) for name in ast.literal_eval(statement.value)]
            except (ValueError, TypeError, RecursionError):
                return None
    return None


def _absolute(node: ast.ImportFrom, module: Module) -> str | None:
    if not node.level:
        return node.module
    parts = module.file.name.split(".")
    if module.file.path.name != "__init__.py":
        parts = parts[:-1]
    keep = len(parts) - (node.level - 1)
    if keep < 1:
        return None
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])
