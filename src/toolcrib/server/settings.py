"""The settings of a server, and what servers of other libraries call them."""

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
    from toolcrib.config.settings import Fleet, Tasks


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
    the option `task`. `state` is the URL of what outlives a call; replicas on several machines share a
    `fleet` instead.
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
    fleet: Fleet | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.max_result_tokens is not None and not is_result_budget(self.max_result_tokens):
            problem = f"must be at least {MIN_RESULT_TOKENS} tokens or None, got {self.max_result_tokens!r}"
            raise ConfigurationError(problem, key="max_result_tokens")
        if self.page_size is not None and self.page_size < 1:
            raise ConfigurationError(f"must be at least 1, got {self.page_size!r}", key="page_size")
        sqlite_path(self.state)
        if self.tasks is not None or self.fleet is not None:
            from toolcrib.config.settings import Fleet, Tasks  # start-up time: few servers have them

            for key, value, kind in (("tasks", self.tasks, Tasks), ("fleet", self.fleet, Fleet)):
                if value is not None and not isinstance(value, kind):
                    problem = f"must be {kind.__name__}(...) of toolcrib.policy or None, got {value!r}"
                    raise ConfigurationError(problem, key=key)
        if self.fleet is not None and self.state != MEMORY:
            hint = "remove state: a fleet keeps its state in PostgreSQL and Redis"
            raise ConfigurationError("cannot be combined with a fleet", key="state", hint=hint)


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
    fleet: Fleet | None


ARGUMENT_NAMES = ("name", "core_engine", "policy", "middleware", "lifespan", *SettingFields.__annotations__)
_AT_RUN = "give it to run: server.run('http', host=..., port=..., path=...)"
OTHER_SETTINGS = {
    **dict.fromkeys(("host", "port", "streamable_http_path"), _AT_RUN),
    "auth": "use policy=..., see docs/policy.md",
    "debug": "set the level of the logger 'toolcrib'",
    "log_level": "set the level of the logger 'toolcrib'",
    "mask_error_details": "messages of exceptions are hidden; raise ToolError for one that is shown",
    "on_duplicate_tools": "use on_duplicate=...",
    "tools": "add them: server.add(first, second)",
    "stateless_http": "clients of 2026-07-28 need no session; use keeps_sessions=False for others",
}
"""What servers of mcp and fastmcp take under other names."""
OTHER_ATTRIBUTES = {
    "add_prompt": "use server.prompt(function)",
    "add_resource_fn": "use server.resource(uri)(function)",
    **dict.fromkeys(
        ("add_template", "add_resource_template", "resource_template"),
        "use server.resource('orders://{id}'), which takes templates too",
    ),
    **dict.fromkeys(
        ("completion", "add_completion_handler"), "use @function.complete('argument') of a prompt or resource"
    ),
    **dict.fromkeys(
        (
            "get_resource",
            "get_resource_template",
            "list_resources",
            "list_resource_templates",
            "get_resources",
        ),
        "use server.resources",
    ),
    **dict.fromkeys(("list_prompts", "get_prompts"), "use server.prompts"),
    **dict.fromkeys(("get_tasks", "docket"), "use MCPServer(tasks=Tasks(...)) and @server.tool(task=...)"),
    "read_resource": "use await server.read(uri)",
    "remove_prompt": "use server.prompts.remove(name)",
    "remove_resource": "use server.resources.remove(uri)",
    "render_prompt": "use await server.get_prompt(name, arguments)",
    "import_server": "use server.add(other, namespace=...)",
    **dict.fromkeys(("http_app", "streamable_http_app", "sse_app"), "use server.asgi()"),
    **dict.fromkeys(("run_async", "run_http_async", "run_stdio_async"), "use await server.run(...)"),
    **dict.fromkeys(
        ("as_proxy", "from_fastapi", "from_openapi"), "make it with fastmcp and add it: server.add(made)"
    ),
    "add_middleware": "use server.middleware(...)",
    "add_tool": "use server.add(...)",
    "call_tool": "use await server.call(name, arguments)",
    "custom_route": "use server.route(path, methods=[...])",
    "disable": "use server.registry.disable(name)",
    "enable": "use server.registry.enable(name)",
    "get_tool": "use server.registry.get(name)",
    "remove_tool": "use server.registry.remove(name)",
}
"""What servers of mcp and fastmcp have under other names."""
