"""The command line on files that were written for another library."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.system import fork_server
from tests.support.system.source_folders import forgotten_imports, write
from tests.unit.sources.foreign.answering_client import GUESTS
from toolcrib.cli import app
from toolcrib.cli.load import load_for_serving
from toolcrib.cli.output import Terminal
from toolcrib.dispatch.tool_search import SearchMode

SHOP, DESK = GUESTS / "sdk_shop.py", GUESTS / "fast_desk.py"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with forgotten_imports(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others warn of is theirs
        yield


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(("file", "tools"), [(SHOP, 22), (DESK, 30)])
def test_list_shows_every_tool_that_is_on(file: Path, tools: int) -> None:
    listed = json.loads(run("list", file, "--json").stdout)

    assert len(listed["tools"]) == tools
    assert {Path(tool["source"]["file"]).name for tool in listed["tools"] if tool["source"]["file"]} == {
        file.name
    }


@pytest.mark.parametrize(
    ("file", "words", "printed"),
    [
        (SHOP, ["price", "item=tea"], "4.5"),
        (DESK, ["phone_ring", "number=5"], "phones rings 5"),
        (DESK, ["add_ten", "number=5"], "15"),
    ],
)
def test_call_runs_a_tool_with_its_lifespan_open(file: Path, words: list[str], printed: str) -> None:
    called = run("call", "-t", file, *words)

    assert called.stdout.strip() == printed
    assert called.exit_code == 0


def test_a_process_of_its_own_calls_a_tool_of_theirs_and_ends() -> None:
    code = "import sys; from toolcrib.cli import main; sys.exit(main())"
    words = ("call", "-t", str(DESK), "add_ten", "number=5")

    called = fork_server.run("-c", code, *words, text=True, libraries=True)

    assert (called.returncode, called.stdout.strip()) == (0, "15")


def test_neither_library_is_imported_for_tools_that_are_ours(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("from toolcrib import tool\n@tool\ndef f() -> int:\n    return 1\n")
    code = (
        "import sys; from toolcrib import MCPServer; import toolcrib.sources.foreign.reading;"
        f"MCPServer('x').add({str(file)!r});"
        "print(sorted({'mcp', 'mcp_types', 'fastmcp'} & sys.modules.keys()))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert printed.stdout.strip() == "[]"


GUARDED = """
import os
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware

class Deny(Middleware):
    async def on_call_tool(self, context, call_next):
        if context.message.name == "refund":
            raise ToolError("refunds are closed")
        return await call_next(context)

mcp = FastMCP("shop", middleware=[Deny()])

@mcp.tool
def refund(order: int) -> str:
    "Refund an order."
    return "refunded"

if os.environ.get("ALLOW_SQL"):
    @mcp.tool
    def execute_sql(sql: str) -> str:
        "Execute a statement."
        return sql

if __name__ == "__main__":
    mcp.run()
"""


def test_check_says_for_each_tool_how_it_is_run_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    guarded = tmp_path / "guarded.py"
    guarded.write_text(GUARDED)
    plain = tmp_path / "plain.py"
    plain.write_text(
        "from fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool\ndef f() -> int:\n    return 1\n"
    )

    checked = run("check", guarded, plain)
    tools = {
        tool["name"]: tool["adoption"]
        for tool in json.loads(run("check", guarded, plain, "--json").stdout)["tools"]
    }

    words = " ".join(checked.stdout.split())
    assert "refund - through handlers: it has middleware (Deny)" in words
    assert "plain.py:3 native: " in words
    assert {name: (tool["library"], tool["way"]) for name, tool in tools.items()} == {
        "refund": ("fastmcp", "handlers"),
        "f": ("fastmcp", "native"),
    }
    assert tools["refund"]["reason"] == "it has middleware (Deny)"
    assert checked.exit_code == 1
    assert "it has middleware (Deny) hint: it is not served over HTTP, whose headers" in words


def test_a_server_with_middleware_is_refused_over_http_and_served_over_stdio(tmp_path: Path) -> None:
    file = tmp_path / "guarded.py"
    file.write_text(GUARDED)

    refused = run("serve", file, "--port", "0")
    served = run("call", "refund", "order=1", "--target", file)

    assert refused.exit_code == 2, refused.stderr
    assert "'refund' is not served over HTTP: it has middleware (Deny)" in refused.stderr
    assert "hint: serve it over stdio, or run its server with fastmcp" in refused.stderr
    assert "refunds are closed" in served.stdout + served.stderr


def test_a_function_that_is_named_past_its_server_is_called_with_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "guarded.py"
    file.write_text(GUARDED)

    through = run("call", "-t", file, "refund", "order=1")
    past = run("call", f"{file}:refund", "order=1")

    assert (through.exit_code, "refunds are closed" in through.stderr) == (1, True)
    assert past.stdout.strip() == "refunded"
    assert "guarded.py:refund is served without its server 'shop'" in past.stderr
    assert f"to serve it through that server, name {file}" in past.stderr


def test_the_search_tools_replace_the_list_of_an_adopted_server_only_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "many.py"
    tools = (
        "for number in range(40):\n    mcp.tool(lambda a: a, name=f'a{number}', description='word ' * 900)\n"
    )
    file.write_text(f"from fastmcp import FastMCP\nmcp = FastMCP('many')\n{tools}")
    terminal = Terminal(sys.stdout, sys.stderr, debug=False)

    async def count_shown(search: SearchMode) -> int:
        async with load_for_serving([str(file)], terminal, search=search).server.connect() as client:
            return len(await client.list_tools())

    assert asyncio.run(count_shown("auto")) == 40
    assert asyncio.run(count_shown("always")) == 2


PRESENTED = """
from mcp.server.mcpserver import MCPServer
from mcp_types import Icon

