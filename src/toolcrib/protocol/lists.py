"""Results of tools/list and the other lists, encoded once per set of entries and revision.

A page is kept as bytes, so that serving it costs a copy. Cursors are opaque and derived from the list itself:
every worker understands the cursors of the others, and a cursor of another list is refused.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.component import Component
from toolcrib.protocol import messages
from toolcrib.protocol.messages import INVALID_PARAMS, Id, Reply, RPCError
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

logger = logging.getLogger("toolcrib")

MAX_LISTS = 64
"""Encoded lists that are kept: one for each revision and visible set of tools."""

Shape = Callable[[Any, Revision], Mapping[str, Any] | None]


SHAPES: Mapping[str, Shape] = {
    "tools": lambda tool, revision: revision.shape_tool(tool.definition),
    "resources": lambda item, revision: None if item.template else revision.shape_entry(item.to_wire()),
    "resourceTemplates": lambda item, revision: (
        revision.shape_entry(item.to_wire()) if item.template else None
    ),
    "skills": lambda resource, _: resource.skill.to_wire() if getattr(resource, "skill", None) else None,
    "prompts": lambda prompt, revision: revision.shape_entry(prompt.to_wire()),
}
"""How an entry of each list looks in a revision; nothing for one that is not in it."""


class _Pages(dict[str | None, bytes]):
    """One list for one revision: pages of the form `"tools":[...]`, by cursor."""

    def __init__(self, key: str, entries: Sequence[Component], revision: Revision, size: int | None) -> None:
        self.entries = entries  # held, so that no other list gets the same id()
        shape = SHAPES[key]
        shaped = (shape(entry, revision) for entry in entries)
        encoded = [codec.write(item) for item in shaped if item]
        step = size or max(1, len(encoded))
        digest = hashlib.sha256(b"\n".join(encoded)).digest()[:12] if len(encoded) > step else b""
        cursor: str | None = None
        for number, start in enumerate(range(0, max(1, len(encoded)), step), start=1):
            page = b'"%b":[%b]' % (key.encode(), b",".join(encoded[start : start + step]))
            following = base64.urlsafe_b64encode(digest + number.to_bytes(4, "big"))
            if start + step < len(encoded):
                page += b',"nextCursor":"' + following + b'"'
            self[cursor] = page
            cursor = following.decode()


class ListCache:
    """Encoded lists, by kind, revision and visible set of entries."""

    def __init__(self, page_size: int | None = None) -> None:
        self.page_size = page_size
        self._lists: dict[tuple[str, int, str], _Pages] = {}

    def page(self, key: str, entries: Sequence[Component], revision: Revision, cursor: str | None) -> bytes:
        """Return one page. `entries` must be the same object as long as it holds the same."""
        known = (key, id(entries), revision.name)
        pages = self._lists.get(known)
        if pages is None or pages.entries is not entries:
            while len(self._lists) >= MAX_LISTS:
                del self._lists[next(iter(self._lists))]
            pages = self._lists[known] = _Pages(key, entries, revision, self.page_size)
        return _find_page(pages, cursor)

    def clear(self) -> None:
        self._lists.clear()


def page_of(
    key: str, entries: Sequence[Any], revision: Revision, size: int | None, cursor: str | None
) -> bytes:
    """Return one page of a list that is not kept."""
    return _find_page(_Pages(key, entries, revision, size), cursor)


def _find_page(pages: _Pages, cursor: str | None) -> bytes:
    if cursor not in pages:
        raise RPCError(INVALID_PARAMS, "Invalid cursor: list again from the start", status=200)
    return pages[cursor]


def read_cursor(params: Mapping[str, Any]) -> str | None:
    cursor = params.get("cursor")
    if type(cursor) is not str and "cursor" in params:
        raise RPCError(INVALID_PARAMS, "Invalid params: cursor must be a string", status=200)
    return cursor


def list_reply(engine: Engine, id_: Id, revision: Revision, page: bytes) -> Reply:
    """Return the reply with one page of a list."""
    if not revision.modern:
        return Reply(messages.encode_result(id_, b"{" + page + b"}"))
    return Reply(
        b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete","ttlMs":%d,"cacheScope":"%b","_meta":%b,%b}}'
        % (messages.encode_id(id_), engine.ttl_ms, engine.cache_scope.encode(), engine.encoded_meta, page)
    )


def log_list(tools: Sequence[Component], cursor: str | None) -> None:
    """Log that a client lists the tools: one line at INFO, and one for each tool at DEBUG."""
    if not logger.isEnabledFor(logging.INFO):
        return
    if cursor is not None:
        logger.info("Client requesting the next tools")
        return
    logger.info(
        "Client requesting tool list: returning %d tools", len(tools), extra={"total_tools": len(tools)}
    )
    if logger.isEnabledFor(logging.DEBUG):
        for tool in tools:
            summary = tool.definition.description.strip().partition("\n")[0]
            logger.debug(" - %s: %s", tool.name, summary, extra={"tool_name": tool.name})
