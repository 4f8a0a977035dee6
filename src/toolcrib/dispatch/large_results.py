"""Large results: hold the results of a tool to a budget of tokens, without cutting inside an item.

The longest array of a result loses whole items from its end. Where that is not possible, or a link is
preferred, the whole result is kept for a while, and the principal that got it can read it under its URI
(docs/decisions/calls.md).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.catalog.tokens import estimate
from toolcrib.component import Component
from toolcrib.content import Block, Link, RelayedResult, Result, text_block
from toolcrib.context import Context, Principal
from toolcrib.errors import NotFoundError
from toolcrib.options import LargeResults
from toolcrib.state import StateHandle
from toolcrib.state.base import Space, StateUnavailable, Write
from toolcrib.validation import codec
from toolcrib.validation.validator import format_path

logger = logging.getLogger("toolcrib")

SHORTENED = "toolcrib/shortened"
"""The key of a result's `_meta` that tells programs what was left out."""
NOTE_TOKENS = 150
"""Reserved for the note and the link."""
MEDIA_TOKENS = 1_600
"""The cost of an image, a sound or a binary file, whatever its size: about that of a photo."""
SCHEME = "result://"
_SLICE = 8_192
_MAX_PREVIEW = 2_000
_MAX_LABEL = 40
_POSITIONS = ("offset", "skip", "start", "page", "cursor", "page_token", "next_token", "after")
_SIZES = ("limit", "page_size", "per_page", "max_results", "max_items", "top", "first", "count")

Keys = list[str | int]


@dataclass(frozen=True, slots=True)
class Cut:
    """An array of a result that keeps its first items. `path` starts in the result object of MCP."""

    path: Keys
    kept: int
    total: int

    def to_json(self) -> dict[str, Any]:
        return {"path": format_path(self.path), "kept": self.kept, "total": self.total}

    def __str__(self) -> str:
        label = format_path(self.path[1:])
        label = label if len(label) <= _MAX_LABEL else f"{label[: _MAX_LABEL - 3]}..."
        name = f"'{label}'" if label else "the content" if self.path == ["content"] else "the list"
        if not self.kept:
            return f"{name} is left out"
        return f"{name} has its first {self.kept:,} of {self.total:,} items"


