"""Functions of other libraries' servers that toolcrib runs itself."""

from __future__ import annotations

import functools
import sys
from typing import Annotated, Any

import fastmcp.server.dependencies
import mcp_types
import pytest
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context, get_http_headers
from fastmcp.utilities.types import Image
from pydantic import BaseModel, Field

from toolcrib import MCPServer
from toolcrib.component import Adoption
from toolcrib.sources import collect
from toolcrib.sources.foreign.plain import find_obstacle

theirs = FastMCP("theirs")


class Order(BaseModel):
    item: str = Field(min_length=2)


class Till:
    def __init__(self) -> None:
        self.sum = 0

    def pay(self, amount: int) -> int:
        self.sum += amount
        return self.sum

    def name(self) -> str:
        return helper()


def helper() -> str:
    return get_context().request_id


def twice(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) * 2

    return call


till = Till()
TABLE = {"a": helper}


def add(a: int, b: int = 2) -> int:
    return a + b


def refuse() -> str:
    raise ToolError("no tea")


def order(order: Order, tags: Annotated[list[str] | None, Field(max_length=3)] = None) -> Order:
    return order


def log(text: str) -> None:
    sys.stderr.write(text)


async def stream(upto: int) -> Any:
    for number in range(upto):
        yield number


@twice
def doubled(a: int) -> int:
    return a


def takes_context(a: int, ctx: Context | None = None) -> int:
    return a


def returns_theirs() -> list[Image]:
    return []


def returns_theirs_unsaid() -> Any:
    return mcp_types.TextContent(type="text", text="")


def looks_around() -> str:
    return str(get_http_headers())


def looks_around_elsewhere() -> str:
    return str(fastmcp.server.dependencies.get_http_headers())


def imports() -> str:
    from fastmcp.server.dependencies import get_access_token

    return str(get_access_token())


def calls_a_helper() -> str:
    return helper()


def calls_inside() -> list[str]:
    return [helper() for _ in range(2)]


def calls_a_method() -> str:
    return till.name()


def calls_through_a_table(key: str) -> str:
    return TABLE[key]()


def uses_the_server() -> str:
    return theirs.name


@twice
def wrapped() -> str:
    return helper()


def takes_anything(**values: Any) -> int:
    return len(values)


def schema_of(function: Any) -> dict[str, Any]:
    names = [name for name in function.__annotations__ if name not in ("return", "ctx", "values")]
    return {"properties": {name: {} for name in names}}


@pytest.mark.parametrize("function", [add, refuse, order, log, stream, doubled])
def test_a_function_with_nothing_of_theirs_is_plain(function: Any) -> None:
    assert find_obstacle(function, schema_of(function)) is None


class Shop:
    shared = theirs

    def __init__(self) -> None:
        self.mcp = FastMCP("shop")
        self.till = till
        self.prices = {"tea": 4.5}
        for method in (self.price, self.pay, self.find, self.look, self.read, self.show, self.hand_over):
            self.mcp.tool(method)

        @self.mcp.tool
        def priced(item: str) -> float:
            return self.price(item)

    def price(self, item: str) -> float:
        return self._find_price(item)

    def _find_price(self, item: str) -> float:
        return self.prices[item]

    def pay(self, amount: int) -> int:
        return self.till.pay(amount)

    def find(self, item: str) -> str:
        return self.till.name()

    def look(self) -> str:
        return self.mcp.name

    def read(self, name: str) -> str:
        return str(getattr(self, name))

    def show(self) -> str:
        return self.shared.name

    def hand_over(self) -> str:
        return name_of(self)


def name_of(shop: Any) -> str:
    return str(shop.mcp)


def test_a_method_is_plain_if_it_reaches_nothing_of_theirs() -> None:
    assert find_obstacle(till.pay, {"properties": {"amount": {}}}) is None
    assert find_obstacle(till.name, {}) == "it uses get_context"


def test_methods_of_an_object_that_keeps_its_server_are_plain_unless_they_reach_it() -> None:
    ways = {tool.name: tool.adoption for tool in collect(Shop().mcp).tools}

    assert {name: way.reason for name, way in ways.items() if way is not None} == {
        "price": "a plain function",
        "pay": "a plain function",
        "find": "it uses get_context",
        "look": "it uses Shop.mcp",
        "read": "it uses getattr, which may reach Shop.mcp",
        "show": "it uses Shop.shared",
        "hand_over": "it uses Shop.mcp",
        "priced": "a plain function",
    }


async def test_a_method_is_run_natively_with_its_object() -> None:
    server = MCPServer("test")
    server.add(Shop().mcp)

    assert (await server.call("price", {"item": "tea"})).structured_content == 4.5
    assert (await server.call("priced", {"item": "tea"})).structured_content == 4.5


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (takes_context, "it takes Context (ctx)"),
        (returns_theirs, "it returns Image"),
        (returns_theirs_unsaid, "it uses mcp_types"),
        (looks_around, "it uses get_http_headers"),
        (looks_around_elsewhere, "it uses fastmcp"),
        (imports, "it uses fastmcp.server.dependencies"),
        (calls_a_helper, "it uses get_context"),
        (calls_inside, "it uses get_context"),
        (calls_a_method, "it uses get_context"),
        (calls_through_a_table, "it uses get_context"),
        (uses_the_server, "it uses theirs"),
        (wrapped, "it uses get_context"),
        (takes_anything, "it has the parameter **values: 'Any'"),
        (functools.partial(add, 1), "it is a partial, not a function"),
        (Till, "it is a type, not a function"),
    ],
)
def test_a_function_that_its_library_has_to_run(function: Any, reason: str) -> None:
    found = find_obstacle(function, schema_of(function) if hasattr(function, "__name__") else {})

    assert found == reason


def test_a_parameter_that_is_not_published_is_filled_by_the_library() -> None:
    assert find_obstacle(add, {"properties": {"a": {}}}) == "its library fills the parameter 'b'"


def test_a_parameter_that_is_published_under_another_name_is_left_to_the_library() -> None:
    found = find_obstacle(add, {"properties": {"a": {}, "b": {}, "c": {}}})

    assert found == "its schema has other parameters than the function"


def test_each_tool_says_which_way_it_goes() -> None:
    server = FastMCP("mixed")
    server.tool(add)
    server.tool(takes_context)

    plain, other = (tool.adoption for tool in collect(server).tools)

    assert isinstance(plain, Adoption)
    assert (plain.library, plain.way, plain.reason) == ("fastmcp", "native", "a plain function")
    assert isinstance(other, Adoption)
    assert (other.way, other.reason) == ("handlers", "it takes Context (ctx)")
