"""A source file: its scopes and the names that they bind, and the statements in it that may register tools.

One pass over the statements collects them, each with the conditions and loops around it, which are not
interpreted.
"""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FunctionNode | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_SHOWN = 60
_REBINDING = re.compile(r"^[ \t]+global[ \t]+([\w, \t]+)|^\S.*?\b(\w+)[ \t]*:=", re.MULTILINE)

Situation = frozenset[str]
"""The conditions under which a statement runs. "checking": for type checkers only. "main": as a program only.
"attempt": in the body of a `try` with handlers; "fallback": in a handler. "maybe": undecidable."""
_ALWAYS: Situation = frozenset()


def words_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


def show(node: ast.AST) -> str:
    """Return an expression as it is written, shortened."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError, AttributeError):
        return "this expression"
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def first_line(node: Definition) -> int:
    """Return the line of a definition as Python counts: that of its first decorator."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


def docstring_in(node: Definition) -> str | None:
    """Return the docstring of a definition as it is written; `ast.get_docstring` takes much longer."""
    first = node.body[0]
    value = first.value if type(first) is ast.Expr else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


# --- scopes ------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Binding:
    """One way in which a name gets its meaning. `module` and `level` are those of an import, `value` is what
    an assignment assigns."""

    kind: Literal["import", "from", "class", "function", "value", "unknown"]
    node: ast.AST
    line: int
    situation: Situation = _ALWAYS
    value: ast.expr | None = None
    module: str = ""
    level: int = 0
    name: str = ""


@dataclass(eq=False)
class Scope:
    """A module, a function or a class body. `statements` are those that are reached, with their
    situations. Type parameters in brackets are not names of it: annotations that use them are announced."""

    kind: Literal["module", "function", "class"]
    node: Any
    file: SourceFile
    parent: Scope | None = None
    statements: list[tuple[ast.stmt, Situation]] = field(default_factory=list)
    stars: list[Binding] = field(default_factory=list)

    @cached_property
    def names(self) -> dict[str, list[Binding]]:
        """The bindings of each name, in the order of their lines."""
        names: dict[str, list[Binding]] = {}
        for item in arguments_of(self.node.args) if self.kind == "function" else ():
            names[item.arg] = [Binding("unknown", self.node, self.node.lineno, name=item.arg)]
        for statement, situation in self.statements:
            for name, binding in _bindings(statement, situation):
                if name != "*":
                    names.setdefault(name, []).append(binding)
        if self.kind == "module" and ("global" in self.file.text or ":=" in self.file.text):
            for name in re.findall(r"\w+", " ".join(map(" ".join, _REBINDING.findall(self.file.text)))):
                if name in names:  # a function or an expression binds it too, at an unknown time
                    line, maybe = names[name][-1].line, frozenset({"maybe"})
                    names[name].append(Binding("unknown", self.node, line, maybe, name=name))
        return names

    @cached_property
    def function(self) -> Scope | None:
        """The function whose call runs what stands here; None for what importing runs."""
        return self if self.kind == "function" else self.parent and self.parent.function

    def visible(self) -> Iterator[Scope]:
        """Yield the scopes in which a name that is used here is looked for, in order."""
        yield self
        outer = self.parent
        while outer is not None:
            if outer.kind != "class":
                yield outer
            outer = outer.parent


def _bindings(statement: ast.stmt, situation: Situation) -> Iterator[tuple[str, Binding]]:
    """Yield the names that one statement binds itself."""
    line = statement.lineno
    kind: Any
    if isinstance(statement, Definition):
        kind = "class" if isinstance(statement, ast.ClassDef) else "function"
        yield statement.name, Binding(kind, statement, line, situation, name=statement.name)
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            shown = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else shown
            yield shown, Binding("import", statement, line, situation, module=module)
    elif isinstance(statement, ast.ImportFrom):
        module, level = statement.module or "", statement.level
        for alias in statement.names:
            made = Binding("from", statement, line, situation, None, module, level, alias.name)
            yield alias.asname or alias.name, made
    else:
        for target, given in _targets(statement):
            for name, part in _assigned(target, given):
                kind = "unknown" if part is None else "value"
                yield name, Binding(kind, statement, line, situation, part, name=name)


