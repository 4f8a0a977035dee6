# ruff: noqa: E501 - programs in one line each are long
"""Ways to write down a tool, one by one: what is found, and what is said to be a guess."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from toolcrib.sources.scan import Scan, scan

HEAD = "from toolcrib import Application, MCPServer, Tool, ToolRegistry, tool\nserver = MCPServer('s')\n"
F = "def f(a: int) -> int:\n    '''Words.'''\n    return a\n"
CASES = {
    "a wrapper that nobody knows": (
        f"from elsewhere import retry\n{F}server.add(retry(f))\n",
        ["f"],
        set(),
    ),
    "a wrapper out of a factory that nobody knows": (
        f"from elsewhere import retry\n{F}server.tool()(retry('x')(f))\n",
        ["f"],
        set(),
    ),
    "a lambda": ("server.add(lambda a: a, name='x')\n", [], {"unresolved-tool"}),
    "a partial": (
        f"from functools import partial\n{F}server.add(partial(f, a=1), name='x')\n",
        [],
        {"unresolved-tool"},
    ),
    "a local name that is certain": (
        f"{F}def register(s, name='a', *, title='T'):\n    s.add(f, name=name, title=title)\n"
        "register(server)\nregister(server, 'b', title='U')\n",
        ["f"],
        {"unresolved-option"},
    ),
    "a loop inside a function": (
        f"{F}def register(s):\n    for name in ('a', 'b'):\n        s.tool(name=name)(f)\nregister(server)\n",
        ["f"],
        {"guessed-condition", "unresolved-option"},
    ),
    "places that are passed on": (
        f"{F}def put(*functions):\n    for fn in functions:\n        server.add(fn)\nput(f)\n",
        [],
        {"guessed-condition", "unresolved-tool"},
    ),
    "both sides of a condition": (
        "import os\nif os.sep == '/':\n    @tool\n    def g(a: int):\n        '''One.'''\nelse:\n"
        "    @tool\n    def g(a: str):\n        '''Other.'''\n",
        ["g"],
        {"guessed-condition"},
    ),
    "a class that registers its methods": (
        "class Desk:\n    def __init__(self, s):\n        self.s = s\n        self._register()\n"
        "    def _register(self):\n        self.s.add(self.work)\n"
        "    def work(self, a: int) -> int:\n        '''Work.'''\n        return a\nDesk(server)\n",
        ["work"],
        set(),
    ),
    "a server of a class of one's own": (
        f"class Mine(MCPServer):\n    pass\nmine = Mine('m')\n{F}mine.add(f)\n",
        ["f"],
        set(),
    ),
    "tools that are taken back": (
        f"{F}server.add(f)\nserver.add(f, name='gone')\nserver.registry.remove('gone')\n",
        ["f", "gone"],
        {"guessed-server"},
    ),
    "an option that is no option": (
        "@tool(nmae='x')\ndef g(a: int):\n    '''Words.'''\n",
        ["g"],
        {"invalid-tool"},
    ),
    "a method without its object": (
        "class A:\n    @server.tool\n    def m(self, a: int):\n        '''Words.'''\n",
        [],
        {"invalid-signature"},
    ),
    "a list that holds itself": (
        "TOOL_DEFINITIONS = []\nTOOL_DEFINITIONS.append(TOOL_DEFINITIONS)\nTOOL_DEFINITIONS += TOOL_DEFINITIONS\n",
        [],
        {"guessed-table"},
    ),
    "a table of handlers that is none": (
        "TOOL_HANDLERS = 3\n@tool\ndef g(a: int):\n    '''Words.'''\n",
        ["g"],
        {"table-mismatch"},
    ),
    "strings among the tools of an application": (
        "class A(Application):\n    def list_tools(self):\n        return ['x', self.m]\n"
        "    def m(self) -> int:\n        '''Words.'''\n        return 1\n",
        ["m"],
        {"guessed-list"},
    ),
    "a thousand parameters": (
        f"@tool\ndef g({', '.join(f'a{n}' for n in range(1000))}):\n    '''Words.'''\n",
        [],
        {"invalid-signature"},
    ),
    "a namespace that is computed": (
        "class A(Application):\n    namespace = compute()\n    @tool\n    def m(self) -> int:\n        '''Words.'''\n"
        "        return 1\n",
        ["m"],
        {"guessed-name"},
    ),
    "a class with its own word for its tools": (
        "from elsewhere import Base\nclass A(Base):\n    @tool\n    def m(self) -> int:\n        '''Words.'''\n"
        "        return 1\n",
        ["m"],
        {"guessed-base"},
    ),
}


def scanned(tmp_path: Path, text: str) -> Scan:
    path = tmp_path / "written.py"
    path.write_text(dedent(text))
    return scan(path)


@pytest.mark.parametrize("case", CASES)
def test_a_way_to_write_it(case: str, tmp_path: Path) -> None:
    text, names, codes = CASES[case]
    found = scanned(tmp_path, HEAD + text)
    assert [tool.name for tool in found.tools] == names
    assert {finding.code for finding in found.findings} == codes


def test_an_unknown_server_keeps_to_the_rules_of_what_is_imported_beside_it(tmp_path: Path) -> None:
    body = "@app.tool()\nasync def g(a: int, ctx: Context) -> int:\n    '''Words.'''\n    return a\n"
    found = scanned(tmp_path, f"from elsewhere import app\nfrom mcp.server.fastmcp import Context\n{body}")
    assert list(found.tools[0].definition.input_schema["properties"]) == ["a"]
    said = "@app.tool('x', 'Words.', {'type': 'object', 'properties': {}})\ndef g(arguments): ...\n"
    found = scanned(tmp_path, f"from elsewhere import app\n{said}")
    assert found.tools[0].name == "x"
    assert found.tools[0].definition.input_schema == {"type": "object", "properties": {}}


def test_a_condition_is_one_finding_at_its_line(tmp_path: Path) -> None:
    text = "import os\nif os.environ.get('X'):\n"
    text += "".join(f"    @tool\n    def {name}(a: int):\n        '''Words.'''\n" for name in "gh")
    (finding,) = scanned(tmp_path, HEAD + text).findings
    assert finding.message == "What is registered here depends on `os.environ.get('X')`"
    assert (finding.level, finding.line, finding.tool) == ("advice", 4, None)


def test_two_servers_of_other_libraries_keep_their_own_rule_for_one_name_twice(tmp_path: Path) -> None:
    twice = "@m.tool(name='x')\ndef first(): '''First.'''\n@m.tool(name='x')\ndef second(): '''Second.'''\n"
    for head, words in (("mcp.server", "First"), ("fastmcp", "Second")):
        found = scanned(tmp_path, f"from {head} import FastMCP\nm = FastMCP('m')\n{twice}")
        assert [tool.definition.description for tool in found.tools] == [words]
        assert [finding.code for finding in found.findings] == ["duplicate-name"]


@pytest.mark.parametrize("library", ["mcp.server.fastmcp", "fastmcp", "toolcrib"])
def test_a_registration_that_two_modules_reach_is_no_duplicate(tmp_path: Path, library: str) -> None:
    server = "MCPServer" if library == "toolcrib" else "FastMCP"
    (tmp_path / "tools.py").write_text(
        "def register(mcp):\n    @mcp.tool()\n    def find(a: int) -> int:\n        '''Find it.'''\n        return a\n"
    )
    (tmp_path / "app.py").write_text(f"from {library} import {server}\nmcp = {server}('x')\n")
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(
            "from app import mcp\nfrom tools import register\nregister(mcp)\n"
        )
    found = scan(tmp_path)
    assert [tool.name for tool in found.tools] == ["find"]
    assert not found.findings


@pytest.mark.parametrize(
    "own",
    [
        "def tool(context=None):\n    return lambda f: f\n@tool(context='x')\n",
        "def tool(f):\n    TOOLS.append(f)\n    return f\nTOOLS = []\n@tool\n",
        "from .elsewhere import *\n@tool(context='x')\n",
        "def register_tool(name):\n    return lambda g: server.tool(g, name=name)\n@register_tool('f')\n",
        "def later(f):\n    server.tool(f)\n    return f\n@later\n",
    ],
)
@pytest.mark.parametrize("library", ["fastmcp import FastMCP", "toolcrib import MCPServer"])
def test_a_decorator_that_the_author_wrote_registers(tmp_path: Path, own: str, library: str) -> None:
    head = f"from {library} as Server\nserver = Server('x')\n"
    found = scanned(tmp_path, f"{head}{own}def f(a: int):\n    '''Words.'''\n")
    assert [tool.name for tool in found.tools] == ["f"]
    assert not found.findings


def test_a_decorator_that_only_wraps_registers_nothing(tmp_path: Path) -> None:
    text = "import functools\nfrom fastmcp import FastMCP\nmcp = FastMCP('x')\ndef log_tool(f):\n"
    text += "    @functools.wraps(f)\n    def inner(*args):\n        return f(*args)\n    return inner\n"
    text += "@log_tool\ndef g(a: int):\n    '''Words.'''\n@mcp.tool()\n@log_tool\ndef h(a: int):\n    '''Words.'''\n"
    assert [tool.name for tool in scanned(tmp_path, text).tools] == ["h"]


@pytest.mark.parametrize(
    "text", ["from smolagents import tool\n@tool\n", "import pydantic_ai\na = pydantic_ai.Agent()\n@a.tool\n"]
)
def test_a_decorator_of_a_library_for_something_else_is_one_finding(tmp_path: Path, text: str) -> None:
    decorator = text.splitlines()[-1]
    text += f"def f(a: int):\n    '''Words.'''\n{decorator}\ndef g(a: int):\n    '''Words.'''\n"
    found = scanned(tmp_path, f"from toolcrib import MCPServer\n{text}")
    assert not found.tools
    assert [finding.code for finding in found.findings] == ["other-decorator"]


def test_the_decorator_of_fastmcp_gives_its_options_to_add_tool(tmp_path: Path) -> None:
    text = "from fastmcp import FastMCP\nfrom fastmcp.tools import tool\n@tool(name='find', tags={'x'})\n"
    text += "def f(a: int) -> int:\n    '''Find it.'''\n    return a\n"
    (lone,) = scanned(tmp_path, text).tools
    found = scanned(tmp_path, f"{text}mcp = FastMCP('x')\nmcp.add_tool(f)\n")
    assert [tool.name for tool in found.tools] == [lone.name] == ["find"]
    assert not found.findings


def test_two_servers_of_one_class_keep_their_tools_and_prefixes(tmp_path: Path) -> None:
    text = "from fastmcp import FastMCP\nclass Own(FastMCP):\n    def tool(self, name=None, **more):\n"
    text += "        return super().tool(wrapped(name), **more)\nmain = Own('main')\n"
    for name in ("one", "two"):
        text += (
            f"{name} = Own('{name}')\nmain.mount({name}, namespace='{name}')\n@{name}.tool(tags={{'x'}})\n"
        )
        text += f"def find_{name}(a: int) -> int:\n    '''Find it.'''\n    return a\n"
    found = scanned(tmp_path, text)
    assert [tool.name for tool in found.tools] == ["one_find_one", "two_find_two"]
    assert sorted(found.servers.values()) == ["one", "two"]
    assert not found.findings


def test_tools_are_made_by_subclasses_of_the_class_for_tools(tmp_path: Path) -> None:
    text = "from fastmcp import FastMCP\nfrom fastmcp.tools import FunctionTool\nmcp = FastMCP('x')\n"
    text += "class Own(FunctionTool):\n    extra: int = 3\ndef f(a: int) -> int:\n    '''Words.'''\n    return a\n"
    found = scanned(tmp_path, f"{text}mcp.add_tool(Own.from_function(f, name='find'))\n")
    assert [tool.name for tool in found.tools] == ["find"]
    assert not found.findings


def test_a_part_of_a_record_that_mcp_does_not_have_is_left_out(tmp_path: Path) -> None:
    tool = "types.Tool(name='find', inputSchema={'type': 'object'}, handler=make())"
    found = scanned(tmp_path, f"from mcp import types\nTOOLS = [{tool}]\n")
    assert [tool.name for tool in found.tools] == ["find"]
    assert not found.findings


def test_a_wrapper_of_a_function_that_is_not_known_is_not_refused(tmp_path: Path) -> None:
    text = "import functools\nfrom fastmcp import FastMCP\nmcp = FastMCP('x')\ndef put(f):\n    @mcp.tool()\n"
    text += "    @functools.wraps(f)\n    def wrapper(*args, **kwargs):\n        return f(*args, **kwargs)\n"
    assert not scanned(tmp_path, text).errors


def test_tests_are_left_out_of_a_folder_unless_they_are_named(tmp_path: Path) -> None:
    text = f"{HEAD}@tool\ndef NAME(a: int) -> int:\n    '''Words.'''\n    return a\n"
    paths = ("app", "conftest", "test_app", "app_test", "test_link", "tests/server")
    for path in paths:
        file = tmp_path / f"{path}.py"
        file.parent.mkdir(exist_ok=True)
        checks = "" if path in ("test_link", "tests/server") else "def test_it():\n    assert True\n"
        file.write_text(text.replace("NAME", path.replace("/", "_")) + checks.replace("test_it", "check_it"))
    (tmp_path / "app.py").write_text(text.replace("NAME", "app"))
    assert {tool.name for tool in scan(tmp_path).tools} == {"app", "test_link"}
    assert {tool.name for tool in scan(tmp_path / "tests", tmp_path / "test_app.py").tools} == {
        "tests_server",
        "test_app",
    }
