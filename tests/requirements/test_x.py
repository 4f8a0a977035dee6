"""Where the documents disagree, and what toolcrib does: names, duplicates, registration, batches, calls."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.document_z import Memory, Without
from tests.support.definitions.small_tools import broken, named, names
from tests.support.servers.api_server import API
from toolcrib import (
    APIApplication,
    MCPServer,
    ToolAlreadyExistsError,
    ToolError,
    ToolNotFoundError,
    ToolRegistry,
)
from toolcrib.errors import (
    BatchError,
    DefinitionError,
    InvalidNameError,
    InvalidToolError,
    RegistrationClosedError,
)
from toolcrib.names import MCP, PORTABLE, STRICT


@pytest.fixture
def server() -> MCPServer:
    return MCPServer()


# --- names --------------------------------------------------------------------------------------------


def test_x_01_there_are_three_named_rules_and_that_of_mcp_2025_11_25_is_the_default(
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


async def test_x_02_a_namespace_joins_with_one_underscore_and_a_long_name_is_shortened_not_cut(
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


def test_x_03_a_duplicate_is_an_error_or_what_was_asked_for(server: MCPServer) -> None:
    first, second = named("echo"), named("echo")
    server.add(first)
    with pytest.raises(ToolAlreadyExistsError, match=r"(?m)^Tool 'echo' already registered$") as refusal:
        server.add(second)
    assert isinstance(refusal.value, ValueError)
    assert (refusal.value.source, refusal.value.existing) == (second.source, first.source)
    server.add(second, on_duplicate="keep")
    assert server.registry.get("echo") is first
    server.add(second, on_duplicate="replace")
    assert server.registry.get("echo") is second


def test_x_04_the_spelling_given_is_kept_and_case_makes_no_second_tool(server: MCPServer) -> None:
    tool = named("findOrders")
    server.add(tool)
    assert names(server.registry) == ["findOrders"]
    assert all(server.registry.get(name) is tool for name in ("findOrders", "findorders", "FINDORDERS"))
    with pytest.raises(ToolAlreadyExistsError):
        server.add(named("FindOrders"))


# --- calls --------------------------------------------------------------------------------------------


async def test_x_07_arguments_left_out_are_none_given(server: MCPServer) -> None:
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


async def test_x_08_what_a_tool_raises_is_logged_and_answered_safely(
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


async def test_x_24_whatever_a_tool_returns_becomes_one_kind_of_result(server: MCPServer) -> None:
    returned: dict[str, Any] = {
        "mcp": {"content": [{"type": "text", "text": "as it is"}], "isError": True},
        "text": "plain",
        "data": {"count": 3},
        "items": [1, 2],
        "nothing": None,
    }
    for name, value in returned.items():
        server.add(
            lambda value=value: value,
            name=name,
            input_schema={"type": "object", "properties": {}},
            extra="ignore",
        )
    shaped = {name: await server.call(name) for name in returned if name != "mcp"}
    as_is = await server.call("mcp")
    assert (as_is.to_json()["content"], as_is.is_error) == (returned["mcp"]["content"], True)
    assert (shaped["text"].text, shaped["text"].is_structured) == ("plain", False)
    assert (shaped["data"].structured_content, json.loads(shaped["data"].text)) == (
        {"count": 3},
        {"count": 3},
    )
    assert shaped["items"].structured_content == [1, 2]
    assert not any(result.is_error for result in shaped.values())


# --- registration -------------------------------------------------------------------------------------


async def test_x_09_a_running_server_is_sealed_unless_it_is_dynamic() -> None:
    sealed, dynamic = MCPServer(), MCPServer(dynamic=True)
    heard: list[tuple[str, tuple[str, ...]]] = []
    dynamic.registry.subscribe(lambda change: heard.append((change.kind, change.names)))
    async with sealed, dynamic:
        with pytest.raises(
            RegistrationClosedError, match=r"^Cannot register tools after server has started$"
        ):
            sealed.add(named("late"))
        dynamic.add(named("late"))
        dynamic.registry.replace(named("late"))
        dynamic.registry.remove("late")
    assert heard == [("added", ("late",)), ("replaced", ("late",)), ("removed", ("late",))]


def test_x_10_x_11_one_error_is_both_type_error_and_value_error(server: MCPServer) -> None:
    for wrong in (Memory(123), Without("execute"), Without("name"), Without("input_schema")):
        for kind in (TypeError, ValueError, InvalidToolError):
            with pytest.raises(kind):
                server.register_tool(wrong)  # type: ignore[arg-type]
    text = "Tool must have 'input_schema' and 'execute' attributes: Tool must have callable 'execute' method"
    late = Without("execute")
    with pytest.raises(InvalidToolError) as refusal:
        server.register_tool(late)  # type: ignore[arg-type]
    assert str(refusal.value) == text
    vars(late)["description"] = "short"
    with pytest.raises(DefinitionError, match="too short"):
        server.register_tool(late)  # type: ignore[arg-type]


def test_x_12_length_is_looked_at_before_the_pattern(server: MCPServer) -> None:
    for name in ("", "!" * 51):
        with pytest.raises(InvalidNameError, match=f"length must be 1-50 chars, got {len(name)}$"):
            server.register_tool(Memory(name))


def test_x_13_short_descriptions_are_refused_at_the_strict_door_only(server: MCPServer) -> None:
    with pytest.raises(DefinitionError, match="too short"):
        server.register_tool(Memory("strict", "short"))
    server.add(Memory("lenient", "short"), named("silent"))
    assert [definition.name for definition in server.list_tools()] == ["lenient", "silent"]


async def test_x_23_the_strict_door_takes_async_only_and_every_other_takes_both(server: MCPServer) -> None:
    def plain(arguments: dict[str, Any]) -> str:
        return threading.current_thread().name

    with pytest.raises(InvalidToolError, match="must be async"):
        server.register_tool(Memory("sync", execute=plain))
    server.add(Memory("sync", execute=plain))
    assert (await server.call("sync", {"text": ""})).text != threading.current_thread().name


def test_x_25_a_batch_returns_a_report_and_strict_registers_none(server: MCPServer) -> None:
    def wrong(*parts: str) -> str:
        return "".join(parts)

    report = server.add([named("good"), wrong, named("not a name"), named("fine")])
    assert [tool.name for tool in report.registered] == ["good", "fine"]
    assert (report.errors[0].tool, report.errors[0].file) == ("wrong", __file__)
    assert report.errors[0].line == inspect.getsourcelines(wrong)[1]
    other = MCPServer()
    with pytest.raises(BatchError) as refusal:
        other.add([named("good"), broken()], strict=True)
    assert [finding.tool for finding in refusal.value.findings] == ["broken"]
    assert len(other.registry) == 0


def test_x_26_readers_take_no_lock_and_writers_one() -> None:
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


async def test_x_27_a_caller_is_never_told_of_other_tools(server: MCPServer) -> None:
    server.add(named("secret_export"), named("search"))

    with pytest.raises(ToolNotFoundError) as refusal:
        await server.call("secret_exprot")
    assert str(refusal.value) == "Unknown tool: secret_exprot"
    wrong = await server.call("search", {"secret_export": 1})
    assert wrong.is_error
    assert "secret_export'" not in wrong.text.replace("'secret_export': not a parameter", "")


def test_x_28_everything_is_registered_and_tags_choose(server: MCPServer) -> None:
    tools = [named("one", tags=["important"]), named("two"), named("three", tags=["important"])]
    server.add(tools)
    assert names(server.registry) == ["one", "two", "three"]
    assert [tool.name for tool in server.registry.select(["tag:important"])] == ["one", "three"]
    other = MCPServer()
    other.add(tools, include=["tag:important"])
    assert names(other.registry) == ["one", "three"]


def test_x_29_version_of_a_tool_and_revision_of_the_registry_are_two_things(server: MCPServer) -> None:
    async def handle(arguments: dict[str, Any]) -> str:
        return "done"

    entry = {"description": "Do it", "schema": {"type": "object", "properties": {}}, "handler": handle}
    server.add([{"name": "do_it", "version": version, **entry} for version in ("1.0", "2.0")])
    assert [tool.version for tool in server.registry.versions("do_it")] == ["2.0", "1.0"]
    assert server.registry.revision == 1
    server.registry.disable("do_it@2.0")
    assert (server.registry.revision, server.registry.get("do_it").version) == (2, "1.0")


# --- applications and running -------------------------------------------------------------------------


async def test_x_35_verbs_return_data_and_underscored_verbs_return_responses(api: API) -> None:
    class EchoApp(APIApplication):
        def list_tools(self) -> list[Any]:
            return [self.ask, self.ask_as_before, self.ask_async, self.fail]

        def ask(self, path: str) -> str:
            """Ask with `get`."""
            return str(self.get(path)["method"])

        def ask_as_before(self, path: str) -> str:
            """Ask with `_post`, as existing applications do."""
            response = self._post(path, {"a": 1})
            response.raise_for_status()
            return str(self._handle_response(response)["method"])

        async def ask_async(self, path: str) -> str:
            """Ask with the async spellings."""
            data = await self.apatch(path, {"a": 1})
            response = await self._aput(path, {"a": 1})
            return f"{data['method']} {response.json()['method']}"

        def fail(self) -> str:
            """Ask for what is not there."""
            return str(self.get("/weather", params={"q": "Nowhere", "units": "metric"}))

    server = MCPServer()
    server.add(EchoApp(api.origin))
    async with server:
        said = [
            (await server.call(name, {"path": "/echo"})).text
            for name in ("ask", "ask_as_before", "ask_async")
        ]
        assert said == ["GET", "POST", "PATCH PUT"]
        failed = await server.call("fail")
        assert (failed.is_error, failed.text) == (True, "GET /weather answered 404 Not Found: city not found")


def test_x_37_run_blocks_without_a_loop() -> None:
    server, seen = MCPServer(), []

    async def transport(running: MCPServer) -> None:
        seen.append(running._running)

    assert server.run(transport) is None
    assert (seen, server._running) == ([True], False)


async def test_x_37_run_is_awaited_inside_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer()
    with caplog.at_level(logging.WARNING):
        running = server.run("memory")
        assert inspect.isawaitable(running)
        serving = asyncio.ensure_future(running)
        while not server._running:
            await asyncio.sleep(0)
        await server.stop()
        await serving
    assert caplog.records == []
