"""The cache knows every file that was read, however the import of it was written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolcrib import build_catalog, get_catalog_cached

HEAD = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\n"
KINDS = "from enum import Enum\nclass Color(Enum):\n    RED = 'red'\n"
IMPORTS = {
    "a comment in brackets": (
        "s.py",
        "from pkg import (  # what is used (see docs)\n    kinds,\n)\n",
        "kinds.Color",
    ),
    "no blank": ("pkg/s.py", "from.kinds import Color\n", "Color"),
    "a blank after the dot": ("pkg/s.py", "from . kinds import Color\n", "Color"),
    "a line that goes on": ("s.py", "from pkg import \\\r\n    kinds\r\n", "kinds.Color"),
    "by attribute": ("s.py", "import pkg\n", "pkg.kinds.Color"),
    "blanks around dots": ("s.py", "import pkg . kinds\n", "pkg.kinds.Color"),
    "everything": ("s.py", "from pkg import *\n", "kinds.Color"),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_a_change_of_what_was_imported_is_seen(tmp_path: Path, name: str) -> None:
    place, imports, hint = IMPORTS[name]
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("__all__ = ['kinds']\n" if name == "everything" else "")
    kinds = tmp_path / "pkg" / "kinds.py"
    kinds.write_text(KINDS)
    source = tmp_path / place
    source.write_bytes(f"{imports}{HEAD}@mcp.tool()\ndef a(c: {hint}):\n    'Do.'\n".encode())
    cache = tmp_path / "cache.json"
    before = get_catalog_cached(source, cache)
    kinds.write_text(f"{KINDS}    BLUE = 'blue'\n")
    after = get_catalog_cached(source, cache)
    assert after == build_catalog(source)
    assert before["functionSchema"] != after["functionSchema"] or "Color" not in str(before)


def test_a_folder_that_becomes_an_environment_has_no_tools_any_more(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "m.py").write_text(f"{HEAD}@mcp.tool()\ndef inside(): 'Do.'\n")
    (tmp_path / "n.py").write_text(f"{HEAD}@mcp.tool()\ndef outside(): 'Do.'\n")
    cache = tmp_path / "cache.json"
    assert get_catalog_cached(tmp_path, cache)["count"] == 2
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert get_catalog_cached(tmp_path, cache)["count"] == 1
    assert os.path.exists(cache)
