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
from types import FunctionType, ModuleType
from typing import Any

from toolcrib.component import Component, Tool
from toolcrib.config import Config, load_config, switches_from
from toolcrib.errors import DefinitionError, Finding, Level, SourceError
from toolcrib.names import URI, NameRule
from toolcrib.registry.index import report_shortened
from toolcrib.registry.registry import ToolRegistry, finding_of
from toolcrib.sources import collect, tables
from toolcrib.sources.base import Batch, ReadOptions
from toolcrib.sources.loading import find_import_root, imports_forbidden
from toolcrib.sources.modules import GROUP
from toolcrib.sources.scan.files import Library, ScanTarget, find_target
from toolcrib.sources.scan.foreign import find_gaps, library_of, read_record
from toolcrib.sources.scan.making import ToolMaker, is_application, is_complete, is_tool_object, read_table
from toolcrib.sources.scan.names import public_names
from toolcrib.sources.scan.patterns import KINDS, Patterns, last_name, placed
from toolcrib.sources.scan.resolve import MARKS, Resolver
from toolcrib.sources.scan.resources import read_features
from toolcrib.sources.scan.source_file import FUNCTIONS, Binding, SourceFile
from toolcrib.sources.scan.things import Class, Data, Function, Instance, Known, Module, Server, Thing
from toolcrib.sources.source_text import read_words
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE, add_locations
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
    """The files of all targets, surveyed; and what importing each target would find."""

    def __init__(self, targets: Sequence[str | os.PathLike[str]], progress: Progress) -> None:
        self.progress = progress
        self.findings: list[Finding] = []
        self.plans = [(config, self._find_targets(config)) for config in self._configs(targets)]
        self.targets = [target for _, several in self.plans for target in several]
        self.paths = list(dict.fromkeys(path for target in self.targets for path in target.files))
        folders = dict.fromkeys(path.parent for path in self.paths)
        roots = dict.fromkeys(find_import_root(folder / "x.py")[0] for folder in folders)
        self.library = Library([*roots, *folders, *(one.label for one in self.targets if one.is_folder)])
        self.resolver = Resolver(self.library)
        self.patterns = Patterns(self.resolver, self.findings)
        self.maker = ToolMaker(self.resolver, self.patterns)
        self.files: dict[Path, SourceFile] = {}
        self.imported: dict[Path, list[Path]] = {}
        self._claimed: set[Any] = set()
        self._read()
        self._has_findings = bool(self.findings)

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
        names, homes = self._words()
        for path in skipped:
            words = set(re.findall(rb"\w+", read_words(path) or b"")) if names else set()
            if not names.isdisjoint(words) and not homes.isdisjoint(words):
                self._open(path)
        files = list(self.files.values())
        for position, file in enumerate(files):
            self.progress("modules", position, len(files))
            self.patterns.find_decorated(file)
        for find in (self.patterns.find_called, self.patterns.find_changes):
            for file in files:
                find(file)
        find_gaps(self.maker, self.patterns.listers)

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

    def _words(self) -> tuple[set[bytes], set[bytes]]:
        """Return the names of servers and of what registers, and the modules that hold them."""
        names, homes = set[str](), set[str]()
        for file in self.resolver.files:
            found = {name for name, binding in _last_bindings(file) if self._registers(file, name, binding)}
            names |= found
            if found:
                homes.add("import" if file.path.stem == "__init__" else file.path.stem)
        return {name.encode() for name in names}, {home.encode() for home in homes}

    def _registers(self, file: SourceFile, name: str, binding: Binding) -> bool:
        if isinstance(binding.value, ast.Attribute) and last_name(binding.value) in KINDS:
            return True
        if binding.kind in ("import", "from", "unknown") or isinstance(binding.value, ast.Constant):
            return False
        thing = self.resolver.bound(binding, file.scope)
        if isinstance(thing, Function):
            return bool(self.patterns.own_kind(thing, name))
        thing = self.resolver.instance(thing) if isinstance(thing, Class) else thing
        return self._lists(thing) or isinstance(thing, Server) or getattr(thing, "name", "") in MARKS

    def _lists(self, thing: Thing) -> bool:
        if isinstance(thing, Instance):
            return is_application(self.maker, thing.cls) or is_tool_object(self.maker, thing.cls)
        return False

    # --- what importing would find ---

    def _take(self, target: ScanTarget) -> list[Group]:
        """Return the tools of a target."""
        if target.described is not None:
            batch = collect(target.described)
            self.findings += batch.findings
            return [Group(None, batch.tools)]
        before = len(self.findings)
        files = [self.files[path] for path in target.files if path in self.files]
        groups = self._object(target, files) if target.name else self._modules(files)
        has_any = any(group.tools for group in groups) or len(self.findings) > before
        if not has_any and not self._has_findings:
            for path in [] if files else target.files[:10]:  # for functions that could be tools
                self._open(path)
            files = [self.files[path] for path in target.files if path in self.files]
            self.findings.append(_report_nothing(target, files))
        return groups

    def _modules(self, files: Sequence[SourceFile]) -> list[Group]:
        reached = self._reach(files)
        servers = [server for server in self.resolver.servers.values() if server not in self._claimed]
        servers = [
            server
            for server in servers
            if any(item.spot.scope.file in reached for item in server.registrations)
        ]
        servers += [server for file in files for server in self._servers_in(file) if server not in servers]
        self._claimed.update(servers)
        ours = [item.thing for each in servers if each.library == "toolcrib" for item in each.registrations]
        owned = {self.resolver.instance(thing) if isinstance(thing, Class) else thing for thing in ours}
        owned = {thing for thing in owned if isinstance(thing, Instance)}
        handlers = {
            name: each for file in files for name, each in self._table(file, HANDLER_TABLE, {}).items()
        }
        options = ReadOptions(lambda target, _: collect(target))
        groups: list[Group] = []
        for file in files:
            batch = self._each([thing for thing in self._offered(file) if thing not in owned], file)
            for name in DEFINITION_TABLES:
                if (table := self._table(file, name, None)) is not None:
                    batch.extend(tables.read_table(table, handlers).make_tools(options))
            self.findings += _located(batch.findings, files)
            own = [
                Group(server, tools)
                for server in servers
                if server.file is file
                for tools in self._tools_of(server)
            ]
            if (name := self._table(file, GROUP, None)) is not None:
                for group in (grouped := [*own, Group(None, batch.tools)]):
                    group.tools = [
                        tool if tool.options.group else tool.with_options(group=name) for tool in group.tools
                    ]
                groups += grouped
            else:
                groups += [Group(None, batch.tools), *own]
        groups += [
            Group(server, tools)
            for server in servers
            if server.file not in files
            for tools in self._tools_of(server)
        ]
        if not any(finding.code == "guessed-table" for finding in self.findings):
            self.findings += _located(tables.find_unused(handlers, options.used_handlers), files)
        return groups + [group for file in reached for group in self._recorded(file)]

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

    def _recorded(self, file: SourceFile) -> Iterator[Group]:
        """Yield the tools, and the prompts, of a server that lists them itself."""
        records = self.patterns.records.get(file, ()) if file not in self._claimed else ()
        self._claimed.add(file)
        found: dict[tuple[str, str], Component] = {}
        for record in records:
            if id(record.node.keywords) not in self.maker.read_records:
                tool = read_record(self.maker, record)
                if tool is not None:
                    found.setdefault((tool.kind, tool.name), tool)
        for kind in ("tool", "prompt"):
            yield Group(None, [tool for tool in found.values() if tool.kind == kind])

    def _servers_in(self, file: SourceFile) -> Iterator[Server]:
        for _, binding in _last_bindings(file):
            if binding.kind == "value" and isinstance(binding.value, ast.Call | ast.Name):
                thing = self.resolver.bound(binding, file.scope)
                if isinstance(thing, Server) and thing not in self._claimed:
                    yield thing

    def _offered(self, file: SourceFile) -> list[Thing]:
        """Return what a file offers itself: marked functions, applications, tool objects."""
        found: dict[Thing, None] = {}
        public = public_names(file) if "__all__" in file.scope.names else frozenset()
        classes: dict[Thing, None] = {}
        for name, binding in _last_bindings(file):
            is_imported = binding.kind in ("import", "from")
            if name in _TABLES or name.startswith("__") or (is_imported and name not in public):
                continue
            if binding.kind == "function" and id(binding.node) not in self.patterns.marks:
                continue
            thing = self.resolver.attribute(Module(file), name)
            if isinstance(thing, Class):
                if thing.file is file and is_complete(self.maker, thing):
                    classes[self.resolver.instance(thing)] = None
            elif isinstance(thing, Function):
                found |= {thing: None} if id(thing.node) in self.patterns.marks else {}
            elif self._lists(thing) or (
                isinstance(thing, Known) and thing.call is not None and thing.package == "toolcrib"
            ):
                found[thing] = None
        for node in self.patterns.marked.get(file, ()):
            scope = file.spots[id(node)].scope
            if scope.function is not None and isinstance(node, FUNCTIONS) and scope.kind == "function":
                found[self.resolver.function(node, scope)] = None
        return list(found | classes)

    def _table(self, file: SourceFile, name: str, default: Any) -> Any:
        if name not in file.scope.names:
            return default
        node = ast.Name(name, ast.Load(), lineno=10**9, col_offset=0)
        value = read_table(self.maker, name, Data(node, file.scope))
        if name == HANDLER_TABLE and value is not None and not isinstance(value, dict):
            text = f"{HANDLER_TABLE} of {file.path.name} is not a dict"
            self.findings.append(Finding("table-mismatch", "error", text, file=str(file.path)))
            return default
        return default if value is None else value

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

    def _tools_of(self, server: Server) -> list[list[Component]]:
        """Return the tools of a server, its resources and its prompts: each have names of their own."""
        batch = self._each([server], server.file)
        self.findings += batch.findings
        features = (list(read_features(self.maker, server, kind)) for kind in ("resource", "prompt"))
        return [tools for tools in (batch.tools, *features) if tools]

    def _object(self, target: ScanTarget, files: Sequence[SourceFile]) -> list[Group]:
        """`file.py:name`; dots reach into it."""
        for file in files[:1]:
            thing: Thing = Module(file)
            for part in target.name.split("."):
                if isinstance(thing, Module) and part not in thing.file.scope.names:
                    raise SourceError(f"There is no '{target.name}' in {target.label.rpartition(':')[0]}")
                thing = self.resolver.attribute(thing, part)
            if isinstance(thing, Server):
                return [Group(thing, tools) for tools in self._tools_of(thing)]
            batch = self._each([thing], file)
            self.findings += batch.findings
            if not batch.tools and not batch.findings:
                words = f"{target.label} cannot be told without running the code"
                self.findings.append(Finding("unresolved-tool", "error", words, file=str(file.path)))
            return [Group(None, batch.tools)]
        return []

    # --- tools ---

    def _make_registry(self, group: Group) -> ToolRegistry:
        """Return a registry with the rules of a group's server, or of the one that the targets name."""
        server, kind = group.server, group.tools[0].kind
        if kind == "resource":
            return ToolRegistry(name_rule=URI)
        if server is None or library_of(self.maker, server) != "toolcrib":
            if kind == "prompt":
                return ToolRegistry(name_rule=_ANY_NAME)
            named = [path for each in self.targets if not each.is_folder for path in each.files[:1]]
            files = [self.files[path] for path in named if path in self.files]
            found = {item for file in files for item in self._servers_in_all(file)}
            server = next(iter(found)) if len(found) == 1 else None
        if server is None:
            return ToolRegistry()
        rules = self.maker.registry(server)
        return ToolRegistry(name_rule=rules.rule, separator=rules.separator)

    def _servers_in_all(self, file: SourceFile) -> Iterator[Server]:
        for server in self.resolver.servers.values():
            if server.file is file and server.library == "toolcrib" and server.call is not None:
                yield server

    def scan(self) -> Scan:
        """Return the tools of all targets, built, and what is to be said about them."""
        result = Scan(files=self.paths, findings=self.findings)
        groups = [group for config, several in self.plans for group in self._choose(config, several)]
        order = {str(path): position for position, path in enumerate(self.paths)}

        def place_of(entry: tuple[Component, bool, str | None]) -> tuple[int, str, int]:
            source = entry[0].source
            return order.get(source.file or "", len(order)), source.file or "", source.line or 0

        entries = [
            (tool, is_listed, group.server.label if group.server is not None else None)
            for group in self._without_repeats(groups)
            for tool, is_listed in self._register(group)
        ]
        entries.sort(key=place_of)
        for position, (tool, is_listed, label) in enumerate(entries):
            self.progress("tools", position, len(entries))
            note = self.maker.note(tool.origin)
            result.findings += [replace(finding, tool=tool.name) for finding in note.findings]
            try:
                tool.check_definition()
            except DefinitionError as error:
                result.findings.append(error.finding)
                continue
            except Exception as error:  # the source may hold values of any type
                words = f"Tool '{tool.name}' cannot be read: {type(error).__name__}: {error}"
                result.findings.append(_about(tool, "unreadable-tool", "error", words))
                continue
            if tool.long_name is not None:
                result.findings += report_shortened(tool)
            result.findings += tool.findings
            if label is not None:
                result.servers[id(tool)] = label
            listed = result.tools if tool.kind == "tool" else result.features
            (listed if is_listed else result.unlisted).append(tool)
        result.findings = list(dict.fromkeys(result.findings))
        result.read = list(self.library.files)
        self.library.forget()
        return result

    def _without_repeats(self, groups: list[Group]) -> list[Group]:
        """Return the groups with each tool once, even if it was found through two targets."""
        seen: set[Any] = set()
        for group in groups:
            kept: dict[Any, Component] = {}
            for tool in group.tools:
                origin = self.maker.note(tool.origin).key or (id(tool.origin),)
                kept.setdefault(
                    (origin, tool.reference, tool.version), tool
                )  # reachable in two ways: written once
            group.tools = [tool for key, tool in kept.items() if key not in seen]
            seen |= kept.keys()
        return groups

    # --- targets ---

    def _configs(self, targets: Sequence[str | os.PathLike[str]]) -> Iterator[Config]:
        """One configuration for each target; a target that is no file of settings gets one of its own."""
        switches = switches_from(os.environ)
        for target in targets or [default_target()]:
            text = os.fspath(target)
            if parse_target(text).kind != "settings":
                yield Config(targets=(text,), switches=switches)
            elif not os.path.isfile(text):
                raise SourceError(f"There is no file {text}")
            else:
                config = load_config(Path(text), os.environ)
                yield config

    def _find_targets(self, config: Config) -> list[ScanTarget]:
        search = [str(config.file.resolve().parent)] if config.file is not None else []
        parsed = []
        for target in config.targets:
            try:
                parsed.append(find_target(target, search))
            except SourceError as error:
                if config.file is None:
                    raise
                line = config.lines.get("server.targets")
                self.findings.append(replace(error.finding, file=str(config.file), line=line))
        self.findings += [finding for target in parsed for finding in target.findings]
        return parsed

    def _choose(self, config: Config, parsed: Iterable[ScanTarget]) -> list[Group]:
        groups: list[Group] = []
        for target in parsed:
            taken = self._take(target)
            for group in taken:
                if group.tools and (config.namespace is not None or config.switches):
                    changed = collect(group.tools, namespace=config.namespace, switches=config.switches)
                    group.tools = changed.everything
            groups += taken
        chosen, findings = config.choose([tool for group in groups for tool in group.tools])
        self.findings += findings
        kept = set(map(id, chosen))
        for group in groups:
            group.tools = [tool for tool in group.tools if id(tool) in kept]
        return groups

    # --- names ---

    def _register(self, group: Group) -> Iterator[tuple[Component, bool]]:
        """Yield the tools of a group under the names they would have, and whether each is listed."""
        if not group.tools:
            return
        registry = self._make_registry(group)
        for tool in group.tools:
            spot = self.maker.note(tool.origin).spot
            # Of two that may exclude each other, one is enough.
            if spot is None or spot.is_certain or tool.name not in registry:
                self.findings += registry.add_all([tool]).findings
        listed = set(map(id, registry.get_all()))
        for entry in registry.entries():
            yield entry.tool, id(entry.tool) in listed


