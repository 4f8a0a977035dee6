"""Survey a file: the decorated definitions, calls, returns and assignments in it, and what guards them.

One pass over the statements. Conditions, loops and early returns are not interpreted: a statement below one
carries a guess, which becomes a finding about the tools that it registers.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from toolcrib.sources.scan.scopes import (
    FUNCTIONS,
    Definition,
    FunctionNode,
    Scope,
    SourceFile,
    decide,
    is_main,
)
from toolcrib.sources.scan.values import show

_MAX_NESTED_CALLS = 4


class Guess(NamedTuple):
    """Why a tool may be missing, or different, when the code runs."""

    code: str
    words: str
    line: int | None = None


class Loop(NamedTuple):
    """A `for` around a statement, or the one in a comprehension."""

    target: ast.expr
    items: ast.expr


class Spot(NamedTuple):
    """Where a statement stands: the definitions around it, and the guards and loops in the innermost
    function."""

    file: SourceFile
    around: tuple[Definition, ...] = ()
    guesses: tuple[Guess, ...] = ()
    loops: tuple[Loop, ...] = ()

    @property
    def scope(self) -> Scope:
        return self.file.scope_in(self.around[-1]) if self.around else self.file.scope

    @property
    def function(self) -> FunctionNode | None:
        """The function whose call runs the statement; None for one that importing runs."""
        return next((node for node in reversed(self.around) if isinstance(node, FUNCTIONS)), None)

    def inside(self, node: Definition) -> Spot:
        """Return the spot of the body of a definition."""
        if isinstance(node, ast.ClassDef):
            return Spot(self.file, (*self.around, node), self.guesses, self.loops)
        return Spot(self.file, (*self.around, node))

    def guarded(self, guess: Guess) -> Spot:
        return Spot(self.file, self.around, (*self.guesses, guess), self.loops)

    def repeated(self, *loops: Loop) -> Spot:
        return Spot(self.file, self.around, self.guesses, (*self.loops, *loops))


class CallAt(NamedTuple):
    """A call and where it stands."""

    node: ast.Call
    spot: Spot
    is_awaited: bool = False
    is_decorator: bool = False


class Stored(NamedTuple):
    """`name[key] = value`, `name += value` or `holder.name = value`: a change of something that exists."""

    target: ast.expr
    value: ast.expr
    spot: Spot


@dataclass(eq=False, slots=True)
class Survey:
    """The content of one file, in the order of its lines. `returns` are by the id of the function, `spots` by
    that of the definition, `attributes` are the assignments to attributes by name. `is_suspect`: a statement
    stands where Python may refuse to compile it."""

    file: SourceFile
    decorated: list[tuple[Definition, Spot]] = field(default_factory=list)
    classes: list[tuple[ast.ClassDef, Spot]] = field(default_factory=list)
    calls: list[CallAt] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    attributes: dict[str, list[Stored]] = field(default_factory=dict)
    returns: dict[int, list[tuple[ast.expr, Spot]]] = field(default_factory=dict)
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    spots: dict[int, Spot] = field(default_factory=dict)
    is_suspect: bool = False


def survey(file: SourceFile) -> Survey:
    """Look through a file."""
    walker = _Walker(Survey(file))
    spot = Spot(file)
    if file.path.name == "__main__.py":
        spot = spot.guarded(Guess("guessed-main", "it is registered when the package is run as a program"))
    for statement in file.tree.body:
        walker.block([statement], spot)
    return walker.found


_STOP = Guess("stop", "the statements below are not reached")


class _Walker:
    """Looks through blocks of statements. Each method returns the guess about the statements that follow:
    None if they are reached, _STOP if they are not."""

    def __init__(self, found: Survey) -> None:
        self.found = found
        self.loops = 0

    def block(self, body: Sequence[ast.stmt], spot: Spot) -> Guess | None:
        last: Guess | None = None
        for statement in body:
            take = _STATEMENTS.get(type(statement))
            left = None if take is None else take(self, statement, spot)
            if left is _STOP:
                return left
            if left is not None:
                last = left
                spot = spot.guarded(left)
        return last

    def _expr(self, node: ast.Expr, spot: Spot) -> None:
        self._expression(node.value, spot)

    def _class(self, node: ast.ClassDef, spot: Spot) -> None:
        self._definition(node, spot)
        self.found.classes.append((node, spot))

    def _import(self, node: ast.Import | ast.ImportFrom, spot: Spot) -> None:  # noqa: ARG002
        self.found.imports.append(node)

    def _suspect(self, node: ast.stmt, spot: Spot) -> None:  # noqa: ARG002
        self.found.is_suspect = True

    def _end(self, node: ast.stmt, spot: Spot) -> Guess:
        if isinstance(node, ast.Return):
            if not spot.around or not isinstance(spot.around[-1], FUNCTIONS):
                self.found.is_suspect = True
            elif node.value is not None:
                self._expression(node.value, spot)
                self.found.returns.setdefault(id(spot.around[-1]), []).append((node.value, spot))
        elif not self.loops and not isinstance(node, ast.Raise):
            self.found.is_suspect = True
        return _STOP

    def _definition(self, node: Definition, spot: Spot) -> None:
        self.found.spots[id(node)] = spot
        if node.decorator_list:
            self.found.decorated.append((node, spot))
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Name | ast.Attribute) and not self._is_ours(decorator):
                    name = ast.Name(node.name, ast.Load(), lineno=node.lineno, col_offset=0)
                    call = ast.Call(decorator, [name], [], lineno=decorator.lineno, col_offset=0)
                    self.found.calls.append(CallAt(call, spot, is_decorator=True))
        before, self.loops = self.loops, 0
        self.block(node.body, spot.inside(node))
        self.loops = before

    def _is_ours(self, decorator: ast.expr) -> bool:
        """Return whether a decorator is imported from toolcrib, so that it calls no function in the files."""
        bindings = self.found.file.scope.names.get(getattr(decorator, "id", ""), ())
        return len(bindings) == 1 and bindings[0].module.partition(".")[0] == "toolcrib"

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
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom) and spot.function is None:
            self.found.is_suspect = True
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
            self._expression(node.elt, spot.repeated(*loops), 1)

    # --- guards ---

    def _if(self, node: ast.If, spot: Spot) -> Guess | None:
        written = spot.file.text_of(node.test)
        shown = written if written is not None and len(written) <= 60 else show(node.test)
        doubt = Guess("guessed-condition", f"whether it is registered depends on `{shown}`", node.lineno)
        left: Guess | None = None
        guarded = spot  # with a doubt, once an earlier condition that is not known may hold
        current: ast.If | None = node
        while current is not None:
            truth = decide(current.test)
            if is_main(current.test):
                main = "it is registered when the file is run as a program, not when it is imported"
                self.block(current.body, spot.guarded(Guess("guessed-main", main, current.lineno)))
            elif truth in (True, "running"):
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
        return (doubt if _returns(body) else None) if after is _STOP else after

    def _try(self, node: ast.Try | ast.TryStar, spot: Spot) -> Guess | None:
        tried = spot
        if node.handlers and any(isinstance(item, ast.Import | ast.ImportFrom) for item in node.body):
            words = "it is registered if what is imported beside it is there"
            tried = spot.guarded(Guess("guessed-condition", words, node.lineno))
        after = self.block(node.body, tried)
        left = None if after is _STOP else after
        failed = Guess("guessed-condition", "it is registered if something fails", node.lineno)
        for handler in node.handlers:
            self.block(handler.body, spot.guarded(failed))
            if _returns(handler.body):
                words = "it is registered unless something fails before it"
                left = Guess("guessed-condition", words, node.lineno)
        if after is not _STOP:
            self.block(node.orelse, spot)
        self.block(node.finalbody, spot)
        return after if after is _STOP and not node.handlers else left

    def _with(self, node: ast.With | ast.AsyncWith, spot: Spot) -> Guess | None:
        for item in node.items:
            self._expression(item.context_expr, spot)
        return self.block(node.body, spot)

    def _match(self, node: ast.Match, spot: Spot) -> None:
        guess = Guess("guessed-condition", "it is registered in one case of several", node.lineno)
        for case in node.cases:
            self.block(case.body, spot.guarded(guess))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, spot: Spot) -> None:
        inner, words = spot, "it is registered in a loop"
        if not isinstance(node, ast.While):
            inner = spot.repeated(Loop(node.target, node.iter))
            is_left = any(isinstance(item, ast.Break | ast.Continue) for item in ast.walk(node))
            words = "it is registered in a loop that may be left early" if is_left else ""
        self.loops += 1
        self.block(node.body, inner.guarded(Guess("guessed-loop", words, node.lineno)) if words else inner)
        self.loops -= 1
        self.block(node.orelse, spot)


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: _Walker._expr,
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _Walker._definition),
    ast.ClassDef: _Walker._class,
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign), _Walker._assignment),
    **dict.fromkeys((ast.Import, ast.ImportFrom), _Walker._import),
    **dict.fromkeys((ast.Nonlocal, ast.Global), _Walker._suspect),
    **dict.fromkeys((ast.Return, ast.Raise, ast.Break, ast.Continue), _Walker._end),
    ast.If: _Walker._if,
    **dict.fromkeys((ast.Try, ast.TryStar), _Walker._try),
    **dict.fromkeys((ast.With, ast.AsyncWith), _Walker._with),
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), _Walker._loop),
    ast.Match: _Walker._match,
}


def _returns(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(item, ast.Return) for item in body)
