"""Load the targets of a command line into a server, and find one tool in it.

Without targets, the `toolcrib.toml` of the current folder is loaded. A problem with one target becomes a
finding and does not hide the others. A target that does not exist is a usage error for
most commands; `serve` serves the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.catalog.catalog import Catalog, TargetLoader, config_findings
from toolcrib.cli.options import CommandError, Targets
from toolcrib.cli.output import Progress, Terminal, format_source
from toolcrib.cli.text import count, suggest
from toolcrib.component import Component
from toolcrib.config import FILE_NAME, Config, load_config
from toolcrib.dispatch.tool_search import DEFAULT_BUDGET_TOKENS, SearchMode
from toolcrib.errors import ConfigurationError, Finding
from toolcrib.registry.index import Entry
from toolcrib.registry.registry import ToolRegistry
from toolcrib.registry.selection import KINDS, name_kinds
from toolcrib.server import MCPServer
from toolcrib.sources.foreign.program import running_programs
from toolcrib.sources.foreign.recognition import identity_of
from toolcrib.sources.modules import BYPASSED
from toolcrib.sources.targets import settings_files

_IDENTITY = (
    "version",
    "title",
    "instructions",
    "page_size",
    "log_arguments",
    "errors",
    "tasks",
    "state",
    "fleet",
)


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

    def catalog(self, terminal: Terminal) -> Catalog:
        """Return the catalog of the server. Problems with building are added to the findings."""
        found = Catalog.of(
            registries_of(self.server).values(), self.findings, watch=partial(Progress, terminal)
        )
        self.findings = found.findings
        return found

    def check_config(self) -> None:
        """Raise CommandError if the configuration is invalid: it may contain a policy."""
        if found := [finding for finding in self.errors if finding.code == ConfigurationError.code]:
            raise first_error(found)


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
        loader = make_loader(targets, terminal, name_rule)
        tools = loader.collect(targets)
        if loader.missing:
            raise CommandError(loader.missing[0].message, loader.missing[0].hint)
        server = make_server(loader, dynamic=False, timeout_s=timeout_s)
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

    Raises CommandError if none of the targets exists, or a configuration or policy is invalid. `dynamic`
    means that the tools will be reloaded. `identity` overrides the files, and they override what an
    adopted server tells clients about itself.
    """
    loader = make_loader(targets, terminal, name_rule)
    tools = loader.collect(targets)
    if loader.missing and not tools:
        raise CommandError(loader.missing[0].message, loader.missing[0].hint)
    server = make_server(loader, tools, dynamic=dynamic, name=name, timeout_s=timeout_s)
    loaded = Loaded(server, list(loader.findings))
    if tools:
        loaded.check_config()  # otherwise all findings are shown
    settings = {key: value for key in _IDENTITY if (value := loader.first_setting(key)) is not None}
    adopted = identity_of(found) if (found := _find_adopted(tools)) is not None else {}
    server.use_settings(replace(server.settings, **{**adopted, **settings, **identity}))
    server.dispatcher.keeps_results = server.settings.keeps_sessions
    _configure_search(server, search, loader.configs)
    for kind, registry in registries_of(server).items():
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


def make_loader(targets: Sequence[str], terminal: Terminal, name_rule: str | None = None) -> TargetLoader:
    """Return a loader that shows its progress on the terminal, and with --debug what targets raise."""
    return TargetLoader(
        partial(Progress, terminal),
        name_rule=name_rule,
        arguments=targets.arguments if isinstance(targets, Targets) else (),
        on_error=terminal.traceback if terminal.debug else None,
    )


def make_server(
    loader: TargetLoader,
    tools: Sequence[Component] = (),
    *,
    dynamic: bool,
    name: str | None = None,
    timeout_s: float | None = None,
) -> MCPServer:
    """Return a server without tools: the server object in the targets if there is one, so that changes by its
    tools take effect, else a new one."""
    servers = list(dict.fromkeys(item for item in loader.servers if isinstance(item, MCPServer)))
    own = servers[0] if len(servers) == 1 else None
    if len(servers) > 1 and any(server.has_guards for server in servers):
        names = ", ".join(server.name for server in servers)
        hint = "use one target at a time, or move the policy into toolcrib.toml"
        raise CommandError(f"Several servers, of which one has a policy or middleware: {names}", hint)
    server = MCPServer() if own is None else own
    server.dynamic |= dynamic
    for registry in registries_of(server).values():
        registry.remove_tools([entry.tool for entry in registry.entries()])  # not all of them may be chosen
    if (rule := loader.name_rule) is not None:
        server.registry.rule = server.prompts.rule = rule
    adopted = getattr(_find_adopted(tools), "name", None)
    server.name = name or loader.first_setting("name") or adopted or server.name
    limit_s = timeout_s or loader.first_setting("timeout_s")
    if limit_s is not None:
        server.dispatcher.timeout_s = limit_s
    for key in ("max_result_tokens", "large_results"):
        if (value := loader.first_setting(key)) is not None:
            setattr(server.dispatcher, key, value)
    return server


