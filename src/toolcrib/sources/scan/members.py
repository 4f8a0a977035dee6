"""Find the tools of a module: marked functions, servers, applications, tables.

The rules and their order are those of `toolcrib.sources.modules` for imported modules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import Finding
from toolcrib.sources.modules import GROUP
from toolcrib.sources.scan.applications import is_application, is_complete
from toolcrib.sources.scan.following import listed_names
from toolcrib.sources.scan.lineage import needs_arguments
from toolcrib.sources.scan.making import Workshop
from toolcrib.sources.scan.objects import is_tool_object
from toolcrib.sources.scan.remarks import Unresolved
from toolcrib.sources.scan.tables import read_handlers, read_table
from toolcrib.sources.scan.things import Class, Function, Instance, Later, Made, Module, Server, Thing, Value
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE

_TAKEN = frozenset({GROUP, HANDLER_TABLE, *DEFINITION_TABLES})


@dataclass(slots=True)
class Found:
    """What a module offers."""

    module: Module
    things: list[Thing] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    handlers: dict[str, Any] = field(default_factory=dict)
    group: str | None = None
    servers: list[Server] = field(default_factory=list)


def find_members(workshop: Workshop, module: Module) -> Found:
    """Everything in a module that is a tool or holds tools, in the order it is written."""
    found = Found(module)
    _find_tables(workshop, found)
    public = set(listed_names(module) or ())
    instances: set[Class] = set()
    classes: list[Class] = []
    for name in list(module.scope.names):
        if name in _TAKEN or name.startswith("__"):
            continue
        thing = _seen(workshop, module, name)
        is_stranger = name in module.scope.imported and name not in public
        if isinstance(thing, Class):
            if thing.body.module is module and is_complete(thing):
                classes.append(thing)
        elif isinstance(thing, Server):
            _take_server(workshop, found, thing, name)
        elif not is_stranger and _is_tool(workshop, thing):
            found.things.append(thing)
            if isinstance(thing, Instance):
                instances.add(thing.cls)
    for cls in dict.fromkeys(classes):
        if cls not in instances:
            _take_class(workshop, found, cls)
    return found


def _seen(workshop: Workshop, module: Module, name: str) -> Thing:
    """What a name stands for; what was imported from a file that was not read is none of ours."""
    thing = module.scope.names[name]
    if isinstance(thing, Later):
        path = workshop.tracer.find_path(thing.module, thing.near)
        below = workshop.tracer.find_path(f"{thing.module}.{thing.key}", thing.near)
        if path in workshop.tracer.modules or below in workshop.tracer.modules:
            return workshop.evaluator.look_up(name, module.scope)
    return thing


def _is_tool(workshop: Workshop, thing: Thing) -> bool:
    if isinstance(thing, Function):
        return thing.source.mark is not None
    if isinstance(thing, Instance):
        return is_application(thing.cls) or is_tool_object(workshop, thing)
    return isinstance(thing, Made) and thing.maker == "toolcrib"


def _take_server(workshop: Workshop, found: Found, server: Server, name: str) -> None:
    if not server.is_low_level:
        found.things.append(server)
        found.servers.append(server)
        return
    text = f"'{name}' is a low-level server of mcp, which has handlers and no tools that could be taken"
    hint = "give toolcrib the functions; toolcrib.transports.mcp_sdk puts its tools on that server"
    file = str(found.module.file.path)
    workshop.findings.append(Finding("low-level-server", "warning", text, file=file, hint=hint))


def _take_class(workshop: Workshop, found: Found, cls: Class) -> None:
    """A class is taken where it can be made without arguments; else its author is told."""
    if not needs_arguments(cls):
        found.things.append(cls)
        return
    text = f"{cls.node.name} holds tools but cannot be made without arguments"
    hint = "make an instance in the module"
    file = str(found.module.file.path)
    workshop.findings.append(Finding("needs-arguments", "advice", text, file=file, line=cls.line, hint=hint))


def _find_tables(workshop: Workshop, found: Found) -> None:
    module = found.module
    names = module.scope.names
    if GROUP in names:
        found.group = _text(workshop, module, GROUP)
    for name in DEFINITION_TABLES:
        if name in names:
            table = read_table(workshop, module, name, workshop.evaluator.look_up(name, module.scope))
            if table is not None:
                found.tables.append(table)
    if HANDLER_TABLE in names:
        thing = workshop.evaluator.look_up(HANDLER_TABLE, module.scope)
        handlers = read_handlers(workshop, module, HANDLER_TABLE, thing)
        if isinstance(handlers, dict):
            found.handlers = handlers
        else:
            text = f"{HANDLER_TABLE} must be a dict, got {type(handlers).__name__}"
            file = str(module.file.path)
            workshop.findings.append(Finding("table-mismatch", "error", text, file=file))


def _text(workshop: Workshop, module: Module, name: str) -> str | None:
    thing = module.scope.names[name]
    try:
        value = workshop.evaluator.data_of(thing) if isinstance(thing, Value) else None
    except (Unresolved, RecursionError):
        value = None
    if isinstance(value, str):
        return value
    words = f"{name} cannot be told without running the code"
    workshop.findings.append(
        Finding("unresolved-option", "warning", words, file=str(module.file.path), hint="write it as a text")
    )
    return None


def find_object(workshop: Workshop, module: Module, name: str) -> Thing | None:
    """The thing behind `file.py:name`; dots reach into it. None where there is nothing of the name."""
    thing: Thing = module
    for part in name.split("."):
        if isinstance(thing, Module) and part not in thing.scope.names:
            return None
        thing = workshop.evaluator.attribute(thing, part)
    return thing
