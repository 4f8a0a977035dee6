"""Hostile schemas are refused or checked quickly; nothing is fetched."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.bombs import BOMBS
from tests.support.system.machine_speed import slowdown

pytestmark = pytest.mark.row("C2")

ROOT = Path(__file__).parents[2]
BUDGET_S = 2.0
LIMIT_S = 0.05
"""CPU seconds on an ordinary machine."""

REFUSED = {
    *("deep nesting", "deep allOf", "many parts", "huge enum", "enum of lists", "one of thousands"),
    *("loop", "loop through allOf", "loop at the root", "dynamic loop", "recursive loop", "anchor loop"),
    *("the same anchor twice", "loop behind an inner $id", "reference into data", "reference to nothing"),
    *("long chain of references", "unevaluated over unevaluated", "if within if"),
    *(
        "a pattern that fills the memory",
        "a pattern of a megabyte",
        "look-ahead",
        "back-reference",
        "unclosed",
    ),
    *("a costly pattern of an old draft", "infinite bound", "dependencies of an old draft"),
    *(name for name in BOMBS if name.startswith("remote") and name != "remote id"),
    *(name for name in BOMBS if name.startswith("local file")),
    *("relative to a remote id",),
}
RAN = {"remote id", "unique objects", "dependentSchemas, a chain", "tiny multiple"}


class Listener:
    """Counts who comes to a port on the loopback."""

    def __init__(self) -> None:
        self.visits = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:
                return
            self.visits += 1
            visitor.close()

    def close(self) -> None:
        self._socket.close()


class Range:
    """A child process that sets off bombs; one that takes too long ends with it, and the rest goes on."""

    def __init__(self, place: str, file: str) -> None:
        self._command = [sys.executable, "-m", "tests.reliability.bombs", place, file]
        self.reports: dict[str, dict[str, Any]] = {}

    def run(self, names: list[str]) -> None:
        waiting = list(names)
        while waiting:
            with subprocess.Popen([*self._command, *waiting], stdout=subprocess.PIPE, cwd=ROOT) as child:
                self._watch(child)
                child.kill()
            if not any(name in self.reports for name in waiting):
                raise AssertionError("the process ended before its first bomb")
            waiting = [name for name in waiting if name not in self.reports]

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        current, patience = None, 30.0  # for the interpreter and its imports
        buffer = b""
        while True:
            if b"\n" not in buffer:
                ready, _, _ = select.select([child.stdout], [], [], patience)
                chunk = os.read(child.stdout.fileno(), 1 << 16) if ready else b""
                if not chunk:
                    if current is not None:
                        self.reports[current] = {"outcome": "overran" if not ready else "died"}
                    return
                buffer += chunk
                continue
            line, buffer = buffer.split(b"\n", 1)
            report = json.loads(line)
            if "began" in report:
                current, patience = report["began"], BUDGET_S * 3  # it is tried three times
            else:
                self.reports[report.pop("name")] = report
                current = None


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def reports(listener: Listener, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    # Anyone who opens this file waits for ever, since nobody writes to it.
    file = tmp_path_factory.mktemp("bombs") / "schema.json"
    os.mkfifo(file)
    target = Range(listener.place, str(file))
    target.run(list(BOMBS))
    for _ in range(12):  # the machine may be busy with something else
        limit = LIMIT_S * slowdown()
        slow = [name for name, report in target.reports.items() if report.get("took", 0) >= limit]
        if not slow:
            break
        again = Range(listener.place, str(file))
        again.run(slow)
        target.reports.update(again.reports)
    for report in target.reports.values():
        report["is_slow"] = report.get("took", 0) >= limit
    return target.reports


def test_there_are_enough_bombs() -> None:
    assert len(BOMBS) >= 40
    assert {*REFUSED, *RAN} <= BOMBS.keys()


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_or_done_in_no_time(name: str, reports: dict[str, dict[str, Any]]) -> None:
    report = reports[name]
    assert report["outcome"] in ("refused", "wrong arguments", "ran"), report
    assert not report["is_slow"], report
    assert len(report["words"]) < 3_000
    if name in REFUSED:
        assert report["outcome"] == "refused", report
    if name in RAN:
        assert report["outcome"] == "ran", report


def test_nothing_was_fetched(reports: dict[str, dict[str, Any]], listener: Listener) -> None:
    assert len(reports) == len(BOMBS)
    assert listener.visits == 0
    with socket.create_connection(("127.0.0.1", int(listener.place.rpartition(":")[2]))):
        pass  # and the listener does count
    for _ in range(200):
        if listener.visits:
            break
        threading.Event().wait(0.01)
    assert listener.visits == 1