def registries_of(server: MCPServer) -> dict[str, ToolRegistry]:
    """Return the registries of a server by the kind of their components."""
    return {"tool": server.registry, "resource": server.resources, "prompt": server.prompts}


def _find_adopted(tools: Sequence[Component]) -> Any:
    """Return the server of another library that all tools come from, or None."""
    servers: list[Any] = []
    if all(tool.adoption is not None for tool in tools):
        servers = [tool.owner.server for tool in tools if tool.owner is not None]
        servers += [program.server for program in running_programs() if program.server is not None]
    return servers[0] if len({id(server) for server in servers}) == 1 else None


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
    """Return whether the code has given a server the policy of a file."""
    own = None if server.enforcer is None else server.enforcer.policy.file
    return own is not None and file is not None and os.path.realpath(own) == os.path.realpath(file)


def find_unused_policy(server: MCPServer) -> list[Finding]:
    """Return findings for parts of the policy that match no tool, resource or prompt of the server."""
    errors = [] if server.enforcer is None else server.enforcer.check(server.dispatcher.published())
    return [finding for error in errors for finding in config_findings(error)]


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
    """The component that a command line names, and its server. `name` has no kind before it. `values` are the
    variables in a URI that a template matches; None if the template itself, or something else, is
    named."""

    loaded: Loaded
    tool: Component
    values: dict[str, Any] | None = None
    name: str = ""


def parse_reference(name: str) -> tuple[str | None, str]:
    """Return the kind and the name in `tool:NAME`, `resource:URI` and `prompt:NAME`. The kind of a URI is
    "resource", the kind of any other name None."""
    kind, colon, rest = name.partition(":")
    if kind in KINDS and rest:
        return kind, rest
    return ("resource" if colon and rest.startswith("//") else None), name


def check_is_no_file(name: str, targets: Sequence[str], kind: str = "tool") -> None:
    """Raise CommandError if a file was named in place of a tool."""
    if not targets and name.endswith((".py", ".toml")) and "://" not in name:
        raise CommandError(f"{name} is a file, not a {kind}", f"use it as a target: -t {name}")


def load_named(
    name: str,
    targets: Sequence[str],
    terminal: Terminal,
    kind: str | None = None,
    *,
    timeout_s: float | None = None,
) -> Named:
    """Find a tool, a resource or a prompt by its name or URI, or a tool by its place: `file.py:name`,
    `module:name`. `tool:`, `resource:` and `prompt:` before the name choose the kind; else it may be any, or
    is the `kind` that a command runs."""
    given, plain = parse_reference(name)
    if kind in (None, given):
        kind, name = given, plain
    check_is_no_file(name, targets, kind or "tool")
    is_place = kind in (None, "tool") and _is_place(name)
    if is_place and targets:
        raise CommandError(f"--target cannot be combined with {name}", "give the name of the tool alone")
    loaded = load([name] if is_place else targets, terminal, timeout_s=timeout_s)
    loaded.check_config()  # nothing bypasses a policy
    if is_place:
        kind = "tool"
        found = [Named(loaded, entry.tool) for entry in loaded.entries if entry.enabled]
        if len(found) > 1:
            hint = f"choose one: -t {name} {found[0].tool.name}"
            raise CommandError(f"{name} contains {count(len(found), 'tool')}", hint)
    else:
        kinds = ("tool", "prompt") if kind is None else (kind,)
        found = [item for each in kinds if (item := find_named(loaded, each, name)) is not None]
    if not found:
        raise explain_missing(name, kind, loaded, terminal)
    if len(found) > 1:
        choices = " or ".join(f"{item.tool.kind}:{name}" for item in found)
        raise CommandError(f"'{name}' is a tool and a prompt", f"write {choices}")
    found[0].tool.check()
    for finding in loaded.findings:
        if finding.code == BYPASSED:
            terminal.finding(finding)
    return found[0]._replace(name=name)


def find_named(loaded: Loaded, kind: str, name: str) -> Named | None:
    """Return the enabled component of a name, or the resource that a URI or a template names."""
    tool = registries_of(loaded.server)[kind].try_get(name)
    if kind != "resource":
        return None if tool is None else Named(loaded, tool)
    if tool is not None and tool.name == name:  # the case of a URI matters
        return Named(loaded, tool)
    resource, values = loaded.server.dispatcher.find_resource(name)
    return None if resource is None else Named(loaded, resource, values)


def _is_place(name: str) -> bool:
    return ":" in name.lstrip(":")


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
