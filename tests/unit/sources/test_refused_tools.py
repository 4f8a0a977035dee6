"""A function that cannot be a tool hides no other tool of its file, whatever its decorator."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from toolcrib import DefinitionError, MCPServer

OWN = "from toolcrib import MCPServer\n"
SDK = "from mcp.server.mcpserver import MCPServer\n"
FAST = "from fastmcp import FastMCP as MCPServer\n"
TOOLS = """
class Opaque:
    pass


server = MCPServer("shop")


@server.tool()
def find(name: str) -> str:
    return name


@server.tool(name="chosen")
def refused({parameters}) -> str:
    return ""


@server.tool()
def count(name: str) -> int:
    return 1
"""


def write(folder: Path, text: str, name: str = "shop_of_three.py") -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


@pytest.mark.parametrize(
    ("library", "parameters", "words"),
    [
        (OWN, "*args: int", "Tool 'chosen' takes *args, which no schema can describe"),
        (SDK, "a: Opaque", "Tool 'refused' is refused by mcp: "),
        (FAST, "*args: int", "Tool 'refused' is refused by fastmcp: Functions with *args are not supported"),
    ],
)
def test_the_other_tools_of_a_file_are_registered(
    tmp_path: Path, library: str, parameters: str, words: str
) -> None:
    path = write(tmp_path, library + TOOLS.format(parameters=parameters))
    server = MCPServer("all")
    report = server.add(str(path))
    assert [tool.name for tool in server.registry] == ["find", "count"]
    [error] = report.errors
    assert error.message.startswith(words)
    assert (error.file, error.line) == (str(path), 15)
    with pytest.raises(DefinitionError):
        MCPServer("strict").add(str(path), strict=True)


def test_a_name_that_is_taken_or_not_permitted_is_reported(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        from toolcrib import MCPServer

        server = MCPServer("shop")

        @server.tool
        def find(name: str) -> str:
            return name

        @server.tool("find")
        def again(name: str) -> str:
            return name

        @server.tool("not a name!")
        def odd(name: str) -> str:
            return name
        """,
        "shop_of_two_names.py",
    )
    report = MCPServer("all").add(str(path))
    assert [tool.name for tool in report.registered] == ["find"]
    assert [(error.code, error.line) for error in report.errors] == [
        ("duplicate-name", 10),
        ("invalid-name", 14),
    ]


def test_other_files_of_a_folder_are_registered_too(tmp_path: Path) -> None:
    write(tmp_path, OWN + TOOLS.format(parameters="*args: int"), "shop_of_folder.py")
    write(tmp_path, "from toolcrib import tool\n@tool\ndef extra() -> int: ...\n", "shop_of_more.py")
    report = MCPServer("all").add(str(tmp_path))
    assert [tool.name for tool in report.registered] == ["find", "count", "extra"]
    assert [error.code for error in report.errors] == ["invalid-signature"]


def test_without_a_file_in_between_the_decorator_raises() -> None:
    server = MCPServer("shop")
    with pytest.raises(DefinitionError, match=r"takes \*args"):

        @server.tool
        def refused(*args: int) -> str:
            return ""
