"""The examples in the documents run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from bench.architecture import render_tree
from tests.support.pages import Page

ROOT = Path(__file__).resolve().parents[2]
RUN_ELSEWHERE = {
    "docs/agents.md",  # tests/agents/test_docs_page.py
    "docs/extending.md",  # test_extending.py
    "docs/policy.md",  # its commands are typed into two terminals; the blocks are executed by test_policy_page
}
PAGES = [
    "README.md",
    *sorted(
        str(path.relative_to(ROOT))
        for path in ROOT.glob("docs/**/*.md")
        if re.search("^```(?:python|console)", path.read_text(), re.MULTILINE)
    ),
]
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RUN_ELSEWHERE])
def test_the_blocks_of_a_page_run_in_order_and_print_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = set(sys.modules)
    try:
        Page(ROOT / page, tmp_path).run()
    finally:
        for name in set(sys.modules) - modules:  # the next page has a shop.py of its own
            if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=lambda p: p.name
)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not broken


def test_the_map_lists_every_module_with_its_subject() -> None:
    assert render_tree() in (ROOT / "docs/architecture.md").read_text(), "run: python dev.py map"


def test_the_paths_of_the_map_exist() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    table = page[page.index("## Where to change what") :]
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?|\w+\.py)`", table))
    assert [path for path in named if not (ROOT / "src/toolcrib" / path).exists()] == ["tests/unit/"]
