"""An offer in words: the tools, what is off, what was refused.

All of it is plain data, so that another process can say it. Knows words; refuses to know how it is served.

Loads what the command line names into a server, and finds one tool in it.

A target is a Python file, a folder, a module, `module:object`, `file.py:object` or a `toolcrib.toml`; none
means the `toolcrib.toml` of the current folder, or else the sample tools. What is wrong with one target
hides no other: it becomes a finding. Only naming something that is not there is the caller's mistake.

What `toolcrib serve` has to offer: targets loaded into a server that goes by the files' settings.

More lenient than other commands: one target that is not there keeps nobody from serving the others. Where all
tools are those of one server object, that object serves, so that what its tools do to it has effect. Knows
loading and settings; refuses to know wires and words.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from toolcrib.cli.options import Failure
from toolcrib.cli.output import Terminal, show_place
from toolcrib.cli.policy import enforce, failure_of, finding_of, put_around, refuse_idle
from toolcrib.cli.text import count, first_line, suggest
from toolcrib.config import FILE_NAME, Config, HTTPConfig, find_log_format, load_config, switches_from
from toolcrib.config.settings import Policy
from toolcrib.dispatch.dispatcher import DEFAULT_TIMEOUT_S
from toolcrib.dispatch.tool_search import DEFAULT_BUDGET_TOKENS, SearchMode
from toolcrib.errors import ConfigurationError, DefinitionError, DriftError, Finding, SourceError
from toolcrib.registry.index import Entry
from toolcrib.registry.selection import drop_repeated, select
from toolcrib.server import MCPServer
from toolcrib.sources import Batch, collect, find_files
from toolcrib.sources.loading import load_file, load_module
from toolcrib.sources.targets import DESCRIPTOR_SUFFIXES
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.cli.serve_locked import Holding

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
        report = server.add(list(drop_repeated(self.tools)))
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
                yield Config(targets=(target,), switches=switches_from(os.environ))
            elif not Path(target).is_file():
                raise Failure(f"There is no file {target}")
            else:
                try:
                    yield load_config(Path(target), os.environ)
                except ConfigurationError as error:
                    self._refuse(error)
                    self.unread.append(failure_of(error))
        if not targets:
            yield Config(switches=switches_from(os.environ))

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
            policy=None if own.enforcer is None else own.enforcer.policy,
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
            return Failure(f"Tool '{entry.tool.name}' is off", say_switch_targets(entry.tool))
    for finding in loaded.errors:
        if finding.tool is not None and finding.tool.casefold() == folded:
            return Failure(f"{show_place(finding.where)}: {finding.message}", finding.hint)
    for finding in loaded.errors:
        if finding.tool is None or ":" in name:
            terminal.tell(finding)
    if ":" in name:
        return Failure(f"{name} cannot be used")
    return Failure(f"Unknown tool: {name}", suggest(name, [entry.tool.name for entry in loaded.entries]))


def say_switch_targets(tool: Tool) -> str:
    """How to turn a tool on."""
    group = tool.options.group
    if not group:
        return "mark it with enabled=True"
    switch = f"enable_{group}_tools"
    return f"set {switch} = true under [tools] in {FILE_NAME}, or TOOLCRIB_{switch.upper()}=1"


_SAID = ("version", "title", "instructions", "page_size", "log_arguments")


@dataclass(slots=True)
class Offer:
    """A server ready to start, and what there is to say about what it does not offer."""

    server: MCPServer
    findings: list[Finding]
    is_sample: bool
    paths: list[Path]
    log_format: str | None = None
    held: Holding | None = None

    def take_hold(self, held: Holding) -> None:
        """Go by a lock: what it refuses is an error, what it keeps out a warning."""
        self.held = held
        self.findings += held.drift.findings("error" if held.is_refused else "warning")
        if self.paths:
            self.paths.append(held.file)

    @property
    def entries(self) -> list[Entry]:
        return self.server.registry.entries()

    @property
    def tools(self) -> list[Tool]:
        """The tools that clients will see."""
        return self.server.registry.published()

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]


def load_offer(
    targets: Sequence[str],
    terminal: Terminal,
    *,
    name: str | None = None,
    timeout_s: float | None = None,
    is_dynamic: bool = False,
    search: SearchMode | None = None,
    **identity: Any,
) -> Offer:
    """Load everything and build it. Raises Failure where nothing of what was named is there.

    `is_dynamic`: the tools will be exchanged while it serves. `identity` wins over what the files say.
    """
    loader = OfferLoader(terminal)
    tools = loader.collect(targets)
    if loader.failures and not tools:
        raise loader.failures[0]
    if loader.unread and tools:
        raise loader.unread[0]
    server, is_own = loader.find_server(tools, is_dynamic=is_dynamic)
    configs = loader.configs
    server.name = name or _first(configs, "name") or server.name
    said = {key: value for key in _SAID if (value := _first(configs, key)) is not None}
    server.identity |= {**said, **identity}
    _choose_search(server, search, configs)
    limit = timeout_s or _first(configs, "timeout_s")
    if limit is not None:
        server.dispatcher.timeout_s = limit
    findings = list(loader.findings)
    if not is_own:
        findings += server.registry.add_all(tools).findings
    findings += server.registry.check()
    enforce(server, configs)
    if not is_dynamic:
        refuse_idle(server)
    return Offer(
        server,
        list(dict.fromkeys(findings)),
        loader.is_sample,
        loader.find_paths() if is_dynamic else [],
        _first(configs, "log_format"),
    )


def load_again(
    targets: Sequence[str], terminal: Terminal, held: Holding | None = None
) -> tuple[Sequence[Tool], Sequence[Finding], Sequence[Path]]:
    """The tools, what there is to say of the rest, and the files and folders it all comes from; the lock that
    it is `held` to is one of them."""
    if held is not None:
        held.read_again()
    loader = OfferLoader(terminal)
    tools = loader.collect(targets)
    return tools, loader.findings, [*loader.find_paths(), *([] if held is None else [held.file])]


def read_http(targets: Sequence[str]) -> HTTPConfig:
    """Where the files want to be reached: the first that says so. One that cannot be read says nothing here;
    why it cannot is told when everything is loaded."""
    found: dict[str, Any] = {}
    for config in _read_files(targets):
        found = {key: value for key, value in asdict(config.http).items() if value not in (None, ())} | found
    return HTTPConfig(**found)


def read_log_format(targets: Sequence[str]) -> str | None:
    """How the files want it logged: the first that says so, whatever else is wrong with it."""
    return next((found for file in _name_files(targets) if (found := find_log_format(file))), None)


def read_policies(targets: Sequence[str]) -> list[Policy]:
    """What the files demand of calls, without loading any tool."""
    return [config.policy for config in _read_files(targets) if config.policy is not None]


def _name_files(targets: Sequence[str]) -> list[Path]:
    """The files of settings among the targets."""
    if not targets and Path(FILE_NAME).is_file():
        targets = [FILE_NAME]
    return [Path(target) for target in targets if target.endswith(".toml")]


def _read_files(targets: Sequence[str]) -> Iterator[Config]:
    for file in _name_files(targets):
        try:
            yield load_config(file)
        except ConfigurationError:
            continue


class OfferLoader(Loader):
    """Collects tools, and takes what is not there for a finding like any other."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(terminal)
        self.configs: list[Config] = []
        self.failures: list[Failure] = []

    def collect(self, targets: Sequence[str]) -> list[Tool]:
        for config in self._read_configs(targets):
            self.configs.append(config)
            self._take(config)
        return list(drop_repeated(self.tools))

    def find_paths(self) -> list[Path]:
        """The files and folders behind everything that was named, the files of settings included."""
        files = [str(config.file) for config in self.configs if config.file is not None]
        named = [target for config in self.configs for target in config.targets]
        return find_files([*named, *files])

    def find_server(self, tools: Sequence[Tool], *, is_dynamic: bool) -> tuple[MCPServer, bool]:
        """The server that all these tools are of, or a new one for them. True: it has them already."""
        servers = list(dict.fromkeys(self.servers))
        if len(servers) != 1:
            return MCPServer(dynamic=is_dynamic, timeout_s=DEFAULT_TIMEOUT_S), False
        own = servers[0]
        if not is_dynamic and _are_all_of(own, tools):
            return own, True
        registry = own.registry
        server = MCPServer(
            own.name,
            core_engine=own.core_engine,
            dynamic=is_dynamic or own.dynamic,
            name_rule=registry.rule,
            on_duplicate=registry.on_duplicate,
            separator=registry.separator,
            timeout_s=own.dispatcher.timeout_s,
            policy=None if own.enforcer is None else own.enforcer.policy,
        )
        search = own.dispatcher.tool_search
        server.publish_search(*(("never", None) if search is None else (search.mode, search.budget_tokens)))
        server.identity |= own.identity
        return server, False

    def _read_configs(self, targets: Sequence[str]) -> Iterator[Config]:
        if not targets:
            yield from super()._read_configs(())
        for target in targets:
            try:
                yield from super()._read_configs((target,))
            except Failure as failure:
                if target.endswith(".toml"):
                    self.unread.append(failure)
                self.findings.append(self._miss(failure))

    def _place(self, error: DefinitionError, config: Config) -> Finding:
        try:
            return super()._place(error, config)
        except Failure as failure:
            return self._miss(failure)

    def _miss(self, failure: Failure) -> Finding:
        self.failures.append(failure)
        return Finding(SourceError.code, "error", failure.message, hint=failure.hint)


