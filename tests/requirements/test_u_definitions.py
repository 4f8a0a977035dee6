"""Document U: what its docstrings and hints come to."""

from __future__ import annotations

import json
from typing import Any, Literal, Optional, Union

import pytest

from tests.support.definitions.document_u import (
    CREATE_ISSUE,
    GOOGLE,
    NUMPY,
    REST,
    create_issue,
    without_output,
)
from tests.support.definitions.hints import definition_of, schema_of
from tests.support.servers.api_server import WeatherApp
from toolcrib import MCPServer, Tool, ToolDefinition
from toolcrib.schema.docstrings import parse_docstring


@pytest.mark.parametrize(("text", "style"), [(GOOGLE, "google"), (NUMPY, "numpy"), (REST, "rest")])
def test_u_06_the_style_is_detected_and_all_styles_give_one_definition(text: str, style: str) -> None:
    def create_issue(title: str, body: str) -> dict: ...

    create_issue.__doc__ = text
    assert parse_docstring(text).style == style
    definition = Tool.from_function(create_issue).definition
    assert isinstance(definition, ToolDefinition)
    assert definition.to_wire() == {
        "name": "create_issue",
        "description": "Create a new GitHub issue",
        "inputSchema": {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "The issue title"},
                "body": {"type": "string", "description": "The issue description"},
            },
            "required": ["title", "body"],
        },
        "outputSchema": {"type": "object", "description": "The created issue data"},
    }


def test_u_07_description_parameters_and_returns_are_extracted() -> None:
    docs = parse_docstring(GOOGLE)
    assert docs.description == "Create a new GitHub issue"
    assert [(item.name, item.description) for item in docs.params] == [
        ("title", "The issue title"),
        ("body", "The issue description"),
    ]
    assert docs.returns == "The created issue data"


def test_u_08_google_sections_are_read() -> None:
    docs = parse_docstring("Do it.\n\nArgs:\n    a: the first\n\nReturns:\n    the result\n")
    assert ([item.name for item in docs.params], docs.returns) == (["a"], "the result")


def test_u_09_numpy_sections_are_read_with_their_types() -> None:
    docs = parse_docstring(NUMPY)
    assert [(item.name, item.type) for item in docs.params] == [("title", "str"), ("body", "str")]
    assert (docs.returns, docs.returns_type) == ("The created issue data", "dict")


def test_u_10_rest_fields_are_read() -> None:
    docs = parse_docstring("Do it.\n\n:param x: the first\n:return: the result\n")
    assert ([item.name for item in docs.params], docs.returns) == (["x"], "the result")


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (str, "string"),
        (int, "integer"),
        (float, "number"),
        (bool, "boolean"),
        (list, "array"),
        (dict, "object"),
    ],
)
def test_u_11_plain_types_map_to_their_json_types(hint: type, kind: str) -> None:
    assert schema_of(hint) == {"type": kind}


def test_u_12_a_list_tells_of_its_items() -> None:
    assert schema_of(list[str]) == {"type": "array", "items": {"type": "string"}}


def test_u_13_a_dict_of_anything_is_exactly_an_object() -> None:
    assert schema_of(dict[str, Any]) == {"type": "object"}


@pytest.mark.parametrize("hint", [str | None, Optional[str], Union[None, str]])  # noqa: UP007, UP045
def test_u_14_optional_is_the_bare_type(hint: Any) -> None:
    def f(x: Any = None) -> None: ...

    f.__annotations__ = {"x": hint}
    assert definition_of(f)["inputSchema"] == {"type": "object", "properties": {"x": {"type": "string"}}}


def test_u_15_a_union_is_any_of() -> None:
    assert schema_of(int | str) == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def test_u_16_a_literal_is_an_enum_with_its_type() -> None:
    assert schema_of(Literal["a", "b"]) == {"type": "string", "enum": ["a", "b"]}


def test_u_17_the_generated_definition_of_create_issue_is_that_of_the_document() -> None:
    assert without_output(definition_of(create_issue)) == CREATE_ISSUE
    assert list(definition_of(create_issue)["inputSchema"]) == ["type", "properties", "required"]


def test_u_18_parameters_are_described_by_the_docstring() -> None:
    properties = definition_of(create_issue)["inputSchema"]["properties"]
    assert [schema["description"] for schema in properties.values()] == [
        "The issue title",
        "The issue description",
        "Optional list of label names",
    ]


def test_u_19_defaults_are_emitted_unless_they_are_none() -> None:
    weather = definition_of(WeatherApp().get_weather)["inputSchema"]["properties"]
    assert (weather["units"]["default"], weather["include_forecast"]["default"]) == ("metric", False)
    assert "default" not in weather["city"]
    assert "default" not in definition_of(create_issue)["inputSchema"]["properties"]["labels"]


def test_u_20_required_lists_the_parameters_without_default_in_order() -> None:
    def f(c, a, z=1, *, b): ...

    assert definition_of(f)["inputSchema"]["required"] == ["c", "a", "b"]


def test_u_21_a_description_of_one_sentence_loses_its_full_stop() -> None:
    assert definition_of(create_issue)["description"] == "Create a new GitHub issue"


def test_u_22_quotes_in_the_text_of_a_parameter_survive() -> None:
    definition = definition_of(WeatherApp().get_weather)
    assert json.loads(json.dumps(definition)) == definition
    assert definition["inputSchema"]["properties"]["city"]["description"] == (
        'City name (e.g., "London", "New York")'
    )


async def test_u_29_parameters_without_hints_register_and_are_not_validated() -> None:
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


def test_u_30_results_never_enter_the_input_schema_and_nested_lists_survive() -> None:
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
