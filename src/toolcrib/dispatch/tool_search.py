"""Tool search: where a list of tools would cost a model too many tokens, two tools stand in for it.

`search_tools` finds tools by what they do, `call_tool` calls one of them. Tools with the tag "pinned" stay
listed, and every tool can still be called by its name. Tools that only the page of an app calls cost a model
nothing: they stay listed, are not counted, and are neither found nor called through the two.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from toolcrib.component import Component, Tool
from toolcrib.context import LOCAL, Context, Principal
from toolcrib.errors import ConfigurationError, DefinitionError, InvalidArgumentsError, ToolError
from toolcrib.options import OptionFields
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.catalog.search import SearchIndex
    from toolcrib.dispatch.dispatcher import Dispatcher

logger = logging.getLogger("toolcrib")

SearchMode = Literal["auto", "always", "never"]
SEARCH, CALL = "search_tools", "call_tool"
PINNED = "pinned"
DEFAULT_BUDGET_TOKENS = 20_000
MAX_FOUND = 50
MAX_ANSWER_TOKENS = 10_000
"""The size of one answer of `search_tools`; the first tool is always part of it."""
_MAX_LISTINGS = 64
_SAMPLE = 250
_REQUIRED = ("name", "description", "inputSchema")

_FOUND_SCHEMA = {
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
                "required": list(_REQUIRED),
            },
        },
        "note": {"type": "string"},
    },
    "required": ["tools"],
}


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools that a client is shown: all, or where it `is_reduced` the search tools and the pinned
    ones. `for_apps` counts those that only pages of apps call: they are shown, but models do not see them."""

    shown: tuple[Component, ...]
    is_reduced: bool = False
    count: int = 0
    tokens: int = 0
    budget_tokens: int = 0
    for_apps: int = 0

    @property
    def explanation(self) -> str:
        """Why the list is reduced, and to what."""
        search, call = (tool.name for tool in self.shown[:2])
        pinned = len(self.shown) - 2 - self.for_apps
        many = f"{pinned} pinned tools" if pinned > 1 else "one pinned tool"
        shown = f"{search}, {call} and {many}" if pinned else f"{search} and {call}"
        is_over = self.tokens > self.budget_tokens
        budget = f", more than the budget of {self.budget_tokens:,}" if is_over else ""
        return (
            f"{self.count:,} tools would take about {self.tokens:,} tokens of every request{budget}: "
            f"clients are shown {shown} instead"
        )

    hint = (
        "all tools can still be called by name; search='never' or `serve --search never` lists them all, "
        "search_budget_tokens or [search] budget_tokens changes the budget, "
        f"the tag '{PINNED}' keeps a tool listed"
    )


