"""What clients are shown of the tools of a registry: all of them, or the pair that finds and calls them.

Knows the budget, the pair, and what was said and shown before; refuses to know how calls run, and who may see
what: it is told.

What a list of tools costs a model, and whether that is too much.

Most lists are so short that their bytes say so; long ones are estimated from a part. Knows tools and tokens;
refuses to know what is done about it.

The two tools themselves: what models read of them, and what clients are told.

Knows words and schemas; what the tools do is given to it.

How the pair finds: an index of all tools there are, and answers that a model can use.

The index is built by the first who searches after the tools have changed, on the thread of that call. Knows
the registry and the search; of callers only which tools they may call.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from toolcrib.context import LOCAL, Context, Principal
from toolcrib.definition import OptionFields
from toolcrib.errors import ConfigurationError, InvalidArgumentsError, ToolError
from toolcrib.registry.registry import ToolRegistry
from toolcrib.tool import Tool
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.catalog.search import SearchIndex

DEFAULT_BUDGET_TOKENS = 20_000
_SAMPLED = 250


class Budget:
    """So many tokens a list may take. What was counted once is not counted again while the tool is there."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self._costs: dict[Tool, int] = {}

    def is_exceeded(self, tools: Sequence[Tool]) -> bool:
        return self.is_surely_kept(tools) is False and self.count(tools) > self.tokens

    def is_surely_kept(self, tools: Sequence[Tool]) -> bool:
        """Whether a list is within the budget even if every byte were a token."""
        if 4 * len(tools) > self.tokens:
            return False
        return sum(map(_size_of, tools)) <= self.tokens

    def count(self, tools: Sequence[Tool]) -> int:
        """The tokens of a list, nearly; of one that is far too long, estimated from every so many tools."""
        if len(tools) > 2 * _SAMPLED:
            sample = tools[:: len(tools) // _SAMPLED]
            guess = self._sum(sample) * len(tools) // len(sample)
            if guess > 2 * self.tokens:
                return guess
        total = self._sum(tools)
        self._costs = {tool: self._costs[tool] for tool in tools}
        return total

    def _sum(self, tools: Sequence[Tool]) -> int:
        from toolcrib.catalog.tokens import cost_of  # delayed: most servers have short lists

        for tool in tools:
            if tool not in self._costs:
                self._costs[tool] = cost_of(tool.definition)
        return sum(self._costs[tool] for tool in tools)


def _size_of(tool: Tool) -> int:
    """As many bytes as a tool could have tokens."""
    definition = tool.definition
    try:
        return 40 + len(codec.write([definition.name, definition.description, definition.input_schema]))
    except (TypeError, ValueError):
        return 0  # not the plain data that it should be; that is found elsewhere


SEARCH, CALL = "search_tools", "call_tool"
MAX_FOUND = 50
SHOWN = ("name", "description", "inputSchema")
"""What every tool that is found comes with."""

_FOUND = {
    "type": "object",
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "title": {"type": "string"},
                    "description": {"type": "string"},
                    "inputSchema": {"type": "object"},
                    "annotations": {"type": "object"},
                },
                "required": list(SHOWN),
            },
        },
        "note": {"type": "string"},
    },
    "required": ["tools"],
}


def make_finder(name: str, caller: str, find: Callable[[str, int, Principal], dict[str, Any]]) -> Tool:
    """`search_tools`. It runs on a thread: the first search of many tools takes a while."""

    def search(query: str, ctx: Context, limit: int = 5) -> dict[str, Any]:
        return find(query, limit, ctx.principal)

    return Tool.from_handler(
        search,
        name,
        "Find tools of this server by what they do. It has more tools than are listed: say in a few words "
        "what you want done, and you get the names, descriptions and input schemas of the tools that fit, "
        f"the best first. Then call one of them with {caller}.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What you want done, or a part of a tool's name."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_FOUND,
                    "default": 5,
                    "description": "How many tools at most.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        title="Search tools",
        output_schema=_FOUND,
        read_only=True,
        idempotent=True,
        open_world=False,
    )


