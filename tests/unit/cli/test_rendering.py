"""Output for people: colours, findings, tables that fit the terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from toolcrib import Finding, samples
from toolcrib.cli import table
from toolcrib.cli.output import Terminal
from toolcrib.sources import collect

LONG = Finding(
    "invalid-signature",
    "error",
    "Parameter 'user' of tool 'find_user' has an annotation that cannot be resolved: 'Userr' is not defined",
    file="/elsewhere/tools.py",
    line=10,
    hint="import the name at run time, at the top of the module, not only where types are checked",
)


class FakeTTY(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal(FakeTTY(), FakeTTY(), debug=False)


def printed(terminal: Terminal) -> str:
    out = terminal.out
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


def test_a_hint_that_several_findings_in_a_row_have_is_printed_once() -> None:
    terminal = Terminal(io.StringIO(), io.StringIO(), debug=False)
    table.print_findings([LONG, LONG, replace(LONG, hint=None)], terminal)
    assert [line.startswith("    hint: ") for line in printed(terminal).splitlines()] == [
        False,
        False,
        True,
        False,
        False,
    ]


def test_a_finding_about_a_tool_of_a_server_has_its_name_for_a_place() -> None:
    terminal = Terminal(io.StringIO(), io.StringIO(), debug=False)
    table.print_findings([replace(LONG, tool="find_user", file="http://host/mcp", line=None)], terminal)
    assert printed(terminal).startswith("find_user: error[invalid-signature] ")


def test_levels_have_their_colours(terminal: Terminal) -> None:
    table.print_findings([LONG], terminal)
    assert "\x1b[31m\x1b[1merror[invalid-signature]\x1b[0m" in printed(terminal)


def test_the_list_and_one_tool_fit_the_terminal(terminal: Terminal) -> None:
    tools = collect(samples).tools
    table.print_components(tools, terminal)
    table.print_component(tools[2], {"Timeout": "none"}, terminal)
    lines = plain(printed(terminal))
    assert all(len(line) <= 80 for line in lines)
    assert "Timeout      none" in lines
    assert not any("\u00a0" in line for line in lines)


def test_a_line_is_not_broken_between_a_parameter_and_its_type(terminal: Terminal) -> None:
    table.print_components(collect(samples).tools, terminal)
    assert not any(line.endswith(":") for line in plain(printed(terminal)))
