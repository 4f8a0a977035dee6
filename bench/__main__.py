"""`python -m bench`: measure toolcrib beside its peers in one run and print what came out, as ratios."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import chart, fleet, rows, search
from bench.lab import Lab, ProbeError, keep_bytecode, last_json, run_python
from bench.lines import COMPARED, OURS, PEERS, Line, show, three_digits
from bench.subjects import NAMES
from bench.wire import rows as wire_rows

ROWS = {**rows.ROWS, **search.ROWS, **wire_rows.ROWS, "fleet": fleet.fleet}
GROUPS = {"process": tuple(rows.ROWS), "catalog": tuple(search.ROWS), "wire": tuple(wire_rows.ROWS)}

HEAD = ("row", "measure", "toolcrib", "mcp", "fastmcp", "mcp/ours", "fastmcp/ours", "goal", "met")
ALIGN = "<<>>>>><<"


def main() -> None:
    options = _options()
    begin = time.monotonic()
    lines: list[Line] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        keep_bytecode(Path(folder) / "bytecode")
        versions = _versions()
        lab = Lab(Path(folder), tuple(versions), quick=options.quick)
        chosen = _chosen(options.only)
        if not wire_rows.ROWS.keys().isdisjoint(chosen):
            versions |= wire_rows.further_versions()
        print(_machine(versions), flush=True)
        lab.warm_up()
        for name in chosen:
            try:
                lines += ROWS[name](lab)
            except ProbeError as problem:
                failed.append(name)
                print(f"\nnote: {name} could not be measured: {problem}", file=sys.stderr)
    if lab.panels:
        print(chart.text(lab.panels))
    print(table(lines))
    print(_verdict(lines, time.monotonic() - begin))
    if options.json:
        _write(options.json, json.dumps(_report(versions, lines, lab), indent=1))
    if options.chart:
        caption = _machine(versions)
        drawn = chart.svg(lab.panels, caption) if options.chart.suffix == ".svg" else chart.text(lab.panels)
        _write(options.chart, drawn)
    failed += lab.lost
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


def _chosen(only: list[str] | None) -> list[str]:
    """The rows to measure, each once, in the order they were asked for."""
    names = [row for name in only or ROWS for row in GROUPS.get(name, (name,))]
    return list(dict.fromkeys(names))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def table(lines: list[Line]) -> str:
    """The lines as plain aligned text."""
    cells = [HEAD, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEAD))]
    rule = "  ".join("-" * width for width in widths)
    rendered = [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, ALIGN, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(["", rendered[0], rule, *rendered[1:], ""])


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.row,
        line.label,
        *(show(line.figures.get(name), line.unit) for name in NAMES),
        *(_ratio(line, peer) for peer in PEERS),
        ", ".join(str(goal) for goal in line.goals) or "information",
        {True: "yes", False: "NO", None: "?" if line.goals else ""}[line.met()],
    )


def _ratio(line: Line, peer: str) -> str:
    """A ratio, where the line compares what is spent or done."""
    ratio = line.ratio(peer) if line.unit in COMPARED else None
    return "-" if ratio is None else f"{three_digits(ratio)}x"


def _verdict(lines: list[Line], seconds: float) -> str:
    verdicts = [line.met() for line in lines if line.goals]
    return f"{verdicts.count(True)} of {len(verdicts)} goals met, measured in {seconds:.0f} s"


def _versions() -> dict[str, str]:
    """The libraries that can be measured here, with their versions; says which cannot, and why."""
    versions: dict[str, str] = {}
    for name in NAMES:
        try:
            versions[name] = last_json(run_python(["-m", "bench.probe", name, "version"]))["version"]
        except ProbeError as problem:
            print(f"note: {name} is left out: {str(problem).splitlines()[-1]}", file=sys.stderr)
    if not any(peer in versions for peer in PEERS):
        raise SystemExit("there is nothing to compare with: install mcp and fastmcp beside toolcrib")
    return versions


def _machine(versions: dict[str, str]) -> str:
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{libraries}; Python {platform.python_version()}, {os.cpu_count()} cores, load {load}"


def _report(versions: dict[str, str], lines: list[Line], lab: Lab) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "versions": versions,
        "quick": lab.quick,
        "lines": [
            {
                "row": line.row,
                "label": line.label,
                "unit": "seconds" if line.unit == "time" else line.unit,
                "figures": line.figures,
                "ratios": {name: 1.0 if name == OURS else line.ratio(name) for name in line.figures},
                "goals": [str(goal) for goal in line.goals],
                "met": line.met(),
            }
            for line in lines
        ],
        "panels": [dataclasses.asdict(panel) for panel in lab.panels],
        "lost": lab.lost,
        "rounds": lab.records,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a minute instead of several")
    names = [*ROWS, *GROUPS]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help=f"one of: {', '.join(names)}"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every figure of every round to a file"
    )
    parser.add_argument(
        "--chart", type=Path, metavar="FILE", help="write the chart to a file: SVG where it ends so, or text"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
