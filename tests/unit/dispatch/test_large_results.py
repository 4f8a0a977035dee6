"""Results that are larger than their budget: shortened by whole items, linked, or sent whole with a note."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from toolcrib import File, Image, Link, MCPServer, Result
from toolcrib.component import Tool
from toolcrib.context import LOCAL, Principal
from toolcrib.dispatch.large_results import (
    KEPT,
    NOTE_TOKENS,
    SHORTENED,
    KeptResults,
    count_content,
    count_tokens,
    find_longest_array,
)
from toolcrib.errors import ConfigurationError, InvalidToolError
from toolcrib.options import ToolOptions
from toolcrib.policy import Limit, Policy
from toolcrib.state import StateHandle

BUDGET = 400
ANA, BEN = Principal("key:ana"), Principal("key:ben")


async def run(returned: Any, hint: Any = None, principal: Principal = LOCAL, **settings: Any) -> Result:
    """Return the result of a tool that returns a value, on a server with a budget."""
    return await make_server(returned, hint, **settings).call("report", principal=principal)


def make_server(returned: Any, hint: Any = None, **settings: Any) -> MCPServer:
    server = MCPServer(**{"max_result_tokens": BUDGET, **settings})

    async def report() -> Any:
        return returned

    if hint is not None:
        report.__annotations__["return"] = hint
    server.add(report)
    return server


def make_rows(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"Row {number}"} for number in range(count)]


def cuts_of(result: Result) -> list[tuple[str, int, int]]:
    assert result.meta is not None
    return [(cut["path"], cut["kept"], cut["total"]) for cut in result.meta[SHORTENED]["arrays"]]


def is_within(result: Result, budget: int = BUDGET) -> bool:
    data = json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False)
    return count_content(result.content, budget) <= budget and count_tokens(data, budget) <= budget


# --- shortening ---


async def test_a_result_within_its_budget_is_sent_as_it_is() -> None:
    rows = make_rows(10)
    result = await run(rows, list[dict[str, Any]])
    assert (result.structured_content, len(result.content), result.meta) == (rows, 1, None)


async def test_without_a_budget_a_result_of_any_size_is_sent_as_it_is() -> None:
    rows = make_rows(5_000)
    result = await run(rows, list[dict[str, Any]], max_result_tokens=None)
    assert (result.structured_content, result.meta) == (rows, None)


async def test_the_longest_list_keeps_its_first_items_and_its_text_is_made_again() -> None:
    whole = {"total": 1_000, "tags": ["a", "b"], "page": {"rows": make_rows(1_000)}}
    result = await run(whole, dict[str, Any])
    [(path, kept, total)] = cuts_of(result)
    assert (path, total) == ("structuredContent.page.rows", 1_000)
    assert result.structured_content == {**whole, "page": {"rows": make_rows(1_000)[:kept]}}
    assert json.loads(result.content[0]["text"]) == result.structured_content
    assert f"'page.rows' has its first {kept} of 1,000 items. Ask for less at a time." in result.text
    assert 0 < kept < 1_000
    assert is_within(result)


async def test_as_many_items_are_kept_as_the_budget_has_room_for() -> None:
    [(_, kept, _)] = cuts_of(await run(make_rows(1_000), list[dict[str, Any]]))
    one_more = json.dumps(make_rows(kept + 1 + kept // 8), separators=(",", ":"))
    assert count_tokens(one_more, BUDGET) > BUDGET - NOTE_TOKENS


async def test_items_that_cost_more_together_than_each_alone_are_within_the_budget() -> None:
    result = await run(["responsibility management information " * 2, "é" * 2] * 500, max_result_tokens=2_000)
    assert cuts_of(result)[0][1] > 50
    assert is_within(result, 2_000)


async def test_the_text_that_an_author_wrote_stays() -> None:
    result = await run(Result.of("1,000 rows", {"rows": make_rows(1_000)}))
    assert result.content[0]["text"] == "1,000 rows"
    assert len(result.content) == 2
    assert cuts_of(result)[0][0] == "structuredContent.rows"


async def test_the_json_below_result_is_made_again_as_servers_of_mcp_and_fastmcp_write_it() -> None:
    rows = make_rows(1_000)
    text = json.dumps(rows, indent=2)
    result = await run(
        {"content": [{"type": "text", "text": text}], "structuredContent": {"result": rows}, "isError": False}
    )
    assert json.loads(result.content[0]["text"]) == result.structured_content["result"]
    assert is_within(result)


async def test_blocks_behind_the_json_keep_their_room() -> None:
    rows = make_rows(1_000)
    text = json.dumps(rows, separators=(",", ":"))
    link = Link("https://example.com/rows", "All rows").to_block()
    result = await run(Result([{"type": "text", "text": text}, link], rows, is_structured=True))
    assert json.loads(result.content[0]["text"]) == result.structured_content
    assert result.content[1] == link
    assert is_within(result)


async def test_a_list_of_blocks_keeps_its_first_blocks() -> None:
    blocks = [f"Part {number}: {'words ' * 20}" for number in range(100)]
    result = await run(Result([{"type": "text", "text": text} for text in blocks]))
    [(path, kept, total)] = cuts_of(result)
    assert (path, total) == ("content", 100)
    assert [block["text"] for block in result.content[:-1]] == blocks[:kept]
    assert f"the content has its first {kept} of 100 items" in result.text
    assert is_within(result)


async def test_an_image_costs_what_models_count_for_it_and_not_its_bytes() -> None:
    image = Image(bytes(100_000))
    whole = await run(["Two pictures", image, image], max_result_tokens=4_000)
    assert (len(whole.content), whole.meta) == (3, None)
    shorter = await run(["Two pictures", image, image], max_result_tokens=3_000)
    assert [block["type"] for block in shorter.content] == ["text", "image", "text"]
    assert cuts_of(shorter) == [("content", 2, 3)]


async def test_a_list_with_one_item_is_a_wrapper_of_the_list_inside_of_it() -> None:
    result = await run([[{"rows": make_rows(1_000)}]], list[list[dict[str, Any]]])
    [(path, kept, total)] = cuts_of(result)
    assert (path, total) == ("structuredContent[0][0].rows", 1_000)
    assert result.structured_content == [[{"rows": make_rows(kept)}]]


@pytest.mark.parametrize(
    ("parameters", "advice"),
    [
        (
            ["query", "limit", "offset"],
            "Ask for fewer items at a time with 'limit', and for the next ones with 'offset'.",
        ),
        (["cursor"], "Ask for the next ones with 'cursor'."),
        (["page_size"], "Ask for fewer with 'page_size'."),
        (["query"], "Ask for less at a time."),
        ([], "Ask for less at a time."),
    ],
)
async def test_the_note_names_the_parameters_for_paging(parameters: list[str], advice: str) -> None:
    server = MCPServer(max_result_tokens=BUDGET)
    properties = {name: {"type": "string"} for name in parameters}

    @server.tool("find", "Find rows", {"type": "object", "properties": properties})
    async def find(**_: Any) -> Any:
        return make_rows(1_000)

    assert (await server.call("find")).text.endswith(advice)


async def test_meta_of_the_author_is_kept() -> None:
    result = await run(Result([], make_rows(1_000), is_structured=True, meta={"mine": 1}))
    assert result.meta is not None
    assert result.meta["mine"] == 1
    assert result.meta[SHORTENED]["maxTokens"] == BUDGET


# --- whose budget ---


async def test_a_tool_has_its_own_budget_or_none() -> None:
    server = MCPServer(max_result_tokens=BUDGET)
    rows = make_rows(1_000)

    @server.tool(max_result_tokens=2_000)
    async def larger() -> list[dict[str, Any]]:
        return rows

    @server.tool(max_result_tokens=0)
    async def unlimited() -> list[dict[str, Any]]:
        return rows

    @server.tool
    async def usual() -> list[dict[str, Any]]:
        return rows

    counts = [len((await server.call(name)).structured_content) for name in ("usual", "larger", "unlimited")]
    assert 3 * counts[0] < counts[1] < counts[2] == 1_000


async def test_a_tool_may_have_a_budget_where_the_server_has_none() -> None:
    server = MCPServer()
    server.add(lambda: make_rows(1_000), name="rows", max_result_tokens=BUDGET)
    assert is_within(await server.call("rows"))


@pytest.mark.parametrize("given", [-1, 1, 199, True, 2.5, "300"])
def test_a_budget_must_have_room_for_the_note(given: Any) -> None:
    with pytest.raises(InvalidToolError, match="max_result_tokens"):
        ToolOptions(max_result_tokens=given)
    with pytest.raises(ConfigurationError, match="max_result_tokens"):
        MCPServer(max_result_tokens=given)


def test_an_unknown_way_to_treat_large_results_is_refused() -> None:
    with pytest.raises(InvalidToolError, match="must be 'shorten' or 'link', got 'cut'"):
        ToolOptions(large_results="cut")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must be 'shorten' or 'link', got 'cut'"):
        MCPServer(large_results="cut")  # type: ignore[typeddict-item]


@pytest.mark.parametrize("run_mode", ["inline", "thread", "process"])
async def test_a_budget_applies_wherever_the_tool_runs(
    run_mode: Literal["inline", "thread", "process"],
) -> None:
    server = MCPServer(max_result_tokens=BUDGET)
    server.add(make_rows, run=run_mode)
    async with server.connect() as client:
        result = await client.call("make_rows", {"count": 1_000})
    assert SHORTENED in (result.meta or {})


# --- links ---


async def kept_in(server: MCPServer, principal: Principal, result: Result) -> Any:
    store = server.dispatcher.kept_results
    assert store is not None
    assert result.meta is not None
    return await store.find(principal, result.meta[SHORTENED]["uri"])


async def test_a_link_leads_to_the_whole_result_besides_the_items_that_fit() -> None:
    rows = make_rows(1_000)
    server = make_server(rows, list[dict[str, Any]], large_results="link")
    result = await server.call("report")
    [(_, kept, _)] = cuts_of(result)
    assert result.structured_content == rows[:kept]
    link = result.content[-1]
    assert (link["type"], link["uri"].startswith("result://")) == ("resource_link", True)
    assert link["uri"] in result.text
    [contents] = await kept_in(server, LOCAL, result)
    assert (contents["uri"], contents["mimeType"]) == (link["uri"], "application/json")
    assert json.loads(contents["text"]) == rows
    assert is_within(result)


async def test_a_long_text_has_no_items_so_it_is_linked_with_its_first_lines() -> None:
    text = "A line of the report\n" * 2_000
    server = make_server(text)
    result = await server.call("report")
    [contents] = await kept_in(server, LOCAL, result)
    assert (contents["mimeType"], contents["text"]) == ("text/plain", text)
    assert result.text.endswith("It begins:\n\n" + "\n".join(["A line of the report"] * 5))
    assert is_within(result)


async def test_data_without_a_list_is_linked_where_no_schema_requires_data() -> None:
    whole = {"text": "word " * 10_000}
    server = make_server(whole)
    result = await server.call("report")
    assert not result.is_structured
    assert json.loads((await kept_in(server, LOCAL, result))[0]["text"]) == whole


async def test_a_list_whose_first_item_is_too_large_is_left_out_and_linked() -> None:
    whole = ["word " * 10_000, "short"]
    server = make_server(whole, list[str])
    result = await server.call("report")
    assert (result.structured_content, cuts_of(result)) == ([], [("structuredContent", 0, 2)])
    assert "the list is left out" in result.text
    assert json.loads((await kept_in(server, LOCAL, result))[0]["text"]) == whole


async def test_media_and_files_are_kept_as_they_are() -> None:
    server = make_server([Image(b"png" * 99), File(b"bin", uri="file:///a"), File("notes", uri="file:///b")])
    result = await server.call("report")
    image, binary, notes = await kept_in(server, LOCAL, result)
    assert (image["mimeType"], len(image["blob"])) == ("image/png", 396)
    assert (binary["uri"], "blob" in binary) == ("file:///a", True)
    assert (notes["uri"], notes["text"]) == ("file:///b", "notes")


async def test_an_error_stays_an_error() -> None:
    result = await run(Result([{"type": "text", "text": "It failed. " * 1_000}], is_error=True), list[str])
    assert result.is_error
    assert result.content[-1]["type"] == "resource_link"


# --- results that cannot be shortened ---


async def test_data_that_the_schema_would_refuse_shortened_is_sent_whole_with_a_note() -> None:
    rows = make_rows(1_000)
    result = await run(rows, Annotated[list[dict[str, Any]], Field(min_length=900)])
    assert result.structured_content == rows
    assert json.loads(result.content[0]["text"]) == rows
    assert result.content[1]["text"].startswith(
        "This result has more than 400 tokens and cannot be shortened."
    )
    assert cuts_of(result) == []


async def test_long_data_without_a_list_that_the_schema_requires_is_sent_whole_with_a_note() -> None:
    whole = {"text": "word " * 10_000}
    result = await run(whole, dict[str, str])
    assert (result.structured_content, len(result.content)) == (whole, 2)


async def test_where_nothing_can_be_kept_a_text_is_sent_whole_with_a_note() -> None:
    server = make_server("word " * 10_000, large_results="link", keeps_sessions=False)
    result = await server.call("report")
    assert result.content[0]["text"] == "word " * 10_000
    assert "cannot be shortened" in result.content[1]["text"]
    assert server.dispatcher.kept_results is None


async def test_where_nothing_can_be_kept_lists_are_shortened_without_a_link() -> None:
    result = await run(make_rows(1_000), large_results="link", keeps_sessions=False)
    assert [block["type"] for block in result.content] == ["text", "text"]
    assert is_within(result)


# --- kept results ---


def text_result(text: str) -> Result:
    return Result([{"type": "text", "text": text}])


def make_store(**caps: Any) -> KeptResults:
    return KeptResults(lambda principal, tool: True, StateHandle(), space=KEPT._replace(**caps))


async def keep(store: KeptResults, principal: Principal, text: str) -> str:
    uri = await store.keep(principal, text_result(text), Tool.from_function(make_rows))
    assert uri is not None
    return uri


async def test_a_kept_result_is_found_by_its_own_principal_only() -> None:
    store = make_store()
    uri = await keep(store, ANA, "secret")
    assert await store.find(ANA, uri) == [{"uri": uri, "mimeType": "text/plain", "text": "secret"}]
    assert await store.find(BEN, uri) is None
    assert await store.find(LOCAL, uri) is None
    assert await store.find(Principal("key:ana", binding="another issuer"), uri) is None
    assert await store.find(ANA, "result://") is None
    assert await store.find(Principal("key:ana", scopes=frozenset({"new"})), uri) is not None


async def test_uris_of_kept_results_cannot_be_guessed() -> None:
    store = make_store()
    uris = {await keep(store, ANA, "the same") for _ in range(20)}
    assert len(uris) == 20
    assert {len(uri) for uri in uris} == {len("result://") + 32}


async def test_each_principal_has_room_for_a_number_of_results_and_loses_the_oldest() -> None:
    store = make_store(max_own=3)
    of_ben = await keep(store, BEN, "of Ben")
    uris = [await keep(store, ANA, str(number)) for number in range(5)]
    found = [await store.find(ANA, uri) is not None for uri in uris]
    assert found == [False, False, True, True, True]
    assert await store.find(BEN, of_ben) is not None


async def test_the_bytes_of_each_result_are_limited() -> None:
    store = make_store(max_value=10_000)
    await keep(store, ANA, "x" * 9_000)
    assert await store.keep(ANA, text_result("x" * 10_001), Tool.from_function(make_rows)) is None


# --- hostile results ---


async def test_a_million_items_take_time_in_proportion_to_their_size() -> None:
    server = make_server(list(range(1_000_000)))
    whole = await make_server(list(range(1_000_000)), max_result_tokens=None).call("report")
    budget = server.dispatcher._budget(server.registry.get("report"))
    assert budget is not None
    started = time.process_time()
    result = await budget.fit(whole, LOCAL)
    assert time.process_time() - started < 1.0
    assert cuts_of(result)[0][2] == 1_000_000
    assert is_within(result)


async def test_many_short_lists_and_deep_nesting_take_linear_time() -> None:
    crowded = {str(number): [number, number] for number in range(100_000)}
    deep: Any = make_rows(1_000)
    for number in range(150):
        deep = {"next": deep, "tags": ["a", "b"]} if number % 2 else [deep]
    for whole in (crowded, deep):
        started = time.process_time()
        found = find_longest_array(whole)
        assert time.process_time() - started < 1.0
        assert found is not None
    path, items = found
    assert (len(path), len(items)) == (150, 1_000)
    assert is_within(await run(deep), BUDGET)


async def test_names_of_any_length_leave_the_note_short() -> None:
    result = await run({"k" * 300: make_rows(1_000)}, max_result_tokens=1_000)
    assert "k" * 41 not in result.content[-1]["text"]
    assert is_within(result, 1_000)


# --- with the rest of the server ---


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25", "2024-11-05"])
async def test_clients_of_every_era_get_the_items_that_fit_the_note_and_the_link(protocol: str) -> None:
    server = make_server(make_rows(1_000), list[dict[str, Any]], large_results="link")
    async with server.connect(protocol=protocol) as client:
        result = await client.call("report")
    assert result.meta is not None
    told = result.meta[SHORTENED]
    [cut] = told["arrays"]
    assert json.loads(result.content[0]["text"]) == make_rows(cut["kept"])
    assert f"has its first {cut['kept']} of 1,000 items" in result.content[1]["text"]
    if protocol == "2024-11-05":  # it has no structured content and no links
        assert result.content[2]["text"].endswith(told["uri"])
    else:
        listed = result.structured_content
        rows = listed if protocol == "2026-07-28" else listed["result"]
        assert rows == make_rows(cut["kept"])
        assert (result.content[2]["type"], result.content[2]["uri"]) == ("resource_link", told["uri"])


async def test_a_limit_in_bytes_applies_to_the_shortened_result() -> None:
    policy = Policy(limits=[Limit(max_result_bytes=5_000)])
    result = await run(make_rows(1_000), policy=policy)
    assert not result.is_error
