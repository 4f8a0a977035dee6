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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from toolcrib.config import Config, load_config, switches_from
from toolcrib.errors import DefinitionError, Finding, SourceError
from toolcrib.registry.index import report_shortened
from toolcrib.registry.registry import ToolRegistry, finding_of
from toolcrib.registry.selection import drop_repeated
from toolcrib.sources import collect, tables
from toolcrib.sources.base import Batch
from toolcrib.sources.foreign.entry_point import find_start
from toolcrib.sources.loading import find_import_root, imports_forbidden
from toolcrib.sources.modules import GROUP
from toolcrib.sources.scan.files import Aim, Library, SourceFile, mentions_tools, take_aim
from toolcrib.sources.scan.holders import TableReader, is_application, is_complete, is_tool_object
from toolcrib.sources.scan.making import Workshop
from toolcrib.sources.scan.names import public_names
from toolcrib.sources.scan.patterns import Patterns
from toolcrib.sources.scan.resolve import Resolver
from toolcrib.sources.scan.scopes import Binding
from toolcrib.sources.scan.survey import Guess, survey
from toolcrib.sources.scan.things import UNKNOWN, Class, Function, Instance, Known, Module, Server, Thing
from toolcrib.sources.scan.values import Unresolved
from toolcrib.sources.source_text import check_compiles
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE, add_locations
from toolcrib.sources.targets import SAMPLES, default_target, parse_target
from toolcrib.tool import Tool

Progress = Callable[[str, int, int], None]
"""Gets a step (`files` or `tools`), how many of them are done, and how many there are."""
"""Called with the number of files read so far and of all files."""
_TABLES = frozenset({GROUP, HANDLER_TABLE, *DEFINITION_TABLES})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(eq=False, slots=True)
class Group:
    """Tools that share one list of names: those of a server, or those that a file offers itself."""

    label: str
    server: Server | None = None
    tools: list[Tool] = field(default_factory=list)


@dataclass(slots=True)
class Content:
    """What a file holds: marked functions, objects and classes; servers; tables."""

    file: SourceFile
    things: list[Thing] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    handlers: dict[str, Any] = field(default_factory=dict)
    group: str | None = None


