"""What in a module is a tool: marked functions, applications, tool objects, servers, tables.

Only what the module itself defines counts, or names in `__all__`: an import must not publish a stranger's
tool. Knows modules as they are after importing; makes no tools.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcrib.errors import SourceError
from toolcrib.finding import Finding, Source
from toolcrib.registry import ToolRegistry
from toolcrib.schema.parameters import locate
from toolcrib.sources.applications import APIApplication, Application
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE
from toolcrib.tool import Tool, is_marked, is_tool_object

GROUP = "TOOL_GROUP"
_PARTS = ("name", "description", "input_schema", "execute")
_OTHER_PARTS = ("Name", "Description", "InputSchema", "ExecuteAsync")


@dataclass(slots=True)
class Found:
    """What a module offers. `group` is its TOOL_GROUP."""

    things: list[Any] = field(default_factory=list)
    tables: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    group: str | None = None


def find_tools(module: ModuleType) -> Found:
    """Everything in a module that is a tool or holds tools, in the order it is written."""
    found = Found(group=getattr(module, GROUP, None))
    public = set(getattr(module, "__all__", ()))
    instances: set[type] = set()
    classes: list[type] = []
    for name, thing in list(vars(module).items()):
        if name in DEFINITION_TABLES or name == HANDLER_TABLE:
            found.tables[name] = thing
        elif isinstance(thing, type):
            if thing.__module__ == module.__name__ and is_tool_class(thing) and not inspect.isabstract(thing):
                classes.append(thing)
        elif isinstance(thing, ModuleType) or name.startswith("__"):
            continue
        elif is_marked(thing) and callable(thing):
            if getattr(thing, "__module__", None) == module.__name__ or name in public:
                found.things.append(thing)
        elif _holds_tools(thing):
            found.things.append(thing)
            instances.add(type(thing))
    for cls in classes:
        if cls not in instances:
            _take_class(found, cls)
    return found


def _holds_tools(thing: Any) -> bool:
    return (
        isinstance(thing, Tool | ToolRegistry | Application)
        or isinstance(getattr(thing, "registry", None), ToolRegistry)
        or is_tool_object(thing)
    )


def _take_class(found: Found, cls: type) -> None:
    """A class is taken where it can be made without arguments; else its author is told."""
    try:
        inspect.signature(cls).bind()
    except TypeError:
        where = locate(cls)
        found.findings.append(
            Finding(
                "needs-arguments",
                "advice",
                f"{cls.__name__} holds tools but cannot be made without arguments",
                file=where.file,
                line=where.line,
                hint="make an instance in the module",
            )
        )
        return
    except ValueError:
        pass  # no signature to look at: try
    found.things.append(cls)


def is_tool_class(cls: type) -> bool:
    """Whether instances of this class are tool objects or applications."""
    if cls in (Application, APIApplication):
        return False
    if issubclass(cls, Application) or callable(getattr(cls, "list_tools", None)):
        return True
    return all(hasattr(cls, part) for part in _PARTS) or all(hasattr(cls, part) for part in _OTHER_PARTS)


def find_object(module: ModuleType, name: str, target: str) -> Any:
    """The object behind `module:name`; dots reach into it."""
    thing: Any = module
    for part in name.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            import difflib

            close = difflib.get_close_matches(
                part, [key for key in dir(thing) if not key.startswith("_")], n=1
            )
            raise SourceError(
                f"There is no '{part}' in {target.rpartition(':')[0]}",
                source=Source(getattr(module, "__file__", None)),
                hint=f"did you mean '{close[0]}'?" if close else None,
            ) from None
    return thing


def nothing_found(module: ModuleType) -> Finding:
    """A module without tools: the likely reason, and the way out."""
    functions = [
        name
        for name, thing in vars(module).items()
        if inspect.isfunction(thing) and thing.__module__ == module.__name__ and not name.startswith("_")
    ]
    file = getattr(module, "__file__", None)
    where = Path(file).name if file else module.__name__
    if not functions:
        return Finding(
            "no-tools", "error", f"{where} has no tools", file=file, hint="mark functions with @tool"
        )
    count = f"{len(functions)} functions" if len(functions) > 1 else "1 function"
    return Finding(
        "no-marked-tools",
        "error",
        f"{count} found, none marked",
        file=file,
        hint=f"add @tool, or name one, {where}:{functions[0]}",
    )
