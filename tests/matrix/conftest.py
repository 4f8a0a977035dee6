"""The summary of a run: a line for each version, each server from PyPI and each other test."""

from __future__ import annotations

from typing import Any

import pytest

_COLUMNS = ("library", "samples", "tools", "calls")
_OUTCOMES = ("passed", "failed", "error", "xfailed", "xpassed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [item for outcome in _OUTCOMES for item in terminalreporter.stats.get(outcome, ())]
    rows = [_row(report) for report in reports if getattr(report, "user_properties", None)]
    if not rows:
        return
    terminalreporter.section("matrix")
    table = [("", *_COLUMNS, "seconds", "result"), *sorted(rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        terminalreporter.write_line(line.rstrip())


def _row(report: Any) -> tuple[str, ...]:
    known = {name: str(value) for name, value in report.user_properties}
    cells = (known.get(name, "") for name in _COLUMNS)
    return (known["name"], *cells, f"{report.duration:.0f}", report.outcome)