def _are_all_of(server: MCPServer, tools: Sequence[Tool]) -> bool:
    """Whether a server has exactly these tools, switched as they are."""
    there = [(id(e.tool.origin), e.tool.name, e.tool.version, e.enabled) for e in server.registry.entries()]
    given = [(id(t.origin), t.name, t.version, t.options.enabled) for t in tools]
    return sorted(there, key=str) == sorted(given, key=str)


def _choose_search(server: MCPServer, asked: SearchMode | None, configs: Sequence[Config]) -> None:
    """What the command line says goes first, then the files, then the server's own code."""
    search = server.dispatcher.tool_search
    said = [config.search for config in configs]
    publish = asked or next((each.publish for each in said if each.publish is not None), None)
    budget = next((each.budget_tokens for each in said if each.budget_tokens is not None), None)
    if publish is not None or budget is not None:
        own: tuple[SearchMode, int] = ("never", DEFAULT_BUDGET_TOKENS)
        if search is not None:
            own = (search.mode, search.budget_tokens)
        server.publish_search(publish or own[0], own[1] if budget is None else budget)


def _first(configs: Sequence[Config], key: str) -> Any:
    """What the first file that says something about it says."""
    return next((value for config in configs if (value := getattr(config, key)) is not None), None)


MAX_SHOWN = 40
_LONGEST = 100
_DRIFT = (DriftError.code, "locked-but-missing")


