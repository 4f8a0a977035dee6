"""How code runs: on the loop, inline, on threads, in processes; under deadlines, watched, and reported on.

A `Runner` runs, a `Lane` counts what runs of one tool, `Raised` carries out what the tool's code raised, and
a `CrashReporter` writes that down. This package refuses to know tools, schemas and results.
"""

from toolcrib.execution.clock import Clock
from toolcrib.execution.crash import CrashReporter
from toolcrib.execution.lane import Lane, Raised
from toolcrib.execution.loop import is_in_loop, run_loop
from toolcrib.execution.runner import Runner

__all__ = ["Clock", "CrashReporter", "Lane", "Raised", "Runner", "is_in_loop", "run_loop"]
