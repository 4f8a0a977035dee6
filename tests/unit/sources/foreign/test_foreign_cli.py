"""The command line on files that were written for another library."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.source_folders import forgotten_imports
from tests.unit.sources.foreign.answering import GUESTS
from toolcrib.cli import app

SHOP, DESK = GUESTS / "sdk_shop.py", GUESTS / "fast_desk.py"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with forgotten_imports(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others warn of is theirs
        yield


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(("file", "tools"), [(SHOP, 22), (DESK, 31)])
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
    command = [sys.executable, "-W", "ignore", "-c", code, "call", "-t", str(DESK), "add_ten", "number=5"]

    called = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

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


def test_the_adapter_to_the_sdk_says_when_the_sdk_is_missing() -> None:
    code = "import sys; sys.modules['mcp'] = None; import toolcrib.transports.mcp_sdk"

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    assert printed.returncode != 0
    assert "pip install 'mcp>=2'" in printed.stderr
