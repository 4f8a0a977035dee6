"""A source file: its scopes and the names that they bind, and the statements in it that may register tools.

One pass over the statements finds decorated definitions, calls, returns and assignments, each with what
guards it. Conditions, loops and early returns are not interpreted: a statement below one carries a guess,
which becomes a finding about the tools that it registers.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FunctionNode | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_NESTED_CALLS = 4
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


class Guess(NamedTuple):
    """Why a tool may be missing, or different, when the code runs."""

    code: str
    words: str


class Loop(NamedTuple):
    """A `for` around a statement, or the one in a comprehension."""

    target: ast.expr
    items: ast.expr


class Spot(NamedTuple):
    """Where a statement stands: its scope, and the guards and loops around it in that function."""

    scope: Scope
    guesses: tuple[Guess, ...] = ()
    loops: tuple[Loop, ...] = ()
    situation: Situation = _ALWAYS

    @property
    def function(self) -> FunctionNode | None:
        """The function whose call runs the statement; None for one that importing runs."""
        return None if self.scope.function is None else self.scope.function.node

    def guarded(self, guess: Guess, situation: str = "maybe") -> Spot:
        return Spot(self.scope, (*self.guesses, guess), self.loops, self.situation | {situation})


class CallAt(NamedTuple):
    """A call and where it stands."""

    node: ast.Call
    spot: Spot
    is_awaited: bool = False


class Stored(NamedTuple):
    """`name[key] = value`, `name += value` or `holder.name = value`: a change of something that exists."""

    target: ast.expr
    value: ast.expr
    spot: Spot


@dataclass(eq=False)
class SourceFile:
    """One file. `name` is the dotted name that importing it gives, `base` the folder it is imported from.

    `spots` and `scopes` are those in which each definition stands and which its body makes, `returns` the
    values that a function returns, all by the id of the node; `attributes` are the assignments to attributes
    by name.
    """

    path: Path
    name: str
    base: Path
    tree: ast.Module
    text: str = ""
    decorated: list[tuple[Definition, Spot]] = field(default_factory=list)
    classes: list[tuple[ast.ClassDef, Spot]] = field(default_factory=list)
    calls: list[CallAt] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    attributes: dict[str, list[Stored]] = field(default_factory=dict)
    returns: dict[int, list[tuple[ast.expr, Spot]]] = field(default_factory=dict)
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    spots: dict[int, Spot] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)
    is_followed: bool = False

    def __post_init__(self) -> None:
        self.scope = Scope("module", self.tree, self)
        spot = Spot(self.scope)
        if self.path.name == "__main__.py":
            guess = Guess("guessed-main", "it is registered when the package is run as a program")
            spot = Spot(self.scope, (guess,))
        walker = _Walker(self)
        for statement in self.tree.body:
            walker.block([statement], spot)

    @cached_property
    def _lines(self) -> list[str]:
        return re.split(r"\r\n?|\n", self.text) if "\r" in self.text else self.text.split("\n")

    def text_of(self, node: ast.expr) -> str | None:
        """Return an expression as it is written, if it is on one line; unparsing takes much longer."""
        line = self._lines[node.lineno - 1] if node.end_lineno == node.lineno else ""
        return line[node.col_offset : node.end_col_offset] if line and line.isascii() else None

    @cached_property
    def is_lazy(self) -> bool:
        """Whether its annotations are text at run time: `from __future__ import annotations`."""
        imports = [item for item in self.imports if getattr(item, "module", "") == "__future__"]
        return any(alias.name == "annotations" for item in imports for alias in item.names)

    @cached_property
    def changed(self) -> frozenset[str]:
        """The names of the module whose objects are changed somewhere in the file."""
        return frozenset(_changed_names(self.tree))

    def scope_in(self, node: Definition) -> Scope:
        """Return the scope that the body of a definition makes."""
        return self.scopes[id(node)]


GROWING = words_in("add append extend insert update")
SHRINKING = words_in("clear pop popitem remove setdefault")
_CHANGING = GROWING | SHRINKING | {"discard", "reverse", "sort"}


def _changed_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names whose objects are changed after they were made, somewhere in the file."""
    for node in ast.walk(tree):
        changed: ast.expr | None = None
        match node:
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                changed = node.value
            case ast.AugAssign():
                changed = node.target
            case ast.Global():
                yield from node.names
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _CHANGING:
                changed = value
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[value, *_]):
                changed = value
        while isinstance(changed, ast.Attribute | ast.Subscript):
            changed = changed.value
        if isinstance(changed, ast.Name):
            yield changed.id


