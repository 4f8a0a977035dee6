"""Run the official conformance suite against both HTTP stacks and read its results.

Each HTTP stack gets one server process, which both requirement sets are run against.
"""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.conformance.scenarios import PASSING
from tests.conformance.server import HTTP_STACKS
from tests.support.servers.server_processes import ServerProcess, serving
from tests.support.system.node import Node

SUITE = "@modelcontextprotocol/conformance"
RUN_S = 180.0


@dataclass
class Run:
    """One requirement set against one HTTP stack: the checks of each scenario, and how the suite ended."""

    status: int
    output: str
    checks: dict[str, list[dict[str, Any]]]
    server_errors: str

    def found(self, scenario: str, *statuses: str) -> list[str]:
        """Return the checks of a scenario with this outcome, with their messages."""
        return [
            f"{check['id']}: {check.get('errorMessage', '')}"
            for check in self.checks[scenario]
            if check["status"] in statuses
        ]

    def failing(self, scenario: str) -> set[str]:
        return {line.partition(":")[0] for line in self.found(scenario, "FAILURE", "WARNING")}


def serving_lane(http_stack: str) -> AbstractContextManager[ServerProcess]:
    return serving("-m", "tests.conformance.server", "--http-stack", http_stack, "--port", "{port}")


def run_all(node: Node, folder: Path) -> dict[str, Run]:
    """Run every set against every HTTP stack; the stacks in parallel, because the suite mostly waits."""
    with ThreadPoolExecutor(len(HTTP_STACKS)) as pool:
        runs = list(pool.map(lambda http_stack: _run_lane(node, http_stack, folder), HTTP_STACKS))
    return {name: run for group in runs for name, run in group.items()}


def save(runs: dict[str, Run], path: Path) -> None:
    path.write_text(json.dumps({name: asdict(run) for name, run in runs.items()}))


def load(path: Path) -> dict[str, Run]:
    return {name: Run(**fields) for name, fields in json.loads(path.read_text()).items()}


def _run_lane(node: Node, http_stack: str, folder: Path) -> dict[str, Run]:
    runs = {}
    with serving_lane(http_stack) as server:
        for revision in PASSING:
            results = folder / f"{http_stack}-{revision}"
            command = [str(node.program), str(node.package(SUITE, "dist", "index.js")), "server"]
            command += ["--url", server.url, "--requirements", revision, "--output-dir", str(results)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S)
            checks = _read(results)
            runs[f"{http_stack}-{revision}"] = Run(
                done.returncode, done.stdout + done.stderr, checks, server.stderr
            )
    return runs


def _read(results: Path) -> dict[str, list[dict[str, Any]]]:
    """The checks by scenario. Folders are named `server-SCENARIO-TIME`."""
    found = {}
    for path in sorted(results.glob("*/checks.json")):
        name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)
        assert name is not None, path
        found[name[1]] = json.loads(path.read_text())
    return found
