"""Stubs: functions with the parameters, defaults, hints and docstring of real ones, and no code.

An unknown part of a stub is permissive, and a finding of the tool. A stub is an empty function of this module
whose code object gets other parameters, so no scanned code is kept or run.
"""

from __future__ import annotations

import ast
import copy
import inspect
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from toolcrib.errors import Finding
from toolcrib.schema.converters import UNKNOWN_DEFAULT
from toolcrib.sources.scan.classes import Classes
from toolcrib.sources.scan.files import Library, SourceFile
from toolcrib.sources.scan.hints import Spelling, is_foreign_context, names_in, spell
from toolcrib.sources.scan.names import Names, Site, qualname_in
from toolcrib.sources.scan.scopes import Definition, Scope, blocks_of
from toolcrib.sources.scan.values import DEFAULT, NotYet, Remark, Trail, Unresolved, show

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_ITERATORS = ("Generator", "Iterable", "Iterator")
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

# --- empty functions ---------------------------------------------------------------------------------


def _nothing() -> None:
    return None


def _something() -> Any:
    return 0


def _items() -> Any:
    return
    yield


async def _later_nothing() -> None:
    return None


async def _later_something() -> Any:
    return 0


async def _later_items() -> Any:
    return
    yield


_CODES: dict[tuple[bool, str], CodeType] = {
    (False, "nothing"): _nothing.__code__,
    (False, "something"): _something.__code__,
    (False, "items"): _items.__code__,
    (True, "nothing"): _later_nothing.__code__,
    (True, "something"): _later_something.__code__,
    (True, "items"): _later_items.__code__,
}
_GLOBALS: dict[str, Any] = {"__builtins__": {}, "__name__": ""}
"""What stubs see around them: nothing."""


class Parameters(NamedTuple):
    """The parameters of a function by kind, without those that are dropped."""

    by_place: list[str]
    by_name: list[str]
    by_keyword: list[str]
    rest: str | None
    more: str | None

    @classmethod
    def of(cls, arguments: ast.arguments, owner: str, dropped: Collection[str]) -> Parameters:
        def names(items: list[ast.arg]) -> list[str]:
            found = [mangle(item.arg, owner) if owner else item.arg for item in items]
            return [name for name in found if name not in dropped] if dropped else found

        rest = names([arguments.vararg]) if arguments.vararg is not None else []
        more = names([arguments.kwarg]) if arguments.kwarg is not None else []
        return cls(
            names(arguments.posonlyargs),
            names(arguments.args),
            names(arguments.kwonlyargs),
            rest[0] if rest else None,
            more[0] if more else None,
        )

    def make(self, node: _Function, gives: str, file: str) -> FunctionType:
        """Return an empty function; as far as its code shows, it gives "nothing", "something" or "items"."""
        code = _CODES[type(node) is ast.AsyncFunctionDef, gives]
        names = [*self.by_place, *self.by_name, *self.by_keyword]
        names += [name for name in (self.rest, self.more) if name is not None]
        flags = code.co_flags
        flags |= inspect.CO_VARARGS if self.rest is not None else 0
        flags |= inspect.CO_VARKEYWORDS if self.more is not None else 0
        code = code.replace(
            co_name=node.name,
            co_filename=file,
            co_firstlineno=node.decorator_list[0].lineno if node.decorator_list else node.lineno,
            co_argcount=len(self.by_place) + len(self.by_name),
            co_posonlyargcount=len(self.by_place),
            co_kwonlyargcount=len(self.by_keyword),
            co_nlocals=len(names),
            co_varnames=tuple(names),
            co_flags=flags,
        )
        return FunctionType(code, _GLOBALS, node.name)


def mangle(name: str, owner: str) -> str:
    """Return a name that is private to a class as Python changes it."""
    if not name.startswith("__") or name.endswith("__"):
        return name
    owner = owner.rpartition(".")[2].lstrip("_")
    return f"_{owner}{name}" if owner else name


def what_it_gives(node: _Function) -> tuple[str, str | None]:
    """Return whether a function returns anything, and what is wrong where Python refuses to compile it.

    The function is compiled for this and thrown away.
    """
    bare = copy.copy(node)
    bare.args, bare.decorator_list, bare.returns = _bare_arguments(node.args), [], None
    if "type_params" in node._fields:  # of Python 3.12
        bare.type_params = []  # type: ignore[union-attr,unused-ignore]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = compile(ast.Module([bare], []), "<scanned>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return "nothing", str(getattr(error, "msg", None) or error)
    except (RecursionError, MemoryError, TypeError):
        return "nothing", "it is nested too deeply"
    code = next(item for item in module.co_consts if isinstance(item, CodeType))
    if code.co_flags & _GENERATOR:
        return "items", None
    return ("something" if _returns_something(node.body) else "nothing"), None