def _targets(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield the expressions that a statement assigns to, with the values where they are written."""
    match statement:
        case ast.Assign():
            yield from ((target, statement.value) for target in statement.targets)
        case ast.AnnAssign(value=ast.expr() as value):
            yield statement.target, value
        case ast.Delete():
            yield from ((target, None) for target in statement.targets)
        case ast.AugAssign() | ast.For() | ast.AsyncFor():
            yield statement.target, None
        case ast.With() | ast.AsyncWith():
            yield from ((item.optional_vars, None) for item in statement.items if item.optional_vars)
        case _ if isinstance(name := getattr(statement, "name", None), ast.Name):
            yield name, None  # `type` of Python 3.12, which is not read


def _assigned(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        values: Sequence[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            values = value.elts
        for inner, given in zip(target.elts, values, strict=True):
            yield from _assigned(inner, given)


def arguments_of(arguments: ast.arguments) -> list[ast.arg]:
    """Return all parameters: those by position, those by name, `*args` and `**kwargs`."""
    found = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    return found + [item for item in (arguments.vararg, arguments.kwarg) if item is not None]


def defaults_of(arguments: ast.arguments) -> list[tuple[str, ast.expr]]:
    """Return the parameters that have a default, with it."""
    places, last = arguments.posonlyargs + arguments.args, arguments.defaults
    found = [(item.arg, value) for item, value in zip(places[len(places) - len(last) :], last, strict=True)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found + [(item.arg, value) for item, value in keywords if value is not None]


# --- files -------------------------------------------------------------------------------------------


class Guard(NamedTuple):
    """A condition or loop around statements: what stands below it may be missing when the code runs."""

    line: int
    words: str
    test: ast.expr | None = None

    @property
    def message(self) -> str:
        return self.words if self.test is None else f"{self.words} `{show(self.test)}`"


class Spot(NamedTuple):
    """Where a statement stands: its scope, and the conditions and loops around it in that function."""

    scope: Scope
    guards: tuple[Guard, ...] = ()
    situation: Situation = _ALWAYS

    @property
    def is_certain(self) -> bool:
        """Whether importing the file runs the statement, in any case."""
        return not self.guards and self.scope.function is None

    def guarded(self, guard: Guard, situation: str = "maybe") -> Spot:
        return Spot(self.scope, (*self.guards, guard), self.situation | {situation})


class CallAt(NamedTuple):
    """A call and where it stands."""

    node: ast.Call
    spot: Spot


@dataclass(eq=False)
class SourceFile:
    """One file. `name` is the dotted name that importing it gives, `base` the folder it is imported from.

    `calls` are those whose name may register something. `spots` and `scopes` are those in which each
    definition stands and which its body makes, `returns` the values that a function returns, all by the id of
    the node.
    """

    path: Path
    name: str
    base: Path
    tree: ast.Module
    text: str = ""
    decorated: list[tuple[Definition, Spot]] = field(default_factory=list)
    classes: list[tuple[ast.ClassDef, Spot]] = field(default_factory=list)
    calls: list[CallAt] = field(default_factory=list)
    returns: dict[int, list[tuple[ast.expr, Spot]]] = field(default_factory=dict)
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    spots: dict[int, Spot] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scope = Scope("module", self.tree, self)
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.text.split("\n")
        walker = _Walker(self)
        for statement in self.tree.body:  # whatever one of them raises
            walker.block([statement], Spot(self.scope))

    def text_of(self, node: ast.expr) -> str | None:
        """Return an expression as it is written, if it is on one line; unparsing takes much longer."""
        line = self.lines[node.lineno - 1] if node.end_lineno == node.lineno else ""
        return line[node.col_offset : node.end_col_offset] if line and line.isascii() else None

    @cached_property
    def is_lazy(self) -> bool:
        """Whether its annotations are text at run time: `from __future__ import annotations`."""
        imports = [item for item in self.imports if getattr(item, "module", "") == "__future__"]
        return any(alias.name == "annotations" for item in imports for alias in item.names)

    def changes(self, name: str) -> bool:
        """Return whether the object of a name is changed somewhere in the file."""
        method = "add|append|clear|extend|insert|pop|popitem|remove|reverse|setdefault|sort|update"
        part = r"(?:\[[^\]\n]*\]|\.\w+)"
        changed = (
            rf"\b{name}(?:{part}+[ \t]*[-+|]?=(?!=)|[ \t]*[-+|]=|{part}*\.(?:{method})\(|\[.*\][ \t]*=(?!=))"
        )
        return re.search(rf"{changed}|\b(?:global[ \t].*|del[ \t]+|attr\(){name}\b", self.text) is not None

    def scope_in(self, node: Definition) -> Scope:
        """Return the scope that the body of a definition makes."""
        return self.scopes[id(node)]


# --- statements --------------------------------------------------------------------------------------

_REGISTERING = re.compile(
    r"(?:tool|Tool|[pP]rompt|resource|mount|import_server|remove|disable|\badd(?:_\w+)?|_all_tools|_handler)\b|"
    r"\b(?:tools|on_list_\w+)[ \t]*="
)
"""What a line has that may register something, or change what is registered."""


def _decide(test: ast.expr) -> bool | Literal["main", "checking"] | None:
    """Return the truth of a condition if reading tells it. "checking" holds for type checkers only, "main"
    for code that runs as a program; None is not known."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return "checking"
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant()]):
            return "main"
        case ast.Compare(left=ast.Attribute(attr="version_info"), ops=[ast.GtE()], comparators=[ast.Tuple()]):
            least: Any = tuple(getattr(item, "value", None) for item in test.comparators[0].elts)  # type: ignore[attr-defined]
            return sys.version_info >= least if all(isinstance(item, int) for item in least) else None
    return None


