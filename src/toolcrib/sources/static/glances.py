"""Quick looks at syntax, to leave alone what cannot matter: cheaper than following it.

Knows how registering looks; refuses to know what names stand for.
"""

from __future__ import annotations

import ast

_DOORS = frozenset({"add", "add_all", "mount", "register"})


def looks_registering(node: ast.AST) -> bool:
    """Whether statements below this look as if they registered tools; expressions are hardly looked into."""
    found: list[ast.AST] = list(getattr(node, "body", ()))
    while found:
        item = found.pop()
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            if any("tool" in name.lower() for name in map(_last, item.decorator_list)):
                return True
        elif isinstance(item, ast.Expr | ast.Assign | ast.Return):
            name = _last(item.value)
            if "tool" in name.lower() or name in _DOORS:
                return True
            continue  # no statements are in it
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(item, part, ())
    return False


def _last(node: ast.AST | None) -> str:
    """The last name in `a.b(...)(...)`."""
    while isinstance(node, ast.Call | ast.Await):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
