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

from toolcrib.config import Config, load_config, switches_from
from toolcrib.definition import URI
from toolcrib.errors import DefinitionError, Finding, Level, SourceError
from toolcrib.registry.index import report_shortened
from toolcrib.registry.registry import ToolRegistry, finding_of
from toolcrib.sources import collect, tables
from toolcrib.sources.base import Batch, ReadOptions
from toolcrib.sources.foreign.entry_point import find_start
from toolcrib.sources.loading import find_import_root, imports_forbidden
from toolcrib.sources.modules import GROUP
from toolcrib.sources.scan.features import read_features
from toolcrib.sources.scan.files import Library, ScanTarget, find_target
from toolcrib.sources.scan.foreign import is_uncertain
from toolcrib.sources.scan.making import ToolMaker, is_application, is_complete, is_tool_object, read_table
from toolcrib.sources.scan.names import public_names
from toolcrib.sources.scan.patterns import Patterns, placed
from toolcrib.sources.scan.resolve import MARKS, Resolver
from toolcrib.sources.scan.source_file import FUNCTIONS, Binding, Guess, SourceFile
from toolcrib.sources.scan.things import (
    Class,
    Data,
    Function,
    Instance,
    Known,
    Marker,
    Method,
    Module,
    Server,
    Thing,
)
from toolcrib.sources.source_text import read_words
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE, add_locations
from toolcrib.sources.targets import default_target, parse_target
from toolcrib.tool import Tool

Progress = Callable[[str, int, int], None]
"""Called with a step (`files`, `modules` or `tools`), how many of them are done, and how many there are."""
_TABLES = (GROUP, *DEFINITION_TABLES, HANDLER_TABLE)


@dataclass(eq=False, slots=True)
class Group:
    """Tools that share one list of names: those of a server, or those that a file offers itself."""

    server: Server | None
    tools: list[Tool]


