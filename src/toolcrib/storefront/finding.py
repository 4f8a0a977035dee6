"""How the pair finds: an index of all tools there are, and answers that a model can use.

The index is built by the first who searches after the tools have changed, on the thread of that call. Knows
the registry and the search; of callers only which tools they may call.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.registry import ToolRegistry
from toolcrib.storefront.pair import SHOWN
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.catalog.search import SearchIndex

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
