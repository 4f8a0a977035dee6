"""MCPServer: registration from any source, lists, calls, and the life cycle."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.small_tools import broken, named, names
from tests.support.system.source_folders import write
from toolcrib import (
    Application,
    MCPServer,
    Tool,
    ToolAlreadyExistsError,
    ToolNotFoundError,
    __version__,
    tool,
)
from toolcrib.errors import (
    BatchError,
    ConfigurationError,
    InvalidNameError,
    InvalidSchemaError,
    InvalidSignatureError,
    InvalidToolError,
    RegistrationClosedError,
)
from toolcrib.server import ServerSettings, SettingFields


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wrong(*numbers: int) -> int:
    return sum(numbers)


class MixedApp(Application):
    """Four tools, of which two are wrong: one at once, one when it is built."""

    def list_tools(self) -> list[Callable[..., Any]]:
        return [add, wrong, broken(), named("fine")]  # type: ignore[list-item]


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("test")


# --- the decorator ------------------------------------------------------------------------------------


async def test_the_decorator_registers_and_returns_the_function_unchanged(server: MCPServer) -> None:
    @server.tool
    def one(a: int) -> int:
        return a

    @server.tool("second", tags=["x"])
    def two() -> str:
        return "two"

    @server.tool("third", "Say it.", {"type": "object", "properties": {"word": {"type": "string"}}})
    async def three(arguments: dict[str, Any]) -> str:
        return str(arguments["word"])

    @server.tool()
    def four() -> int:
        return 4

    assert (one(1), two(), four()) == (1, "two", 4)
    assert names(server.registry) == ["one", "second", "third", "four"]
    assert (await server.call("third", {"word": "hi"})).text == "hi"
    assert server.registry.get("second").options.tags == ["x"]


def test_the_decorator_wants_a_name_first(server: MCPServer) -> None:
    with pytest.raises(InvalidToolError, match="takes a name first, got int"):
        server.tool(5)  # type: ignore[call-overload]


# --- one or many --------------------------------------------------------------------------------------


def test_of_one_thing_what_is_wrong_is_raised(server: MCPServer) -> None:
    server.add(add)
    for thing, kind in ((wrong, InvalidSignatureError), (5, InvalidToolError), (add, ToolAlreadyExistsError)):
        with pytest.raises(kind):
            server.add(thing)
    with pytest.raises(InvalidNameError):
        server.add(lambda: 1, name="not a name")
    with pytest.raises(InvalidSchemaError):
        server.add(broken(), strict=True)
    assert names(server.registry) == ["add"]


@pytest.mark.parametrize(
    "things", [(MixedApp(),), (add, wrong, broken(), named("fine")), ([add, wrong, named("fine")],)]
)
def test_of_many_the_good_are_registered_and_the_bad_reported(
    server: MCPServer, caplog: pytest.LogCaptureFixture, things: tuple[Any, ...]
) -> None:
    with caplog.at_level(logging.INFO, logger="toolcrib"):
        report = server.add(*things)
    assert [tool.name for tool in report.registered] == names(server.registry)
    assert {"add", "fine"} <= set(names(server.registry))
    assert [finding.tool for finding in report.errors] == ["wrong"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[0] == f"Error during tool registration: {report.errors[0]}"
    assert caplog.messages[1] == f"Successfully registered {len(report.registered)} tools"


@pytest.mark.parametrize("things", [(MixedApp(),), (add, wrong), (add, broken()), (named("held"), add)])
def test_strict_raises_and_registers_none_and_says_nothing(
    server: MCPServer, caplog: pytest.LogCaptureFixture, things: tuple[Any, ...]
) -> None:
    server.add(named("held"))
    before = (server.registry.revision, server.registry.snapshot)
    with pytest.raises(BatchError, match=r"^Nothing registered, 1 refused: "):
        server.add(*things, strict=True, switches={"enable_x_tools": True})
    assert (server.registry.revision, server.registry.snapshot) == before
    assert caplog.records == []


def test_a_strict_add_of_good_things_registers_them(server: MCPServer) -> None:
    assert [tool.name for tool in server.add(add, named("fine"), strict=True).registered] == ["add", "fine"]
    server.add(named("alone"), strict=True)
    assert names(server.registry) == ["add", "fine", "alone"]


def test_a_tool_that_was_kept_is_not_said_to_be_registered(server: MCPServer) -> None:
    first = named("echo")
    assert server.add(first).registered == [first]
    assert server.add(named("echo"), on_duplicate="keep").registered == []
    assert server.add([named("echo")], on_duplicate="keep").registered == []
    assert server.registry.get_all() == [first]


def test_registrations_are_in_the_debug_log(server: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    server.add(named("zero"))
    with caplog.at_level(logging.DEBUG, logger="toolcrib"):
        server.add(named("one"))
        server.add([named("two"), named("three")])
    events = [vars(record) for record in caplog.records if record.getMessage() == "tool_registered"]
    assert [(event["tool_name"], event["total_tools"]) for event in events] == [
        ("one", 2),
        ("two", 4),
        ("three", 4),
    ]
    assert {event["levelname"] for event in events} == {"DEBUG"}


# --- choosing -----------------------------------------------------------------------------------------


def test_include_and_exclude_choose_among_what_is_found(server: MCPServer) -> None:
    many = [named("get_one"), named("get_two"), named("put_one")]
    server.add(many, include=["get_*"], exclude=["*_two"], namespace="app")
    assert names(server.registry) == ["app_get_one"]
    assert server.add(add, exclude=["add"]).registered == []
    with pytest.raises(ConfigurationError, match="matches no tool"):
        server.add(many, include=["got_*"], namespace="other")
    assert len(server.registry) == 1


def test_switches_of_the_server_hold_for_everything_added() -> None:
    server = MCPServer(switches={"enable_math_tools": False, "enable_file_tools": True})
    report = server.add(
        [named("a", group="math"), named("b", group="file", enabled=False), named("c", group="math")],
        switches={"enable_file_tools": True},
    )
    assert (names(server.registry), report.findings) == (["b"], [])
    server.add(named("d", group="math"), switches={"enable_math_tools": True})
    assert names(server.registry) == ["b", "d"]


def test_a_switch_given_with_a_source_must_fit_a_group_of_it(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    for things in ([named("a", group="math")], named("b")):
        caplog.clear()
        (finding,) = server.add(things, switches={"enable_maths_tools": True}).findings
        assert (finding.code, finding.level) == ("unused-switch", "warning")
        assert "'enable_maths_tools' matches no group" in finding.message
        assert caplog.messages == [str(finding)]


async def test_a_switch_of_the_server_that_never_fits_is_told_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer(
        switches={"enable_math_tools": True, "enable_typo_tools": True, "enable_a_tools": True}
    )
    server.add(named("a", group="math"))
    async with server:
        told = [message for message in caplog.messages if "matches no group" in message]
    assert [("typo" in message, "_a_" in message) for message in told] == [(False, True), (True, False)]


# --- using --------------------------------------------------------------------------------------------


@pytest.mark.requirement("T-07")
async def test_an_unknown_tool_raises_and_the_rest_is_in_the_result(server: MCPServer) -> None:
    server.add(add)
    assert (await server.call("add", {"a": 1, "b": 2})).structured_content == 3
    with pytest.raises(ToolNotFoundError, match=r"^Unknown tool: nothing$"):
        await server.call("nothing")
    assert (await server.call("add", {"a": 1})).is_error


async def test_a_server_can_be_called_and_changed_after_a_connection_closed(server: MCPServer) -> None:
    server.add(add)
    for number in range(2):
        async with server.connect() as client:
            assert (await client.call("add", {"a": 1, "b": 2})).structured_content == 3
        assert (await server.call("add", {"a": 1, "b": 2})).structured_content == 3
        server.add(named(f"later{number}"))
    async with server.connect() as client:
        assert [item.name for item in await client.list_tools()] == ["add", "later0", "later1"]


async def test_a_server_that_was_stopped_stays_stopped_after_a_connection(server: MCPServer) -> None:
    server.add(add)
    await server.stop()
    async with server.connect() as client:
        assert (await client.call("add", {"a": 1, "b": 2})).structured_content == 3
    assert "the server has stopped" in (await server.call("add", {"a": 1, "b": 2})).text
    with pytest.raises(RegistrationClosedError):
        server.add(named("late"))


async def test_clients_see_the_version_of_the_server_or_else_that_of_toolcrib() -> None:
    for server, version in ((MCPServer("a"), __version__), (MCPServer("b", version="1.4"), "1.4")):
        async with server.connect() as client:
            assert client.server_info["version"] == version


async def test_a_server_describes_itself_in_figures(server: MCPServer) -> None:
    server.add(add)
    await server.call("add", {"a": 1, "b": 2})
    await server.call("add", {})
    facts = server.describe()
    assert (facts["name"], facts["requests"], facts["tools"], facts["abandoned_calls"]) == (
        "test",
        2,
        ["add"],
        0,
    )
    assert (facts["statistics"]["add"]["calls"], facts["statistics"]["add"]["errors"]) == (2, 1)
    assert facts["uptime_s"] >= 0


@pytest.mark.requirement("T-12")
def test_listing_leaves_out_what_cannot_be_built(server: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    server.add(named("good"), broken(), named("better"))
    for _ in range(2):
        assert [definition.name for definition in server.list_tools()] == ["good", "better"]
    assert [("broken" in message) for message in caplog.messages] == [True]


# --- sealed and dynamic -------------------------------------------------------------------------------


@pytest.mark.requirement("A-15", "X-09")
async def test_a_running_server_is_sealed_and_its_broken_tools_are_not_published(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.add(named("good"), broken())
    async with server:
        assert [definition.name for definition in server.list_tools()] == ["good"]
        assert "tool 'broken' is not published" in caplog.text
        for write_ in (
            lambda: server.add(add),
            lambda: server.registry.add(add),
            lambda: server.registry.disable("good"),
        ):
            with pytest.raises(
                RegistrationClosedError, match=r"^Cannot register tools after server has started$"
            ):
                write_()
    for write_ in (lambda: server.add(add), lambda: server.registry.add(add)):
        with pytest.raises(
            RegistrationClosedError, match=r"^Server is shutting down, registration not allowed$"
        ):
            write_()


@pytest.mark.requirement("X-09")
async def test_a_dynamic_server_changes_while_it_runs_and_builds_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer(dynamic=True)
    server.add(named("old"), broken())
    async with server:
        assert "tool 'broken' is not published" in caplog.text
        server.add(add)
        with pytest.raises(InvalidSchemaError):
            server.add(broken("new"))
        report = server.add([broken("other"), named("fine")])
        assert [finding.tool for finding in report.errors] == ["other"]
        server.registry.disable("old")
        assert [definition.name for definition in server.list_tools()] == ["add", "fine"]
        assert (await server.call("add", {"a": 1, "b": 2})).structured_content == 3
        server.registry.remove("add")
        with pytest.raises(ToolNotFoundError):
            await server.call("add", {"a": 1, "b": 2})
    with pytest.raises(RegistrationClosedError, match="shutting down"):
        server.add(named("late"))
    async with server:
        server.add(named("late"))
    assert "late" in server.registry


async def test_registering_is_refused_before_anything_is_imported(server: MCPServer, tmp_path: Path) -> None:
    write(tmp_path, {"crib_never.py": "raise SystemExit('imported')"})
    async with server:
        with pytest.raises(RegistrationClosedError):
            server.add(tmp_path / "crib_never.py")
    with pytest.raises(RegistrationClosedError):
        server.add(tmp_path / "crib_never.py")


def test_the_marked_and_the_shared_stay_as_they_are(server: MCPServer) -> None:
    marked = tool(name="marked")(lambda: 1)
    shared = Tool.from_function(marked)
    server.add(shared, namespace="one", tags=["x"])
    other = MCPServer()
    other.add(shared)
    assert (names(server.registry), names(other.registry)) == (["one_marked"], ["marked"])
    assert list(shared.options.tags) == []


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_server_has_a_name(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        MCPServer(name)


@pytest.mark.parametrize("timeout_s", [0, -1, "5", 10_000])
def test_a_deadline_that_is_none_is_refused_at_once(timeout_s: Any) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        MCPServer(timeout_s=timeout_s)


async def test_the_reason_why_a_tool_is_unknown_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer()

    def contradictory(number: int = "five") -> None: ...

    server.add(contradictory)
    with pytest.raises(ToolNotFoundError):
        await server.call("contradictory")
    assert "'contradictory' is not published" in caplog.text
    assert "'five'" in caplog.text


def test_every_setting_is_a_keyword_argument() -> None:
    fields = {field.name for field in dataclasses.fields(ServerSettings)}
    assert SettingFields.__optional_keys__ == fields
    with pytest.raises(TypeError, match="unexpected keyword argument 'titel'"):
        MCPServer(titel="x")  # type: ignore[call-arg]


WRONG_SETTINGS: list[tuple[str, Any, str]] = [
    ("title", 3, "must be a string, got 3"),
    ("dynamic", "no", "must be True or False, got 'no'"),
    ("timeout_s", "5", "must be a number, got '5'"),
    ("page_size", "all", "must be a whole number, got 'all'"),
    ("page_size", 0, "must be at least 1, got 0"),
    ("icons", "a.png", "must be a list of dicts with 'src', got 'a.png'"),
    ("icons", [3], "must be a list of dicts with 'src', got [3]"),
    ("errors", "all", "must be 'show' or 'hide', got 'all'"),
    ("on_duplicate", 1, "must be 'error', 'keep' or 'replace', got 1"),
    ("name_rule", 3, "must be a string or NameRule, got 3"),
    ("name_rule", "any", "must be one of strict, portable, mcp, got 'any'"),
    (
        "switches",
        {"enable_file_tools": "no"},
        "must be a dict such as {'enable_file_tools': True}, got {'enable_file_tools': 'no'}",
    ),
    ("max_result_tokens", "many", "must be a whole number of tokens, got 'many'"),
    ("key", "secret", "must be bytes, such as secrets.token_bytes(32), got str"),
    ("middleware", 3, "must be a list of middleware, got 3"),
]


@pytest.mark.parametrize(("name", "value", "problem"), WRONG_SETTINGS)
def test_a_setting_is_checked_when_the_server_is_made(name: str, value: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        MCPServer("x", **{name: value})
    assert (caught.value.key, caught.value.message) == (name, problem)


def test_options_of_http_are_checked_when_they_are_given() -> None:
    for name, value, problem in (
        ("port", "8000", "must be a whole number, got '8000'"),
        ("allowed_hosts", "example.com", "must be a list of strings, got 'example.com'"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            MCPServer("x").asgi(**{name: value})
        assert (caught.value.key, caught.value.message) == (name, problem)


def test_a_folder_of_skills_is_a_path() -> None:
    server: Any = MCPServer("x")
    with pytest.raises(InvalidToolError, match="add_skills takes a folder and a prefix, got 3 and ''"):
        server.add_skills(3)


@pytest.mark.parametrize("given", [True, False, {"wait_s": 1}])
def test_tasks_are_settings_of_tasks(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"must be Tasks\(\.\.\.\) of toolcrib\.policy") as refused:
        MCPServer("books", tasks=given)
    assert refused.value.key == "tasks"
    assert repr(given) in str(refused.value)
