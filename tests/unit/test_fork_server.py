"""A forked program sees what a new interpreter would show it, and ends as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.system import fork_server

PROGRAM = """
import json, os, sys
main = sys.modules["__main__"]
streams = (sys.stdin, sys.stdout, sys.stderr)
streams = [[each.encoding, each.errors, each.line_buffering, each.write_through] for each in streams]
facts = [sys.argv, sys.path, os.getcwd(), os.environ["WORD"], streams, sys.stdin.read()]
print(json.dumps([*facts, getattr(main, "__file__", None), main.__spec__ and main.__spec__.name, __name__]))
print("done", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize("way", ["file", "module", "code"])
def test_a_fork_is_told_from_a_new_interpreter_by_nothing_but_its_speed(way: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    started = {
        "file": [str(tmp_path / "program.py")],
        "module": ["-m", "program"],
        "code": ["-c", PROGRAM],
    }[way]
    words = [*started, "a", "--b"]
    environ = {**os.environ, "WORD": "żółw", "PYTHONPATH": os.pathsep.join(["library", "/nowhere"])}
    options = {"cwd": tmp_path, "env": environ, "text": True, "input": "come in"}
    anew = subprocess.run([sys.executable, *words], capture_output=True, check=False, **options)
    command = fork_server.command_of(*words)
    started_by_command = subprocess.run(command, capture_output=True, check=False, **options)
    assert (anew.returncode, anew.stderr) == (3, "done\n")
    for fork in (fork_server.run(*words, **options), started_by_command):
        assert (fork.returncode, fork.stdout, fork.stderr) == (3, anew.stdout, anew.stderr)


def test_a_fork_that_raises_prints_its_traceback_and_fails() -> None:
    done = fork_server.run("-c", "1 / 0", text=True)
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_a_fork_ends_by_signals() -> None:
    code = "print('ready', flush=True); import time; time.sleep(60)"
    for number in (signal.SIGTERM, signal.SIGKILL):
        with fork_server.launch("-c", code, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
            process.send_signal(number)
            assert process.wait(60) == -number


def test_a_fork_ends_with_the_command_that_started_it() -> None:
    command = fork_server.command_of("-c", "print('ready', flush=True); import time; time.sleep(60)")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.stdout.read() == b""  # the fork was the last to hold the other end
