"""What people see on a terminal: colours, a hanging indent, lines that fit."""

from __future__ import annotations

import io
import re

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


def test_a_finding_is_wrapped_under_a_hanging_indent(terminal: Terminal) -> None:
    table.print_report([("refused", "find_user", "tools.py:10")], [LONG], "in sum", terminal)
    lines = plain(printed(terminal))
    assert lines[0] == "refused  find_user  tools.py:10"
    assert lines[2].startswith("/elsewhere/tools.py:10: error: Parameter 'user'")
    assert lines[3].startswith("    ")
    assert any(line.startswith("    hint: import") for line in lines)
    assert lines[-1] == "in sum"
    assert all(len(line) <= 80 for line in lines)
    words = " ".join(" ".join(lines).split())
    assert LONG.message in words
    assert LONG.hint is not None
    assert LONG.hint in words


def test_without_a_terminal_a_finding_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(io.StringIO(), io.StringIO(), debug=False)
    table.print_report([], [LONG], "in sum", terminal)
    assert printed(terminal).splitlines() == [
        f"/elsewhere/tools.py:10: error: {LONG.message} [invalid-signature]",
        f"    hint: {LONG.hint}",
        "",
        "in sum",
    ]


def test_levels_and_states_have_their_colours(terminal: Terminal) -> None:
    table.print_report([("ok", "add", "x.py:1")], [LONG], "in sum", terminal)
    assert "\x1b[32mok\x1b[0m" in printed(terminal)
    assert "\x1b[31m\x1b[1merror: \x1b[0m" in printed(terminal)


def test_the_list_and_one_tool_fit_the_terminal(terminal: Terminal) -> None:
    tools = collect(samples).tools
    table.print_tools(tools, terminal)
    table.print_tool(tools[2], None, terminal)
    lines = plain(printed(terminal))
    assert all(len(line) <= 80 for line in lines)
    assert "Timeout      none" in lines
    assert not any("\u00a0" in line for line in lines)


def test_a_line_is_not_broken_between_a_parameter_and_its_type(terminal: Terminal) -> None:
    table.print_tools(collect(samples).tools, terminal)
    assert not any(line.endswith(":") for line in plain(printed(terminal)))