class ResultBudget:
    """The budget for the results of one tool. Without a `store`, nothing is linked."""

    def __init__(
        self, tool: Component, max_tokens: int, mode: LargeResults, store: KeptResults | None = None
    ) -> None:
        self.max_tokens = max_tokens
        self._room = max_tokens - NOTE_TOKENS
        self._tool = tool
        self._is_linked = mode == "link"
        self._store = store

    async def fit(self, result: Result, principal: Principal) -> Result:
        """Return the result if it is within the budget, else what the caller gets instead."""
        data = codec.write(result.structured_content).decode() if result.is_structured else ""
        if self._fits(result.content, data):
            return result
        shorter, cuts = self._shorten(result, data)
        has_items = bool(cuts) and all(cut.kept for cut in cuts)
        needs_data = self._tool.results.schema is not None and not result.is_error
        uri = None
        if self._store is not None and (cuts or not needs_data) and (self._is_linked or not has_items):
            uri = await self._store.keep(principal, result, self._tool)
        if uri is None and has_items:
            return self._annotate(shorter, cuts, None, self._advise())
        if uri is None:
            return self._annotate(result, [], None, f"and cannot be shortened. {self._advise()}")
        where = f"The whole result can be read for a while as the resource {uri}."
        if not cuts:
            shorter = replace(result, content=[], structured_content=None, is_structured=False)
        if not shorter.content:
            where += self._preview(result.text)
        return self._annotate(shorter, cuts, uri, where)

    def _fits(self, content: Sequence[Block], data: str) -> bool:
        most = self.max_tokens
        if len(data) > most // 2 and count_tokens(data, most) > most:  # a character has at most 1.6 tokens
            return False
        text = content[0].get("text") if len(content) == 1 else None
        is_small = isinstance(text, str) and (text == data or len(text) < most // 2)
        return is_small or count_content(content, most) <= most

    def _shorten(self, result: Result, data: str) -> tuple[Result, list[Cut]]:
        """Return a result with shorter arrays, and which they are: none where that is not possible."""
        content, structured, cuts = result.content, result.structured_content, []
        if count_tokens(data, self._room) > self._room:
            show = _find_shown(content, structured, data)
            room = self._room if show is None else self._room - 1 - count_content(content[1:], self._room)
            found = self._cut_array(structured, room)
            if found is None:
                return result, []
            structured, cut = found
            cuts.append(cut)
            if show is not None:
                content = [text_block(codec.write(show(structured)).decode()), *content[1:]]
        if count_content(content, self._room) > self._room:
            kept = _count_fitting((1 + count_block(block, self._room) for block in content), self._room)
            cuts.append(Cut(["content"], kept, len(content)))
            content = content[:kept]
        return replace(result, content=content, structured_content=structured), cuts

    def _cut_array(self, data: Any, room: int) -> tuple[Any, Cut] | None:
        """Return data whose longest array has as many items as there is room for, or None if that is not
        enough, or not what the output schema describes."""
        found = find_longest_array(data)
        if found is None:
            return None
        path, items = found
        left = room - _count_json(_replace(data, path, []), room)
        kept = _count_fitting((_count_json(item, left) for item in items), left)
        shorter = _replace(data, path, items[:kept])
        while kept and _count_json(shorter, room) > room:  # without the signs between them
            kept = kept * 9 // 10
            shorter = _replace(data, path, items[:kept])
        if left < 0 or not self._tool.results.fits(shorter):
            return None
        return shorter, Cut(["structuredContent", *path], kept, len(items))

    def _annotate(self, result: Result, cuts: Sequence[Cut], uri: str | None, text: str) -> Result:
        """Return a copy of a result with a note, for models and for programs, and a link."""
        opening = f"This result has more than {self.max_tokens:,} tokens"
        done = f", so {' and '.join(map(str, cuts))}. " if cuts else ". " if uri else " "
        content = [*result.content, text_block(f"{opening}{done}{text}")]
        told: dict[str, Any] = {"maxTokens": self.max_tokens, "arrays": [cut.to_json() for cut in cuts]}
        if uri is not None:
            told["uri"] = uri
            content.append(Link(uri, "The whole result").to_block())
        return replace(result, content=content, meta={**(result.meta or {}), SHORTENED: told})

    def _advise(self) -> str:
        """Return how to get the rest: by the parameters of the tool that look like paging."""
        properties = self._tool.definition.input_schema.get("properties", {})
        size = next((name for name in _SIZES if name in properties), None)
        position = next((name for name in _POSITIONS if name in properties), None)
        if position and size:
            return f"Ask for fewer items at a time with '{size}', and for the next ones with '{position}'."
        if position:
            return f"Ask for the next ones with '{position}'."
        return f"Ask for fewer with '{size}'." if size else "Ask for less at a time."

    def _preview(self, text: str) -> str:
        """Return the first whole lines of a text."""
        beginning = text[: min(self._room // 2, _MAX_PREVIEW)].rpartition("\n")[0]
        return f" It begins:\n\n{beginning}" if beginning else ""


def count_tokens(text: str, most: int) -> int:
    """Return about how many tokens a text has; counting stops above `most`."""
    total = 0
    for start in range(0, len(text), _SLICE):
        total += estimate(text[start : start + _SLICE])
        if total > most:
            break
    return total


def _count_json(data: Any, most: int) -> int:
    return count_tokens(codec.write(data).decode(), most)


def count_block(block: Block, most: int) -> int:
    text = block.get("resource", block).get("text")
    if block["type"] == "resource_link":
        text = codec.write(block).decode()
    return count_tokens(text, most) if isinstance(text, str) else MEDIA_TOKENS


def count_content(content: Sequence[Block], most: int) -> int:
    """Return about how many tokens blocks have, one more for each; counting stops above `most`."""
    total = 0
    for block in content:
        total += 1 + count_block(block, most - total)
        if total > most:
            break
    return total


def _count_fitting(costs: Iterator[int], room: int) -> int:
    """Return how many of the first items there is room for."""
    kept = 0
    for cost in costs:
        room -= cost
        if room < 0:
            break
        kept += 1
    return kept


def find_longest_array(data: Any) -> tuple[Keys, list[Any]] | None:
    """Return the array with the longest JSON, and the path to it.

    An array inside another is shorter, so those are not searched, except in arrays of a single item.
    """
    best, longest = None, (False, -1)
    waiting: list[tuple[Any, Any]] = [((), data)]  # a path is its beginning and its last key: ((), "a")
    while waiting:
        path, value = waiting.pop()
        if type(value) is dict:
            waiting.extend(((path, key), item) for key, item in value.items() if type(item) in (dict, list))
        elif type(value) is list and value:
            has_several = len(value) > 1
            size = (has_several, len(codec.write(value)) if has_several else 0)
            if size > longest:
                best, longest = (path, value), size
            if not has_several:
                waiting.append(((path, 0), value[0]))
    return None if best is None else (_flatten(best[0]), best[1])


def _flatten(path: Any) -> Keys:
    keys = []
    while path:
        path, key = path
        keys.append(key)
    return keys[::-1]


def _replace(data: Any, path: Keys, items: list[Any]) -> Any:
    """Return a copy of data with other items at a path; everything beside the path is shared."""
    whole = holder = [data]
    key: Any = 0
    for following in path:
        holder[key] = holder[key].copy()
        holder, key = holder[key], following
    holder[key] = items
    return whole[0]


def _find_shown(content: Sequence[Block], data: Any, encoded: str) -> Callable[[Any], Any] | None:
    """Return which part of structured data the first block shows as JSON: a function that takes it from the
    data; None if it shows something else. Servers of mcp and fastmcp show what is below `result`."""
    text = content[0].get("text") if content else None
    if text == encoded:
        return lambda data: data
    if not isinstance(text, str) or not text.startswith(("[", "{", '"')):
        return None
    try:
        shown = codec.decode(text)
        if shown == data:
            return lambda data: data
        is_wrapped = type(data) is dict and data.keys() == {"result"} and shown == data["result"]
    except (ValueError, RecursionError):
        return None
    return (lambda data: data["result"]) if is_wrapped else None


# --- kept results ------------------------------------------------------------------------------------


KEPT = Space("kept", 10_000, 160 * 2**20, 40 * 2**20, max_own=20, when_full="evict", durable=False)
KEPT_S = 3_600.0


class KeptResults:
    """Whole results of calls, in the state of the server, for an hour and within bounds. The oldest are
    dropped first.

    `may_read` is asked for every read, with the name of the tool: the principal may have come back with fewer
    scopes.
    """

    def __init__(
        self, may_read: Callable[[Principal, str], bool], storage: StateHandle, *, space: Space = KEPT
    ) -> None:
        self._may_read = may_read
        self._storage = storage
        self._space = space
        self.resource = self._make_resource()
        """Reads kept results, so that limits and the audit log know of it."""

    def _make_resource(self) -> Component:
        from toolcrib.registry.resources import make_resource  # few servers keep results

        async def kept_result(id: str, ctx: Context) -> RelayedResult:  # noqa: A002
            """A result that was too large to be sent."""
            contents = await self.find(ctx.principal, f"{SCHEME}{id}")
            if contents is None:
                raise NotFoundError("There is no such result, or it has expired.")
            return RelayedResult(contents)

        return make_resource(f"{SCHEME}{{id}}", kept_result, {})

    def resource_of(self, uri: str) -> tuple[Component, dict[str, Any]] | None:
        """Return what reads the result of a URI, and its arguments; None for other URIs."""
        return (self.resource, {"id": uri.removeprefix(SCHEME)}) if uri.startswith(SCHEME) else None

    async def keep(self, principal: Principal, result: Result, tool: Component) -> str | None:
        """Keep a result of a tool for a principal and return its URI; None if that is not possible."""
        uri, owner = f"{SCHEME}{secrets.token_urlsafe(24)}", principal.binding
        data = codec.write({"owner": owner, "tool": tool.name, "contents": list(_contents_of(result, uri))})
        if len(data) > self._space.max_value:
            return None
        try:
            await self._storage.engine.values.commit([Write(self._space, uri, data, KEPT_S, owner)])
        except StateUnavailable as error:
            logger.warning("a large result of '%s' cannot be kept: %s", tool.name, error)
            return None
        return uri

    async def find(self, principal: Principal, uri: str) -> list[Block] | None:
        """Return the contents of a kept result, as `resources/read` sends them; None for every URI that is
        not one of this principal's. Raise InsufficientScopeError if only a scope is missing."""
        item = await self._storage.engine.values.get(self._space, uri)
        kept = {} if item is None else codec.decode(item.value)
        if kept.get("owner") != principal.binding or not self._may_read(principal, kept["tool"]):
            return None
        contents: list[Block] = kept["contents"]
        return contents


def _contents_of(result: Result, uri: str) -> Iterator[Block]:
    """Yield the data of a result as JSON, and blocks that show something else."""
    blocks = result.content
    if result.is_structured:
        encoded = codec.write(result.structured_content).decode()
        yield {"uri": uri, "mimeType": "application/json", "text": encoded}
        if _find_shown(blocks, result.structured_content, encoded) is not None:
            blocks = blocks[1:]
    for block in blocks:
        match block["type"]:
            case "text":
                yield {"uri": uri, "mimeType": "text/plain", "text": block["text"]}
            case "resource":
                yield {"uri": uri, **block["resource"]}
            case "resource_link":
                yield {"uri": uri, "mimeType": "application/json", "text": codec.write(block).decode()}
            case _:
                yield {"uri": uri, "mimeType": block["mimeType"], "blob": block["data"]}
