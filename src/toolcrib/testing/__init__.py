"""Test your tools: a client for plain tests, fakes for questions, golden definitions, and a fuzzer.

    from toolcrib import testing

    def test_taking_returns_what_is_left():
        with testing.client("tools.py") as client:
            assert client.call("take", article="tea").structured_content == 2

Everything takes a server, or whatever `server.add` takes. Nothing here needs a test framework.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from toolcrib.catalog.compare import Comparison, compare
from toolcrib.catalog.compare_schemas import GRADES, Grade
from toolcrib.catalog.lock import Lock
from toolcrib.testing.clients import CANCEL, DECLINE, SyncClient, client, connect, fixture, server_of
from toolcrib.testing.fuzzer import FuzzReport, fuzz

__all__ = [
    "CANCEL",
    "DECLINE",
    "FuzzReport",
    "SyncClient",
    "assert_definitions",
    "client",
    "connect",
    "fixture",
    "fuzz",
]

UPDATE = "TOOLCRIB_UPDATE"
"""The environment variable with which `assert_definitions` writes the golden file."""


def assert_definitions(
    target: Any, file: str | os.PathLike[str], *, fail_on: Grade = "cosmetic", update: bool | None = None
) -> None:
    """Compare the definitions of all tools with a golden file, which is a lock file of toolcrib.

    A relative path is beside the file of the caller. A missing file is written, but not in CI (`CI` is set).
    Raise AssertionError with graded changes if one has the grade `fail_on` or a worse one. Set
    TOOLCRIB_UPDATE=1 to accept them, or `update`.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    path = Path(file)
    if not path.is_absolute():
        caller = Path(sys._getframe(1).f_code.co_filename)
        path = caller.parent / path if caller.is_file() else path
    lock = Lock.of((entry.tool for entry in server_of(target).registry.entries()), path)
    accept = f"review them, then run the test with {UPDATE}=1 and commit the file"
    if update is None:
        update = os.environ.get(UPDATE, "") not in ("", "0")
    if update or (not path.exists() and not os.environ.get("CI")):
        lock.save()
        return
    if not path.exists():
        raise AssertionError(f"There is no golden file {path}: run the test outside of CI and commit it")
    comparison = compare(Lock.load(path).tools, lock.tools)
    if comparison.at_least(fail_on):
        changes = "\n".join(_format_changes(comparison))
        raise AssertionError(f"Definitions differ from {path}:\n{changes}\nhint: {accept}")


def _format_changes(comparison: Comparison) -> Iterator[str]:
    width = max(map(len, GRADES))
    for tool, changes in groupby(comparison.changes, key=lambda change: change.tool):
        yield f"  {tool}"
        for change in changes:
            yield f"    {change.grade.ljust(width)}  {change.message}"
            for sign, value in (("-", change.old), ("+", change.new)):
                if value is not None:
                    yield f"    {' ' * width}  {sign} {value}"
