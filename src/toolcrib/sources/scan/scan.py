"""`scan`: turn source files into tools by reading syntax trees; nothing is imported or run.

Files are surveyed, patterns find the registrations, and every step after that is the one that importing
takes, so a tool that is scanned without a finding equals the registered one. Tools are kept by file and
server: equal names on different servers are all listed.
"""

from __future__ import annotations

import ast
import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Any

from toolcrib.component import Component, Tool
from toolcrib.config import Config, load_config, switches_from
from toolcrib.errors import DefinitionError, Finding, SourceError
from toolcrib.names import URI, NameRule
from toolcrib.registry.index import report_shortened
from toolcrib.registry.registry import ToolRegistry, finding_of
from toolcrib.sources import collect, tables
from toolcrib.sources.base import Batch, ReadOptions
from toolcrib.sources.loading import find_import_root, imports_forbidden
from toolcrib.sources.modules import GROUP
from toolcrib.sources.scan.files import Library, ScanTarget, find_target
from toolcrib.sources.scan.holders import holds_tools, is_complete, read_table
from toolcrib.sources.scan.making import ToolMaker
from toolcrib.sources.scan.patterns import KINDS, Patterns, last_name, placed
from toolcrib.sources.scan.resolve import (
    MARKS,
    UNKNOWN,
    Arguments,
    Class,
    Data,
    Function,
    Instance,
    Known,
    Module,
    Resolver,
    Server,
    Thing,
)
from toolcrib.sources.scan.source_file import FUNCTIONS, Binding, SourceFile, Spot
from toolcrib.sources.source_text import read_words
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE
from toolcrib.sources.targets import default_target, parse_target

Progress = Callable[[str, int, int], None]
"""Called with a step (`files`, `modules` or `tools`), how many of them are done, and how many there are."""
_TABLES = (GROUP, *DEFINITION_TABLES, HANDLER_TABLE)
_ANY_NAME = NameRule("any", re.compile(r"[^\x00-\x1f]+"), 8192, "must be printable")
"""The rule for prompts of other libraries, which have none."""


@dataclass(eq=False, slots=True)
class Group:
    """Tools that share one list of names: those of a server, or those that a file offers itself."""

    server: Server | None
    tools: list[Component]


