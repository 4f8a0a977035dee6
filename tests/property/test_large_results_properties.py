"""However a result looks, it is shortened by whole items only, and the numbers about it are right."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from toolcrib import Result
from toolcrib.component import Tool
from toolcrib.content import text_block
from toolcrib.context import LOCAL
from toolcrib.dispatch.large_results import (
    KEPT,
    SHORTENED,
    KeptResults,
    ResultBudget,
    count_content,
    count_tokens,
)
from toolcrib.options import LargeResults
from toolcrib.schema.result import ToolResults
from toolcrib.state import StateHandle
from toolcrib.validation import codec

WORDS = st.text(max_size=30) | st.sampled_from(
    ["word " * 40, "žluťoučký kůň ", "😀" * 20, "行" * 50, "\n" * 9]
)
NAMES = st.sampled_from(["a", "rows", "items", "result", "😀" * 50, ""])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
LONG = st.builds(lambda items, times: items * times, st.lists(VALUES, max_size=3), st.integers(1, 400))
DATA = VALUES | LONG | st.lists(LONG, max_size=2) | st.dictionaries(NAMES, VALUES | LONG, max_size=4)
SCHEMAS: st.SearchStrategy[Any] = st.sampled_from(
    [None, {}, {"type": ["array", "object"], "minItems": 3}, {"type": "array", "maxItems": 2}]
)
STORES = st.sampled_from([None, 10**6, 3_000])
TEXTS = st.lists(WORDS | st.builds(lambda line: line * 100, WORDS), max_size=9)


def returns_anything(limit: int = 5) -> Any:
    """Return anything."""


def build_budget(
    max_tokens: int, mode: LargeResults, schema: Any, max_bytes: int | None
) -> tuple[ResultBudget, KeptResults | None]:
    tool = Tool.from_function(returns_anything)
    tool._results = ToolResults("returns_anything", schema, None, trusted=True)
    store = (
        None
        if max_bytes is None
        else KeptResults(
            lambda principal, tool: True, StateHandle(), space=KEPT._replace(max_value=max_bytes)
        )
    )
    return ResultBudget(tool, max_tokens, mode, store), store


def find_difference(whole: Any, shorter: Any) -> list[tuple[list[Any], list[Any]]]:
    """Return the arrays that differ in their number of items, and fail where anything else differs."""
    if type(whole) is list and type(shorter) is list and len(whole) != len(shorter):
        assert whole[: len(shorter)] == shorter
        return [(whole, shorter)]
    assert type(whole) is type(shorter)
    if type(whole) is dict:
        assert list(whole) == list(shorter)
        return [found for key in whole for found in find_difference(whole[key], shorter[key])]
    if type(whole) is list:
        return [
            found for one, other in zip(whole, shorter, strict=True) for found in find_difference(one, other)
        ]
    assert whole == shorter
    return []


def check(result: Result, fitted: Result, max_tokens: int, store: KeptResults | None) -> None:
    """Check what is true of every result and how it ended."""
    note(f"{fitted.content} {fitted.structured_content!r:.500} {fitted.meta}")
    data = codec.write(result.structured_content).decode() if result.is_structured else ""
    sizes = count_tokens(data, 10**9), count_content(result.content, 10**9)
    if fitted is result:
        assert count_tokens(data, max_tokens) <= max_tokens
        assert sizes[1] <= max_tokens + 1  # the only block, where it is the JSON of the data
        return
    assert max(sizes) > max_tokens
    assert fitted.meta is not None
    told = fitted.meta[SHORTENED]
    cuts, uri = told["arrays"], told.get("uri")
    if not cuts and uri is None:
        assert "cannot be shortened" in fitted.content[-1]["text"]
        assert (fitted.structured_content, fitted.content[:-1]) == (result.structured_content, result.content)
        return
    assert count_content(fitted.content, max_tokens) <= max_tokens
    if fitted.is_structured:
        assert count_tokens(codec.write(fitted.structured_content).decode(), max_tokens) <= max_tokens
        check_data(result, fitted, [cut for cut in cuts if cut["path"] != "content"])
    check_blocks(result, fitted, [cut for cut in cuts if cut["path"] == "content"], uri)
    for cut in cuts:
        told_numbers = f"has its first {cut['kept']:,} of {cut['total']:,} items"
        assert not cut["kept"] or told_numbers in fitted.text
        assert cut["kept"] or uri is not None
    if uri is not None:
        check_kept(result, store, uri)


def check_data(result: Result, fitted: Result, cuts: list[dict[str, Any]]) -> None:
    found = find_difference(result.structured_content, fitted.structured_content)
    assert [(cut["total"], cut["kept"]) for cut in cuts] == [(len(one), len(other)) for one, other in found]


def check_blocks(result: Result, fitted: Result, cuts: list[dict[str, Any]], uri: str | None) -> None:
    """Every block is one of the result, or the JSON of the shorter data in its place."""
    blocks = fitted.content[: -1 if uri is None else -2]
    shown = json.dumps(fitted.structured_content, ensure_ascii=False, separators=(",", ":"))
    for before, after in zip(result.content, blocks, strict=False):
        assert before == after or json.loads(after["text"]) == json.loads(shown)
    for cut in cuts:
        assert (cut["kept"], cut["total"]) == (len(blocks), len(result.content))
    if not cuts and fitted.is_structured:
        assert len(blocks) == len(result.content)


def check_kept(result: Result, store: KeptResults | None, uri: str) -> None:
    assert store is not None
    contents = asyncio.run(store.find(LOCAL, uri))
    assert contents is not None
    if result.is_structured:
        assert json.loads(contents[0]["text"]) == result.structured_content
    else:
        assert [item["text"] for item in contents] == [block["text"] for block in result.content]


@given(DATA, st.integers(200, 1_500), st.sampled_from(["shorten", "link"]), SCHEMAS, STORES)
def test_data_is_shortened_by_whole_items_or_linked_or_sent_whole(
    data: Any, max_tokens: int, mode: LargeResults, schema: Any, max_bytes: int | None
) -> None:
    result = Result([text_block(codec.write(data).decode())], data, is_structured=True)
    budget, store = build_budget(max_tokens, mode, schema, max_bytes)
    fitted = asyncio.run(budget.fit(result, LOCAL))
    check(result, fitted, max_tokens, store)
    tool_results = ToolResults("any", schema, None, trusted=True)
    if schema is not None and tool_results.fits(data):
        assert fitted.is_structured
        assert tool_results.fits(fitted.structured_content)


@given(TEXTS, st.integers(200, 1_500), st.sampled_from(["shorten", "link"]), STORES)
def test_blocks_are_dropped_whole_or_linked_or_sent_whole(
    texts: list[str], max_tokens: int, mode: LargeResults, max_bytes: int | None
) -> None:
    result = Result([text_block(text) for text in texts])
    budget, store = build_budget(max_tokens, mode, None, max_bytes)
    check(result, asyncio.run(budget.fit(result, LOCAL)), max_tokens, store)


@given(DATA, TEXTS, st.integers(200, 1_500), STORES)
def test_data_and_texts_of_their_own_are_shortened_apart(
    data: Any, texts: list[str], max_tokens: int, max_bytes: int | None
) -> None:
    result = Result([text_block(f"- {text}") for text in texts], data, is_structured=True)
    budget, store = build_budget(max_tokens, "shorten", None, max_bytes)
    fitted = asyncio.run(budget.fit(result, LOCAL))
    is_linked = fitted.meta is not None and fitted.meta[SHORTENED].get("uri")
    if not is_linked:
        check(result, fitted, max_tokens, store)