class ToolSearch:
    """Decides what clients are shown of the tools of a server, and finds and forwards for them."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        mode: SearchMode = "auto",
        budget_tokens: int = DEFAULT_BUDGET_TOKENS,
    ) -> None:
        self.mode, self.budget_tokens = check_search_options(mode, budget_tokens)
        self.call_tools: dict[str, Component] = {}
        """Every `call_tool` that was ever shown, by name: clients that know it may go on using it."""
        self._search_tools: dict[str, Component] = {}
        self._dispatcher = dispatcher
        self._registry = dispatcher.registry
        self._lock = threading.Lock()
        self._listings: dict[int, tuple[tuple[Component, ...], Listing]] = {}
        self._pair: tuple[Any, tuple[Component, Component]] | None = None
        self._announced: tuple[Component, ...] = ()
        self._is_logged = False
        self._index_lock = threading.Lock()
        self._index: tuple[object, SearchIndex] | None = None

    # --- listing ---

    def listing(self, principal: Principal = LOCAL) -> Listing:
        """Return what a principal is shown: the same object until it changes."""
        view = self._dispatcher.view(principal)
        kept = self._listings.get(id(view))
        if kept is None or kept[0] is not view:
            with self._lock:
                while len(self._listings) >= _MAX_LISTINGS:
                    del self._listings[next(iter(self._listings))]
                kept = self._listings[id(view)] = (view, self._make_listing(view))
        return kept[1]

    def _make_listing(self, view: tuple[Component, ...]) -> Listing:
        # Clients of an adopted server know its tools: its list is replaced only on demand.
        is_adopted = any(tool.adoption is not None for tool in view)
        for_model = [tool for tool in view if tool.definition.is_for_model]
        fits = self.mode == "auto" and (is_adopted or not self._exceeds_budget(for_model))
        if self.mode == "never" or fits:
            return Listing(view)
        kept = (t for t in view if PINNED in t.definition.tags or not t.definition.is_for_model)
        shown = (*self._make_pair(view), *kept)
        hidden = len(view) - len(for_model)
        return Listing(
            shown, True, len(for_model), _count_tokens(for_model), self.budget_tokens, for_apps=hidden
        )

    def open(self) -> None:
        """Log what clients are shown, when the server starts."""
        listing = self.listing()
        self._announced = listing.shown
        self._log(listing)

    def has_changed(self) -> bool:
        """Whether clients are shown other tools than when this was last called, after tools have changed."""
        listing = self.listing()
        before, self._announced = self._announced, listing.shown
        self._log(listing)
        return not listing.is_reduced or listing.shown != before

    def skip_log(self) -> None:
        """Do not log a reduced list at the start: the caller reports it."""
        self._is_logged = self.listing().is_reduced

    def _log(self, listing: Listing) -> None:
        if listing.is_reduced is self._is_logged:
            return
        self._is_logged = listing.is_reduced
        if listing.is_reduced:
            level = logging.WARNING if self.mode == "auto" else logging.INFO
            logger.log(level, "%s; %s", listing.explanation, listing.hint)
        else:
            logger.info("the list of tools is within its budget again: clients are shown all of them")

    def _exceeds_budget(self, tools: Sequence[Component]) -> bool:
        # Most lists are so short that their bytes already prove it.
        if 4 * len(tools) <= self.budget_tokens and sum(map(_size, tools)) <= self.budget_tokens:
            return False
        return _count_tokens(tools) > self.budget_tokens

    # --- the two tools ---

    def find_search_tool(self, name: str, principal: Principal = LOCAL) -> Component | None:
        """Return the search tool of this name, if the principal is or was shown it and sees no other of
        that name."""
        if not is_search_name(name):
            return None
        listing = self.listing(principal)  # first: the tools may have changed since the client listed them
        pair = listing.shown[:2] if listing.is_reduced else ()
        found = next((tool for tool in pair if tool.name == name), None)
        if found is None and not self._dispatcher.depends_on_principal:
            # Otherwise the name would reveal that others see a tool of the usual name.
            found = self.call_tools.get(name) or self._search_tools.get(name)
        if found is None:
            return None
        other = self._registry.try_get(name)
        return found if other is None or not self._dispatcher.is_visible(principal, other) else None

    def forward(
        self, name: str, arguments: Any, principal: Principal = LOCAL
    ) -> tuple[str, dict[str, Any]] | None:
        """Return the call that a call of `call_tool` means. None: it is another tool, or means a tool
        that does not exist for this principal."""
        call_tool = self.find_search_tool(name, principal)
        if call_tool is None or name not in self.call_tools:
            return None
        try:
            given = call_tool.arguments.check({} if arguments is None else arguments)
        except InvalidArgumentsError:
            return None  # reported when `call_tool` itself is called
        inner = given["name"]
        tool = self._registry.try_get(inner)
        if tool is None or not self._is_found(tool) or not self._dispatcher.is_visible(principal, tool):
            return None
        return inner, given.get("arguments") or {}

    @staticmethod
    def _is_found(tool: Component) -> bool:
        try:
            return tool.definition.is_for_model
        except DefinitionError:
            return True  # reported when it is called

    def _make_pair(self, view: Sequence[Component]) -> tuple[Component, Component]:
        search, call = self._free_name(SEARCH, view), self._free_name(CALL, view)
        made_of = (search, call, _common_hints(view))
        if self._pair is None or self._pair[0] != made_of:
            pair = self._make_search_tool(search, call), self._make_call_tool(call, search, made_of[2])
            self._pair = (made_of, pair)
            self._search_tools[search], self.call_tools[call] = pair
        return self._pair[1]

    def _make_search_tool(self, name: str, call: str) -> Component:
        def search(query: str, ctx: Context, limit: int = 5) -> dict[str, Any]:
            return self._search(query, limit, self._dispatcher.view(ctx.principal))

        # It runs on a thread: the first search of many tools takes a while.
        return Tool.from_handler(
            search,
            name,
            "Find tools of this server by what they do. It has more tools than are listed: say in a few "
            "words what you want done, and you get the names, descriptions and input schemas of the tools "
            f"that fit, the best first. Then call one of them with {call}.",
            {
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "What you want done, or a part of a tool's name.",
                    },
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
            output_schema=_FOUND_SCHEMA,
            read_only=True,
            idempotent=True,
            open_world=False,
        )

    def _make_call_tool(self, name: str, search: str, hints: OptionFields) -> Component:
        def call(name: str, ctx: Context, arguments: dict[str, Any] | None = None) -> Any:  # noqa: ARG001
            # The dispatcher calls the tool that is meant; this runs where there is none.
            raise ToolError(self._explain_missing(name, ctx.principal))

        return Tool.from_handler(
            call,
            name,
            f"Call a tool that {search} has found.",
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": f"The name of the tool, as {search} gives it."},
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

    def _free_name(self, wanted: str, view: Sequence[Component]) -> str:
        """Return the name, or another one where a tool in view has it."""
        name, number = wanted, 1
        while (tool := self._registry.snapshot.find(name)) is not None and any(each is tool for each in view):
            name = f"toolcrib_{wanted}" if number == 1 else f"toolcrib_{number}_{wanted}"
            number += 1
        return name

    def _explain_missing(self, name: str, principal: Principal) -> str:
        if self.find_search_tool(name, principal) is not None:
            return f"Call '{name[:64]}' directly, not through another tool."
        view = self._dispatcher.view(principal)
        hits = self._find_index().search(name, 3, frozenset(tool.name for tool in view))
        near = " or ".join(hit.tool.name for hit in hits)
        suggestion = f" Did you mean {near}?" if near else ""
        search = self._free_name(SEARCH, view)
        return f"There is no tool '{name[:64]}'.{suggestion} {search} finds tools by what they do."

    # --- searching ---

    def _search(self, query: str, limit: int, view: Sequence[Component]) -> dict[str, Any]:
        """Return what `search_tools` answers."""
        from toolcrib.catalog.tokens import cost_of  # delayed, as above

        index = self._find_index()
        view = [tool for tool in view if tool.definition.is_for_model]
        allowed = None if len(view) == len(index) else frozenset(tool.name for tool in view)
        hits = index.search(query, limit, allowed)
        found: list[dict[str, Any]] = []
        tokens = 0
        for hit in hits:
            tokens += cost_of(hit.tool.definition)
            if found and tokens > MAX_ANSWER_TOKENS:
                break
            found.append(_describe(hit.tool))
        answer: dict[str, Any] = {"tools": found}
        if len(found) < len(hits):
            answer["note"] = f"{len(hits) - len(found)} more would be too long: ask more precisely."
        elif not found:
            answer["note"] = "Nothing fits. Try other words."
        return answer

    def _find_index(self) -> SearchIndex:
        """Return the index; the first search after a change builds it, on the thread of that call."""
        from toolcrib.catalog.search import SearchIndex  # delayed: most servers have short lists

        with self._index_lock:
            snapshot = self._registry.snapshot
            if self._index is None or self._index[0] is not snapshot:
                found = [tool for tool in self._registry.published() if tool.definition.is_for_model]
                self._index = (snapshot, SearchIndex(found))
            return self._index[1]


def is_search_name(name: str) -> bool:
    """Whether a search tool may have this name, whatever the other tools are."""
    return name.endswith((SEARCH, CALL))


def check_search_options(mode: Any, budget_tokens: Any) -> tuple[SearchMode, int]:
    """Raise ConfigurationError for options that make no sense."""
    if mode not in get_args(SearchMode):
        raise ConfigurationError(f"must be 'auto', 'always' or 'never', got {mode!r}", key="search")
    if isinstance(budget_tokens, bool) or not isinstance(budget_tokens, int) or budget_tokens < 0:
        problem = f"must be a whole number of tokens, got {budget_tokens!r}"
        raise ConfigurationError(problem, key="search_budget_tokens")
    return mode, budget_tokens


def _common_hints(tools: Sequence[Component]) -> OptionFields:
    """Return the hints of `call_tool`: those that hold for every tool it may call."""
    annotations = [tool.definition.annotations for tool in tools]
    hints: OptionFields = {"title": "Call a tool"}
    if not annotations:
        return hints
    if all(each.get("readOnlyHint") is True for each in annotations):
        hints["read_only"] = True
    elif all(
        each.get("readOnlyHint") is True or each.get("destructiveHint") is False for each in annotations
    ):
        hints["destructive"] = False
    if all(each.get("idempotentHint") is True for each in annotations):
        hints["idempotent"] = True
    if all(each.get("openWorldHint") is False for each in annotations):
        hints["open_world"] = False
    return hints


def _describe(tool: Component) -> dict[str, Any]:
    definition = tool.definition
    shown = {
        "name": tool.name,
        "title": definition.title,
        "description": definition.standalone_description,
        "inputSchema": definition.input_schema,
        "annotations": definition.annotations,
    }
    return {key: value for key, value in shown.items() if value or key in _REQUIRED}


def _count_tokens(tools: Sequence[Component]) -> int:
    """Return the approximate tokens of a list; that of a long list is estimated from a sample."""
    from toolcrib.catalog.tokens import cost_of  # delayed: most servers have short lists

    sample = tools[:: max(1, len(tools) // _SAMPLE)]
    return sum(cost_of(tool.definition) for tool in sample) * len(tools) // max(1, len(sample))


def _size(tool: Component) -> int:
    """Return the bytes of a definition: at least as many as it has tokens."""
    definition = tool.definition
    try:
        return 40 + len(codec.write([definition.name, definition.description, definition.input_schema]))
    except (TypeError, ValueError):
        return 0  # not plain data, which is reported elsewhere