class _Scanner:
    """The files of the targets of one configuration, surveyed; and what importing the targets would find."""

    def __init__(self, config: Config, progress: Progress) -> None:
        self.config = config
        self.progress = progress
        self.findings: list[Finding] = []
        self.targets = list(self._find_targets())
        self.paths = list(dict.fromkeys(path for target in self.targets for path in target.files))
        folders = dict.fromkeys(path.parent for path in self.paths)
        roots = dict.fromkeys(find_import_root(folder / "x.py")[0] for folder in folders)
        self.library = Library([*roots, *folders, *(one.label for one in self.targets if one.is_folder)])
        self.resolver = Resolver(self.library)
        self.patterns = Patterns(self.resolver, self.findings)
        self.maker = ToolMaker(self.resolver, self.patterns)
        self.files: dict[Path, SourceFile] = {}
        self.imported: dict[Path, list[Path]] = {}
        self._read()

    def _find_targets(self) -> Iterator[ScanTarget]:
        file = self.config.file
        for text in self.config.targets:
            try:
                target = find_target(text, [str(file.resolve().parent)] if file is not None else [])
            except SourceError as error:
                if file is None:
                    raise
                line = self.config.lines.get("server.targets")
                self.findings.append(replace(error.finding, file=str(file), line=line))
            else:
                self.findings += target.findings
                yield target

    # --- reading files ---

    def _read(self) -> None:
        wanted = {path for target in self.targets if not target.is_folder for path in target.files[:1]}
        skipped = []
        for position, path in enumerate(self.paths):
            self.progress("files", position, len(self.paths))
            if path in wanted or self.library.mentions_tools(path):
                self._open(path)
            else:
                skipped.append(path)
        # A file may use a server, or an application, without any word that gives it away.
        names = {name.encode() for file in self.resolver.files for name in self._registering(file)}
        for path in skipped if names else ():
            if not names.isdisjoint(re.findall(rb"\w+", read_words(path) or b"")):
                self._open(path)
        files = list(self.files.values())
        for position, file in enumerate(files):
            self.progress("modules", position, len(files))
            self.patterns.find_decorated(file)
        for file in files:
            self.patterns.find_called(file)
        self.maker.find_gaps()

    def _open(self, path: Path) -> None:
        """Survey a file, and the files that it imports if they could hold tools."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            if path in self.files:
                continue
            try:
                file = self.library.file(path)
            except SourceError as error:
                self.findings.append(error.finding)
                continue
            self.files[path] = file
            self.resolver.files.append(file)
            others = {other for item in file.imports for other in self.library.imported(item, file)}
            self.imported[path] = sorted(filter(self.library.mentions_tools, others))
            waiting += self.imported[path]

    def _registering(self, file: SourceFile) -> Iterator[str]:
        """Yield the names of servers and of the author's own decorators in a file."""
        for name, binding in _last_bindings(file):
            thing = UNKNOWN
            if binding.kind in ("function", "value"):
                thing = self.resolver.bound(binding, file.scope)
            is_alias = isinstance(binding.value, ast.Attribute) and last_name(binding.value) in KINDS
            is_own = isinstance(thing, Function) and self.patterns.own_kind(thing, name)
            if is_alias or is_own or isinstance(thing, Server) or getattr(thing, "name", "") in MARKS:
                yield name

    # --- what importing would find ---

    def _groups(self) -> Iterator[Group]:
        files: dict[SourceFile, None] = {}
        for target in self.targets:
            if target.described is not None:
                batch = collect(target.described)
                self.findings += batch.findings
                yield Group(None, batch.tools)
            elif target.name:
                yield from self._object(target)
            else:
                files |= {self.files[path]: None for path in target.files if path in self.files}
        yield from self._modules(list(files))

    def _modules(self, files: Sequence[SourceFile]) -> Iterator[Group]:
        """Yield the tools of files, and those on servers in the files that they import."""
        reached = self._reach(files)
        servers = [
            server
            for server in self.resolver.servers.values()
            if server.file in files or any(item.spot.scope.file in reached for item in server.registrations)
        ]
        ours = [item.thing for each in servers if each.library == "toolcrib" for item in each.registrations]
        objects = [self.resolver.instance(item) if isinstance(item, Class) else item for item in ours]
        owned = [item for item in objects if isinstance(item, Instance)]
        owned_handlers = {file: self._table(file, HANDLER_TABLE) or {} for file in files}
        handlers = {name: each for several in owned_handlers.values() for name, each in several.items()}
        options = ReadOptions(lambda target, _: collect(target))
        for file in files:
            batch = self._each([thing for thing in self._offered(file) if thing not in owned], file)
            for name in DEFINITION_TABLES:
                if (table := self._table(file, name)) is not None:
                    batch.extend(tables.read_table(table, handlers, str(file.path)).make_tools(options))
            group = self._table(file, GROUP)
            for each in (Group(None, batch.tools), *self._on(item for item in servers if item.file is file)):
                each.tools = [
                    tool.with_options(group=group) if group and not tool.options.group else tool
                    for tool in each.tools
                ]
                yield each
            self.findings += batch.findings
        yield from self._on(server for server in servers if server.file not in files)
        if not any(finding.code == "guessed-table" for finding in self.findings):
            for file, own in owned_handlers.items():
                self.findings += tables.find_unused(own, options.used_handlers, str(file.path))
        for file in reached:
            found = [self.maker.read_record(*record) for record in self.patterns.records.get(file, ())]
            first: dict[tuple[str, str], Component] = {}
            for tool in filter(None, found):
                first.setdefault((tool.kind, tool.name), tool)
            for kind in ("tool", "prompt"):
                yield Group(None, [tool for tool in first.values() if tool.kind == kind])

    def _reach(self, files: Sequence[SourceFile]) -> dict[SourceFile, None]:
        """Return some files, and those that they import."""
        found: dict[SourceFile, None] = {}
        waiting = list(reversed(files))
        while waiting:
            file = waiting.pop()
            if file not in found:
                found[file] = None
                waiting += [self.files[path] for path in self.imported[file.path] if path in self.files]
        return found

    def _offered(self, file: SourceFile) -> list[Thing]:
        """Return what a file offers itself: marked functions, applications, tool objects."""
        found: dict[Thing, None] = {}
        public = file.public_names if "__all__" in file.scope.names else frozenset()
        classes: dict[Thing, None] = {}
        for name, binding in _last_bindings(file):
            is_imported = binding.kind in ("import", "from")
            if name in _TABLES or name.startswith("__") or (is_imported and name not in public):
                continue
            if binding.kind == "function" and id(binding.node) not in self.patterns.marks:
                continue
            match self.resolver.attribute(Module(file), name):
                case Class() as cls:
                    if cls.file is file and is_complete(self.maker, cls):
                        classes[self.resolver.instance(cls)] = None
                case Function() as thing if id(thing.node) in self.patterns.marks:
                    found[thing] = None
                case Instance(cls=cls) as thing if holds_tools(self.maker, cls):
                    found[thing] = None
                case Known(call=Arguments()) as thing if thing.package == "toolcrib":
                    found[thing] = None
        for node in self.patterns.marked.get(file, ()):
            scope = file.spots[id(node)].scope
            if scope.kind == "function" and isinstance(node, FUNCTIONS):
                found[self.resolver.function(node, scope)] = None
        return list(found | classes)

    def _table(self, file: SourceFile, name: str) -> Any:
        if name not in file.scope.names:
            return None
        node = ast.Name(name, ast.Load(), lineno=10**9, col_offset=0)
        value = read_table(self.maker, name, Data(node, file.scope))
        if name == HANDLER_TABLE and value is not None and not isinstance(value, dict):
            text = f"{HANDLER_TABLE} of {file.path.name} is not a dict"
            self.findings.append(Finding("table-mismatch", "error", text, file=str(file.path)))
            return None
        return value

    def _each(self, things: Iterable[Thing], file: SourceFile) -> Batch:
        batch = Batch()
        for thing in things:
            try:
                made = self.maker.make(thing)
                if isinstance(made, FunctionType):  # as `collect` does, which takes longer
                    batch.tools.append(Tool.from_function(made))
                elif made is not None:
                    batch.extend(collect(made))
            except Exception as error:  # the source may hold values of any type
                found = finding_of(thing, error)
                batch.findings.append(placed(found, file, getattr(thing, "line", None)))
        return batch

    def _on(self, servers: Iterable[Server]) -> Iterator[Group]:
        """Yield the tools of servers, their resources and their prompts: each have names of their own."""
        for server in servers:
            yield Group(server, list(self.maker.tools_of(server)))
            for kind in ("resource", "prompt"):
                yield Group(server, list(self.maker.features_of(server, kind)))

    def _object(self, target: ScanTarget) -> Iterator[Group]:
        """`file.py:name`; dots reach into it."""
        for file in [self.files[path] for path in target.files[:1] if path in self.files]:
            thing: Thing = Module(file)
            for part in target.name.split("."):
                if isinstance(thing, Module) and part not in thing.file.scope.names:
                    raise SourceError(f"There is no '{target.name}' in {target.label.rpartition(':')[0]}")
                thing = self.resolver.attribute(thing, part)
            if isinstance(thing, Server):
                yield from self._on([thing])
                continue
            batch = self._each([thing], file)
            self.findings += batch.findings
            if not batch.tools and not batch.findings:
                words = f"{target.label} cannot be told without running the code"
                self.findings.append(Finding("unresolved-tool", "error", words, file=str(file.path)))
            yield Group(None, batch.tools)

    # --- tools ---

    def scan(self, result: Scan) -> None:
        """Add the tools of all targets, built, and what is to be said about them."""
        groups = [group for group in self._groups() if group.tools]
        self._report_empty([tool.source.file for group in groups for tool in group.tools])
        groups = self._choose(groups)
        order = {str(path): position for position, path in enumerate(self.paths)}

        def place_of(entry: tuple[Component, bool, Group]) -> tuple[int, str, int]:
            source = entry[0].source
            return order.get(source.file or "", len(order)), source.file or "", source.line or 0

        entries = [(tool, is_listed, group) for group in groups for tool, is_listed in self._register(group)]
        entries.sort(key=place_of)
        for position, (tool, is_listed, group) in enumerate(entries):
            self.progress("tools", position, len(entries))
            note = self.maker.note(tool.origin)
            result.findings += [replace(finding, tool=tool.name) for finding in note.findings]
            try:
                tool.check_definition()
            except Exception as error:  # the source may hold values of any type
                found = finding_of(tool, error)
                place = replace(found, tool=tool.name, file=tool.source.file, line=tool.source.line)
                result.findings.append(found if isinstance(error, DefinitionError) else place)
                continue
            if tool.long_name is not None:
                result.findings += report_shortened(tool)
            result.findings += tool.findings
            if group.server is not None:
                result.servers[id(tool)] = group.server.label
            listed = result.tools if tool.kind == "tool" else result.features
            (listed if is_listed else result.unlisted).append(tool)
        result.findings = list(dict.fromkeys([*self.findings, *result.findings]))
        result.files = list(dict.fromkeys([*result.files, *self.paths]))
        result.read = list(dict.fromkeys([*result.read, *self.library.files]))
        self.library.forget()

    def _choose(self, groups: list[Group]) -> list[Group]:
        """Return the groups with the tools that the configuration selects, each once."""
        config = self.config
        seen: dict[Any, Component] = {}
        for group in groups:
            if config.namespace is not None or config.switches:
                changed = collect(group.tools, namespace=config.namespace, switches=config.switches)
                group.tools = changed.everything
            origins = [self.maker.note(tool.origin).key or id(tool.origin) for tool in group.tools]
            keyed = zip(origins, group.tools, strict=True)
            group.tools = [
                tool
                for origin, tool in keyed
                if seen.setdefault((origin, tool.reference, tool.version), tool) is tool
            ]
        chosen, findings = config.choose([tool for group in groups for tool in group.tools])
        self.findings += findings
        kept = set(map(id, chosen))
        for group in groups:
            group.tools = [tool for tool in group.tools if id(tool) in kept]
        return [group for group in groups if group.tools]

    def _register(self, group: Group) -> Iterator[tuple[Component, bool]]:
        """Yield the tools of a group under the names they would have, and whether each is listed."""
        kind, server = group.tools[0].kind, group.server
        library = "" if server is None else self.maker.library_of(server)
        rules: dict[str, Any] = {"name_rule": URI} if kind == "resource" else {}
        if server is not None and library == "toolcrib" and kind != "resource":
            rules = {key: each for key, each in self.maker.settings(server).items() if key != "switches"}
        elif kind == "prompt":
            rules = {"name_rule": _ANY_NAME}
        try:
            registry = ToolRegistry(**rules)
        except ValueError as error:
            self.findings.append(finding_of(server, error))
            registry = ToolRegistry()
        spots: dict[Any, Spot | None] = {}
        for tool in reversed(group.tools) if library == "fastmcp" else group.tools:  # the last one counts
            spot, key = self.maker.note(tool.origin).spot, (tool.name, tool.version)
            other = spots.get(key)
            if key not in spots or other is None or spot is None or other.meets(spot):
                spots.setdefault(key, spot)
                self.findings += registry.add_all([tool]).findings
        listed = set(map(id, registry.get_all()))
        for entry in registry.entries():
            yield entry.tool, id(entry.tool) in listed

    def _report_empty(self, places: Sequence[str | None]) -> None:
        """Report targets of which there are no tools and no findings: the likely reason, and what to do."""
        touched = {*places, *(finding.file for finding in self.findings)}
        looked = "looked for @tool, @server.tool, applications, tool objects and TOOL_DEFINITIONS"
        for target in self.targets if None not in touched else ():
            files = [self.files[path] for path in target.files if path in self.files]
            reached = [*target.files, *(file.path for file in self._reach(files))]
            if target.described is not None or not touched.isdisjoint(map(str, reached)):
                continue
            path = target.files[0] if len(target.files) == 1 else None
            code, text, hint = (
                "no-tools",
                f"{target.label} has no tools: {looked}",
                "mark functions with @tool",
            )
            if path is not None:
                self._open(path)
                bindings = _last_bindings(self.files[path]) if path in self.files else ()
                functions = [name for name, item in bindings if item.kind == "function" and name[0] != "_"]
                if functions:
                    count = f"{len(functions)} function{'s' * (len(functions) > 1)}"
                    code, text = "no-marked-tools", f"{count} found, none marked: {looked}"
                    hint = f"add @tool, or name one, {path.name}:{functions[0]}"
            self.findings.append(
                Finding(code, "error", text, file=None if path is None else str(path), hint=hint)
            )


