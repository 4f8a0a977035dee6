"""Apps: what hosts get of a page, what is refused, and what is said about tools that name a page."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from toolcrib import MCPServer, Tool
from toolcrib.context import Principal
from toolcrib.dispatch.tool_search import CALL, SEARCH
from toolcrib.errors import DefinitionError, InvalidToolError, RemoteError
from toolcrib.policy import Policy, Rule
from toolcrib.registry.apps import MAX_BYTES, MIME_TYPE

URI = "ui://orders/board"
PAGE = "<!doctype html>\n<html>\n<head><title>Orders</title></head>\n<body>{}</body>\n</html>\n"
BLANK = PAGE.format("")
UI = "io.modelcontextprotocol/ui"


def show(order: int) -> str:
    """Show an order.

    Args:
        order: The number
    """
    return f"order {order}"


def shop(page: Any = BLANK, *, server: MCPServer | None = None, **options: Any) -> MCPServer:
    server = server or MCPServer("shop")
    server.add_app(URI, page, **options)
    server.add(show, ui=URI)
    return server


def refused(page: Any, **options: Any) -> DefinitionError:
    with pytest.raises(InvalidToolError) as caught:
        shop(page, **options)
    return caught.value


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
async def test_hosts_of_both_eras_get_the_page_and_its_settings(protocol: str) -> None:
    csp = {"connectDomains": ["https://api.example.com"], "frameDomains": []}
    server = shop(
        title="The board", csp=csp, permissions=["camera"], domain="orders.example.com", prefers_border=False
    )
    async with server.connect(protocol=protocol) as client:
        assert client.capabilities["extensions"] == {UI: {}}
        (tool,) = await client.list_tools()
        assert tool.definition.meta == {"ui": {"resourceUri": URI}}
        (listed,) = await client.list_resources()
        assert (listed.uri, listed.title, listed.mime_type) == (URI, "The board", MIME_TYPE)
        (page,) = await client.read(URI)
    assert (page.uri, page.mime_type, page.text) == (URI, "text/html;profile=mcp-app", PAGE.format(""))
    assert page.meta == {
        "ui": {
            "csp": {"connectDomains": ["https://api.example.com"]},
            "permissions": {"camera": {}},
            "domain": "orders.example.com",
            "prefersBorder": False,
        }
    }


async def test_a_page_without_settings_has_no_meta_and_a_server_without_apps_announces_none() -> None:
    async with shop().connect() as client:
        assert (await client.read(URI))[0].meta is None
    other = MCPServer("plain")
    other.add_resource("ui://not/an-app", "text")
    async with other.connect() as client:
        assert "extensions" not in client.capabilities


async def test_a_page_in_a_file_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "board.html"
    file.write_text(PAGE.format("old"))
    server = shop(file)
    file.write_text(PAGE.format("new"))
    async with server.connect() as client:
        assert "new" in str((await client.read(URI))[0].text)


async def test_a_rule_hides_a_page() -> None:
    rules = [Rule(deny=[f"resource:{URI}"], who=["key:guest"])]
    server = shop(server=MCPServer("shop", policy=Policy(rules=rules)))
    async with server.connect(principal=Principal("key:host")) as client:
        assert len(await client.list_resources()) == 1
    async with server.connect(principal=Principal("key:guest")) as client:
        assert await client.list_resources() == []
        with pytest.raises(RemoteError, match="not found"):
            await client.read(URI)


# --- pages that are refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", ["", "<p>Orders</p>", "<!doctype html>", "<html></html>", "board.html", "<!doctype svg><html>"]
)
def test_a_fragment_is_refused(page: str) -> None:
    assert "not a whole HTML5 document" in str(refused(page))


def test_a_page_that_is_too_large_missing_or_not_text_is_refused(tmp_path: Path) -> None:
    assert "the limit is" in str(refused(PAGE.format("x" * MAX_BYTES)))
    assert "not found" in str(refused(tmp_path / "none.html"))
    (tmp_path / "page.html").write_bytes(b"<!doctype html><html>\xff")
    assert "not UTF-8" in str(refused(tmp_path / "page.html"))
    assert "needs a page, got bytes" in str(refused(b"<!doctype html><html>"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"csp": []}, "csp of app"),
        ({"csp": {"scriptDomains": []}}, "unknown key 'scriptDomains'"),
        ({"csp": {"connectDomains": "https://a.example"}}, "must be a list"),
        ({"csp": {"connectDomains": ["*"]}}, "no valid domain"),
        ({"csp": {"connectDomains": ["https://a.example; script-src *"]}}, "no valid domain"),
        ({"csp": {"connectDomains": [None]}}, "no valid domain"),
        ({"permissions": "camera"}, "permissions of app"),
        ({"permissions": ["usb"]}, "unknown 'usb'"),
        ({"domain": 5}, "domain of app"),
        ({"prefers_border": "yes"}, "prefers_border"),
        ({"border": True}, "Unknown app option: border"),
    ],
)
def test_settings_that_hosts_would_not_understand_are_refused(options: Any, problem: str) -> None:
    assert problem in str(refused(PAGE.format(""), **options))


@pytest.mark.parametrize("uri", ["https://a.example/page", "ui://", "ui://orders/{id}", "board"])
def test_the_uri_of_an_app_has_the_scheme_ui(uri: str) -> None:
    with pytest.raises(InvalidToolError):
        MCPServer("shop").add_app(uri, PAGE.format(""))


# --- findings --------------------------------------------------------------------------------------------


def problems(server: MCPServer) -> list[tuple[str, str]]:
    return [(finding.code, finding.level) for finding in server.dispatcher.find_app_problems()]


def test_anything_that_a_page_loads_is_left_to_the_host() -> None:
    page = PAGE.format("<script src='https://cdn.example/x.js'></script>")
    assert problems(shop(page)) == []


async def test_a_missing_page_is_reported_when_the_server_starts(caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer("shop")
    server.add(show, ui=URI)
    assert problems(server) == [("missing-app", "error")]
    with caplog.at_level(logging.WARNING, "toolcrib"):
        async with server:
            pass
    assert "names the page ui://orders/board" in caplog.text


@pytest.mark.parametrize(
    "ui",
    [
        "https://a.example",
        "ui://",
        5,
        {},
        {"resourceUri": URI, "visibility": []},
        {"resourceUri": URI, "visibility": ["user"]},
        {"resourceUri": URI, "visibility": "app"},
        {"resourceUri": URI, "csp": {}},
    ],
)
def test_an_option_that_names_no_page_is_refused(ui: Any) -> None:
    with pytest.raises(InvalidToolError, match="'ui'"):
        Tool.from_function(show, ui=ui)


def test_the_page_is_not_given_twice() -> None:
    with pytest.raises(InvalidToolError, match="given twice"):
        Tool.from_function(show, ui=URI, meta={"ui": {}})


# --- tools that only the page calls ----------------------------------------------------------------------


def test_tools_for_the_page_cost_models_nothing_and_are_not_found_by_them() -> None:
    server = MCPServer("shop", search="always")
    server.add(show, ui={"resourceUri": URI, "visibility": ["model", "app"]})
    server.add(show, name="refresh", ui={"visibility": ["app"]})
    listing = server.dispatcher.tool_search.listing()  # type: ignore[union-attr]
    assert [tool.name for tool in listing.shown] == [SEARCH, CALL, "refresh"]
    assert (listing.count, listing.for_apps) == (1, 1)
    assert "clients are shown search_tools and call_tool instead" in listing.explanation
    found = asyncio.run(server.call(SEARCH, {"query": "order"})).structured_content
    assert [tool["name"] for tool in found["tools"]] == ["show"]
    called = asyncio.run(server.call(CALL, {"name": "refresh", "arguments": {"order": 1}}))
    assert called.is_error
    assert "There is no tool 'refresh'" in called.text
    assert asyncio.run(server.call("refresh", {"order": 1})).text == "order 1"


def test_a_list_of_tools_for_pages_is_within_every_budget() -> None:
    server = MCPServer("shop", search_budget_tokens=10)
    server.add(show, ui={"visibility": ["app"]})
    assert [definition.name for definition in server.list_shown()] == ["show"]
