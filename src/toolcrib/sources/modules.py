"""Modules, files and folders as sources: marked functions, applications, tool objects, servers and tables.

A module publishes what it defines itself or names in `__all__`, but not the tools that it imports from other
modules. Servers and registries, also those of mcp and fastmcp, are the exception, because a module adds tools
to servers that it imports.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcrib.component import Component, is_marked, is_tool_object
from toolcrib.errors import DefinitionError, Finding, Location, SourceError, suggest
from toolcrib.schema.parameters import find_function, locate
from toolcrib.sources import tables
from toolcrib.sources.applications import is_application
from toolcrib.sources.base import Batch, ReadOptions
from toolcrib.sources.foreign import entry_point, interception
from toolcrib.sources.foreign.program import (
    Program,
    ProgramOwner,
    file_program,
    find_program,
    function_program,
)
from toolcrib.sources.foreign.recognition import (
    is_low_level,
    is_server,
    keeps_lifespan,
    library_of,
    mounted_in,
    started_on,
)
from toolcrib.sources.loading import find_python_files, find_submodules, load_file, load_module
from toolcrib.sources.objects import is_tool_class, registry_of
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE
from toolcrib.sources.targets import Target

GROUP = "TOOL_GROUP"
BYPASSED = "foreign-bypassed"
"""The code of findings about functions that are served without what their server has in front of them."""
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class ModuleSource:
    """A module with the modules below it, a Python file, a folder of files, or an object in one of them."""

    def accepts(self, target: Any) -> bool:
        return isinstance(target, ModuleType) or (
            isinstance(target, Target) and target.kind in ("file", "folder", "module", "script")
        )

    def read(self, target: Any, options: ReadOptions) -> Batch:
        if isinstance(target, ModuleType):
            return self._read_package(target, options)
        token = keeps_lifespan.set(target.arguments is not None)
        try:
            return self._read_target(target, options)
        finally:
            keeps_lifespan.reset(token)

    def files(self, target: Any) -> Sequence[Path]:
        if isinstance(target, ModuleType):
            target = Target(target.__name__, "module", module=target.__name__)
        return target.find_paths()  # type: ignore[no-any-return]

    def _read_target(self, target: Target, options: ReadOptions) -> Batch:
        path = target.path
        target.check_exists()
        interception.install()
        program = None if target.arguments is None else find_program(target)
        if program is not None:
            return _read_program(program, options)
        if target.name:
            module = load_module(target.module or "") if path is None else _load(path)
            return _read_object(module, target, options)
        if target.kind == "script":
            hint = "give a file, a folder, a module, module:object or an installed command"
            raise SourceError(f"There is no file, module or command '{target.text}'", hint=hint)
        if path is None:
            what = "file or module" if "." in target.text else "module"
            return self._read_package(load_module(target.text, what), options)
        if target.kind == "folder":
            return _read_modules(*_load_each(_load, find_python_files(path), options), str(path), options)
        batch = _read_modules([_load(path)], [], path.name, options)
        if batch.everything or target.arguments is None or not entry_point.is_launcher(path):
            return batch
        return _read_program(file_program(path, target.text, target.arguments), options)

    def _read_package(self, module: ModuleType, options: ReadOptions) -> Batch:
        below, findings = _load_each(load_module, find_submodules(module), options)
        return _read_modules([module, *below], findings, module.__name__, options)


def _read_object(module: ModuleType, target: Target, options: ReadOptions) -> Batch:
    """Read the object that a target names. A function that makes or starts a server is called."""
    found = find_object(module, target.name, target.text)
    if is_marked(found) or not entry_point.starts_server(found):
        batch = options.read(found)
        batch.findings += _warn_bypassed(found, target)
        batch.findings += _warn_not_run(module, [found])
        return batch
    if target.arguments is None:
        text = f"{target.text} makes or starts a server; it is not called here"
        raise SourceError(
            text, source=locate(found), hint=f"call it and add what it returns: add({target.name}())"
        )
    return _read_program(function_program(found, target.text, target.arguments), options)


def _read_program(program: Program, options: ReadOptions) -> Batch:
    """Run a program, and read the server that it starts. If it starts none, read its module."""
    started = program.start()
    if started.server is None:
        if started.module is None or program.path is None:
            return Batch()
        return _read_modules([started.module], [], program.label, options)
    started.set_variables()
    token = started_on.set(started.loop)
    try:
        batch = options.read(started.server)
    finally:
        started_on.reset(token)
    for name in program.others:
        text = f"{program.label} starts another server, '{name}', which is not served"
        file = None if program.path is None else str(program.path)
        hint = "a program is served with the first server that it starts; name the other one itself"
        batch.findings.append(Finding("foreign-second", "warning", text, file=file, hint=hint))
    owners: dict[int, ProgramOwner] = {}
    for tool in batch.tools if is_server(started.server) else ():
        if tool.owner is not None:  # else it has no lifespan, and calls are cheaper without an owner
            owner = ProgramOwner(program, started.loop, tool.owner)
            tool.owner = owners.setdefault(id(tool.owner), owner)
    return batch


def _warn_bypassed(thing: Any, target: Target) -> Iterator[Finding]:
    """Warn of a function that is served without what its server has in front of it."""
    function = find_function(getattr(thing, "fn", thing))
    servers = filter(is_server, list(getattr(function, "__globals__", {}).values()))
    for server in () if is_server(thing) else servers:
        from toolcrib.sources.foreign.guards import find_guards  # start-up time

        try:
            guards = None if is_low_level(server) else find_guards(server)
            words = "" if guards is None else guards.message
        except SourceError as error:
            words = error.message
        if words or is_low_level(server):
            place = locate(function)
            yield Finding(
                BYPASSED,
                "warning",
                f"{target.text} is served without its server '{server.name}', which stands in front of it: "
                f"{words.partition(': ')[2] or 'its own handlers'}",
                file=place.file,
                line=place.line,
                hint=f"to serve it through that server, name {target.text.rpartition(':')[0]}",
            )


def _warn_not_run(module: ModuleType, objects: Iterable[Any]) -> Iterator[Finding]:
    """Warn of a module that restricts its server only when it is run, where it was imported."""
    file = _file_of(module)
    if file is None or module.__name__ == "__main__" or not any(map(is_server, objects)):
        return
    line = entry_point.find_change(Path(file))
    if line is not None:
        text = f"{Path(file).name} changes its server when it is run, but it was only imported"
        hint = f"to serve it as its program does, name the file: {file}"
        yield Finding(BYPASSED, "warning", text, file=file, line=line, hint=hint)


def _load(path: Path) -> ModuleType:
    entry_point.check_start(path)
    return load_file(path)


def _load_each(
    load: Callable[[Any], ModuleType], targets: Iterable[Any], options: ReadOptions
) -> tuple[list[ModuleType], list[Finding]]:
    modules: list[ModuleType] = []
    findings: list[Finding] = []
    every = list(targets)
    for position, target in enumerate(every):
        if options.progress is not None:
            options.progress(position, len(every))
        try:
            modules.append(load(target))
        except DefinitionError as error:
            findings.extend(error.all_findings)
    return modules, findings


def _read_modules(
    modules: list[ModuleType], findings: list[Finding], label: str, options: ReadOptions
) -> Batch:
    """Read modules that belong together. All are loaded before: one may add to the server of another, and
    the handlers of a table may be in another module."""
    batch = Batch(findings=findings)
    contents = [find_tools(module) for module in modules]
    _drop_mounted(contents)
    _drop_owned(contents)
    handlers: dict[str, Any] = {}
    for content in contents:
        handlers |= content.handlers
    seen: set[int] = set()
    for module, content in zip(modules, contents, strict=True):
        batch.findings += _warn_not_run(module, content.objects)
        found = options.read_each(content.objects)
        for table in content.tables:
            if id(table) not in seen:
                seen.add(id(table))
                every = {**handlers, **options.handlers}
                found.extend(tables.read_table(table, every, _file_of(module)).make_tools(options))
        if content.group is not None:
            found = Batch.of((_in_group(tool, content.group) for tool in found.everything), found.findings)
        batch.extend(found)
        batch.findings += content.findings
    for module, content in zip(modules, contents, strict=True):
        batch.findings += tables.find_unused(content.handlers, options.used_handlers, _file_of(module))
        options.used_handlers |= content.handlers.keys()  # another module may import the table
    batch = Batch.of(_drop_repeated(batch.everything), batch.findings)
    if not batch.everything and not batch.findings:
        batch.findings.append(report_no_tools(modules, label))
    return batch


def _in_group(tool: Component, group: str) -> Component:
    return tool if tool.options.group is not None else tool.with_options(group=group)


def _drop_repeated(tools: list[Component]) -> list[Component]:
    """Keep one of each tool that was found more than once."""
    seen: dict[Any, Component] = {}
    for tool in tools:
        origin = tool.origin
        # A bound method is a new object each time it is looked up.
        identity = (id(getattr(origin, "__self__", None)), id(getattr(origin, "__func__", origin)))
        seen.setdefault((*identity, tool.kind, tool.name, tool.version), tool)
    return list(seen.values())


# --- the content of a module -------------------------------------------------------------------------


@dataclass(slots=True)
class ModuleContent:
    """The content of a module: objects to be read as sources, tables of definitions, its TOOL_GROUP."""

    objects: list[Any] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    handlers: Mapping[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    group: str | None = None


def find_tools(module: ModuleType) -> ModuleContent:
    """Return everything in a module that is a tool or holds tools, in the order of the source."""
    members = vars(module)
    content = ModuleContent(group=members.get(GROUP))
    content.tables = [members[name] for name in DEFINITION_TABLES if name in members]
    handlers = members.get(HANDLER_TABLE, {})
    if isinstance(handlers, Mapping):
        content.handlers = handlers
    else:
        text = f"{HANDLER_TABLE} must be a dict, got {type(handlers).__name__}"
        content.findings.append(Finding("table-mismatch", "error", text, file=_file_of(module)))
    tables = {GROUP, HANDLER_TABLE, *DEFINITION_TABLES}
    imported = cache(partial(_imported_names, module))
    instances: set[type] = set()
    classes: list[type] = []
    for name, value in list(members.items()):
        if name in tables or name.startswith("__") or isinstance(value, ModuleType):
            continue
        if isinstance(value, type):
            if value.__module__ == module.__name__ and _is_concrete(value):
                classes.append(value)
        elif _is_server(value) or (_is_tool(value) and not _is_imported(module, name, value, imported)):
            content.objects.append(value)
            instances.add(type(value))
        elif is_low_level(value) and not any(_is_inside(value, other) for other in members.values()):
            content.objects.append(value)
    for cls in classes:
        if cls not in instances:
            _add_class(content, cls)
    return content


def _is_server(value: Any) -> bool:
    return registry_of(value) is not None or library_of(value) is not None


def _is_tool(value: Any) -> bool:
    """Return whether this is a tool or holds tools. Reading an attribute of an object may fail."""
    try:
        return (
            isinstance(value, Component)
            or (is_marked(value) and callable(value))
            or is_application(value)
            or is_tool_object(value)
        )
    except Exception:
        return False


def _drop_owned(contents: Sequence[ModuleContent]) -> None:
    """Drop classes whose instance has tools on a server already."""
    registries = [
        registry_of(value) for content in contents for value in content.objects if not isinstance(value, type)
    ]
    entries = [entry for registry in registries if registry is not None for entry in registry.entries()]
    owners = {type(entry.tool.owner) for entry in entries if entry.tool.owner is not None}
    for content in contents:
        content.objects = [
            value for value in content.objects if not (isinstance(value, type) and value in owners)
        ]


def _drop_mounted(contents: Sequence[ModuleContent]) -> None:
    """Drop fastmcp servers that are mounted in another one here."""
    servers = [value for content in contents for value in content.objects if library_of(value) == "fastmcp"]
    if len(servers) < 2:
        return
    inner = {id(child) for server in servers for child in mounted_in(server)}
    for content in contents:
        content.objects = [value for value in content.objects if id(value) not in inner]


def _is_inside(low_level: Any, server: Any) -> bool:
    """Return whether a low-level server is the one that another server is made of."""
    names = ("_lowlevel_server", "_mcp_server")
    return library_of(server) is not None and any(getattr(server, name, None) is low_level for name in names)


def _is_concrete(cls: type) -> bool:
    """Return whether a class is meant to be instantiated, and not only to be inherited from."""
    if not is_tool_class(cls) or inspect.isabstract(cls) or cls.__name__.startswith("_"):
        return False
    return is_application(cls) or bool(getattr(cls, "name", None) or getattr(cls, "Name", None))


def _add_class(content: ModuleContent, cls: type) -> None:
    """Add a class that can be created without arguments; report any other."""
    try:
        inspect.signature(cls).bind()
    except TypeError:
        location = locate(cls)
        text = f"{cls.__name__} holds tools but cannot be created without arguments"
        hint = "create an instance in the module"
        content.findings.append(
            Finding("needs-arguments", "advice", text, file=location.file, line=location.line, hint=hint)
        )
        return
    except ValueError:
        pass  # no signature: try to create it
    content.objects.append(cls)


# --- imported names ----------------------------------------------------------------------------------


def _is_imported(module: ModuleType, name: str, value: Any, imported: Callable[[], set[str]]) -> bool:
    """Return whether a module has a value by an import: by its source, or else by `__module__`."""
    if name in getattr(module, "__all__", ()):
        return False
    if "*" not in imported():
        return name in imported()
    try:
        return bool(getattr(value, "__module__", None) != module.__name__)
    except Exception:
        return True


def _imported_names(module: ModuleType) -> set[str]:
    """Return the names that only import statements bind; {"*"} if that cannot be read from the source."""
    try:
        tree = ast.parse(Path(_file_of(module) or "").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {"*"}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {alias.asname or alias.name for statement in imports for alias in statement.names}
    for statement in tree.body:
        if isinstance(statement, _DEFINITIONS):
            imported.discard(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            imported -= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return imported


# --- objects of a module -----------------------------------------------------------------------------


def find_object(module: ModuleType, name: str, target: str) -> Any:
    """Return the object that `module:name` names; dots lead to attributes."""
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            known = [key for key in dir(found) if not key.startswith("_")]
            raise SourceError(
                f"There is no '{part}' in {target.rpartition(':')[0]}",
                source=Location(_file_of(module)),
                hint=suggest(part, known) or None,
            ) from None
    return found


def report_no_tools(modules: Sequence[ModuleType], label: str) -> Finding:
    """Return a finding about modules without tools: the likely reason, and what to do."""
    found = [
        (module, name, value)
        for module in modules
        for name, value in vars(module).items()
        if not name.startswith("_") and _may_be_meant(value, module)
    ]
    started = [(module, name) for module, name, value in found if entry_point.starts_server(value)]
    functions = [(module, name) for module, name, _ in found if (module, name) not in started]
    if not functions and not started:
        file = _file_of(modules[0]) if len(modules) == 1 else None
        classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
        owners = [owner.__name__ for owner in classes if any(map(is_marked, vars(owner).values()))]
        derive = "methods marked with @tool belong to an application: class {}(Application)"
        hint = derive.format(owners[0]) if owners else "mark functions with @tool"
        return Finding("no-tools", "error", f"{label} has no tools", file=file, hint=hint)
    module, first = (started or functions)[0]
    file = _file_of(module)
    target = Path(file).name if file else module.__name__
    if started:
        text = f"{label} has no tools: its server is made in a function"
        is_program = file is not None and entry_point.is_launcher(Path(file))
        hint = f"name {f'the file, {file}' if is_program else f'that function, {target}:{first}'}"
        if entry_point.is_command(vars(module)[first]) and not is_program:
            hint += ', or call it below `if __name__ == "__main__":`'
        elif not is_program and not entry_point.is_callable(vars(module)[first]):
            hint = f"make it in a function without arguments, or at module level: {first}(...)"
        return Finding("no-tools", "error", text, file=file, hint=hint)
    count = f"{len(functions)} functions" if len(functions) > 1 else "1 function"
    return Finding(
        "no-marked-tools",
        "error",
        f"{count} found, none marked",
        file=file,
        hint=f"add @tool, or name one, {target}:{first}",
    )


def _may_be_meant(value: Any, module: ModuleType) -> bool:
    """Return whether a value is a function of a module, or a command of click or typer for MCP."""
    if inspect.isfunction(value):
        return value.__module__ == module.__name__
    return entry_point.is_command(value) and entry_point.mentions_mcp(Path(_file_of(module) or ""))


def _file_of(module: ModuleType) -> str | None:
    return getattr(module, "__file__", None)
