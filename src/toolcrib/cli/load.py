"""Load the targets of a command line into a server, and find one tool in it.

Without targets, the `toolcrib.toml` of the current folder is loaded. A problem with one target becomes a
finding and does not hide the others. A target that does not exist is a usage error for
most commands; `serve` serves the others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from toolcrib.cli.options import CommandError, Targets
from toolcrib.cli.output import Progress, Terminal, format_source
from toolcrib.cli.text import count, shorten_list, suggest
from toolcrib.component import Component
from toolcrib.config import FILE_NAME, Config, load_config, switches_from
from toolcrib.dispatch.tool_search import DEFAULT_BUDGET_TOKENS, SearchMode
from toolcrib.errors import ConfigurationError, DefinitionError, Finding, SourceError
from toolcrib.names import NAME_RULES
from toolcrib.options import SKILLS
from toolcrib.registry.index import Entry
from toolcrib.registry.registry import ToolRegistry
from toolcrib.registry.selection import KINDS, LIST_NAMES, drop_repeated, label_of, name_kinds
from toolcrib.server import MCPServer
from toolcrib.sources import Batch, collect
from toolcrib.sources.foreign.entry_point import find_lines
from toolcrib.sources.foreign.program import find_program, running_programs
from toolcrib.sources.foreign.recognition import identity_of
from toolcrib.sources.loading import load_file, load_module
from toolcrib.sources.modules import BYPASSED
from toolcrib.sources.targets import Target, default_target, parse_target, settings_files

NO_TARGETS_HINT = 'write targets = ["tools.py"] under [server], or name targets on the command line'
_IDENTITY = ("version", "title", "instructions", "page_size", "log_arguments", "errors", "tasks", "state")


@dataclass(slots=True)
class Loaded:
    """A server with every tool that could be registered, and the findings about the rest."""

    server: MCPServer
    findings: list[Finding] = field(default_factory=list)
    log_format: str | None = None

    @property
    def entries(self) -> list[Entry]:
        """Every registered tool, with older versions and disabled ones."""
        return self.server.registry.entries()

    @property
    def features(self) -> list[Entry]:
        """Every resource and prompt, with older versions and disabled ones."""
        return [*self.server.resources.entries(), *self.server.prompts.entries()]

    @property
    def everything(self) -> list[Entry]:
        """Every tool, resource and prompt."""
        return [*self.entries, *self.features]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    def build_tools(self, terminal: Terminal, tools: Iterable[Component] | None = None) -> list[Component]:
        """Return the tools that can be listed, or those of `tools` that can be built; add the problems of the
        others to the findings."""
        with Progress(terminal, "building tools") as progress:
            listed = self.server.registry if tools is None else tools
            return build_tools(progress.track(list(listed)), self.findings)

    def build_features(self, terminal: Terminal) -> list[Component]:
        """Return the resources and prompts that can be listed, in the same way."""
        return self.build_tools(terminal, [*self.server.resources, *self.server.prompts])

    def check_config(self) -> None:
        """Raise CommandError where the configuration is invalid: it may contain a policy."""
        if found := [finding for finding in self.errors if finding.code == ConfigurationError.code]:
            raise first_error(found)


def build_tools(tools: Iterable[Component], findings: list[Finding]) -> list[Component]:
    """Return the tools whose definition can be built; add what is wrong with any of them to `findings`."""
    built = []
    for tool in tools:
        try:
            findings.extend(tool.findings)
            built.append(tool)
        except DefinitionError as error:
            findings.extend(error.all_findings)
    return built


def tool_json(tool: Component) -> dict[str, Any]:
    """Return a tool, resource or prompt as it is sent to clients, with the place of its definition, and how
    it is run if it belongs to a server of another library."""
    source = {"file": tool.source.file, "line": tool.source.line}
    adoption = {} if tool.adoption is None else {"adoption": tool.adoption.to_json()}
    return {**tool.to_wire(), "source": source, **adoption}


def catalog_json(
    tools: Iterable[Component], findings: Iterable[Finding], servers: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """Return the document that `list`, `scan`, `check` and `lint` print. It has lists of resources, templates
    and prompts where there are some. `servers` are the names of servers by the ids of their tools."""
    lists: dict[str, Any] = {"tools": []}
    for tool in tools:
        label = (servers or {}).get(id(tool))
        entry = {**tool_json(tool), **({} if label is None else {"server": label})}
        lists.setdefault(LIST_NAMES[label_of(tool)], []).append(entry)
    return {**lists, "findings": [finding.to_json() for finding in findings]}


def read_configs(targets: Sequence[str]) -> Iterator[Config]:
    """Yield the configuration files that can be read; loading the targets reports the others."""
    for file in settings_files(targets):
        try:
            yield load_config(file)
        except ConfigurationError:
            continue


# --- loading -----------------------------------------------------------------------------------------


def load(
    targets: Sequence[str],
    terminal: Terminal,
    *,
    timeout_s: float | None = None,
    name_rule: str | None = None,
) -> Loaded:
    """Load all targets. Raises CommandError for a target that does not exist."""
    with terminal.log.muted():
        loader = TargetLoader(terminal, name_rule)
        tools = loader.collect(targets)
        if loader.missing:
            raise first_error(loader.missing[:1])
        server = loader.make_server(dynamic=False, timeout_s=timeout_s)
        server.dispatcher.keeps_results = False  # this process ends with the call
        added = server.add(tools).findings
        try:
            apply_policy(server, loader.configs)
        except ConfigurationError as error:
            from toolcrib.policy.enforcer import find_unmatched  # delayed: most servers have no policy

            loader.reject(error)
            policies = [config.policy for config in loader.configs if config.policy is not None]
            for each in find_unmatched(policies[0], server.dispatcher.published()):
                loader.reject(each)
        return Loaded(server, [*loader.findings, *added])


def load_for_serving(
    targets: Sequence[str],
    terminal: Terminal,
    *,
    name: str | None = None,
    timeout_s: float | None = None,
    dynamic: bool = False,
    search: SearchMode | None = None,
    name_rule: str | None = None,
    **identity: Any,
) -> Loaded:
    """Load and build everything that exists.

    Raises CommandError where none of the targets exists, or a configuration or policy is invalid. `dynamic`
    means that the tools will be reloaded. `identity` overrides what the files say, and that overrides what an
    adopted server tells clients about itself.
    """
    loader = TargetLoader(terminal, name_rule)
    tools = loader.collect(targets)
    if loader.missing and not tools:
        raise first_error(loader.missing[:1])
    server = loader.make_server(tools, dynamic=dynamic, name=name, timeout_s=timeout_s)
    loaded = Loaded(server, list(loader.findings))
    if tools:
        loaded.check_config()  # otherwise all findings are shown
    settings = {key: value for key in _IDENTITY if (value := loader.first_setting(key)) is not None}
    adopted = identity_of(found) if (found := _find_adopted(tools)) is not None else {}
    server.settings = replace(server.settings, **{**adopted, **settings, **identity})
    server.storage.use(server.settings.state)
    server.dispatcher.keeps_results = server.settings.keeps_sessions
    _configure_search(server, search, loader.configs)
    for kind, registry in registries_of(server).items():
        if not loader.is_own(server):
            loaded.findings += registry.add_all(tool for tool in tools if tool.kind == kind).findings
        loaded.findings += registry.check()
    try:
        apply_policy(server, loader.configs)
    except ConfigurationError as error:
        raise first_error(config_findings(error)) from None
    if not dynamic and (unused := find_unused_policy(server)):
        raise first_error(unused)
    loaded.findings = list(dict.fromkeys(loaded.findings))
    loaded.log_format = loader.first_setting("log_format")
    return loaded


class TargetLoader:
    """Collects the tools of targets. What does not exist is a finding, and is in `missing` too."""

    def __init__(self, terminal: Terminal, name_rule: str | None = None) -> None:
        self.terminal = terminal
        self._name_rule = name_rule
        self.findings: list[Finding] = []
        self.missing: list[Finding] = []
        self.configs: list[Config] = []
        self._tools: list[Component] = []
        self._servers: list[MCPServer] = []
        self._arguments: tuple[str, ...] = ()

    def collect(self, targets: Sequence[str]) -> list[Component]:
        """Return the tools, resources and prompts of the targets."""
        self._arguments = targets.arguments if isinstance(targets, Targets) else ()
        for config in self._read_configs(targets):
            self.configs.append(config)
            self._add(config)
        if self.configs and not any(config.targets for config in self.configs):
            text = f"{self.configs[0].file} names no targets"
            self._add_missing(ConfigurationError(text, hint=NO_TARGETS_HINT))
        if self._arguments and not running_programs() and not self.findings:
            text = "the arguments after -- are not used: no target is a program that starts a server"
            self.findings.append(Finding("unused-arguments", "warning", text))
        return list(drop_repeated(self._tools))

    def first_setting(self, key: str) -> Any:
        """Return a setting of the first file that has it."""
        return next((value for config in self.configs if (value := getattr(config, key)) is not None), None)

    def is_own(self, server: MCPServer) -> bool:
        """Return whether a server comes from the targets and has its tools already."""
        return server in self._servers

    def make_server(
        self,
        tools: Sequence[Component] = (),
        *,
        dynamic: bool,
        name: str | None = None,
        timeout_s: float | None = None,
    ) -> MCPServer:
        """Return a server for the tools.

        Where the targets hold one server object and it has exactly these tools, it is used itself, so that
        changes by its tools take effect; otherwise a new server gets its settings.
        """
        servers = list(dict.fromkeys(self._servers))
        own = servers[0] if len(servers) == 1 else None
        if len(servers) > 1 and any(server.has_guards for server in servers):
            names = ", ".join(server.name for server in servers)
            hint = "use one target at a time, or move the policy into toolcrib.toml"
            raise CommandError(f"Several servers, of which one has a policy or middleware: {names}", hint)
        label = self._name_rule or self.first_setting("name_rule")
        rule = NAME_RULES[label] if label else None
        if own is None:
            server = MCPServer(dynamic=dynamic)
        elif tools and rule in (None, own.registry.rule) and _has_exactly(own, tools):
            server = own
            server.dynamic |= dynamic
        else:
            server = _copy_settings(own, dynamic)
        if rule is not None:
            server.registry.rule = server.prompts.rule = rule
        adopted = getattr(_find_adopted(tools), "name", None)
        server.name = name or self.first_setting("name") or adopted or server.name
        limit_s = timeout_s or self.first_setting("timeout_s")
        if limit_s is not None:
            server.dispatcher.timeout_s = limit_s
        for key in ("max_result_tokens", "large_results"):
            if (value := self.first_setting(key)) is not None:
                setattr(server.dispatcher, key, value)
        return server

    def reject(self, error: ConfigurationError) -> None:
        self.findings += config_findings(error)

    def _read_configs(self, targets: Sequence[str]) -> Iterator[Config]:
        """Yield one configuration per target; a target that is no configuration file gets its own."""
        switches = switches_from(os.environ)
        try:
            named = targets or [default_target()]
        except SourceError as error:
            self._add_missing(error)
            return
        for target in named:
            kind = parse_target(target).kind
            if kind == "address":
                hint = "list, show, search, call, read and prompt accept URLs"
                self._add_missing(SourceError(f"Cannot load {target}: it is a running server", hint=hint))
            elif kind != "settings":
                yield Config(targets=(target,), switches=switches)
            elif not Path(target).is_file():
                self._add_missing(ConfigurationError(f"No such file: {target}"))
            else:
                try:
                    yield load_config(Path(target), os.environ)
                except ConfigurationError as problem:
                    self.reject(problem)

    def _add(self, config: Config) -> None:
        batch = Batch()
        if config.file is not None and (folder := str(config.file.resolve().parent)) not in sys.path:
            sys.path.append(folder)
        for target in config.targets:
            try:
                found = replace(parse_target(target), arguments=self._arguments or config.arguments)
                found.check_exists()
                with Progress(self.terminal, "importing files") as progress:
                    part = collect(
                        found, namespace=config.namespace, switches=config.switches, progress=progress
                    )
                batch.extend(part)
                is_program = find_program(found) is not None
                if is_program or any(tool.adoption is not None for tool in part.tools):
                    batch.findings += _find_unserved(found, part)
                things = [program.server for program in running_programs()]
                self._servers += [item for item in things if isinstance(item, MCPServer)]
                self._servers += [] if is_program else _find_servers(found)
            except DefinitionError as error:
                if self.terminal.debug and error.__context__ is not None:
                    self.terminal.traceback(error.__context__)
                self._add_error(error, config)
        chosen, findings = config.choose(batch.everything)
        self._tools += chosen
        self.findings += [*batch.findings, *findings]

    def _add_error(self, error: DefinitionError, config: Config) -> None:
        """Add the finding of a target that cannot be read, with the place where it was named."""
        found = error.finding
        if not isinstance(error, SourceError) or found.file is not None:
            self.findings += error.all_findings
        elif config.file is None:
            self._add_missing(error)
        else:
            line = config.lines.get("server.targets")
            self.findings.append(replace(found, level="error", file=str(config.file), line=line))

    def _add_missing(self, error: SourceError | ConfigurationError) -> None:
        finding = Finding(error.code, "error", error.message, hint=error.hint)
        self.missing.append(finding)
        self.findings.append(finding)


def _find_unserved(target: Target, batch: Batch) -> Iterator[Finding]:
    """Warn of tools in the source of an adopted server that the server does not list. For a function that
    makes it, the source is that of the function and of those that it calls."""
    module = sys.modules.get(target.module or "")
    path = target.path or Path(getattr(module, "__file__", None) or "")
    lines = find_lines(path, target.name) if target.name else set()
    if target.kind == "script" or (target.name and not lines):
        return
    try:
        from toolcrib.sources.scan import scan  # delayed: few targets were written for another library

        found = scan(path if target.name else target.text).tools
    except Exception:
        return  # what is served does not depend on the source
    known = [*(tool.name for tool in batch.tools), *(item.tool for item in batch.findings if item.tool)]
    missing = [
        tool
        for tool in found
        if (not lines or tool.source.line in lines)
        and not any(name == tool.name or name.endswith(f"_{tool.name}") for name in known)  # mounted
    ]
    if missing:
        first = missing[0]
        names = shorten_list([f"{tool.name} ({format_source(tool.source)})" for tool in missing])
        yield Finding(
            "unserved-tools",
            "warning",
            f"{count(len(missing), 'tool')} in the source but not served: {names}",
            first.name if len(missing) == 1 else None,
            file=first.source.file,
            line=first.source.line,
            hint="the program or its server leaves them out: check its arguments and environment",
        )


def registries_of(server: MCPServer) -> dict[str, ToolRegistry]:
    """Return the registries of a server by the kind of what they hold."""
    return {"tool": server.registry, "resource": server.resources, "prompt": server.prompts}


def _find_servers(found: Target) -> list[MCPServer]:
    """Return the server objects in a target, which is loaded already."""
    if found.kind in ("folder", "descriptor", "script", "other"):
        return []
    thing: object = load_module(found.module or "") if found.path is None else load_file(found.path)
    for part in found.name.split(".") if found.name else ():
        thing = getattr(thing, part)
    items = vars(thing).values() if isinstance(thing, ModuleType) else (thing,)
    return [item for item in items if isinstance(item, MCPServer)]


def _find_adopted(tools: Sequence[Component]) -> Any:
    """Return the server of another library that all tools come from, or None."""
    servers: list[Any] = []
    if all(tool.adoption is not None for tool in tools):
        servers = [tool.owner.server for tool in tools if tool.owner is not None]
        servers += [program.server for program in running_programs() if program.server is not None]
    return servers[0] if len({id(server) for server in servers}) == 1 else None


def _has_exactly(server: MCPServer, tools: Sequence[Component]) -> bool:
    """Return whether a server has these tools, resources and prompts and no others, enabled and disabled
    alike."""
    entries = [entry for registry in registries_of(server).values() for entry in registry.entries()]
    there = [(id(e.tool.origin), e.tool.reference, e.tool.version, e.enabled) for e in entries]
    given = [(id(t.origin), t.reference, t.version, t.options.enabled) for t in tools]
    return sorted(there, key=str) == sorted(given, key=str)


def _copy_settings(own: MCPServer, dynamic: bool) -> MCPServer:
    """Return a new server with the settings and extensions of another, and none of its tools."""
    registry, search = own.registry, own.dispatcher.tool_search
    server = MCPServer(
        own.name,
        core_engine=own.core_engine,
        lifespan=None if own.lifespan is None else own.lifespan.function,
        dynamic=dynamic or own.dynamic,
        name_rule=registry.rule,
        on_duplicate=registry.on_duplicate,
        separator=registry.separator,
        timeout_s=own.dispatcher.timeout_s,
        max_result_tokens=own.dispatcher.max_result_tokens,
        large_results=own.dispatcher.large_results,
        policy=None if own.enforcer is None else own.enforcer.policy,
    )
    server.publish_search(*(("never", None) if search is None else (search.mode, search.budget_tokens)))
    server.settings = replace(own.settings, dynamic=server.dynamic)
    server.copy_extensions(own)
    return server


def _configure_search(server: MCPServer, requested: SearchMode | None, configs: Sequence[Config]) -> None:
    """The command line comes first, then the files, then the server's own code."""
    settings = [config.search for config in configs]
    publish = requested or next((item.publish for item in settings if item.publish is not None), None)
    budget = next((item.budget_tokens for item in settings if item.budget_tokens is not None), None)
    if publish is not None or budget is not None:
        search = server.dispatcher.tool_search
        own: tuple[SearchMode, int] = ("never", DEFAULT_BUDGET_TOKENS)
        if search is not None:
            own = (search.mode, search.budget_tokens)
        server.publish_search(publish or own[0], own[1] if budget is None else budget)


