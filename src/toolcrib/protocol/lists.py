"""Results of tools/list, encoded once per set of tools and revision.

A page is kept as bytes, so that serving it costs a copy. Cursors are opaque and derived from the list itself:
every worker understands the cursors of the others, and a cursor of another list is refused.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Sequence

from toolcrib.protocol.messages import INVALID_PARAMS, RPCError
from toolcrib.protocol.revisions import Revision
from toolcrib.tool import Tool
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

MAX_LISTS = 64
"""Encoded lists that are kept: one for each revision and visible set of tools."""


class _Pages(dict[str | None, bytes]):
    """One list for one revision: pages of the form `"tools":[...]`, by cursor."""

    def __init__(self, tools: Sequence[Tool], revision: Revision, size: int | None) -> None:
        self.tools = tools  # held, so that no other list gets the same id()
        encoded = [codec.write(revision.shape_tool(tool.definition)) for tool in tools]
        step = size or max(1, len(encoded))
        digest = hashlib.sha256(b"\n".join(encoded)).digest()[:12] if len(encoded) > step else b""
        cursor: str | None = None
        for number, start in enumerate(range(0, max(1, len(encoded)), step), start=1):
            page = b'"tools":[' + b",".join(encoded[start : start + step]) + b"]"
            following = base64.urlsafe_b64encode(digest + number.to_bytes(4, "big"))
            if start + step < len(encoded):
                page += b',"nextCursor":"' + following + b'"'
            self[cursor] = page
            cursor = following.decode()


class ToolListCache:
    """Encoded lists, by revision and visible set of tools."""

    def __init__(self, page_size: int | None = None) -> None:
        self.page_size = page_size
        self._lists: dict[tuple[int, str], _Pages] = {}

    def page(self, tools: Sequence[Tool], revision: Revision, cursor: str | None) -> bytes:
        """Return one page. `tools` must be the same object as long as it holds the same tools."""
        key = (id(tools), revision.name)
        pages = self._lists.get(key)
        if pages is None or pages.tools is not tools:
            while len(self._lists) >= MAX_LISTS:
                del self._lists[next(iter(self._lists))]
            pages = self._lists[key] = _Pages(tools, revision, self.page_size)
        if cursor not in pages:
            raise RPCError(INVALID_PARAMS, "Invalid cursor: list again from the start", status=200)
        return pages[cursor]

    def clear(self) -> None:
        self._lists.clear()


def log_list(tools: Sequence[Tool], cursor: str | None) -> None:
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
