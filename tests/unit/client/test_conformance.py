"""The official suite looks at our client: every scenario about tools, in both eras, without a warning."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.node import Node, node
from tests.support.sdk_servers import ROOT

__all__ = ["node"]

SUITE = "@modelcontextprotocol/conformance"
CLIENT = shlex.join([sys.executable, str(Path(__file__).parent / "conformance_client.py")])
SCENARIOS = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ],
}
CASES = [(revision, scenario) for revision, names in SCENARIOS.items() for scenario in names]


@pytest.mark.parametrize(("revision", "scenario"), CASES, ids=["-".join(case) for case in CASES])
def test_a_scenario_passes_without_a_warning(
    node: Node, revision: str, scenario: str, tmp_path: Path
) -> None:
    command = [str(node.program), str(node.package(SUITE, "dist", "index.js")), "client"]
    command += ["--command", CLIENT, "--scenario", scenario, "--spec-version", revision, "-o", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    (results,) = tmp_path.rglob("checks.json")
    checks = json.loads(results.read_text())
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    assert bad == []
    assert [check for check in checks if check["status"] == "SUCCESS"]
    assert done.returncode == 0, done.stdout + done.stderr
