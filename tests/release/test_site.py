"""The documentation site builds without a warning, and its search works without a web server."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import reference
from bench.site import install_command
from tests.support.system.worker_lock import alone, shared_folder

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site, shared by all test workers."""
    folder = shared_folder(tmp_path_factory) / "site"
    with alone(folder.with_suffix(".lock")):
        if not folder.exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)]
            environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(
                command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
            assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_site_without_a_dead_link_or_anchor(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in ROOT.glob("docs/**/*.md")}
    pages |= {(Path("reference") / name).with_suffix(".html") for name in reference.PAGES}
    assert {page for page in pages if not (site / page).exists()} == set()


def test_search_works_from_a_file_because_the_index_is_a_script(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    assert index.startswith("var __index = ")
    assert "toolcrib serve" in index


def test_pages_for_users_rank_above_internals_in_the_search(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text().removeprefix("var __index = ")
    docs = json.loads(index.rstrip().removesuffix(";"))["docs"]
    boosted = {doc["location"].partition("#")[0] for doc in docs if doc.get("boost", 1) < 1}
    internals = {
        f"{name}.html" for name in ("architecture", "changes", "requirements", "rough-edges", "testing")
    }
    decisions = {f"decisions/{path.stem}.html" for path in (ROOT / "docs/decisions").glob("*.md")}
    assert boosted == internals | decisions


def test_pages_for_users_begin_with_the_command_that_installs_toolcrib(site: Path) -> None:
    overviews = {"install.html", "concepts.html", "faq.html", "changes.html"}
    internals = {"architecture.html", "testing.html", "releasing.html", "requirements.html"}
    without = overviews | internals | {"rough-edges.html", "how-to/index.html", "404.html"}
    extras = {"oauth.html": "auth", "telemetry.html": "otel"}
    extras |= {"how-to/observability.html": "otel", "how-to/skills.html": "yaml"}
    for path in site.rglob("*.html"):
        page = path.relative_to(site).as_posix()
        if page not in without and not page.startswith(("decisions/", "reference/")):
            beginning = html.unescape(path.read_text()).partition("<h1")[2].partition("<h2")[0]
            assert f"<code>{install_command(extras.get(page))}</code>" in beginning, page


def test_pages_name_the_one_before_and_the_one_after(site: Path) -> None:
    page = (site / "how-to" / "workers.html").read_text()
    assert "Previous: Hot reload" in page
    assert "Next: A fleet" in page


def test_no_table_shows_the_backslash_of_an_escaped_pipe(site: Path) -> None:
    escaped = re.compile(r"<td><code>[^<]*\\\|")
    assert {page.name for page in site.rglob("*.html") if escaped.search(page.read_text())} == set()


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loading = re.compile(r"<(?:script|img|link[^>]*stylesheet)[^>]*(?:src|href)=\"?https?://[^\s>]*")
    found = {match for page in site.rglob("*.html") for match in loading.findall(page.read_text())}
    assert found == set()
