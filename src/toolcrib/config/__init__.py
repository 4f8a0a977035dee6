"""`toolcrib.toml` and the environment, read into dataclasses; errors name file, line and key.

`Config` has the settings of one file, `config.settings` those of its policy; docs/cli.md shows the file. The
variable TOOLCRIB_ENABLE_MATH_TOOLS=0 overrides `enable_math_tools` of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.config.fields import Settings, TableReader, names_of, parse_toml, read_text, setting, show
from toolcrib.config.settings import Fleet, Policy, Tasks
from toolcrib.errors import ConfigurationError, Finding, Level, suggest
from toolcrib.options import MAX_TIMEOUT_S, MIN_RESULT_TOKENS
from toolcrib.sources.targets import FILE_NAME, resolve_target
from toolcrib.state import MEMORY, sqlite_path

if TYPE_CHECKING:
    from toolcrib.component import Component

__all__ = [
    "FILE_NAME",
    "MAX_WORKERS",
    "Config",
    "HTTPConfig",
    "LintConfig",
    "LockConfig",
    "PublishConfig",
    "SearchConfig",
    "VariableConfig",
    "check_path",
    "find_log_format",
    "load_config",
    "load_default_config",
    "parse_config",
    "switches_from",
]

MAX_WORKERS = 64
_FORMATS = ("text", "json")
_SWITCH = r"enable_[A-Za-z0-9_-]+_tools"
_SWITCH_VARIABLE = re.compile(r"TOOLCRIB_(ENABLE_[A-Z0-9_]+_TOOLS)")
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+/?|/")


def check_path(value: Any) -> str:
    """Return the path of an endpoint without a trailing slash. Raises ValueError."""
    is_path = isinstance(value, str) and _PATH.fullmatch(value)
    if not is_path or any(part in (".", "..") for part in value.split("/")):
        raise ValueError(f"must be a path such as /mcp, got {show(value)}")
    return value.rstrip("/") or "/"


@dataclass(frozen=True, slots=True)
class HTTPConfig(Settings):
    """The HTTP server: by default http://127.0.0.1:8000/mcp, in one process.

    Requests must name the server itself or one of `allowed_hosts`; pages in browsers must come from the
    server itself or from one of `allowed_origins`. `insecure` accepts callers on other machines without
    `[auth]`.
    """

    host: str | None = None
    port: int | None = setting(None, least=0, most=65535)
    path: str | None = setting(None, convert=check_path)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    workers: int | None = setting(None, least=1, most=MAX_WORKERS)
    insecure: bool | None = None


@dataclass(frozen=True, slots=True)
class SearchConfig(Settings):
    """When tool search is offered instead of a list of tools: "auto" for a list of more than `budget_tokens`
    (20,000), "always" or "never"."""

    publish: Literal["auto", "always", "never"] | None = None
    budget_tokens: int | None = setting(None, least=0, most=10_000_000)


@dataclass(frozen=True, slots=True)
class LintConfig(Settings):
    """Findings that `toolcrib check` leaves out or turns into errors: `CODE`, or `CODE:TOOL` with a glob."""

    ignore: tuple[str, ...] = ()
    error: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LockConfig(Settings):
    """The lock file, by default `toolcrib.lock`. `on_drift` says what `serve --locked` does with a tool that
    differs: "refuse" to start (the default), or "quarantine" it, that is serve the others."""

    file: Path | None = None
    on_drift: Literal["refuse", "quarantine"] | None = None


@dataclass(frozen=True, slots=True)
class VariableConfig(Settings):
    """An environment variable that the users of a published server set. A `secret` is masked by clients;
    `choices` are the values that are allowed."""

    name: str = setting(regex=r"[A-Za-z_][A-Za-z0-9_]*", expected="a name such as SHOP_TOKEN")
    description: str | None = None
    required: bool = False
    secret: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()
    format: Literal["string", "number", "boolean", "filepath"] = "string"

    def find_conflicts(self) -> Iterator[ConfigurationError]:
        if self.choices and self.default is not None and self.default not in self.choices:
            yield ConfigurationError(f"must be one of the choices, got {self.default!r}", key="default")
        if self.secret and self.default is not None:
            yield ConfigurationError("must not be set for a secret: it would be published", key="default")


@dataclass(frozen=True, slots=True)
class PublishConfig(Settings):
    """Facts for `toolcrib publish` that are not in `pyproject.toml`: `name` is that in the MCP registry, such
    as io.github.ana/shop; `description` has at most 100 characters; `url` is that of a running server that
    others may use; `icon` is a PNG file."""

    name: str | None = setting(
        None, regex=r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+", expected="a name such as io.github.ana/shop"
    )
    description: str | None = None
    url: str | None = None
    icon: Path | None = None
    environment: tuple[VariableConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class Config(Settings):
    """The settings of one file. `lines` has the lines of keys.

    [server]: `targets` are relative to the file; `arguments` are those of a target that is a program.
    `namespace` is the prefix of every name, `timeout_s` the deadline of tools without their own (60 s),
    `name_rule` the rule for names (mcp), `page_size` the number of tools per page of a list (all).
    `log_arguments` logs values of arguments too.
    `errors = "hide"` hides the messages of exceptions in tools of `mcp` and `fastmcp` servers.
    `max_result_tokens` is the budget for a result (none); one that is larger is shortened, or linked with
    `large_results = "link"`.
    [catalog]: `cache` is the file in which built catalogs are kept.
    [log]: the format of log lines on stderr, by default text.
    [tools]: `include` and `exclude` select tools: names, globs, `tag:NAME`, `re:PATTERN`.
    `enable_GROUP_tools` turns the tools of a group on or off.
    """

    file: Path | None = setting(None, key=None)
    name: str | None = setting(None, key="server.name")
    version: str | None = setting(None, key="server.version")
    title: str | None = setting(None, key="server.title")
    description: str | None = setting(None, key="server.description")
    instructions: str | None = setting(None, key="server.instructions")
    targets: tuple[str, ...] = setting((), key="server.targets")
    arguments: tuple[str, ...] = setting((), key="server.arguments")
    namespace: str | None = setting(None, key="server.namespace")
    timeout_s: float | None = setting(None, key="server.timeout_s", least=0.001, most=MAX_TIMEOUT_S)
    name_rule: Literal["mcp", "portable", "strict"] | None = setting(None, key="server.name_rule")
    page_size: int | None = setting(None, key="server.page_size", least=1, most=100_000)
    log_arguments: bool | None = setting(None, key="server.log_arguments")
    errors: Literal["show", "hide"] | None = setting(None, key="server.errors")
    max_result_tokens: int | None = setting(
        None, key="server.max_result_tokens", least=MIN_RESULT_TOKENS, most=10_000_000
    )
    large_results: Literal["shorten", "link"] | None = setting(None, key="server.large_results")
    http: HTTPConfig = HTTPConfig()
    search: SearchConfig = SearchConfig()
    lint: LintConfig = LintConfig()
    lock: LockConfig = LockConfig()
    publish: PublishConfig = PublishConfig()
    tasks: Tasks | None = None
    state: str | None = setting(None, key="state.url")
    fleet: Fleet | None = None
    cache: Path | None = setting(None, key="catalog.cache")
    log_format: Literal["text", "json"] | None = setting(None, key="log.format")
    policy: Policy | None = setting(None, key=None)
    include: tuple[str, ...] = setting((), key="tools.include")
    exclude: tuple[str, ...] = setting((), key="tools.exclude")
    switches: Mapping[str, bool] = setting({}, key="tools.enable_GROUP_tools", pattern=_SWITCH)
    lines: Mapping[str, int] = setting({}, key=None)

    def find_conflicts(self) -> Iterator[ConfigurationError]:
        if self.fleet is not None and self.state is not None:
            hint = "remove [state]: a fleet keeps its state in PostgreSQL and Redis"
            yield ConfigurationError("cannot be combined with [fleet]", key="state.url", hint=hint)
        auth = None if self.policy is None else self.policy.auth
        if auth is not None and auth.keys_in_state and self.fleet is None and self.state in (None, MEMORY):
            hint = 'name a database for keys: [state]\n    url = "sqlite:///state.db"'
            yield ConfigurationError('"state" needs a database', key="auth.keys", hint=hint)

    def choose(self, tools: Sequence[Component]) -> tuple[list[Component], list[Finding]]:
        """Return the tools that `include` and `exclude` select, and findings for keys that match no tool."""
        from toolcrib.registry.selection import select  # delayed: not every command uses tools

        findings = list(self._find_unused_switches(tools))
        try:
            return select(tools, self.include, self.exclude), findings
        except ConfigurationError as error:
            names = [tool.name for tool in tools]
            hint = f"available: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else None
            for each in (error, *error.others):
                is_included = any(repr(item) in each.message for item in self.include)
                key = "tools.include" if is_included else "tools.exclude"
                findings.append(self._finding(each.code, "error", key, each.message, hint))
            return [], findings

    def _find_unused_switches(self, tools: Iterable[Component]) -> Iterator[Finding]:
        """Report switches in the file that no tool belongs to: probably a typo."""
        groups = {tool.options.group for tool in tools if tool.options.group}
        known = sorted(f"enable_{group}_tools" for group in groups)
        for switch in self.switches:
            key = f"tools.{switch}"
            if switch not in known and key in self.lines:
                hint = suggest(switch, known, "give tools a group: @tool(group=...)")
                yield self._finding("unused-switch", "warning", key, "no tool is in that group", hint)

    def _finding(self, code: str, level: Level, key: str, problem: str, hint: str | None) -> Finding:
        line = self.lines.get(key)
        return Finding(code, level, f"{key}: {problem}", file=str(self.file), line=line, hint=hint)


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read a file. Raises ConfigurationError with all problems."""
    return parse_config(read_text(path), path, environ)


