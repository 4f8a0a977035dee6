"""`python -m bench.wire.unused BATCH_S`: what a server without a policy pays for the policies of others.

The same call by the same ASGI application, once as it is and once by code from which every question about a
policy was cut out before it was compiled. Both take turns in one process. Prints the quotient.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import statistics
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.wire.engine import Application, application_of, new_server, spend
from bench.wire.messages import MODERN, question

TURNS = 60
CUT = {
    ("toolcrib.dispatch.dispatcher", "Dispatcher"): ("call", "_perform"),
    ("toolcrib.transports.http.endpoint", "Endpoint"): ("admit", "handle"),
}
"""Where a call without a policy comes by something that asks for one."""
_NAMES = {"pipeline", "auth", "call", "chain"}


class Cutter(ast.NodeTransformer):
    """Takes it for granted that there is no policy, and leaves out what follows from that."""

    def __init__(self) -> None:
        self.cuts = 0

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        known = self._known(node.test)
        if known is None:
            return node
        self.cuts += 1
        return node.body if known else node.orelse

    def _known(self, test: ast.expr) -> bool | None:
        """What comes of a test; None where it depends on something else."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return False if any(self._known(value) is False for value in test.values) else None
        asked = getattr(test, "left", None)
        if getattr(asked, "attr", getattr(asked, "id", None)) in _NAMES and isinstance(test, ast.Compare):
            return isinstance(test.ops[0], ast.Is)
        return None


def without_policy(function: Callable[..., Any]) -> Callable[..., Any]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    cutter = Cutter()
    cut = ast.fix_missing_locations(cutter.visit(tree))
    if not cutter.cuts:
        raise SystemExit(f"{function.__qualname__} asks for no policy any more")
    made: dict[str, Any] = {}
    flags = importlib.import_module("__future__").annotations.compiler_flag
    exec(compile(cut, "<cut>", "exec", flags), function.__globals__, made)
    found: Callable[..., Any] = made[function.__name__]
    return found


class Switch:
    """Has calls served by the code as it is, or by that from which policies were cut out."""

    def __init__(self) -> None:
        self._methods = []
        for (module, name), methods in CUT.items():
            owner = getattr(importlib.import_module(module), name)
            for method in methods:
                whole = getattr(owner, method)
                self._methods.append((owner, method, whole, without_policy(whole)))

    def turn(self, *, is_cut: bool) -> None:
        for owner, method, whole, cut in self._methods:
            setattr(owner, method, cut if is_cut else whole)


async def measure(batch_s: float) -> float:
    application = Application(application_of("toolcrib", new_server("toolcrib")))
    await application.start()
    application.use(MODERN)
    asked = question(MODERN, "add", 0).body
    expected = await application.post(asked)
    spend_on = partial(spend, application.post, asked, expected)
    switch = Switch()
    repeats = max(1, round(500 * batch_s / await spend_on(500)))
    ratios = []
    for number in range(TURNS):
        costs = {}
        for is_cut in (True, False) if number % 2 else (False, True):
            switch.turn(is_cut=is_cut)
            await spend_on(max(1, repeats // 5))  # until the interpreter knows the code again
            costs[is_cut] = await spend_on(repeats)
        ratios.append(costs[False] / costs[True])
    await application.stop()
    return statistics.median(ratios)


def main() -> None:
    print(json.dumps({"quotient": asyncio.run(measure(float(sys.argv[1])))}))


if __name__ == "__main__":
    main()
