"""Shared parts of `toolcrib serve`: its options, the lock file, and the summary of what is served."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.cli.load import Loaded, enable_hint
from toolcrib.cli.options import CommandError
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import count, first_line, shorten_list
from toolcrib.config.settings import Policy
from toolcrib.dispatch.tool_search import SearchMode
from toolcrib.errors import DriftError, Finding

if TYPE_CHECKING:
    from toolcrib.catalog.lock import Guard, OnDrift
    from toolcrib.registry.registry import Change

MAX_SHOWN = 40
_MAX_DESCRIPTION = 100
_DRIFT_CODES = (DriftError.code, "locked-but-missing")
logger = logging.getLogger("toolcrib")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The command line of `serve`."""

    targets: Sequence[str] = ()
    stdio: bool = False
    host: str | None = None
    port: int | None = None
    path: str | None = None
    workers: int | None = None
    reload: bool = False
    allow_host: Sequence[str] = ()
    allow_origin: Sequence[str] = ()
    insecure: bool = False
    name: str | None = None
    search: SearchMode | None = None
    as_json: bool = False
    strict: bool = False
    log_level: str | None = None
    log_format: str | None = None
    timeout_s: float | None = None
    verbose: bool = False
    locked: bool = False
    lock: str | None = None
    on_drift: OnDrift | None = None

    @property
    def is_locked(self) -> bool:
        return self.locked or self.lock is not None or self.on_drift is not None


@dataclass(slots=True)
class LockedRegistry:
    """A registry that is held to a lock file; `guard` is None where the server must not start."""

    file: Path
    guard: Guard | None = None

    def reread(self) -> None:
        """Use the current content of the file, so that `toolcrib lock` lets reviewed changes through."""
        from toolcrib.catalog.lock import Lock

        if self.guard is not None:
            self.guard.lock = replace(Lock.load(self.file), targets=self.guard.lock.targets)


def lock_registry(loaded: Loaded, options: ServeOptions) -> LockedRegistry:
    """Hold the registry to the lock file and add what differs to the findings. Raises ConfigurationError."""
    from toolcrib.catalog.lock import Guard, Lock  # delayed: only needed with --locked
    from toolcrib.cli.catalog import find_lock

    registry = loaded.server.registry
    file, settings = find_lock(options.targets, options.lock)
    on_drift = options.on_drift or settings.on_drift or "refuse"
    lock = replace(Lock.load(file), targets=tuple(options.targets))
    drift = lock.check(entry.tool for entry in registry.entries())
    locked = LockedRegistry(file)
    if drift.ok or on_drift == "quarantine":
        lock.guard(registry, on_drift)
        locked.guard = registry.guard if isinstance(registry.guard, Guard) else None

        def warn_missing(change: Change) -> None:
            if locked.guard is None or change.kind not in ("removed", "changed"):
                return
            for name, version in locked.guard.lock.pins:
                if name in change.names and registry.snapshot.group_of(name) is None:
                    label = f"{name}@{version}" if version else name
                    logger.warning("'%s' is locked but no longer registered", label)

        registry.subscribe(warn_missing)
    loaded.findings += drift.findings("error" if locked.guard is None else "warning")
    if loaded.paths:
        loaded.paths.append(file)
    return locked


def check_workers_policy(policy: Policy, workers: int) -> None:
    """Raise CommandError where several processes would each count what the policy counts for all."""
    if workers == 1 or policy.store is not None:
        return
    limits = [
        f"limits[{number}]"
        for number, limit in enumerate(policy.limits, start=1)
        if any(amount is not None for amount in (limit.rate, limit.concurrency, limit.daily))
    ]
    confirmations = [f"rules[{number}]" for number, rule in enumerate(policy.rules, start=1) if rule.confirm]
    if limits or confirmations:
        effect = f"this limit would allow {workers} times as much"
        if not limits:
            effect = f"one confirmation would allow {workers} calls"
        text = f"{workers} workers need a shared store: {effect}"
        hint = 'set a file under [policy]: store = "policy.db"; or use one process'
        error = policy.error_at((limits or confirmations)[0], text, hint)
        raise CommandError(str(error), error.hint)