@dataclass(slots=True)
class Content:
    """What a file holds: marked functions, objects and classes; servers; tables."""

    file: SourceFile
    things: list[Thing] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    handlers: dict[str, Any] = field(default_factory=dict)
    group: str | None = None


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
        self._claimed: set[Server] = set()
        self._offered: set[int] = set()
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
        done = -1
        while skipped and done < (done := len(self.files)):
            names, homes = self._words()
            for path in skipped:
                words = set(re.findall(rb"\w+", read_words(path) or b""))
                if not names.isdisjoint(words) and not homes.isdisjoint(words):
                    self._open(path)
            skipped = [path for path in skipped if path not in self.files]
        for position, file in enumerate(self.resolver.files):  # others are added meanwhile
            self.files[file.path] = file
            self.progress("modules", position, len(self.resolver.files))
            self.patterns.find(file)
        for server in self.resolver.servers.values():  # in the order in which they run, nearly
            server.registrations.sort(key=lambda item: (item.call.file.name, item.call.line))
        for path in self.paths:
            if path in self.files:
                self._report_start(self.files[path])

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
            self.resolver.add(file)
            others = {other for item in file.imports for other in self.library.imported(item, file)}
            waiting += sorted(filter(self.library.mentions_tools, others - self.files.keys()))

    def _words(self) -> tuple[set[bytes], set[bytes]]:
        """Return the names of servers, of classes with tools and of functions that register tools, and words
        of which one is in each file that imports them."""
        names: set[str] = set()
        homes: set[str] = set()
        for file in self.resolver.files:
            calls = [(item, at) for node, at in file.decorated for item in node.decorator_list]
            adding = {"add", *_REGISTERING} if "toolcrib" in file.text else _REGISTERING
            found: set[str] = set()
            for node, at in (*calls, *(at[:2] for at in file.calls)):
                if at.function and getattr(getattr(node, "func", node), "attr", "") in adding:
                    found.add(at.function.name)
            classes = [(node.name, self.resolver.cls(node, at.scope)) for node, at in file.classes]
            things = [(name, self.resolver.instance(cls)) for name, cls in classes]
            for name, item in _last_bindings(file):
                if isinstance(item.value, ast.Attribute | ast.Call | ast.Name):
                    things.append((name, self.resolver.resolve(item.value, file.scope)))
            found |= {name for name, thing in things if self._holds_tools(thing)}
            names |= found
            if found:
                homes.add("import" if file.path.stem == "__init__" else file.path.stem)
        return {name.encode() for name in names}, {home.encode() for home in homes}

    def _holds_tools(self, thing: Thing) -> bool:
        if isinstance(thing, Instance):
            return is_application(self.maker, thing.cls) or is_tool_object(self.maker, thing)
        return isinstance(thing, Server | Method | Marker) or getattr(thing, "name", "") in MARKS

    def _report_start(self, file: SourceFile) -> None:
        if file.path.name == "__main__.py" or ("run" not in file.text and file.text.isascii()):
            return  # it is there to be run; and every way to start a server has this in it
        line = find_start(file.tree)
        if line is not None:
            words = f"{file.path.name} starts its server when it is imported"
            hint = 'put it below `if __name__ == "__main__":`'
            self.patterns.report("starts-server", "warning", words, file.scope, line, hint)

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
        contents = [self._content(file) for file in files]
        every = [item.thing for server in self.resolver.servers.values() for item in server.registrations]
        self._offered |= {id(thing.node) for thing in every if isinstance(thing, Function)}
        for content in contents:
            content.things += self._marked_inside(content.file)
        servers = dict.fromkeys(server for content in contents for server in content.servers)
        self._claimed |= servers.keys()
        inner = {mount.server for server in servers for mount in server.mounts}
        # Not the classes whose object is on a server of toolcrib already:
        ours = [item.thing for each in servers if each.library == "toolcrib" for item in each.registrations]
        classes = [thing.cls if isinstance(thing, Instance) else thing for thing in ours]
        owned = {cls for cls in classes if isinstance(cls, Class) and is_application(self.maker, cls)}
        made = {thing.cls for content in contents for thing in content.things if isinstance(thing, Instance)}
        owned |= {cls for cls in made if self.maker.needs_arguments(cls)}
        handlers: dict[str, Any] = {}
        for content in contents:
            handlers |= content.handlers
        options = ReadOptions(lambda target, _: collect(target))
        groups: list[Group] = []
        for content in contents:
            batch = self._each([thing for thing in content.things if thing not in owned], content.file)
            for table in content.tables:
                batch.extend(tables.read_table(table, handlers).make_tools(options))
            self.findings += _located(batch.findings, files)
            own = [item for item in content.servers if item not in inner and servers.pop(item, 0) is None]
            found = [Group(None, batch.tools)]
            found += [group for server in own for group in self._groups_of(server, content.file)]
            for group in found if content.group is not None else ():
                group.tools = [
                    tool if tool.options.group is not None else tool.with_options(group=content.group)
                    for tool in group.tools
                ]
            groups += found
        if not any(finding.code == "guessed-table" for finding in self.findings):
            self.findings += _located(tables.find_unused(handlers, options.used_handlers), files)
        return [*groups, *self._servers_elsewhere(files)]

    def _content(self, file: SourceFile) -> Content:
        """Return everything in a file that is a tool or holds tools, in the order of its lines."""
        found = Content(file)
        self._find_tables(found)
        public = public_names(file) if "__all__" in file.scope.names else frozenset()
        instances: set[Class] = set()
        classes: dict[Class, None] = {}
        for name, binding in _last_bindings(file):
            if name in _TABLES or name.startswith("__"):
                continue
            thing = self._member(file, name, binding)
            is_imported = binding.kind in ("import", "from") and name not in public
            if isinstance(thing, Class):
                if thing.file is file and is_complete(self.maker, thing):
                    classes[thing] = None
            elif isinstance(thing, Server):
                found.servers.append(thing)
            elif thing is not None and not is_imported and self._is_offered(thing):
                found.things.append(thing)
                instances |= {thing.cls} if isinstance(thing, Instance) else set()
        found.things += [cls for cls in classes if cls not in instances]
        return found

    def _is_offered(self, thing: Thing) -> bool:
        """Return whether a name of a module that stands for this offers tools."""
        if isinstance(thing, Function):
            self._offered.add(id(thing.node))
            return id(thing.node) in self.patterns.marks
        if isinstance(thing, Instance):
            return is_application(self.maker, thing.cls) or is_tool_object(self.maker, thing)
        return isinstance(thing, Known) and thing.call is not None and thing.package == "toolcrib"

    def _member(self, file: SourceFile, name: str, binding: Binding) -> Thing | None:
        """Return what a name of a module stands for; names of files that are not surveyed are left alone."""
        if binding.kind == "function" and len(file.scope.names[name]) == 1:  # nearly always
            is_marked = id(binding.node) in self.patterns.marks
            return self.resolver.bound(binding, file.scope) if is_marked else None
        is_followed = binding.kind not in ("import", "from") or any(
            path in self.files for path in self.library.imported(binding.node, file)
        )
        return self.resolver.attribute(Module(file), name) if is_followed else None

    def _find_tables(self, found: Content) -> None:
        file = found.file
        for name in _TABLES:
            if name not in file.scope.names:
                continue
            node = ast.Name(name, ast.Load(), lineno=10**9, col_offset=0)
            value = read_table(self.maker, name, Data(node, file.scope))
            if name == GROUP:
                found.group = value
            elif name != HANDLER_TABLE:
                found.tables += [value] if value is not None else []
            elif isinstance(value, dict):
                found.handlers = value
            elif value is not None:
                words = f"{HANDLER_TABLE} must be a dict, got {type(value).__name__}"
                self.findings.append(Finding("table-mismatch", "error", words, file=str(file.path)))

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

    def _groups_of(self, server: Server, file: SourceFile) -> list[Group]:
        """Return the tools of a server, its resources and its prompts: each have names of their own."""
        batch = self._each([server], file)
        self.findings += batch.findings
        features = (list(read_features(self.maker, server, kind)) for kind in ("resource", "prompt"))
        return [Group(server, batch.tools), *(Group(server, tools) for tools in features if tools)]

    def _servers_elsewhere(self, files: Sequence[SourceFile]) -> list[Group]:
        """Return the tools on servers that no module holds: they come from elsewhere, or from a function."""
        groups: list[Group] = []
        for server in list(self.resolver.servers.values()):
            if server in self._claimed or not (
                server.registrations or server.features or server.listers or server.mounts
            ):
                continue
            sites = [item.call.file for item in (*server.registrations, *server.features)]
            sites += [handler.file for handler in server.listers]
            if any(site in files for site in (*sites, server.file)):
                self._claimed.add(server)
                is_held = server.call is not None and server.call.scope.kind == "module"
                if not is_held and not all(item.guesses for item in server.registrations):
                    words = "the server it is put on is not known here"
                    server.guesses.append(Guess("guessed-server", words))
                groups += self._groups_of(server, sites[0] if sites else files[0])
        return groups

    def _marked_inside(self, file: SourceFile) -> Iterator[Function]:
        """Yield marked functions inside functions, which are registered only if those are called."""
        for node in self.patterns.marked.get(file, ()):
            scope = file.spots[id(node)].scope
            if scope.kind == "function" and isinstance(node, FUNCTIONS) and id(node) not in self._offered:
                guess = Guess("guessed-call", f"it is registered when {scope.node.name}() is called")
                yield Function(node, scope, guesses=(guess,))

    def _object(self, target: ScanTarget, files: Sequence[SourceFile]) -> list[Group]:
        """`file.py:name`; dots reach into it."""
        for file in files[:1]:
            thing: Thing = Module(file)
            for part in target.name.split("."):
                if isinstance(thing, Module) and part not in thing.file.scope.names:
                    raise SourceError(f"There is no '{target.name}' in {target.label.rpartition(':')[0]}")
                thing = self.resolver.attribute(thing, part)
            if isinstance(thing, Server):
                return self._groups_of(thing, file)
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
        server = group.server
        if group.tools[0].kind == "resource":
            return ToolRegistry(name_rule=URI)
        if server is None or server.library != "toolcrib":
            named = [each for each in self.targets if not each.is_folder and not each.name]
            files = [self.files[path] for each in named for path in each.files[:1] if path in self.files]
            found = {item for file in files for item in self._content(file).servers if item.is_ours}
            server = next(iter(found)) if len(found) == 1 else None
        if server is None:
            return ToolRegistry()
        rules = self.maker.registry(server)
        return ToolRegistry(name_rule=rules.rule, separator=rules.separator)

    def scan(self) -> Scan:
        """Return the tools of all targets, built, and what is to be said about them."""
        result = Scan(files=self.paths, findings=self.findings)
        groups = [group for config, several in self.plans for group in self._choose(config, several)]
        order = {str(path): position for position, path in enumerate(self.paths)}

        def place_of(entry: tuple[Tool, bool, str | None]) -> tuple[int, int]:
            source = entry[0].source
            return order.get(source.file or "", len(order)), source.line or 0

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
            for code, words in note.guesses:
                text = f"{tool.label} is a guess: {words}"
                result.findings.append(_about(tool, code, "advice", text))
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
            kept: dict[Any, Tool] = {}
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

    def _register(self, group: Group) -> Iterator[tuple[Tool, bool]]:
        """Yield the tools of a group under the names they would have, and whether each is listed."""
        if not group.tools:
            return
        registry = self._make_registry(group)
        guessed = [tool for tool in group.tools if is_uncertain(self.maker.note(tool.origin).guesses)]
        certain = [tool for tool in group.tools if tool not in guessed]
        self.findings += registry.add_all(certain).findings
        for tool in guessed:
            # Of two that exclude each other, one is enough; a finding says that it depends.
            if tool.name not in registry:
                self.findings += registry.add_all([tool]).findings
        listed = set(map(id, registry.get_all()))
        for entry in registry.entries():
            yield entry.tool, id(entry.tool) in listed


_REGISTERING = {"add_tool", "list_tools", "prompt", "resource", "tool"}


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

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unlisted: list[Tool] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)
    servers: dict[int, str] = field(default_factory=dict)
    features: list[Tool] = field(default_factory=list)

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


def _about(tool: Tool, code: str, level: Level, words: str, hint: str | None = None) -> Finding:
    return Finding(code, level, words, tool.name, None, tool.source.file, tool.source.line, hint)
