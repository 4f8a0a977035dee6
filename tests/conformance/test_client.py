"""The official suite looks at our client: every scenario but OAuth, in both eras, without a warning."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.sdk_servers import ROOT
from tests.support.system.node import Node, node

__all__ = ["node"]

SUITE = "@modelcontextprotocol/conformance"
CLIENT = shlex.join([sys.executable, str(Path(__file__).parent / "suite_client.py")])
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
    "extensions": [
        "sep-2640-client-no-prefetch",
        "sep-2640-client-verify-digest",
        "sep-2640-client-verify-size",
        "sep-2640-client-verify-frontmatter",
    ],
}
CASES = [(revision, scenario) for revision, names in SCENARIOS.items() for scenario in names]


def suite(node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(node.program), str(node.package(SUITE, "dist", "index.js")), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


@pytest.mark.parametrize(("revision", "scenario"), CASES, ids=["-".join(case) for case in CASES])
def test_a_scenario_passes_without_a_warning(
    node: Node, revision: str, scenario: str, tmp_path: Path
) -> None:
    version = ["--force", "--spec-version", "2026-07-28" if revision == "extensions" else revision]
    done = suite(node, "client", "--command", CLIENT, "--scenario", scenario, *version, "-o", str(tmp_path))
    (results,) = tmp_path.rglob("checks.json")
    checks = json.loads(results.read_text())
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    assert bad == []
    assert [check for check in checks if check["status"] == "SUCCESS"]
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_of_a_requirement_set_is_run(node: Node, revision: str) -> None:
    listed = suite(node, "list", "--requirements", revision).stdout
    required = re.search(r"^Client scenarios.*?\n((?:  - .*\n)+)", listed, re.MULTILINE)
    assert required is not None, listed
    names = re.findall(r"  - (\S+)", required[1]) + re.findall(r"- (\S+) \[client\]", listed)
    assert {name for name in names if not name.startswith("auth/")} == set(SCENARIOS[revision])


def test_every_scenario_of_an_extension_is_run(node: Node) -> None:
    names = re.findall(r"- (\S+) \[extension\]", suite(node, "list", "--client").stdout)
    assert {name for name in names if not name.startswith("auth/")} == set(SCENARIOS["extensions"])
