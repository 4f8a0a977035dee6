"""Small mistakes, one at a time, put into a module's source.

Finds each place in the syntax tree that can be mutated, and returns the module with that one mistake. Not
mutated: annotations, decorators, docstrings, `__slots__`, `TYPE_CHECKING` and the text of f-strings.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CONDITIONAL = (ast.If, ast.While, ast.IfExp, ast.Assert)
_LONGEST = 90


@dataclass(frozen=True)
class Mutant:
    """One mistake. `name` stays the same while the lines around it change; `is_inside` says whether it is in
    the body of a function, where it takes effect on the next call."""

    name: str
    line: int
    last_line: int
    is_inside: bool
    tree: Callable[[], ast.Module]


def mutants_of(source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module; its tree is built on demand."""
    tree = ast.parse(source)
    seen: Counter[str] = Counter()
    for place, scope, is_inside in list(_places(tree, "", False)):
        for wrong in _mistakes(place):
            if ast.unparse(wrong) == ast.unparse(place):
                continue  # two equal arguments, swapped
            label = f"{scope or 'module'}: {_shown(place)} -> {_shown(wrong)}"
            seen[label] += 1
            name = f"{label} #{seen[label]}" if seen[label] > 1 else label
            last = place.body[0].lineno - 1 if isinstance(place, ast.If | ast.While) else place.end_lineno
            changed = partial(_replaced, tree, place, wrong)
            yield Mutant(name, place.lineno, max(last or 0, place.lineno), is_inside, changed)


def _places(node: ast.AST, scope: str, is_inside: bool) -> Iterator[tuple[ast.expr | ast.stmt, str, bool]]:
    for field, child in _children(node):
        if _is_left_alone(node, field, child):
            continue
        inner, inside = scope, is_inside
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            inner = f"{scope}.{child.name}" if scope else child.name
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            inside = field == "body" or is_inside  # a default is made when the function is
        if isinstance(child, ast.expr | ast.stmt):
            yield child, inner, inside
        yield from _places(child, inner, inside)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield field, child


def _is_left_alone(parent: ast.AST, field: str, child: ast.AST) -> bool:
    if field in ("annotation", "returns", "decorator_list", "bases") or isinstance(
        child, ast.Import | ast.ImportFrom
    ):
        return True
    if isinstance(parent, ast.JoinedStr) and isinstance(child, ast.Constant):
        return True
    if isinstance(parent, ast.FormattedValue) and field == "format_spec":
        return True
    if isinstance(parent, ast.keyword) and parent.arg == "strict":
        return True  # of zip: a claim, like an assertion
    if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
        return True  # docstring, or the dots of a protocol
    if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
        return True
    if isinstance(child, ast.Subscript) and isinstance(child.value, ast.Name) and child.value.id == "Literal":
        return True
    if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
        return child.targets[0].id in ("__slots__", "__all__")
    return isinstance(child, ast.BinOp) and isinstance(child.op, ast.BitOr) and isinstance(parent, ast.Call)


def _mistakes(place: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    """Return the replacements for a node."""
    if isinstance(place, ast.expr):
        yield from _expressions(place)
    else:
        yield from _statements(place)
    if isinstance(place, _CONDITIONAL) and not _turns_by_itself(place.test):
        wrong = copy.deepcopy(place)
        wrong.test = ast.UnaryOp(ast.Not(), wrong.test)
        yield wrong


def _turns_by_itself(test: ast.expr) -> bool:
    """Return whether a mutation inside a condition already negates it."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) and not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)


def _expressions(place: ast.expr) -> Iterator[ast.AST]:
    wrong = copy.deepcopy(place)
    if isinstance(wrong, ast.Compare):
        for index, operator in enumerate(wrong.ops):
            other = copy.deepcopy(wrong)
            other.ops[index] = _COMPARISONS[type(operator)]()
            yield other
    elif isinstance(wrong, ast.BoolOp):
        wrong.op = ast.Or() if isinstance(wrong.op, ast.And) else ast.And()
        yield wrong
    elif isinstance(wrong, ast.UnaryOp) and isinstance(wrong.op, ast.Not | ast.USub):
        yield wrong.operand
    elif isinstance(wrong, ast.BinOp) and type(wrong.op) in _ARITHMETIC:
        wrong.op = _ARITHMETIC[type(wrong.op)]()
        yield wrong
    elif isinstance(wrong, ast.Constant) and wrong.value is not None and wrong.value is not ...:
        wrong.value = _other(wrong.value)
        yield wrong
    elif isinstance(wrong, ast.Call):
        yield from _calls(wrong)


def _other(value: object) -> bool | int | float | str | bytes:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, bytes):
        return b"XX" + value
    return f"XX{value}"


def _calls(call: ast.Call) -> Iterator[ast.AST]:
    if isinstance(call.func, ast.Name) and call.func.id in ("isinstance", "issubclass"):
        return  # swapped, they raise: no test could miss that
    is_symmetric = isinstance(call.func, ast.Name) and call.func.id in ("max", "min")
    if (
        len(call.args) > 1
        and not is_symmetric
        and not any(isinstance(each, ast.Starred) for each in call.args[:2])
    ):
        swapped = copy.deepcopy(call)
        swapped.args[:2] = swapped.args[1::-1]
        yield swapped
    for index, keyword in enumerate(call.keywords):
        if keyword.arg not in (None, "strict"):
            without = copy.deepcopy(call)
            del without.keywords[index]
            yield without


def _statements(place: ast.stmt) -> Iterator[ast.AST]:
    wrong = copy.deepcopy(place)
    if isinstance(wrong, ast.Return) and not _is_plain(wrong.value):
        wrong.value = None
        yield wrong
    elif isinstance(wrong, ast.Expr | ast.Raise | ast.Delete):
        yield ast.Pass()
    elif isinstance(wrong, ast.Break):
        yield ast.Continue()
    elif isinstance(wrong, ast.Continue):
        yield ast.Break()
    elif isinstance(wrong, ast.AugAssign):
        yield ast.Pass()
        if type(wrong.op) in _ARITHMETIC:
            wrong.op = _ARITHMETIC[type(wrong.op)]()
            yield wrong
    elif isinstance(wrong, ast.Assign) and not isinstance(wrong.targets[0], ast.Name | ast.Tuple):
        yield ast.Pass()  # what is kept in an object or a table


def _is_plain(value: ast.expr | None) -> bool:
    """Return whether None, True or False is returned, which are swapped anyway."""
    return value is None or (isinstance(value, ast.Constant) and isinstance(value.value, bool | None))


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.Pass):
        return "nothing"
    if isinstance(node, ast.If | ast.While):
        return f"{type(node).__name__.lower()} {_shown(node.test)}"
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 40]} ... {text[-35:]}"


def _replaced(tree: ast.Module, place: ast.AST, wrong: ast.AST) -> ast.Module:
    """Return a copy of the tree with one node replaced."""
    memo: dict[int, object] = {id(place): ast.copy_location(wrong, place)}
    return ast.fix_missing_locations(copy.deepcopy(tree, memo))