class _Walker:
    """Looks through blocks of statements. Conditions and loops are not interpreted."""

    def __init__(self, found: SourceFile) -> None:
        self.found = found
        self.marked: list[int] = []
        line, last = 1, 0
        for match in _REGISTERING.finditer(found.text):
            line, last = line + found.text.count("\n", last, match.start()), match.start()
            self.marked.append(line)

    def block(self, body: Sequence[ast.stmt], spot: Spot) -> None:
        for statement in body:
            spot.scope.statements.append((statement, spot.situation))
            take = _STATEMENTS.get(type(statement))
            if take is not None:
                take(self, statement, spot)
            if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
                return

    def _import(self, node: ast.Import | ast.ImportFrom, spot: Spot) -> None:
        self.found.imports.append(node)
        if any(alias.name == "*" for alias in node.names):
            spot.scope.stars += [binding for _, binding in _bindings(node, spot.situation)]

    def _definition(self, node: Definition, spot: Spot) -> None:
        self.found.spots[id(node)] = spot
        if node.decorator_list:
            self.found.decorated.append((node, spot))
        if isinstance(node, ast.ClassDef):
            scope = Scope("class", node, self.found, spot.scope)
            self.found.classes.append((node, spot))
        else:
            scope = Scope("function", node, self.found, spot.scope)
        self.found.scopes[id(node)] = scope
        self.block(node.body, Spot(scope, spot.guards if isinstance(node, ast.ClassDef) else ()))

    def _plain(self, node: ast.stmt, spot: Spot) -> None:
        """Note the calls in a statement without a body."""
        if isinstance(node, ast.Return) and node.value is not None:
            self.found.returns.setdefault(id(spot.scope.node), []).append((node.value, spot))
        self._calls_in(node, spot)

    def _calls_in(self, node: ast.stmt | ast.expr, spot: Spot) -> None:
        position = bisect_left(self.marked, node.lineno)
        if self.marked[position : position + 1] and self.marked[position] <= (node.end_lineno or 0):
            calls = (item for item in ast.walk(node) if isinstance(item, ast.Call))
            self.found.calls += [CallAt(item, spot) for item in calls]

    # --- guards ---

    def _if(self, node: ast.If, spot: Spot) -> None:
        truth = _decide(node.test)
        if truth == "main":
            guard = Guard(node.lineno, "is registered when the file is run as a program, not on import")
        elif truth == "checking":
            guard = Guard(node.lineno, "is registered for type checkers only")
        else:
            guard = Guard(node.lineno, "depends on", node.test)
        self._calls_in(node.test, spot)
        if truth is not False:
            self.block(node.body, spot if truth is True else spot.guarded(guard, str(truth or "maybe")))
        if truth is None:
            self.block(node.orelse, spot.guarded(guard))
        elif truth is not True:
            self.block(node.orelse, spot)

    def _try(self, node: ast.Try | ast.TryStar, spot: Spot) -> None:
        tried = spot._replace(situation=spot.situation | {"attempt"}) if node.handlers else spot
        self.block(node.body, tried)
        for handler in node.handlers:
            guard = Guard(handler.lineno, "is registered if something fails")
            self.block(handler.body, spot.guarded(guard, "fallback"))
        self.block(node.orelse, tried)
        self.block(node.finalbody, spot)

    def _with(self, node: ast.With | ast.AsyncWith, spot: Spot) -> None:
        for item in node.items:
            self._calls_in(item.context_expr, spot)
        self.block(node.body, spot)

    def _match(self, node: ast.Match, spot: Spot) -> None:
        guard = Guard(node.lineno, "depends on", node.subject)
        for case in node.cases:
            self.block(case.body, spot.guarded(guard))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, spot: Spot) -> None:
        guard = Guard(node.lineno, "stands in a loop")
        self._calls_in(node.test if isinstance(node, ast.While) else node.iter, spot)
        self.block(node.body, spot.guarded(guard))
        self.block(node.orelse, spot)


_STATEMENTS: dict[type[ast.stmt], Any] = {
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), _Walker._definition),
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return), _Walker._plain),
    **dict.fromkeys((ast.Import, ast.ImportFrom), _Walker._import),
    ast.If: _Walker._if,
    **dict.fromkeys((ast.Try, ast.TryStar), _Walker._try),
    **dict.fromkeys((ast.With, ast.AsyncWith), _Walker._with),
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), _Walker._loop),
    ast.Match: _Walker._match,
}
