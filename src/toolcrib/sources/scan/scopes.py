"""A source file and the names that it binds: imports, classes, functions, assignments."""

from __future__ import annotations

import ast
import operator
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FunctionNode | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_REBINDING = re.compile(r"^[ \t]+global[ \t]+([\w, \t]+)|^\S.*?\b(\w+)[ \t]*:=", re.MULTILINE)
_COMPOUND = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)
_FACTS: dict[tuple[str, str], Any] = {
    ("sys", "version_info"): tuple(sys.version_info),
    ("sys", "platform"): sys.platform,
    ("os", "name"): os.name,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


def words_in(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


Situation = frozenset[str]
"""The conditions under which a statement runs. "checking": for type checkers only. "main": as a program only.
"attempt": in the body of a `try` with handlers; "fallback": in a handler. "maybe": undecidable."""
_ALWAYS: Situation = frozenset()


@dataclass(slots=True, eq=False)
class Binding:
    """One way in which a name gets its meaning. `module` and `level` are those of an import, `value` is what
    an assignment assigns."""

    kind: Literal["import", "from", "class", "function", "value", "alias", "variable", "unknown"]
    node: ast.AST
    line: int
    situation: Situation
    value: ast.expr | None = None
    module: str = ""
    level: int = 0
    name: str = ""

    @property
    def is_certain(self) -> bool:
        return self.situation.isdisjoint(("attempt", "fallback", "maybe"))


@dataclass(eq=False)
class Scope:
    """The names of a module, a function, a class body, or of type parameters."""

    kind: Literal["module", "function", "class", "types"]
    node: Any
    file: SourceFile
    parent: Scope | None = None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[Binding] = field(default_factory=list)

    @property
    def module(self) -> Scope:
        return self.file.scope

    @property
    def outer(self) -> Scope | None:
        """The scope around this one, without those of type parameters."""
        scope = self.parent
        while scope is not None and scope.kind == "types":
            scope = scope.parent
        return scope

    def within(self, node: Definition) -> Scope:
        """Return the scope that the body of a definition makes here."""
        outer = self
        if getattr(node, "type_params", ()):  # of Python 3.12
            outer = Scope("types", node, self.file, self)
            for variable in node.type_params:  # type: ignore[attr-defined,union-attr,unused-ignore]
                outer.bind(Binding("variable", variable, node.lineno, _ALWAYS, name=variable.name))
        inner = Scope("class" if isinstance(node, ast.ClassDef) else "function", node, self.file, outer)
        if not isinstance(node, ast.ClassDef):
            for argument in arguments_of(node.args):
                inner.bind(Binding("unknown", node, node.lineno, _ALWAYS, name=argument.arg))
        _bind_all(node.body, inner)
        return inner

    def bind(self, binding: Binding) -> None:
        self.names.setdefault(binding.name, []).append(binding)

    def visible(self) -> Iterator[Scope]:
        """Yield the scopes in which a name that is used here is looked for, in order."""
        yield self
        outer = self.parent
        while outer is not None:
            if outer.kind != "class":
                yield outer
            outer = outer.parent


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
        """The package that a relative import begins at."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def _lines(self) -> list[str]:
        return re.split(r"\r\n?|\n", self.text) if "\r" in self.text else self.text.split("\n")

    def text_of(self, node: ast.expr) -> str | None:
        """Return an expression as it is written, if it is on one line; unparsing takes much longer."""
        line = self._lines[node.lineno - 1] if node.end_lineno == node.lineno else ""
        return line[node.col_offset : node.end_col_offset] if line and line.isascii() else None

    @cached_property
    def scope(self) -> Scope:
        scope = Scope("module", self.tree, self)
        _bind_all(self.tree.body, scope)
        may_rebind = "global" in self.text or ":=" in self.text
        for found in _REBINDING.findall(self.text) if may_rebind else ():
            for name in re.findall(r"\w+", " ".join(found)):
                if name in scope.names:  # a function or an expression binds it too, at an unknown time
                    line = scope.names[name][-1].line
                    scope.bind(Binding("unknown", self.tree, line, frozenset({"maybe"}), name=name))
        return scope

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
        """Whether the object behind a name of the module is changed somewhere in the file."""
        return name in self._changed

    @cached_property
    def _changed(self) -> frozenset[str]:
        return frozenset(_changed_names(self.tree))

    def scope_of(self, node: Definition) -> Scope:
        """Return the scope in which a definition stands."""
        scope = self.scope
        if any(binding.node is node for binding in scope.names.get(node.name, ())):
            return scope  # as most do
        for outer in self._parents.get(id(node), ()):
            scope = self._inner(outer, scope)
        return scope

    def scope_in(self, node: Definition) -> Scope:
        """Return the scope that the body of a definition makes."""
        return self._inner(node, self.scope_of(node))

    def _inner(self, node: Definition, scope: Scope) -> Scope:
        made = self._scopes.get(id(node))
        if made is None:
            made = self._scopes[id(node)] = scope.within(node)
        return made

    @cached_property
    def _scopes(self) -> dict[int, Scope]:
        return {}

    @cached_property
    def _parents(self) -> dict[int, list[Definition]]:
        """The definitions around each definition of the file, by its id, outermost first."""
        found: dict[int, list[Definition]] = {}
        waiting: list[tuple[Sequence[ast.stmt], list[Definition]]] = [(self.tree.body, [])]
        while waiting:
            body, around = waiting.pop()
            for statement in body:
                if isinstance(statement, Definition):
                    found[id(statement)] = around
                    waiting.append((statement.body, [*around, statement]))
                else:
                    waiting.extend((inner, around) for inner in blocks_of(statement))
        return found


def blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements inside a compound one."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def arguments_of(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Yield all parameters: those by position, those by name, `*args` and `**kwargs`."""
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (item for item in (arguments.vararg, arguments.kwarg) if item is not None)


def defaults_of(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters that have a default, with it."""
    places = (arguments.posonlyargs + arguments.args)[::-1]
    pairs = [*zip(places, arguments.defaults[::-1], strict=False)][::-1]
    for item, value in [*pairs, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]:
        if value is not None:
            yield item.arg, value


# --- conditions --------------------------------------------------------------------------------------


def is_main(test: ast.expr) -> bool:
    """Whether this is the condition of code that only runs as a program: `__name__ == "__main__"`."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant()]):
            return True
    return False


def decide(test: ast.expr) -> bool | Literal["checking", "running"] | None:
    """Return the truth of a condition if reading tells it. "checking" holds for type checkers only, "running"
    for everybody else; None is not known."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return "checking"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = decide(operand)
            if isinstance(inner, str):
                return "running" if inner == "checking" else "checking"
            return None if inner is None else not inner
        case ast.Compare(left=ast.Attribute(value=ast.Name(id=module), attr=name), ops=[sign]):
            compare = _COMPARISONS.get(type(sign))
            try:
                if compare is not None and (module, name) in _FACTS:
                    return bool(compare(_FACTS[module, name], ast.literal_eval(test.comparators[0])))
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return None
        case ast.Compare() if is_main(test):
            return False  # it is being imported
    return None


# --- binding -----------------------------------------------------------------------------------------


def _bind_all(body: Sequence[ast.stmt], scope: Scope) -> None:
    """Bind the names that statements bind. Blocks wait on a list, so that their depth does not matter."""
    waiting: list[tuple[Sequence[ast.stmt], Situation]] = [(body, _ALWAYS)]
    while waiting:
        block, situation = waiting.pop(0)
        for statement in block:
            if not _bind(statement, scope, situation):
                waiting += _branches(statement, situation)
    for bindings in scope.names.values():
        if len(bindings) > 1:
            bindings.sort(key=lambda binding: binding.line)


def _branches(statement: ast.stmt, situation: Situation) -> Iterator[tuple[Sequence[ast.stmt], Situation]]:
    """Yield the blocks of a compound statement, each with the conditions under which it runs."""
    if isinstance(statement, ast.If):
        truth = "main" if is_main(statement.test) else decide(statement.test)
        if truth in ("main", "checking"):
            yield statement.body, situation | {truth}
            yield statement.orelse, situation
        elif truth is None:
            yield statement.body, situation | {"maybe"}
            yield statement.orelse, situation | {"maybe"}
        else:
            yield (statement.body if truth else statement.orelse), situation
    elif isinstance(statement, ast.Try | ast.TryStar):
        tried = situation | {"attempt"} if statement.handlers else situation
        yield statement.body, tried
        yield statement.orelse, tried
        for handler in statement.handlers:
            yield handler.body, situation | {"fallback"}
        yield statement.finalbody, situation
    else:
        is_sure = isinstance(statement, ast.With | ast.AsyncWith)
        for block in blocks_of(statement):
            yield block, situation if is_sure else situation | {"maybe"}


def _bind(statement: ast.stmt, scope: Scope, situation: Situation) -> bool:
    """Bind the names that one statement binds itself; return False where it has blocks to be looked at."""
    if isinstance(statement, ast.Expr):
        return True
    line = statement.lineno
    if isinstance(statement, FUNCTIONS):
        scope.bind(Binding("function", statement, line, situation, name=statement.name))
        return True

    def add(kind: Any, name: str, value: ast.expr | None = None) -> None:
        scope.bind(Binding(kind, statement, line, situation, value, name=name))

    if isinstance(statement, ast.ClassDef):
        add("class", statement.name)
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        _bind_imports(statement, scope, situation)
    elif type(statement).__name__ == "TypeAlias":  # of Python 3.12
        add("alias", statement.name.id, statement.value)  # type: ignore[attr-defined,unused-ignore]
    else:
        for target, value in _targets(statement):
            _bind_target(target, value, add)
    return not isinstance(statement, _COMPOUND)


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


def _bind_imports(statement: ast.Import | ast.ImportFrom, scope: Scope, situation: Situation) -> None:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            shown = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else shown
            made = Binding("import", statement, statement.lineno, situation, module=module)
        else:
            shown, module = alias.asname or alias.name, statement.module or ""
            made = Binding("from", statement, statement.lineno, situation, None, module, statement.level)
            made.name = alias.name
        if alias.name == "*":
            scope.stars.append(made)
        else:
            scope.names.setdefault(shown, []).append(made)


def _bind_target(target: ast.expr, value: ast.expr | None, add: Any) -> None:
    if isinstance(target, ast.Name):
        add("unknown" if value is None else "value", target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        values: Sequence[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            values = value.elts
        for inner, given in zip(target.elts, values, strict=True):
            _bind_target(inner, given, add)


# --- changes -----------------------------------------------------------------------------------------

_CHANGING = words_in(
    "add append clear discard extend insert pop popitem remove reverse setdefault sort update"
)


def _changed_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names whose objects are changed after they were made, somewhere in the file."""
    for node in ast.walk(tree):
        changed: ast.expr | None = None
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            changed = node.value
        elif isinstance(node, ast.AugAssign):
            changed = node.target
        elif isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
                changed = node.func.value
            elif isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr") and node.args:
                changed = node.args[0]
        while isinstance(changed, ast.Attribute | ast.Subscript):
            changed = changed.value
        if isinstance(changed, ast.Name):
            yield changed.id
