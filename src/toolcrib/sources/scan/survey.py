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

MAX_STATEMENTS = 50_000
"""Statements of one file that are looked at: files with more are generated."""
_MAX_NESTED_CALLS = 4


@dataclass(frozen=True, slots=True)
class Guess:
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
    """What one file does, in the order of its lines."""

    file: SourceFile
    decorated: list[tuple[Definition, Spot]] = field(default_factory=list)
    classes: list[tuple[ast.ClassDef, Spot]] = field(default_factory=list)
    calls: list[CallAt] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    attributes: dict[str, list[Stored]] = field(default_factory=dict)
    """The assignments to attributes, by name."""
    returns: dict[int, list[tuple[ast.expr, Spot]]] = field(default_factory=dict)
    """By the id of the function."""
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    spots: dict[int, Spot] = field(default_factory=dict)
    """The spot of each definition, by its id."""
    is_suspect: bool = False
    """Whether a statement stands where Python may refuse to compile it."""
    stopped: ast.stmt | None = None
    """The statement at which the survey stopped, because there are too many."""


def survey(file: SourceFile) -> Survey:
    """Look through a file."""
    walker = _Walker(Survey(file))
    spot = Spot(file)
    if file.path.name == "__main__.py":
        spot = spot.guarded(Guess("guessed-main", "it is registered when the package is run as a program"))
    for statement in file.tree.body:
        walker.block([statement], spot)
    return walker.found


class _Stop:
    """The statements below are not reached."""


_STOP = _Stop()


