"""Servers of other libraries that check calls themselves: called through their own handlers, so that callers
of toolcrib see and may call what callers of the other library do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.servers.serve_process import COMMAND, TIMEOUT_S, TOOLCRIB, Serving
from tests.support.system import fork_server

SDK = """
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools.tool_manager import ToolManager
"""
FAST = """
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import StaticTokenVerifier
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.timing import TimingMiddleware
from fastmcp.server.providers import Provider
from fastmcp.server.transforms import Transform
"""
TOOL = """
@server.tool()
def secret() -> str:
    return "the secret"
"""
OPEN = '\n@server.tool()\ndef NAME() -> str:\n    return "open to all"\n'
MOUNTED = "\nouter = FastMCP('outer')\nouter.mount(server, namespace='inner')\n"
WRAPPER = (
    "class Wrapper:\n    def __init__(self, inner):\n        self.wrapped = inner\n"
    "    def __getattr__(self, name):\n        return getattr(self.wrapped, name)\n"
)
BODY = "raise ToolError('not for you')"

GUARDED = {
    "sdk_lists": (
        f"{SDK}class Hiding(MCPServer):\n    async def list_tools(self):\n        return []\n"
        f"server = Hiding('x')\n{TOOL}",
        "Hiding overrides list_tools",
    ),
    "sdk_calls": (
        f"{SDK}class Gate(MCPServer):\n    async def call_tool(self, *args, **kwargs):\n        {BODY}\n"
        f"class Behind(Gate):\n    pass\nserver = Behind('x')\n{TOOL}",
        "Gate overrides call_tool",
    ),
    "sdk_on_the_object": (
        f"{SDK}server = MCPServer('x')\n{TOOL}async def guard(*args, **kwargs):\n    {BODY}\n"
        "server.call_tool = guard\n",
        "call_tool was replaced on this MCPServer object",
    ),
    "sdk_on_the_class": (
        f"{SDK}async def guard(*args, **kwargs):\n    {BODY}\n"
        "class Own(MCPServer):\n    pass\n"
        f"Own.call_tool = guard\nserver = Own('x')\n{TOOL}",
        "Own overrides call_tool",
    ),
    "sdk_manager": (
        f"{SDK}class Strict(ToolManager):\n    async def call_tool(self, *args, **kwargs):\n        {BODY}\n"
        f"server = MCPServer('x')\nserver._tool_manager = Strict()\n{TOOL}",
        "Strict overrides call_tool",
    ),
    "sdk_wrapped_manager": (
        f"{SDK}{WRAPPER}    async def call_tool(self, *args, **kwargs):\n        {BODY}\n"
        f"server = MCPServer('x')\n{TOOL}server._tool_manager = Wrapper(server._tool_manager)\n",
        "_tool_manager is a Wrapper",
    ),
    "sdk_auth": (
        f"{SDK}from mcp.server.auth.settings import AuthSettings\n"
        "class Verifier:\n    async def verify_token(self, token):\n        return None\n"
        "settings = AuthSettings(issuer_url='https://id.example', resource_server_url='https://x.example')\n"
        f"server = MCPServer('x', token_verifier=Verifier(), auth=settings)\n{TOOL}",
        "toolcrib does not run the authentication of server 'x' (Verifier)",
    ),
    "sdk_handler": (
        f"{SDK}from mcp_types import CallToolRequestParams\nserver = MCPServer('x')\n{TOOL}"
        f"async def guard(ctx, params):\n    {BODY}\n"
        "server._lowlevel_server.add_request_handler('tools/call', CallToolRequestParams, guard)\n",
        "the handler of tools/call was replaced by guard",
    ),
    "sdk_middleware": (
        f"{SDK}async def watch(ctx, call_next):\n    if ctx.method == 'tools/call':\n        {BODY}\n"
        "    return await call_next(ctx)\n"
        f"server = MCPServer('x', middleware=[watch])\n{TOOL}",
        "it has middleware (watch)",
    ),
    "fast_lists": (
        f"{FAST}class Hiding(FastMCP):\n    async def list_tools(self, **kwargs):\n        return []\n"
        f"server = Hiding('x')\n{TOOL}",
        "Hiding overrides list_tools",
    ),
    "fast_finds": (
        f"{FAST}class Gate(FastMCP):\n    async def _get_tool(self, *args, **kwargs):\n        return None\n"
        f"server = Gate('x')\n{TOOL}",
        "Gate overrides _get_tool",
    ),
    "fast_on_the_object": (
        f"{FAST}server = FastMCP('x')\n{TOOL}async def guard(*args, **kwargs):\n    {BODY}\n"
        "server.call_tool = guard\n",
        "call_tool was replaced on this FastMCP object",
    ),
    "fast_middleware": (
        f"{FAST}class Watch(Middleware):\n    async def on_call_tool(self, context, call_next):\n"
        f"        {BODY}\n"
        f"server = FastMCP('x')\nserver.add_middleware(Watch())\n{TOOL}",
        "it has middleware (Watch)",
    ),
    "fast_library_middleware": (
        f"{FAST}server = FastMCP('x', middleware=[TimingMiddleware()])\n{TOOL}",
        "it has middleware (TimingMiddleware)",
    ),
    "fast_auth": (
        f"{FAST}tokens = {{'t': {{'client_id': 'c', 'scopes': []}}}}\n"
        f"server = FastMCP('x', auth=StaticTokenVerifier(tokens))\n{TOOL}",
        "toolcrib does not run the authentication of server 'x' (StaticTokenVerifier)",
    ),
    "fast_transform": (
        f"{FAST}class Hide(Transform):\n    async def get_tool(self, name, call_next, **kwargs):\n"
        f"        return None\nserver = FastMCP('x', transforms=[Hide()])\n{TOOL}",
        "Hide overrides get_tool",
    ),
    "fast_wrapped_provider": (
        f"{FAST}{WRAPPER}    async def get_tool(self, *args, **kwargs):\n        return None\n"
        f"server = FastMCP('x')\n{TOOL}server.providers[:] = [Wrapper(item) for item in server.providers]\n",
        "providers is a Wrapper",
    ),
    "fast_mounted": (
        f"{FAST}class Gate(FastMCP):\n    async def call_tool(self, *args, **kwargs):\n        {BODY}\n"
        f"server = Gate('x')\n{TOOL}{MOUNTED}",
        "Gate overrides call_tool",
    ),
    "fast_mounted_middleware": (
        f"{FAST}class Watch(Middleware):\n    async def on_call_tool(self, context, call_next):\n"
        f"        {BODY}\n"
        f"server = FastMCP('x', middleware=[Watch()])\n{TOOL}{MOUNTED}",
        "it has middleware (Watch)",
    ),
}
PLAIN = {
    "sdk_plain": f"{SDK}class Own(MCPServer):\n    def __init__(self):\n        super().__init__('x')\n"
    f"    def run(self, *args, **kwargs):\n        return super().run(*args, **kwargs)\n"
    f"server = Own()\n{OPEN.replace('NAME', 'sdk_open')}",
    "fast_plain": f"{FAST}server = FastMCP('x')\n{OPEN.replace('NAME', 'fast_open')}{MOUNTED}",
}


AUTHENTICATED = ("sdk_auth", "fast_auth")

COMPARE = """
import asyncio, importlib, json, sys
from toolcrib import MCPServer
from toolcrib.errors import ToolNotFoundError