def load_default_config() -> Config:
    """Read the `toolcrib.toml` of the current folder, or return the settings of the environment alone."""
    file = Path(FILE_NAME)
    return load_config(file, os.environ) if file.is_file() else Config(switches=switches_from(os.environ))


def find_log_format(path: Path) -> str | None:
    """Return the log format of a file that may have other errors: they are reported in this format."""
    try:
        log = parse_toml(path.read_text("utf-8")).get("log")
    except (OSError, ValueError):
        return None
    found = log.get("format") if isinstance(log, dict) else None
    return found if found in _FORMATS else None


def parse_config(text: str, path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Parse the text of a file; relative paths and targets are relative to the folder of `path`."""
    document = parse_toml(text, str(path))
    reader = TableReader(text, path)
    policy_names = names_of(Policy)
    reader.check_names("", document, dict.fromkeys([*names_of(Config), *policy_names]))
    policy = None
    if not document.keys().isdisjoint(policy_names):
        policy = reader.read(Policy, document, file=reader.file, lines=reader.lines)
    config = reader.finish(reader.read(Config, document, file=path, policy=policy, lines=reader.lines))
    return replace(
        config,
        targets=tuple(resolve_target(target, reader.folder) for target in config.targets),
        state=None if config.state is None else _resolve_state(config.state, reader),
        switches={**config.switches, **switches_from(environ or {})},
    )


def _resolve_state(url: str, reader: TableReader) -> str:
    """Return the URL of a store, with a path relative to the settings. Raise ConfigurationError."""
    try:
        path = sqlite_path(url)
    except ConfigurationError as error:
        line = reader.lines.get("state.url")
        raise ConfigurationError(
            error.message, file=reader.file, line=line, key="state.url", hint=error.hint
        ) from None
    return url if path is None else f"sqlite:///{reader.folder / path}"


def switches_from(environ: Mapping[str, str]) -> dict[str, bool]:
    """Return the switches that environment variables set: TOOLCRIB_ENABLE_MATH_TOOLS=0."""
    switches: dict[str, bool] = {}
    for variable, value in environ.items():
        found = _SWITCH_VARIABLE.fullmatch(variable)
        if found is None:
            continue
        if value.strip().lower() not in _BOOLEANS:
            raise ConfigurationError(f"must be 1 or 0, got {value!r}", key=variable)
        switches[found[1].lower()] = _BOOLEANS[value.strip().lower()]
    return switches
