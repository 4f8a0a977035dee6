"""Cheap syntax checks that skip code which cannot matter."""

from __future__ import annotations

import ast

_DOORS = frozenset({"add", "add_all", "mount", "register"})
# Tuples, made once: a union of classes is made anew each time it is written, and every function passes here.
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLAIN = (ast.Expr, ast.Assign, ast.Return)
_CALLS = (ast.Call, ast.Await)


def looks_registering(node: ast.AST) -> bool:
    """Whether statements below this look as if they registered tools; expressions are hardly looked into."""
    found: list[ast.AST] = list(getattr(node, "body", ()))
    while found:
        item = found.pop()
        if isinstance(item, _FUNCTIONS):
            if any("tool" in name.lower() for name in map(_last, item.decorator_list)):
                return True
        elif isinstance(item, _PLAIN):
            name = _last(item.value)
            if "tool" in name.lower() or name in _DOORS:
                return True
            continue  # no statements are in it
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(item, part, ())
    return False


def _last(node: ast.AST | None) -> str:
    """The last name in `a.b(...)(...)`."""
    while isinstance(node, _CALLS):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