def make_caller(
    name: str, finder: str, hints: OptionFields, explain_missing: Callable[[str, Principal], str]
) -> Tool:
    """`call_tool`. Whoever runs calls runs the tool that is meant; this runs where there is none."""

    def call(name: str, ctx: Context, arguments: dict[str, Any] | None = None) -> Any:  # noqa: ARG001
        raise ToolError(explain_missing(name, ctx.principal))

    return Tool.from_handler(
        call,
        name,
        f"Call a tool that {finder} has found.",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"The name of the tool, as {finder} gives it."},
                "arguments": {
                    "type": "object",
                    "description": "The arguments of that tool, as its inputSchema wants them.",
                    "default": {},
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        **hints,
    )


def hints_for_all(tools: Sequence[Tool]) -> OptionFields:
    """What can be said of `call_tool` without knowing which tool is meant: what holds for every one."""
    said = [tool.definition.annotations for tool in tools]
    hints: OptionFields = {"title": "Call a tool"}
    if not said:
        return hints
    if all(each.get("readOnlyHint") is True for each in said):
        hints["read_only"] = True
    elif all(each.get("readOnlyHint") is True or each.get("destructiveHint") is False for each in said):
        hints["destructive"] = False
    if all(each.get("idempotentHint") is True for each in said):
        hints["idempotent"] = True
    if all(each.get("openWorldHint") is False for each in said):
        hints["open_world"] = False
    return hints


MAX_ANSWER_TOKENS = 10_000
"""What one answer may cost; the first tool is always in it."""


