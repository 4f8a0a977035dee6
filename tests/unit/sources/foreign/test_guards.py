"""Guards that servers of other libraries have themselves."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import pytest
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import StaticTokenVerifier, require_scopes
from fastmcp.server.dependencies import get_http_headers
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.authorization import AuthMiddleware
from fastmcp.server.middleware.logging import LoggingMiddleware
from fastmcp.server.middleware.rate_limiting import RateLimitingMiddleware
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool as FastTool
from mcp.server.extension import Extension
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.mcpserver.tools.base import Tool as OfficialTool
from pydantic import Field

from toolcrib.errors import ConfigurationError, Finding, SourceError
from toolcrib.server import MCPServer
from toolcrib.sources import collect
from toolcrib.sources.foreign.guards import find_guards


def guarded(server: Any, words: str) -> Finding:
    finding = find_guards(server)
    assert finding is not None
    assert re.search(words, finding.message)
    return finding


class TestAllowed:
    def test_a_subclass_that_registers_describes_and_starts(self) -> None:
        class Own(FastMCP):
            name = "own"

            def __init__(self) -> None:
                super().__init__("x")

            def add_tool(self, tool: Any) -> Any:
                return super().add_tool(tool)

            async def run_async(self, *args: Any, **kwargs: Any) -> None:
                await super().run_async(*args, **kwargs)

            async def read_resource(self, *args: Any, **kwargs: Any) -> Any:
                return await super().read_resource(*args, **kwargs)

            def helper(self) -> int:
                return 1

        assert find_guards(Own()) is None

    def test_tools_that_middleware_of_fastmcp_adds(self) -> None:
        added = FastTool.from_function(lambda: 1, name="added")
        theirs = FastMCP("x", middleware=[ToolInjectionMiddleware([added])])

        assert [tool.name for tool in collect(theirs).tools] == ["added"]

    def test_an_extension_that_intercepts_nothing(self) -> None:
        class Quiet(Extension):
            identifier = "example.com/quiet"

        assert find_guards(OfficialServer("x", extensions=[Quiet()])) is None


class TestGuarded:
    def test_a_property(self) -> None:
        class Hiding(FastMCP):
            @property
            def transforms(self) -> list[Any]:
                return []

        guarded(Hiding("x"), "Hiding overrides transforms")

    def test_the_class_of_the_library_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = OfficialServer.call_tool

        @functools.wraps(plain)
        async def checking(*args: Any, **kwargs: Any) -> Any:
            return await plain(*args, **kwargs)

        monkeypatch.setattr(OfficialServer, "call_tool", checking)

        finding = guarded(OfficialServer("x"), "call_tool of class MCPServer was replaced")
        assert finding.file == __file__

    def test_a_method_replaced_on_the_object(self) -> None:
        theirs: Any = OfficialServer("x")
        theirs.call_tool = functools.partial(theirs.call_tool)

        guarded(theirs, "call_tool was replaced on this MCPServer object")

    def test_a_handler_behind_a_partial(self) -> None:
        async def guard(extra: int, ctx: Any, params: Any) -> Any: ...

        theirs = OfficialServer("x")
        entries: Any = theirs._lowlevel_server._request_handlers
        entries["tools/list"] = SimpleNamespace(handler=functools.partial(guard, 1))

        guarded(theirs, "the handler of tools/list was replaced by guard")

    def test_an_extension_that_intercepts_calls(self) -> None:
        class Gate(Extension):
            identifier = "example.com/gate"

            async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
                return await call_next(ctx)

        guarded(OfficialServer("x", extensions=[Gate()]), r"an extension that intercepts calls \(Gate\)")

    def test_middleware_of_fastmcp_that_is_not_there_by_default(self) -> None:
        class Watch(LoggingMiddleware): ...

        server = FastMCP("x", middleware=[LoggingMiddleware()])
        assert (
            guarded(server, r"middleware \(LoggingMiddleware\)").file is None
        )  # it has no name in any module

        both = FastMCP("x", middleware=[LoggingMiddleware(), Watch()])
        assert guarded(both, r"middleware \(LoggingMiddleware, Watch\)").file == __file__

    def test_authentication_of_a_mounted_server(self) -> None:
        inner = FastMCP("inner", auth=StaticTokenVerifier({"t": {"client_id": "c", "scopes": []}}))
        outer = FastMCP("outer")
        outer.mount(inner)

        with pytest.raises(
            SourceError, match=r"'outer' is not served: .* authentication of server 'inner'"
        ) as caught:
            find_guards(outer)
        assert "[auth]" in str(caught.value.hint)

    @pytest.mark.parametrize(
        ("text", "line"), [("\nserver = make()", 2), ("from x import server", None), ("(", None)]
    )
    def test_the_place_is_where_the_server_gets_its_name(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, line: int | None
    ) -> None:
        file = tmp_path / "shop.py"
        file.write_text(text)
        module: Any = ModuleType("shop_of_this_test")
        module.__file__ = str(file)
        module.server = FastMCP("x", middleware=[LoggingMiddleware()])
        monkeypatch.setitem(sys.modules, module.__name__, module)

        finding = guarded(module.server, "called through its own handlers")

        assert (finding.file, finding.line) == (str(file), line)

    def test_a_provider_of_the_authors_own(self) -> None:
        class Shelf(Provider):
            async def _get_tool(self, *args: Any, **kwargs: Any) -> Any:
                return None

        theirs = FastMCP("x")
        theirs.add_provider(Shelf(), namespace="shelf")

        guarded(theirs, "Shelf overrides _get_tool")

    def test_a_long_list_of_reasons_is_cut(self) -> None:
        names = ("list_tools", "call_tool", "get_tool", "_list_tools", "_get_tool", "http_app")
        kind = type("Own", (FastMCP,), {name: lambda self: None for name in names})

        assert guarded(kind("x"), "Own overrides").message.count("overrides") == 5


@pytest.mark.parametrize("library", ["mcp", "fastmcp"])
async def test_a_tool_with_a_run_of_its_own_is_run_by_it(library: str) -> None:
    if library == "mcp":

        class CheckedTool(OfficialTool):
            async def run(self, *args: Any, **kwargs: Any) -> Any:
                raise PermissionError("not for you")

        theirs: Any = OfficialServer("x")
        theirs._tool_manager._tools["secret"] = CheckedTool.from_function(lambda: "the secret", name="secret")
    else:
        theirs = FastMCP("x")
        tool: Any = FastTool.from_function(lambda: "the secret", name="secret")
        kind = type(tool)

        async def run(self: Any, arguments: Any) -> Any:
            raise PermissionError("not for you")

        checked = type("FunctionTool", (kind,), {"run": run, "__module__": __name__})
        theirs.add_tool(checked(**{name: getattr(tool, name) for name in kind.model_fields}))

    ours = MCPServer("ours")
    ours.add(theirs)
    result = await ours.call("secret")
    assert result.is_error
    assert "the secret" not in result.text


async def test_an_authorization_check_is_repeated_for_each_call() -> None:
    allowed = [True]
    theirs = FastMCP("x")
    theirs.tool(_make_secret("mcp"), auth=lambda _: allowed[0])
    ours = MCPServer("ours")
    ours.add(theirs)
    assert (await ours.call("secret")).text == "the secret"

    allowed.clear()
    allowed.append(False)
    assert (await ours.call("secret")).is_error


@pytest.mark.parametrize("change", ["middleware", "components", "function", "name"])
async def test_tools_that_another_tool_may_restrict_are_called_through_the_server(change: str) -> None:
    class Deny(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            raise PermissionError("not for you")

    def deny() -> str:
        raise PermissionError("not for you")

    theirs: Any = FastMCP("x")
    secret = FastTool.from_function(_make_secret("mcp"))
    theirs.add_tool(secret)

    def add_middleware() -> str:
        theirs.middleware.append(Deny())
        return "done"

    def clear_components() -> str:
        theirs.providers[0]._components.clear()
        return "done"

    def replace_function() -> str:
        secret.fn = deny
        return "done"

    def disable_by_name() -> str:
        getattr(theirs, "disable")(names={"secret"})  # noqa: B009
        return "done"

    restrict = {
        "middleware": add_middleware,
        "components": clear_components,
        "function": replace_function,
        "name": disable_by_name,
    }
    theirs.tool(restrict[change], name="restrict")
    ours = MCPServer("ours")
    ours.add(theirs)
    assert (await ours.call("restrict")).text == "done"
    assert (await ours.call("secret")).is_error


def _make_secret(library: str) -> Any:
    def secret() -> str:
        return "the secret"

    return FastTool.from_function(secret) if library == "fastmcp" else secret


def repeat(text: str, times: Annotated[int, Field(ge=1, le=9)] = 1) -> str:
    """Repeat a text."""
    return text * times


def make_with_repeat(library: str) -> tuple[Any, Any]:
    """Return a server and its only tool, which is not changed yet."""
    if library == "mcp":
        official = OfficialServer("x")
        official.add_tool(repeat)
        return official, official._tool_manager.get_tool("repeat")
    fast, tool = FastMCP("x"), FastTool.from_function(repeat)
    fast.add_tool(tool)
    return fast, tool


@pytest.mark.parametrize("library", ["mcp", "fastmcp"])
async def test_a_schema_of_arguments_that_its_author_has_changed_stays(library: str) -> None:
    theirs, tool = make_with_repeat(library)
    del tool.parameters["properties"]["times"]["maximum"]

    ours = MCPServer("ours")
    taken = ours.add(theirs).registered[0]

    assert taken.adoption is not None
    assert taken.adoption.reason == "its arguments have a schema of their own"
    assert taken.definition.input_schema["properties"]["times"].keys() >= {"minimum", "default"}
    assert "maximum" not in taken.definition.input_schema["properties"]["times"]
    assert "less than or equal to 9" in (await ours.call("repeat", {"text": "a", "times": 10})).text


@pytest.mark.parametrize("library", ["mcp", "fastmcp"])
async def test_an_output_schema_that_its_author_has_changed_stays(library: str) -> None:
    theirs, tool = make_with_repeat(library)
    tool.output_schema["properties"]["result"]["maxLength"] = 90

    ours = MCPServer("ours")
    taken = ours.add(theirs).registered[0]

    assert taken.definition.output_schema is not None
    assert taken.definition.output_schema["properties"]["result"]["maxLength"] == 90
    assert (await ours.call("repeat", {"text": "a"})).structured_content == {"result": "a"}


class NeedsKey(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        if "x-blocked" in get_http_headers():
            raise ToolError("blocked")
        return await call_next(context)


def serve_guarded(*middleware: Middleware) -> MCPServer:
    theirs = FastMCP("x", middleware=list(middleware))
    theirs.tool(lambda: 1, name="one")
    server = MCPServer("ours")
    server.add(theirs)
    return server


async def test_middleware_that_would_miss_http_headers_keeps_its_server_off_http() -> None:
    server = serve_guarded(NeedsKey())
    words = r"Tool 'one' is not served over HTTP: it has middleware \(NeedsKey\), which would get no headers"
    async with server.connect() as client:  # without HTTP, there are no headers to miss
        assert (await client.call("one")).text == "1"
    with pytest.raises(ConfigurationError, match=words):
        await server.run("http", port=0)
    app = serve_guarded(NeedsKey()).asgi()
    with pytest.raises(ConfigurationError, match=words):
        await app.lifespan(app).__aenter__()


async def test_a_server_with_middleware_is_not_added_to_one_on_http() -> None:
    server, theirs = MCPServer("ours", dynamic=True), FastMCP("x", middleware=[NeedsKey()])
    theirs.tool(lambda: 1, name="one")
    app = server.asgi()
    async with app.lifespan(app):
        with pytest.raises(ConfigurationError, match="'one' is not served over HTTP"):
            server.add(theirs)
        assert len(server.registry) == 0


async def test_middleware_counts_where_its_tools_are_disabled_at_first() -> None:
    server = serve_guarded(NeedsKey())
    server.registry.disable("one")
    app = server.asgi()
    with pytest.raises(ConfigurationError, match="'one' is not served over HTTP"):
        await app.lifespan(app).__aenter__()


async def test_middleware_of_the_library_that_reads_no_headers_is_served_over_http() -> None:
    app = serve_guarded(LoggingMiddleware()).asgi()
    async with app.lifespan(app):
        pass


@pytest.mark.parametrize(
    ("middleware", "level"),
    [
        (NeedsKey(), "error"),
        (AuthMiddleware(auth=require_scopes("a")), "error"),
        (RateLimitingMiddleware(get_client_id=lambda _: "x"), "error"),
        (RateLimitingMiddleware(), "advice"),
        (LoggingMiddleware(), "advice"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_middleware_that_may_read_headers_is_an_error(middleware: Middleware, level: str) -> None:
    finding = guarded(FastMCP("x", middleware=[middleware]), "it has middleware")
    assert finding.level == level
    assert (finding.hint is not None) is (level == "error")
