"""Document U: what its docstrings and hints come to."""

from __future__ import annotations

from typing import Any, Literal, Optional, Union

import pytest

from tests.support.definitions.document_u import (
    CREATE_ISSUE,
    create_issue,
    without_output,
)
from tests.support.definitions.hints import definition_of, schema_of
from tests.support.servers.api_server import WeatherApp
from toolcrib import MCPServer


@pytest.mark.requirement("U-14")
@pytest.mark.parametrize("hint", [str | None, Optional[str], Union[None, str]])  # noqa: UP007, UP045
def test_optional_is_the_bare_type(hint: Any) -> None:
    def f(x: Any = None) -> None: ...

    f.__annotations__ = {"x": hint}
    assert definition_of(f)["inputSchema"] == {"type": "object", "properties": {"x": {"type": "string"}}}


@pytest.mark.requirement("U-15")
def test_a_union_is_any_of() -> None:
    assert schema_of(int | str) == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.requirement("U-16")
def test_a_literal_is_an_enum_with_its_type() -> None:
    assert schema_of(Literal["a", "b"]) == {"type": "string", "enum": ["a", "b"]}


@pytest.mark.requirement("U-17", "U-18")
def test_the_generated_definition_of_create_issue_is_the_one_of_the_document() -> None:
    assert without_output(definition_of(create_issue)) == CREATE_ISSUE
    assert list(definition_of(create_issue)["inputSchema"]) == ["type", "properties", "required"]


@pytest.mark.requirement("U-19")
def test_defaults_are_emitted_unless_they_are_none() -> None:
    weather = definition_of(WeatherApp().get_weather)["inputSchema"]["properties"]
    assert (weather["units"]["default"], weather["include_forecast"]["default"]) == ("metric", False)
    assert "default" not in weather["city"]
    assert "default" not in definition_of(create_issue)["inputSchema"]["properties"]["labels"]


@pytest.mark.requirement("U-29")
async def test_parameters_without_hints_register_and_are_not_validated() -> None:
    server = MCPServer()

    @server.tool
    def search_repos(query, language=None, max_results=10):
        return [query, language, max_results]

    assert server.registry.get("search_repos").definition.input_schema == {
        "type": "object",
        "properties": {"query": {}, "language": {}, "max_results": {"default": 10}},
        "required": ["query"],
    }
    result = await server.call("search_repos", {"query": {"any": "thing"}, "max_results": "many"})
    assert result.structured_content == [{"any": "thing"}, None, "many"]


@pytest.mark.requirement("U-30")
def test_results_never_enter_the_input_schema_and_nested_lists_survive() -> None:
    def get_user(username: str) -> dict:
        """Fetch user profile.

        Returns:
            dict: User data containing:
                - id (int): User ID
                - username (str): Username
                - email (str): Email address
        """

    definition = definition_of(get_user)
    assert list(definition["inputSchema"]["properties"]) == ["username"]
    assert definition["description"] == "Fetch user profile"
    words = definition["outputSchema"]["description"]
    assert "User data containing:" in words
    assert all(f"- {name}" in words for name in ("id (int): User ID", "email (str): Email address"))
