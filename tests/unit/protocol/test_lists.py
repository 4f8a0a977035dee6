"""tools/list: encoded once, in pages, with cursors that belong to one list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib import Tool
from toolcrib.protocol.lists import MAX_LISTS, ListCache
from toolcrib.protocol.messages import INVALID_PARAMS, RPCError
from toolcrib.protocol.revisions import LEGACY, MODERN


def tools(count: int) -> tuple[Tool, ...]:
    return tuple(Tool.from_function(lambda a: a, name=f"t{number}") for number in range(count))


def read(page: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(b"{" + page + b"}")
    return value


def test_without_a_page_size_there_is_one_page() -> None:
    page = read(ListCache().page("tools", tools(5), MODERN, None))
    assert [tool["name"] for tool in page["tools"]] == ["t0", "t1", "t2", "t3", "t4"]
    assert "nextCursor" not in page


def test_no_tools_are_an_empty_page() -> None:
    assert read(ListCache(3).page("tools", (), MODERN, None)) == {"tools": []}


@pytest.mark.requirement("G-21")
def test_following_the_cursors_gives_every_tool_once_and_in_order() -> None:
    listings, listed = ListCache(3), tools(10)
    names: list[str] = []
    cursor: str | None = None
    sizes = []
    while True:
        page = read(listings.page("tools", listed, MODERN, cursor))
        names += [tool["name"] for tool in page["tools"]]
        sizes.append(len(page["tools"]))
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert names == [f"t{number}" for number in range(10)]
    assert sizes == [3, 3, 3, 1]


@pytest.mark.requirement("G-21")
@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "AAAAAAAAAAAAAAAAAAAAAA==", "\u00e9", "=", "AAAA\n"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(RPCError) as refused:
        ListCache(2).page("tools", tools(4), MODERN, cursor)
    assert (refused.value.code, refused.value.status) == (INVALID_PARAMS, 200)


def test_a_cursor_of_another_list_is_refused() -> None:
    cursor = read(ListCache(2).page("tools", tools(4), MODERN, None))["nextCursor"]
    for other in (tools(5), tools(4)[:3]):
        with pytest.raises(RPCError):
            ListCache(2).page("tools", other, MODERN, cursor)
    with pytest.raises(RPCError):
        ListCache().page("tools", tools(4), MODERN, cursor)


def test_a_changed_set_of_tools_is_encoded_anew() -> None:
    listings = ListCache()
    listings.page("tools", tools(2), MODERN, None)
    assert len(read(listings.page("tools", tools(3), MODERN, None))["tools"]) == 3
    listings.clear()
    assert len(read(listings.page("tools", tools(1), MODERN, None))["tools"]) == 1


def test_only_so_many_lists_are_lists() -> None:
    listings = ListCache()
    for _ in range(MAX_LISTS * 3):
        listings.page("tools", tools(1), LEGACY["2024-11-05"], None)
    assert len(listings._lists) <= MAX_LISTS
