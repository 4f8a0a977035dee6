"""Runs measurements in fresh processes, round by round, so that a busy minute hits every library alike."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import functions
from bench.lines import Panel

ROOT = Path(__file__).resolve().parent.parent
SILENT = {
    "FASTMCP_LOG_ENABLED": "false",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "NO_COLOR": "1",
    "PYTHONWARNINGS": "ignore",
}

# `time` is built in, so importing it takes nothing from the measured code.
TIMED = """
import time
wall_s, cpu_s = time.perf_counter(), time.process_time()
{code}
cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
print('{{"cpu_s": %r, "wall_s": %r}}' % (cpu_s, wall_s))
"""

Outcome = dict[str, Any]
Job = Callable[[], Outcome]


class ProbeError(RuntimeError):
    """A measurement ended with an error; carries its last words."""


@dataclass
class Lab:
    """Where measurements are made and kept: the libraries at hand, how thorough to be, every raw result."""

    folder: Path
    libraries: tuple[str, ...]
    quick: bool = False
    records: dict[str, list[Outcome]] = field(default_factory=dict)
    panels: list[Panel] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    _made: set[int] = field(default_factory=set)

    @property
    def batch_s(self) -> str:
        return "0.03" if self.quick else "0.06"

    def has(self, library: str) -> bool:
        return library in self.libraries

    def rounds(
        self, title: str, count: int, jobs: Mapping[str, Job], *, warm_up: int = 0
    ) -> dict[str, list[Outcome]]:
        """Every job once, then every job once more, and so on; results by the name of the job.

        A job that fails has no results and is not tried again; the others go on. What the first `warm_up`
        rounds yield is forgotten.
        """
        outcomes: dict[str, list[Outcome]] = {name: [] for name in jobs}
        failed: set[str] = set()
        print(f"{title} ", end="", file=sys.stderr, flush=True)
        for number in range(-warm_up, count):
            print("." if number >= 0 else "o", end="", file=sys.stderr, flush=True)
            for name, job in jobs.items():
                if name in failed:
                    continue
                try:
                    outcome = job()
                except ProbeError as problem:
                    failed.add(name)
                    outcomes[name] = []
                    self.lose(f"{title}: {name}", str(problem))
                    continue
                if number >= 0:
                    outcomes[name].append(outcome)
        print(file=sys.stderr)
        self.records.update({f"{title}: {name}": results for name, results in outcomes.items()})
        return outcomes

    def lose(self, what: str, problem: str) -> None:
        """Note, here and in the report, that something could not be measured."""
        self.lost[what] = problem
        print(f"\nnote: {what} is left out: {problem.splitlines()[-1]}", file=sys.stderr, flush=True)

    def warm_up(self) -> None:
        """Import what the libraries import early and late, so that no measurement pays for compiling them."""
        for library in self.libraries:
            self.contact(library, 20)()
            self.probe(library, "size")()
            for kind in ("async", "sync"):
                self.probe(library, "call", "--kind", kind, "--batch-s", "0.001")()

    def probe(self, library: str, measure: str, *options: str, count: int | None = None) -> Job:
        """A job that runs `bench.probe`; `count` names the made module it needs."""
        command = ["-m", "bench.probe", library, measure, *options]
        if count is not None:
            self.make(count)
            command += ["--count", str(count), "--folder", str(self.folder)]
        return lambda: last_json(run_python(command))

    def contact(self, library: str, count: int) -> Job:
        """A job that times a process from its start until it has listed `count` tools."""
        self.make(count)

        def job() -> Outcome:
            begin = time.monotonic()
            outcome = last_json(run_python(["-m", "bench.contact", library, str(self.folder), str(count)]))
            return {"wall_s": outcome["at_s"] - begin, "cpu_s": outcome["cpu_s"]}

        return job

    def make(self, count: int) -> None:
        """Write the module of `count` functions, and its bytecode, once."""
        if count not in self._made:
            self._made.add(count)
            functions.write_module(self.folder, count)
            run_python(["-m", "compileall", "-q", str(self.folder)])


def keep_bytecode(folder: Path) -> None:
    """Have every process keep compiled modules in `folder`: imports are compared as they are in use.

    Some environments forbid writing bytecode, and then an import costs what compiling costs.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def statement(code: str) -> Outcome:
    """CPU and wall seconds of `code` in a fresh interpreter, its start and end left out."""
    return last_json(run_python(["-c", TIMED.format(code=code)]))


def run_python(arguments: list[str], *, timeout_s: float | None = None) -> str:
    """What a fresh interpreter prints."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **SILENT},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"{' '.join(arguments)} took more than {timeout_s:g} s") from None
    if done.returncode:
        raise ProbeError(f"{' '.join(arguments)} ended with {done.returncode}\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def last_json(output: str) -> Outcome:
    """The object on the last line: a library may have printed before it."""
    outcome: Outcome = json.loads(output.strip().splitlines()[-1])
    return outcome


def median(outcomes: list[Outcome] | None, key: str) -> float | None:
    """The median of one figure over all rounds; None where the library was not there."""
    return statistics.median(outcome[key] for outcome in outcomes) if outcomes else None