class Reading:
    """The files of all targets, surveyed; and what importing each target would find."""

    def __init__(self, aims: Sequence[Aim], files: Sequence[Path], progress: Progress | None) -> None:
        folders = dict.fromkeys(path.parent for path in files)
        roots = list(dict.fromkeys(find_import_root(folder / "x.py")[0] for folder in folders))
        self.findings: list[Finding] = []
        self.library = Library([*roots, *folders])
        self.resolver = Resolver(self.library)
        self.workshop = Workshop(self.resolver, Patterns(self.resolver, self.findings))
        self.aims = aims
        self.files: dict[Path, SourceFile] = {}
        self._unreadable: set[Path] = set()
        self._seen: set[Path] = set()
        self._claimed: set[Server] = set()
        self._held: set[Server] = set()
        self._loose: set[int] = set()
        wanted = {path for aim in aims if not aim.is_folder for path in aim.files[:1]}
        self._read(files, wanted, progress)

    # --- reading files ---

    def _read(self, files: Sequence[Path], wanted: set[Path], progress: Progress | None) -> None:
        skipped = []
        for position, path in enumerate(files):
            if progress is not None:
                progress("files", position, len(files))
            if path in wanted or mentions_tools(path):
                self._open(path)
            elif not _is_empty(path):
                skipped.append(path)
        # A file may use a server, or an application, without any word that gives it away.
        while skipped and (words := self._words()) is not None:
            more = [path for path in skipped if mentions_tools(path, words)]
            skipped = [path for path in skipped if path not in more]
            for path in more:
                self._open(path)
            if not more:
                break
        for found in list(self.resolver.surveys.values()):
            self.workshop.patterns.find(found)
        for path in files:
            if path in self.files:
                self._report_start(self.files[path])
        for file in self.resolver.surveys:
            for thing in self._values(file):
                if isinstance(thing, Server):
                    self._held.add(thing)
        self.workshop.patterns.finish()

    def _open(self, path: Path) -> None:
        """Survey a file, and the files that it imports if they could hold tools."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            if path in self.files or path in self._unreadable:
                continue
            try:
                file = self.library.file(path)
                found = survey(file)
                if found.is_suspect:
                    check_compiles(file.text, path)
            except SourceError as error:
                self._unreadable.add(path)
                self.findings.append(error.finding)
                continue
            self.files[path] = file
            self.resolver.surveys[file] = found
            others = {other for item in found.imports for other in self.library.imported(item, file)}
            waiting += [other for other in sorted(others - self._seen) if mentions_tools(other)]
            self._seen |= others

    def _words(self) -> re.Pattern[bytes] | None:
        """Return a pattern of the names of servers, classes, and functions that register tools."""
        names: set[str] = set()
        for file, found in self.resolver.surveys.items():
            names |= {node.name for node, _ in found.classes}
            names |= {function.name for _, spot in found.decorated if (function := spot.function) is not None}
            for at in found.calls:
                if at.spot.function is not None and getattr(at.node.func, "attr", "") in (
                    "add",
                    "add_tool",
                    "tool",
                ):
                    names.add(at.spot.function.name)
            for name, bindings in file.scope.names.items():
                value = bindings[-1].value
                if isinstance(value, ast.Call) or getattr(value, "attr", getattr(value, "id", "")) == "tool":
                    names.add(name)
        names = {name for name in names if len(name) > 2}
        return re.compile("|".join(map(re.escape, sorted(names))).encode()) if names else None

    def _report_start(self, file: SourceFile) -> None:
        if "run" not in file.text and file.text.isascii():
            return  # every way to start a server has this in it
        line = find_start(file.tree)
        if line is not None:
            words = f"{file.path.name} starts its server when it is imported"
            hint = 'put it below `if __name__ == "__main__":`'
            path = str(file.path)
            self.findings.append(Finding("starts-server", "warning", words, file=path, line=line, hint=hint))

    # --- what importing would find ---

    def take(self, aim: Aim) -> tuple[list[Group], list[Finding]]:
        """Return the tools of a target, and findings."""
        if aim.described is not None:
            batch = collect(aim.described)
            return [Group(aim.label, tools=batch.tools)], batch.findings
        before = len(self.findings)
        files = [self.files[path] for path in aim.files if path in self.files]
        groups = self._object(aim, files) if aim.name else self._modules(files)
        findings = self.findings[before:]
        del self.findings[before:]
        if (
            not any(group.tools for group in groups)
            and not findings
            and not self.findings
            and not aim.findings
        ):
            findings.append(self._report_nothing(aim, files))
        return groups, findings

    def _modules(self, files: Sequence[SourceFile]) -> list[Group]:
        contents = [self._content(file) for file in files]
        servers = dict.fromkeys(server for content in contents for server in content.servers)
        self._claimed |= servers.keys()
        inner = {mount.server for server in servers for mount in server.mounts}
        owned = self._owned(servers)
        made = {thing.cls for content in contents for thing in content.things if isinstance(thing, Instance)}
        owned |= {cls for cls in made if self.workshop.needs_arguments(cls)}
        handlers: dict[str, Any] = {}
        for content in contents:
            handlers |= content.handlers
        handled: set[str] = set()
        seen: set[int] = set()
        groups: list[Group] = []
        for content in contents:
            own = Group(content.file.path.name)
            batch = self._each([thing for thing in content.things if thing not in owned], content.file)
            for table in content.tables:
                if id(table) not in seen:
                    seen.add(id(table))
                    batch.extend(self._table(table, handlers, handled))
            own.tools, groups = batch.tools, [*groups, own]
            self.findings += [_placed(finding, files) for finding in batch.findings]
            for server in content.servers:
                if server not in inner and servers.pop(server, 0) is None:
                    found = self._each([server], content.file)
                    self.findings += found.findings
                    groups.append(Group(server.label, server, found.tools))
            for group in groups if content.group is not None else ():
                group.tools = [
                    tool
                    if tool.options.group is not None or tool.source.file != str(content.file.path)
                    else tool.with_options(group=content.group)
                    for tool in group.tools
                ]
        if not self.workshop.has_open_tables:
            unused = tables.find_unused(handlers, handled)
            self.findings += [_placed(finding, files) for finding in unused]
        return [*groups, *self._loose_servers(files), *self._loose_marks(files)]

    def _owned(self, servers: Iterable[Server]) -> set[Thing]:
        """Return the classes whose object is on a server of toolcrib already."""
        things = [
            item.thing for server in servers if server.maker == "toolcrib" for item in server.registrations
        ]
        classes = [thing.cls if isinstance(thing, Instance) else thing for thing in things]
        return {cls for cls in classes if isinstance(cls, Class) and is_application(self.workshop, cls)}

    def _content(self, file: SourceFile) -> Content:
        """Return everything in a file that is a tool or holds tools, in the order of its lines."""
        found = Content(file)
        self._find_tables(found)
        public = public_names(file) if "__all__" in file.scope.names else frozenset()
        marks = self.workshop.patterns.marks
        instances: set[Class] = set()
        classes: list[Class] = []
        for name, binding in _last_bindings(file):
            if name in _TABLES or name.startswith("__"):
                continue
            thing = self._member(file, name, binding)
            is_imported = binding.kind in ("import", "from") and name not in public
            if isinstance(thing, Class):
                if thing.scope.file is file and is_complete(self.workshop, thing):
                    classes.append(thing)
            elif isinstance(thing, Server):
                found.servers.append(thing)
            elif is_imported:
                continue
            elif (
                isinstance(thing, Function)
                and id(thing.node) in marks
                and id(thing.node) not in self.workshop.patterns.others
            ):
                self._loose.add(id(thing.node))
                found.things.append(thing)
            elif isinstance(thing, Known) and thing.call is not None and thing.package == "toolcrib":
                found.things.append(thing)
            elif isinstance(thing, Instance) and self._holds_tools(thing):
                found.things.append(thing)
                instances.add(thing.cls)
        found.things += [cls for cls in dict.fromkeys(classes) if cls not in instances]
        return found

    def _holds_tools(self, thing: Instance) -> bool:
        return is_application(self.workshop, thing.cls) or is_tool_object(self.workshop, thing)

    def _member(self, file: SourceFile, name: str, binding: Binding) -> Thing:
        """Return what a name of a module stands for; names of files that are not surveyed are left alone."""
        if binding.kind == "function" and len(file.scope.names[name]) == 1:  # nearly always
            is_marked = id(binding.node) in self.workshop.patterns.marks
            return self.resolver.bound(binding, file.scope) if is_marked else UNKNOWN
        if binding.kind in ("import", "from"):
            paths = self.library.imported(binding.node, file)  # type: ignore[arg-type]
            if not any(path in self.files for path in paths):
                return UNKNOWN
        elif (
            binding.kind == "value" and not isinstance(binding.value, ast.Call | ast.Name | ast.Attribute)
        ) or binding.kind not in ("value", "function", "class"):
            return UNKNOWN
        return self.resolver.attribute(Module(file), name)

    def _values(self, file: SourceFile) -> Iterator[Thing]:
        """Yield what the module-level names of a file stand for, where a call makes it."""
        for _, binding in _last_bindings(file):
            if binding.kind == "value" and isinstance(binding.value, ast.Call) and not binding.situation.main:
                yield self.resolver.bound(binding, file.scope)

    def _find_tables(self, found: Content) -> None:
        file, workshop = found.file, self.workshop
        names = file.scope.names
        for name in (GROUP, *DEFINITION_TABLES, HANDLER_TABLE):
            if name not in names:
                continue
            node = ast.Name(name, ast.Load(), lineno=10**9, col_offset=0)
            thing = self.resolver.resolve(node, file.scope)
            reader = TableReader(workshop, file.scope, name)
            if name == GROUP:
                found.group = self._text(file, name, thing)
            elif name != HANDLER_TABLE:
                table = reader.table(thing, node)
                found.tables += [table] if table is not None else []
            elif isinstance(handlers := reader.handlers(thing, node), dict):
                found.handlers = handlers
            else:
                words = f"{HANDLER_TABLE} must be a dict, got {type(handlers).__name__}"
                self.findings.append(Finding("table-mismatch", "error", words, file=str(file.path)))

    def _text(self, file: SourceFile, name: str, thing: Thing) -> str | None:
        try:
            value = self.resolver.data_of(thing)
        except (Unresolved, RecursionError):
            value = None
        if isinstance(value, str):
            return value
        words = f"{name} cannot be told without running the code"
        hint = "write it as a text"
        self.findings.append(Finding("unresolved-option", "warning", words, file=str(file.path), hint=hint))
        return None

    def _each(self, things: Iterable[Thing], file: SourceFile) -> Batch:
        batch = Batch()
        for thing in things:
            try:
                made = self.workshop.make(thing)
                if isinstance(made, FunctionType):  # what `collect` does with it, for most
                    batch.tools.append(Tool.from_function(made))
                elif made is not None and not isinstance(made, str):  # a name would be imported
                    batch.extend(collect(made))
            except Exception as error:  # the source may hold values of any type
                finding = finding_of(thing, error)
                line = getattr(thing, "line", None)
                batch.findings.append(
                    finding if finding.file else replace(finding, file=str(file.path), line=line)
                )
        return batch

    def _table(self, table: Any, handlers: Mapping[str, Any], handled: set[str]) -> Batch:
        read = tables.read_table(table, handlers)
        batch = Batch(findings=read.findings)
        for entry in read.entries:
            handled.add(entry.name)
            try:
                batch.tools.append(Tool.from_function(entry.handler, **entry.options))
            except Exception as error:  # an option of the table may be of any type
                batch.findings.append(finding_of(entry.handler, error))
        return batch

    def _loose_servers(self, files: Sequence[SourceFile]) -> list[Group]:
        """Return the tools on servers that no module holds: they come from elsewhere, or from a function."""
        groups: list[Group] = []
        for server in list(self.resolver.servers.values()):
            if server in self._claimed or not (server.registrations or server.listers or server.mounts):
                continue
            sites = [item.call.file for item in server.registrations]
            sites += [handler.scope.file for handler in server.listers]
            if not any(site in files for site in (*sites, server.file)):
                continue
            self._claimed.add(server)
            if server not in self._held and not all(item.guesses for item in server.registrations):
                server.guesses.append(Guess("guessed-server", "the server it is put on is not known here"))
            batch = self._each([server], sites[0] if sites else files[0])
            self.findings += batch.findings
            groups.append(Group(server.label, server, batch.tools))
        return groups

    def _loose_marks(self, files: Sequence[SourceFile]) -> list[Group]:
        """Return marked functions inside functions, which only somebody who calls those can register."""
        groups: list[Group] = []
        for node, spot in self.workshop.patterns.marked:
            function = spot.function
            if function is None or isinstance(node, ast.ClassDef) or spot.file not in files:
                continue
            if id(node) in self._loose or spot.around[-1] is not function or self._is_registered(node):
                continue
            thing = self.resolver.function(node, spot.scope)
            batch = self._each([thing], spot.file)
            words = f"it is registered when {function.name}() is called"
            guess = Guess("guessed-call", words, function.lineno)
            for tool in batch.tools:
                self.workshop.doubt(tool.origin, [guess])
            self.findings += batch.findings
            groups.append(Group(spot.file.path.name, tools=batch.tools))
        return groups

    def _is_registered(self, node: ast.AST) -> bool:
        return any(
            isinstance(item.thing, Function) and item.thing.node is node
            for server in self.resolver.servers.values()
            for item in server.registrations
        )

    def _object(self, aim: Aim, files: Sequence[SourceFile]) -> list[Group]:
        """`file.py:name`; dots reach into it."""
        for file in files[:1]:
            thing: Thing = Module(file)
            for part in aim.name.split("."):
                if isinstance(thing, Module) and part not in thing.file.scope.names:
                    raise SourceError(f"There is no '{aim.name}' in {aim.label.rpartition(':')[0]}")
                thing = self.resolver.attribute(thing, part)
            batch = self._each([thing], file)
            self.findings += batch.findings
            if not batch.tools and not batch.findings:
                words = f"{aim.label} cannot be told without running the code"
                self.findings.append(Finding("unresolved-tool", "error", words, file=str(file.path)))
            return [Group(aim.name, thing if isinstance(thing, Server) else None, batch.tools)]
        return []

    def _report_nothing(self, aim: Aim, files: Sequence[SourceFile]) -> Finding:
        """Return a finding about files without tools: the likely reason, and what to do."""
        functions = [
            (file, name)
            for file in files
            for name, binding in _last_bindings(file)
            if binding.kind == "function" and not name.startswith("_")
        ]
        looked = "looked for @tool, @server.tool, applications, tool objects and TOOL_DEFINITIONS"
        if not functions:
            place = str(aim.files[0]) if len(aim.files) == 1 else None
            count = "1 file" if len(aim.files) == 1 else f"{len(aim.files)} files"
            words = f"{aim.label} has no tools: {looked} in {count}"
            return Finding("no-tools", "error", words, file=place, hint="mark functions with @tool")
        file, first = functions[0]
        count = f"{len(functions)} functions" if len(functions) > 1 else "1 function"
        hint = f"add @tool, or name one, {file.path.name}:{first}"
        words = f"{count} found, none marked: {looked}"
        return Finding("no-marked-tools", "error", words, file=str(file.path), hint=hint)

    # --- tools ---

    def make_registry(self, group: Group) -> ToolRegistry:
        """Return a registry with the rules of a group's server, or of the one that the targets name."""
        server = group.server
        if server is None or server.maker != "toolcrib":
            ours: dict[Server, None] = {}
            for aim in self.aims:
                file = None if aim.is_folder or not aim.files else self.files.get(aim.files[0])
                found = self._content(file).servers if file is not None and not aim.name else []
                ours |= {item: None for item in found if item.is_ours}
            server = next(iter(ours)) if len(ours) == 1 else None
        if server is None or server.maker != "toolcrib":
            return ToolRegistry()
        rules = self.workshop.registry(server)
        return ToolRegistry(name_rule=rules.rule, separator=rules.separator)

    def key_of(self, tool: Tool) -> Any:
        """Return the identity of a tool: one that is reachable in two ways was still written once."""
        note = self.workshop.notes_of(tool.origin)
        return (note.key if note is not None and note.key else (id(tool.origin),)), tool.name, tool.version

    def is_conditional(self, tool: Tool) -> bool:
        note = self.workshop.notes_of(tool.origin)
        return note is not None and any(guess.code == "guessed-condition" for guess in note.guesses)

    def remarks_on(self, tool: Tool) -> Iterator[Finding]:
        """Yield what is uncertain about a tool."""
        note = self.workshop.notes_of(tool.origin)
        if note is None:
            return
        for finding in note.findings:
            yield replace(finding, tool=tool.name)
        for guess in dict.fromkeys(note.guesses):
            words = f"Tool '{tool.name}' is a guess: {guess.words}"
            place = tool.source
            yield Finding(guess.code, "advice", words, tool.name, file=place.file, line=place.line)


