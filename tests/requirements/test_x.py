"""The behaviour where the documents disagree: names, duplicates, registration, batches, calls."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.document_z import Memory
from tests.support.definitions.small_tools import named, names
from toolcrib import (
    MCPServer,
    ToolError,
    ToolNotFoundError,
    ToolRegistry,
)
from toolcrib.errors import (
    DefinitionError,
    InvalidNameError,
    InvalidToolError,
)
from toolcrib.names import MCP, PORTABLE, STRICT


@pytest.fixture
def server() -> MCPServer:
    return MCPServer()


# --- names --------------------------------------------------------------------------------------------


@pytest.mark.requirement("X-01")
def test_there_are_three_named_rules_and_the_one_of_mcp_2025_11_25_is_the_default(
    server: MCPServer,
) -> None:
    assert [(rule.label, rule.max_length) for rule in (STRICT, PORTABLE, MCP)] == [
        ("strict", 50),
        ("portable", 64),
        ("mcp", 128),
    ]
    accepted = {"strict": "add_1", "portable": "Add-1_", "mcp": "a.b-C_" + "d" * 122}
    refused = {
        "strict": ("Add", "1a", "a-b", "_a"),
        "portable": ("a.b", "a b", "ä"),
        "mcp": ("a/b", "a b", "a" * 513),
    }
    for rule, name in accepted.items():
        assert names_after(rule, name) == [name]
        for wrong in (*refused[rule], name[:40] + "\n", "", "\u200b"):
            with pytest.raises(InvalidNameError):
                names_after(rule, wrong)
    assert server.registry.rule is ToolRegistry().rule is MCP, "what MCP 2025-11-25 allows is accepted"
    with pytest.raises(InvalidNameError):
        server.register_tool(Memory("a.b"))


def names_after(rule: str, name: str) -> list[str]:
    tools = ToolRegistry(name_rule=rule)
    tools.add(named(name))
    return names(tools)


@pytest.mark.requirement("X-02")
async def test_a_namespace_joins_with_one_underscore_and_a_long_name_is_shortened_not_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer()
    server.add(named("create_issue"), namespace="github")
    other = MCPServer(separator="__")
    other.add(named("create_issue"), namespace="github")
    assert (names(server.registry), names(other.registry)) == (
        ["github_create_issue"],
        ["github__create_issue"],
    )
    long = ["read_" * 14 + end for end in ("one", "two")]
    server.add([named(name) for name in long], namespace="github")
    short = names(server.registry)[1:]
    assert len(set(short)) == 2
    assert all(len(name) == 64 for name in short)
    for name, shortened in zip(long, short, strict=True):
        for spelling in (f"github_{name}", shortened, shortened.upper()):
            assert (await server.call(spelling)).text == name
        assert f"'github_{name}' is too long and becomes '{shortened}'" in caplog.text


# --- calls --------------------------------------------------------------------------------------------


@pytest.mark.requirement("X-07")
async def test_arguments_left_out_are_none_given(server: MCPServer) -> None:
    @server.tool
    def greet(name: str = "World") -> str:
        return f"Hello, {name}!"

    @server.tool
    def needs(name: str) -> str:
        return name

    assert (await server.call("greet")).text == (await server.call("greet", {})).text == "Hello, World!"
    missing = await server.call("needs")
    assert missing.is_error
    assert "'name': required, but missing" in missing.text


@pytest.mark.requirement("X-08")
async def test_anything_that_a_tool_raises_is_logged_and_answered_safely(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool
    async def crash() -> str:
        raise RuntimeError("db password is hunter2")

    @server.tool
    def explain() -> str:
        raise ToolError("The order is locked.")

    crashed = await server.call("crash")
    assert crashed.is_error
    assert "hunter2" not in crashed.text
    assert (await server.call("explain")).text == "The order is locked."
    server.dispatcher.crashes.flush()
    assert "RuntimeError: db password is hunter2" in caplog.text
    assert f'{Path(__file__).name}", line ' in caplog.text


# --- registration -------------------------------------------------------------------------------------


@pytest.mark.requirement("X-13")
def test_short_descriptions_are_refused_at_the_strict_door_only(server: MCPServer) -> None:
    with pytest.raises(DefinitionError, match="too short"):
        server.register_tool(Memory("strict", "short"))
    server.add(Memory("lenient", "short"), named("silent"))
    assert [definition.name for definition in server.list_tools()] == ["lenient", "silent"]


@pytest.mark.requirement("X-23")
async def test_the_strict_door_takes_async_only_and_every_other_takes_both(server: MCPServer) -> None:
    def plain(arguments: dict[str, Any]) -> str:
        return threading.current_thread().name

    with pytest.raises(InvalidToolError, match="must be async"):
        server.register_tool(Memory("sync", execute=plain))
    server.add(Memory("sync", execute=plain))
    assert (await server.call("sync", {"text": ""})).text != threading.current_thread().name


@pytest.mark.requirement("X-26")
def test_readers_take_no_lock_and_writers_one() -> None:
    tools = ToolRegistry()
    tools.add_all([named("one"), named("two")])
    assert len(tools.snapshot.tools) == 2
    with tools._lock:  # a writer at work: readers go on, another writer waits
        assert [names(tools), "one" in tools, tools.get("two").name, len(tools)] == [
            ["one", "two"],
            True,
            "two",
            2,
        ]
        writer = threading.Thread(target=lambda: tools.add(named("three")))
        writer.start()
        writer.join(0.05)
        assert writer.is_alive()
        assert names(tools) == ["one", "two"]
    writer.join(20)
    assert names(tools) == ["one", "two", "three"]


@pytest.mark.requirement("X-27")
async def test_a_caller_is_never_told_of_other_tools(server: MCPServer) -> None:
    server.add(named("secret_export"), named("search"))

    with pytest.raises(ToolNotFoundError) as refusal:
        await server.call("secret_exprot")
    assert str(refusal.value) == "Unknown tool: secret_exprot"
    wrong = await server.call("search", {"secret_export": 1})
    assert wrong.is_error
    assert "secret_export'" not in wrong.text.replace("'secret_export': not a parameter", "")


@pytest.mark.requirement("X-29")
def test_version_of_a_tool_and_revision_of_the_registry_are_two_things(server: MCPServer) -> None:
    async def handle(arguments: dict[str, Any]) -> str:
        return "done"

    entry = {"description": "Do it", "schema": {"type": "object", "properties": {}}, "handler": handle}
    server.add([{"name": "do_it", "version": version, **entry} for version in ("1.0", "2.0")])
    assert [tool.version for tool in server.registry.versions("do_it")] == ["2.0", "1.0"]
    assert server.registry.revision == 1
    server.registry.disable("do_it@2.0")
    assert (server.registry.revision, server.registry.get("do_it").version) == (2, "1.0")


# --- applications and running -------------------------------------------------------------------------
