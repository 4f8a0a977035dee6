"""Whatever the tools and whatever is asked: what is found is there, allowed, in order, and the same again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.catalog.search import SearchIndex, split_words, stem
from toolcrib.catalog.tokens import estimate
from toolcrib.component import Tool
from toolcrib.definition import ToolDefinition
from toolcrib.names import find_hidden
from toolcrib.sources.described import describe

WORDS = [
    "delete",
    "create",
    "file",
    "files",
    "weather",
    "user",
    "order",
    "日本",
    "погода",
    "café",
    "S3",
    "toDo",
]
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=12), max_size=8).map(" ".join)
NAMES = st.lists(
    st.sampled_from(["delete", "create", "file", "user", "a", "b2"]), min_size=1, max_size=3
).map("_".join)
QUERIES = TEXTS | st.text(max_size=200)


def visible(text: str) -> str:
    """A text that a definition may hold."""
    shown = "".join(letter for letter in text if letter.isprintable() and find_hidden(letter) is None)
    return shown if find_hidden(shown) is None else ""


@st.composite
def shelves(draw: st.DrawFn) -> list[Tool]:
    names = draw(st.lists(NAMES, max_size=12, unique=True))
    return [
        describe(
            ToolDefinition(
                name,
                visible(draw(TEXTS)),
                {"type": "object", "properties": {visible(draw(TEXTS)) or "x": {"type": "string"}}},
            )
        )
        for name in names
    ]


@settings(max_examples=max(60, settings().max_examples))
@given(shelves(), QUERIES, st.integers(0, 15), st.sets(NAMES))
def test_anything_that_is_found_is_there_and_allowed_and_in_order_and_found_again(
    tools: list[Tool], query: str, limit: int, allowed: set[str]
) -> None:
    index = SearchIndex(tools)
    hits = index.search(query, limit)
    found = [hit.tool for hit in hits]
    assert len(found) == len(set(found)) <= limit
    assert set(found) <= set(tools)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits == SearchIndex(tools).search(query, limit)
    assert hits == index.search(query, limit, lambda _: True)
    assert found[: limit // 2] == [hit.tool for hit in index.search(query, limit // 2)]
    for hit in index.search(query, limit, allowed):
        assert hit.tool.name in allowed


@settings(max_examples=max(40, settings().max_examples))
@given(shelves())
def test_a_tool_is_found_by_its_name(tools: list[Tool]) -> None:
    index = SearchIndex(tools)
    for tool in tools:
        if index.search(tool.name):
            assert index.search(tool.name, 1)[0].tool.name.replace("_", "") == tool.name.replace("_", "")


@given(st.text(max_size=300))
def test_every_text_can_be_cut_and_every_word_has_a_stem(text: str) -> None:
    words = split_words(text)
    assert all(words)
    assert split_words(text) == words
    for word in words:
        assert stem(word)
        assert not word.isspace()


@given(st.text(max_size=500), st.text(max_size=100))
def test_every_text_has_a_length_in_tokens_and_more_text_has_no_less(text: str, more: str) -> None:
    tokens = estimate(text)
    assert 0 <= tokens <= 2 * len(text.encode("utf-8", "surrogatepass"))
    assert (tokens == 0) == (text == "")
    assert estimate(f"{text}\n{more}") >= tokens - 2