# --- policy ------------------------------------------------------------------------------------------


def apply_policy(server: MCPServer, configs: Sequence[Config]) -> None:
    """Enforce the policy of these files. Raises ConfigurationError for an invalid policy, CommandError for
    more than one."""
    files = [config for config in configs if config.policy is not None]
    if len(files) > 1:
        names = ", ".join(str(config.file) for config in files)
        raise CommandError(f"More than one policy: {names}", "keep the policy sections in one file")
    if files and is_policy_of(server, files[0].file):
        return  # the code has loaded it
    if files and server.enforcer is not None:
        raise CommandError(f"Both {files[0].file} and the server's code have a policy", "remove one of them")
    for config in files:
        if config.policy is not None:
            server.enforce(config.policy)


def is_policy_of(server: MCPServer, file: Path | None) -> bool:
    """Return whether the policy that the code has given to a server is that of a file."""
    own = None if server.enforcer is None else server.enforcer.policy.file
    return own is not None and file is not None and os.path.realpath(own) == os.path.realpath(file)


def find_unused_policy(server: MCPServer) -> list[Finding]:
    """Return findings for parts of the policy that match no tool, resource or prompt of the server."""
    errors = [] if server.enforcer is None else server.enforcer.check(server.dispatcher.published())
    return [finding for error in errors for finding in config_findings(error)]


