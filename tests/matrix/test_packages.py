"""Servers from PyPI, started by their own console scripts: the same list and results as under their library.

A long test that installs packages: `python dev.py matrix`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.matrix.differences import compare
from tests.matrix.environments import make_environment
from tests.matrix.packages import FOLDER, PACKAGES, SITE, Package
from tests.matrix.recording import record

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


def known_gap(package: Package) -> list[pytest.MarkDecorator]:
    return [] if package.gap is None else [pytest.mark.xfail(strict=True, reason=package.gap)]


@pytest.mark.parametrize(
    "package", [pytest.param(item, id=item.name, marks=known_gap(item)) for item in PACKAGES]
)
def test_a_server_from_pypi_answers_as_under_its_own_library(
    package: Package, tmp_path: Path, site: str
) -> None:
    environment = make_environment(f"pypi-{package.name}", *package.requirements)
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
        recordings.append(record(command, calls, folder, package.environ))
    comparison = compare(*recordings, calls)
    assert recordings[0].tools
    assert not comparison.mistakes, "\n".join(comparison.mistakes)
