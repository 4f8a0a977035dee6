"""G-18: what is declared in the source equals what is registered, and a command checks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import toolcrib
from tests.support.import_results import SCANNED

SOURCE = Path(toolcrib.__file__).parents[1]


def check(*targets: str, folder: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "toolcrib", "check", "--against-scan", "--json", *targets],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return done.returncode, json.loads(done.stdout)


def test_g_18_a_declared_catalog_equals_the_registry() -> None:
    code, report = check("ours/server.py", "ours/marked.py", "apps/listed.py", folder=SCANNED)
    assert code == 0, report["findings"]
    assert len(report["tools"]) == 31
    assert not [item for item in report["findings"] if item["code"].startswith(("only-", "scan-"))]


def test_g_18_a_wrapper_that_loses_the_schema_is_caught(tmp_path: Path) -> None:
    (tmp_path / "wrapped.py").write_text(
        "from toolcrib import tool\n\n"
        "def traced(function):\n"
        "    def inner(**kwargs):\n"
        "        return function(**kwargs)\n"
        "    inner.__name__ = function.__name__\n"
        "    return inner\n\n"
        "@tool\n@traced\ndef find(order: int) -> str:\n    '''Find an order.'''\n    return ''\n"
    )
    code, report = check("wrapped.py", folder=tmp_path)
    assert code == 1
    assert "takes **kwargs, which no schema can describe" in str(report["findings"])


def test_g_18_tools_that_only_another_import_would_register_are_named(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(
        "from toolcrib import MCPServer\n\nserver = MCPServer('desk')\n\n"
        "@server.tool\ndef there(a: int) -> int:\n    '''Is there.'''\n    return a\n\n"
        "def load_the_rest():\n"
        "    @server.tool\n    def lost(a: int) -> int:\n        '''Is lost.'''\n        return a\n"
    )
    code, report = check("desk.py", folder=tmp_path)
    assert code == 0
    assert [tool["name"] for tool in report["tools"]] == ["there"]
    lost = [item for item in report["findings"] if item["tool"] == "lost"]
    assert {item["code"] for item in lost} == {"only-scanned", "guessed-call"}
