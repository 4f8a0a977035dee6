"""The rows about catalogs: searching many tools, reading tools from source, and a catalog from its cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench import functions
from bench.lab import Job, Lab, ProbeError, last_json, median, run_python
from bench.lines import OURS, AtLeast, AtMost, Line, quotient
from bench.shelf.app_questions import APP_QUESTIONS, KEPT_ASIDE
from bench.shelf.questions import QUESTIONS

MANY = 10_000
FILES, PER_FILE = 40, 25


def search(lab: Lab) -> list[Line]:
    """One search among 10,000 tools, and what is found of what people ask for."""
    names = [name for name in lab.libraries if name in (OURS, "fastmcp")]
    rounds = 2 if lab.quick else 5
    timed = lab.rounds("search", rounds, {name: _probe(name, "search") for name in names})
    built = lab.rounds("search, index", rounds, {OURS: _probe(OURS, "index")} if lab.has(OURS) else {})
    judged = lab.rounds("search, questions", 1, {name: _probe(name, "judge") for name in names})
    asked = lab.rounds("search, applications", 1, {name: _probe(name, "apps") for name in names})
    kinds = {kind: sum(each.kind == kind for each in QUESTIONS) for kind in ("form",)}
    labels = {
        "first": f"found first, of {len(QUESTIONS)} questions",
        "five": f"found among five, of {len(QUESTIONS)} questions",
        "form": f"found first, of {kinds['form']} with other forms of words",
    }
    return [
        Line(
            "search",
            f"one search among {MANY:,} tools",
            "time",
            {name: median(timed[name], "search_s") for name in names},
            (AtLeast("fastmcp", 20),),
        ),
        Line(
            "search",
            "the slowest of them",
            "time",
            {name: median(timed[name], "slowest_s") for name in names},
        ),
        Line("search", f"index of {MANY:,} tools", "time", {OURS: median(built.get(OURS), "index_s")}),
        *(
            Line("search", label, "count", {name: median(judged[name], key) for name in names})
            for key, label in labels.items()
        ),
        Line(
            "search",
            f"found among three of 6,000 tools, of {len(APP_QUESTIONS)} questions",
            "count",
            {name: median(asked[name], "asked") for name in names},
        ),
        Line(
            "search",
            f"the same, of {len(KEPT_ASIDE)} that nothing was tuned for",
            "count",
            {name: median(asked[name], "aside") for name in names},
        ),
    ]


def scan(lab: Lab) -> list[Line]:
    """1,000 functions in 40 files of source, read by us and by griffe: all of them tools, and one in five."""
    lines = []
    for label, step in (("all of them tools", 1), ("one in five a tool", 5)):
        folder = _write_package(lab.folder, step)
        jobs = {name: _probe(name, "scan", folder) for name in (OURS, "griffe")}
        outcomes = lab.rounds(f"scan, {label}", 3 if lab.quick else 9, jobs)
        ours, theirs = (median(outcomes[name], "scan_s") for name in (OURS, "griffe"))
        _check_found(median(outcomes[OURS], "found"), FILES * PER_FILE // step)
        lines += [
            Line("scan", f"1,000 functions, {label}", "time", {OURS: ours}),
            Line("scan", "the same by griffe, docstrings parsed", "time", {OURS: theirs}),
            Line(
                "scan", "ours, as a part of griffe's", "factor", {OURS: quotient(ours, theirs)}, (AtMost(1),)
            ),
        ]
    return lines


def cached(lab: Lab) -> list[Line]:
    """The catalog of the same files, built and from its cache."""
    folder = _write_package(lab.folder, 1)
    outcomes = lab.rounds("cached", 3 if lab.quick else 7, {OURS: _probe(OURS, "cached", folder)})
    built, warm = (median(outcomes[OURS], key) for key in ("build_s", "cached_s"))
    return [
        Line("cached", "catalog of 1,000 tools, built", "time", {OURS: built}),
        Line("cached", "the same from a warm cache", "time", {OURS: warm}),
        Line("cached", "warm, as a part of built", "factor", {OURS: quotient(warm, built)}, (AtMost(0.02),)),
    ]


def _probe(subject: str, measure: str, folder: Path | None = None) -> Job:
    command = ["-m", "bench.catalog_probe", subject, measure]
    command += [] if folder is None else ["--folder", str(folder)]
    return lambda: last_json(run_python(command))


def _check_found(found: float | None, wanted: int) -> None:
    if found is not None and found != wanted:
        raise ProbeError(f"{found:g} of {wanted} tools were found")


def _write_package(folder: Path, step: int) -> Path:
    """Write 40 files of 25 generated functions each; every `step`th is a tool."""
    package = folder / f"yard_{step}"
    if package.is_dir():
        return package
    package.mkdir()
    (package / "__init__.py").write_text("")
    head, *made = functions.write_module(folder, FILES * PER_FILE).read_text().split("\n\n\nasync def ")
    for number in range(FILES):
        code = [f"{head}\nfrom toolcrib import tool\n"]
        for place, function in enumerate(made[number * PER_FILE : (number + 1) * PER_FILE]):
            mark = "" if place % step else "@tool\n"
            code.append(f"\n\n{mark}async def {function.rstrip()}\n")
        (package / f"part_{number}.py").write_text("".join(code))
    return package


ROWS: dict[str, Callable[[Lab], list[Line]]] = {"search": search, "scan": scan, "cached": cached}
