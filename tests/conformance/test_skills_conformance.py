"""The scenarios of the official suite about skills, which no requirement set has, over both HTTP stacks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.server import HTTP_STACKS
from tests.conformance.suite import RUN_S, SUITE
from tests.support.servers.server_processes import ServerProcess
from tests.support.system.node import Node

SCENARIOS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory")


def run(node: Node, server: ServerProcess, scenario: str, folder: Path) -> list[dict[str, Any]]:
    command = [str(node.program), str(node.package(SUITE, "dist", "index.js")), "server"]
    command += ["--url", server.url, "--scenario", scenario, "--output-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S)
    found = [check for path in folder.glob("*/checks.json") for check in json.loads(path.read_text())]
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_about_skills_passes_without_a_warning(
    node: Node, servers: dict[str, ServerProcess], scenario: str, http_stack: str, tmp_path: Path
) -> None:
    checks = run(node, servers[http_stack], scenario, tmp_path)
    wrong = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    assert wrong == []
    assert any(check["status"] == "SUCCESS" for check in checks)
