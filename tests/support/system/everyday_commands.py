"""Check, list, call and serve with the programs of another environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

TIMEOUT_S = 120
TOOLS = '''\
from toolcrib import tool


@tool(read_only=True)
def find_price(article: str) -> float:
    """Return the price of an article in euros."""
    return {"tea": 4.5}[article]
'''


def run(*command: str | Path, folder: Path) -> str:
    environ = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_list_and_call(programs: Path, folder: Path) -> None:
    (folder / "shop.py").write_text(TOOLS)
    toolcrib = programs / "toolcrib"
    assert run(toolcrib, "--version", folder=folder).startswith("toolcrib ")
    assert "1 tool ok" in run(toolcrib, "check", "shop.py", folder=folder)
    assert "find_price" in run(toolcrib, "list", "shop.py", folder=folder)
    assert run(toolcrib, "call", "find_price", "article=tea", "-t", "shop.py", folder=folder) == "4.5\n"


def serve_and_call(programs: Path, folder: Path) -> None:
    """Call a tool over HTTP and on stdio, and expect the server to stop cleanly."""
    (folder / "shop.py").write_text(TOOLS)
    toolcrib = programs / "toolcrib"
    command = [str(toolcrib), "serve", "shop.py", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            address = json.loads(server.stdout.readline())["address"]
            assert run(toolcrib, "call", "find_price", "article=tea", "-t", address, folder=folder) == "4.5\n"
        finally:
            server.terminate()
        assert server.wait(TIMEOUT_S) == 0
    words = ("call", "find_price", "article=tea", "--command", f"{toolcrib} serve --stdio shop.py")
    assert run(toolcrib, *words, folder=folder) == "4.5\n"