def _bare_arguments(arguments: ast.arguments) -> ast.arguments:
    """Return the parameters without annotations and defaults."""
    bare = copy.deepcopy(arguments) if not (arguments.defaults or arguments.kw_defaults) else None
    names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    made = [ast.arg(item.arg, lineno=item.lineno, col_offset=item.col_offset) for item in names]
    if bare is None:
        bare = ast.arguments([], made, None, [], [], None, [])
    for item in (*bare.posonlyargs, *bare.args, *bare.kwonlyargs, bare.vararg, bare.kwarg):
        if item is not None:
            item.annotation = None
    return bare


def _returns_something(body: list[ast.stmt]) -> bool:
    """Whether some `return` of the function itself gives more than None."""
    waiting = list(body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.Return):
            value = statement.value
            if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
                return True
        elif not isinstance(statement, Definition):
            for block in blocks_of(statement):
                waiting += block
    return False


# --- stubs -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Stub:
    """A stub and its findings."""

    function: FunctionType
    findings: list[Finding] = field(default_factory=list)


class _Read(NamedTuple):
    """An annotation that was read for certain, which holds for the lines from `since` on."""

    hint: Any
    is_context: bool
    since: float


class Reader:
    """Reads the names, values, hints, classes and functions of one file.

    `within` is the definition in whose body an expression stands; without it, it is the module's.
    """

    def __init__(self, file: SourceFile, library: Library) -> None:
        self.file = file
        self.library = library
        self._classes = Classes.of(library)
        self._path = str(file.path)
        # Shared by all files whose annotations are evaluated at the same time.
        kept = library.made.setdefault((Reader, file.is_lazy), {})
        self._common: dict[Spelling, tuple[_Read, list[str]]] = kept
        self._places: dict[Scope, tuple[Site, dict[Spelling, _Read]]] = {}

    @property
    def names(self) -> Names:
        return self._classes.names

    def qualify(self, node: ast.expr, within: Definition | None = None) -> str | None:
        """Return the full dotted name behind a name or attribute, through imports and aliases."""
        try:
            return self.names.qualify(node, self._site(within))
        except RecursionError:
            return None

    def value(self, node: ast.expr, within: Definition | None = None) -> Any:
        """Return the value of an expression. Raises Unresolved where it is not known for certain."""
        return self.value_at(node, self._site(within))

    def value_at(self, node: ast.expr, site: Site) -> Any:
        return self._certain(self._classes.values.evaluate, node, site)

    def hint(self, node: ast.expr, within: Definition | None = None) -> Any:
        """Return the hint that an annotation is. Raises Unresolved where any part is not known surely."""
        site = self._site(within)
        return self._certain(self._classes.hints.evaluate, node, site.lazily() if self.file.is_lazy else site)

    def cls(self, node: ast.ClassDef) -> type:
        """Return the class of a definition, approximate ones included. Raises Unresolved."""
        made: type = self._classes.build(node, self.file.scope_of(node), Trail())
        return made

    def _site(self, within: Definition | None) -> Site:
        return Site(self.file.scope if within is None else self.file.scope_in(within))

    def _certain(self, evaluate: Any, node: ast.expr, site: Site) -> Any:
        trail = Trail()
        try:
            made = evaluate(node, site, trail)
        except (NotYet, RecursionError):
            raise Unresolved("it refers to itself", getattr(node, "lineno", None)) from None
        for remark in trail.gather():
            raise Unresolved(remark.message, remark.line, hint=remark.hint)
        return made

    def stub(
        self,
        node: _Function,
        *,
        drops_first: bool = False,
        drops: Collection[str] = (),
        keeps_contexts: bool = False,
    ) -> Stub:
        """Return the stub of a function, without the parameters that are to be dropped: its `self`, others,
        and the Context of mcp and fastmcp. With `keeps_contexts` the latter stays, so that building the tool
        refuses it, as registering it with toolcrib's own decorator does."""
        self._classes.turn_to(self.file)
        scope = self.file.scope_of(node)
        if getattr(node, "type_params", ()):  # of Python 3.12: they are seen by the annotations
            scope = scope.within(node).parent or scope
        owner = scope.node.name if scope.kind == "class" else ""
        dropped = set(drops)
        if drops_first:
            dropped.update(mangle(item.arg, owner) for item in (node.args.posonlyargs + node.args.args)[:1])
        findings: list[Finding] = []
        hints, contexts = self._hints(node, owner, scope, dropped, findings)
        if contexts and not keeps_contexts:
            dropped.update(contexts)
            hints = {name: hint for name, hint in hints.items() if name not in dropped}
        defaults = {
            name: value.value
            if type(value) is ast.Constant
            else self._default(value, Site(scope), node.name, name, findings)
            for name, value in _defaults(node.args, owner)
            if name not in dropped
        }
        gives = "something"
        if node.returns is None or _may_be_iterator(node.returns):
            gives, problem = what_it_gives(node)
            if problem:
                words = f"Python refuses the function '{node.name}': {problem}"
                place = (self._path, node.lineno, "correct it; importing the file fails")
                findings.append(Finding("unreadable-source", "error", words, node.name, None, *place))
        parameters = Parameters.of(node.args, owner, dropped)
        function = parameters.make(node, gives, self._path)
        if defaults:
            positional = [
                defaults[name] for name in parameters.by_place + parameters.by_name if name in defaults
            ]
            function.__defaults__ = tuple(positional) or None
            filled = {name: defaults[name] for name in parameters.by_keyword if name in defaults}
            function.__kwdefaults__ = filled or None
        function.__annotations__ = hints
        first = node.body[0].value if node.body and type(node.body[0]) is ast.Expr else None
        function.__doc__ = (
            first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
        )
        function.__module__ = self.file.name
        function.__qualname__ = qualname_in(scope, node.name)
        return Stub(function, findings)

    def _hints(
        self, node: _Function, owner: str, scope: Scope, dropped: Collection[str], findings: list[Finding]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the annotations as hints, and the parameters that are contexts. The functions of a file have
        much the same annotations: each is read once."""
        if scope not in self._places:
            self._places[scope] = (Site(scope, lazy=self.file.is_lazy), {})
        site, known = self._places[scope]
        hints: dict[str, Any] = {}
        contexts: tuple[str, ...] = ()
        for name, annotation in _annotations(node, owner):
            if name in dropped:
                continue
            key = annotation.id if type(annotation) is ast.Name else spell(annotation)
            read = known.get(key) or self._recall(key, scope, known)
            if read is None or annotation.lineno < read.since:
                trail = Trail()
                read = self._read(annotation, site, trail)
                if trail.remarks or trail.uses:
                    findings += [remark.to_finding(node.name, name) for remark in trail.gather()]
                elif key is not None:
                    known[key] = read
                    names = names_in(key)
                    if names is not None and _means_built_in(names, scope):
                        self._common[key] = (read, names)
            hints[name] = read.hint
            if read.is_context and name != "return":
                contexts += (name,)
        return hints, contexts

    def _recall(self, key: Spelling, scope: Scope, known: dict[Spelling, _Read]) -> _Read | None:
        """Return what another file has found the same annotation to mean, where it means the same there."""
        read, names = self._common.get(key, (None, ()))
        if read is None or not _means_built_in(names, scope):
            return None
        known[key] = read
        return read

    def _read(self, node: ast.expr, site: Site, trail: Trail) -> _Read:
        hints = self._classes.hints
        self.names.since = 0
        try:
            hint = hints.permit(node, site, trail)
        except (NotYet, RecursionError) as error:
            why = "it refers to itself" if isinstance(error, NotYet) else "it is nested too deeply"
            hints.remark(Unresolved(why, node.lineno), node, site, trail)
            hint = Any
        return _Read(hint, is_foreign_context(hint), self.names.since)

    def _default(self, node: ast.expr, site: Site, tool: str, name: str, findings: list[Finding]) -> Any:
        trail = Trail()
        try:
            value = self._classes.values.evaluate(node, site, trail)
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


def _annotations(node: _Function, owner: str) -> Iterator[tuple[str, ast.expr]]:
    arguments = node.args
    written = arguments.args
    if arguments.posonlyargs or arguments.vararg or arguments.kwonlyargs or arguments.kwarg:
        tail = [arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        written = arguments.posonlyargs + written + [item for item in tail if item is not None]
    for item in written:
        if item.annotation is not None:
            yield mangle(item.arg, owner) if owner else item.arg, item.annotation
    if node.returns is not None:
        yield "return", node.returns


def _defaults(arguments: ast.arguments, owner: str) -> Iterator[tuple[str, ast.expr]]:
    places = (arguments.posonlyargs + arguments.args)[::-1]
    pairs = [*zip(places, arguments.defaults[::-1], strict=False)][::-1]
    for item, value in [*pairs, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]:
        if value is not None:
            yield mangle(item.arg, owner) if owner else item.arg, value


def _may_be_iterator(node: ast.expr) -> bool:
    base = node.value if isinstance(node, ast.Subscript) else node
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return name.endswith(_ITERATORS) or isinstance(base, ast.Constant)
