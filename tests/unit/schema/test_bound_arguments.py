"""Bound, hidden and renamed arguments: `server.add(tool, bind=..., rename=..., hide=...)`."""

import datetime as dt
import threading
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolcrib import Application, Depends, MCPServer, Tool, tool
from toolcrib.catalog.export import export
from toolcrib.config.settings import Policy, Rule
from toolcrib.errors import DefinitionError, InvalidArgumentsError, InvalidToolError


@dataclass
class Range:
    start: dt.date
    end: dt.date | None = None


def find(
    tenant: str, query: str, limit: int = 10, debug: bool = False, tags: list[str] | None = None
) -> dict[str, Any]:
    """Find documents.

    Args:
        tenant: Whose documents
        query: Words to look for
        limit: Maximum number
    """
    return {"tenant": tenant, "query": query, "limit": limit, "debug": debug, "tags": tags}


def make(**options: Any) -> MCPServer:
    server = MCPServer()
    server.add(find, **options)
    return server


async def call(server: MCPServer, arguments: dict[str, Any], name: str = "find") -> Any:
    result = await server.call(name, arguments)
    assert not result.is_error, result.text
    return result.structured_content


async def test_a_bound_argument_is_filled_in_and_not_published() -> None:
    server = make(bind={"tenant": "acme"})
    schema = server.registry.get("find").definition.input_schema
    assert list(schema["properties"]) == ["query", "limit", "debug", "tags"]
    assert schema["required"] == ["query"]
    assert (await call(server, {"query": "x"}))["tenant"] == "acme"


async def test_a_hidden_argument_keeps_its_default() -> None:
    server = make(bind={"tenant": "acme"}, hide=["debug", "tags"])
    assert list(server.registry.get("find").definition.input_schema["properties"]) == ["query", "limit"]
    assert (await call(server, {"query": "x"}))["debug"] is False


async def test_a_renamed_argument_keeps_its_schema_and_place() -> None:
    server = make(rename={"query": "words", "limit": "at_most"})
    schema = server.registry.get("find").definition.input_schema
    assert list(schema["properties"]) == ["tenant", "words", "at_most", "debug", "tags"]
    assert schema["required"] == ["tenant", "words"]
    assert schema["properties"]["words"]["description"] == "Words to look for"
    found = await call(server, {"tenant": "t", "words": "x", "at_most": "3"})
    assert (found["query"], found["limit"]) == ("x", 3)
    result = await server.call("find", {"tenant": "t", "words": 5, "at_most": "many"})
    assert "at_most" in result.text
    assert "limit" not in result.text


async def test_two_arguments_may_exchange_their_names() -> None:
    server = make(rename={"query": "tenant", "tenant": "query"})
    found = await call(server, {"tenant": "x", "query": "t"})
    assert (found["tenant"], found["query"]) == ("t", "x")


@pytest.mark.parametrize("name", ["tenant", "debug", "limit"])
async def test_clients_cannot_send_what_is_not_published(name: str) -> None:
    server = make(bind={"tenant": "acme"}, hide=["debug"], rename={"limit": "at_most"})
    result = await server.call("find", {"query": "x", name: "1"})
    assert isinstance(result.error, InvalidArgumentsError)
    assert f"'{name}': not a parameter of this tool" in result.text


OPEN = {
    "type": "object",
    "properties": {"tenant": {"type": "string"}, "query": {"type": "string"}},
    "required": ["tenant", "query"],
    "additionalProperties": True,
}


