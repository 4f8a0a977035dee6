"""Loads what the command line names into a server, and finds one tool in it.

A target is a Python file, a folder, a module, `module:object`, `file.py:object` or a `toolcrib.toml`; none
means the `toolcrib.toml` of the current folder, or else the sample tools. What is wrong with one target
hides no other: it becomes a finding. Only naming something that is not there is the caller's mistake.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from toolcrib.cli.demands import failure_of, finding_of, put_around
from toolcrib.cli.frame import Failure
from toolcrib.cli.terminal import Terminal, show_place
from toolcrib.cli.words import count, suggest
from toolcrib.config import FILE_NAME, Config, load_config, switches_in
from toolcrib.dispatch import DEFAULT_TIMEOUT_S
from toolcrib.errors import ConfigurationError, DefinitionError, SourceError
from toolcrib.finding import Finding
from toolcrib.keyspace import Entry
from toolcrib.policy import Policy
from toolcrib.selection import select, without_repeats
from toolcrib.server import MCPServer
from toolcrib.sources import Batch, collect
from toolcrib.sources.collect import DESCRIPTOR_SUFFIXES
from toolcrib.sources.loading import load_file, load_module
from toolcrib.tool import Tool

SAMPLES = "toolcrib.samples"


@dataclass(slots=True)
class Loaded:
    """A server with everything that could be registered, and what there is to say about the rest."""

    server: MCPServer
    findings: list[Finding] = field(default_factory=list)
    is_sample: bool = False
    unread: list[Failure] = field(default_factory=list)
    refused: Policy | None = None
    """A policy that the server is without, because something is wrong with it."""

    @property
    def entries(self) -> list[Entry]:
        """Every tool that was registered, older versions and those that are off included."""
        return [entry for group in self.server.registry.snapshot.groups for entry in group.entries]

    def list_built(self) -> list[Tool]:
        """The tools that can be listed; why another cannot is added to the findings."""
        built = []
        for tool in self.server.registry:
            try:
                self.findings.extend(tool.findings)
                built.append(tool)
            except DefinitionError as error:
                self.findings.append(error.finding)
        return built

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]


def is_address(target: str) -> bool:
    return target.lower().startswith(("http://", "https://"))


def load(targets: Sequence[str], terminal: Terminal, *, timeout_s: float | None = None) -> Loaded:
    """A server with the tools of all targets."""
    with terminal.log.muted():
        return Loader(terminal).load(targets, timeout_s)


class Loader:
    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.findings: list[Finding] = []
        self.tools: list[Tool] = []
        self.servers: list[MCPServer] = []
        self.unread: list[Failure] = []
        """Files of settings that cannot be read: what they demand of calls would not be demanded."""
        self.is_sample = False
        self.refused: Policy | None = None

    def load(self, targets: Sequence[str], timeout_s: float | None) -> Loaded:
        configs = []
        for config in self._read_configs(targets):
            self._take(config)
            configs.append(config)
        server = self._make_server(configs, timeout_s)
        report = server.add(list(without_repeats(self.tools)))
        findings = [*self.findings, *report.findings]
        return Loaded(server, findings, self.is_sample, self.unread, self.refused)

    def _read_configs(self, targets: Sequence[str]) -> Iterator[Config]:
        """One configuration for each target; a target that is no file of settings gets one of its own."""
        if not targets and Path(FILE_NAME).is_file():
            targets = [FILE_NAME]
        for target in targets:
            if is_address(target):
                raise Failure(
                    f"{target} is a running server, which cannot be loaded", "list, show and call ask it"
                )
            if not target.endswith(".toml") or _is_descriptor(target):
                yield Config(targets=(target,), switches=switches_in(os.environ))
            elif not Path(target).is_file():
                raise Failure(f"There is no file {target}")
            else:
                try:
                    yield load_config(Path(target), os.environ)
                except ConfigurationError as error:
                    self._refuse(error)
                    self.unread.append(failure_of(error))
        if not targets:
            yield Config(switches=switches_in(os.environ))

    def _take(self, config: Config) -> None:
        batch = Batch()
        if not config.targets:
            self.is_sample = True
        if config.file is not None and (folder := str(config.file.resolve().parent)) not in sys.path:
            sys.path.append(folder)
        for target in config.targets or (SAMPLES,):
            try:
                batch.extend(collect(target, namespace=config.namespace, switches=config.switches))
                self.servers += _servers_in(target)
            except DefinitionError as error:
                if self.terminal.debug and error.__context__ is not None:
                    self.terminal.show_trace(error.__context__)
                batch.findings.append(self._place(error, config))
        self.findings += batch.findings
        self.findings += _find_idle_switches(config, batch.tools)
        try:
            self.tools += select(batch.tools, config.include, config.exclude)
        except ConfigurationError as error:
            hint = suggest("", [tool.name for tool in batch.tools])
            for each in (error, *error.others):
                is_wanted = any(repr(item) in str(each) for item in config.include)
                key = "tools.include" if is_wanted else "tools.exclude"
                line = config.lines.get(key)
                self._refuse(
                    ConfigurationError(each.message, file=str(config.file), key=key, line=line, hint=hint)
                )

    def _place(self, error: DefinitionError, config: Config) -> Finding:
        """The finding of a target that cannot be read, with the place where it was named."""
        finding = error.finding
        if not isinstance(error, SourceError) or finding.file is not None:
            return finding
        if config.file is None:
            raise Failure(error.message, error.hint)
        line = config.lines.get("server.targets")
        return Finding(
            finding.code, "error", finding.message, file=str(config.file), line=line, hint=finding.hint
        )

    def _refuse(self, error: ConfigurationError) -> None:
        self.findings += [finding_of(each) for each in (error, *error.others)]

    def _make_server(self, configs: list[Config], timeout_s: float | None) -> MCPServer:
        """A server that keeps to the files' settings, or to those of the one server the targets hold."""
        server = self._make_bare_server(configs, timeout_s)
        try:
            put_around(server, configs)
        except ConfigurationError as error:
            self._refuse(error)
            self.unread.append(failure_of(error))
            self.refused = next(config.policy for config in configs if config.policy is not None)
        return server

    def _make_bare_server(self, configs: list[Config], timeout_s: float | None) -> MCPServer:
        name = next((config.name for config in configs if config.name), None)
        limit = timeout_s or next((config.timeout_s for config in configs if config.timeout_s), None)
        servers = list(dict.fromkeys(self.servers))
        if len(servers) != 1:
            return MCPServer(name or "toolcrib", timeout_s=limit or DEFAULT_TIMEOUT_S)
        own = servers[0]
        return MCPServer(
            name or own.name,
            core_engine=own.core_engine,
            name_rule=own.registry.rule,
            separator=own.registry.separator,
            timeout_s=limit or own.dispatcher.timeout_s,
            policy=None if own.guard is None else own.guard.policy,
        )


