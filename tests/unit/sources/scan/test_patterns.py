"""Patterns of real servers: each tool is found, and what cannot be told is announced."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from toolcrib import Application, Tool
from toolcrib.sources import collect
from toolcrib.sources.scan import Scan, scan

SAMPLES = Path(__file__).parents[3] / "fixtures" / "scanned" / "patterns"
TOOL = '''
@{server}.tool()
def {name}(text: str) -> str:
    """Do {name}."""
    return text
'''


def lay(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__slash__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder


def names(found: Scan) -> list[str]:
    return sorted(tool.name for tool in found.tools)


def codes(found: Scan) -> set[str]:
    return {finding.code for finding in found.findings}


def schema(found: Scan, name: str) -> Any:
    return next(tool.definition.input_schema for tool in found.tools if tool.name == name)


# --- what belongs to which server --------------------------------------------------------------------


def test_equal_names_on_two_servers_are_both_kept_with_their_sources() -> None:
    found = scan(SAMPLES / "two_servers.py")
    assert [(tool.name, found.servers[id(tool)]) for tool in found.tools] == [
        ("search", "users"),
        ("search", "orders"),
    ]
    assert [tool.source.line for tool in found.tools] == [9, 15]
    assert not found.errors


# --- classes -----------------------------------------------------------------------------------------


def test_a_class_that_needs_arguments_is_read() -> None:
    found = scan(SAMPLES / "needing.py")
    assert names(found) == ["send_mail"]
    assert not found.findings


def test_a_method_with_keywords_takes_further_properties_in_the_scan_and_when_imported() -> None:
    class Shop(Application):
        def create_order(self, item: str, count: int = 1, **kwargs: Any) -> dict[str, Any]:
            """Create an order.

            Args:
                item: What to order
            """
            return {"item": item, "count": count, **kwargs}

        def list_tools(self) -> list[Any]:
            return [self.create_order]

    (tool,) = collect(Shop()).tools
    assert isinstance(tool, Tool)
    found = schema(scan(SAMPLES / "open_methods.py"), "create_order")
    assert found == tool.definition.input_schema
    assert found["additionalProperties"] is True
    assert found["required"] == ["item"]
    assert tool.arguments.check({"item": "a", "colour": "red"}) == {"item": "a", "colour": "red"}


def test_tools_that_a_server_class_registers_on_itself_are_found() -> None:
    found = scan(SAMPLES / "own_server.py")
    assert names(found) == ["close_desk", "open_desk", "ring", "ring_twice"]
    assert not found.findings


# --- low-level servers -------------------------------------------------------------------------------


def test_the_literal_list_of_a_low_level_server_is_read() -> None:
    found = scan(SAMPLES / "low_level.py")
    assert names(found) == ["convert_time", "get_time"]
    assert schema(found, "get_time")["required"] == ["zone"]
    assert schema(found, "convert_time")["properties"]["time"]["description"] == "Which time"
    assert not found.findings


LOW_LEVEL = """
from mcp.server import Server
from mcp.types import Tool
server = Server("x")

@server.list_tools()
async def handle_list() -> list[Tool]:
    {body}

@server.call_tool()
async def handle_call(name, arguments):
    return []
"""


def test_annotations_icons_and_meta_of_a_record_are_read(tmp_path: Path) -> None:
    more = (
        "annotations=ToolAnnotations(readOnlyHint=True), icons=[Icon(src='https://x/i.png')], _meta={'k': 1}"
    )
    body = f"return [Tool(name='shown', inputSchema={{'type': 'object'}}, {more})]"
    text = LOW_LEVEL.replace("import Tool\n", "import Icon, Tool, ToolAnnotations\n").format(body=body)
    made = scan(lay(tmp_path, server=text)).tools[0].definition
    assert (made.annotations, made.icons) == ({"readOnlyHint": True}, [{"src": "https://x/i.png"}])
    assert made.meta == {"k": 1}


@pytest.mark.parametrize(
    "body",
    ["return TOOLS", "return [make('x')]", "return [Tool(name=n, inputSchema={}) for n in NAMES]", "pass"],
)
def test_a_list_that_is_computed_is_announced(tmp_path: Path, body: str) -> None:
    found = scan(lay(tmp_path, server=LOW_LEVEL.format(body=body)))
    assert found.tools == []
    assert "guessed-list" in codes(found)


# --- functions that register -------------------------------------------------------------------------


RECORDS = """
from mcp import types
from mcp.types import Prompt, PromptArgument
NAME = "second"
def describe():
    return types.Tool(name="first", description="Is first.", inputSchema={"type": "object", "properties": {}})
def other(name):
    yield types.Tool(name=NAME, inputSchema=compute())
    yield types.Tool(name=name, inputSchema={})
    yield Prompt(name="plan a trip", arguments=[PromptArgument(name="to", required=True)])
class Tool:
    pass
