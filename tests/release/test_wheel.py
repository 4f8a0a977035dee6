"""The sdist and the wheel in dist/, which `python dev.py release` builds and which would be uploaded.

The wheel is installed in an empty virtual environment, with nothing but the packages that it requires.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata

from dev import declared_version, tag_problem
from tests.support.system.everyday_commands import check_list_and_call, run, serve_and_call

ROOT = Path(__file__).resolve().parents[2]
OPTIONAL = {"cryptography", "hiredis", "opentelemetry", "psycopg", "pytest", "redis"}
"""Packages that single modules need, and the wheel does not require."""
built = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: python dev.py release")


def artifact(pattern: str) -> Path:
    found = [*(ROOT / "dist").glob(f"toolcrib-{declared_version()}{pattern}")]
    if len(found) != 1:
        pytest.fail(f"dist/ has {len(found)} files like {pattern}: run python dev.py release", pytrace=False)
    return found[0]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and, at the locked versions, what it requires."""
    home = tmp_path_factory.mktemp("wheel") / "venv"
    venv.create(home)
    bin_ = home / ("Scripts" if os.name == "nt" else "bin")
    pins = home / "pins.txt"
    lock = (ROOT / "requirements" / "run.lock").read_text()
    lines = [line.rstrip(" \\") for line in lock.splitlines() if re.match(r"\w", line)]
    pins.write_text("\n".join(lines))
    pip = [sys.executable, "-m", "pip", "--python", bin_ / "python", "install", "--quiet"]
    run(*pip, "--constraint", pins, artifact("-*.whl"), folder=home)
    return bin_


@built
def test_the_wheel_checks_lists_and_calls_tools_where_nothing_else_is_installed(
    programs: Path, tmp_path: Path
) -> None:
    check_list_and_call(programs, tmp_path)
    toolcrib = programs / "toolcrib"
    assert run(toolcrib, "--version", folder=tmp_path) == f"toolcrib {declared_version()}\n"
    assert "5 tools ok" in run(toolcrib, "check", "--samples", folder=tmp_path), "the sample tools"
    assert "find_price" in run(toolcrib, "search", "price", "-t", "shop.py", folder=tmp_path)
    assert "shop.py" in run(toolcrib, "scan", ".", folder=tmp_path)
    assert '"find_price"' in run(toolcrib, "export", "--to", "openai", "shop.py", folder=tmp_path)
    assert "ok" in run(toolcrib, "check", "shop.py", folder=tmp_path)


@built
def test_the_wheel_serves_and_stops(programs: Path, tmp_path: Path) -> None:
    serve_and_call(programs, tmp_path)


@built
def test_every_module_of_the_wheel_can_be_imported_except_for_what_is_optional(
    programs: Path, tmp_path: Path
) -> None:
    with ZipFile(artifact("-*.whl")) as wheel:
        files = [name for name in wheel.namelist() if name.endswith(".py") and "__main__" not in name]
    assert "toolcrib/__init__.py" in files
    modules = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "load.py").write_text(
        "import importlib, json\n"
        "for name in json.load(open('modules.json')):\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        print(name, error.name)\n"
    )
    lines = run(programs / "python", "load.py", folder=tmp_path).splitlines()
    lacking = dict(line.split() for line in lines)
    assert set(lacking.values()) <= OPTIONAL
    assert "toolcrib.testing" not in lacking


@built
def test_the_wheel_is_typed_and_its_metadata_is_valid() -> None:
    with ZipFile(artifact("-*.whl")) as wheel:
        files = wheel.namelist()
        (path,) = [name for name in files if name.endswith(".dist-info/METADATA")]
        metadata = Metadata.from_email(wheel.read(path), validate=True)
    assert "toolcrib/py.typed" in files
    assert {name.split("/")[0] for name in files} == {"toolcrib", path.split("/")[0]}
    assert str(metadata.version) == declared_version()
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (ROOT / "README.md").read_text()
    assert str(metadata.requires_python) == ">=3.11"


@built
def test_the_sdist_has_every_file_of_the_repository() -> None:
    with tarfile.open(artifact(".tar.gz")) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    if not (ROOT / ".git").exists():
        assert {"dev.py", "pyproject.toml", "requirements/dev.lock", "tests/conftest.py"} <= packed
        return
    tracked = run("git", "ls-files", "-z", folder=ROOT).split("\0")[:-1]
    assert set(tracked) - packed == set()
    assert packed - set(tracked) == {"PKG-INFO"}


@pytest.mark.parametrize(
    ("tags", "changelog", "problem"),
    [
        ([], "", None),
        (["nightly", "vendor"], "", None),
        (["v1.2.0"], "# Changelog\n\n## [1.2.0] - 2026-12-01\n", None),
        (["v1.3.0"], "", "the commit is tagged v1.3.0, but __version__ is 1.2.0: tag it v1.2.0"),
        (
            ["v1.2.0", "v1.3.0"],
            "",
            "the commit is tagged v1.2.0, v1.3.0, but __version__ is 1.2.0: tag it v1.2.0",
        ),
        (
            ["v1.2.0"],
            "# Changelog\n\n## [Unreleased]\n\n## [1.2.01]\n",
            "CHANGELOG.md has no section for 1.2.0: add the heading '## [1.2.0] - YYYY-MM-DD'",
        ),
    ],
)
def test_a_tag_for_a_release_equals_the_version_and_has_a_section_in_the_changelog(
    tags: list[str], changelog: str, problem: str | None
) -> None:
    assert tag_problem("1.2.0", tags, changelog) == problem


def test_the_version_is_read_without_an_import() -> None:
    from toolcrib import __version__

    assert declared_version() == __version__