def _servers_in(target: str) -> list[MCPServer]:
    """The servers a target holds; it was loaded before, so nothing runs again."""
    place, colon, name = target.rpartition(":")
    if not colon or Path(target).exists():
        place, name = target, ""
    if Path(place).is_dir() or _is_descriptor(target):
        return []
    thing: object = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    for part in name.split(".") if name else ():
        thing = getattr(thing, part)
    found = vars(thing).values() if isinstance(thing, ModuleType) else (thing,)
    return [item for item in found if isinstance(item, MCPServer)]


def _is_descriptor(target: str) -> bool:
    """Whether a target is a file that describes tools; a TOML file may also be one of settings."""
    if not target.endswith(DESCRIPTOR_SUFFIXES):
        return False
    from toolcrib.sources.descriptors import is_descriptor  # most commands are given code

    return is_descriptor(Path(target))


def _find_idle_switches(config: Config, tools: Iterable[Tool]) -> Iterator[Finding]:
    """A switch in the file that turns nothing is a slip of the pen."""
    groups = {tool.options.group for tool in tools if tool.options.group}
    known = sorted(f"enable_{group}_tools" for group in groups)
    for switch in config.switches:
        if switch not in known and (line := config.lines.get(f"tools.{switch}")):
            yield Finding(
                "idle-switch",
                "warning",
                f"tools.{switch}: no tool is in that group",
                file=str(config.file),
                line=line,
                hint=suggest(switch, known) or "give tools a group: @tool(group=...)",
            )


# --- one tool ----------------------------------------------------------------------------------------


def load_one(
    name: str, targets: Sequence[str], terminal: Terminal, *, timeout_s: float | None = None
) -> tuple[Loaded, Tool]:
    """The tool of a name among the targets, or the one that `file.py:name` or `module:name` leads to."""
    if not targets and name.endswith((".py", ".toml")):
        raise Failure(f"{name} is a file, not a tool", f"name a tool in it: -t {name} NAME, or {name}:NAME")
    place, colon, _ = name.rpartition(":")
    if colon and place:
        if targets:
            raise Failure(f"{name} already says where it is", "drop -t, or give the tool's name alone")
        loaded = load([name], terminal, timeout_s=timeout_s)
        tools = [entry.tool for entry in loaded.entries if entry.enabled]
        if len(tools) > 1:
            first = tools[0].name
            raise Failure(f"{name} holds {count(len(tools), 'tool')}", f"name one of them: -t {name} {first}")
        if not tools:
            raise _explain_absence(name, loaded, terminal)
        return loaded, _build(tools[0])
    loaded = load(targets, terminal, timeout_s=timeout_s)
    tool = loaded.server.registry.try_get(name)
    if loaded.unread:
        raise loaded.unread[0]  # it may hold the policy, and nothing is called without that
    if tool is None:
        raise _explain_absence(name, loaded, terminal)
    return loaded, _build(tool)


def _build(tool: Tool) -> Tool:
    tool.check()  # raises what is wrong with it
    return tool


def _explain_absence(name: str, loaded: Loaded, terminal: Terminal) -> Failure:
    """Why there is no such tool: refused, switched off, misspelt, or never there."""
    folded = name.casefold()
    for entry in loaded.entries:
        if not entry.enabled and (entry.tool.name.casefold() == folded or ":" in name):
            return Failure(f"Tool '{entry.tool.name}' is off", say_switch(entry.tool))
    for finding in loaded.errors:
        if finding.tool is not None and finding.tool.casefold() == folded:
            return Failure(f"{show_place(finding.where)}: {finding.message}", finding.hint)
    for finding in loaded.errors:
        if finding.tool is None or ":" in name:
            terminal.tell(finding)
    if ":" in name:
        return Failure(f"{name} cannot be used")
    return Failure(f"Unknown tool: {name}", suggest(name, [entry.tool.name for entry in loaded.entries]))


def say_switch(tool: Tool) -> str:
    """How to turn a tool on."""
    group = tool.options.group
    if not group:
        return "mark it with enabled=True"
    switch = f"enable_{group}_tools"
    return f"set {switch} = true under [tools] in {FILE_NAME}, or TOOLCRIB_{switch.upper()}=1"