def find_skill_problems(resources: Iterable[Component]) -> list[Finding]:
    """Return what lint finds in the skills among resources."""
    found = [tool for tool in resources if tool.extension == SKILLS]
    if not found:
        return []
    from toolcrib.catalog.lint.skills import inspect_skills  # delayed: few servers have skills

    return list(inspect_skills(found))


def config_findings(error: ConfigurationError) -> list[Finding]:
    """Return an error and those reported with it as findings."""
    return [
        Finding(
            each.code,
            "error",
            f"{each.key}: {each.message}" if each.key else each.message,
            file=each.file,
            line=each.line,
            hint=each.hint,
        )
        for each in (error, *error.others)
    ]


def first_error(findings: Sequence[Finding]) -> CommandError:
    """Return the first problem as an error, with the number of the others."""
    first = findings[0]
    place = f"{format_source(first.where)}: " if first.file else ""
    rest = f" (and {len(findings) - 1} more: see `toolcrib check`)" if len(findings) > 1 else ""
    return CommandError(f"{place}{first.message}{rest}", first.hint)


# --- one tool, resource or prompt --------------------------------------------------------------------

COMMANDS = {"tool": "call", "resource": "read", "prompt": "prompt"}
"""The commands that run one thing, by its kind."""


class Named(NamedTuple):
    """What a command line names, and the server it is on. `values` are the variables in a URI that a template
    matches; None where the template itself, or something else, is named."""

    loaded: Loaded
    tool: Component
    values: dict[str, Any] | None = None