async def ask_theirs(server):
    if "fastmcp" in [kind.__module__.partition(".")[0] for kind in type(server).__mro__]:
        from fastmcp import Client as client
        options = {"raise_on_error": False}
    else:
        from mcp import Client as client
        options = {}
    async with client(server) as session:
        listed = await session.list_tools()
        names = [tool.name for tool in getattr(listed, "tools", listed)]
        name = names[0] if names else "secret"
        try:
            result = await session.call_tool(name, {}, **options)
        except Exception as error:
            return names, True, str(error)
        return names, bool(result.is_error), result.content[0].text

async def ask_ours(server):
    ours = MCPServer("ours")
    ours.add(server)
    async with ours:
        names = [tool.name for tool in ours.list_tools()]
        try:
            result = await ours.call(names[0] if names else "secret", {})
        except ToolNotFoundError as error:
            return names, True, str(error)
        return names, result.is_error, result.text

found = {}
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    server = getattr(module, "outer", module.server)
    found[name] = [asyncio.run(ask_theirs(server)), asyncio.run(ask_ours(server))]
print(json.dumps(found))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, (text, _) in GUARDED.items():
        (tmp_path / f"{name}.py").write_text(text)
    for name, text in PLAIN.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run(*COMMAND, *words, text=True, timeout=TIMEOUT_S)


def test_the_same_tools_are_visible_and_callable_as_under_their_library(folder: Path) -> None:
    names = sorted({*GUARDED, *PLAIN} - {*AUTHENTICATED})
    done = subprocess.run(
        [TOOLCRIB[0], "-W", "ignore", "-c", COMPARE, *names],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    for name, (theirs, ours) in json.loads(done.stdout.splitlines()[-1]).items():
        assert ours[0] == theirs[0], name
        if ours[0]:  # toolcrib calls nothing that is not listed
            assert ours[1] == theirs[1], name
        assert ("the secret" in ours[2]) == (name == "fast_library_middleware"), name


def test_list_says_what_comes_between(folder: Path) -> None:
    listed = json.loads(run("list", str(folder), "--json").stdout)
    said = [finding["message"] for finding in listed["findings"]]
    for name, (_, words) in GUARDED.items():
        assert any(words in text for text in said), name


@pytest.mark.parametrize("name", AUTHENTICATED)
def test_a_server_that_authenticates_its_callers_is_refused(folder: Path, name: str) -> None:
    file = folder / f"{name}.py"
    lines = file.read_text().splitlines()
    made = next(number for number, line in enumerate(lines, 1) if line.startswith("server = "))

    (finding,) = json.loads(run("list", str(file), "--json").stdout)["findings"]

    assert (finding["file"], finding["line"]) == (str(file), made)
    assert "[auth] of toolcrib" in finding["hint"]
    assert GUARDED[name][1] in finding["message"]


def test_serve_calls_nothing_past_a_guard(folder: Path) -> None:
    with Serving(str(folder / "fast_mounted.py")) as serving:
        assert serving.names() == ["inner_secret"]
        assert serving.call("inner_secret") == "not for you"
