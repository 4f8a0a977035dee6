"""`scan`: turn source files into tools by reading syntax trees; nothing is imported or run.

Every step after reading is the one that importing takes, so a tool scanned without a finding equals the
registered one.

Follow the files of all targets and find what importing each target would register.
"""

from __future__ import annotations

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
from toolcrib.sources.foreign.usage import find_start
from toolcrib.sources.loading import find_import_root, imports_forbidden
from toolcrib.sources.scan.builders import is_application
from toolcrib.sources.scan.files import Aim, Library, mentions_tools, take_aim
from toolcrib.sources.scan.making import Found, Workshop, find_members, find_object
from toolcrib.sources.scan.objects import Class, Function, Guess, Instance, Module, Server, Thing
from toolcrib.sources.scan.tracing import Tracer
from toolcrib.sources.tables import add_locations
from toolcrib.sources.targets import SAMPLES, default_target, parse_target
from toolcrib.tool import Tool

Progress = Callable[[int, int], None]
"""Hears how many files of how many were read."""


class Reading:
    """The files of all targets, followed; and what importing each target would find."""

    def __init__(self, aims: Sequence[Aim], files: Sequence[Path], progress: Progress | None) -> None:
        folders = dict.fromkeys(path.parent for path in files)
        roots = list(dict.fromkeys(find_import_root(folder / "x.py")[0] for folder in folders))
        self.tracer = Tracer(Library([*roots, *folders]), roots)
        self.workshop = Workshop(self.tracer)
        self.aims = aims
        self.wanted = {path for aim in aims if not aim.is_folder for path in aim.files[:1]}
        self._parts: dict[Path, Found | None] = {}
        self._claimed: set[Server] = set()
        self._read(files, progress)

    def _read(self, files: Sequence[Path], progress: Progress | None) -> None:
        skipped = []
        for position, path in enumerate(files):
            if progress is not None:
                progress(position, len(files))
            if path in self.wanted or mentions_tools(path):
                self.tracer.module(path)
            elif not _is_empty(path):
                skipped.append(path)
        # A file may put tools on a server, or make an application, without any word that gives it away.
        while skipped and (words := self._words()) is not None:
            more = [path for path in skipped if mentions_tools(path, words)]
            skipped = [path for path in skipped if path not in more]
            for path in more:
                self.tracer.module(path)
            if not more:
                break
        for path in files:
            module = self.tracer.modules.get(path)
            if module is not None:
                self.tracer.follow_uncalled(module)
                self._note_start(module)

    def _words(self) -> re.Pattern[bytes] | None:
        """The names of servers and of classes that hold tools."""
        names: set[str] = set()
        for module in filter(None, self.tracer.modules.values()):
            for name, thing in module.scope.names.items():
                if (isinstance(thing, Server | Class) or _gives_tools(thing)) and len(name) > 2:
                    names.add(name)
        if not names:
            return None
        return re.compile("|".join(map(re.escape, sorted(names))).encode())

    def _note_start(self, module: Module) -> None:
        if "run" not in module.file.text and module.file.text.isascii():
            return  # every way to start a server has this in it
        line = find_start(module.file.tree)
        if line is not None:
            path = module.file.path
            words = f"{path.name} starts its server when it is imported"
            hint = 'put it below `if __name__ == "__main__":`'
            self.workshop.findings.append(
                Finding("starts-server", "warning", words, file=str(path), line=line, hint=hint)
            )

    # --- what importing would find ---

    def take(self, aim: Aim) -> Batch:
        """What `collect` would find in a target."""
        if aim.described is not None:
            return collect(aim.described)
        before = len(self.workshop.findings)
        modules = [module for path in aim.files if (module := self.tracer.modules.get(path)) is not None]
        batch = self._object(aim, modules) if aim.name else self._modules(modules)
        batch.findings += self.workshop.findings[before:]
        del self.workshop.findings[before:]
        is_empty = not batch.tools and not batch.findings
        if is_empty and not self.tracer.findings and not aim.findings:
            batch.findings.append(_nothing_found(aim, modules))
        return batch

    def _modules(self, modules: Sequence[Module]) -> Batch:
        batch = Batch()
        parts = [find_members(self.workshop, module) for module in modules]
        self._drop_mounted(parts)
        self._drop_owned(parts)
        handlers: dict[str, Any] = {}
        for part in parts:
            handlers |= part.handlers
        handled: set[str] = set()
        seen: set[int] = set()
        for part in parts:
            found = self._each(part.things, part.module)
            for table in part.tables:
                if id(table) not in seen:
                    seen.add(id(table))
                    found.extend(self._table(table, handlers, handled))
            if part.group is not None:
                found.tools = [
                    tool if tool.options.group is not None else tool.with_options(group=part.group)
                    for tool in found.tools
                ]
            batch.extend(found)
        if not self.workshop.has_open_tables:
            batch.findings += tables.find_unused(handlers, handled)
        batch.findings = [_placed(finding, modules) for finding in batch.findings]
        batch.extend(self._loose(modules))
        batch.tools = list(self.without_repeats(batch.tools))
        return batch

    def _drop_mounted(self, parts: Sequence[Found]) -> None:
        """A server that is mounted in another is served through that one."""
        servers = {server for part in parts for server in part.servers}
        inner = {mount.server for server in servers for mount in server.mounts}
        self._claimed |= servers | inner
        for part in parts:
            part.things = [thing for thing in part.things if thing not in inner]

    def _drop_owned(self, parts: Sequence[Found]) -> None:
        """A class whose instance some server of ours has tools of is not made a second time."""
        owners = {
            registration.thing.cls if isinstance(registration.thing, Instance) else registration.thing
            for part in parts
            for server in part.servers
            if server.maker == "toolcrib"
            for registration in server.registrations
            if isinstance(registration.thing, Instance | Class) and _lists_tools(registration.thing)
        }
        for part in parts:
            part.things = [
                thing for thing in part.things if not (isinstance(thing, Class) and thing in owners)
            ]

    def _each(self, things: Iterable[Thing], module: Module) -> Batch:
        batch = Batch()
        for thing in things:
            try:
                made = self.workshop.make(thing)
                if isinstance(made, FunctionType):  # what `collect` does with it, and as most are
                    batch.tools.append(Tool.from_function(made))
                elif made is not None and not isinstance(made, str):  # a name would be imported
                    batch.extend(collect(made))
            except Exception as error:  # what was written may be of any type
                finding = finding_of(thing, error)
                line = getattr(thing, "line", None)
                batch.findings.append(
                    finding if finding.file else replace(finding, file=str(module.file.path), line=line)
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

    def _loose(self, modules: Sequence[Module]) -> Batch:
        """What the files put on servers that nobody here holds: they come from elsewhere, or from a call."""
        batch = Batch()
        own = {id(module) for module in modules}
        for server in list(self.tracer.servers):
            if server in self._claimed or server.is_low_level:
                continue
            here = [item for item in server.registrations if id(item.said.scope.module) in own]
            if not here:
                continue
            doubt = Guess("guessed-server", "the server it is put on is not known here")
            server.guesses += [] if all(item.guesses for item in here) else [doubt]
            self._claimed.add(server)
            batch.extend(self._each([server], here[0].said.scope.module))
        return batch

    def _object(self, aim: Aim, modules: Sequence[Module]) -> Batch:
        """`file.py:name`."""
        batch = Batch()
        for module in modules[:1]:
            thing = find_object(self.workshop, module, aim.name)
            if thing is None:
                raise SourceError(f"There is no '{aim.name}' in {aim.label.rpartition(':')[0]}")
            batch = self._each([thing], module)
            if not batch.tools and not batch.findings:
                words = f"{aim.label} cannot be told without running the code"
                file = str(module.file.path)
                batch.findings.append(Finding("unresolved-tool", "error", words, file=file))
        return batch

    # --- tools ---

    def make_registry(self) -> ToolRegistry:
        """A registry that keeps to the rules of the one server that the targets name, if there is one."""
        ours: dict[Server, None] = {}
        for aim in self.aims:
            module = None if aim.is_folder or not aim.files else self.tracer.modules.get(aim.files[0])
            if module is not None:
                things = [self.workshop.evaluator.look_up(name, module.scope) for name in module.scope.names]
                if aim.name:
                    found = find_object(self.workshop, module, aim.name)
                    things = [] if found is None else [found]
                ours |= {thing: None for thing in things if isinstance(thing, Server) and thing.is_ours}
        if len(ours) != 1:
            return ToolRegistry()
        registry = self.workshop.registry(next(iter(ours)))
        return ToolRegistry(name_rule=registry.rule, separator=registry.separator)

    def without_repeats(self, tools: Iterable[Tool]) -> Iterator[Tool]:
        """A tool that is reachable by two ways was still written once."""
        # Namespaces do not tell tools apart here: importing does not ask for them either.
        seen: set[Any] = set()
        for tool in tools:
            note = self.workshop.notes_of(tool.origin)
            origin = note.key if note is not None and note.key else (id(tool.origin),)
            key = (origin, tool.name, tool.version)
            if key not in seen:
                seen.add(key)
                yield tool

    def is_conditional(self, tool: Tool) -> bool:
        note = self.workshop.notes_of(tool.origin)
        if note is None or not note.guesses:
            return False
        return any(guess.code == "guessed-condition" for guess in note.guesses)

    def remarks_on(self, tool: Tool) -> Iterator[Finding]:
        """What reading had to leave open about a tool."""
        note = self.workshop.notes_of(tool.origin)
        if note is None or not (note.findings or note.guesses):
            return
        for finding in note.findings:
            yield replace(finding, tool=tool.name)
        file = tool.source.file
        for guess in dict.fromkeys(note.guesses):
            words = f"Tool '{tool.name}' is a guess: {guess.words}"
            yield Finding(guess.code, "advice", words, tool.name, file=file, line=tool.source.line)


def _is_empty(path: Path) -> bool:
    """Whether there is nothing in a file, as in many an `__init__.py`."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def _lists_tools(thing: Instance | Class) -> bool:
    return is_application(thing.cls if isinstance(thing, Instance) else thing)


def _placed(finding: Finding, modules: Sequence[Module]) -> Finding:
    """A finding about an entry of a table gets the line that names it."""
    if finding.file is not None:
        return finding
    stands = []
    for module in modules:
        made = ModuleType(module.file.name)
        made.__dict__.update(dict.fromkeys(module.scope.names), __file__=str(module.file.path))
        stands.append(made)
    return next(iter(add_locations([finding], stands)))


def _nothing_found(aim: Aim, modules: Sequence[Module]) -> Finding:
    """Files without tools: the likely reason, and the way out."""
    functions = [
        (module, thing)
        for module in modules
        for name, thing in module.scope.names.items()
        if isinstance(thing, Function) and thing.scope.module is module and not name.startswith("_")
    ]
    looked = "looked for @tool, @server.tool, applications, tool objects and TOOL_DEFINITIONS"
    if not functions:
        file = str(aim.files[0]) if len(aim.files) == 1 else None
        count = "1 file" if len(aim.files) == 1 else f"{len(aim.files)} files"
        words = f"{aim.label} has no tools: {looked} in {count}"
        return Finding("no-tools", "error", words, file=file, hint="mark functions with @tool")
    module, first = functions[0]
    count = f"{len(functions)} functions" if len(functions) > 1 else "1 function"
    path = module.file.path
    return Finding(
        "no-marked-tools",
        "error",
        f"{count} found, none marked: {looked}",
        file=str(path),
        hint=f"add @tool, or name one, {path.name}:{first.node.name}",
    )


def _gives_tools(thing: Thing) -> bool:
    """Whether other files may make tools with it, and never say the word."""
    return (isinstance(thing, Function) and thing.looks_registering) or (
        not isinstance(thing, Function) and str(getattr(thing, "name", "")).rpartition(".")[2] == "tool"
    )


@dataclass(slots=True)
class Scan:
    """What was found. `tools` can all be listed; `unlisted` are off, or older versions. `files` were meant by
    the targets, in order; `read` are all that were looked into."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unlisted: list[Tool] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)

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
        self.findings += self.reading.workshop.findings
        chosen: list[Tool] = []
        for config, several in plans:
            chosen += self._choose(config, several)
        registry, report = self._register(chosen)
        result = Scan([], [*self.findings, *report], files)
        order = {str(path): position for position, path in enumerate(files)}
        for entry in sorted(registry.entries(), key=lambda entry: _place(entry.tool, order)):
            tool = entry.tool
            result.findings += self.reading.remarks_on(tool)
            try:
                tool.check_definition()
            except DefinitionError as error:
                result.findings.append(error.finding)
                continue
            except Exception as error:  # what was written may be of any kind, and hides no other
                result.findings.append(_failure(tool, error))
                continue
            if tool.long_name is not None:
                result.findings += report_shortened(tool)
            result.findings += tool.findings
            is_listed = registry.try_get(tool.name) is tool
            (result.tools if is_listed else result.unlisted).append(tool)
        result.findings = list(dict.fromkeys(result.findings))
        result.read = self.reading.tracer.library.files_read
        return result

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

    def _choose(self, config: Config, aims: Iterable[Aim]) -> list[Tool]:
        tools: list[Tool] = []
        for aim in aims:
            batch = self.reading.take(aim)
            self.findings += batch.findings
            tools += collect(batch.tools, namespace=config.namespace, switches=config.switches).tools
        chosen, findings = config.choose(tools)
        self.findings += findings
        return chosen

    # --- names ---

    def _register(self, tools: list[Tool]) -> tuple[ToolRegistry, list[Finding]]:
        """The tools under the names they would have, each once; by the rules of the one server there is."""
        registry = self.reading.make_registry()
        certain: list[Tool] = []
        guessed: list[Tool] = []
        for tool in drop_repeated(tools):
            (guessed if self.reading.is_conditional(tool) else certain).append(tool)
        findings = registry.add_all(certain).findings
        for tool in guessed:
            # Of two that exclude each other, one is enough; that it depends is said already.
            if tool.name not in registry:
                findings += registry.add_all([tool]).findings
        return registry, findings


def _place(tool: Tool, order: Mapping[str, int]) -> tuple[int, int]:
    source = tool.source
    return order.get(source.file or "", len(order)), source.line or 0