MINE = Tool(name="third", description="Is third.", inputSchema={"type": "object", "properties": {"a": {}}})
LETTER = Tool(name="no tool")
"""


def test_records_with_a_name_are_listed_wherever_they_are_written(tmp_path: Path) -> None:
    found = scan(lay(tmp_path, server=RECORDS))
    assert names(found) == ["first", "second", "third"]
    assert [(item.code, item.tool, item.line) for item in found.findings] == [
        ("unresolved-tool", None, 9),
        ("unresolved-option", "second", 8),
    ]
    (prompt,) = found.features
    assert prompt.to_wire() == {
        "name": "plan a trip",
        "arguments": [{"name": "to", "required": True}],
    }


@pytest.mark.parametrize(
    "text",
    [
        "handlers = server.request_handlers\nserver.request_handlers[types.PingRequest] = other\n"
        "server.request_handlers[types.ListToolsRequest] = handle",
        "other = Server('y', on_list_tools=handle)",
    ],
)
def test_a_handler_that_is_set_is_looked_at_like_a_decorated_one(tmp_path: Path, text: str) -> None:
    head = "from mcp import types\nfrom mcp.server import Server\nserver = Server('x')\n"
    head += "async def other(request):\n    return load()\nasync def handle(request):\n"
    found = scan(lay(tmp_path, server=f"{head}    return types.ListToolsResult(tools=load())\n{text}\n"))
    assert [(finding.code, finding.line) for finding in found.findings] == [("guessed-list", 6)]


def test_a_mounted_server_gives_its_tools_a_prefix(tmp_path: Path) -> None:
    head = "from fastmcp import FastMCP\nfrom elsewhere import other\na, b = FastMCP('a'), FastMCP('b')\n"
    mounts = "a.mount(b, namespace='in')\na.mount(other)\n"
    found = scan(lay(tmp_path, server=head + TOOL.format(server="b", name="echo") + mounts))
    assert names(found) == ["in_echo"]
    assert [(finding.code, finding.line) for finding in found.findings] == [("guessed-server", 10)]


def test_anything_that_may_take_tools_back_is_one_finding(tmp_path: Path) -> None:
    head = "from fastmcp import FastMCP\nmcp = FastMCP('a')\n"
    found = scan(
        lay(tmp_path, server=head + TOOL.format(server="mcp", name="echo") + "mcp.remove_tool('echo')\n")
    )
    assert names(found) == ["echo"]
    assert [(finding.code, finding.line) for finding in found.findings] == [("guessed-server", 8)]


def test_registering_functions_of_other_modules_are_followed(tmp_path: Path) -> None:
    lay(
        tmp_path,
        desk__slash____init__="from .server import create as make\n",
        desk__slash__server="""
            from fastmcp import FastMCP
            from . import search
            from .notes import register as register_notes

            def create(name="desk"):
                mcp = FastMCP(name)
                search.register_tools(mcp)
                register_notes(mcp, prefix="my")
                return mcp

            mcp = create()
            """,
        desk__slash__search="""
            def register_tools(server):
                @server.tool
                def search(text: str) -> list[str]:
                    '''Search.'''
                    return []
            """,
        desk__slash__notes="""
            def register(mcp, prefix):
                @mcp.tool(name=f"{prefix}_note")
                def note(text: str) -> bool:
                    '''Take a note.'''
                    return True
            """,
    )
    found = scan(tmp_path / "desk")
    assert names(found) == ["note", "search"]
    assert codes(found) == {"unresolved-option"}  # the prefix of a name


# --- files -------------------------------------------------------------------------------------------


def test_relative_imports_of_a_package_file_are_followed(tmp_path: Path) -> None:
    lay(
        tmp_path,
        pack__slash____init__="from .server import mcp\nfrom . import tools\n"
        + TOOL.format(server="mcp", name="top"),
        pack__slash__server="from fastmcp import FastMCP\nmcp = FastMCP('x')\n",
        pack__slash__tools="from .server import mcp\n" + TOOL.format(server="mcp", name="below"),
    )
    for target in (tmp_path, tmp_path / "pack", tmp_path / "pack" / "__init__.py"):
        found = scan(target)
        assert names(found) == ["below", "top"], target
        assert not found.findings, target


@pytest.mark.parametrize(
    "text",
    ["return 3\n", "def f():\n    nonlocal x\n", "await g()\n", "for x in y:\n    pass\nbreak\n"],
)
def test_a_file_that_does_not_compile_is_a_finding_and_not_half_read(tmp_path: Path, text: str) -> None:
    head = "from toolcrib import tool\n@tool\ndef echo(a: int) -> int:\n    'Echo.'\n"
    found = scan(lay(tmp_path, broken=head + text))
    assert found.tools == []
    assert [finding.code for finding in found.findings] == ["unreadable-source"]
    assert found.findings[0].line


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there is no newer syntax yet")
def test_syntax_of_a_newer_python_is_called_that(tmp_path: Path) -> None:
    (finding,) = scan(
        lay(tmp_path, new="# toolcrib\ntry:\n    pass\nexcept KeyError, ValueError:\n    pass\n")
    ).findings
    assert "uses syntax of Python 3.14" in finding.message
    assert finding.hint == "scan it with Python 3.14 or newer"
