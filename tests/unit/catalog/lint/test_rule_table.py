"""The table of rules is complete, the docs page is generated from it, and plugins add to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bench.reference import render_rules
from tests.support.system.plugins import install_plugin, run_with_plugin
from toolcrib.catalog.lint import OTHERS, RULES, SUSPICIONS
from toolcrib.catalog.lint.run import GROUPS, is_known
from toolcrib.errors import DefinitionError

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "linting.md"


def test_codes_are_unique_and_well_formed() -> None:
    codes = [rule.code for rules in GROUPS.values() for rule in rules]
    assert len(codes) == len(set(codes)) == len(RULES)
    assert not set(codes) & OTHERS.keys()
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    assert RULES.keys() >= SUSPICIONS


def test_every_rule_has_a_summary_a_reason_and_a_fix() -> None:
    for rule in RULES.values():
        assert rule.summary[0].isupper()
        assert not rule.summary.endswith(".")
        assert rule.why.endswith(".")
        assert rule.fix
        assert rule.level in ("error", "warning", "advice")


def test_the_table_in_the_docs_is_generated_from_the_rules() -> None:
    text = PAGE.read_text()
    begin, end = "<!-- rules -->\n", "<!-- end of rules -->\n"
    written = text[text.index(begin) + len(begin) : text.index(end)]
    assert written == f"\n{render_rules()}\n", "write `render_rules()` there again"


def test_codes_of_reading_and_building_are_known() -> None:
    """Ignoring one must not be reported as an unknown rule."""
    pattern = re.compile(
        r"\"((?:guessed|unresolved|foreign|unknown|stale|no|low|needs|idle|skipped)-[a-z-]+)\""
    )
    parts = ("schema/function.py", "sources", "registry", "server")
    files = [path for part in parts for path in _files(ROOT / "src" / "toolcrib" / part)]
    given = {code for path in files for code in pattern.findall(path.read_text())}
    given |= {error.code for error in _below(DefinitionError)}
    assert {code for code in given if not is_known(code)} <= {
        "batch-refused",
        "drift",
        "low-level",
    }  # of batches and locks; the last is a kind of server
    assert len(given) > 15


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _below(kind: type[DefinitionError]) -> Iterator[type[DefinitionError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)


PLUGIN = """
from toolcrib.catalog.lint import LintedTool, Problem, Rule


def find_todo(tool):
    if "TODO" in tool.description:
        yield Problem(f"The description of '{tool.name}' contains a TODO")


rule = Rule("todo", "advice", "A description contains a TODO", "Models read it.", "finish it", find_todo)
"""


RUN_PLUGIN = """
from toolcrib import Tool
from toolcrib.catalog.lint import inspect_tools
from toolcrib.catalog.lint.run import is_known, load_groups

def find_order(number: int) -> str:
    "TODO: describe it"

found = inspect_tools([Tool.from_function(find_order)]).findings
print([finding.code for finding in found if finding.tool == "find_order" and "TODO" in finding.message][0])
print(is_known("todo"), "Plugins" in load_groups())
"""


def test_a_package_adds_rules_by_an_entry_point(tmp_path: Path) -> None:
    install_plugin(tmp_path, "toolcrib.lint", "house", PLUGIN, "rule")
    run = run_with_plugin(tmp_path, "-c", RUN_PLUGIN)
    assert run.stdout.split() == ["todo", "True", "True"], run.stderr


def test_a_broken_plugin_is_an_error_that_names_it(tmp_path: Path) -> None:
    install_plugin(tmp_path, "toolcrib.lint", "house", "rule = 5", "rule")
    run = run_with_plugin(tmp_path, "-m", "toolcrib", "check", "--samples")
    assert run.returncode == 2
    assert "The plugin 'house' (toolcrib.lint) is not a Rule" in run.stderr
