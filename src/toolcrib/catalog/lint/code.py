"""Findings in the code of tools: what functions use of their Context, and questions that are not awaited."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from types import CodeType

from toolcrib.component import Component
from toolcrib.context import find_attribute
from toolcrib.errors import Finding


def inspect_code(tool: Component) -> Iterator[Finding]:
    yield from _find_context_misuse(tool)
    yield from _find_forgotten_awaits(tool)


def _find_context_misuse(tool: Component) -> Iterator[Finding]:
    """Report what the code of a function uses of its Context that a Context does not have: `ctx.elicit`."""
    import dis  # delayed: no other command needs it

    name, code = tool.arguments.context, getattr(tool.info.function, "__code__", None)
    waiting = [] if code is None or name not in code.co_varnames else [code]
    while waiting:
        code = waiting.pop()
        inner = [item for item in code.co_consts if isinstance(item, CodeType)]
        waiting += [item for item in inner if name in item.co_freevars]
        line, loaded = code.co_firstlineno, None
        for step in dis.get_instructions(code):
            line = getattr(step.positions, "lineno", None) or line
            if loaded == name and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                hint = find_attribute(str(step.argval))
                if hint is not None:
                    message = f"The code uses {name}.{step.argval}, which a Context does not have"
                    place = (code.co_filename, line, hint)
                    yield Finding("unknown-context", "warning", message, tool.name, name, *place)
            loaded = step.argval if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) else None


_ASKING = ("ask", "ask_all", "ask_url", "roots", "sample")
_USES = (ast.Assert, ast.Attribute, ast.BinOp, ast.Compare, ast.Expr, ast.For, ast.FormattedValue, ast.If)
_USES_OF_ANSWERS = (*_USES, ast.Subscript, ast.UnaryOp, ast.While)
"""Where an answer can stand, and a question that still has to be awaited cannot."""


def _find_forgotten_awaits(tool: Component) -> Iterator[Finding]:
    """Report questions of an async function that are used like their answers: `ctx.ask` without `await`."""
    name = tool.arguments.context
    if name is None or not tool.is_async:
        return
    try:
        lines, first = inspect.getsourcelines(tool.info.function)
        pending: list[ast.AST] = [ast.parse(textwrap.dedent("".join(lines))).body[0]]
    except (OSError, TypeError, SyntaxError):
        return
    parents: dict[ast.AST, ast.AST] = {}
    while pending:
        for child in ast.iter_child_nodes(node := pending.pop()):
            if not isinstance(child, ast.FunctionDef | ast.Lambda):  # these may run on a thread
                parents[child] = node
                pending.append(child)
    for node in parents:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=attr)) if found == name:
                if attr in _ASKING and _is_forgotten(node, parents):
                    message = f"The code uses the answer of {name}.{attr} without awaiting it"
                    place = (tool.source.file, first + node.lineno - 1, f"write `await {name}.{attr}(...)`")
                    yield Finding("not-awaited", "error", message, tool.name, name, *place)


def _is_forgotten(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a question, or every use of the variable that holds it, stands for its answer."""
    is_question, parent = isinstance(node, ast.Call), parents[node]
    while isinstance(parent, ast.BoolOp | ast.IfExp):
        is_last = node is not parent.test if isinstance(parent, ast.IfExp) else node is parent.values[-1]
        if not is_last:
            return True  # whether it is true is asked of the answer
        node, parent = parent, parents[parent]
    match parent:
        case ast.Assign(targets=[ast.Name(id=variable)]) | ast.AnnAssign(target=ast.Name(id=variable)):
            names = [item for item in parents if isinstance(item, ast.Name) and item.id == variable]
            uses = [item for item in names if isinstance(item.ctx, ast.Load)]
            return is_question and all(_is_forgotten(item, parents) for item in uses)
    return isinstance(parent, _USES_OF_ANSWERS)
