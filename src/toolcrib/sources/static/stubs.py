"""Functions of source files become stubs: the real parameters, defaults, hints and words, and no code.

Knows what a definition says beside its body. What cannot be known of it is permissive and a finding of the
tool. Refuses to know whether the function is a tool, and under which name.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

from toolcrib.finding import Finding
from toolcrib.schema.default import UNTOLD
from toolcrib.sources.static.classes import Classes
from toolcrib.sources.static.hints import is_foreign_context
from toolcrib.sources.static.library import SourceFile
from toolcrib.sources.static.names import Site, qualname_in
from toolcrib.sources.static.remarks import DEFAULT, NotYet, Remark, Trail, Unresolved, show
from toolcrib.sources.static.scopes import Scope
from toolcrib.sources.static.shells import Outline, make_shell, mangle, outline_of, what_it_gives

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_ITERATORS = ("Generator", "Iterable", "Iterator")


@dataclass(slots=True)
class Stub:
    """A function that has the looks of the real one. `contexts` are parameters that ask for the Context of
    mcp or fastmcp; they are left out of the function, unless asked for."""

    function: FunctionType
    findings: list[Finding] = field(default_factory=list)
    contexts: tuple[str, ...] = ()


class _Read(NamedTuple):
    """An annotation that was read for certain, which holds for the lines from `since` on."""

    hint: Any
    is_context: bool
    since: float


class Stubber:
    """Makes stubs of the functions of one file."""

    def __init__(self, classes: Classes, file: SourceFile) -> None:
        self.classes = classes
        self.file = file
        self._path = str(file.path)
        self._places: dict[Scope, tuple[Site, dict[str, _Read]]] = {}

    def make(
        self,
        node: _Function,
        *,
        owner: str = "",
        drops_first: bool = False,
        drops: Collection[str] = (),
        keeps_contexts: bool = False,
    ) -> Stub:
        """The stub of a definition, without those parameters that are to be dropped."""
        self.classes.turn_to(self.file)
        scope = self.file.scope_of(node)
        if getattr(node, "type_params", ()):  # of Python 3.12: they are seen by the annotations
            inner = scope.within(node).parent
            scope = inner if inner is not None else scope
        private = scope.node.name if scope.kind == "class" else owner
        findings: list[Finding] = []
        outline = outline_of(node.args, private)
        dropped = {*drops, *((outline.by_place + outline.by_name)[:1] if drops_first else ())}
        hints: dict[str, Any] = {}
        contexts: list[str] = []
        for name, annotation in _annotations(node, private):
            if name not in dropped:
                read = self._hint(annotation, scope, node.name, name, findings)
                hints[name] = read.hint
                if read.is_context and name != "return":
                    contexts.append(name)
        if contexts and not keeps_contexts:
            dropped.update(contexts)
        gives, problem = self._look_inside(node, outline)
        defaults = {
            name: value.value
            if type(value) is ast.Constant
            else self._default(value, Site(scope), node.name, name, findings)
            for name, value in _defaults(node, private)
            if name not in dropped
        }
        if problem:
            findings.append(_refused(problem, node, self.file))
        if dropped:
            outline = outline.without(dropped)
            hints = {name: hint for name, hint in hints.items() if name not in dropped}
        function = make_shell(
            node.name,
            outline,
            is_async=type(node) is ast.AsyncFunctionDef,
            gives=gives,
            file=self._path,
            line=min([node.lineno, *[item.lineno for item in node.decorator_list]]),
        )
        if defaults:
            _give_defaults(function, outline, defaults)
        function.__annotations__ = hints
        function.__doc__ = ast.get_docstring(node, clean=False)
        function.__module__ = self.file.name
        function.__qualname__ = f"{owner}.{node.name}" if owner else qualname_in(scope, node.name)
        return Stub(function, findings, tuple(contexts))

    def _look_inside(self, node: _Function, outline: Outline) -> tuple[str, str | None]:
        """What a function gives, and what Python has against it. Most signatures leave no question."""
        names = outline.names
        if len(set(names)) == len(names) and node.returns is not None and not _may_be_iterator(node.returns):
            return "something", None
        return what_it_gives(node)

    def _hint(self, node: ast.expr, scope: Scope, tool: str, name: str, findings: list[Finding]) -> _Read:
        """What an annotation means. The functions of a file have much the same ones: each is read once."""
        if scope not in self._places:
            self._places[scope] = (Site(scope, lazy=self.file.is_lazy), {})
        site, known = self._places[scope]
        text = node.id if type(node) is ast.Name else self.file.written(node)
        read = known.get(text) if text is not None else None
        if read is not None and node.lineno >= read.since:
            return read
        trail = Trail()
        names = self.classes.names
        names.since = 0
        try:
            hint = self.classes.hints.permit(node, site, trail)
        except (NotYet, RecursionError) as error:
            why = "it refers to itself" if isinstance(error, NotYet) else "it is nested too deeply"
            self.classes.hints.remark(Unresolved(why, node.lineno), node, site, trail)
            hint = Any
        read = _Read(hint, is_foreign_context(hint), names.since)
        if trail.remarks or trail.uses:
            findings += [remark.to_finding(tool, name) for remark in trail.gather()]
        elif text is not None and "(" not in text:  # what a call makes is made anew each time
            known[text] = read
        return read

    def _default(self, node: ast.expr, site: Site, tool: str, name: str, findings: list[Finding]) -> Any:
        trail = Trail()
        try:
            value = self.classes.values.evaluate(node, site, trail)
        except (Unresolved, NotYet, RecursionError) as error:
            why = error.message if isinstance(error, Unresolved) else "it refers to itself, or is too deep"
            shown = show(node)
            words = why if f"'{shown}'" in why else f"'{shown}': {why}"
            text = f"The default of '{name}' is not known, so it is not shown: {words}"
            line = getattr(error, "line", None) or node.lineno
            hint = getattr(error, "hint", None) or "write a literal, or register the tool at run time"
            findings.append(Remark(DEFAULT, text, self._path, line, hint).to_finding(tool, name))
            return UNTOLD
        findings += [remark.to_finding(tool, name) for remark in trail.gather()]
        return value


def _annotations(node: _Function, owner: str) -> Iterator[tuple[str, ast.expr]]:
    arguments = node.args
    for item in (
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ):
        if item is not None and item.annotation is not None:
            yield mangle(item.arg, owner), item.annotation
    if node.returns is not None:
        yield "return", node.returns


def _defaults(node: _Function, owner: str) -> Iterator[tuple[str, ast.expr]]:
    arguments = node.args
    given = arguments.defaults
    if given:
        places = arguments.posonlyargs + arguments.args
        for item, value in zip(places[len(places) - len(given) :], given, strict=True):
            yield mangle(item.arg, owner), value
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield mangle(item.arg, owner), default


def _give_defaults(function: FunctionType, outline: Outline, defaults: dict[str, Any]) -> None:
    positional = outline.by_place + outline.by_name
    function.__defaults__ = tuple([defaults[name] for name in positional if name in defaults]) or None
    function.__kwdefaults__ = {
        name: defaults[name] for name in outline.by_keyword if name in defaults
    } or None


def _may_be_iterator(node: ast.expr) -> bool:
    base = node.value if isinstance(node, ast.Subscript) else node
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return name.endswith(_ITERATORS) or isinstance(base, ast.Constant)


def _refused(problem: str, node: _Function, file: SourceFile) -> Finding:
    words = f"Python refuses the function '{node.name}': {problem}"
    hint = "mend it; importing the file fails"
    return Finding("unreadable-source", "error", words, node.name, None, str(file.path), node.lineno, hint)
