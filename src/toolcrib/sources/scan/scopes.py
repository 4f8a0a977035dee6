"""Find which names a piece of source binds: imports, classes, functions, assignments."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

_GLOBAL = re.compile(r"^[ \t]+global[ \t]", re.MULTILINE)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = (ast.FunctionDef, ast.AsyncFunctionDef)

_FACTS: dict[tuple[str, str], Any] = {
    ("sys", "version_info"): tuple(sys.version_info),
    ("sys", "platform"): sys.platform,
    ("os", "name"): os.name,
}


@dataclass(frozen=True, slots=True)
class Situation:
    """Under which conditions a statement runs. `checking`: for type checkers only. `main`: as a program only.
    `attempt`: in the body of a `try` with handlers; `fallback`: in a handler. `maybe`: undecidable."""

    checking: bool = False
    main: bool = False
    attempt: bool = False
    fallback: bool = False
    maybe: bool = False

    @property
    def is_certain(self) -> bool:
        return not (self.attempt or self.fallback or self.maybe)


@dataclass(slots=True, eq=False)
class Binding:
    """One way in which a name gets its meaning. `module` and `level` tell of imports, `value` of others."""

    kind: Literal["import", "from", "class", "function", "value", "alias", "variable", "unknown"]
    node: ast.AST
    line: int
    situation: Situation
    value: ast.expr | None = None
    module: str = ""
    level: int = 0
    name: str = ""


@dataclass(eq=False)
class Scope:
    """The names of a module, a function or a class body."""

    kind: Literal["module", "function", "class", "types"]
    node: Any
    parent: Scope | None = None
    file: Any = None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[Binding] = field(default_factory=list)

    @property
    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def within(self, node: Definition) -> Scope:
        """The scope that the body of a definition makes here."""
        outer = self
        if getattr(node, "type_params", ()):  # of Python 3.12
            outer = Scope("types", node, self, self.file)
            for variable in node.type_params:  # type: ignore[attr-defined,union-attr,unused-ignore]
                outer.bind(Binding("variable", variable, node.lineno, Situation(), name=variable.name))
        kind: Literal["class", "function"] = "class" if isinstance(node, ast.ClassDef) else "function"
        inner = Scope(kind, node, outer, self.file)
        if not isinstance(node, ast.ClassDef):
            for argument in _arguments(node.args):
                inner.bind(Binding("unknown", node, node.lineno, Situation(), name=argument.arg))
        _bind_all(node.body, inner, Situation())
        return inner

    def bind(self, binding: Binding) -> None:
        self.names.setdefault(binding.name, []).append(binding)

    def visible(self) -> Iterator[Scope]:
        """The scopes in which a name that is used here is looked for, in order."""
        yield self
        outer = self.parent
        while outer is not None:
            if outer.kind != "class":
                yield outer
            outer = outer.parent


def module_scope(tree: ast.Module, file: Any = None) -> Scope:
    scope = Scope("module", tree, file=file)
    _bind_all(tree.body, scope, Situation())
    _bind_in_passing(tree, scope)
    return scope


def _bind_in_passing(tree: ast.Module, scope: Scope) -> None:
    """Return the names that `:=`, `case` and `global` bind, at an unknown time."""
    text: str = getattr(scope.file, "text", "")
    # Most files have none of it. A walk takes long: into functions only for `global`.
    has_global = "global" in text and _GLOBAL.search(text) is not None
    if not has_global and ":=" not in text and "match" not in text:
        return
    outside = [item for item in tree.body if not isinstance(item, Definition)]
    for node in ast.walk(tree if has_global else ast.Module(outside, [])):
        names: list[str | None] = []
        if isinstance(node, ast.NamedExpr):
            names = [node.target.id]
        elif isinstance(node, ast.MatchAs | ast.MatchStar):
            names = [node.name]
        elif isinstance(node, ast.MatchMapping):
            names = [node.rest]
        elif isinstance(node, ast.Global):
            names = list(node.names)
        for name in filter(None, names):
            if name in scope.names:
                line = scope.names[name][-1].line
                scope.bind(Binding("unknown", node, line, Situation(maybe=True), name=name))


def parents_in(tree: ast.Module) -> dict[int, list[Definition]]:
    """For every definition, by its id, the definitions around it, outermost first."""
    found: dict[int, list[Definition]] = {}
    waiting: list[tuple[Sequence[ast.stmt], list[Definition]]] = [(tree.body, [])]
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
    """The blocks of statements inside a compound one."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def is_main(test: ast.expr) -> bool:
    """Whether this is the condition of code that only runs as a program: `__name__ == "__main__"`."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant()]):
            return True
    return False


def decide(test: ast.expr) -> bool | Literal["checking", "running"] | None:
    """What a condition comes to, as far as reading tells. "checking" holds for type checkers only, "running"
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
        case ast.Compare() if is_main(test):
            return False  # it is being imported
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _compare(left, operator, right)
    return None


def _compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> bool | None:
    match left:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in _FACTS:
            fact = _FACTS[module, name]
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="sys"), attr="version_info"), slice=ast.Constant(value=0)
        ):
            fact = sys.version_info[0]
        case _:
            return None
    try:
        other = ast.literal_eval(right)
        match operator:
            case ast.Eq():
                return bool(fact == other)
            case ast.NotEq():
                return bool(fact != other)
            case ast.GtE():
                return bool(fact >= other)
            case ast.Gt():
                return bool(fact > other)
            case ast.Lt():
                return bool(fact < other)
            case ast.LtE():
                return bool(fact <= other)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    return None


