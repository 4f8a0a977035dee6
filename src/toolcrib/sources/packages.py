"""What in a module is a tool: marked functions, applications, tool objects, servers, tables.

Only what the module itself makes counts, or names in `__all__`: an import must not publish a stranger's tool.
Servers and registries, those of mcp and fastmcp too, are the exception, because a module adds tools to those
it imports. Knows modules as
they are after importing; makes no tools.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from toolcrib.adapters.foreign.recognition import is_low_level, library_of
from toolcrib.errors import SourceError
from toolcrib.finding import Finding, Source
from toolcrib.marking import is_marked
from toolcrib.registry import ToolRegistry
from toolcrib.schema.parameters import locate
from toolcrib.sources.applications import APIApplication, Application
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE
from toolcrib.tool import Tool, is_tool_object

GROUP = "TOOL_GROUP"
_PARTS = ("name", "description", "input_schema", "execute")
_OTHER_PARTS = ("Name", "Description", "InputSchema", "ExecuteAsync")
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(slots=True)
class Found:
    """What a module offers. `tables` are its tables of definitions, `group` is its TOOL_GROUP."""

    things: list[Any] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    handlers: Mapping[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    group: str | None = None


def find_tools(module: ModuleType) -> Found:
    """Everything in a module that is a tool or holds tools, in the order it is written."""
    members = vars(module)
    found = Found(group=members.get(GROUP))
    found.tables = [members[name] for name in DEFINITION_TABLES if name in members]
    handlers = members.get(HANDLER_TABLE, {})
    if isinstance(handlers, Mapping):
        found.handlers = handlers
    else:
        text = f"{HANDLER_TABLE} must be a dict, got {type(handlers).__name__}"
        found.findings.append(Finding("table-mismatch", "error", text, file=_file_of(module)))
    taken = {GROUP, HANDLER_TABLE, *DEFINITION_TABLES}
    strangers = _Strangers(module)
    instances: set[type] = set()
    classes: list[type] = []
    for name, thing in list(members.items()):
        if name in taken or name.startswith("__") or isinstance(thing, ModuleType):
            continue
        if isinstance(thing, type):
            if thing.__module__ == module.__name__ and _is_complete(thing):
                classes.append(thing)
        elif _is_server(thing) or (_is_tool(thing) and not strangers.include(name, thing)):
            found.things.append(thing)
            instances.add(type(thing))
        elif is_low_level(thing):
            found.findings.append(_no_functions(module, name))
    for cls in classes:
        if cls not in instances:
            _take_class(found, cls)
    return found


def registry_of(thing: Any) -> ToolRegistry | None:
    """The registry that a server has, or that the thing itself is."""
    registry = thing if isinstance(thing, ToolRegistry) else _look(thing, "registry")
    return registry if isinstance(registry, ToolRegistry) else None


def _is_server(thing: Any) -> bool:
    """Whether this is a server or a registry, of ours or of another library."""
    return registry_of(thing) is not None or library_of(thing) is not None


def drop_owned(parts: Sequence[Found]) -> None:
    """A class whose instance some server here has tools of is not made a second time."""
    registries = [
        registry_of(thing) for part in parts for thing in part.things if not isinstance(thing, type)
    ]
    entries = [entry for registry in registries if registry is not None for entry in registry.entries()]
    owners = {type(entry.tool.owner) for entry in entries if entry.tool.owner is not None}
    for part in parts:
        part.things = [thing for thing in part.things if not (isinstance(thing, type) and thing in owners)]


def drop_mounted(parts: Sequence[Found]) -> None:
    """Servers of another library may be mounted in each other; one that is is served through the other."""
    servers = [thing for part in parts for thing in part.things if library_of(thing) == "fastmcp"]
    if len(servers) < 2:
        return
    # Only who has several waits for what it takes to look into them.
    from toolcrib.adapters.foreign.fast import mounted_in

    inner = {id(child) for server in servers for child in mounted_in(server)}
    for part in parts:
        part.things = [thing for thing in part.things if id(thing) not in inner]


def _no_functions(module: ModuleType, name: str) -> Finding:
    text = f"'{name}' is a low-level server of mcp, which has handlers and no tools that could be taken"
    hint = "give toolcrib the functions; toolcrib.adapters.official puts its tools on that server"
    return Finding("low-level-server", "warning", text, file=_file_of(module), hint=hint)


def is_application(thing: Any) -> bool:
    """Whether it lists tools; a client that asks a server for them, which takes waiting, is none."""
    lister = _look(thing, "list_tools")
    return callable(lister) and not inspect.iscoroutinefunction(lister)


def _is_tool(thing: Any) -> bool:
    """Whether this is a tool or holds some. Anything may stand in a module, also what bears no looking at."""
    try:
        return (
            isinstance(thing, Tool)
            or (is_marked(thing) and callable(thing))
            or is_application(thing)
            or is_tool_object(thing)
        )
    except Exception:
        return False


def _look(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:
        return None  # a proxy that is not ready


# --- strangers ---------------------------------------------------------------------------------------


class _Strangers:
    """What a module has by importing it. The source says so; without one, a thing's own module does."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._public = set(getattr(module, "__all__", ()))
        self._imported: set[str] | None = None

    def include(self, name: str, thing: Any) -> bool:
        if name in self._public:
            return False
        if self._imported is None:
            self._imported = _imported_names(self._module)
        if "*" in self._imported:
            return bool(_look(thing, "__module__") != self._module.__name__)
        return name in self._imported


