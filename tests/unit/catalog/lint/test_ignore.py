"""Ignoring findings by comments and settings; unknown codes and idle comments are reported."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from toolcrib.catalog.lint import Choice, Inspection, inspect_tools
from toolcrib.errors import Finding
from toolcrib.sources import collect

TOOLS = '''
from toolcrib import tool


@tool{decorator}
def delete_order(number):{head}
    """Delete an order of a customer.

    Args:
        number: The number{words}
    """
'''


def lint(folder: Path, text: str, **options: Any) -> Inspection:
    path = folder / f"tools_{abs(hash(text))}.py"
    path.write_text(dedent(text))
    return inspect_tools(collect(path).tools, **options)


def codes(inspection: Inspection) -> list[str]:
    return [finding.code for finding in inspection.findings]


def write(decorator: str = "", head: str = "", words: str = "") -> str:
    return TOOLS.format(decorator=decorator, head=head, words=words)


def test_nothing_is_ignored_without_a_comment(tmp_path: Path) -> None:
    assert codes(lint(tmp_path, write())) == ["missing-destructive-hint", "untyped-parameter"]


@pytest.mark.parametrize("place", ["decorator", "head"])
def test_a_comment_at_the_head_of_a_tool_ignores_a_code(tmp_path: Path, place: str) -> None:
    found = lint(tmp_path, write(**{place: "  # toolcrib: ignore[missing-destructive-hint]"}))
    assert codes(found) == ["untyped-parameter"]
    assert [(item.finding.code, item.by) for item in found.ignored] == [
        ("missing-destructive-hint", "source")
    ]


def test_several_codes_may_be_given(tmp_path: Path) -> None:
    found = lint(tmp_path, write(head="  # toolcrib: ignore[untyped-parameter, missing-destructive-hint]"))
    assert codes(found) == []


def test_a_bare_comment_ignores_everything_about_the_tool_and_nothing_about_others(tmp_path: Path) -> None:
    other = write().replace("delete_order", "remove_order").replace("from toolcrib import tool", "")
    found = lint(tmp_path, write(decorator="  # toolcrib: ignore") + other)
    assert {finding.tool for finding in found.findings} == {"remove_order"}


def test_a_comment_on_the_line_of_the_finding_ignores_it(tmp_path: Path) -> None:
    text = '''
    from toolcrib import tool


    @tool(destructive=True)
    def delete_order(
        number: int,
        reason,  # toolcrib: ignore[untyped-parameter, undocumented-parameter]
    ):
        """Delete an order of a customer.

        Args:
            number: The number
        """
    '''
    assert codes(lint(tmp_path, text)) == []


def test_a_docstring_that_shows_the_comment_ignores_nothing(tmp_path: Path) -> None:
    found = lint(tmp_path, write(words=": `# toolcrib: ignore`"))
    assert codes(found) == ["missing-destructive-hint", "untyped-parameter"]


def test_an_unknown_code_is_reported_with_a_suggestion(tmp_path: Path) -> None:
    found = lint(tmp_path, write(head="  # toolcrib: ignore[missing-destructive-hints]"))
    [finding] = [finding for finding in found.findings if finding.code == "unknown-rule"]
    assert finding.line == 6
    assert finding.hint == "did you mean 'missing-destructive-hint'?"
    assert "missing-destructive-hint" in codes(found)


def test_a_comment_that_ignores_nothing_is_reported(tmp_path: Path) -> None:
    found = lint(tmp_path, write(head="  # toolcrib: ignore[missing-destructive-hint, long-name]"))
    [finding] = [finding for finding in found.findings if finding.code == "unused-ignore"]
    assert finding.message == "There are no long-name findings to ignore here"


def test_comments_of_untrusted_code_can_be_disregarded(tmp_path: Path) -> None:
    found = lint(tmp_path, write(decorator="  # toolcrib: ignore"), use_comments=False)
    assert codes(found) == ["missing-destructive-hint", "untyped-parameter"]


def test_settings_ignore_a_code_everywhere_or_for_some_tools(tmp_path: Path) -> None:
    everywhere = lint(tmp_path, write(), ignore=[Choice.parse("missing-destructive-hint")])
    here = lint(tmp_path, write(), ignore=[Choice.parse("missing-destructive-hint:delete_*")])
    elsewhere = lint(tmp_path, write(), ignore=[Choice.parse("missing-destructive-hint:shop_*")])
    assert codes(everywhere) == codes(here) == ["untyped-parameter"]
    assert codes(elsewhere) == ["missing-destructive-hint", "untyped-parameter"]
    assert [item.by for item in everywhere.ignored] == ["settings"]


def test_settings_make_a_finding_an_error(tmp_path: Path) -> None:
    found = lint(tmp_path, write(), error=[Choice.parse("missing-destructive-hint")])
    assert {finding.code: finding.level for finding in found.findings} == {
        "missing-destructive-hint": "error",
        "untyped-parameter": "warning",
    }


def test_a_refused_tool_cannot_be_ignored(tmp_path: Path) -> None:
    refused = Finding("invalid-signature", "error", "It takes *names", tool="many")
    stale = Finding("stale-parameter", "warning", "It is not there", tool="few")
    choices = [Choice.parse("invalid-signature"), Choice.parse("stale-parameter")]
    assert codes(inspect_tools([], found=[refused, stale], ignore=choices)) == ["invalid-signature"]


def test_a_missing_file_has_no_comments(tmp_path: Path) -> None:
    gone = Finding("stale-parameter", "warning", "words", file=str(tmp_path / "gone.py"), line=3)
    assert codes(inspect_tools([], found=[gone])) == ["stale-parameter"]
