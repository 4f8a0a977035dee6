"""Kills with SIGKILL: what a process was told is written is there, and nothing is written twice."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.state.base import Space
from toolcrib.state.sqlite.state import SQLiteState

MARKS = Space("marks", 10**6, 10**9, 100, 10**6, "refuse", True)
PROGRAM = """\
import asyncio, sys
from pathlib import Path
from toolcrib.state.base import Check, Space, Write
from toolcrib.state.sqlite.state import SQLiteState

MARKS = Space("marks", 10**6, 10**9, 100, 10**6, "refuse", True)


async def main():
    values = SQLiteState(Path(sys.argv[1])).values
    for number in range(int(sys.argv[2]), 10**6):
        key = f"{number:06}"
        if await values.commit([Write(MARKS, key, sys.argv[3].encode(), None)], [Check(MARKS, key, 0)]):
            print(key, flush=True)


asyncio.run(main())
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=pytest.mark.long)], ids=["daily", "long"])
async def test_a_mark_that_was_acknowledged_is_kept_and_used_once(tmp_path: Path, rounds: int) -> None:
    dice, path, users = random.Random(5), tmp_path / "state.db", dict[str, str]()
    first = 0
    for round_ in range(rounds):
        processes = {
            f"{round_} {name}": subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(path), str(first), f"{round_} {name}"],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in "abc"
        }
        for name, process in processes.items():
            assert process.stdout is not None
            for _ in range(dice.randrange(5, 30)):
                key = process.stdout.readline().strip()
                assert users.setdefault(key, name) == name
            process.send_signal(signal.SIGKILL)
        for name, process in processes.items():
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith("\n"):
                    assert users.setdefault(line.strip(), name) == name
            process.stdout.close()
            assert process.wait() == -signal.SIGKILL
        first = max(int(key) for key in users) - 3
    state = SQLiteState(path)
    for key, name in users.items():
        item = await state.values.get(MARKS, key)
        assert item is not None
        assert item.value.decode() == name
    await asyncio.wait_for(state.close(), 5)
