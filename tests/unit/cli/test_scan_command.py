"""`toolcrib scan`."""

from __future__ import annotations

import io
import sys

import pytest

from tests.unit.cli.conftest import ADD, SHOP, CommandLine
from toolcrib.cli.catalog import open_local
from toolcrib.cli.output import Terminal

MISSING = '''
from no_such_package_at_all import client
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("x")

@mcp.tool()
def ask(question: str, limit: int = 5) -> list[str]:
    """Ask a question.

    Args:
        question: What to ask
    """
    return client.ask(question)
'''


def test_scan_lists_tools_with_their_places(cli: CommandLine) -> None:
    cli.write("places_of_tools.py", ADD)
    done = cli.run("scan", "places_of_tools.py")
    assert done.exit_code == 0
    assert "add" in done.stdout
    assert "Add two whole numbers" in done.stdout
    assert "places_of_tools.py:4" in done.stdout
    assert done.stdout.endswith("1 tool in 1 file; no problems. Nothing was imported.\n")
    assert "places_of_tools" not in sys.modules


def test_imports_of_the_source_need_not_exist(cli: CommandLine) -> None:
    cli.write("server.py", MISSING)
    done = cli.run("scan", ".")
    assert done.exit_code == 0
    assert "ask" in done.stdout


def test_json_is_what_list_and_check_print(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    scanned = cli.json("scan", "tools.py", "--json")
    assert scanned == cli.json("list", "tools.py", "--json")
    assert set(scanned) == {"tools", "findings"}
    assert scanned["tools"][0]["source"]["line"] == 4


def test_the_progress_of_a_long_scan_is_shown(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write("tools/tool.py", ADD)
    for number in range(3):
        (cli.folder / f"tools/part{number}.py").touch()
    monkeypatch.setattr("toolcrib.cli.output.PROGRESS_DELAY_S", 0)
    monkeypatch.setattr("toolcrib.cli.output.PROGRESS_INTERVAL_S", 0)
    statuses: list[str] = []
    terminal = Terminal(io.StringIO(), io.StringIO(), debug=False)
    terminal.status = statuses.append  # type: ignore[method-assign]
    assert len(open_local(["tools"], terminal, "static").tools) == 1
    assert [status.rstrip("0123456789/ ") for status in statuses] == [
        *4 * ["reading files"],
        *["analysing modules", "building tools", *3 * [""]],
    ]
    assert statuses[2].startswith("reading files 2/4")


def test_a_folder_without_tools_lists_what_was_searched(cli: CommandLine) -> None:
    cli.write("empty/readme.py", "x = 1\n")
    done = cli.run("scan", "empty")
    assert done.exit_code == 1
    assert "looked for @tool, @server.tool, applications, tool objects and TOOL_DEFINITIONS" in done.stdout


@pytest.mark.parametrize("target", ["nope.py", "no_such_module_here", "http://127.0.0.1:1/mcp"])
def test_a_target_that_cannot_be_scanned_exits_with_2(cli: CommandLine, target: str) -> None:
    done = cli.run("scan", target)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert not done.stdout


def test_the_configuration_is_used_by_default(cli: CommandLine) -> None:
    cli.write("code/tools.py", ADD)
    cli.write("toolcrib.toml", '[server]\ntargets = ["code"]\nnamespace = "n"\n')
    assert [tool["name"] for tool in cli.json("scan", "--json")["tools"]] == ["n_add"]


def test_resources_and_prompts_are_listed_beside_tools(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    done = cli.run("scan", "shop.py")
    assert "TEMPLATE" in done.stdout
    assert "1 tool, 2 resources, 1 template and 2 prompts in 1 file; no problems." in done.stdout
    document = cli.json("scan", "shop.py", "--json")
    assert [entry["uri"] for entry in document["resources"]] == ["orders://list", "shop://logo"]
    assert [entry["uriTemplate"] for entry in document["resourceTemplates"]] == ["orders://{number}/invoice"]
    assert [(entry["name"], entry["server"]) for entry in document["prompts"]] == [
        ("complain", "shop"),
        ("thank", "shop"),
    ]


def test_reading_the_source_locks_what_importing_locks(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    assert cli.run("lock", "shop.py").exit_code == 0
    assert "up to date" in cli.run("lock", "shop.py", "--static", "--check").stderr
