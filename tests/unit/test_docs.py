"""The examples in the documents run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.architecture import render_tree

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "docs/guide.md",
    "docs/access.md",
    "docs/serving.md",
    "docs/coming-from.md",
    "docs/catalog.md",
    "docs/exporting.md",
    "docs/limits.md",
    "docs/locking.md",
    "docs/oauth.md",
    "docs/scanning.md",
    "docs/searching.md",
    "docs/telemetry.md",
]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of_a_page_run_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    names: dict[str, object] = {"__name__": "documented"}
    for match in _BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        source = "\n" * line + match[1]
        exec(compile(source, str(ROOT / page), "exec", dont_inherit=True), names)


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
