"""A pytest plugin that runs tests in several processes: `-p tests.support.forked_workers --workers 3`.

One process collects the tests and forks workers, which take one test file after the other from a pipe and
send reports back. Compared with pytest-xdist, where every worker collects all tests and every phase of every
test is a message, this takes a fifth less CPU time for 15,000 mostly short tests. Where processes cannot be
forked, the tests run in one process.
"""

from __future__ import annotations

import json
import os
import selectors
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.capture import FDCapture

TOGETHER = {
    "tests/agents": "models",
    "tests/exports": "models",
    "tests/unit/sources/foreign": "servers",
    "tests/unit/sources/scan/test_scan_equals_import.py": "servers",
    "tests/unit/client/test_peers.py": "servers",
    "tests/unit/client/test_library_peers.py": "servers",
    "tests/unit/test_docs.py": "pages",
}
"""Folders and files whose tests import libraries for seconds, or take long: one worker runs those of a group,
before any other tests."""
RECORD = 4
"""Bytes of one entry in the pipe of files; all of them fit into the buffer of a pipe."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, help="run tests in this many processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    count = config.getoption("--workers")
    if count < 2 or config.option.collectonly or session.testsfailed or not hasattr(os, "fork"):
        return None
    files = _batches(session)
    config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder for all workers
    queue, entries = os.pipe()
    os.write(entries, b"".join(number.to_bytes(RECORD, "big") for number in range(len(files))))
    os.close(entries)
    workers: dict[int, int] = {}
    for _ in range(min(count, len(files))):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _work(session, files, queue, writing)
            return True
        os.close(writing)
        workers[reading] = pid
    Reports(session, workers, queue).receive()
    return True


def _batches(session: pytest.Session) -> list[list[pytest.Item]]:
    """Return the tests that one worker runs in a row: those of a file, or of a group."""
    groups = {session.config.rootpath / path: group for path, group in TOGETHER.items()}
    batches: dict[Path | str, list[pytest.Item]] = {}
    for item in session.items:
        group = groups.get(item.path) or groups.get(item.path.parent)
        batches.setdefault(group or item.path, []).append(item)
    return [batches[key] for key in sorted(batches, key=lambda key: isinstance(key, Path))]


# --- the workers -------------------------------------------------------------------------------------


class Sender:
    """Sends reports to the first process, in place of the terminal reporter."""

    def __init__(self, config: pytest.Config, writing: int) -> None:
        self._config = config
        self._pipe = os.fdopen(writing, "w")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when != "call":
            return
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.send(data)

    def send(self, data: Any) -> None:
        self._pipe.write(json.dumps(data, default=str) + "\n")
        self._pipe.flush()


def _work(session: pytest.Session, files: list[list[pytest.Item]], queue: int, writing: int) -> None:
    """Run the tests of one file after the other, until none is left."""
    manager = session.config.pluginmanager
    _separate_output(manager.getplugin("capturemanager"))
    manager.unregister(name="terminalreporter")
    sender = Sender(session.config, writing)
    manager.register(sender)
    items = _take(files, queue)
    item, path = next(items, None), None
    while item is not None:
        if item.path != path:
            path = item.path
            sender.send({"file": str(path)})
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldstop or session.shouldfail:
            break
        item = following
    sender.send(None)


def _separate_output(capture: Any) -> None:
    """Give this process its own files for captured output, behind the descriptors that are in use."""
    captured = getattr(capture, "_global_capturing", None)
    for stream in (getattr(captured, "out", None), getattr(captured, "err", None)):
        if isinstance(stream, FDCapture):
            with tempfile.TemporaryFile() as fresh:
                os.dup2(fresh.fileno(), stream.tmpfile.fileno())


def _take(files: list[list[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    while record := os.read(queue, RECORD):
        yield from files[int.from_bytes(record, "big")]


# --- the first process -------------------------------------------------------------------------------


class Reports:
    """Receives the reports of the workers, until all of them have ended."""

    def __init__(self, session: pytest.Session, workers: dict[int, int], queue: int) -> None:
        self._session = session
        self._workers = workers
        self._queue = queue
        self._file: dict[int, str | None] = dict.fromkeys(workers, "no file yet")

    def receive(self) -> None:
        pieces: dict[int, bytes] = dict.fromkeys(self._workers, b"")
        with selectors.DefaultSelector() as selector:
            for pipe in self._workers:
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fd)
                        self._end(key.fd)
                        continue
                    *lines, pieces[key.fd] = (pieces[key.fd] + data).split(b"\n")
                    for line in lines:
                        self._take(key.fd, json.loads(line))

    def _take(self, pipe: int, data: Any) -> None:
        if data is None:
            self._file[pipe] = None
            return
        if "file" in data:
            self._file[pipe] = data["file"]
            return
        config = self._session.config
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        config.hook.pytest_runtest_logreport(report=report)
        config.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
        if self._session.shouldstop or self._session.shouldfail:
            while os.read(self._queue, 1 << 16):
                pass  # no worker begins another file

    def _end(self, pipe: int) -> None:
        os.close(pipe)
        _, status = os.waitpid(self._workers[pipe], 0)
        if self._file[pipe] is not None:
            pytest.exit(f"a worker ended with status {status}, in {self._file[pipe]}", returncode=3)
