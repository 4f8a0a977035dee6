"""The lowest version of every dependency, and packages that pin versions of their own beside toolcrib.

A long test that installs packages: `python dev.py lowest`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.matrix.environments import ROOT, Environment, floor_of, make_environment
from tests.support.system.everyday_commands import check_list_and_call, serve_and_call

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: python dev.py lowest")
LOWEST = ROOT / "requirements" / "lowest.lock"
ENVIRONMENTS = [
    ("beside-langgraph-api", ("langgraph-api==0.16.7",), None),
    ("beside-fastmcp-2", ("fastmcp==2.14.7",), None),
    ("beside-mcp-1", ("mcp==1.9.4",), None),
    ("newest", (), None),
    ("lowest-validating", (floor_of("jsonschema-rs"),), LOWEST),
]


def run_tests(environment: Environment, *words: str) -> None:
    """Run tests of this tree there, as every day: nothing of their environment makes them longer."""
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(("TOOLCRIB_", "PYTEST_"))
    }
    done = subprocess.run(
        [environment.program("python"), "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]


@pytest.fixture(scope="module")
def lowest() -> Environment:
    return make_environment("lowest", lock=LOWEST)


def test_the_tests_of_the_command_line_pass_with_the_lowest_versions(lowest: Environment) -> None:
    run_tests(lowest, "-n", "2", "--dist", "loadgroup", "tests/unit/cli")


@pytest.mark.parametrize(("name", "requirements", "lock"), ENVIRONMENTS)
def test_the_commands_of_every_day_work(
    name: str, requirements: tuple[str, ...], lock: Path | None, tmp_path: Path
) -> None:
    environment = make_environment(name, *requirements, lock=lock)
    check_list_and_call(environment.programs, tmp_path)
    serve_and_call(environment.programs, tmp_path)


@pytest.mark.skipif("TOOLCRIB_MATRIX" not in os.environ, reason="a long run: python dev.py matrix")
def test_schemas_and_sources_work_with_the_lowest_versions(lowest: Environment) -> None:
    tests = [
        "tests/unit/schema",
        "tests/unit/validation",
        "tests/unit/sources",
        "tests/unit/test_component.py",
    ]
    with_servers_of_other_libraries = [
        "tests/unit/sources/foreign",
        "tests/unit/sources/test_refused_tools.py",
    ]
    run_tests(lowest, *tests, *(f"--ignore={path}" for path in with_servers_of_other_libraries))