def _last_bindings(file: SourceFile) -> list[tuple[str, Binding]]:
    """Return the names of a module with the binding that counts, unless they are deleted in the end."""
    last = [(name, bindings[-1]) for name, bindings in file.scope.names.items()]
    return [(name, binding) for name, binding in last if not isinstance(binding.node, ast.Delete)]


@dataclass(slots=True)
class Scan:
    """The result of a scan. `tools` can all be listed; `unlisted` are off, or older versions. `files` are
    those of the targets, in order; `read` are all that were looked into. `servers` are the names of the
    servers that the tools are on, by the ids of the tools. `features` are resources and prompts."""

    tools: list[Component] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unlisted: list[Component] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)
    servers: dict[int, str] = field(default_factory=dict)
    features: list[Component] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]


def scan(*targets: str | os.PathLike[str], progress: Progress | None = None) -> Scan:
    """The tools in source files, without importing or running any of them.

    A target is a file, a folder, a module name, `file.py:name`, `module:name`, a descriptor or a
    toolcrib.toml; none is the toolcrib.toml here. Raises SourceError where a target is not there,
    ConfigurationError where a toolcrib.toml is wrong; what is wrong with a file or a tool is a finding.
    """
    for target in list[Any](targets):  # callers without a type checker
        if not isinstance(target, str | os.PathLike) or isinstance(os.fspath(target), bytes):
            hint = "scan(*targets)" if isinstance(target, list | tuple | set) else "give text or a Path"
            raise TypeError(f"A target is the name of a file or module, not {type(target).__name__}: {hint}")
    named = [os.fspath(target) for target in targets or [default_target()]]
    settings = [text for text in named if parse_target(text).kind == "settings"]
    for text in settings:
        parse_target(text).check_exists()
    configs = [load_config(Path(text), os.environ) for text in settings]
    sources = tuple(text for text in named if text not in settings)
    if sources:
        configs.append(Config(targets=sources, switches=switches_from(os.environ)))
    was_collecting = gc.isenabled()
    gc.disable()  # trees are many objects and no garbage: looking for some doubles the time
    result = Scan()
    try:
        with imports_forbidden():
            for config in configs:
                _Scanner(config, progress or (lambda *_: None)).scan(result)
    finally:
        if was_collecting:
            gc.enable()
    return result
