"""Tools for the catalog commands: imported, read from source, or listed by a running server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from toolcrib.catalog.lock import FILE_NAME as LOCK_NAME
from toolcrib.cli.load import build_tools, load, read_configs
from toolcrib.cli.options import static_option, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, RemoteOptions, find_search_tool, remote_options
from toolcrib.config import FILE_NAME, LockConfig
from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding
from toolcrib.sources.described import describe
from toolcrib.tool import Tool


@dataclass(slots=True)
class ToolSet:
    """Tools whose definitions are built, and findings about them and the rest."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    label: str = ""
    is_sample: bool = False

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    def add_definition(self, definition: ToolDefinition) -> None:
        """Add a tool that cannot be called; where it cannot be built, add a finding."""
        try:
            tool = describe(definition)
            self.findings.extend(tool.findings)
            self.tools.append(tool)
        except DefinitionError as error:
            self.findings.append(error.finding)


@dataclass(frozen=True, slots=True)
class ToolSource:
    """Where a command gets its tools: the targets, read or imported, or a running server."""

    targets: Sequence[str] = ()
    static: bool = False
    remote: RemoteOptions = field(default_factory=RemoteOptions)

    def collect(self, terminal: Terminal, *, with_unlisted: bool = False) -> ToolSet:
        """Return the tools; `with_unlisted` adds disabled tools and older versions."""
        server = self.remote.connect_to(self.targets)
        label = ", ".join(self.targets)
        if server is not None:
            return _collect_remote(server, self.remote.command or label, terminal)
        if self.static:
            from toolcrib.cli.scan import scan_targets  # delayed: most commands import their targets

            found = scan_targets(self.targets, terminal)
            tools = [*found.tools, *(found.unlisted if with_unlisted else ())]
            is_sample = not self.targets and not Path(FILE_NAME).is_file()
            return ToolSet(tools, list(found.findings), label, is_sample)
        loaded = load(self.targets, terminal)
        listed = [entry.tool for entry in loaded.entries] if with_unlisted else loaded.server.registry
        return ToolSet(build_tools(listed, loaded.findings), loaded.findings, label, loaded.is_sample)


def _collect_remote(server: Remote, label: str, terminal: Terminal) -> ToolSet:
    listing = server.list(terminal)
    found = ToolSet(findings=list(listing.findings), label=label)
    if find_search_tool(item.name for item in listing.tools) is not None:
        terminal.message(
            "warning",
            f"{label} lists search tools instead of its tools; the tools behind them are not included",
            "serve it with --search never, or use its source",
        )
    for item in listing.tools:
        found.add_definition(item.definition)
    return found


def tool_source_options(function: Callable[..., Any]) -> Any:
    """Add targets, `--static` and the options of running servers; pass them as `source: ToolSource`."""

    @wraps(function)
    def call(*args: Any, targets: Sequence[str], static: bool, remote: RemoteOptions, **extra: Any) -> Any:
        return function(*args, source=ToolSource(targets, static, remote), **extra)

    return targets_argument(static_option(remote_options(call)))


def find_lock(targets: Sequence[str], given: str | None = None) -> tuple[Path, LockConfig]:
    """Return the lock file and its settings: the file given, else the one of the first configuration file,
    else `toolcrib.lock` beside that file or in the current folder."""
    for config in read_configs(targets):
        beside = (config.file or Path()).parent / LOCK_NAME
        return Path(given) if given is not None else config.lock.file or beside, config.lock
    return Path(given if given is not None else LOCK_NAME), LockConfig()
