"""The oldest pydantic that toolcrib accepts: schemas and sources work with it.

A long test that installs packages: `python dev.py matrix`.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib

import pytest

from tests.matrix.environments import ROOT, make_environment

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: python dev.py matrix")
TESTS = ["tests/unit/schema", "tests/unit/validation", "tests/unit/sources", "tests/unit/test_tool.py"]
NEEDED = [
    "attrs",
    "hypothesis",
    "joserfc",
    "opentelemetry-sdk",
    "pytest",
    "pytest-asyncio",
    "pyyaml",
    "uvicorn",
]


def test_unit_tests_pass_with_the_oldest_pydantic() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    floor = next(
        found[1] for item in project["dependencies"] if (found := re.match(r"pydantic>=([\d.]+)", item))
    )
    environment = make_environment("pydantic-floor", f"pydantic=={floor}.0", *NEEDED)
    done = subprocess.run(
        [
            environment.program("pytest"),
            *TESTS,
            "--ignore=tests/unit/sources/foreign",
            "--ignore=tests/unit/sources/test_refused_tools.py",  # with servers of other libraries
            "-p",
            "no:cacheprovider",
        ],
        cwd=ROOT,
        env={**os.environ, "TOOLCRIB_REQUIRE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
