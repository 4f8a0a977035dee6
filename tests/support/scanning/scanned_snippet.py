"""A snippet of source, read by the static reader and imported, for comparison."""

from __future__ import annotations

import ast
import importlib.util
import sys
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from toolcrib import Tool
from toolcrib.sources.scan.files import Library
from toolcrib.sources.scan.resolve import Resolver
from toolcrib.sources.scan.source_file import SourceFile
from toolcrib.sources.scan.stubs import Stub, Stubs
from toolcrib.sources.scan.values import Site, Trail, Unresolved

_numbers = count()
_stubs: WeakKeyDictionary[Library, Stubs] = WeakKeyDictionary()


class Reader:
    """Reads the parts of one file, each alone. `within` is the definition around an expression."""

    def __init__(self, file: SourceFile, library: Library) -> None:
        self.file = file
        self.library = library
        self.stubs = _stubs.setdefault(library, Stubs(Resolver(library)))

    def stub(self, node: Any, **options: Any) -> Stub:
        return self.stubs.make(node, self.file, **options)

    def qualify(self, node: ast.expr, within: Any = None) -> str:
        return self.stubs.evaluator.resolver.full_name(node, self._site(within).scope)

    def value(self, node: ast.expr) -> Any:
        return self.stubs.value(node, self._site(None))

    def hint(self, node: ast.expr) -> Any:
        site, trail = self._site(None), Trail()
        hints = self.stubs.evaluator
        made = hints.evaluate(node, replace(site, lazy=self.file.is_lazy, is_hint=True), trail)
        for finding in trail.findings:
            raise Unresolved(finding.message, finding.line, hint=finding.hint)
        return made

    def cls(self, node: ast.ClassDef) -> Any:
        return self.stubs.build(node, self.file.spots[id(node)].scope, Trail())

    def _site(self, within: Any) -> Site:
        return Site(self.file.scope if within is None else self.file.scopes[id(within)])


def read(folder: Path, source: str, name: str = "snippet") -> Reader:
    """Return a reader of a file with this source."""
    path = folder / f"{name}.py"
    path.write_text(source)
    library = Library([folder])
    return Reader(library.file(path.resolve()), library)


def definition_of(reader: Reader, name: str = "tool") -> Any:
    """Return the definition of that name anywhere in the file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return next(node for node in ast.walk(reader.file.tree) if isinstance(node, kinds) and node.name == name)


def stub_in(folder: Path, source: str, **options: Any) -> Stub:
    """Return the stub of the function `tool` in this source."""
    reader = read(folder, source)
    return reader.stub(definition_of(reader), **options)


def expression(text: str) -> ast.expr:
    """Return an expression at the end of a file."""
    node = ast.parse(text, mode="eval").body
    ast.increment_lineno(node, 10_000)
    return node


@contextmanager
def imported(folder: Path, source: str) -> Iterator[ModuleType]:
    """Return the module that results from running this source."""
    for forget in typing._cleanups:  # type: ignore[attr-defined]  # it keeps references, and whose they were
        forget()
    name = f"snippet_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


def facts_of(function: Any) -> dict[str, Any]:
    """Return all facts of a definition, with its findings."""
    tool = Tool.from_function(function)
    definition = tool.definition
    return {
        "wire": definition.to_wire(),
        "metadata": dict(definition.metadata),
        "tags": definition.tags,
        "line": definition.source.line,
        "is_async": tool.is_async,
        "remarks": [(item.code, item.parameter) for item in tool.findings],
    }
