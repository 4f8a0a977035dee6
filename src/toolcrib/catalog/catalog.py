"""A catalog: tools, resources and prompts from one place, with findings about the others.

    open_catalog(["tools.py"])                          # imported
    open_catalog(["servers/"], "static")                # source that is read and not run
    open_catalog(["toolcrib.lock"], "lock")             # pinned, without code
    open_catalog([url], "remote", listed=components)    # of a server, which the caller has asked

Without targets, the `toolcrib.toml` of the current folder is opened. A problem with one target becomes a
finding and does not hide the others; a target that does not exist is an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from toolcrib.component import Component
from toolcrib.config import Config, load_config, switches_from
from toolcrib.errors import ConfigurationError, DefinitionError, Finding, SourceError
from toolcrib.names import MCP, NAME_RULES, URI
from toolcrib.registry.registry import ToolRegistry
from toolcrib.registry.selection import LIST_NAMES, drop_repeated, label_of
from toolcrib.sources import Batch, collect
from toolcrib.sources.foreign.program import find_program, running_programs
from toolcrib.sources.loading import load_file, load_module
from toolcrib.sources.objects import registry_of
from toolcrib.sources.targets import Target, default_target, parse_target

How = Literal["import", "static", "remote", "lock"]
Step = Callable[[float, float | None], None]
"""Called with the number of items that are done, and the total."""
Watch = Callable[[str], AbstractContextManager[Step]]
"""Called with the name of a step that begins."""
NO_TARGETS_HINT = 'write targets = ["tools.py"] under [server], or name targets on the command line'
_SCAN_STEPS = {"files": "reading files", "modules": "analysing modules", "tools": "building tools"}


def unwatched(_: str) -> AbstractContextManager[Step]:
    return nullcontext(lambda *_: None)


@dataclass(slots=True)
class Catalog:
    """Components that are listed, those that are `hidden` because they are disabled or older versions, and
    findings about all of them and the rest. `label` says where they are from, for people."""

    components: list[Component] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    label: str = ""
    hidden: list[Component] = field(default_factory=list)
    servers: dict[int, str] = field(default_factory=dict)
    """The names of the servers in source files, by the ids of their tools."""
    files: list[Path] = field(default_factory=list)
    """The source files of the targets."""
    read: list[Path] = field(default_factory=list)
    """All source files that were looked into."""
    server: str = ""
    """The name, version and protocol of a running server."""

    @classmethod
    def of(
        cls,
        registries: Iterable[ToolRegistry],
        findings: Iterable[Finding] = (),
        label: str = "",
        watch: Watch = unwatched,
    ) -> Catalog:
        """Return the components of registries. One that cannot be built is a finding."""
        catalog = cls(findings=list(findings), label=label)
        every = list(registries)
        listed = [component for registry in every for component in registry]
        known = set(map(id, listed))
        entries = [entry.tool for registry in every for entry in registry.entries()]
        catalog.components = catalog.build(listed, watch)
        catalog.hidden = catalog.build([item for item in entries if id(item) not in known], watch)
        return catalog

    @property
    def everything(self) -> list[Component]:
        return [*self.components, *self.hidden]

    @property
    def tools(self) -> list[Component]:
        return [component for component in self.components if component.kind == "tool"]

    @property
    def others(self) -> list[Component]:
        """Resources, templates and prompts."""
        return [component for component in self.components if component.kind != "tool"]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    def build(self, components: Sequence[Component], watch: Watch = unwatched) -> list[Component]:
        """Return the components whose definition can be built; add the problems of any of them to the
        findings."""
        built = []
        with watch("building tools") as step:
            for number, component in enumerate(components):
                step(number, len(components))
                try:
                    self.findings.extend(component.findings)
                    built.append(component)
                except DefinitionError as error:
                    self.findings.extend(error.all_findings)
        return built

    def drop_duplicates(self) -> None:
        """Keep the first component of each kind, name and version, and report the others as errors. A scan
        finds several that are on different servers."""
        first: dict[tuple[str, str | None], Component] = {}
        for tool in self.everything:
            other = first.setdefault((tool.reference, tool.version), tool)
            if other is not tool:
                text = f"{tool.label} is defined twice: at {other.source} and at {tool.source}"
                hint = "take one server at a time: name its file, or FILE:SERVER"
                place = (tool.source.file, tool.source.line)
                self.findings.append(
                    Finding("duplicate-name", "error", text, tool.reference, None, *place, hint)
                )
        kept = set(map(id, first.values()))
        self.components = [tool for tool in self.components if id(tool) in kept]
        self.hidden = [tool for tool in self.hidden if id(tool) in kept]

    def to_json(self) -> dict[str, Any]:
        """Return the document that `list`, `scan` and `check` print. It has lists of resources, templates and
        prompts where there are some."""
        lists: dict[str, Any] = {"tools": []}
        for component in self.components:
            server = self.servers.get(id(component))
            entry = {**component_json(component), **({} if server is None else {"server": server})}
            lists.setdefault(LIST_NAMES[label_of(component)], []).append(entry)
        return {**lists, "findings": [finding.to_json() for finding in self.findings]}


def component_json(component: Component) -> dict[str, Any]:
    """Return a tool, resource or prompt as it is sent to clients, with the place of its definition, and how
    it is run if it belongs to a server of another library."""
    source = {"file": component.source.file, "line": component.source.line}
    adoption = {} if component.adoption is None else {"adoption": component.adoption.to_json()}
    return {**component.to_wire(), "source": source, **adoption}


def open_catalog(
    targets: Sequence[str] = (),
    how: How = "import",
    *,
    listed: Sequence[Component] = (),
    watch: Watch = unwatched,
    loader: TargetLoader | None = None,
) -> Catalog:
    """Return the catalog of targets.

    `listed` are the components of a running server, `watch` shows the progress, and `loader` is one with
    options of its own. Raise SourceError or ConfigurationError for a target that does not exist.
    """
    label = ", ".join(targets)
    match how:
        case "lock":
            from toolcrib.catalog.lock import Lock  # delayed: few catalogs are locks

            return Catalog(Lock.load(targets[0]).tools, label=label)
        case "remote":
            catalog = Catalog(label=label)
            catalog.components = catalog.build(listed)
            for component in catalog.tools:
                try:
                    MCP.check(component.name)
                except DefinitionError as error:
                    file = component.source.file
                    finding = replace(error.finding, level="warning", tool=component.name, file=file)
                    catalog.findings.append(finding)
            return catalog
        case "static":
            return _scan(targets, label, watch)
    loader = loader or TargetLoader(watch)
    components = loader.collect(targets)
    if loader.missing:
        raise loader.missing[0]
    registries = loader.make_registries()
    for kind, registry in registries.items():
        found = registry.add_all(component for component in components if component.kind == kind)
        loader.findings += found.findings
    return Catalog.of(registries.values(), loader.findings, label, watch)


def _scan(targets: Sequence[str], label: str, watch: Watch) -> Catalog:
    from toolcrib.sources.scan import scan  # delayed: most catalogs are imported

    steps: dict[str, Step] = {}
    with ExitStack() as stack:

        def show_progress(step: str, done: int, total: int) -> None:
            if step not in steps:
                steps[step] = stack.enter_context(watch(_SCAN_STEPS[step]))
            steps[step](done, total)

        found = scan(*targets, progress=show_progress)
    listed = [*found.tools, *found.features]
    return Catalog(listed, found.findings, label, found.unlisted, found.servers, found.files, found.read)


# --- importing targets ---------------------------------------------------------------------------------


class TargetLoader:
    """Collects the tools of targets, and the servers in them. A problem is a finding; targets that do
    not exist are in `missing` too. `arguments` are for programs that start a server; `on_error` gets the
    exceptions of targets."""

    def __init__(
        self,
        watch: Watch = unwatched,
        *,
        name_rule: str | None = None,
        arguments: tuple[str, ...] = (),
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.findings: list[Finding] = []
        self.missing: list[SourceError | ConfigurationError] = []
        self.configs: list[Config] = []
        self.servers: list[Any] = []
        self._watch = watch
        self._name_rule = name_rule
        self._arguments = arguments
        self._on_error = on_error
        self._components: list[Component] = []

    def collect(self, targets: Sequence[str]) -> list[Component]:
        """Return the tools, resources and prompts of the targets."""
        for config in self._read_configs(targets):
            self.configs.append(config)
            self._add(config)
        if self.configs and not any(config.targets for config in self.configs):
            text = f"{self.configs[0].file} names no targets"
            self._add_missing(ConfigurationError(text, hint=NO_TARGETS_HINT))
        if self._arguments and not running_programs() and not self.findings:
            text = "the arguments after -- are not used: no target is a program that starts a server"
            self.findings.append(Finding("unused-arguments", "warning", text))
        return list(drop_repeated(self._components))

    def first_setting(self, key: str) -> Any:
        """Return a setting of the first file that has it."""
        return next((value for config in self.configs if (value := getattr(config, key)) is not None), None)

    @property
    def name_rule(self) -> Any:
        """The rule for names that the caller or a file has chosen, or None."""
        label = self._name_rule or self.first_setting("name_rule")
        return NAME_RULES[label] if label else None

    def make_registries(self) -> dict[str, ToolRegistry]:
        """Return registries by kind, with the rules of the server in the targets if there is one."""
        owned = {id(found): found for server in self.servers if (found := registry_of(server)) is not None}
        own = next(iter(owned.values())) if len(owned) == 1 else ToolRegistry()
        rule = self.name_rule or own.rule
        rules = {"tool": rule, "resource": URI, "prompt": rule}
        return {
            kind: ToolRegistry(name_rule=each, on_duplicate=own.on_duplicate, separator=own.separator)
            for kind, each in rules.items()
        }

    def reject(self, error: ConfigurationError) -> None:
        self.findings += config_findings(error)

    def _read_configs(self, targets: Sequence[str]) -> Iterator[Config]:
        """Yield one configuration per target; other targets get their own."""
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
                with self._watch("importing files") as step:
                    part = collect(found, namespace=config.namespace, switches=config.switches, progress=step)
                batch.extend(part)
                self.servers += [program.server for program in running_programs()]
                self.servers += [] if find_program(found) is not None else _find_objects(found)
            except DefinitionError as error:
                if self._on_error is not None and error.__context__ is not None:
                    self._on_error(error.__context__)
                self._add_error(error, config)
        chosen, findings = config.choose(batch.everything)
        self._components += chosen
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
        self.missing.append(error)
        self.findings.append(Finding(error.code, "error", error.message, hint=error.hint))


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


def _find_objects(found: Target) -> list[Any]:
    """Return the objects in a target, which is loaded already."""
    if found.kind in ("folder", "descriptor", "script", "other"):
        return []
    thing: object = load_module(found.module or "") if found.path is None else load_file(found.path)
    for part in found.name.split(".") if found.name else ():
        thing = getattr(thing, part)
    return list(vars(thing).values()) if isinstance(thing, ModuleType) else [thing]
