"""The page about other libraries lists the differences that the matrix knows."""

from __future__ import annotations

from tests.matrix.differences import CALLING, DIFFERENCES, FEATURES, LISTING
from tests.matrix.environments import ROOT
from tests.matrix.versions import VERSIONS


def versions_section() -> str:
    page = (ROOT / "docs" / "coming-from.md").read_text()
    return page.partition("\n## Versions\n")[2].partition("\n## ")[0]


def test_each_intended_difference_is_a_row_of_the_page_with_the_versions_that_show_it() -> None:
    lines = [line.split("|") for line in versions_section().splitlines() if line.startswith("| ")]
    rows = [(line[1].strip(), line[-2].strip()) for line in lines]
    assert rows[1:] == [(item.row, item.seen_with) for item in DIFFERENCES]


def test_only_listed_differences_are_removed_before_comparing() -> None:
    assert (LISTING | CALLING | FEATURES).keys() == {item.name for item in DIFFERENCES}


def test_the_page_names_the_versions_of_the_matrix() -> None:
    words = " ".join(versions_section().split())
    for library in ("mcp", "fastmcp"):
        numbers = [".".join(item.number.split(".")[:2]) for item in VERSIONS if item.library == library]
        assert f"`{library}` {', '.join(numbers[:-1])} and {numbers[-1]}" in words
