"""Decide by reading the source which code starts a server of `mcp` or `fastmcp`. Nothing is run.

is_program(path)         a file that starts one when it is run: `python server.py`
starts_server(thing)     a function or command that makes or starts one: `server.py:main`
check_start(path)        a file that starts one as soon as it is imported
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

from toolcrib.errors import Location, SourceError
from toolcrib.sources.foreign.recognition import PACKAGES, is_server, is_server_class

MAX_DEPTH = 3
"""How many functions of a module may call each other until one of them makes a server."""
_OURS = frozenset({"toolcrib", "universal_mcp"})
"""Packages whose servers and applications are found at module level."""
_SERVERS = frozenset({"FastMCP", "MCPServer"})
_STARTS = frozenset({"run", "run_async", "run_http_async", "run_sse_async", "run_stdio_async"}) | {
    "run_streamable_http_async"
}
_ENTRY_NAME = re.compile(
    r"cli|main|(run|serve|start)(_server)?|(build|create|get|init|make|setup)_(\w+_)?(app|mcp|server)"
)
"""Usual names of functions that start or make a server."""
_CHANGES = frozenset({"add_middleware", "add_transform", "disable", "middleware", "remove_tool"})
"""Methods and attributes by which a program restricts a server before it starts it."""
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


# --- files -------------------------------------------------------------------------------------------


def is_program(path: Path) -> bool:
    """Return whether a file mentions MCP, does something when it is run, and does not use toolcrib."""
    tree = parse(path) if mentions_mcp(path) else None
    return tree is not None and not uses_toolcrib(tree) and _has_entry_point(tree)


def is_launcher(path: Path) -> bool:
    """Return whether a file whose import gave no tools starts a server when it is run: it mentions MCP, or
    has loaded one of the libraries."""
    has_loaded = not PACKAGES.isdisjoint(sys.modules)
    return (has_loaded or mentions_mcp(path)) and _has_entry_point(parse(path))


def check_start(path: Path) -> None:
    """Raise SourceError where importing a file would start a server of another library: that would block the
    import and take over standard input."""
    text = _read(path)
    tree = parse(path) if b"mcp" in text and b".run" in text else None
    line = None if tree is None else find_start(tree)
    if line is not None:
        raise SourceError(
            f"{path.name} starts its server when it is imported",
            source=Location(str(path), line),
            hint='put it below `if __name__ == "__main__":`',
        )


def find_start(tree: ast.Module) -> int | None:
    """Return the line at which importing a file starts a server of another library, if there is one."""
    servers: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            if _last_name(statement.value) in _SERVERS:
                servers |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.Expr) and _runs_one_of(statement.value, servers):
            return None if PACKAGES.isdisjoint(_imported_packages(tree)) else statement.lineno
    return None


def find_change(path: Path) -> int | None:
    """Return the line at which a file restricts a server only when it is run, not when it is imported."""
    tree = parse(path) if mentions_mcp(path) else None
    if tree is None:
        return None
    lines: set[int] = set()
    for block in filter(_is_main_block, tree.body):
        lines.update(range(block.lineno, (block.end_lineno or block.lineno) + 1))
        for call in ast.walk(block):
            if isinstance(call, ast.Call):
                lines |= find_lines(path, _last_name(call))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _CHANGES)
    return next((node.lineno for node in found if node.lineno in lines), None)


def _runs_one_of(node: ast.expr, servers: set[str]) -> bool:
    """Return whether this is `server.run()`, also as an argument of `asyncio.run`."""
    return any(
        isinstance(part, ast.Attribute)
        and part.attr in _STARTS
        and isinstance(part.value, ast.Name)
        and part.value.id in servers
        for part in ast.walk(node)
    )


def _has_entry_point(tree: ast.Module | None) -> bool:
    """Return whether a file does something when it is run as a program."""
    return tree is not None and any(map(_is_start, _statements(tree.body)))


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a file does, also those in blocks."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            yield from _statements(statement.body)


def _is_start(statement: ast.stmt) -> bool:
    """Return whether this is `if __name__ == "__main__":`, `main()`, `server.run()` or the like."""
    if isinstance(statement, ast.If):
        return _is_main_block(statement)
    calls = ast.walk(statement) if isinstance(statement, ast.Expr) else ()
    names = [_last_name(call.func) for call in calls if isinstance(call, ast.Call)]
    return any(name in _STARTS or _ENTRY_NAME.fullmatch(name) for name in names)


def _is_main_block(statement: ast.stmt) -> bool:
    """Return whether this is `if __name__ == "__main__":`."""
    return isinstance(statement, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(statement.test)
    )


def parse(path: Path) -> ast.Module | None:
    """Return the syntax tree of a file. None where it has none: importing the file says why."""
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def mentions_mcp(path: Path) -> bool:
    """Return whether the letters "mcp" are in a file."""
    return b"mcp" in _read(path).lower()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def uses_toolcrib(tree: ast.Module) -> bool:
    """Return whether a file imports toolcrib or universal-mcp."""
    return not _OURS.isdisjoint(_imported_packages(tree))


def has_relative_imports(path: Path) -> bool:
    """Return whether a file has to be run as a part of its package."""
    tree = parse(path)
    nodes = () if tree is None else ast.walk(tree)
    return any(isinstance(node, ast.ImportFrom) and node.level for node in nodes)


def _imported_packages(tree: ast.Module) -> set[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.partition(".")[0] for name in names}


# --- functions ---------------------------------------------------------------------------------------


def starts_server(thing: Any) -> bool:
    """Return whether a function of a module is meant to be called: it makes or starts a server, as far as its
    source and its annotations show, or it is a command of click or typer."""
    return is_command(thing) or _starts_server(thing, MAX_DEPTH)


def is_callable(function: Any) -> bool:
    """Return whether a function can be called without arguments."""
    try:
        return is_command(function) or inspect.signature(function).bind() is not None
    except TypeError:
        return False


def is_command(thing: Any) -> bool:
    """Return whether this is a command of click, or an application of typer."""
    names = {(cls.__module__, cls.__name__) for cls in type(thing).__mro__}
    return not names.isdisjoint({("click.core", "Command"), ("typer.main", "Typer")})


def command_function(thing: Any) -> Any:
    """Return the function behind a command of click or an application of typer, or the thing itself."""
    if not is_command(thing):
        return thing
    commands = [thing, *getattr(thing, "commands", {}).values()]  # a group of click
    commands += [getattr(thing, "registered_callback", None), *getattr(thing, "registered_commands", ())]
    functions = (getattr(command, "callback", None) for command in commands)
    return next((function for function in functions if isinstance(function, FunctionType)), thing)


def _starts_server(thing: Any, depth: int) -> bool:
    node = _definition_of(thing)
    if node is None or any(_last_name(item) == "tool" for item in node.decorator_list):
        return False
    names, path = thing.__globals__, Path(thing.__code__.co_filename)
    if _ENTRY_NAME.fullmatch(thing.__name__) and mentions_mcp(path):
        tree = parse(path)
        if tree is not None and not uses_toolcrib(tree):
            return True
    if node.returns is not None and _is_server_name(node.returns, names):
        return True
    called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    if any(_is_server_name(each, names) or _runs_server(each, names) for each in called):
        return True
    own = [names.get(each.id) for each in called if isinstance(each, ast.Name)] if depth else []
    return any(_starts_server(each, depth - 1) for each in own if getattr(each, "__globals__", None) is names)


def _is_server_name(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Return whether this is the name of a class of servers."""
    name = _last_name(node)
    return name in _SERVERS or is_server_class(names.get(name))


