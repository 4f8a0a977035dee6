"""G-18: what is declared in the source equals what is registered; `lock --check` is the command for it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib
from tests.support.scanning.import_results import SCANNED

SOURCE = Path(toolcrib.__file__).parents[1]


def lock(lock_file: Path, *arguments: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "toolcrib", "lock", "--output", str(lock_file), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return done.returncode, done.stdout + done.stderr


def check(*targets: str, folder: Path, lock_file: Path) -> tuple[int, str]:
    """Lock the tools that the source declares, and check those that importing registers."""
    assert lock(lock_file, "--static", *targets, folder=folder)[0] == 0
    return lock(lock_file, "--check", *targets, folder=folder)


@pytest.mark.requirement("G-18")
@pytest.mark.parametrize("targets", [("ours/server.py",), ("ours/marked.py", "apps/listed.py")])
def test_a_declared_catalog_equals_the_registry(targets: tuple[str, ...], tmp_path: Path) -> None:
    code, text = check(*targets, folder=SCANNED, lock_file=tmp_path / "declared.lock")
    assert code == 0, text
    assert "is up to date" in text


@pytest.mark.requirement("G-18")
def test_a_declared_catalog_equals_that_of_a_running_server(tmp_path: Path) -> None:
    file = tmp_path / "declared.lock"
    assert lock(file, "--static", "ours/server.py", folder=SCANNED)[0] == 0
    served = shlex.join([sys.executable, "-m", "toolcrib", "serve", "--stdio", "ours/server.py"])
    code, text = lock(file, "--check", "--command", served, folder=SCANNED)
    assert code == 0, text


@pytest.mark.requirement("G-18")
def test_a_wrapper_that_loses_the_schema_is_caught(tmp_path: Path) -> None:
    (tmp_path / "wrapped.py").write_text(
        "from toolcrib import tool\n\n"
        "def traced(function):\n"
        "    def inner(**kwargs):\n"
        "        return function(**kwargs)\n"
        "    inner.__name__ = function.__name__\n"
        "    return inner\n\n"
        "@tool\n@traced\ndef find(order: int) -> str:\n    '''Find an order.'''\n    return ''\n"
    )
    code, text = check("wrapped.py", folder=tmp_path, lock_file=tmp_path / "declared.lock")
    assert code == 1
    assert "takes **kwargs, which no schema can describe" in text


@pytest.mark.requirement("G-18")
def test_tools_that_only_another_import_would_register_are_named(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(
        "from toolcrib import MCPServer\n\nserver = MCPServer('desk')\n\n"
        "@server.tool\ndef there(a: int) -> int:\n    '''Is there.'''\n    return a\n\n"
        "def load_the_rest():\n"
        "    @server.tool\n    def lost(a: int) -> int:\n        '''Is lost.'''\n        return a\n"
    )
    code, text = check("desk.py", folder=tmp_path, lock_file=tmp_path / "declared.lock")
    assert code == 1
    assert "lost  desk.py\n  breaking    it was removed" in text
