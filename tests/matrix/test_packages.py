"""Servers from PyPI, started by their own console scripts: the same list and results as under their library.

A long test that installs packages: `python dev.py matrix`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.matrix.differences import DIFFERENCES, compare
from tests.matrix.environments import make_environment
from tests.matrix.pypi_servers import FOLDER, PACKAGES, SITE, Package
from tests.matrix.recording import record
from tests.matrix.versions import Version

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: python dev.py matrix")
DATE = "2026-01-01T00:00:00+00:00"
AUTHOR = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in {"NAME": "A", "EMAIL": "a@example.com", "DATE": DATE}.items()
}


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_page = self.path == "/"
        self.send_response(200 if is_page else 404)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(
            b"<html><body><article><h1>Title</h1><p>A page.</p></article></body></html>" * is_page
        )

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    """The address of a web page on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def make_folder(folder: Path) -> None:
    """Make the folder that servers work in, the same each time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "begin"]):
        subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **AUTHOR}, check=True)


@pytest.mark.parametrize("package", [pytest.param(item, id=item.name) for item in PACKAGES])
def test_a_server_from_pypi_answers_as_under_its_own_library(
    package: Package, tmp_path: Path, site: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("name", f"{package.name} {package.version}")
    environment = make_environment(f"pypi-{package.name}", *package.requirements)
    library = "mcp" if environment.version_of("fastmcp") is None else "fastmcp"
    number = environment.version_of(library) or ""
    record_property("library", f"{library} {number}")
    folder = tmp_path / "work"

    def fill(value: Any) -> Any:
        return json.loads(json.dumps(value).replace(FOLDER, str(folder)).replace(SITE, site))

    calls = fill(package.calls)
    arguments = fill(package.arguments)
    script = package.command or package.name
    serve = [environment.program("toolcrib"), "serve", script, "--stdio"]
    recordings = []
    for command in ([environment.program(script), *arguments], [*serve, "--", *arguments]):
        make_folder(folder)
        home = tmp_path / f"home{len(recordings)}"  # some servers remember earlier calls there
        home.mkdir()
        recordings.append(record(command, calls, folder, {**package.environ, "HOME": str(home)}))
        if package.random:
            for answer in recordings[-1].answers:
                answer.reply = json.loads(re.sub(package.random, "*", json.dumps(answer.reply)))
    comparison = compare(*recordings, calls)
    record_property("tools", len(recordings[0].tools))
    record_property("calls", len(calls))
    assert recordings[0].tools
    assert not comparison.mistakes, "\n".join(comparison.mistakes)
    version = Version(library, number)
    assert comparison.found <= {item.name for item in DIFFERENCES if item.is_in(version)}