server = MCPServer(
    "shop", title="The shop", version="3.1", instructions="Prices are net.", website_url="https://shop.example",
    icons=[Icon(src="https://shop.example/icon.png", mime_type="image/png")],
)

@server.tool()
def price(item: str) -> float:
    return 4.5

if __name__ == "__main__":
    server.run()
"""


def test_clients_see_how_an_adopted_server_presents_itself(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(PRESENTED)
    settings = tmp_path / "toolcrib.toml"
    settings.write_text('[server]\ntargets = ["shop.py"]\nname = "our-shop"\nversion = "9"\n')
    terminal = Terminal(sys.stdout, sys.stderr, debug=False)

    async def ask(target: Path, protocol: str) -> tuple[dict[str, Any], str | None]:
        async with load_for_serving([str(target)], terminal).server.connect(protocol=protocol) as client:
            return dict(client.server_info), client.instructions

    icons = [{"src": "https://shop.example/icon.png", "mimeType": "image/png"}]
    shown = {"title": "The shop", "websiteUrl": "https://shop.example", "icons": icons}
    own = {"name": "shop", "version": "3.1", **shown}
    assert asyncio.run(ask(file, "2026-07-28")) == (own, "Prices are net.")
    assert asyncio.run(ask(file, "2025-11-25")) == (own, "Prices are net.")
    assert asyncio.run(ask(file, "2025-06-18"))[0] == {"name": "shop", "version": "3.1", "title": "The shop"}
    assert asyncio.run(ask(settings, "2025-11-25"))[0] == {"name": "our-shop", "version": "9", **shown}


def test_a_file_in_a_package_imports_its_siblings_as_a_script_and_as_a_part_of_the_package(
    tmp_path: Path,
) -> None:
    files = {
        "desk/__init__.py": "",
        "desk/prices.py": "PRICE = 4.5\n",
        "desk/names.py": "NAME = 'desk'\n",
        "desk/as_script.py": "from prices import PRICE\nfrom fastmcp import FastMCP\nmcp = FastMCP('a')\n"
        "@mcp.tool\ndef price() -> float:\n    return PRICE\n",
        "desk/as_part.py": "from .names import NAME\nfrom fastmcp import FastMCP\nmcp = FastMCP('b')\n"
        "@mcp.tool\ndef name() -> str:\n    return NAME\n",
        "desk/both.py": "from names import NAME\nfrom .prices import PRICE\nfrom fastmcp import FastMCP\n"
        "def main():\n    server = FastMCP('c')\n    server.tool(lambda: NAME, name='both')\n"
        "    server.run()\nif __name__ == '__main__':\n    main()\n",
    }
    folder = write(tmp_path, files) / "desk"

    assert run("call", "-t", folder / "as_script.py", "price").stdout.strip() == "4.5"
    assert run("call", "-t", folder / "as_part.py", "name").stdout.strip() == "desk"
    assert run("call", "-t", folder / "both.py", "both").stdout.strip() == "desk"