def _runs_server(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Return whether this is a method that runs a server, or the transport that one is run with."""
    if not isinstance(node, ast.Attribute):
        return _last_name(node) == "stdio_server"
    is_run = node.attr == "run" and isinstance(node.value, ast.Name)
    return node.attr in _STARTS - {"run"} or (is_run and is_server(names.get(_last_name(node.value))))


def find_lines(path: Path, name: str) -> set[int]:
    """Return the lines of a function at the top level of a file, and of those that it calls there."""
    tree = parse(path)
    known = {node.name: node for node in ([] if tree is None else tree.body) if isinstance(node, _Definition)}
    names, lines = [name], set[int]()
    for each in names:  # grows while it is read
        if (node := known.pop(each, None)) is not None:
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            names += [_last_name(part) for part in ast.walk(node) if isinstance(part, ast.Call)]
    return lines


def _definition_of(thing: Any) -> _Definition | None:
    if not isinstance(thing, FunctionType):
        return None
    tree = parse(Path(thing.__code__.co_filename))
    for node in [] if tree is None else ast.walk(tree):
        if isinstance(node, _Definition) and node.name == thing.__name__:
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if first == thing.__code__.co_firstlineno:
                return node
    return None


def _last_name(node: ast.expr) -> str:
    """Return `run` of `mcp.run`, `tool` of `mcp.tool("x")`, `FastMCP` of `FastMCP[Any]` or `"FastMCP"`."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    if isinstance(node, ast.Constant):
        return str(node.value).rpartition(".")[2]
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