def parse_reference(name: str) -> tuple[str | None, str]:
    """Return the kind and the name in `tool:NAME`, `resource:URI` and `prompt:NAME`. The kind of a URI is
    "resource", that of any other name is None."""
    kind, colon, rest = name.partition(":")
    if kind in KINDS and rest:
        return kind, rest
    return ("resource" if colon and rest.startswith("//") else None), name


def check_is_no_file(name: str, targets: Sequence[str], kind: str = "tool") -> None:
    """Raise CommandError where a file was named in place of a tool."""
    if not targets and name.endswith((".py", ".toml")) and "://" not in name:
        raise CommandError(f"{name} is a file, not a {kind}", f"use it as a target: -t {name}")


def load_one(
    name: str, targets: Sequence[str], terminal: Terminal, *, timeout_s: float | None = None
) -> tuple[Loaded, Component]:
    """Find a tool by its name among the targets, or by its place: `file.py:name`, `module:name`."""
    check_is_no_file(name, targets)
    is_place = _is_place(name)
    if is_place and targets:
        raise CommandError(f"--target cannot be combined with {name}", "give the name of the tool alone")
    loaded = load([name] if is_place else targets, terminal, timeout_s=timeout_s)
    loaded.check_config()  # no call bypasses a policy
    if is_place:
        tools = [entry.tool for entry in loaded.entries if entry.enabled]
        if len(tools) > 1:
            hint = f"choose one: -t {name} {tools[0].name}"
            raise CommandError(f"{name} contains {count(len(tools), 'tool')}", hint)
        tool = tools[0] if tools else None
    else:
        tool = loaded.server.registry.try_get(name)
    if tool is None:
        raise explain_missing(name, "tool", loaded, terminal)
    return loaded, _check_found(tool, loaded, terminal)


