"""Programs that start a server of another library are run, and the server that they start is served."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.system import fork_server
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import collect
from toolcrib.cli import app
from toolcrib.client import Client, StdioTransport
from toolcrib.errors import SourceError
from toolcrib.sources.foreign import program

MCP = "from mcp.server.mcpserver import MCPServer as Server\n"
FAST = "from fastmcp import FastMCP as Server\n"
OWN = "from toolcrib import MCPServer as Server\n"
MAKE = """
import asyncio, sys

def make():
    server = Server("greeter")

    @server.tool()
    def greet(name: str) -> str:
        "Greet a person by name."
        return " ".join(["hello", name, *sys.argv[1:]])

    return server

"""
GUARD = 'if __name__ == "__main__":\n    '
LOW_LEVEL = """
import asyncio, sys
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

class Database:
    async def __aenter__(self):
        self.loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_):
        print("database closed")

    def greet(self, name):
        where = "here" if self.loop is asyncio.get_running_loop() else "elsewhere"
        return " ".join(["hello", name, where, *sys.argv[1:]])

async def serve():
    async with Database() as database:
        async def list_tools(context, params):
            schema = {"type": "object", "properties": {"name": {"type": "string"}}}
            return types.ListToolsResult(tools=[types.Tool(name="greet", input_schema=schema)])

        async def call_tool(context, params):
            text = database.greet(params.arguments["name"])
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

        server = Server("greeter", on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

def main():
    asyncio.run(serve())

if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with forgotten_imports(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others warn of is theirs
        yield


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def greet(target: str | Path, *arguments: str) -> str:
    """Call the tool of a target as a user would, and return what it says."""
    called = run("call", "-t", target, "greet", "name=Ann", "--", *arguments)
    assert called.exit_code == 0, called.stderr
    return called.stdout.strip()


# --- how a server is started -------------------------------------------------------------------------

STARTS = {
    "in main": "def main():\n    make().run()\n" + GUARD + "main()",
    "without a guard": "make().run()",
    "by its transport": GUARD + "make().run(transport='sse')",
    "over HTTP": GUARD + "make().run('streamable-http')",
    "in a class": "class App:\n    def start(self):\n        make().run()\n" + GUARD + "App().start()",
    "on a loop": "async def main():\n    await make().run_stdio_async()\n" + GUARD + "asyncio.run(main())",
    "on the loop of the thread": GUARD
    + "asyncio.get_event_loop().run_until_complete(make().run_stdio_async())",
    "on a thread": "import threading\n"
    + GUARD
    + "thread = threading.Thread(target=make().run)\n    thread.start()\n    thread.join()",
}
UVICORN = (
    "import uvicorn\n" + GUARD + "uvicorn.run(make().{app}(), port=1)",
    "import uvicorn\nasync def main():\n"
    "    await uvicorn.Server(uvicorn.Config(make().{app}(), port=1)).serve()\n"
    + GUARD
    + "asyncio.run(main())",
    "import uvicorn\nif __name__ != '__main__':\n    app = make().{app}()\n"
    "else:\n    uvicorn.run('greeter:app', port=1)",
    "import uvicorn\n" + GUARD + "uvicorn.run(lambda: make().{app}(), factory=True, port=1)",
)


@pytest.mark.parametrize("library", [MCP, FAST], ids=["mcp", "fastmcp"])
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_server_is_served_wherever_its_program_starts_it(tmp_path: Path, library: str, start: str) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(library + MAKE + start + "\n")

    assert greet(file, "--loud", "x") == "hello Ann --loud x"


@pytest.mark.parametrize(("library", "app"), [(MCP, "streamable_http_app"), (FAST, "http_app")])
@pytest.mark.parametrize("start", UVICORN, ids=["run", "serve", "by name", "factory"])
def test_a_server_is_served_whose_application_is_given_to_uvicorn(
    tmp_path: Path, library: str, app: str, start: str
) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(library + MAKE + start.format(app=app) + "\n")

    assert greet(file) == "hello Ann"


HTTP_LOW_LEVEL = """
import mcp_types as types, uvicorn
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount

async def list_tools(context, params):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="greet", input_schema=schema)])

async def call_tool(context, params):
    text = "hello " + params.arguments["name"]
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

server = Server("greeter", on_list_tools=list_tools, on_call_tool=call_tool)

def main():
    manager = StreamableHTTPSessionManager(app=server)

    async def check_first(scope, receive, send):
        await manager.handle_request(scope, receive, send)

    uvicorn.run(Starlette(routes=[Mount("/mcp", app={app})]), port=1)

"""


def test_a_low_level_server_over_http_is_served(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(HTTP_LOW_LEVEL.replace("{app}", "manager.handle_request") + GUARD + "main()\n")

    assert greet(file) == "hello Ann"


@pytest.mark.parametrize(
    "name",
    ["main", "begin", "make", "make_later", "command"],
    ids=["starts it", "calls one that starts it", "returns it", "returns it later", "a command of click"],
)
def test_a_function_that_makes_or_starts_a_server_is_called(tmp_path: Path, name: str) -> None:
    more = """
import click

def main():
    make().run()

def begin():
    main()

async def make_later() -> "Server":
    return make()

@click.command()
@click.option("--loud", is_flag=True)
def command(loud):
    make().run()
"""
    file = tmp_path / "greeter.py"
    file.write_text(MCP + MAKE + more)

    assert greet(f"{file}:{name}", "--loud") == "hello Ann --loud"


def test_a_function_that_makes_a_server_from_arguments_is_not_served_as_a_tool(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(MCP + "def create_server(config):\n    return Server(config)\n")

    named, unnamed = run("list", f"{file}:create_server"), run("list", file)

    assert (named.exit_code, unnamed.exit_code) == (1, 1)
    assert "create_server cannot be called without arguments" in named.stderr
    assert "name the file that starts the server" in named.stderr
    assert "make it in a function without arguments" in unnamed.stderr


def test_a_package_is_run_by_its_main_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "greeting/__init__.py": "",
        "greeting/__main__.py": "from .start import begin\nbegin()\n",
        "greeting/start.py": MCP + MAKE + "def begin():\n    make().run()\n",
    }
    monkeypatch.chdir(write(tmp_path, files))

    assert greet("greeting", "a") == "hello Ann a"
    assert greet("./greeting", "b") == "hello Ann b"


def test_a_console_script_is_run_by_its_name_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "greeter_package.py": MCP + MAKE + "def begin():\n    make().run()\n",
        "greeter_package-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n",
        "greeter_package-1.0.dist-info/entry_points.txt": "[console_scripts]\n"
        "greet-people = greeter_package:begin\n",
    }
    monkeypatch.syspath_prepend(write(tmp_path, files))

    assert greet("greet-people", "--now") == "hello Ann --now"
    monkeypatch.setattr(program, "_scripts_folder", lambda: tmp_path / "bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/greet-people").write_text("#!/usr/bin/python\nimport greeter_package\n")
    (tmp_path / "greet-people").write_text("#!/usr/bin/python\nimport greeter_package\n")
    assert greet(tmp_path / "bin/greet-people", "--path") == "hello Ann --path"
    refused = run("list", tmp_path / "greet-people")
    assert "is not a console script of this Python environment" in refused.stderr
    assert "There is no file, module or command 'greet-cats'" in run("list", "greet-cats").stderr


# --- what is not run ---------------------------------------------------------------------------------


def test_a_server_that_nothing_starts_is_taken_from_the_module(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(FAST + MAKE + "server = make()\n" + GUARD + "print('use fastmcp run')\n")

    assert greet(file) == "hello Ann"


def test_a_program_of_toolcrib_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    make = "from toolcrib import MCPServer\nserver = MCPServer('own')\n"
    tool = "@server.tool\ndef greet(name: str) -> str:\n    return 'hi ' + name\n"
    file.write_text(make + tool + GUARD + "raise SystemExit('run')\n")

    assert greet(file) == "hi Ann"


def test_adding_a_file_in_python_runs_no_program(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(MCP + MAKE + "def main():\n    make().run()\n" + GUARD + "raise SystemExit('run')\n")

    assert collect(str(file)).tools == []
    with pytest.raises(SourceError, match="makes or starts a server; it is not called here"):
        collect(f"{file}:make")


# --- what goes wrong ---------------------------------------------------------------------------------


def test_arguments_that_are_missing_are_shown_as_the_program_shows_them(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    parse = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--city', required=True)\n"
    )
    file.write_text(MCP + MAKE + parse + GUARD + "parser.parse_args()\n    make().run()\n")

    listed = run("list", file)

    assert listed.exit_code == 1
    assert "the following arguments are required: --city" in listed.stderr
    assert "The program exited with code 2 before it started a server" in listed.stderr
    assert f"give its arguments after --: toolcrib serve {file} -- ARGUMENTS" in listed.stderr
    assert greet(file, "--city", "Rome") == "hello Ann --city Rome"


def test_an_exception_before_the_start_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(MCP + "def main():\n    raise KeyError('API_KEY')\n" + GUARD + "main()\n")

    listed = run("list", file)

    assert listed.exit_code == 1
    assert "greeter.py:3: greeter.py cannot be run: KeyError: 'API_KEY'" in listed.stderr


COMMAND = """
import click

@click.command()
@click.option("--db", required=True)
def start(db):
    server = make()
    open(db)
    server.run()
"""


def test_an_exception_in_a_command_is_reported_with_the_line_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(MCP + MAKE + COMMAND)

    failed = run("list", f"{file}:start", "--", "--db", str(tmp_path / "nowhere"))
    refused = run("list", f"{file}:start")

    assert "greeter.py:22: greeter.py cannot be run: FileNotFoundError" in failed.stderr
    assert "core.py" not in failed.stderr + refused.stderr
    assert "greeter.py: The program exited with code 2" in refused.stderr


def test_a_function_that_starts_nothing_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(MCP + MAKE + "def main():\n    make()\n")

    assert "The program ended without starting a server" in run("list", f"{file}:main").stderr


def test_a_program_that_starts_no_server_in_time_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "START_S", 0.2)
    file = tmp_path / "greeter.py"
    file.write_text(MCP + "import threading\n" + GUARD + "threading.Event().wait()\n")

    assert "The program did not start a server within 0.2 s" in run("list", file).stderr


# --- the process -------------------------------------------------------------------------------------


def test_the_program_ends_as_after_its_own_run_and_leaves_no_trace(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    end = "try:\n        make().run()\n    finally:\n        print('cleaned up')\n        sys.exit(3)\n"
    file.write_text(MCP + MAKE + GUARD + end)
    before = sys.argv, sys.modules["__main__"], sys.stdin

    listed = run("list", file)

    assert listed.exit_code == 0
    assert "cleaned up" not in listed.stdout
    assert "cleaned up" in listed.stderr
    assert (sys.argv, sys.modules["__main__"], sys.stdin) == before


def test_tools_see_the_context_variables_of_the_program(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    variables = """
from contextvars import ContextVar
greeting = ContextVar("greeting", default="none")
server = Server("greeter")

@server.tool()
async def greet(name: str) -> str:
    "Greet a person by name."
    return f"{greeting.get()} {name}"

def main():
    greeting.set("hello")
    server.run()

"""
    file.write_text(MCP + variables + GUARD + "main()\n")

    assert greet(file) == "hello Ann"


def test_a_process_serves_the_program_on_stdio_with_its_arguments(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(LOW_LEVEL.replace("async def serve():", "async def serve():\n    print('noise')"))
    words = ("-m", "toolcrib", "serve", "--stdio", str(file), "--", "v1")
    command = fork_server.command_of(*words, libraries=True)
    errors: list[str] = []

    async def use() -> tuple[list[str], str]:
        async with Client(StdioTransport(command, on_stderr=errors.append), timeout_s=60) as client:
            names = [tool.name for tool in await client.list_tools()]
            return names, (await client.call("greet", {"name": "Ann"})).text

    assert asyncio.run(use()) == (["greet"], "hello Ann here v1")
    assert "".join(errors).split("\n")[:2] == ["noise", "database closed"]


@pytest.mark.parametrize("library", [OWN, pytest.param(MCP, marks=pytest.mark.long)], ids=["toolcrib", "mcp"])
def test_workers_run_the_program_each_and_end_it(tmp_path: Path, library: str) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(
        library + MAKE + GUARD + "try:\n        make().run()\n    finally:\n        print('cleaned up')\n"
    )
    command = [sys.executable, "-W", "ignore", "-m", "toolcrib", "serve", str(file)]
    command += ["--port", "0", "--json", "--workers", "2", "--", "v1"]
    pipe = subprocess.PIPE

    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        called = run("call", "-t", ready["address"], "greet", "name=Ann")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert ready["tools"] == ["greet"]
    assert called.stdout.strip() == "hello Ann v1"
    assert (process.returncode, errors.count("cleaned up")) == (0, 2)


def test_a_server_of_toolcrib_that_is_built_in_a_function_is_served_with_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    text = """
from toolcrib import MCPServer

def main():
    server = MCPServer("own")

    @server.tool
    def greet(name: str) -> str:
        return "hi " + name

    server.run()

if __name__ == "__main__":
    main()
"""
    file.write_text(text)

    assert greet(file) == "hi Ann"
    assert greet(f"{file}:main") == "hi Ann"


def test_arguments_of_a_program_can_be_in_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = '[server]\ntargets = ["greeter.py"]\narguments = ["--city", "Rome"]\n'
    files = {"greeter.py": MCP + MAKE + GUARD + "make().run()\n", "toolcrib.toml": settings}
    monkeypatch.chdir(write(tmp_path, files))

    assert run("call", "greet", "name=Ann").stdout.strip() == "hello Ann --city Rome"
    assert run("call", "greet", "name=Ann", "--", "--city", "Oslo").stdout.strip() == "hello Ann --city Oslo"


def test_arguments_that_no_program_gets_are_reported(tmp_path: Path) -> None:
    checked = run("check", "toolcrib.samples", "--", "--loud")

    assert "no target is a program that starts a server" in checked.stdout


def test_connect_keeps_the_arguments_of_the_program(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(MCP)

    printed = json.loads(run("connect", "cursor", file, "--print", "--json", "--", "--city", "Rome").stdout)

    assert printed["entry"]["args"][-4:] == [str(file), "--", "--city", "Rome"]


RELOADED = (
    MCP + MAKE + GUARD + "try:\n        make().run()\n    finally:\n        print('ended', *sys.argv[1:])\n"
)


@pytest.mark.parametrize(
    "text",
    [RELOADED, pytest.param(LOW_LEVEL.replace("database closed", "ended v1"), marks=pytest.mark.long)],
    ids=["high_level", "low_level"],
)
def test_a_program_that_changes_is_started_again_and_the_old_one_ended(tmp_path: Path, text: str) -> None:
    file = tmp_path / "greeter.py"
    file.write_text(text)
    words = ("-m", "toolcrib", "serve", str(file), "--port", "0", "--json", "--reload", "--", "v1")
    pipe = subprocess.PIPE

    with fork_server.launch(*words, stdout=pipe, stderr=pipe, text=True, libraries=True) as process:
        address = json.loads(process.stdout.readline())["address"]
        file.write_text(text.replace('"hello"', '"welcome"'))
        seen = []
        while "ended v1" not in "".join(seen):
            seen.append(process.stderr.readline())
        called = run("call", "-t", address, "greet", "name=Ann")
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)

    assert called.stdout.startswith("welcome Ann")
    assert rest.count("ended v1") == 1
    assert process.returncode == 0
