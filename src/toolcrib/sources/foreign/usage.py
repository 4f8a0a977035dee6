"""Find files that start a server of another library when they are imported.

A script may end with an unguarded `mcp.run()`, which would block the import and take over standard input.
The check reads the syntax tree and runs nothing.
"""

from __future__ import annotations

import ast
from pathlib import Path

from toolcrib.errors import Location, SourceError

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
