"""`python -m bench`: measure toolcrib, mcp and fastmcp in one run and print what came out, as ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.lab import Lab, ProbeError, keep_bytecode, last_json, run_python
from bench.rows import OURS, PEERS, ROWS, Line, Unit
from bench.subjects import NAMES

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
        print(_machine(versions), flush=True)
        lab = Lab(Path(folder), tuple(versions), quick=options.quick)
        lab.warm_up()
        for name in options.only or ROWS:
            try:
                lines += ROWS[name](lab)
            except ProbeError as problem:
                failed.append(name)
                print(f"\nnote: {name} could not be measured: {problem}", file=sys.stderr)
    print(table(lines))
    print(_verdict(lines, time.monotonic() - begin))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(_report(versions, lines, lab), indent=1))
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


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
        *(_figure(line.figures.get(name), line.unit) for name in NAMES),
        *(_ratio(line, peer) for peer in PEERS),
        ", ".join(str(goal) for goal in line.goals) or "information",
        {True: "yes", False: "NO", None: "?" if line.goals else ""}[line.met()],
    )


def _figure(value: float | None, unit: Unit) -> str:
    if value is None:
        return "-"
    if unit == "factor":
        return f"{value:.2f}x"
    if unit in ("bytes", "count"):
        return f"{value:,.0f}"
    for scale, suffix in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if value * scale >= 1:
            return f"{_three_digits(value * scale)} {suffix}"
    return f"{value * 1e6:.2f} us"


def _ratio(line: Line, peer: str) -> str:
    """A ratio, where the line compares what is spent."""
    ratio = line.ratio(peer) if line.unit in ("time", "bytes") else None
    return "-" if ratio is None else f"{_three_digits(ratio)}x"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


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
                "ratios": {OURS: 1.0, **{peer: line.ratio(peer) for peer in PEERS}},
                "goals": [str(goal) for goal in line.goals],
                "met": line.met(),
            }
            for line in lines
        ],
        "rounds": lab.records,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a minute instead of several")
    parser.add_argument(
        "--only", action="append", choices=ROWS, metavar="NAME", help=f"one of: {', '.join(ROWS)}"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every figure of every round to a file"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