def _last_bindings(file: SourceFile) -> list[tuple[str, Binding]]:
    """Return the names of a module with the binding that counts, unless they are deleted in the end."""
    last = [(name, bindings[-1]) for name, bindings in file.scope.names.items()]
    return [(name, binding) for name, binding in last if not isinstance(binding.node, ast.Delete)]


def _located(findings: Sequence[Finding], files: Sequence[SourceFile]) -> list[Finding]:
    """Return findings about entries of tables with the lines that name them."""
    if all(finding.file is not None for finding in findings):
        return list(findings)
    modules = [ModuleType(file.name) for file in files]
    for module, file in zip(modules, files, strict=True):
        module.__dict__.update(dict.fromkeys(file.scope.names), __file__=str(file.path))
    return add_locations(findings, modules)


def _report_nothing(target: ScanTarget, files: Sequence[SourceFile]) -> Finding:
    """Return a finding about files without tools: the likely reason, and what to do."""
    functions = [
        (file, name)
        for file in files
        for name, binding in _last_bindings(file)
        if binding.kind == "function" and not name.startswith("_")
    ]
    looked = "looked for @tool, @server.tool, applications, tool objects and TOOL_DEFINITIONS"
    if not functions:
        place = str(target.files[0]) if len(target.files) == 1 else None
        words = f"{target.label} has no tools: {looked} in {_count(target.files, 'file')}"
        return Finding("no-tools", "error", words, file=place, hint="mark functions with @tool")
    file, first = functions[0]
    hint = f"add @tool, or name one, {file.path.name}:{first}"
    words = f"{_count(functions, 'function')} found, none marked: {looked}"
    return Finding("no-marked-tools", "error", words, file=str(file.path), hint=hint)


def _count(items: Sequence[Any], noun: str) -> str:
    return f"{len(items)} {noun}{'s' if len(items) != 1 else ''}"


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
    was_collecting = gc.isenabled()
    gc.disable()  # trees are many objects and no garbage: looking for some doubles the time
    try:
        with imports_forbidden():
            return _Scanner(targets, progress or (lambda *_: None)).scan()
    finally:
        if was_collecting:
            gc.enable()


def _about(tool: Component, code: str, level: Level, words: str, hint: str | None = None) -> Finding:
    return Finding(code, level, words, tool.name, None, tool.source.file, tool.source.line, hint)