class Finder:
    """Searches one registry."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._index: tuple[object, SearchIndex] | None = None

    def find(self, query: str, limit: int, view: Sequence[Tool]) -> dict[str, Any]:
        """What fits, of what is in view, as `search_tools` answers."""
        from toolcrib.catalog.tokens import cost_of  # delayed: most servers have short lists

        index = self._find_index()
        sees_all = len(view) == len(index)
        hits = index.search(query, limit, None if sees_all else frozenset(tool.name for tool in view))
        found: list[dict[str, Any]] = []
        tokens = 0
        for hit in hits:
            tokens += cost_of(hit.tool.definition)
            if found and tokens > MAX_ANSWER_TOKENS:
                break
            found.append(_show(hit.tool))
        answer: dict[str, Any] = {"tools": found}
        if len(found) < len(hits):
            answer["note"] = f"{len(hits) - len(found)} more would be too long: ask more precisely."
        elif not found:
            near = (
                index.suggest(query) if sees_all else []
            )  # words of tools that nobody may know of say too much
            answer["note"] = f"Nothing fits. Try other words{', such as ' if near else ''}{', '.join(near)}."
        return answer

    def name_near(self, name: str, view: Sequence[Tool]) -> list[str]:
        """Names of tools that somebody may have meant who wrote another."""
        index = self._find_index()
        return [hit.tool.name for hit in index.search(name, 3, frozenset(tool.name for tool in view))]

    def _find_index(self) -> SearchIndex:
        from toolcrib.catalog.search import SearchIndex  # delayed: most servers have short lists

        with self._lock:
            snapshot = self._registry.snapshot
            if self._index is None or self._index[0] is not snapshot:
                self._index = (snapshot, SearchIndex(self._registry.published()))
            return self._index[1]


def _show(tool: Tool) -> dict[str, Any]:
    definition = tool.definition
    shown = {
        "name": tool.name,
        "title": definition.title,
        "description": definition.standalone_description,
        "inputSchema": definition.input_schema,
        "annotations": definition.annotations,
    }
    return {key: value for key, value in shown.items() if value or key in SHOWN}


logger = logging.getLogger("toolcrib")

Publish = Literal["auto", "always", "never"]
PINNED = "pinned"
"""The tag of a tool that stays in the list."""
_MAX_VIEWS = 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """What clients are shown: all tools, or, where it `is_open`, the pair and what is pinned."""

    shown: tuple[Tool, ...]
    is_open: bool = False
    count: int = 0
    tokens: int = 0
    budget_tokens: int = 0

    @property
    def words(self) -> str:
        """Why it is open, and what that means."""
        finder, caller = (tool.name for tool in self.shown[:2])
        pinned = len(self.shown) - 2
        many = f"{pinned} tools that are" if pinned > 1 else "one tool that is"
        shown = f"{finder}, {caller} and {many} pinned" if pinned else f"{finder} and {caller}"
        is_over = self.tokens > self.budget_tokens
        budget = f", more than the budget of {self.budget_tokens:,}" if is_over else ""
        return (
            f"{self.count:,} tools would take about {self.tokens:,} tokens of every request{budget}: "
            f"clients are shown {shown} instead"
        )

    hint = (
        "all tools can still be called by name; search='never' or `serve --search never` lists them all, "
        "search_budget_tokens or [search] budget_tokens moves the budget, "
        f"the tag '{PINNED}' keeps a tool listed"
    )


class Storefront:
    """`view` gives the tools that a principal may call: one object until they change. `tells_apart` says
    whether two principals may have different ones; then nobody may learn from the names of the pair that
    there are tools of those names for others."""

    def __init__(
        self,
        registry: ToolRegistry,
        view: Callable[[Principal], tuple[Tool, ...]],
        publish: Publish = "auto",
        budget_tokens: int = DEFAULT_BUDGET_TOKENS,
        is_visible: Callable[[Principal, Tool], bool] = lambda _, __: True,
        tells_apart: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_visible = is_visible
        self._tells_apart = tells_apart
        self.publish, tokens = check_wishes(publish, budget_tokens)
        self.callers: dict[str, Tool] = {}
        """What was ever shown to call others with: whoever was told of it may go on using it."""
        self._finders: dict[str, Tool] = {}
        self._registry = registry
        self._view = view
        self._budget = Budget(tokens)
        self._finder = Finder(registry)
        self._lock = threading.Lock()
        self._verdicts: dict[int, tuple[tuple[Tool, ...], Verdict]] = {}
        self._pair: tuple[Any, tuple[Tool, Tool]] | None = None
        self._told: tuple[Tool, ...] = ()
        self._is_said = False

    @property
    def budget_tokens(self) -> int:
        return self._budget.tokens

    # --- what is shown ---

    def judge(self, principal: Principal = LOCAL) -> Verdict:
        """What this principal is shown: one object until it changes."""
        view = self._view(principal)
        kept = self._verdicts.get(id(view))
        if kept is None or kept[0] is not view:
            with self._lock:
                while len(self._verdicts) >= _MAX_VIEWS:
                    del self._verdicts[next(iter(self._verdicts))]
                kept = self._verdicts[id(view)] = (view, self._judge(view))
        return kept[1]

    def _judge(self, view: tuple[Tool, ...]) -> Verdict:
        budget = self._budget
        if self.publish == "never" or (self.publish == "auto" and not budget.is_exceeded(view)):
            return Verdict(view)
        shown = (*self._make_pair(view), *filter(_is_pinned, view))
        return Verdict(shown, True, len(view), budget.count(view), budget.tokens)

    def open(self) -> None:
        """The server starts: say what comes of its list."""
        verdict = self.judge()
        self._told = verdict.shown
        self._say(verdict)

    def has_changed(self) -> bool:
        """The tools have changed: whether what is shown has, since this was last asked."""
        verdict = self.judge()
        before, self._told = self._told, verdict.shown
        self._say(verdict)
        return not verdict.is_open or verdict.shown != before

    def leave_unsaid(self) -> None:
        """Whoever starts the server says it in words of their own."""
        self._is_said = self.judge().is_open

    def _say(self, verdict: Verdict) -> None:
        if verdict.is_open is self._is_said:
            return
        self._is_said = verdict.is_open
        if verdict.is_open:
            level = logging.WARNING if self.publish == "auto" else logging.INFO
            logger.log(level, "%s; %s", verdict.words, verdict.hint)
        else:
            logger.info("the list of tools is within its budget again: clients are shown all of them")

    # --- the pair ---

    def find(self, name: str, principal: Principal = LOCAL) -> Tool | None:
        """One of the pair, where this principal is shown it or was, and has no tool of that name."""
        if not could_be_front(name):
            return None
        verdict = self.judge(principal)  # first: the tools may have changed since somebody asked for the list
        pair = verdict.shown[:2] if verdict.is_open else ()
        found = next((tool for tool in pair if tool.name == name), None)
        if found is None and not self._tells_apart():
            found = self.callers.get(name) or self._finders.get(name)
        if found is None:
            return None
        other = self._registry.try_get(name)
        return found if other is None or not self._is_visible(principal, other) else None

    def forward(
        self, name: str, arguments: Any, principal: Principal = LOCAL
    ) -> tuple[str, dict[str, Any]] | None:
        """The call that a call of `call_tool` means; None for all others, and where it means none: a tool
        that this principal does not see is like one that is not there."""
        caller = self.find(name, principal)
        if caller is None or name not in self.callers:
            return None
        try:
            given = caller.arguments.check({} if arguments is None else arguments)
        except InvalidArgumentsError:
            return None  # which is said when it is called
        inner = given["name"]
        tool = self._registry.try_get(inner)
        if tool is None or not self._is_visible(principal, tool):
            return None
        return inner, given.get("arguments") or {}

    def _make_pair(self, view: Sequence[Tool]) -> tuple[Tool, Tool]:
        finder, caller = self._free_name(SEARCH, view), self._free_name(CALL, view)
        facts = (finder, caller, hints_for_all(view))
        if self._pair is None or self._pair[0] != facts:
            pair = make_finder(finder, caller, self._find), make_caller(caller, finder, facts[2], self._miss)
            self._pair = (facts, pair)
            self._finders[finder], self.callers[caller] = pair
        return self._pair[1]

    def _free_name(self, wanted: str, view: Sequence[Tool]) -> str:
        """The name, or another where there is a tool of that name in view: somebody else's goes first."""
        name, number = wanted, 1
        while self._is_taken(name, view):
            name = f"toolcrib_{wanted}" if number == 1 else f"toolcrib_{number}_{wanted}"
            number += 1
        return name

    def _is_taken(self, name: str, view: Sequence[Tool]) -> bool:
        tool = self._registry.snapshot.find(name)
        return tool is not None and any(each is tool for each in view)

    def _find(self, query: str, limit: int, principal: Principal) -> dict[str, Any]:
        return self._finder.find(query, limit, self._view(principal))

    def _miss(self, name: str, principal: Principal) -> str:
        if self.find(name, principal) is not None:
            return f"'{name[:64]}' is called by itself, not by way of another tool."
        view = self._view(principal)
        near = self._finder.name_near(name, view)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        finder = self._free_name(SEARCH, view)
        return f"There is no tool '{name[:64]}'.{meant} {finder} finds tools by what they do."


def could_be_front(name: str) -> bool:
    """Whether one of the pair may have this name, whatever the tools are."""
    return name.endswith((SEARCH, CALL))


def check_wishes(publish: Any, budget_tokens: Any) -> tuple[Publish, int]:
    """Raises ConfigurationError for what cannot be."""
    if publish not in get_args(Publish):
        raise ConfigurationError(f"must be 'auto', 'always' or 'never', got {publish!r}", key="search")
    if isinstance(budget_tokens, bool) or not isinstance(budget_tokens, int) or budget_tokens < 0:
        words = f"must be a whole number of tokens, got {budget_tokens!r}"
        raise ConfigurationError(words, key="search_budget_tokens")
    return publish, budget_tokens


def _is_pinned(tool: Tool) -> bool:
    return PINNED in tool.definition.tags
