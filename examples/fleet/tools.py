"""Tools that show which replica answers, and that all of them count together."""

from __future__ import annotations

import os

from toolcrib import tool


@tool(read_only=True)
def which_replica() -> int:
    """Return the process that answers.

    Returns:
        Process id of the replica
    """
    return os.getpid()


@tool(read_only=True)
def make_report(month: str) -> str:
    """Make the report of a month. All replicas together make five a minute.

    Args:
        month: Month such as 2026-11

    Returns:
        The report
    """
    return f"Report of {month}, made by process {os.getpid()}"
