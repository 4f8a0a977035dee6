"""`toolcrib search`: matches with reasons, JSON and exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from tests.support.servers.http_servers import Served, serving
from toolcrib import MCPServer
from toolcrib.cli.load import Loaded
from toolcrib.cli.output import open_terminal
from toolcrib.cli.serving import ServeOptions, ServeProcess, Summary

from .conftest import CommandLine

TOOLS = '''
from toolcrib import tool

@tool(tags=["storage"])
def delete_file(path: str) -> str:
    """Erase a file for good.

    Args:
        path: Which file, seen from the attic
    """
    return path

@tool
def send_letter(to: str, tone: str = "kind") -> str:
    """Write to somebody."""
    return to
'''


def test_matches_are_printed_with_reasons(cli: CommandLine) -> None:
    cli.write("tools.py", TOOLS)
    done = cli.run("search", "-t", "tools.py", "deleting", "fiels")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "delete_file: Erase a file for good",
        "    deleting = delete, fiels = file",
    ]
    assert done.stderr == ""


def test_words_that_look_alike_by_chance_are_not_taken_for_typos(cli: CommandLine) -> None:
    # the sample tools have "world" and "first"
    done = cli.run("search", "--samples", "delete", "old", "files")
    assert done.exit_code == 1


def test_no_match_exits_with_1(cli: CommandLine) -> None:
    cli.write("tools.py", TOOLS)
    done = cli.run("search", "-t", "tools.py", "xyzzy")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "note: nothing matches 'xyzzy' in 2 tools\n"


def test_the_json_has_definitions_scores_and_reasons(cli: CommandLine) -> None:
    cli.write("tools.py", TOOLS)
    document = cli.json("search", "-t", "tools.py", "--json", "erase")
    assert document.keys() == {"tools", "similar", "findings"}
    [tool] = document["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("delete_file", ["path"])
    assert tool["score"] > 0
    assert tool["matched"] == {"erase": "erase"}
    typo = cli.json("search", "-t", "tools.py", "--json", "lettr")
    assert typo["similar"] == ["letter"]
    assert typo["tools"][0]["matched"] == {"lettr": "letter"}


def test_a_broken_tool_is_reported_and_hides_no_match(cli: CommandLine) -> None:
    cli.write("tools.py", TOOLS + '\n@tool\ndef bad(x: "Nowhere"): "Never works at all."\n')
    done = cli.run("search", "-t", "tools.py", "letter")
    assert done.exit_code == 0
    assert done.stdout.startswith("send_letter: ")
    assert "Parameter 'x' of tool 'bad'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument"),
        (["***"], "'***' contains no words"),
        (["x", "--limit", "0"], "--limit"),
        (["x", "-t", "nowhere.py"], "nowhere.py"),
    ],
)
def test_wrong_usage_exits_with_2(cli: CommandLine, arguments: list[str], words: str) -> None:
    done = cli.run("search", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


# --- a server that shows tools to search with -----------------------------------------------------------


@pytest.fixture(scope="module")
def harbour() -> Iterator[Served]:
    server = MCPServer("harbour", search="always")
    for number in range(30):

        def polish(times: int = 1, number: int = number) -> str:
            return f"ship {number} shines {times} times"

        schema = {"type": "object", "properties": {"times": {"type": "integer"}}}
        server.add(
            polish,
            name=f"polish_{number}",
            description=f"Polish the brass of ship {number}.",
            input_schema=schema,
        )
    with serving("http_stack", server) as served:
        yield served


def test_a_tool_that_is_not_listed_is_called_by_its_name(cli: CommandLine, harbour: Served) -> None:
    address = f"http://127.0.0.1:{harbour.port}/mcp"
    assert cli.run("call", "-t", address, "polish_7", "times=2").stdout == "ship 7 shines 2 times\n"
    done = cli.run("search", "-t", address, "polish", "brass")
    assert f"warning: {address} lists search tools instead of its tools" in done.stderr
    done = cli.run("call", "-t", address, "polsh_7")
    assert done.exit_code == 2
    assert "Unknown tool: polsh_7" in done.stderr


# --- serving ------------------------------------------------------------------------------------------------


def serve_summary(**options: Any) -> tuple[Loaded, Summary]:
    with open_terminal(debug=False) as terminal:
        process = ServeProcess(ServeOptions(**options), terminal)
        return process.loaded, process.summary


@pytest.mark.parametrize(
    ("section", "search", "label"),
    [
        ("", None, None),
        ("[search]\npublish = 'always'", None, "note"),
        ("[search]\nbudget_tokens = 50", None, "warning"),
        ("[search]\nbudget_tokens = 50", "never", None),
        ("[search]\npublish = 'never'\nbudget_tokens = 50", None, None),
        ("[search]\npublish = 'never'\nbudget_tokens = 50", "auto", "warning"),
        ("", "always", "note"),
    ],
)
def test_the_command_line_and_the_file_say_whether_clients_are_shown_the_pair(
    cli: CommandLine, section: str, search: str | None, label: str | None
) -> None:
    cli.write("tools.py", TOOLS)
    cli.write("toolcrib.toml", f"[server]\ntargets = ['tools.py']\n{section}\n")
    loaded, summary = serve_summary(search=search)
    shown = [tool.name for tool in loaded.server.dispatcher.shown()]
    assert shown == (["search_tools", "call_tool"] if label else ["delete_file", "send_letter"])
    assert (summary.search and summary.search[0]) == label
    assert Summary.decode(asdict(summary)).search == summary.search
    assert [name for _, name, _ in summary.listed] == [
        "delete_file",
        "send_letter",
    ]  # which can all be called


@pytest.mark.parametrize("more", [{}, {"reload": True}])
@pytest.mark.parametrize("search", [None, "never"])
def test_anything_that_a_server_object_wants_goes_before_what_is_usual(
    cli: CommandLine, search: str | None, more: dict[str, Any]
) -> None:
    code = TOOLS.replace("@tool", "@server.tool").replace("from toolcrib import tool", "")
    cli.write("tools.py", f"from toolcrib import MCPServer\nserver = MCPServer(search='always')\n{code}")
    _, summary = serve_summary(targets=["tools.py"], search=search, **more)
    assert (summary.search is None) == (search == "never")
