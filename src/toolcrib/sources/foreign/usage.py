"""Check files and functions written for another library, from their source.

Follows names within one function: attributes of the parameter, and variables that hold it. A use that is
not visible here (a helper that receives the Context) is refused when it happens.

A script may end with an unguarded `mcp.run()`, which would block the import and take over standard input.
The check reads the syntax tree and runs nothing.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.errors import Location, SourceError
from toolcrib.schema.parameters import find_function, locate
from toolcrib.sources.foreign.context import Request, Session

_SERVERS = frozenset({"FastMCP", "MCPServer"})
_STARTS = frozenset({"run", "run_async", "run_http_async", "run_stdio_async", "run_streamable_http_async"})


def check_start(path: Path) -> None:
    """Raise SourceError where a file starts a server of another library as soon as it is imported."""
    try:
        text = path.read_bytes()
        if b"mcp" not in text or b".run" not in text:
            return
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return  # importing it says what is wrong
    line = find_start(tree)
    if line is not None:
        raise SourceError(
            f"{path.name} starts its server when it is imported",
            source=Location(str(path), line),
            hint='put it below `if __name__ == "__main__":`',
        )


def find_start(tree: ast.Module) -> int | None:
    """The line at which importing starts a server of another library, if there is one."""
    servers: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and _called(statement.value) in _SERVERS:
            servers |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.Expr) and _starts(statement.value, servers):
            return statement.lineno if any(map(_is_theirs, ast.walk(tree))) else None
    return None


def _is_theirs(node: ast.AST) -> bool:
    """Whether this imports one of the libraries."""
    names: list[str] = []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    return any(name.partition(".")[0] in ("mcp", "fastmcp") for name in names)


def _called(node: ast.expr) -> str | None:
    """The last name of what is called."""
    if not isinstance(node, ast.Call):
        return None
    called = node.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)


def _starts(node: ast.expr, servers: set[str]) -> bool:
    """`server.run()`, also as what `asyncio.run` gets."""
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _STARTS
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id in servers
        for part in ast.walk(node)
    )


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
