"""Decide conditions about the Python version and the platform."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

from toolcrib.sources.scan.things import Known, Scope

if TYPE_CHECKING:
    from toolcrib.sources.scan.expressions import Evaluator

_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.GtE: lambda a, b: a >= b,
    ast.Gt: lambda a, b: a > b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


def truth_of(evaluator: Evaluator, test: ast.expr, scope: Scope) -> bool | str | None:
    """Return True, False, "main" for the condition of a main program, or None if undecidable."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = truth_of(evaluator, test.operand, scope)
        return not inner if isinstance(inner, bool) else None
    if isinstance(test, ast.Name | ast.Attribute):
        thing = evaluator.of(test, scope)
        if isinstance(thing, Known) and thing.name in ("typing.TYPE_CHECKING", "TYPE_CHECKING"):
            return False
        return None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    compare = _COMPARISONS.get(type(test.ops[0]))
    left, right = test.left, test.comparators[0]
    if isinstance(left, ast.Name) and left.id == "__name__":
        return "main" if isinstance(test.ops[0], ast.Eq) else None
    known = evaluator.of(left, scope)
    name = known.name if isinstance(known, Known) else ""
    facts: dict[str, Any] = {"sys.version_info": tuple(sys.version_info), "sys.platform": sys.platform}
    if compare is None or name not in facts:
        return None
    try:
        return bool(compare(facts[name], ast.literal_eval(right)))
    except (TypeError, ValueError):
        return None