@dataclass(frozen=True, slots=True)
class Summary:
    """An offer in words: `tools` by name and first line, what is `off` by name and group, and what is said of
    tools to `search` with, where they are shown instead. `shows` is what callers over HTTP have to show: keys
    or tokens; nothing where everybody may call."""

    name: str
    tools: list[tuple[str, str]]
    off: list[tuple[str, str]]
    findings: list[Finding]
    is_sample: bool
    search: list[str] | None = None
    shows: str | None = None

    @classmethod
    def of(cls, offer: Offer) -> Summary:
        return cls(
            offer.server.name,
            [(tool.name, first_line(tool.definition)) for tool in offer.tools],
            [
                (entry.tool.name, entry.tool.options.group or "")
                for entry in offer.entries
                if not entry.enabled
            ],
            offer.findings,
            offer.is_sample,
            _search_words(offer),
            _credentials(offer),
        )

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def drifted(self) -> list[Finding]:
        """What is not as locked, and keeps the server from starting."""
        return [finding for finding in self.errors if finding.code == DriftError.code]

    @property
    def quarantined(self) -> list[Finding]:
        """What is not as locked, and is left out; and what is locked but not here."""
        return [finding for finding in self.findings if finding.level == "warning" and finding.code in _DRIFT]

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Summary:
        facts = json.loads(data)
        findings = [Finding(**finding) for finding in facts.pop("findings")]
        return cls(**facts, findings=findings)


