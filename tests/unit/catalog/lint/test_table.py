"""The table of rules is whole, and the page in the docs is what the table says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from toolcrib.catalog.lint import OTHERS, RULES, SUSPICIONS, render_table
from toolcrib.catalog.lint.table import GROUPS, is_known
from toolcrib.errors import DefinitionError

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "linting.md"


def test_codes_are_stable_words_and_each_stands_for_one_thing() -> None:
    codes = [rule.code for rules in GROUPS.values() for rule in rules]
    assert len(codes) == len(set(codes)) == len(RULES)
    assert not set(codes) & OTHERS.keys()
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    assert RULES.keys() >= SUSPICIONS


def test_every_rule_says_what_why_and_what_to_do() -> None:
    for rule in RULES.values():
        assert rule.summary[0].isupper()
        assert not rule.summary.endswith(".")
        assert rule.why.endswith(".")
        assert rule.mend
        assert rule.level in ("error", "warning", "advice")


def test_the_table_in_the_docs_is_what_the_rules_say() -> None:
    text = PAGE.read_text()
    begin, end = "<!-- rules -->\n", "<!-- end of rules -->\n"
    written = text[text.index(begin) + len(begin) : text.index(end)]
    assert written == f"\n{render_table()}\n", "write `render_table()` there again"


def test_codes_that_reading_and_building_give_are_known() -> None:
    """Whoever opts out of one must not be told that there is no such code."""
    pattern = re.compile(
        r"\"((?:guessed|unresolved|foreign|unknown|stale|no|low|needs|idle|skipped)-[a-z-]+)\""
    )
    parts = ("schema/function.py", "sources", "registry", "server.py")
    files = [path for part in parts for path in _files(ROOT / "src" / "toolcrib" / part)]
    given = {code for path in files for code in pattern.findall(path.read_text())}
    given |= {error.code for error in _below(DefinitionError)}
    assert {code for code in given if not is_known(code)} <= {
        "batch-refused",
        "drift",
    }  # of batches and locks
    assert len(given) > 15


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _below(kind: type[DefinitionError]) -> Iterator[type[DefinitionError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)
