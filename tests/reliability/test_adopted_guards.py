"""Servers of other libraries that check calls themselves: refused, because toolcrib would serve their tools
without the checks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.serve_process import TIMEOUT_S, TOOLCRIB, Serving

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
        f"{SDK}async def watch(ctx, call_next):\n    {BODY}\n"
        f"server = MCPServer('x', middleware=[watch])\n{TOOL}",
        "middleware of adopted servers (watch)",
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
        f"{FAST}class Watch(Middleware):\n    async def on_call_tool(self, *args):\n        {BODY}\n"
        f"server = FastMCP('x')\nserver.add_middleware(Watch())\n{TOOL}",
        "middleware of adopted servers (Watch)",
    ),
    "fast_library_middleware": (
        f"{FAST}server = FastMCP('x', middleware=[TimingMiddleware()])\n{TOOL}",
        "toolcrib does not run the middleware of adopted servers (TimingMiddleware)",
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
        f"{FAST}class Watch(Middleware):\n    async def on_call_tool(self, *args):\n        {BODY}\n"
        f"server = FastMCP('x', middleware=[Watch()])\n{TOOL}{MOUNTED}",
        "middleware of adopted servers (Watch)",
    ),
}
PLAIN = {
    "sdk_plain": f"{SDK}class Own(MCPServer):\n    def __init__(self):\n        super().__init__('x')\n"
    f"    def run(self, *args, **kwargs):\n        return super().run(*args, **kwargs)\n"
    f"server = Own()\n{OPEN.replace('NAME', 'sdk_open')}",
    "fast_plain": f"{FAST}server = FastMCP('x')\n{OPEN.replace('NAME', 'fast_open')}{MOUNTED}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, (text, _) in GUARDED.items():
        (tmp_path / f"{name}.py").write_text(text)
    for name, text in PLAIN.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TOOLCRIB, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_list_leaves_out_every_server_with_a_guard_and_says_why(folder: Path) -> None:
    listed = run("list", str(folder), "--json")

    assert {tool["name"] for tool in json.loads(listed.stdout)["tools"]} == {"sdk_open", "inner_fast_open"}
    for name, (_, words) in GUARDED.items():
        assert words in listed.stdout, name


@pytest.mark.parametrize("name", ["sdk_calls", "fast_middleware"])
def test_check_fails_and_names_the_guard(folder: Path, name: str) -> None:
    checked = run("check", str(folder / f"{name}.py"))

    said = checked.stdout + checked.stderr
    assert checked.returncode == 1
    assert GUARDED[name][1] in said
    assert "run it with its own library" in said


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fast_library_middleware", "toolcrib logs and times calls itself"),
        ("fast_auth", "[auth] of toolcrib"),
        ("sdk_auth", "[auth] of toolcrib"),
    ],
)
def test_a_refusal_points_at_the_line_that_makes_the_server(folder: Path, name: str, hint: str) -> None:
    file = folder / f"{name}.py"
    lines = file.read_text().splitlines()
    made = next(number for number, line in enumerate(lines, 1) if line.startswith("server = "))

    (finding,) = json.loads(run("list", str(file), "--json").stdout)["findings"]

    assert (finding["file"], finding["line"]) == (str(file), made)
    assert hint in finding["hint"]


def test_serve_serves_the_others_and_calls_nothing_behind_a_guard(folder: Path) -> None:
    with Serving(str(folder)) as serving:
        assert set(serving.names()) == {"sdk_open", "inner_fast_open"}
        assert serving.call("sdk_open") == "open to all"


def test_add_raises_with_the_reason(folder: Path) -> None:
    code = (
        "import importlib, sys\n"
        "from toolcrib import MCPServer\n"
        "from toolcrib.errors import SourceError\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        f"for name in {sorted(GUARDED)!r}:\n"
        "    module = importlib.import_module(name)\n"
        "    ours = MCPServer('ours')\n"
        "    try:\n"
        "        ours.add(getattr(module, 'outer', module.server))\n"
        "    except SourceError as error:\n"
        "        print(name, error)\n"
        "    assert not list(ours.registry.entries()), name\n"
    )
    done = subprocess.run(
        [TOOLCRIB[0], "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for name, (_, words) in GUARDED.items():
        assert words in said[name]
