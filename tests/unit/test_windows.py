"""Differences on Windows, with a fake platform: toolcrib was never run there (docs/platforms.md)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.records.key_files import Keys
from toolcrib.cli import app, questions, reload, workers
from toolcrib.policy.audit import checkpoints
from toolcrib.policy.auth import api_keys
from toolcrib.registry import folders
from toolcrib.sources.targets import _is_script
from toolcrib.state import files
from toolcrib.transports.http.server import HTTPServer, _affordable


class FakeOS(ModuleType):
    """The module `os`, as far as it is named there."""

    name = "nt"

    def __getattr__(self, attribute: str) -> Any:
        return getattr(os, attribute)


@pytest.fixture
def _nt(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (api_keys, checkpoints, files, reload):
        monkeypatch.setattr(module, "os", FakeOS("os"))


@pytest.mark.usefixtures("_nt")
def test_modes_of_files_mean_nothing(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    keys.create("ana")
    key, database = tmp_path / "audit.key", tmp_path / "state.db"
    key.write_bytes(b"k" * 32)
    database.touch()
    for file in (keys.path, key, database):
        file.chmod(0o666)
    assert [found.name for found in keys.entries()] == ["ana"]
    assert checkpoints._read(key) == b"k" * 32
    files.create_database(database)
    assert list(reload.find_world_writable([str(database)])) == []


def test_several_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    done = CliRunner().invoke(app, ["serve", "--samples", "--port", "0", "--workers", "2"])
    assert done.exit_code == 2
    assert "--workers is not supported on Windows" in done.stderr


def test_connections_do_not_share_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def buffers() -> tuple[memoryview, memoryview]:
        server = HTTPServer.__new__(HTTPServer)
        server._buffer = memoryview(bytearray(8))
        return server.read_buffer, server.read_buffer

    monkeypatch.setattr(sys, "platform", "win32")
    first, second = asyncio.run(buffers())
    assert first.obj is not second.obj


def test_open_files_have_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert _affordable(10**6) == 10**6


def test_names_of_files_have_no_backslash_and_no_colon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("a\\b.txt", "c:d.txt", "plain.txt"):
        (tmp_path / name).write_text("x")
    monkeypatch.setattr(folders, "FORBIDDEN", "\0\\:")
    folder = folders.Folder(tmp_path)
    assert [entry.path for entry in folder.files()] == ["plain.txt"]


def test_a_program_is_a_console_script(tmp_path: Path) -> None:
    assert _is_script(tmp_path / "toolcrib.exe")


class Supervisor:
    is_stopping = False

    def stop(self) -> None:
        self.is_stopping = True


async def test_a_signal_stops_the_workers_where_the_event_loop_handles_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", refuse)
    before = {number: signal.getsignal(number) for number in workers.SIGNALS}
    supervisor: Any = Supervisor()
    try:
        with workers._stopped_by_signals(supervisor, []):
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert supervisor.is_stopping


async def test_a_line_is_read_on_a_thread_where_the_event_loop_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise NotImplementedError

    class Terminal:
        def fileno(self) -> int:
            return 0

        def readline(self) -> str:
            return "yes\n"

    monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
    monkeypatch.setattr(questions.sys, "stdin", Terminal())
    assert await questions.read_line() == "yes\n"
