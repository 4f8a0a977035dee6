"""Evaluate expressions to plain values where the source contains them."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

from toolcrib.sources.scan.remarks import Unresolved
from toolcrib.sources.scan.things import Listing, Pairs, Scope, Thing, Value

if TYPE_CHECKING:
    from toolcrib.sources.scan.expressions import Evaluator


def read_data(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Any:
    """The value of an expression. Raises Unresolved where it cannot be told without running it."""
    if scope.outer is not None and any(
        isinstance(item, ast.Name) and _is_local(item.id, scope) for item in ast.walk(node)
    ):
        node = _Filler(evaluator, scope).visit(copy.deepcopy(node))
    return scope.module.reader.value(node)


def read_thing(evaluator: Evaluator, thing: Thing) -> Any:
    """The value of a thing that is data."""
    if isinstance(thing, Value):
        return read_data(evaluator, thing.node, thing.scope)
    if isinstance(thing, Listing | Pairs) and not thing.parts and thing.node and thing.scope:
        return read_data(evaluator, thing.node, thing.scope)
    if isinstance(thing, Listing):
        return [read_thing(evaluator, part.thing) for part in evaluator.items(thing)]
    if isinstance(thing, Pairs):
        return {
            read_data(evaluator, part.key, part.scope): read_thing(evaluator, part.thing)
            for part in evaluator.pairs(thing)
            if part.key is not None and part.scope is not None
        }
    raise Unresolved("it is no data", 0)


class _Filler(ast.NodeTransformer):
    """Puts what local names stand for in their place: a reader only knows those of the module."""

    def __init__(self, evaluator: Evaluator, scope: Scope) -> None:
        self.evaluator = evaluator
        self.scope = scope

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not _is_local(node.id, self.scope):
            return node
        thing = self.evaluator.look_up(node.id, self.scope)
        if isinstance(thing, Value | Listing | Pairs) and thing.node is not None and thing.scope is not None:
            inner = thing.scope
            is_near = inner.module is self.scope.module and not getattr(thing, "parts", None)
            if is_near and (inner.outer is None or inner is not self.scope):
                filled: ast.expr = (
                    thing.node
                    if inner.outer is None
                    else _Filler(self.evaluator, inner).visit(copy.deepcopy(thing.node))
                )
                return filled
            if is_near and not any(isinstance(item, ast.Name) for item in ast.walk(thing.node)):
                return thing.node
        raise Unresolved(f"`{node.id}` is not known before the code runs", node.lineno)


def _is_local(name: str, scope: Scope) -> bool:
    place: Scope | None = scope
    while place is not None and place.outer is not None:
        if name in place.names and (place.cls is None or place is scope):
            return True
        place = place.outer
    return False