def load_feature(
    kind: str, name: str, targets: Sequence[str], terminal: Terminal, *, timeout_s: float | None = None
) -> Named:
    """Find a resource by its URI or template, or a prompt by its name."""
    check_is_no_file(name, targets, kind)
    loaded = load(targets, terminal, timeout_s=timeout_s)
    loaded.check_config()
    found = find_named(loaded, kind, name)
    if found is None:
        raise explain_missing(name, kind, loaded, terminal)
    _check_found(found.tool, loaded, terminal)
    return found


def load_named(name: str, targets: Sequence[str], terminal: Terminal) -> Named:
    """Find a tool, a resource or a prompt. `tool:`, `resource:` and `prompt:` before the name choose the
    kind."""
    kind, plain = parse_reference(name)
    if kind == "tool" or (kind is None and _is_place(plain)):
        return Named(*load_one(plain, targets, terminal))
    if kind is not None:
        return load_feature(kind, plain, targets, terminal)
    check_is_no_file(plain, targets)
    loaded = load(targets, terminal)
    loaded.check_config()
    found = [item for each in ("tool", "prompt") if (item := find_named(loaded, each, plain)) is not None]
    if not found:
        raise explain_missing(plain, None, loaded, terminal)
    if len(found) > 1:
        choices = " or ".join(f"{item.tool.kind}:{plain}" for item in found)
        raise CommandError(f"'{plain}' is a tool and a prompt", f"write {choices}")
    _check_found(found[0].tool, loaded, terminal)
    return found[0]