def _imported_names(module: ModuleType) -> set[str]:
    """Names that a module has from import statements alone; `*` where that cannot be said."""
    try:
        tree = ast.parse(Path(_file_of(module) or "").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {"*"}
    imported: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, _DEFINITIONS):
            imported.discard(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            imported -= {node.id for node in ast.walk(statement) if _is_bound(node)}
        else:
            imported |= _names_in(statement)
    return imported


def _is_bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _names_in(statement: ast.AST) -> set[str]:
    """Names that a statement imports into the module: inside `if` and `try`, not inside definitions."""
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    if isinstance(statement, ast.expr | _DEFINITIONS):
        return set()
    return set().union(*(_names_in(part) for part in ast.iter_child_nodes(statement)))


# --- classes -----------------------------------------------------------------------------------------


def is_tool_class(cls: type) -> bool:
    """Whether instances of this class are tool objects or applications."""
    if cls in (Application, APIApplication):
        return False
    if is_application(cls):
        return True
    return all(hasattr(cls, part) for part in _PARTS) or all(hasattr(cls, part) for part in _OTHER_PARTS)


def _is_complete(cls: type) -> bool:
    """Whether a class is there to be used, and not to be inherited from."""
    if not is_tool_class(cls) or inspect.isabstract(cls) or cls.__name__.startswith("_"):
        return False
    return is_application(cls) or bool(getattr(cls, "name", None) or getattr(cls, "Name", None))


def _take_class(found: Found, cls: type) -> None:
    """A class is taken where it can be made without arguments; else its author is told."""
    try:
        inspect.signature(cls).bind()
    except TypeError:
        where = locate(cls)
        text = f"{cls.__name__} holds tools but cannot be made without arguments"
        hint = "make an instance in the module"
        found.findings.append(
            Finding("needs-arguments", "advice", text, file=where.file, line=where.line, hint=hint)
        )
        return
    except ValueError:
        pass  # no signature to look at: try
    found.things.append(cls)


# --- names -------------------------------------------------------------------------------------------


def find_object(module: ModuleType, name: str, target: str) -> Any:
    """The object behind `module:name`; dots reach into it."""
    thing: Any = module
    for part in name.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            import difflib

            known = [key for key in dir(thing) if not key.startswith("_")]
            close = difflib.get_close_matches(part, known, n=1)
            raise SourceError(
                f"There is no '{part}' in {target.rpartition(':')[0]}",
                source=Source(_file_of(module)),
                hint=f"did you mean '{close[0]}'?" if close else None,
            ) from None
    return thing


def nothing_found(modules: Sequence[ModuleType], place: str) -> Finding:
    """Modules without tools: the likely reason, and the way out."""
    functions = [
        (module, name)
        for module in modules
        for name, thing in vars(module).items()
        if inspect.isfunction(thing) and thing.__module__ == module.__name__ and not name.startswith("_")
    ]
    if not functions:
        file = _file_of(modules[0]) if len(modules) == 1 else None
        hint = "mark functions with @tool"
        return Finding("no-tools", "error", f"{place} has no tools", file=file, hint=hint)
    module, first = functions[0]
    file = _file_of(module)
    where = Path(file).name if file else module.__name__
    count = f"{len(functions)} functions" if len(functions) > 1 else "1 function"
    return Finding(
        "no-marked-tools",
        "error",
        f"{count} found, none marked",
        file=file,
        hint=f"add @tool, or name one, {where}:{first}",
    )


def _file_of(module: ModuleType) -> str | None:
    return getattr(module, "__file__", None)
