"""Read one source file: names, values, hints, classes, and functions as stubs.

A stub has parameters, defaults, hints and docstring, and no code. An unknown part of it is permissive, and a
finding of the tool. Everything that is read is real and harmless: hints are run-time hints, classes consist
of hints and literals, functions are empty.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

from toolcrib.errors import Finding
from toolcrib.schema.converters import UNKNOWN_DEFAULT
from toolcrib.sources.scan.classes import Classes
from toolcrib.sources.scan.files import Library, SourceFile
from toolcrib.sources.scan.hints import Spelling, is_foreign_context, names_in, spell
from toolcrib.sources.scan.names import Names, Site, qualname_in
from toolcrib.sources.scan.scopes import Definition, Scope
from toolcrib.sources.scan.values import (
    DEFAULT,
    NotYet,
    Outline,
    Remark,
    Trail,
    Unresolved,
    make_shell,
    mangle,
    outline_of,
    show,
    what_it_gives,
    words_in,
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_ITERATORS = ("Generator", "Iterable", "Iterator")


@dataclass(slots=True)
class Stub:
    """A function that has the looks of the real one. `contexts` are parameters that ask for the Context of
    mcp or fastmcp; they are left out of the function, unless asked for."""

    function: FunctionType
    findings: list[Finding] = field(default_factory=list)
    contexts: tuple[str, ...] = ()


_NO_CODE = make_shell("", Outline())


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
        # Of all files whose annotations are evaluated at the same time.
        kept = classes.library.made.setdefault((Stubber, file.is_lazy), {})
        self._common: dict[Spelling, tuple[_Read, list[str]]] = kept
        self._places: dict[Scope, tuple[Site, dict[Spelling, _Read]]] = {}

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
        outline = outline_of(node.args, private)
        names = outline.names
        made = Stub(_NO_CODE)
        dropped = set(drops)
        if drops_first:
            dropped.update((outline.by_place + outline.by_name)[:1])
        hints = self._hints(node, private, scope, dropped, made)
        if made.contexts and not keeps_contexts:
            dropped.update(made.contexts)
        defaults = {
            name: value.value
            if type(value) is ast.Constant
            else self._default(value, Site(scope), node.name, name, made.findings)
            for name, value in _defaults(outline, node.args)
            if name not in dropped
        }
        gives = "something"
        if node.returns is None or len(set(names)) < len(names) or _may_be_iterator(node.returns):
            gives, problem = what_it_gives(node)
            if problem:
                made.findings.append(_refused(problem, node, self.file))
        if dropped:
            outline = outline.without(dropped)
            hints = {name: hint for name, hint in hints.items() if name not in dropped}
        line = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        is_async = type(node) is ast.AsyncFunctionDef
        function = make_shell(node.name, outline, is_async=is_async, gives=gives, file=self._path, line=line)
        if defaults:
            _give_defaults(function, outline, defaults)
        function.__annotations__ = hints
        function.__doc__ = words_in(node)
        function.__module__ = self.file.name
        function.__qualname__ = f"{owner}.{node.name}" if owner else qualname_in(scope, node.name)
        made.function = function
        return made

    def _hints(
        self, node: _Function, private: str, scope: Scope, dropped: Collection[str], made: Stub
    ) -> dict[str, Any]:
        """What the annotations mean. The functions of a file have much the same ones: each is read once."""
        if scope not in self._places:
            self._places[scope] = (Site(scope, lazy=self.file.is_lazy), {})
        site, known = self._places[scope]
        hints: dict[str, Any] = {}
        for name, annotation in _annotations(node, private):
            if name in dropped:
                continue
            key = annotation.id if type(annotation) is ast.Name else spell(annotation)
            read = known.get(key) or self._recall(key, scope, known)
            if read is None or annotation.lineno < read.since:
                trail = Trail()
                read = self._read(annotation, site, trail)
                if trail.remarks or trail.uses:
                    made.findings += [remark.to_finding(node.name, name) for remark in trail.gather()]
                elif key is not None:
                    known[key] = read
                    names = names_in(key)
                    if names is not None and _means_built_in(names, scope):
                        self._common[key] = (read, names)
            hints[name] = read.hint
            if read.is_context and name != "return":
                made.contexts += (name,)
        return hints

    def _recall(self, key: Spelling, scope: Scope, known: dict[Spelling, _Read]) -> _Read | None:
        """What another file has found the same annotation to mean, where it means the same everywhere."""
        read, names = self._common.get(key, (None, ()))
        if read is None or not _means_built_in(names, scope):
            return None
        known[key] = read
        return read

    def _read(self, node: ast.expr, site: Site, trail: Trail) -> _Read:
        names = self.classes.names
        names.since = 0
        try:
            hint = self.classes.hints.permit(node, site, trail)
        except (NotYet, RecursionError) as error:
            why = "it refers to itself" if isinstance(error, NotYet) else "it is nested too deeply"
            self.classes.hints.remark(Unresolved(why, node.lineno), node, site, trail)
            hint = Any
        return _Read(hint, is_foreign_context(hint), names.since)

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
            return UNKNOWN_DEFAULT
        findings += [remark.to_finding(tool, name) for remark in trail.gather()]
        return value


def _means_built_in(names: Collection[str], scope: Scope) -> bool:
    """Whether a file means by all these names what is built in: `list` and `str`, as nearly always."""
    return scope.parent is None and not scope.stars and scope.names.keys().isdisjoint(names)


def _annotations(node: _Function, owner: str) -> list[tuple[str, ast.expr]]:
    arguments = node.args
    written = arguments.args
    if arguments.posonlyargs or arguments.vararg or arguments.kwonlyargs or arguments.kwarg:
        tail = [arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        written = arguments.posonlyargs + written + [item for item in tail if item is not None]
    found = [(item.arg, item.annotation) for item in written if item.annotation is not None]
    if owner:
        found = [(mangle(name, owner), annotation) for name, annotation in found]
    if node.returns is not None:
        found.append(("return", node.returns))
    return found


def _defaults(outline: Outline, arguments: ast.arguments) -> list[tuple[str, ast.expr]]:
    found: list[tuple[str, ast.expr]] = []
    given = arguments.defaults
    if given:
        places = outline.by_place + outline.by_name
        found = list(zip(places[-len(given) :], given, strict=True))
    if outline.by_keyword:
        pairs = zip(outline.by_keyword, arguments.kw_defaults, strict=True)
        found += [(name, value) for name, value in pairs if value is not None]
    return found


def _give_defaults(function: FunctionType, outline: Outline, defaults: dict[str, Any]) -> None:
    positional = outline.by_place + outline.by_name
    function.__defaults__ = tuple([defaults[name] for name in positional if name in defaults]) or None
    if outline.by_keyword:
        filled = {name: defaults[name] for name in outline.by_keyword if name in defaults}
        function.__kwdefaults__ = filled or None


def _may_be_iterator(node: ast.expr) -> bool:
    base = node.value if isinstance(node, ast.Subscript) else node
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return name.endswith(_ITERATORS) or isinstance(base, ast.Constant)


def _refused(problem: str, node: _Function, file: SourceFile) -> Finding:
    words = f"Python refuses the function '{node.name}': {problem}"
    hint = "mend it; importing the file fails"
    return Finding("unreadable-source", "error", words, node.name, None, str(file.path), node.lineno, hint)


class Reader:
    """What the parts of a file mean.

    `within` is the definition in whose body an expression stands; without it, the expression is the module's.
    """

    def __init__(self, file: SourceFile, library: Library) -> None:
        self.file = file
        self.library = library
        self._classes = Classes.of(library)
        self._stubber = Stubber(self._classes, file)

    @property
    def names(self) -> Names:
        return self._classes.names

    def qualify(self, node: ast.expr, within: Definition | None = None) -> str | None:
        """The full dotted name behind a name or an attribute, through imports and aliases: of a package, or
        of this and other files. None for what has none."""
        try:
            return self._classes.names.qualify(node, self._site(within))
        except RecursionError:
            return None

    def value(self, node: ast.expr, within: Definition | None = None) -> Any:
        """The value of an expression. Raises Unresolved where it is not known for certain."""
        return self.value_at(node, self._site(within))

    def value_at(self, node: ast.expr, site: Site) -> Any:
        """The value of an expression that stands somewhere else in the file."""
        trail = Trail()
        try:
            made = self._classes.values.evaluate(node, site, trail)
        except (NotYet, RecursionError):
            raise Unresolved("it refers to itself", getattr(node, "lineno", None)) from None
        return self._certain(made, trail)

    def hint(self, node: ast.expr, within: Definition | None = None) -> Any:
        """The hint that an annotation is. Raises Unresolved where any part of it is not known surely."""
        trail = Trail()
        site = self._site(within)
        site = site.lazily() if self.file.is_lazy else site
        try:
            made = self._classes.hints.evaluate(node, site, trail)
        except (NotYet, RecursionError):
            raise Unresolved("it refers to itself", getattr(node, "lineno", None)) from None
        return self._certain(made, trail)

    def cls(self, node: ast.ClassDef) -> type:
        """The class of a definition, approximate ones included. Raises Unresolved where there is none."""
        made: type = self._classes.build(node, self.file.scope_of(node), Trail())
        return made

    def stub(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        *,
        owner: str = "",
        drops_first: bool = False,
        drops: Collection[str] = (),
        keeps_contexts: bool = False,
    ) -> Stub:
        """The stub of a function, and what there is to say about it.

        `owner` is the class it belongs to, `drops_first` leaves out its `self`, `drops` other parameters. The
        Context of mcp and fastmcp is left out as well, as adopting their tools does; with `keeps_contexts` it
        stays, so that building the tool refuses it, as registering it with toolcrib's own decorator does.
        """
        return self._stubber.make(
            node, owner=owner, drops_first=drops_first, drops=drops, keeps_contexts=keeps_contexts
        )

    def _site(self, within: Definition | None) -> Site:
        return Site(self.file.scope if within is None else self.file.scope_in(within))

    def _certain(self, made: Any, trail: Trail) -> Any:
        for remark in trail.gather():
            raise Unresolved(remark.message, remark.line, hint=remark.hint)
        return made
