"""A file of theirs that starts its server when it is imported is refused, not hung on."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib import collect
from toolcrib.errors import SourceError
from toolcrib.sources.foreign.entry_point import check_start

HEAD = """import asyncio
from fastmcp import FastMCP
mcp = FastMCP('x')
@mcp.tool
def f() -> int:
    return 1
"""


@pytest.mark.parametrize(
    "start",
    ["mcp.run()", "mcp.run(transport='stdio')", "asyncio.run(mcp.run_async())"],
)
def test_a_start_at_the_end_of_a_script_is_refused_with_its_line(tmp_path: Path, start: str) -> None:
    file = tmp_path / "script.py"
    file.write_text(HEAD + start + "\n")

    with pytest.raises(SourceError, match="starts its server when it is imported") as caught:
        collect(str(file))

    assert caught.value.source.line == 7
    assert "__main__" in (caught.value.hint or "")


def test_in_a_folder_it_hides_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("from toolcrib import tool\n@tool\ndef g() -> int:\n    return 1\n")
    (tmp_path / "script.py").write_text(HEAD + "mcp.run()\n")

    batch = collect(str(tmp_path))

    assert [tool.name for tool in batch.tools] == ["g"]
    assert [finding.code for finding in batch.findings] == ["unreadable-source"]


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "if __name__ == '__main__':\n    mcp.run()\n",
        HEAD + "def main():\n    mcp.run()\n",
        "# mcp\nimport subprocess\nsubprocess.run(['true'])\n",
        "# mcp.run\nclass MCPServer:\n    def run(self): ...\nmcp = MCPServer()\nmcp.run()\n",
        "mcp = (\n.run",
    ],
)
def test_anything_else_is_left_to_the_import(tmp_path: Path, text: str) -> None:
    file = tmp_path / "script.py"
    file.write_text(text)

    check_start(file)
    check_start(tmp_path / "nowhere.py")
