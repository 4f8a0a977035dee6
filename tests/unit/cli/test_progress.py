"""Progress of long work: on terminals only, and gone when the work is done."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from tests.support.system import fork_server
from tests.support.system.pseudo_terminal import plain, run_on_terminal
from toolcrib.cli.output import Progress, Terminal

TOOLS = """
from toolcrib import Context, tool

@tool
def count(steps: int, ctx: Context) -> str:
    '''Count the steps.

    Args:
        steps: How many
    '''
    for step in range(steps):
        ctx.progress(step + 1, steps, f"step {step + 1}")
    return "done"
"""
AT_ONCE = """
from toolcrib.cli import app, output
output.PROGRESS_DELAY_S = output.PROGRESS_INTERVAL_S = 0
app(prog_name="toolcrib")
"""


class FakeTTY(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / f"{name}.py").write_text(TOOLS.replace("def count", f"def {name}"))
    return tmp_path


def lines_of(stream: io.StringIO) -> list[str]:
    return [line.rstrip() for line in stream.getvalue().split("\r") if line.strip()]


def test_counts_appear_after_a_second() -> None:
    err, now_s = FakeTTY(), [0.0]
    with Progress(Terminal(FakeTTY(), err, debug=False), "reading files", lambda: now_s[0]) as progress:
        for done in range(5):
            now_s[0] = done * 0.5
            progress(done, 40)
        assert lines_of(err) == [
            "reading files 2/40",
            "reading files 3/40",
            "reading files 4/40",
        ]
        now_s[0] += 0.01
        progress(5, 40)
        assert len(lines_of(err)) == 3
    assert err.getvalue().endswith(" \r")


def test_a_count_without_a_total_is_shown_alone() -> None:
    err = FakeTTY()
    Progress(Terminal(FakeTTY(), err, debug=False), "exporting").show(7, None, "still busy")
    assert lines_of(err) == ["exporting 7 still busy"]


def test_nothing_is_shown_where_stderr_is_not_a_terminal() -> None:
    err = io.StringIO()
    Progress(Terminal(FakeTTY(), err, debug=False), "reading files").show(1, 2)
    assert err.getvalue() == ""


def test_other_output_replaces_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    err = FakeTTY()
    terminal = Terminal(FakeTTY(), err, debug=False)
    terminal.status("half done")
    terminal.message("warning", "careful")
    assert err.getvalue() == "\rhalf done\r         \rwarning: careful\n"


def test_a_call_of_a_local_tool_shows_its_progress_and_clears_it(folder: Path) -> None:
    words = ("call", "tools/first.py:first", "steps=4")
    shown = run_on_terminal(*words, cwd=folder)
    assert "\r2/4 step 2" in shown
    assert re.search(r"\r +\rdone\n$", shown)
    piped = fork_server.run("-m", "toolcrib", *words, cwd=folder)
    assert (piped.stdout, piped.stderr) == (b"done\n", b"")


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["list", "tools"], ["importing files", "building tools"]),
        (["check", "tools"], ["importing files", "building tools", "inspecting tools"]),
        (["scan", "tools"], ["reading files", "building tools"]),
        (["check", "--static", "tools"], ["reading files", "building tools", "inspecting tools"]),
        (["export", "--to", "openai", "tools"], ["importing files", "exporting tools"]),
        (["lock", "tools"], ["importing files", "building tools", "locking tools"]),
        (["diff", "old.lock", "tools"], ["importing files", "building tools", "comparing tools"]),
    ],
    ids=lambda value: value[0],
)
def test_every_step_of_long_work_is_shown(folder: Path, words: list[str], steps: list[str]) -> None:
    fork_server.run("-m", "toolcrib", "lock", "tools", "--output", "old.lock", cwd=folder)
    shown = plain(run_on_terminal(*words, cwd=folder, program=("-c", AT_ONCE)))
    for step in steps:
        assert f"\r{step} 1/2" in shown, shown
    piped = fork_server.run("-c", AT_ONCE, *words, cwd=folder)
    assert not any(step.encode() in piped.stdout + piped.stderr for step in steps)
