"""Stubs: functions with the parameters, defaults, hints and docstring of real ones, and no code.

An unknown part of a stub is permissive, and a finding of the tool. A stub is an empty function of this module
whose code object gets other parameters, so no scanned code is kept or run.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from toolcrib.errors import Finding
from toolcrib.schema.converters import UNKNOWN_DEFAULT
from toolcrib.sources.scan.classes import Classes
from toolcrib.sources.scan.files import Library
from toolcrib.sources.scan.names import Site, qualname_in
from toolcrib.sources.scan.source_file import (
    Definition,
    FunctionNode,
    Scope,
    SourceFile,
    arguments_of,
    defaults_of,
    docstring_in,
    first_line,
)
from toolcrib.sources.scan.values import HINT, Trail, Unresolved, is_foreign_context

_ITERATORS = ("Generator", "Iterable", "Iterator")
_BODIES = {"nothing": "return None", "something": "return 0", "items": "return\n yield"}
_CODES: dict[tuple[bool, str], CodeType] = {
    (is_async, gives): compile(f"{'async ' * is_async}def stub():\n {body}", "", "exec").co_consts[0]
    for is_async in (False, True)
    for gives, body in _BODIES.items()
}
_GLOBALS: dict[str, Any] = {"__builtins__": {}, "__name__": ""}
"""The globals of stubs: there are none."""


def _make_function(node: FunctionNode, dropped: Collection[str], file: str) -> FunctionType:
    """Return an empty function with the parameters of a definition, except those that are dropped."""

    def names(*items: ast.arg | None) -> list[str]:
        return [item.arg for item in items if item is not None and item.arg not in dropped]

    arguments = node.args
    by_name = names(*arguments.args)
    by_place = names(*arguments.posonlyargs) if arguments.posonlyargs else []
    by_keyword = names(*arguments.kwonlyargs) if arguments.kwonlyargs else []
    rest = names(arguments.vararg) if arguments.vararg else []
    more = names(arguments.kwarg) if arguments.kwarg else []
    gives = "something" if node.returns is not None and not _may_be_iterator(node.returns) else _gives(node)
    code = _CODES[type(node) is ast.AsyncFunctionDef, gives]
    varnames = (*by_place, *by_name, *by_keyword, *rest, *more)
    flags = (inspect.CO_VARARGS if rest else 0) | (inspect.CO_VARKEYWORDS if more else 0)
    code = code.replace(
        co_name=node.name,
        co_filename=file,
        co_firstlineno=first_line(node),
        co_argcount=len(by_place) + len(by_name),
        co_posonlyargcount=len(by_place),
        co_kwonlyargcount=len(by_keyword),
        co_nlocals=len(varnames),
        co_varnames=varnames,
        co_flags=code.co_flags | flags,
    )
    return FunctionType(code, _GLOBALS, node.name)


def _gives(node: FunctionNode) -> str:
    """Return "items" for a generator, "something" for a function that returns more than None."""
    gives = "nothing"
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.Yield | ast.YieldFrom):
            return "items"
        if isinstance(item, ast.Return) and getattr(item.value, "value", item.value) is not None:
            gives = "something"
        if not isinstance(item, Definition | ast.Lambda):
            waiting += ast.iter_child_nodes(item)
    return gives


# --- stubs -------------------------------------------------------------------------------------------


class Stub(NamedTuple):
    """A stub and its findings."""

    function: FunctionType
    findings: list[Finding]


class Stubs:
    """Makes stubs of the functions of one library."""

    def __init__(self, library: Library) -> None:
        self.classes = Classes(library)
        self.names = self.classes.names
        # The functions of a file have much the same annotations: each is read once.
        self._read: dict[Scope, tuple[Site, dict[str, tuple[Any, bool]]]] = {}

    def value(self, node: ast.expr, site: Site) -> Any:
        """Return the value of an expression. Raise Unresolved where it is not known for certain."""
        trail = Trail()
        made = self.classes.evaluator.value(node, site, trail)
        for finding in trail.findings:
            raise Unresolved(finding.message, finding.line, hint=finding.hint)
        return made

    def make(
        self, node: FunctionNode, file: SourceFile, drops: Iterable[str] = (), *, keeps_contexts: bool = False
    ) -> Stub:
        """Return the stub of a function, without the parameters that are to be dropped, and the Context of
        mcp and fastmcp. With `keeps_contexts` the latter stays, so that building the tool refuses it, as
        registering it with toolcrib's own decorator does."""
        self.classes.turn_to(file)
        scope, path = file.spots[id(node)].scope, str(file.path)
        dropped = set(drops)
        findings: list[Finding] = []
        for words in _unread(node, scope):
            hint = "write it in another way, or register the tool at run time"
            findings.append(Finding(HINT, "warning", words, node.name, None, path, node.lineno, hint))
        hints, contexts = self._hints(node, scope, dropped, findings)
        if contexts and not keeps_contexts:
            dropped.update(contexts)
            hints = {name: hint for name, hint in hints.items() if name not in dropped}
        function = _make_function(node, dropped, path)
        made: dict[str, Any] = {}
        for name, value in defaults_of(node.args):
            if type(value) is ast.Constant and name not in dropped:  # as most are
                made[name] = value.value
            elif name not in dropped:
                trail = Trail()
                made[name] = self.classes.evaluator.default(name, value, Site(scope), trail, UNKNOWN_DEFAULT)
                findings += [replace(item, tool=node.name, parameter=name) for item in trail.findings]
        by_name = [item.arg for item in node.args.kwonlyargs if item.arg in made]
        function.__kwdefaults__ = {name: made.pop(name) for name in by_name} or None
        function.__defaults__ = tuple(made.values()) or None
        function.__annotations__ = hints
        function.__doc__ = docstring_in(node)
        function.__module__ = file.name
        function.__qualname__ = qualname_in(scope, node.name)
        return Stub(function, findings)

    def _hints(
        self, node: FunctionNode, scope: Scope, dropped: Collection[str], findings: list[Finding]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the annotations as hints, and the parameters that are contexts."""
        file = scope.file
        site, known = self._read.setdefault(scope, (Site(scope, lazy=file.is_lazy), {}))
        hints: dict[str, Any] = {}
        contexts: tuple[str, ...] = ()
        found = [(item.arg, item.annotation) for item in arguments_of(node.args)]
        for name, annotation in (*found, ("return", node.returns)):
            if annotation is None or name in dropped:
                continue
            text = file.text_of(annotation) or ""
            if text not in known:
                trail = Trail()
                hint = self.classes.evaluator.permit(annotation, site, trail)
                is_context = is_foreign_context(hint)
                findings += [
                    replace(item, tool=node.name, parameter=name) for item in trail.findings if not is_context
                ]
                words = re.findall(r"\w+", text)
                is_stable = all(
                    len(place.names.get(word, ())) < 2 for word in words for place in scope.visible()
                )
                if trail.findings or not is_stable or "(" in text:  # calls make something new
                    known.pop("", None)
                    text = ""
                known[text] = (hint, is_context)
            hints[name], is_context = known[text]
            if is_context and name != "return":
                contexts += (name,)
            known.pop("", None)
        return hints, contexts


def _unread(node: FunctionNode, scope: Scope) -> Iterator[str]:
    """Yield what is not read of a signature."""
    if getattr(node, "type_params", ()):  # of Python 3.12
        yield "Type parameters in brackets are not read"
    for item in arguments_of(node.args) if scope.kind == "class" else ():
        if item.arg.startswith("__") and not item.arg.endswith("__"):
            yield f"Python gives the parameter '{item.arg}' another name, because it is private to the class"


def _may_be_iterator(node: ast.expr) -> bool:
    base = node.value if isinstance(node, ast.Subscript) else node
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return name.endswith(_ITERATORS) or isinstance(base, ast.Constant)
