"""Document U: applications are discovered, their tools registered, listed and called."""

from __future__ import annotations

import logging

import pytest

from tests.support.definitions.document_u import (
    CREATE_ISSUE,
    GET_WEATHER,
    GitHubApp,
    JiraApp,
    RenamingApp,
    SlackApp,
    create_issue,
    without_output,
)
from tests.support.definitions.hints import codes
from tests.support.servers.api_server import API, WeatherApp, api  # noqa: F401 - a fixture
from toolcrib import MCPServer, Tool, ToolRegistry
from toolcrib.errors import SourceError
from toolcrib.schema.docstrings import parse_docstring


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("github-tools")


@pytest.mark.requirement("U-01")
async def test_tools_are_discovered_parsed_described_and_registered_before_any_call(
    server: MCPServer,
) -> None:
    server.add(GitHubApp())
    assert [definition.name for definition in server.list_tools()] == [
        "create_issue",
        "list_issues",
        "create_pull_request",
    ]
    async with server:
        result = await server.call("create_issue", {"title": "a", "body": "b"})
    assert result.structured_content == {"number": 7, "title": "a", "body": "b", "labels": None}


@pytest.mark.requirement("U-02")
def test_the_actors_do_step_by_step_what_the_server_does_at_once(server: MCPServer) -> None:
    registry = ToolRegistry()
    for function in GitHubApp().list_tools():
        tool = Tool.from_function(function)
        assert parse_docstring(function.__doc__).description == tool.definition.description
        registry.add(tool)
    server.add(GitHubApp())
    assert [tool.definition for tool in registry] == server.list_tools()


@pytest.mark.requirement("U-03")
def test_a_tool_carries_name_description_schema_and_callable() -> None:
    app = GitHubApp()
    tool = Tool.from_function(app.create_issue)
    assert tool.name == tool.definition.name == "create_issue"
    assert tool.definition.description == "Create a new GitHub issue"
    assert tool.definition.input_schema == CREATE_ISSUE["inputSchema"]
    assert tool.handler(title="a", body="b")["number"] == 7


@pytest.mark.requirement("U-04")
def test_one_server_hosts_the_five_tools_of_two_applications(server: MCPServer) -> None:
    report = server.add(GitHubApp(), SlackApp())
    assert report.ok
    assert len(server.registry) == 5


@pytest.mark.requirement("U-25")
async def test_the_same_name_in_two_applications_is_told_apart_by_namespaces(server: MCPServer) -> None:
    server.add(GitHubApp(), namespace="github")
    server.add(JiraApp(), namespace="jira")
    names = [tool.name for tool in server.registry]
    assert {"github_create_issue", "jira_create_issue"} <= set(names)
    result = await server.call("jira_create_issue", {"title": "a"})
    assert result.structured_content == {"title": "a"}


@pytest.mark.requirement("U-26")
def test_renaming_a_bound_method_fails_and_the_error_names_the_option_that_works(
    server: MCPServer,
) -> None:
    with pytest.raises(SourceError, match="'method' object has no attribute '__name__'") as caught:
        server.add(RenamingApp())
    assert "namespace=" in (caught.value.hint or "")
    server.add(GitHubApp(), namespace="github")
    assert [tool.name for tool in server.registry][:2] == ["github_create_issue", "github_list_issues"]


@pytest.mark.requirement("U-27")
def test_the_listing_has_name_description_and_schema_of_every_tool(server: MCPServer) -> None:
    server.add(WeatherApp())
    listing = {"tools": [definition.to_wire() for definition in server.list_tools()]}
    assert [without_output(tool) for tool in listing["tools"]] == [GET_WEATHER]


@pytest.mark.requirement("U-32")
def test_the_recipe_for_debugging_finds_nothing_to_debug() -> None:
    for app in (GitHubApp(), WeatherApp(), SlackApp()):
        tools = app.list_tools()
        assert all(callable(tool) for tool in tools)
        for tool in tools:
            assert tool.__doc__ is not None
            assert codes(Tool.from_function(tool)) == []


@pytest.mark.requirement("U-33")
def test_registration_shows_in_the_log_at_debug(server: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="toolcrib"):
        server.add(GitHubApp())
        server.add(create_issue, name="another")
    events = [record for record in caplog.records if record.getMessage() == "tool_registered"]
    assert [record.tool_name for record in events] == [  # type: ignore[attr-defined]
        "create_issue",
        "list_issues",
        "create_pull_request",
        "another",
    ]
    assert {record.name for record in events} == {"toolcrib"}


@pytest.mark.requirement("U-34")
def test_the_classes_the_document_names_are_there_under_the_names_of_this_library() -> None:
    for cls, names in (
        (Tool, ("from_function", "definition", "name")),
        (ToolRegistry, ("add", "get", "remove")),
        (MCPServer, ("add", "call", "list_tools", "run")),
    ):
        assert all(hasattr(cls, name) or name in getattr(cls, "__slots__", ()) for name in names)