# --- binding -----------------------------------------------------------------------------------------


def _bind_all(body: Sequence[ast.stmt], scope: Scope, situation: Situation) -> None:
    """Bind what the statements bind. Blocks wait on a list, so that their depth does not matter."""
    waiting: list[tuple[Sequence[ast.stmt], Situation]] = [(body, situation)]
    while waiting:
        block, situation = waiting.pop(0)
        for statement in block:
            if not _bind(statement, scope, situation):
                waiting += _branches(statement, situation)
    for bindings in scope.names.values():
        if len(bindings) > 1:
            bindings.sort(key=lambda binding: binding.line)


def _branches(statement: ast.stmt, situation: Situation) -> Iterator[tuple[Sequence[ast.stmt], Situation]]:
    """The blocks of a compound statement, with what is known about their running."""
    if isinstance(statement, ast.If):
        truth = decide(statement.test)
        if is_main(statement.test):
            yield statement.body, replace(situation, main=True)
            yield statement.orelse, situation
        elif truth == "checking":
            yield statement.body, replace(situation, checking=True)
            yield statement.orelse, situation
        elif truth == "running":
            yield statement.body, situation
        elif truth is None:
            yield statement.body, replace(situation, maybe=True)
            yield statement.orelse, replace(situation, maybe=True)
        else:
            yield (statement.body if truth else statement.orelse), situation
    elif isinstance(statement, ast.Try | ast.TryStar):
        tried = replace(situation, attempt=True) if statement.handlers else situation
        yield statement.body, tried
        yield statement.orelse, tried
        for handler in statement.handlers:
            yield handler.body, replace(situation, fallback=True)
        yield statement.finalbody, situation
    elif isinstance(statement, ast.With | ast.AsyncWith):
        yield statement.body, situation
    else:
        for block in blocks_of(statement):
            yield block, replace(situation, maybe=True)


def _bind(statement: ast.stmt, scope: Scope, situation: Situation) -> bool:
    """Bind what one statement binds by itself; False where it has blocks that are still to be looked at."""
    if isinstance(statement, ast.Expr):
        return True
    line = statement.lineno
    if isinstance(statement, _FUNCTIONS):
        scope.bind(Binding("function", statement, line, situation, name=statement.name))
        return True

    def add(kind: Any, name: str, value: ast.expr | None = None) -> None:
        scope.bind(Binding(kind, statement, line, situation, value, name=name))

    if isinstance(statement, ast.ClassDef):
        add("class", statement.name)
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete):
        _bind_targets(statement, add)
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        _bind_imports(statement, scope, situation)
    elif isinstance(statement, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
        _bind_loops(statement, add)
        return False
    elif type(statement).__name__ == "TypeAlias":  # of Python 3.12
        add("alias", statement.name.id, statement.value)  # type: ignore[attr-defined,unused-ignore]
    else:
        return not isinstance(statement, ast.If | ast.While | ast.Try | ast.TryStar | ast.Match)
    return True


def _bind_targets(statement: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete, add: Any) -> None:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            _bind_target(target, statement.value, add)
    elif isinstance(statement, ast.Delete):
        for target in statement.targets:
            _bind_target(target, None, add)
    elif isinstance(statement, ast.AugAssign):
        _bind_target(statement.target, None, add)
    elif statement.value is not None:
        _bind_target(statement.target, statement.value, add)


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


def _bind_loops(statement: ast.For | ast.AsyncFor | ast.With | ast.AsyncWith, add: Any) -> None:
    if isinstance(statement, ast.For | ast.AsyncFor):
        _bind_target(statement.target, None, add)
        return
    for item in statement.items:
        if item.optional_vars is not None:
            _bind_target(item.optional_vars, None, add)


def _bind_target(target: ast.expr, value: ast.expr | None, add: Any) -> None:
    if isinstance(target, ast.Name):
        if value is None:
            add("unknown", target.id)
        else:
            add("value", target.id, value=value)
    elif isinstance(target, ast.Tuple | ast.List):
        same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        starred = any(isinstance(item, ast.Starred) for item in target.elts)
        values = value.elts if same and not starred else [None] * len(target.elts)  # type: ignore[union-attr]
        for inner, given in zip(target.elts, values, strict=True):
            _bind_target(inner.value if isinstance(inner, ast.Starred) else inner, given, add)


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (item for item in (arguments.vararg, arguments.kwarg) if item is not None)


# --- changes -----------------------------------------------------------------------------------------

_CHANGING = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem"}
    | {"remove", "reverse", "setdefault", "sort", "update"}
)


def changes_in(tree: ast.Module) -> Iterator[str]:
    """Names whose objects are changed after they were made, somewhere in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield from _root(node.value)
        elif isinstance(node, ast.AugAssign):
            yield from _root(node.target)
        elif isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
                yield from _root(node.func.value)
            elif isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr") and node.args:
                yield from _root(node.args[0])


def _root(node: ast.expr) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
