"""Find out from its source which parts of the Context a function uses.

Follows names within one function: attributes of the parameter, and variables that hold it. A use that is
not visible here (a helper that receives the Context) is refused when it happens.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.schema.parameters import find_function, locate
from toolcrib.sources.foreign.session import Request, Session

Chain = tuple[str, ...]
_Definition = ast.FunctionDef | ast.AsyncFunctionDef

_ELSEWHERE = "its listeners are clients of the other server, which nobody is"
_VISIBILITY = "toolcrib shows everybody the same tools"
_REFUSED = {
    **dict.fromkeys(
        (
            "notify_prompts_changed",
            "notify_resource_updated",
            "notify_resources_changed",
            "notify_tools_changed",
            "send_notification",
            "send_prompt_list_changed",
            "send_resource_list_changed",
            "send_tool_list_changed",
        ),
        _ELSEWHERE,
    ),
    **dict.fromkeys(("disable_components", "enable_components", "reset_visibility"), _VISIBILITY),
}
_CHANGES = frozenset({"add_tool", "disable", "enable", "mount", "remove_tool", "tool"})


def find_refusals(function: Any, parameter: str) -> Iterator[tuple[str, str]]:
    """Each thing that the function wants of its Context and cannot have: how it is written, and why."""
    node = _definition_of(find_function(function))
    return iter(()) if node is None else find_refusals_in(node, parameter)


def find_refusals_in(node: _Definition, parameter: str) -> Iterator[tuple[str, str]]:
    for chain in _uses_in(node, parameter):
        written = ".".join((parameter, *chain))
        chain = _without_detour(chain)
        if chain[0] in _REFUSED:
            yield written, _REFUSED[chain[0]]
        elif chain[0] == "session" and len(chain) > 1 and not _is_there(Session, chain[1]):
            yield written, "it speaks to a client past the calls that toolcrib makes to one"
        elif chain[0] == "request_context" and len(chain) > 1 and not _is_there(Request, chain[1]):
            yield written, "toolcrib's requests have no such part"


def find_gaps(function: Any, parameter: str) -> Iterator[tuple[str, str]]:
    """Each thing that the function wants of its Context and gets empty, or without effect."""
    node = _definition_of(find_function(function))
    return iter(()) if node is None else find_gaps_in(node, parameter)


def find_gaps_in(node: _Definition, parameter: str) -> Iterator[tuple[str, str]]:
    for chain in _uses_in(node, parameter):
        written = ".".join((parameter, *chain))
        if chain[0] == "headers" or chain[:2] == ("request_context", "request"):
            yield written, "is None: toolcrib hands no HTTP request to tools"
        elif chain[0] in ("fastmcp", "mcp_server") and chain[1:2] and chain[1] in _CHANGES:
            yield written, "changes the other server, whose tools were taken before"


def uses_of(function: Any, parameter: str) -> list[Chain]:
    """The attributes of a parameter that a function reaches for, in order; empty where there is no source."""
    node = _definition_of(find_function(function))
    return [] if node is None else _uses_in(node, parameter)


def _uses_in(node: _Definition, parameter: str) -> list[Chain]:
    reader = _Reader({parameter: ()})
    for statement in node.body:
        reader.visit(statement)
    return list(dict.fromkeys(chain for chain in reader.found if chain))


def _without_detour(chain: Chain) -> Chain:
    return chain[1:] if chain[:2] == ("request_context", "session") else chain


def _is_there(cls: type, name: str) -> bool:
    # The constructor sets the others; none of a session's.
    return hasattr(cls, name) or (cls is Request and name == "lifespan_context") or name.startswith("_")


class _Reader(ast.NodeVisitor):
    """Collects chains of attributes that begin at a known name."""

    def __init__(self, known: dict[str, Chain]) -> None:
        self.known = known
        self.found: list[Chain] = []

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        chain = self._chain(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._bind(target.id, chain)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = self._chain(node)
        if chain is None:
            self.generic_visit(node)
        else:
            self.found.append(chain)

    def _chain(self, node: ast.expr) -> Chain | None:
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.known:
            return (*self.known[node.id], *reversed(names))
        return None

    def _bind(self, name: str, chain: Chain | None) -> None:
        if chain is not None:
            self.known[name] = chain
        else:
            self.known.pop(name, None)


def _definition_of(function: Any) -> _Definition | None:
    where = locate(function)
    if where.file is None or where.line is None:
        return None
    try:
        changed_ns = Path(where.file).stat().st_mtime_ns
    except OSError:
        return None
    return _definitions_in(where.file, changed_ns).get((function.__name__, where.line))


@functools.lru_cache(maxsize=64)
def _definitions_in(file: str, _changed_ns: int) -> dict[tuple[str, int], _Definition]:
    """The functions of a file by name and first line, which is that of the first decorator."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    return {
        (node.name, min([node.lineno, *(item.lineno for item in node.decorator_list)])): node
        for node in ast.walk(tree)
        if isinstance(node, _Definition)
    }
