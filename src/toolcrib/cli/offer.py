"""What `toolcrib serve` has to offer: targets loaded into a server that goes by the files' settings.

More lenient than other commands: one target that is not there keeps nobody from serving the others. Where all
tools are those of one server object, that object serves, so that what its tools do to it has effect. Knows
loading and settings; refuses to know wires and words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.cli.demands import enforce, refuse_idle
from toolcrib.cli.frame import Failure
from toolcrib.cli.targets import Loader
from toolcrib.cli.terminal import Terminal
from toolcrib.config import FILE_NAME, Config, HTTPConfig, find_log_format, load_config
from toolcrib.dispatch import DEFAULT_TIMEOUT_S
from toolcrib.errors import ConfigurationError, DefinitionError, SourceError
from toolcrib.finding import Finding
from toolcrib.keyspace import Entry
from toolcrib.policy import Policy
from toolcrib.selection import without_repeats
from toolcrib.server import MCPServer
from toolcrib.storefront import DEFAULT_BUDGET_TOKENS, Publish
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.cli.held import Holding

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
    search: Publish | None = None,
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
        return list(without_repeats(self.tools))

    def find_paths(self) -> list[Path]:
        """The files and folders behind everything that was named, the files of settings included."""
        files = [str(config.file) for config in self.configs if config.file is not None]
        named = [target for config in self.configs for target in config.targets]
        from toolcrib.reload import find_places  # delayed: only who reloads needs it

        return find_places([*named, *files])

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
            policy=None if own.guard is None else own.guard.policy,
        )
        front = own.dispatcher.storefront
        server.publish_search(*(("never", None) if front is None else (front.publish, front.budget_tokens)))
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


def _choose_search(server: MCPServer, asked: Publish | None, configs: Sequence[Config]) -> None:
    """What the command line says goes first, then the files, then the server's own code."""
    front = server.dispatcher.storefront
    said = [config.search for config in configs]
    publish = asked or next((each.publish for each in said if each.publish is not None), None)
    budget = next((each.budget_tokens for each in said if each.budget_tokens is not None), None)
    if publish is not None or budget is not None:
        own: tuple[Publish, int] = ("never", DEFAULT_BUDGET_TOKENS)
        if front is not None:
            own = (front.publish, front.budget_tokens)
        server.publish_search(publish or own[0], own[1] if budget is None else budget)


def _first(configs: Sequence[Config], key: str) -> Any:
    """What the first file that says something about it says."""
    return next((value for config in configs if (value := getattr(config, key)) is not None), None)