@dataclass(frozen=True, slots=True)
class Summary:
    """What is served, as plain data that a worker can send to its parent.

    `tools` has names and first lines, `disabled` names and groups, `search` the arguments of a message where
    search tools are listed instead. `credential` is what HTTP callers must present, if anything.
    """

    name: str
    tools: list[tuple[str, str]]
    disabled: list[tuple[str, str]]
    findings: list[Finding]
    is_sample: bool
    search: list[str] | None = None
    credential: str | None = None

    @classmethod
    def of(cls, loaded: Loaded) -> Summary:
        server = loaded.server
        entries = [entry for entry in loaded.entries if not entry.enabled]
        search = server.dispatcher.tool_search
        listing = None if search is None else search.listing()
        notice = None
        if search is not None and listing is not None and listing.is_reduced:
            notice = ["warning" if search.mode == "auto" else "note", listing.explanation, listing.hint]
        auth = None if server.enforcer is None else server.enforcer.policy.auth
        return cls(
            server.name,
            [(tool.name, first_line(tool.definition)) for tool in server.registry.published()],
            [(entry.tool.name, entry.tool.options.group or "") for entry in entries],
            loaded.findings,
            loaded.is_sample,
            notice,
            None if auth is None else "KEY" if auth.keys is not None else "TOKEN",
        )

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def drifted(self) -> list[Finding]:
        """Differences from the lock that prevent the start."""
        return [finding for finding in self.errors if finding.code == DriftError.code]

    @property
    def quarantined(self) -> list[Finding]:
        """Tools left out because they differ from the lock, and locked tools that do not exist."""
        return [item for item in self.findings if item.level == "warning" and item.code in _DRIFT_CODES]

    @property
    def headline(self) -> str:
        problems = [count(len(self.errors), "problem")] if self.errors else []
        left_out = [finding for finding in self.quarantined if finding.code == DriftError.code]
        problems += [f"{len(left_out)} in quarantine"] if left_out else []
        suffix = f" ({', '.join(problems)}, see below)" if problems else ""
        noun = "sample tool" if self.is_sample else "tool"
        return f"{self.name}: serving {count(len(self.tools), noun)}{suffix}"

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Summary:
        fields = json.loads(data)
        findings = [Finding(**finding) for finding in fields.pop("findings")]
        return cls(**fields, findings=findings)


def print_problems(summary: Summary, terminal: Terminal) -> None:
    """Print errors and quarantined tools."""
    for findings, level, command in (
        (summary.errors, "error", "check"),
        (summary.quarantined, "warning", "diff"),
    ):
        for finding in findings[:MAX_SHOWN]:
            terminal.finding(finding)
        if len(findings) > MAX_SHOWN:
            terminal.message(level, f"{len(findings) - MAX_SHOWN} more: see `toolcrib {command}`")


def print_warnings(summary: Summary, terminal: Terminal) -> None:
    """Print a single warning, or the number of warnings, and whether search tools are listed."""
    shown = summary.quarantined
    warnings = [item for item in summary.findings if item.level == "warning" and item not in shown]
    if len(warnings) == 1:
        terminal.finding(warnings[0])
    elif warnings:
        terminal.message("note", f"{count(len(warnings), 'warning')}: see `toolcrib check`")
    if summary.search is not None:
        terminal.message(*summary.search)


def print_tools(summary: Summary, terminal: Terminal) -> None:
    for name, text in summary.tools[:MAX_SHOWN]:
        terminal.echo_err(f"  {name}: {text[:_MAX_DESCRIPTION]}" if text else f"  {name}")
    if len(summary.tools) > MAX_SHOWN:
        terminal.echo_err(f"  and {len(summary.tools) - MAX_SHOWN} more")
    groups: dict[str, list[str]] = {}
    for name, group in summary.disabled:
        groups.setdefault(group, []).append(name)
    for group, names in groups.items():
        terminal.echo_err(f"  disabled: {shorten_list(names)} ({enable_hint(group)})")
    terminal.echo_err()


def is_refused(summary: Summary, options: ServeOptions, terminal: Terminal) -> bool:
    """Return whether this must not be served, after printing why."""
    if summary.tools and not summary.drifted and not (summary.errors and options.strict):
        return False
    print_problems(summary, terminal)
    text, hint = "No tools to serve", None
    if summary.drifted:
        file = () if options.lock is None else ("--output", options.lock)
        lock = shlex.join(("toolcrib", "lock", *file, *options.targets))
        text = f"Not started: {count(len(summary.drifted), 'tool')} different from the lock file"
        hint = f"`{lock}` accepts all changes; --on-drift quarantine leaves the tools out"
    elif summary.tools:
        text = f"Not started: {count(len(summary.errors), 'problem')}, and --strict is given"
    elif summary.disabled:
        text, hint = f"{text}: all tools are disabled", enable_hint(summary.disabled[0][1])
    terminal.message("error", text, hint)
    return True
