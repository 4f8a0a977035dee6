"""Tools that a server of another library takes away while it starts or runs cannot be called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError as FastError
from fastmcp.server.middleware import Middleware

from tests.support.system.source_folders import forgotten_imports
from toolcrib import MCPServer
from toolcrib.cli import app
from toolcrib.errors import ToolNotFoundError


class Denying(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        if context.message.name == "delete":
            raise FastError("not for you")
        return await call_next(context)


def read() -> str:
    return "read"


def delete() -> str:
    return "deleted"


async def serve(theirs: Any) -> MCPServer:
    server = MCPServer("test")
    server.add(theirs)
    return server


async def test_a_lifespan_that_hides_tools_and_adds_middleware_is_respected() -> None:
    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[dict[str, Any]]:
        server.add_middleware(Denying())
        server.disable(names={"read"})
        yield {}

    theirs: Any = FastMCP("theirs", lifespan=lifespan)
    theirs.tool(read)
    theirs.tool(delete)
    server = await serve(theirs)
    async with server.connect():
        assert (await server.call("delete", {})).is_error
        with pytest.raises(ToolNotFoundError):
            await server.call("read", {})


async def test_a_tool_that_another_tool_disables_cannot_be_called_any_more() -> None:
    theirs: Any = FastMCP("theirs")
    theirs.tool(delete)

    @theirs.tool
    def lock() -> str:
        theirs.disable(names={"delete"})
        return "locked"

    server = await serve(theirs)
    async with server.connect():
        assert not (await server.call("delete", {})).is_error
        assert not (await server.call("lock", {})).is_error
        assert (await server.call("delete", {})).is_error


async def test_a_tool_that_is_disabled_for_the_session_cannot_be_called_any_more() -> None:
    theirs: Any = FastMCP("theirs")
    theirs.tool(delete)

    @theirs.tool
    async def lock(ctx: Context) -> str:
        await ctx.disable_components(names={"delete"})
        return "locked"

    server = await serve(theirs)
    async with server.connect():
        assert not (await server.call("lock", {})).is_error
        assert (await server.call("delete", {})).is_error


def test_functions_of_a_server_with_an_ordinary_lifespan_stay_native() -> None:
    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"name": server.name}

    theirs: Any = FastMCP("theirs", lifespan=lifespan)
    theirs.tool(read)
    server = MCPServer("test")
    server.add(theirs)
    adoption = server.registry.get("read").adoption
    assert adoption is not None
    assert adoption.way == "native"


ONCE = """
import asyncio
from contextlib import asynccontextmanager
from mcp.server.mcpserver import MCPServer

@asynccontextmanager
async def lifespan(server):
    print("begin")
    server.remove_tool("delete")  # fails the second time
    yield
    print("end")

mcp = MCPServer("once", lifespan=lifespan)

@mcp.tool()
def delete() -> str:
    return "deleted"

@mcp.tool()
def read() -> str:
    return "read"

"""
STARTS = {
    "module": "",
    "run": "if __name__ == '__main__':\n    mcp.run()\n",
    "loop": "if __name__ == '__main__':\n    asyncio.run(mcp.run_stdio_async())\n",
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_command_runs_a_lifespan_once_also_if_it_changes_the_list(tmp_path: Path, start: str) -> None:
    file = tmp_path / "once.py"
    file.write_text(ONCE + start)
    with forgotten_imports():
        listed = CliRunner().invoke(app, ["list", str(file)])
    with forgotten_imports():
        called = CliRunner().invoke(app, ["call", "-t", str(file), "read"])

    assert "delete" not in listed.stdout
    assert called.stdout.endswith("read\n")
    for result in (listed, called):
        words = [word for word in result.output.split() if word in ("begin", "end")]
        assert words == ["begin", "end"]


PROGRAM = """
import sys
import uvicorn
from fastapi import FastAPI
from fastmcp import FastMCP
from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount, Route

mcp = FastMCP("guarded")

@mcp.tool
def delete() -> str:
    return "deleted"

async def health(request): ...

async def check_request(request, call_next):
    raise PermissionError

class Auth:
    def __init__(self, app): self.app = app
    async def __call__(self, scope, receive, send):
        raise PermissionError

if __name__ == "__main__":
    if sys.argv[1] == "run":
        mcp.run(transport="http", middleware=[Middleware(Auth)])
    elif sys.argv[1] == "app":
        uvicorn.run(mcp.http_app(middleware=[Middleware(Auth)]))
    elif sys.argv[1] == "around":
        uvicorn.run(Starlette(routes=[Mount("/", mcp.http_app())], middleware=[Middleware(Auth)]))
    elif sys.argv[1] == "raw":
        uvicorn.run(Auth(mcp.http_app()))
    elif sys.argv[1] == "mounted":
        uvicorn.run(Starlette(routes=[Route("/health", health), Mount("/", Auth(mcp.http_app()))]))
    elif sys.argv[1] == "dispatch":
        outer = FastAPI()
        outer.mount("/", mcp.http_app())
        outer.middleware("http")(check_request)
        uvicorn.run(outer)
    elif sys.argv[1] == "bearer":
        uvicorn.run(RequireAuthMiddleware(mcp.http_app(), []))
    elif sys.argv[1] == "mount":
        uvicorn.run(Starlette(routes=[Mount("/", mcp.http_app(), middleware=[Middleware(Auth)])]))
    elif sys.argv[1] == "function":
        inner = mcp.http_app()
        async def check_token(scope, receive, send):
            raise PermissionError
        uvicorn.Server(uvicorn.Config(check_token)).run()
    elif sys.argv[1] == "open":
        uvicorn.run(CORSMiddleware(Starlette(routes=[Mount("/", mcp.http_app()), Route("/health", health)])))
"""


NAMES = {"function": "check_token", "dispatch": "BaseHTTPMiddleware", "bearer": "RequireAuthMiddleware"}


@pytest.mark.parametrize("way", ["run", "app", "around", "raw", "mounted", "mount", *NAMES])
def test_a_program_that_guards_its_http_application_is_refused(tmp_path: Path, way: str) -> None:
    file = tmp_path / "guarded_program.py"
    file.write_text(PROGRAM)
    with forgotten_imports():
        result = CliRunner().invoke(app, ["call", "-t", str(file), "delete", "--", way])
    assert result.exit_code != 0
    assert "deleted" not in result.output
    assert f"The program puts {NAMES.get(way, 'Auth')} around the HTTP application" in result.output


def test_a_program_whose_http_application_only_adds_routes_and_headers_is_served(tmp_path: Path) -> None:
    file = tmp_path / "open_program.py"
    file.write_text(PROGRAM)
    with forgotten_imports():
        result = CliRunner().invoke(app, ["call", "-t", str(file), "delete", "--", "open"])
    assert result.stdout == "deleted\n"