class _Walker:
    def __init__(self, found: Survey) -> None:
        self.found = found
        self.count = 0
        self.loops = 0

    def block(self, body: Sequence[ast.stmt], spot: Spot) -> Guess | _Stop | None:
        """Look through statements; return the guess about those that follow the block, if it may return."""
        last: Guess | None = None
        for statement in body:
            self.count += 1
            if self.count > MAX_STATEMENTS:
                self.found.stopped = self.found.stopped or statement
                return _STOP
            left = self._statement(statement, spot)
            if isinstance(left, _Stop):
                return left
            if left is not None:
                last = left
                spot = spot.guarded(left)
        return last

    def _statement(self, node: ast.stmt, spot: Spot) -> Guess | _Stop | None:
        take = _STATEMENTS.get(type(node))
        return None if take is None else take(self, node, spot)

    def _expr(self, node: ast.Expr, spot: Spot) -> None:
        self._expression(node.value, spot)

    def _class(self, node: ast.ClassDef, spot: Spot) -> None:
        self._definition(node, spot)
        self.found.classes.append((node, spot))

    def _import(self, node: ast.Import | ast.ImportFrom, spot: Spot) -> None:  # noqa: ARG002
        self.found.imports.append(node)

    def _suspect(self, node: ast.stmt, spot: Spot) -> None:  # noqa: ARG002
        self.found.is_suspect = True

    def _end(self, node: ast.stmt, spot: Spot) -> _Stop:
        if isinstance(node, ast.Return):
            if not spot.around or not isinstance(spot.around[-1], FUNCTIONS):
                self.found.is_suspect = True
            elif node.value is not None:
                self._expression(node.value, spot)
                self.found.returns.setdefault(id(spot.around[-1]), []).append((node.value, spot))
        elif not self.loops and not isinstance(node, ast.Raise):
            self.found.is_suspect = True
        return _STOP

    def _with(self, node: ast.With | ast.AsyncWith, spot: Spot) -> Guess | _Stop | None:
        for item in node.items:
            self._expression(item.context_expr, spot)
        return self.block(node.body, spot)

    def _while(self, node: ast.While, spot: Spot) -> None:
        self._loop(node.body, spot.guarded(_guess_loop("it is registered in a loop", node)))

    def _loop(self, body: Sequence[ast.stmt], spot: Spot) -> None:
        self.loops += 1
        self.block(body, spot)
        self.loops -= 1

    def _match(self, node: ast.Match, spot: Spot) -> None:
        guess = Guess("guessed-condition", "it is registered in one case of several", node.lineno)
        for case in node.cases:
            self.block(case.body, spot.guarded(guess))

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
        """Whether a decorator is imported from toolcrib, so that no function in the files is called by it."""
        bindings = self.found.file.scope.names.get(getattr(decorator, "id", ""), ())
        return len(bindings) == 1 and bindings[0].module.partition(".")[0] == "toolcrib"

    # --- expressions ---

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
            self._expression(node.elt, Spot(spot.file, spot.around, spot.guesses, (*spot.loops, *loops)), 1)

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, spot: Spot) -> None:
        if node.value is None:
            return
        self._expression(node.value, spot)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(node, ast.AugAssign) or isinstance(target, ast.Attribute | ast.Subscript):
                stored = Stored(target, node.value, spot)
                self.found.stored.append(stored)
                if isinstance(target, ast.Attribute):
                    self.found.attributes.setdefault(target.attr, []).append(stored)

    # --- guards ---

    def _if(self, node: ast.If, spot: Spot) -> Guess | _Stop | None:
        written = spot.file.text_of(node.test)
        shown = written if written is not None and len(written) <= 60 else show(node.test)
        words = f"whether it is registered depends on `{shown}`"
        doubt = Guess("guessed-condition", words, node.lineno)
        left: Guess | None = None
        may_skip = False  # an earlier condition that is not known may hold
        current: ast.If | None = node
        while current is not None:
            truth = decide(current.test)
            if is_main(current.test):
                main = "it is registered when the file is run as a program, not when it is imported"
                self.block(current.body, spot.guarded(Guess("guessed-main", main, current.lineno)))
            elif truth in (True, "running"):
                after = self.block(current.body, spot.guarded(doubt) if may_skip else spot)
                return after if not isinstance(after, _Stop) or not may_skip else (left or doubt)
            elif truth is None:
                after = self.block(current.body, spot.guarded(doubt))
                left = left or _left(after, current.body, doubt)
                may_skip = True
            rest = current.orelse
            current = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
            if current is None and rest:
                after = self.block(rest, spot.guarded(doubt) if may_skip else spot)
                if not may_skip:
                    return after
                left = left or _left(after, rest, doubt)
        return left

    def _try(self, node: ast.Try | ast.TryStar, spot: Spot) -> Guess | _Stop | None:
        tried = spot
        if node.handlers and any(isinstance(item, ast.Import | ast.ImportFrom) for item in node.body):
            words = "it is registered if what is imported beside it is there"
            tried = spot.guarded(Guess("guessed-condition", words, node.lineno))
        after = self.block(node.body, tried)
        left = after if isinstance(after, Guess) else None
        words = "it is registered if something fails"
        for handler in node.handlers:
            self.block(handler.body, spot.guarded(Guess("guessed-condition", words, node.lineno)))
            if _returns(handler.body):
                words = "it is registered unless something fails before it"
                left = Guess("guessed-condition", words, node.lineno)
        if not isinstance(after, _Stop):
            self.block(node.orelse, spot)
        self.block(node.finalbody, spot)
        return after if isinstance(after, _Stop) and not node.handlers else left

    def _for(self, node: ast.For | ast.AsyncFor, spot: Spot) -> None:
        inner = Spot(spot.file, spot.around, spot.guesses, (*spot.loops, Loop(node.target, node.iter)))
        if any(isinstance(item, ast.Break | ast.Continue) for item in ast.walk(node)):
            inner = inner.guarded(_guess_loop("it is registered in a loop that may be left early", node))
        self._loop(node.body, inner)
        self.block(node.orelse, spot)


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: _Walker._expr,
    ast.FunctionDef: _Walker._definition,
    ast.AsyncFunctionDef: _Walker._definition,
    ast.ClassDef: _Walker._class,
    ast.Assign: _Walker._assignment,
    ast.AnnAssign: _Walker._assignment,
    ast.AugAssign: _Walker._assignment,
    ast.Import: _Walker._import,
    ast.ImportFrom: _Walker._import,
    ast.Nonlocal: _Walker._suspect,
    ast.Global: _Walker._suspect,
    **dict.fromkeys((ast.Return, ast.Raise, ast.Break, ast.Continue), _Walker._end),
    ast.If: _Walker._if,
    ast.Try: _Walker._try,
    ast.TryStar: _Walker._try,
    ast.With: _Walker._with,
    ast.AsyncWith: _Walker._with,
    ast.For: _Walker._for,
    ast.AsyncFor: _Walker._for,
    ast.While: _Walker._while,
    ast.Match: _Walker._match,
}


def _guess_loop(words: str, node: ast.stmt) -> Guess:
    return Guess("guessed-loop", words, node.lineno)


def _left(after: Guess | _Stop | None, body: Sequence[ast.stmt], doubt: Guess) -> Guess | None:
    """Return the guess about what follows a block that runs perhaps: it may have returned."""
    if isinstance(after, _Stop):
        return doubt if _returns(body) else None
    return after


def _returns(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(item, ast.Return) for item in body)
