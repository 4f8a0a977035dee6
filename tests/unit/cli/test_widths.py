"""Output that fits the terminal, and that a program gets whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.system import fork_server
from tests.support.system.pseudo_terminal import plain, run_on_terminal

NAME = "fetch_quarterly_revenue_report_for_the_region_of_choice"
TOOLS = f'''
from toolcrib import tool

@tool
def {NAME}(region: str, quarter: int, currency: str = "EUR", with_forecast: bool = False) -> dict:
    """Fetch the revenue report of a region for one quarter, with all sales and returns.

    Args:
        region: Region code
        quarter: Quarter, 1 to 4
        currency: Currency of the report
        with_forecast: Whether to add the forecast for the following quarter

    Returns:
        The report
    """
    return {{}}
'''
CONFIG = """
[server]
targets = ["reports/of/the/sales/department/tools.py"]
[auth]
keys = "keys.json"
[audit]
file = "audit.db"
"""
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def run(folder: Path, *words: str) -> str:
    done = fork_server.run("-m", "toolcrib", *words, cwd=folder)
    return done.stdout.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tools with a policy, two keys and some calls."""
    folder = tmp_path_factory.mktemp("shop")
    tools = folder / "reports/of/the/sales/department/tools.py"
    tools.parent.mkdir(parents=True)
    tools.write_text(TOOLS)
    (folder / "toolcrib.toml").write_text(CONFIG)
    options = ("--scope", "reports:read", "--scope", "reports:write", "--role", "support")
    run(folder, "keys", "create", "ana-from-accounting", *options)
    run(folder, "keys", "create", "ci", "--expires", "never")
    run(folder, "call", NAME, "region=EU", "quarter=1")
    run(folder, "call", NAME, "region=EU")
    return folder


@pytest.mark.parametrize(
    "words",
    [["list"], ["scan"], ["show", NAME], ["check"], ["keys", "list"], ["audit", "query"], ["explain"]],
    ids=lambda words: words[0],
)
def test_a_pipe_gets_names_paths_and_texts_on_one_line(folder: Path, words: list[str]) -> None:
    piped = run(folder, *words)
    shown = plain(run_on_terminal(*words, columns=1000, cwd=folder))
    assert [line for line in piped.splitlines() if line not in shown.splitlines()] == []
    if words[0] in ("list", "scan", "check", "explain", "audit"):
        assert NAME in piped
    if words[0] in ("scan", "check"):
        assert "reports/of/the/sales/department/tools.py:4" in piped


def test_keys_are_listed_without_a_broken_date_or_name(folder: Path) -> None:
    shown = plain(run_on_terminal("keys", "list", columns=60, cwd=folder))
    assert set(run(folder, "keys", "list").split()) == {*shown.split()}


@pytest.mark.parametrize("columns", [80, 100])
def test_audit_records_fit_without_a_broken_word(folder: Path, columns: int) -> None:
    shown = plain(run_on_terminal("audit", "query", columns=columns, cwd=folder))
    lines = [line for line in shown.splitlines() if line]
    assert max(map(len, lines)) <= columns
    assert all(DATE.search(line) or line.startswith(" " * 8) for line in lines)
    assert NAME in shown
    assert "invalid-arguments" in shown


def test_a_long_name_keeps_its_line_and_texts_are_wrapped(folder: Path) -> None:
    shown = plain(run_on_terminal("list", cwd=folder))
    assert NAME in shown
    assert len(shown.splitlines()) > len(run(folder, "list").splitlines()) == 2


def test_states_have_the_same_colours_in_every_command(folder: Path) -> None:
    good, bad = "\x1b[32m{}\x1b[0m", "\x1b[31m\x1b[1m{}\x1b[0m"
    name = f"\x1b[32m\x1b[1m{NAME}\x1b[0m"
    wide = 200
    checked = run_on_terminal("check", columns=wide, cwd=folder)
    assert good.format("ok") in checked
    assert name in checked
    assert good.format("active") in run_on_terminal("keys", "list", columns=wide, cwd=folder)
    audited = run_on_terminal("audit", "query", columns=wide, cwd=folder)
    assert good.format("ok" + " " * 12) in audited
    assert bad.format("error" + " " * 9) in audited
    assert good.format("allowed") in run_on_terminal("explain", columns=wide, cwd=folder)
    assert name in run_on_terminal("list", columns=wide, cwd=folder)
