"""Code that changes a function behind its back, or hides tools where the scan does not follow, is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import SourceError
from toolcrib.sources.scan import scan

OURS = "from toolcrib import MCPServer, tool\nserver = MCPServer('x')\n"
ADD = f"{OURS}\n@tool\ndef add(a: int): 'Add.'\n\n"
SAID = {
    "a hint": ("guessed-change", f"{ADD}add.__annotations__['a'] = str\n"),
    "a name": (
        "guessed-change",
        f"{OURS}def make(n):\n    def f(x: int): 'F.'\n    f.__name__ = n\n    return tool(f)\n"
        "a = make('one')\n",
    ),
    "a lambda": ("unresolved-tool", f"{OURS}@(lambda f: tool(f))\ndef add(a: int): 'Add.'\n"),
    "a table": ("unresolved-tool", f"{OURS}T = {{'t': tool}}\n@T['t']\ndef add(a: int): 'Add.'\n"),
    "a lambda on a server": (
        "unresolved-tool",
        "from fastmcp import FastMCP\nmcp = FastMCP('x')\nmcp.tool(lambda a: a, name='same')\n",
    ),
}


def read(folder: Path, text: str) -> Any:
    (folder / "m.py").write_text(text)
    return scan(folder / "m.py")


@pytest.mark.parametrize("name", SAID)
def test_anything_that_is_not_followed_is_said(tmp_path: Path, name: str) -> None:
    code, text = SAID[name]
    assert code in {finding.code for finding in read(tmp_path, text).findings}


@pytest.mark.parametrize(
    "more",
    [
        "exec('x = 1')\n",
        "exec(open('more.txt').read())\n",
        "add.cost = 3\n",
        "setattr(add, 'cost', 3)\n",
        "print(add.__name__.upper())\n",
    ],
)
def test_anything_that_changes_nothing_is_not_spoken_of(tmp_path: Path, more: str) -> None:
    assert not read(tmp_path, ADD + more).findings


@pytest.mark.parametrize("target", [["a.py"], b"a.py", 7, None])
def test_a_target_that_is_not_a_name_is_refused(target: Any) -> None:
    with pytest.raises(TypeError, match="A target is the name of a file or module, not "):
        scan(target)


def test_a_target_that_no_file_could_be_called_is_not_there() -> None:
    for target in ("x" * 5_000, "x" * 5_000 + ".y", f"x{os.sep}" * 5_000):
        with pytest.raises(SourceError, match=r"There is no |No such file or folder: "):
            scan(target)