def find_named(loaded: Loaded, kind: str, name: str) -> Named | None:
    """Return what is enabled under a name, or the resource that a URI or a template names."""
    tool = registries_of(loaded.server)[kind].try_get(name)
    if kind != "resource":
        return None if tool is None else Named(loaded, tool)
    if tool is not None and tool.name == name:  # the case of a URI matters
        return Named(loaded, tool)
    resource, values = loaded.server.dispatcher.find_resource(name)
    return None if resource is None else Named(loaded, resource, values)


def _is_place(name: str) -> bool:
    return ":" in name.lstrip(":")


def _check_found(tool: Component, loaded: Loaded, terminal: Terminal) -> Component:
    """Raise what is wrong with a tool, and print what the user should know before it runs."""
    tool.check()
    for finding in loaded.findings:
        if finding.code == BYPASSED:
            terminal.finding(finding)
    return tool


def explain_missing(name: str, kind: str | None, loaded: Loaded, terminal: Terminal) -> CommandError:
    """Return why there is no such thing: disabled, invalid, of another kind, misspelt or unknown."""
    folded, is_place = name.casefold(), kind in (None, "tool") and _is_place(name)
    entries = [entry for entry in loaded.everything if kind in (None, entry.tool.kind)]
    for entry in entries:
        if not entry.enabled and (entry.tool.name.casefold() == folded or is_place):
            return CommandError(f"{entry.tool.label} is disabled", enable_hint(entry.tool.options.group))
    for finding in loaded.errors:
        if (finding.tool or "").casefold() == folded or is_place:
            return first_error([finding])
        if finding.tool is None:
            terminal.finding(finding)
    noun = kind or name_kinds("", [entry.tool for entry in entries])
    for other in KINDS if kind is not None else ():
        if other != kind and find_named(loaded, other, name) is not None:
            hint: str | None = f"it is a {other}: use toolcrib {COMMANDS[other]} {name}"
            return CommandError(f"Unknown {noun}: {name}", hint)
    hint = suggest(name, [entry.tool.name for entry in entries])
    return CommandError(f"Unknown {noun}: {name}", hint)


def enable_hint(group: str | None) -> str:
    """Return how to enable a tool of this group."""
    if not group:
        return "mark it with enabled=True"
    switch = f"enable_{group}_tools"
    return f"set {switch} = true under [tools] in {FILE_NAME}, or TOOLCRIB_{switch.upper()}=1"