def _search_words(offer: Offer) -> list[str] | None:
    """How loudly, what, and what to do about it."""
    search = offer.server.dispatcher.tool_search
    listing = None if search is None else search.listing()
    if search is None or listing is None or not listing.is_reduced:
        return None
    return ["warning" if search.mode == "auto" else "note", listing.explanation, listing.hint]


def _credentials(offer: Offer) -> str | None:
    auth = None if offer.server.enforcer is None else offer.server.enforcer.policy.auth
    return None if auth is None else "a key" if auth.keys is not None else "a token"


def headline(summary: Summary) -> str:
    """Who serves how much."""
    kind = "sample tool" if summary.is_sample else "tool"
    parts = [count(len(summary.errors), "problem")] if summary.errors else []
    left_out = [finding for finding in summary.quarantined if finding.code == DriftError.code]
    parts += [f"{len(left_out)} in quarantine"] if left_out else []
    trouble = f" ({', '.join(parts)}, see below)" if parts else ""
    return f"{summary.name} serves {count(len(summary.tools), kind)}{trouble}"


def say_trouble(summary: Summary, terminal: Terminal) -> None:
    """Loudly: what was refused, and what a lock keeps out."""
    errors = summary.errors
    for error in errors[:MAX_SHOWN]:
        terminal.tell(error)
    if len(errors) > MAX_SHOWN:
        terminal.say("error", f"and {len(errors) - MAX_SHOWN} more: toolcrib check shows them")
    for finding in summary.quarantined[:MAX_SHOWN]:
        terminal.tell(finding)
    if len(summary.quarantined) > MAX_SHOWN:
        terminal.say("warning", f"and {len(summary.quarantined) - MAX_SHOWN} more: toolcrib diff shows them")


def say_warnings(summary: Summary, terminal: Terminal) -> None:
    """Quietly: one as it is, several as a number. And that clients are shown other tools than these."""
    said = summary.quarantined
    warnings = [f for f in summary.findings if f.level == "warning" and f not in said]
    if len(warnings) == 1:
        terminal.tell(warnings[0])
    elif warnings:
        terminal.say("note", f"{count(len(warnings), 'warning')}: toolcrib check shows them")
    if summary.search is not None:
        terminal.say(*summary.search)


def say_tools(summary: Summary, terminal: Terminal) -> None:
    """Each tool that is served, and those that could be."""
    for name, words in summary.tools[:MAX_SHOWN]:
        put(terminal, f"  {name}: {words[:_LONGEST]}" if words else f"  {name}")
    if len(summary.tools) > MAX_SHOWN:
        put(terminal, f"  and {len(summary.tools) - MAX_SHOWN} more")
    by_group: dict[str, list[str]] = {}
    for name, group in summary.off:
        by_group.setdefault(group, []).append(name)
    for group, names in by_group.items():
        shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        put(terminal, f"  off: {shown} ({say_switch(group)})")
    put(terminal, "")


def say_switch(group: str) -> str:
    """How to turn tools on that are off."""
    return f"TOOLCRIB_ENABLE_{group.upper()}_TOOLS=1 turns them on" if group else "enabled=True turns them on"


def put(terminal: Terminal, text: str, *, bold: bool = False) -> None:
    """One line on stderr."""
    terminal.put(terminal.style_err(text, bold=True) if bold else text)
