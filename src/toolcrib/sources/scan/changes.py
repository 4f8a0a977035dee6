"""Detect code that changes functions after their definition, or that may register more tools.

Such code is not evaluated; it is reported as a finding.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from toolcrib.errors import Finding
from toolcrib.sources.scan.objects import Class, Door, Function, Guess, Known, Listing, Marker, Pairs, Thing
from toolcrib.sources.scan.values import show

if TYPE_CHECKING:
    from toolcrib.sources.scan.calls import Evaluator
    from toolcrib.sources.scan.objects import Said, Scope

MARKS = frozenset({"toolcrib.tool", "toolcrib.tool.tool"})
_CHANGING = frozenset({"__setitem__", "clear", "pop", "popitem", "setdefault", "update"})
_TOOL_WORDS = re.compile(r"tool|execute|mcp", re.IGNORECASE)
_MOST_PARTS = 1_000


def doubt_change(thing: Thing, name: str, line: int) -> None:
    """An attribute of a function, or something in it, is changed: what is read of it may no longer hold."""
    if isinstance(thing, Function | Class) and name.startswith("__"):
        code = "guessed-name" if name == "__name__" else "guessed-change"
        guess = Guess(code, f"its {name} is changed after it is made", line)
        thing.guesses = (*thing.guesses, guess)
        if isinstance(thing, Function) and thing.source is not thing:
            thing.source.guesses = (*thing.source.guesses, guess)


def doubt_part(evaluator: Evaluator, node: ast.expr, scope: Scope) -> None:
    """`f.__annotations__[...] = ...`: the node is what stands before the bracket."""
    if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
        doubt_change(evaluator.of(node.value, scope), node.attr, node.lineno)


def doubt_call(evaluator: Evaluator, node: ast.Attribute, scope: Scope) -> None:
    """`f.__annotations__.update(...)`: the node is what is called."""
    if node.attr in _CHANGING:
        doubt_part(evaluator, node.value, scope)


def note_call(evaluator: Evaluator, name: str, said: Said) -> None:
    """What Python's own functions do by way of a text."""
    if name in ("builtins.setattr", "builtins.delattr") and len(said.args) >= 2:
        _set_attribute(evaluator, said)
    elif name == "builtins.exec":
        _note_text(evaluator, said)


def _set_attribute(evaluator: Evaluator, said: Said) -> None:
    """`setattr(thing, name, value)` does what the assignment does; with another name, whatever it wants."""
    holder, key, *value = said.args
    if isinstance(key, ast.Constant) and isinstance(key.value, str) and value:
        target = ast.Attribute(holder, key.value, ast.Store(), lineno=said.line, col_offset=0)
        evaluator.tracer.store(target, evaluator.of(value[0], said.scope), said.scope)
    else:
        name = key.value if isinstance(key, ast.Constant) else "__dict__"
        doubt_change(evaluator.of(holder, said.scope), str(name), said.line)


def _note_text(evaluator: Evaluator, said: Said) -> None:
    """`exec(...)` of a text that may make tools, or of an unknown text."""
    text = said.args[0] if said.args else None
    if isinstance(text, ast.Name):
        thing = evaluator.of(text, said.scope)
        text = getattr(thing, "node", text)
    known = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else None
    if known is None or _TOOL_WORDS.search(known):
        words = "What exec() runs here is not read: there may be more tools in it"
        _note(evaluator, "guessed-more", "advice", words, said.scope, said.line, "write it as code")


def note_decorator(evaluator: Evaluator, thing: Thing, decorator: ast.expr, scope: Scope) -> None:
    """A decorator that is made of one that makes tools, in a way that is not followed."""
    if isinstance(thing, Function | Class) and any(
        _makes_tools(evaluator, evaluator.of(node, scope))
        for node in ast.walk(decorator)
        if isinstance(node, ast.Name | ast.Attribute)
    ):
        name, written = thing.node.name, show(decorator)
        words = f"Whether '{name}' is a tool cannot be told without running the code: @{written}"
        hint = "decorate it with @tool itself"
        _note(evaluator, "unresolved-tool", "warning", words, scope, decorator.lineno, hint)


def _makes_tools(evaluator: Evaluator, thing: Thing, depth: int = 0) -> bool:
    match thing:
        case Known():
            return thing.name in MARKS and not thing.is_made
        case Door():
            return thing.name == "tool"
        case Marker():
            return True
        case Listing() | Pairs() if depth < 2:
            parts = (
                evaluator.items(thing, _MOST_PARTS) if isinstance(thing, Listing) else evaluator.pairs(thing)
            )
            return any(_makes_tools(evaluator, part.thing, depth + 1) for part in parts)
    return False


def _note(
    evaluator: Evaluator, code: str, level: str, words: str, scope: Scope, line: int, hint: str
) -> None:
    file = str(scope.module.file.path)
    finding = Finding(code, level, words, file=file, line=line, hint=hint)  # type: ignore[arg-type]
    evaluator.tracer.findings.append(finding)