# --- statements --------------------------------------------------------------------------------------


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


_STOP = Guess("stop", "the statements below are not reached")
_GUARDS = {
    "main": Guess(
        "guessed-main", "it is registered when the file is run as a program, not when it is imported"
    ),
    "checking": Guess("guessed-condition", "it is registered for type checkers only"),
}


class _Walker:
    """Looks through blocks of statements. Each method returns the guess about the statements that follow:
    None if they are reached, _STOP if they are not."""

    def __init__(self, found: SourceFile) -> None:
        self.found = found

    def block(self, body: Sequence[ast.stmt], spot: Spot) -> Guess | None:
        last: Guess | None = None
        for statement in body:
            spot.scope.statements.append((statement, spot.situation))
            take = _STATEMENTS.get(type(statement))
            left = None if take is None else take(self, statement, spot)
            if left is _STOP:
                return left
            if left is not None:
                last = left
                spot = Spot(spot.scope, (*spot.guesses, left), spot.loops, spot.situation)
        return last

    def _import(self, node: ast.Import | ast.ImportFrom, spot: Spot) -> None:
        self.found.imports.append(node)
        if any(alias.name == "*" for alias in node.names):
            spot.scope.stars += [binding for _, binding in _bindings(node, spot.situation)]

    def _end(self, node: ast.stmt, spot: Spot) -> Guess:
        if isinstance(node, ast.Return) and node.value is not None:
            self._expression(node.value, spot)
            self.found.returns.setdefault(id(spot.scope.node), []).append((node.value, spot))
        return _STOP

    def _definition(self, node: Definition, spot: Spot) -> None:
        self.found.spots[id(node)] = spot
        if node.decorator_list:
            self.found.decorated.append((node, spot))
        kind: Any = "class" if isinstance(node, ast.ClassDef) else "function"
        scope = self.found.scopes[id(node)] = Scope(kind, node, self.found, spot.scope)
        if isinstance(node, ast.ClassDef):
            self.block(node.body, Spot(scope, spot.guesses, spot.loops))
            self.found.classes.append((node, spot))
        else:
            self.block(node.body, Spot(scope))

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, spot: Spot) -> None:
        if node.value is None:
            return
        self._expression(node.value, spot)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(node, ast.AugAssign) or isinstance(target, ast.Attribute | ast.Subscript):
                stored = Stored(target, node.value, spot)
                self.found.stored.append(stored)
                if isinstance(target, ast.Attribute):
                    self.found.attributes.setdefault(target.attr, []).append(stored)

    def _expression(self, node: ast.expr, spot: Spot, depth: int = 0, *, is_awaited: bool = False) -> None:
        """Note the calls in an expression that stands by itself; hardly any argument is looked into."""
        kind = type(node)
        if kind is ast.Constant or kind is ast.Name or kind is ast.JoinedStr:
            return
        if isinstance(node, ast.Await):
            self._expression(node.value, spot, depth, is_awaited=True)
        elif isinstance(node, ast.Call):
            self.found.calls.append(CallAt(node, spot, is_awaited))
            if depth < _MAX_NESTED_CALLS:
                runs = getattr(node.func, "attr", "") == "run"
                if isinstance(node.func, ast.Call):
                    self._expression(node.func, spot, depth + 1)
                elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
                    self._expression(node.func.value, spot, depth + 1)
                for argument in node.args:
                    if isinstance(argument, ast.Call):
                        self._expression(argument, spot, depth + 1, is_awaited=runs)
        elif isinstance(node, ast.ListComp | ast.GeneratorExp) and depth == 0:
            loops = [Loop(item.target, item.iter) for item in node.generators]
            self._expression(node.elt, spot._replace(loops=(*spot.loops, *loops)), 1)

    # --- guards ---

    def _if(self, node: ast.If, spot: Spot) -> Guess | None:
        written = self.found.text_of(node.test)
        shown = written if written is not None and len(written) <= _MAX_SHOWN else show(node.test)
        doubt = Guess("guessed-condition", f"whether it is registered depends on `{shown}`")
        left: Guess | None = None
        guarded = spot  # with a doubt, once an earlier condition that is not known may hold
        current: ast.If | None = node
        while current is not None:
            truth = _decide(current.test)
            if truth == "main" or truth == "checking":
                self.block(current.body, spot.guarded(_GUARDS[truth], truth))
            elif truth:
                after = self.block(current.body, guarded)
                return (left or doubt) if after is _STOP and guarded is not spot else after
            elif truth is None:
                guarded = spot.guarded(doubt)
                left = left or self._perhaps(current.body, guarded, doubt)
            rest = current.orelse
            current = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
            if current is None and rest:
                if guarded is spot:
                    return self.block(rest, spot)
                left = left or self._perhaps(rest, guarded, doubt)
        return left

    def _perhaps(self, body: Sequence[ast.stmt], spot: Spot, doubt: Guess) -> Guess | None:
        """Look through a block that runs perhaps: it may return, or raise as Python would anyway."""
        after = self.block(body, spot)
        is_left = any(isinstance(item, ast.Return) for item in body)
        return (doubt if is_left else None) if after is _STOP else after

    def _try(self, node: ast.Try | ast.TryStar, spot: Spot) -> Guess | None:
        tried = spot
        if node.handlers:
            tried = spot._replace(situation=spot.situation | {"attempt"})
        after = self.block(node.body, tried)
        failed = Guess("guessed-condition", "it is registered if something fails")
        for handler in node.handlers:
            self.block(handler.body, spot.guarded(failed, "fallback"))
        if after is not _STOP:
            self.block(node.orelse, spot._replace(situation=tried.situation))
        self.block(node.finalbody, spot)
        return None if after is _STOP and node.handlers else after

    def _with(self, node: ast.With | ast.AsyncWith, spot: Spot) -> Guess | None:
        for item in node.items:
            self._expression(item.context_expr, spot)
        return self.block(node.body, spot)

    def _match(self, node: ast.Match, spot: Spot) -> None:
        guess = Guess("guessed-condition", "it is registered in one case of several")
        for case in node.cases:
            self.block(case.body, spot.guarded(guess))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, spot: Spot) -> None:
        inner, words = spot, "it is registered in a loop"
        if not isinstance(node, ast.While):
            inner = spot._replace(loops=(*spot.loops, Loop(node.target, node.iter)))
            is_left = any(isinstance(item, ast.Break | ast.Continue) for item in ast.walk(node))
            words = "it is registered in a loop that may be left early" if is_left else ""
        maybe = inner._replace(situation=spot.situation | {"maybe"})
        self.block(node.body, maybe.guarded(Guess("guessed-loop", words)) if words else maybe)
        self.block(node.orelse, spot)


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: lambda walker, node, spot: walker._expression(node.value, spot),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), _Walker._definition),
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign), _Walker._assignment),
    **dict.fromkeys((ast.Import, ast.ImportFrom), _Walker._import),
    **dict.fromkeys((ast.Return, ast.Raise, ast.Break, ast.Continue), _Walker._end),
    ast.If: _Walker._if,
    **dict.fromkeys((ast.Try, ast.TryStar), _Walker._try),
    **dict.fromkeys((ast.With, ast.AsyncWith), _Walker._with),
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), _Walker._loop),
    ast.Match: _Walker._match,
}