def _last_bindings(file: SourceFile) -> Iterator[tuple[str, Binding]]:
    """Yield the names of a module with the binding that counts, unless they are deleted in the end."""
    for name, bindings in file.scope.names.items():
        last = bindings[-1]
        if not isinstance(last.node, ast.Delete):
            yield name, last


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def _placed(finding: Finding, files: Sequence[SourceFile]) -> Finding:
    """Return a finding about an entry of a table with the line that names it."""
    if finding.file is not None:
        return finding
    stands = []
    for file in files:
        made = ModuleType(file.name)
        made.__dict__.update(dict.fromkeys(file.scope.names), __file__=str(file.path))
        stands.append(made)
    return next(iter(add_locations([finding], stands)))


@dataclass(slots=True)
class Scan:
    """The result of a scan. `tools` can all be listed; `unlisted` are off, or older versions. `files` are
    those of the targets, in order; `read` are all that were looked into. `servers` are the names of the
    servers that the tools are on, by the ids of the tools."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unlisted: list[Tool] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)
    servers: dict[int, str] = field(default_factory=dict)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]


def scan(*targets: str | os.PathLike[str], progress: Progress | None = None) -> Scan:
    """The tools in source files, without importing or running any of them.

    A target is a file, a folder, a module name, `file.py:name`, `module:name`, a descriptor or a
    toolcrib.toml; none is the toolcrib.toml here, or else the samples. Raises SourceError where a target is
    not there, ConfigurationError where a toolcrib.toml is wrong; what is wrong with a file or a tool is a
    finding.
    """
    for target in targets:
        _check_type(target)
    was_collecting = gc.isenabled()
    gc.disable()  # trees are many objects and no garbage: looking for some doubles the time
    try:
        with imports_forbidden():
            return _Scanner(progress).scan(targets)
    finally:
        if was_collecting:
            gc.enable()


def _check_type(target: Any) -> None:
    if not isinstance(target, str | os.PathLike) or not isinstance(os.fspath(target), str):
        hint = "scan(*targets)" if isinstance(target, list | tuple | set) else "give text or a Path"
        raise TypeError(f"A target is the name of a file or module, not {type(target).__name__}: {hint}")


def _failure(tool: Tool, error: Exception) -> Finding:
    words = f"Tool '{tool.name}' cannot be read: {type(error).__name__}: {error}"
    return Finding("unreadable-tool", "error", words, tool.name, file=tool.source.file, line=tool.source.line)


class _Scanner:
    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.findings: list[Finding] = []

    def scan(self, targets: Sequence[str | os.PathLike[str]]) -> Scan:
        plans = [(config, self._aims(config)) for config in self._configs(targets)]
        aims = [aim for _, several in plans for aim in several]
        files = list(dict.fromkeys(path for aim in aims for path in aim.files))
        self.reading = Reading(aims, files, self.progress)
        self.findings += self.reading.findings
        result = Scan(files=files)
        groups = [group for config, several in plans for group in self._choose(config, several)]
        order = {str(path): position for position, path in enumerate(files)}
        entries = [
            (tool, is_listed, group.label if group.server is not None else None)
            for group in self._without_repeats(groups)
            for tool, is_listed in self._register(group)
        ]
        result.findings = self.findings
        names: dict[tuple[str, str | None], Tool] = {}
        entries.sort(key=lambda entry: _place(entry[0], order))
        for position, (tool, is_listed, label) in enumerate(entries):
            if self.progress is not None:
                self.progress("tools", position, len(entries))
            result.findings += self.reading.remarks_on(tool)
            try:
                tool.check_definition()
            except DefinitionError as error:
                result.findings.append(error.finding)
                continue
            except Exception as error:  # the source may hold values of any type
                result.findings.append(_failure(tool, error))
                continue
            if tool.long_name is not None:
                result.findings += report_shortened(tool)
            result.findings += tool.findings
            other = names.setdefault((tool.name.casefold(), tool.version), tool)
            if other is not tool:
                result.findings.append(_report_same_name(tool, other))
            if label is not None:
                result.servers[id(tool)] = label
            (result.tools if is_listed else result.unlisted).append(tool)
        result.findings = list(dict.fromkeys(result.findings))
        result.read = self.reading.library.files_read
        return result

    def _without_repeats(self, groups: Iterable[Group]) -> list[Group]:
        """Return the groups with each tool once, even if it was found through two targets."""
        seen: set[Any] = set()
        for group in (found := list(groups)):
            kept = []
            for tool in drop_repeated(group.tools):
                key = self.reading.key_of(tool)
                if key not in seen:
                    seen.add(key)
                    kept.append(tool)
            group.tools = kept
        return found

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
                yield config if config.targets else replace(config, targets=(SAMPLES,))

    def _aims(self, config: Config) -> list[Aim]:
        search = [str(config.file.resolve().parent)] if config.file is not None else []
        aims = []
        for target in config.targets:
            try:
                aims.append(take_aim(target, search))
            except SourceError as error:
                if config.file is None:
                    raise
                line = config.lines.get("server.targets")
                self.findings.append(replace(error.finding, file=str(config.file), line=line))
        self.findings += [finding for aim in aims for finding in aim.findings]
        return aims

    def _choose(self, config: Config, aims: Iterable[Aim]) -> list[Group]:
        groups: list[Group] = []
        for aim in aims:
            taken, findings = self.reading.take(aim)
            self.findings += findings
            for group in taken:
                group.tools = (
                    collect(group.tools, namespace=config.namespace, switches=config.switches).tools
                    if group.tools
                    else []
                )
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
        registry = self.reading.make_registry(group)
        guessed = [tool for tool in group.tools if self.reading.is_conditional(tool)]
        certain = [tool for tool in group.tools if tool not in guessed]
        self.findings += registry.add_all(certain).findings
        for tool in guessed:
            # Of two that exclude each other, one is enough; a finding says that it depends.
            if tool.name not in registry:
                self.findings += registry.add_all([tool]).findings
        for entry in registry.entries():
            yield entry.tool, registry.try_get(entry.tool.name) is entry.tool


def _report_same_name(tool: Tool, other: Tool) -> Finding:
    words = f"Tool '{tool.name}' has the name of another tool; served together, only one of them is listed"
    hint = f"the other one is at {other.source}; serve them apart, or give one a namespace"
    place = tool.source
    return Finding("duplicate-name", "advice", words, tool.name, None, place.file, place.line, hint)


def _place(tool: Tool, order: Mapping[str, int]) -> tuple[int, int]:
    source = tool.source
    return order.get(source.file or "", len(order)), source.line or 0
