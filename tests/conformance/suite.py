"""Run the official conformance suite against both HTTP stacks and a fleet, and read its results.

Each HTTP stack gets one server process, which both requirement sets are run against. In the fleet, each
request goes to another one of three replicas.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from typing import Any

from tests.conformance.scenarios import PASSING
from tests.conformance.server import HTTP_STACKS
from tests.support.servers.server_processes import ServerProcess, serving
from tests.support.system.engines import postgresql, redis
from tests.support.system.fleet import Proxy
from tests.support.system.node import Node
from toolcrib.state.postgresql.database import migrate

SUITE = "@modelcontextprotocol/conformance"
RUN_S = 180.0
FLEET = "fleet"
LANES = (*HTTP_STACKS, FLEET)


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


class FleetLane:
    """Three replicas behind a proxy."""

    def __init__(self, url: str, replicas: Sequence[ServerProcess]) -> None:
        self.url = url
        self._replicas = replicas

    @property
    def stderr(self) -> str:
        return "".join(replica.stderr for replica in self._replicas)


@contextmanager
def serving_lane(lane: str) -> Iterator[ServerProcess | FleetLane]:
    command = ["-m", "tests.conformance.server", "--port", "{port}"]
    if lane != FLEET:
        with serving(*command, "--http-stack", lane) as server:
            yield server
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        key_file = folder / "fleet.key"
        key_file.touch(mode=0o600)
        key_file.write_text(token_urlsafe(32))
        database, counts = stack.enter_context(postgresql()), stack.enter_context(redis())
        environ = {"TOOLCRIB_POSTGRES": database.url, "TOOLCRIB_REDIS": counts.url}
        migrate(database.url)
        replicas = [
            stack.enter_context(serving(*command, "--key-file", str(key_file), environment=environ))
            for _ in range(3)
        ]
        stack.callback((proxy := Proxy()).close)
        proxy.ports = [replica.port for replica in replicas]
        yield FleetLane(f"http://127.0.0.1:{proxy.port}/mcp", replicas)


def run_all(node: Node, folder: Path) -> dict[str, Run]:
    """Run every set against every HTTP stack and a fleet; in parallel, because the suite mostly waits."""
    with ThreadPoolExecutor(len(LANES)) as pool:
        runs = list(pool.map(lambda lane: _run_lane(node, lane, folder), LANES))
    return {name: run for group in runs for name, run in group.items()}


def save(runs: dict[str, Run], path: Path) -> None:
    path.write_text(json.dumps({name: asdict(run) for name, run in runs.items()}))


def load(path: Path) -> dict[str, Run]:
    return {name: Run(**fields) for name, fields in json.loads(path.read_text()).items()}


def _run_lane(node: Node, lane: str, folder: Path) -> dict[str, Run]:
    runs = {}
    with serving_lane(lane) as server:
        for revision in PASSING:
            results = folder / f"{lane}-{revision}"
            command = [str(node.program), str(node.package(SUITE, "dist", "index.js")), "server"]
            command += ["--url", server.url, "--requirements", revision, "--output-dir", str(results)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S)
            checks = _read(results)
            runs[f"{lane}-{revision}"] = Run(
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
