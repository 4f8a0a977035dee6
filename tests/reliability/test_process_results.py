"""Results of tools in worker processes: data, never code, and the same as those of tools on threads."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.definitions import process_kinds
from tests.support.hostile import process_tools as hostile_process
from toolcrib import MCPServer


def functions_of(module: object) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if inspect.isfunction(thing) and thing.__module__ == getattr(module, "__name__", "")
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[MCPServer]:
    """Every tool twice, on a thread and in a process: processes are slow to start, so all tests share it."""
    server = MCPServer()
    for name in functions_of(hostile_process):
        server.add(getattr(hostile_process, name), run="process")
    for name in functions_of(process_kinds):
        server.add(getattr(process_kinds, name), name=f"{name}_here")
        server.add(getattr(process_kinds, name), name=f"{name}_there", run="process")
    yield server
    server.dispatcher.close()


@pytest.mark.parametrize("name", ["give", "give_inside", "fail", "fail_with_details", "write_to_the_pipe"])
async def test_nothing_that_a_process_sends_runs_in_the_server(
    server: MCPServer, name: str, tmp_path: Path
) -> None:
    result = await server.call(name, {"folder": str(tmp_path)})
    for _ in range(2):  # what was written too much must not become the answer to another call
        assert (await server.call("add", {"a": 1, "b": 2})).structured_content == 3
    assert not (tmp_path / str(os.getpid())).exists()
    assert result.is_error or name == "write_to_the_pipe"


@pytest.mark.parametrize("name", functions_of(process_kinds))
async def test_a_result_is_the_same_from_a_process_as_from_a_thread(server: MCPServer, name: str) -> None:
    here = await server.call(f"{name}_here")
    there = await server.call(f"{name}_there")
    assert there.to_json() == here.to_json() or (
        there.is_error and here.is_error and there.text.replace("_there", "_here") == here.text
    )


async def test_a_crash_in_a_process_is_named_in_the_log_with_its_place(
    server: MCPServer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with caplog.at_level(logging.ERROR, "toolcrib"):
        result = await server.call("fail", {"folder": str(tmp_path)})
        server.dispatcher.crashes.flush()
    assert result.text.startswith("Tool 'fail' failed unexpectedly (reference ")
    assert "raised BombError: bomb" in caplog.text
    assert "process_tools.py" in caplog.text
