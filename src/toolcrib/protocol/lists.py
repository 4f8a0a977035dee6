"""The answer to tools/list, encoded once per set of tools and revision.

A page is bytes; handing it out costs a copy. Cursors are opaque, made of what is listed, so that any worker
understands another's and one that belongs to another list is refused. Knows definitions and pages; refuses
to know who asks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence

from toolcrib.protocol.messages import INVALID_PARAMS, Fault
from toolcrib.protocol.revisions import Revision
from toolcrib.tool import Tool
from toolcrib.validation import codec

MAX_LISTS = 64
"""Encoded lists that are kept: one for each revision and set of tools that somebody sees."""


class _Pages:
    """One list for one revision: each page as `"tools":[...]`, with what leads to the next."""

    __slots__ = ("mark", "pages", "tools")

    def __init__(self, tools: Sequence[Tool], revision: Revision, size: int | None) -> None:
        self.tools = tools  # kept, so that its identity stays its own
        encoded = [codec.write(revision.shape_tool(tool.definition)) for tool in tools]
        step = size or max(1, len(encoded))
        chunks = [encoded[start : start + step] for start in range(0, len(encoded), step)] or [[]]
        self.mark = b""
        if len(chunks) > 1:
            self.mark = hashlib.sha256(b"\n".join(encoded)).digest()[:12]
        self.pages = []
        for number, chunk in enumerate(chunks, start=1):
            page = b'"tools":[' + b",".join(chunk) + b"]"
            if number < len(chunks):
                page += b',"nextCursor":"' + _cursor(self.mark, number) + b'"'
            self.pages.append(page)

    def page(self, cursor: str | None) -> bytes:
        if cursor is None:
            return self.pages[0]
        number = _read_cursor(cursor, self.mark)
        if not 1 <= number < len(self.pages):
            raise _bad_cursor()
        return self.pages[number]


class Listings:
    """Lists by revision and by the set of tools that is seen."""

    def __init__(self, page_size: int | None = None) -> None:
        self.page_size = page_size
        self._kept: dict[tuple[int, str], _Pages] = {}

    def page(self, tools: Sequence[Tool], revision: Revision, cursor: str | None) -> bytes:
        """One page. `tools` must be the same object as long as they are the same tools."""
        key = (id(tools), revision.name)
        pages = self._kept.get(key)
        if pages is None or pages.tools is not tools:
            while len(self._kept) >= MAX_LISTS:
                del self._kept[next(iter(self._kept))]
            pages = self._kept[key] = _Pages(tools, revision, self.page_size)
        return pages.page(cursor)

    def forget(self) -> None:
        """The tools have changed: what was kept is of no use."""
        self._kept.clear()


def _cursor(mark: bytes, number: int) -> bytes:
    return base64.urlsafe_b64encode(mark + number.to_bytes(4, "big"))


def _read_cursor(cursor: str, mark: bytes) -> int:
    try:
        raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad_cursor() from None
    if not mark or len(raw) != len(mark) + 4 or raw[:-4] != mark:
        raise _bad_cursor()
    return int.from_bytes(raw[-4:], "big")


def _bad_cursor() -> Fault:
    return Fault(INVALID_PARAMS, "Invalid cursor: list again from the start", status=200)
