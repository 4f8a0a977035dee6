"""The settings of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from toolcrib.dispatch.dispatcher import DEFAULT_TIMEOUT_S
from toolcrib.dispatch.tool_search import DEFAULT_BUDGET_TOKENS, SearchMode
from toolcrib.errors import ConfigurationError
from toolcrib.names import NameRule
from toolcrib.options import MIN_RESULT_TOKENS, LargeResults, check_settings, is_result_budget
from toolcrib.registry.registry import OnDuplicate
from toolcrib.state import MEMORY, sqlite_path

if TYPE_CHECKING:
    from toolcrib.config.settings import Tasks


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server.

    A server is sealed when it starts, unless it is `dynamic`. `name_rule` is "mcp" (letters, digits and
    `_.-`, at most 128), "portable" (no dots, 64) or "strict" (snake_case, 50). `switches` turn groups of
    tools on and off. Clients see `version` (by default toolcrib's), `title`, `instructions`, `description`,
    `website_url` and `icons` (as MCP writes them); `page_size` splits long lists; `unknown_tool_code` is for
    clients that expect -32601. `log_arguments` logs the values of arguments, not only their names.
    `errors="hide"` keeps the messages of exceptions in tools of other libraries' servers from callers; by
    default they are shown as that library shows them. Those of toolcrib's own tools are always hidden.
    Several processes that serve together share a `key`, which signs the state of calls that wait for an
    answer, and set `keeps_sessions=False`. A list of more than `search_budget_tokens` is replaced by two
    tools that search and call the others, unless `search` is "never"; with "always", every list is. A result
    of more than `max_result_tokens` loses whole items from the end of its longest list; with
    `large_results="link"` the whole is kept for an hour, and linked. `tasks` are the settings of tools with
    the option `task`.
    """

    dynamic: bool = False
    name_rule: str | NameRule = "mcp"
    on_duplicate: OnDuplicate = "error"
    separator: str = "_"
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    switches: Mapping[str, bool] | None = None
    version: str | None = None
    title: str | None = None
    instructions: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[Mapping[str, Any]] = ()
    page_size: int | None = None
    unknown_tool_code: int = -32602
    log_arguments: bool = False
    errors: Literal["show", "hide"] = "show"
    key: bytes | None = field(default=None, repr=False)
    keeps_sessions: bool = True
    search: SearchMode = "auto"
    search_budget_tokens: int = DEFAULT_BUDGET_TOKENS
    max_result_tokens: int | None = None
    large_results: LargeResults = "shorten"
    tasks: Tasks | None = None
    state: str = MEMORY

    def __post_init__(self) -> None:
        check_settings(self)
        if self.max_result_tokens is not None and not is_result_budget(self.max_result_tokens):
            problem = f"must be at least {MIN_RESULT_TOKENS} tokens or None, got {self.max_result_tokens!r}"
            raise ConfigurationError(problem, key="max_result_tokens")
        if self.page_size is not None and self.page_size < 1:
            raise ConfigurationError(f"must be at least 1, got {self.page_size!r}", key="page_size")
        sqlite_path(self.state)
        if self.tasks is not None:
            from toolcrib.config.settings import Tasks  # start-up time: few servers have tasks

            if not isinstance(self.tasks, Tasks):
                problem = f"must be Tasks(...) of toolcrib.policy or None, got {self.tasks!r}"
                raise ConfigurationError(problem, key="tasks")


class SettingFields(TypedDict, total=False):
    """The settings of a server as keyword arguments of `MCPServer`."""

    dynamic: bool
    name_rule: str | NameRule
    on_duplicate: OnDuplicate
    separator: str
    timeout_s: float | None
    switches: Mapping[str, bool] | None
    version: str | None
    title: str | None
    instructions: str | None
    description: str | None
    website_url: str | None
    icons: Sequence[Mapping[str, Any]]
    page_size: int | None
    unknown_tool_code: int
    log_arguments: bool
    errors: Literal["show", "hide"]
    key: bytes | None
    keeps_sessions: bool
    search: SearchMode
    search_budget_tokens: int
    max_result_tokens: int | None
    large_results: LargeResults
    tasks: Tasks | None
    state: str


ARGUMENT_NAMES = ("name", "core_engine", "policy", "middleware", "lifespan", *SettingFields.__annotations__)
