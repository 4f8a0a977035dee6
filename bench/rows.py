"""The rows that are measured in process: what each measures, and the goal it is held to.

A row is a function from the lab to lines of the table. Those of the wire are in `wire/rows.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from bench.lab import Job, Lab, Outcome, last_json, median, run_python, statement
from bench.lines import OURS, PEERS, AtLeast, AtMost, Goal, Line, quotient
from bench.subjects import FIRST_SERVERS, IMPORTS


def registration(lab: Lab) -> list[Line]:
    """Registering functions, and building all their definitions."""
    jobs = {name: lab.probe(name, "register", "--define", count=1000) for name in lab.libraries}
    outcomes = lab.rounds("register and define", 2 if lab.quick else 5, jobs)
    further = {name: _per_further_tool(outcomes.get(name), 1000) for name in lab.libraries}
    counts = (1000, 10_000) if lab.has(OURS) else ()
    growing = {f"{count} tools": lab.probe(OURS, "register", count=count) for count in counts}
    grown = lab.rounds("register many", 3 if lab.quick else 11, growing)
    small, large = (_per_further_tool(grown.get(f"{count} tools"), count) for count in (1000, 10_000))
    return [
        Line(
            "register",
            "1,000 functions",
            "time",
            {name: median(outcomes.get(name), "register_s") for name in lab.libraries},
            tuple(AtLeast(peer, 20) for peer in PEERS),
        ),
        Line("register", "each further, of 1,000", "time", further),
        Line("register", "each further, of 10,000 (peers 1,000)", "time", further | {OURS: large}),
        Line(
            "register",
            "growth 1,000 to 10,000",
            "factor",
            {OURS: quotient(large, small)},
            (AtMost(1.2),),
        ),
        Line(
            "define",
            "1,000 definitions",
            "time",
            {name: median(outcomes.get(name), "define_s") for name in lab.libraries},
            tuple(AtLeast(peer, 4) for peer in PEERS),
        ),
    ]


def calls(lab: Lab) -> list[Line]:
    """One call of a trivial function, in process."""
    wanted: list[tuple[str, list[str], tuple[Goal, ...]]] = [
        ("async function", ["--kind", "async"], (AtLeast("mcp", 1, aim=1.5), AtLeast("fastmcp", 25))),
        ("sync function", ["--kind", "sync"], (AtLeast("mcp", 2), AtLeast("fastmcp", 6))),
    ]
    if hasattr(os, "sched_setaffinity"):
        # What a hop between threads costs depends on the cores they happen to run on; here it cannot.
        wanted.append(("sync function, one core", ["--kind", "sync", "--one-core"], ()))
    lines = []
    for label, arguments, goals in wanted:
        jobs = {name: lab.probe(name, "call", *arguments, "--batch-s", lab.batch_s) for name in lab.libraries}
        outcomes = lab.rounds(f"call, {label}", 3 if lab.quick else 7, jobs)
        figures = {name: median(outcomes[name], "call_s") for name in lab.libraries}
        lines.append(Line("call", label, "time", figures, goals))
    return lines


def scale(lab: Lab) -> list[Line]:
    """What a call costs as tools become many."""
    counts = {OURS: (10, 1000, 10_000), "mcp": (10, 1000), "fastmcp": (10, 1000)}
    jobs = {
        f"{name}, {count} tools": lab.probe(name, "scale", "--batch-s", lab.batch_s, count=count)
        for name in lab.libraries
        for count in counts[name]
    }
    if OURS in lab.libraries:
        jobs["growth"] = lab.probe(OURS, "growth", count=10_000)
    outcomes = lab.rounds("scale", 1 if lab.quick else 3, jobs)

    def figures(count: int) -> dict[str, float | None]:
        return {name: median(outcomes.get(f"{name}, {count} tools"), "call_s") for name in lab.libraries}

    few, many, most = figures(10), figures(1000), figures(10_000)
    return [
        Line("scale", "call among 10 tools", "time", few),
        Line("scale", "call among 1,000 tools", "time", many),
        Line("scale", "call among 10,000 tools (peers 1,000)", "time", many | {OURS: most.get(OURS)}),
        Line(
            "scale",
            "growth 10 to 1,000",
            "factor",
            {name: quotient(many[name], few[name]) for name in lab.libraries},
        ),
        Line(
            "scale",
            "growth 10 to 10,000, in one process",
            "factor",
            {OURS: median(outcomes.get("growth"), "growth")},
            (AtMost(1.2),),
        ),
    ]


def imports(lab: Lab) -> list[Line]:
    """Importing the library in a fresh interpreter, and making an empty server."""
    jobs: dict[str, Job] = {}
    for name in lab.libraries:
        jobs[name] = partial(statement, IMPORTS[name])
        jobs[f"{name}, server"] = partial(statement, FIRST_SERVERS[name])
    outcomes = lab.rounds("import", 5 if lab.quick else 9, jobs, warm_up=1)  # which may write bytecode

    def figures(key: str, suffix: str = "") -> dict[str, float | None]:
        return {name: median(outcomes[name + suffix], key) for name in lab.libraries}

    goals = (AtLeast("mcp", 4),)
    return [
        Line("import", "import, CPU", "time", figures("cpu_s"), goals),
        Line("import", "import, wall", "time", figures("wall_s"), goals),
        Line("import", "import and empty server, CPU", "time", figures("cpu_s", ", server")),
    ]


def sizes(lab: Lab) -> list[Line]:
    """The tool list of the fifty sample functions."""
    jobs = {name: lab.probe(name, "size") for name in lab.libraries}
    outcomes = {name: results[0] for name, results in lab.rounds("size", 1, jobs).items() if results}
    for name, outcome in outcomes.items():
        for tool, problem in outcome["refused"].items():
            print(f"note: {name} refuses {tool}: {problem}", file=sys.stderr)

    def figures(key: str) -> dict[str, float | None]:
        return {name: float(outcome[key]) for name, outcome in outcomes.items()}

    words = max((outcome["words"] for outcome in outcomes.values()), default=0)
    parameters = max((outcome["parameters"] for outcome in outcomes.values()), default=0)
    return [
        Line("size", "bytes of the tool list", "bytes", figures("bytes")),
        Line("size", f"words lost, of {words:,}", "count", figures("lost"), (AtMost(0),)),
        Line("size", "words kept, but not sent", "count", figures("kept_back")),
        Line("size", f"parameters described, of {parameters}", "count", figures("described")),
        Line("size", "functions accepted, of 50", "count", figures("tools")),
    ]


def contact(lab: Lab) -> list[Line]:
    """From the start of a process to its first tool list."""
    jobs = {name: lab.contact(name, 20) for name in lab.libraries}
    outcomes = lab.rounds("first contact", 3 if lab.quick else 5, jobs)
    return [
        Line("contact", f"20 functions listed, {label}", "time", {n: median(outcomes[n], key) for n in jobs})
        for label, key in (("CPU", "cpu_s"), ("wall", "wall_s"))
    ]


def foreign(lab: Lab) -> list[Line]:
    """Servers of the other libraries, adopted: plain functions, and calls through their handlers."""
    jobs: dict[str, Job] = {}
    for peer in filter(lab.has, PEERS):
        jobs[peer] = partial(_probe_foreign, peer, lab.batch_s)
    outcomes = lab.rounds("foreign", 1 if lab.quick else 3, jobs)
    lines = []
    for peer in jobs:
        plain, bridged = (median(outcomes[peer], key) for key in ("plain", "bridged"))
        label = f"plain function of {peer}, ASGI, in native calls"
        lines.append(Line("foreign", label, "factor", {OURS: plain}, (AtMost(1.02),)))
        label = f"handlers of {peer}, in calls by its client"
        lines.append(Line("foreign", label, "factor", {OURS: bridged}, (AtMost(1.15),)))
    figures = {peer: median(outcomes[peer], "home_s") for peer in jobs}
    for peer in jobs:
        ours = {OURS: median(outcomes[peer], "bridged_s"), peer: figures[peer]}
        lines.append(Line("foreign", f"handlers of {peer}, CPU", "time", ours))
    return lines


def _probe_foreign(peer: str, batch_s: str) -> Outcome:
    return last_json(run_python(["-m", "bench.foreign", peer, batch_s]))


# By the names that --only takes; register and define are measured together.
ROWS: dict[str, Callable[[Lab], list[Line]]] = {
    "register": registration,
    "call": calls,
    "scale": scale,
    "import": imports,
    "size": sizes,
    "contact": contact,
    "foreign": foreign,
}


def _per_further_tool(outcomes: Sequence[Outcome] | None, count: int) -> float | None:
    """Cost of a tool after the first: what is paid once must not flatter the comparison of two counts."""
    if not outcomes:
        return None
    return median([{"s": (o["register_s"] - o["first_s"]) / (count - 1)} for o in outcomes], "s")
