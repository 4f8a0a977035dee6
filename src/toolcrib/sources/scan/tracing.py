"""Follow the statements of a module as importing would run them, without running any.

Where the code could go either way, both branches are followed and their results are marked as guesses, with
the reason. Steps and depth are limited.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib.errors import Finding, SourceError
from toolcrib.sources.scan.calls import Evaluator
from toolcrib.sources.scan.changes import doubt_change, doubt_part
from toolcrib.sources.scan.files import Library, find_path, follow_import, follow_import_from, truth_of
from toolcrib.sources.scan.objects import (
    UNKNOWN,
    Class,
    Definition,
    Function,
    Guess,
    Instance,
    Listing,
    Module,
    Pairs,
    Part,
    Scope,
    Server,
    Thing,
    Value,
)
from toolcrib.sources.scan.stubs import Reader
from toolcrib.sources.scan.values import show

MAX_STEPS = 50_000
"""Statements that are followed in one file, those of the functions it calls included."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ENDS = (ast.Raise, ast.Break, ast.Continue)
MAX_ROUNDS = 1_000
"""How often the body of a loop is followed."""


class ExhaustedError(Exception):
    """A file wants more steps than anybody writes by hand."""


class Tracer:
    """Everything that was followed. `servers` are those that were met, in order."""

    def __init__(self, library: Library, roots: Sequence[Path]) -> None:
        self.library = library
        self.roots = roots
        self.modules: dict[Path, Module | None] = {}
        self.servers: dict[Server, None] = {}
        self.findings: list[Finding] = []
        self.guesses: tuple[Guess, ...] = ()
        self.evaluator = Evaluator(self)
        self._steps = 0
        self._paths: dict[tuple[Path, str], Path | None] = {}

    def find_path(self, name: str, near: Path) -> Path | None:
        """The file of a module, among those that may be read; one beside the importing file first."""
        if (near, name) not in self._paths:
            self._paths[near, name] = find_path([near, *self.roots], name)
        return self._paths[near, name]

    def module(self, path: Path) -> Module | None:
        """A file with its names; None where it cannot be read, which is a finding once."""
        if path in self.modules:
            return self.modules[path]
        try:
            file = self.library.file(path)
        except SourceError as error:
            self.modules[path] = None
            self.findings.append(error.finding)
            return None
        module = self.modules[path] = Module(file, Reader(file, self.library))
        before, self.guesses, steps, self._steps = self.guesses, (), self._steps, 0
        try:
            self._follow(file.tree.body, module.scope)
        finally:
            self.guesses, self._steps = before, steps
        return module

    def follow_uncalled(self, module: Module) -> None:
        """The functions that nothing calls may register tools too, when somebody calls them."""
        self._steps = 0
        for function in module.functions:  # grows while it is looked through
            if function.is_called or not function.looks_registering:
                continue
            words = f"it is registered when {function.qualname}() is called"
            with self.guessing(Guess("guessed-call", words, function.line)):
                try:
                    self.evaluator.enter(function, None)
                except ExhaustedError:
                    self._give_up(module, function.node)
                    return
                except Exception as error:  # as above
                    self._give_up(module, function.node, error)

    @contextmanager
    def guessing(self, guess: Guess) -> Iterator[None]:
        before = self.guesses
        self.guesses = (*before, guess)
        try:
            yield
        finally:
            self.guesses = before

    def run(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        for statement in body:
            if scope.returned and not scope.returned[-1][1]:
                return  # what follows is not reached
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise ExhaustedError
            follow = _STATEMENTS.get(type(statement))
            if follow is not None:
                follow(self, statement, scope)
            if isinstance(statement, _ENDS):
                return  # nor is this

    def _follow(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        for statement in body:
            try:
                if isinstance(statement, _FUNCTIONS) and self._steps < MAX_STEPS and not scope.returned:
                    self._steps += 1  # the short way for what most statements of a file are
                    self._function(statement, scope)
                else:
                    self.run((statement,), scope)
            except ExhaustedError:
                self._give_up(scope.module, statement)
                return
            except Exception as error:  # a way of writing that nobody thought of hides no other
                self._give_up(scope.module, statement, error)

    def _give_up(self, module: Module, node: ast.stmt, error: Exception | None = None) -> None:
        why = f"cannot be followed: {type(error).__name__}: {error}"
        if error is None:
            why = "is too long to be followed to its end"
        elif isinstance(error, RecursionError):
            why = "is too deeply nested to be followed"
        words = f"What is written here in {module.file.path.name} {why}"
        hint = "there may be more tools in it; split it"
        file, line = str(module.file.path), node.lineno
        self.findings.append(Finding("guessed-end", "warning", words, file=file, line=line, hint=hint))

    # --- definitions ---

    def _function(self, node: Definition, scope: Scope) -> None:
        function = Function(node, scope, scope.qualname, self.evaluator.kinds_of(node, scope))
        if len(scope.module.functions) < MAX_STEPS:
            scope.module.functions.append(function)
        thing: Thing = function
        for decorator in reversed(node.decorator_list):
            thing = self.evaluator.decorate(thing, decorator, scope)
        if self.guesses and isinstance(thing, Function) and thing.mark is not None:
            thing.guesses = (*thing.guesses, *self.guesses)
        scope.bind(node.name, thing)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        qualname = f"{scope.qualname}.{node.name}" if scope.qualname else node.name
        body = Scope(scope.module, scope, qualname=qualname)
        bases = [self.evaluator.of(_bare(base), scope) for base in node.bases]
        cls = body.cls = Class(node, scope, body, bases, qualname, guesses=self.guesses)
        scope.module.classes.append(cls)
        self.run(node.body, body)
        thing: Thing = cls
        for decorator in reversed(node.decorator_list):
            thing = self.evaluator.decorate(thing, decorator, scope)
        scope.bind(node.name, thing)

    # --- names ---

    def _assign(self, node: ast.Assign, scope: Scope) -> None:
        thing = self.evaluator.of(node.value, scope)
        for target in node.targets:
            self.store(target, thing, scope)

    def _annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.store(node.target, self.evaluator.of(node.value, scope), scope)

    def _augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        if not isinstance(node.target, ast.Name) or not isinstance(node.op, ast.Add | ast.BitOr):
            return
        before = self.evaluator.of(node.target, scope)
        more = self.evaluator.of(node.value, scope)
        if isinstance(before, Listing | Pairs):
            before.parts.append(Part(more, is_many=True, scope=scope, guesses=self.guesses))
        else:
            scope.bind(node.target.id, UNKNOWN)

    def store(self, target: ast.expr, thing: Thing, scope: Scope) -> None:
        """Bind what an assignment or a loop binds."""
        if isinstance(target, ast.Name):
            scope.bind(target.id, thing)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = list(self.evaluator.items(thing)) if isinstance(thing, Listing) else []
            for position, item in enumerate(target.elts):
                fits = len(parts) == len(target.elts) and not parts[position].is_many
                self.store(item, parts[position].thing if fits else UNKNOWN, scope)
        elif isinstance(target, ast.Attribute):
            holder = self.evaluator.of(target.value, scope)
            if isinstance(holder, Instance):
                holder.attributes[target.attr] = thing
            elif isinstance(holder, Class):
                holder.body.bind(target.attr, thing)
            elif isinstance(holder, Function):
                doubt_change(holder, target.attr, target.lineno)
        elif isinstance(target, ast.Subscript):
            doubt_part(self.evaluator, target.value, scope)
            table = self.evaluator.of(target.value, scope)
            if isinstance(table, Pairs):
                table.parts.append(Part(thing, target.slice, scope=scope, guesses=self.guesses))

    def _delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.names.pop(target.id, None)

    def _import(self, node: ast.Import, scope: Scope) -> None:
        follow_import(self, node, scope)

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        follow_import_from(self, node, scope)

    def _expression(self, node: ast.Expr, scope: Scope) -> None:
        if not isinstance(node.value, ast.Constant):
            self.evaluator.of(node.value, scope)

    def _return(self, node: ast.Return, scope: Scope) -> None:
        thing = UNKNOWN if node.value is None else self.evaluator.of(node.value, scope)
        scope.returned.append((thing, self.guesses[scope.depth :]))

    # --- ways that part ---

    def _if(self, node: ast.If, scope: Scope) -> None:
        branches: list[Sequence[ast.stmt]] = []
        current: ast.If | None = node
        while current is not None:
            truth = truth_of(self.evaluator, current.test, scope)
            if truth == "main":
                self._main(current, scope)
            elif truth is True:
                branches.append(current.body)
                break
            elif truth is None:
                branches.append(current.body)
            rest = current.orelse
            if len(rest) == 1 and isinstance(rest[0], ast.If):
                current = rest[0]
                continue
            if rest:
                branches.append(rest)
            current = None
        if len(branches) == 1 and truth_of(self.evaluator, node.test, scope) is not None:
            self.run(branches[0], scope)
            return
        self._either(branches, scope, Guess("guessed-condition", _say_if(node), node.lineno))

    def _either(self, branches: Sequence[Sequence[ast.stmt]], scope: Scope, guess: Guess) -> None:
        """Follow each; a name means what the first that binds it says."""
        bound: dict[str, Thing] = {}
        with self.guessing(guess):
            for branch in branches:
                before = dict(scope.names)
                self.run(branch, scope)
                for name, thing in scope.names.items():
                    if before.get(name) is not thing:
                        # Data that depends on the way taken is known to nobody.
                        bound.setdefault(name, UNKNOWN if _is_data(thing) else thing)
                scope.names.update(bound)

    def _main(self, node: ast.If, scope: Scope) -> None:
        inner = Scope(scope.module, scope, qualname=scope.qualname)
        words = "it is registered when the file is run as a program, not when it is imported"
        with self.guessing(Guess("guessed-main", words, node.lineno)):
            self.run(node.body, inner)

    def _try(self, node: ast.Try | ast.TryStar, scope: Scope) -> None:
        imports = any(isinstance(item, ast.Import | ast.ImportFrom) for item in node.body)
        if imports and node.handlers:
            words = "it is registered if what is imported beside it is there"
            with self.guessing(Guess("guessed-condition", words, node.lineno)):
                self.run(node.body, scope)
        else:
            self.run(node.body, scope)
        kept = dict(scope.names)
        imported = set(scope.imported)
        guess = Guess("guessed-condition", "it is registered if something fails", node.lineno)
        self._either([handler.body for handler in node.handlers], scope, guess)
        changed = {name for name, thing in scope.names.items() if kept.get(name) is not thing}
        scope.names.update(
            (name, thing) for name, thing in kept.items() if not _is_data(thing) or name not in changed
        )
        scope.imported |= imported
        self.run(node.orelse, scope)
        self.run(node.finalbody, scope)

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        for item in node.items:
            self.evaluator.of(item.context_expr, scope)
            if item.optional_vars is not None:
                self.store(item.optional_vars, UNKNOWN, scope)
        self.run(node.body, scope)

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        rounds = self.evaluator.rounds(node.iter, scope, MAX_ROUNDS)
        if rounds is None:
            words = f"it is registered in a loop over {show(node.iter)}, which cannot be followed"
            self.store(node.target, UNKNOWN, scope)
            self._either([node.body], scope, Guess("guessed-loop", words, node.lineno))
            return
        before = self.guesses
        if any(isinstance(item, ast.Break | ast.Continue) for item in ast.walk(node)):
            words = "it is registered in a loop that may be left early"
            self.guesses = (*before, Guess("guessed-loop", words, node.lineno))
        for thing in rounds:
            # What is said in one round must not mean what the next round binds.
            inner = Scope(scope.module, scope, qualname=scope.qualname, depth=scope.depth)
            self.store(node.target, thing, inner)
            self.run(node.body, inner)
            scope.names.update(inner.names)
            scope.returned += inner.returned
        self.guesses = before
        self.run(node.orelse, scope)

    def _while(self, node: ast.While, scope: Scope) -> None:
        self._either([node.body], scope, Guess("guessed-loop", "it is registered in a loop", node.lineno))

    def _match(self, node: ast.Match, scope: Scope) -> None:
        words = "it is registered in one case of several"
        self._either(
            [case.body for case in node.cases], scope, Guess("guessed-condition", words, node.lineno)
        )


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.FunctionDef: Tracer._function,
    ast.AsyncFunctionDef: Tracer._function,
    ast.ClassDef: Tracer._class,
    ast.Assign: Tracer._assign,
    ast.AnnAssign: Tracer._annotated,
    ast.AugAssign: Tracer._augmented,
    ast.Delete: Tracer._delete,
    ast.Import: Tracer._import,
    ast.ImportFrom: Tracer._import_from,
    ast.Expr: Tracer._expression,
    ast.Return: Tracer._return,
    ast.If: Tracer._if,
    ast.Try: Tracer._try,
    ast.TryStar: Tracer._try,
    ast.With: Tracer._with,
    ast.AsyncWith: Tracer._with,
    ast.For: Tracer._for,
    ast.AsyncFor: Tracer._for,
    ast.While: Tracer._while,
    ast.Match: Tracer._match,
}


def _is_data(thing: Thing) -> bool:
    return isinstance(thing, Value | Listing | Pairs)


def _bare(base: ast.expr) -> ast.expr:
    """`Generic` of `Generic[T]`."""
    return base.value if isinstance(base, ast.Subscript) else base


def _say_if(node: ast.If) -> str:
    return f"whether it is registered depends on `{show(node.test)}`"