async def test_an_open_schema_does_not_let_a_bound_argument_in() -> None:
    server = MCPServer()

    async def whole(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def keywords(**values: Any) -> dict[str, Any]:
        return values

    for handler in (whole, keywords):
        server.add(handler, input_schema=OPEN, bind={"tenant": "acme"}, rename={"query": "words"})
        name = handler.__name__
        assert await call(server, {"words": "x", "more": 1}, name) == {
            "query": "x",
            "more": 1,
            "tenant": "acme",
        }
        for sent in ("tenant", "query"):
            result = await server.call(name, {"words": "x", sent: "evil"})
            assert isinstance(result.error, InvalidArgumentsError)


async def test_bound_values_are_converted_as_those_of_a_client() -> None:
    server = MCPServer()

    @tool
    def days(between: Range, day: dt.date, count: Annotated[int, Field(ge=1)] = 1) -> str:
        return f"{between.start.year} {day.month} {count}"

    server.add(days, bind={"between": {"start": "2026-01-02"}, "day": dt.date(2026, 5, 1), "count": 2})
    definition = server.registry.get("days").definition
    assert definition.input_schema["properties"] == {}
    assert "$defs" not in definition.input_schema
    assert (await server.call("days")).text == "2026 5 2"


async def test_each_call_gets_a_list_of_its_own() -> None:
    def grow(items: list[str]) -> int:
        items.append("more")
        return len(items)

    server = MCPServer()
    server.add(grow, bind={"items": ["first"]})
    assert [(await server.call("grow")).structured_content for _ in range(2)] == [2, 2]


async def test_an_object_that_is_not_json_is_passed_as_it_is() -> None:
    lock = threading.Lock()

    async def whole(arguments: dict[str, Any]) -> bool:
        return arguments["tenant"] is lock

    def keywords(tenant: Any, query: str) -> bool:
        return tenant is lock

    server = MCPServer()
    server.add(whole, input_schema=OPEN, bind={"tenant": lock})
    server.add(keywords, bind={"tenant": lock})
    assert await call(server, {"query": "x"}, "whole") is True
    assert await call(server, {"query": "x"}, "keywords") is True


async def test_rules_judge_the_arguments_that_clients_send() -> None:
    server = make(bind={"tenant": "acme", "tags": ["a"]}, rename={"limit": "at_most"})
    server.enforce(Policy(rules=[Rule(allow=["find"], when={"at_most": {"at_most": 5}})]))
    assert (await call(server, {"query": "x", "at_most": 5}))["limit"] == 5
    assert (await server.call("find", {"query": "x", "at_most": 6})).is_error


async def test_bound_arguments_go_with_dependencies_and_applications() -> None:
    class Shop(Application):
        def list_tools(self) -> list[Any]:
            return [self.buy]

        def buy(self, article: str, tenant: str, price: Annotated[int, Depends(lambda: 5)]) -> str:
            """Buy an article."""
            return f"{article} for {price} by {tenant}"

    server = MCPServer()
    server.add(Shop(), bind={"tenant": "acme"}, rename={"article": "what"})
    assert (await server.call("buy", {"what": "tea"})).text == "tea for 5 by acme"


async def test_the_same_function_serves_several_tenants() -> None:
    server = MCPServer()
    for tenant in ("acme", "globex"):
        server.add(find, name=f"find_{tenant}", bind={"tenant": tenant})
    assert (await call(server, {"query": "x"}, "find_globex"))["tenant"] == "globex"
    assert (await call(server, {"query": "x"}, "find_acme"))["tenant"] == "acme"


def test_definition_fingerprint_and_export_agree() -> None:
    plain, bound = Tool.from_function(find), Tool.from_function(find, bind={"tenant": "a"})
    other = Tool.from_function(find, bind={"tenant": "b"})
    assert plain.definition.fingerprint != bound.definition.fingerprint
    assert bound.definition.fingerprint == other.definition.fingerprint  # clients see the same
    exported = export([bound], "anthropic").tools[0]
    assert list(exported["input_schema"]["properties"]) == ["query", "limit", "debug", "tags"]


WRONG = [
    (
        {"bind": {"tennant": "acme"}},
        "Option 'bind' of tool 'find' names 'tennant', which is not an argument",
        "did you mean 'tenant'?",
    ),
    (
        {"hide": ["query"]},
        "Option 'hide' of tool 'find' names 'query', which has no default",
        "give its value: bind={'query': ...}",
    ),
    (
        {"bind": {"limit": "many"}},
        "Option 'bind' of tool 'find' has a value that does not fit: 'limit': expected integer",
        "change the value",
    ),
    (
        {"rename": {"query": "limit"}},
        "Option 'rename' of tool 'find' gives 'query' the name 'limit', which is taken",
        None,
    ),
    (
        {"rename": {"query": "words"}, "bind": {"query": "x"}},
        "Option 'rename' of tool 'find' names 'query', as 'bind' does",
        "use one of them",
    ),
    ({"rename": {"query": 5}}, "Option 'rename' of tool 'find' gives 'query' the name 5", "use a string"),
    ({"hide": "debug"}, "Option 'hide' must be a list of strings, got 'debug'", None),
]


@pytest.mark.parametrize(("options", "message", "hint"), WRONG)
def test_a_wrong_change_is_refused_when_the_tool_is_added(
    options: dict[str, Any], message: str, hint: str | None
) -> None:
    with pytest.raises(InvalidToolError) as caught:
        make(**options)
    assert caught.value.message.startswith(message)
    assert caught.value.hint == hint


def test_of_several_tools_only_those_with_the_argument_are_added() -> None:
    def other(query: str) -> str:
        return query

    report = MCPServer().add(find, other, bind={"tenant": "acme"})
    assert [item.name for item in report.registered] == ["find"]
    assert "names 'tenant', which is not an argument" in report.errors[0].message


def test_a_schema_that_may_refer_to_the_argument_is_refused() -> None:
    schema = {**OPEN, "dependentRequired": {"query": ["tenant"]}}
    with pytest.raises(DefinitionError, match="the schema has 'dependentRequired', which may refer to arg"):
        MCPServer().add(lambda arguments: "", name="x", input_schema=schema, bind={"tenant": "acme"})
