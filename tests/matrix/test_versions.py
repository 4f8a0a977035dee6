"""Every supported version of `mcp` and `fastmcp`: the sample servers answer as under their own library.

Each sample runs twice in the same environment, as `python sample.py` and as `toolcrib serve sample.py`. A
long test that installs packages: `python dev.py matrix`.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.matrix.differences import DIFFERENCES, compare
from tests.matrix.environments import make_environment
from tests.matrix.recording import record
from tests.matrix.samples import SAMPLES, SERVERS
from tests.matrix.versions import OLD_PYDANTIC, VERSIONS, Version

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: python dev.py matrix")


@pytest.mark.parametrize("version", [pytest.param(item, id=item.name) for item in VERSIONS])
def test_the_sample_servers_answer_as_under_their_own_library(version: Version) -> None:
    environment = make_environment(version.name, *version.requirements)
    found: set[str] = set()
    mistakes: list[str] = []
    for sample in SAMPLES:
        if sample.library != version.library or version.major not in sample.majors:
            continue
        own = record([environment.program("python"), str(sample.file)], sample.calls, SERVERS)
        serve = [environment.program("toolcrib"), "serve", str(sample.file), "--stdio"]
        comparison = compare(own, record(serve, sample.calls, SERVERS), sample.calls)
        found |= comparison.found
        mistakes += [f"{sample.name}: {mistake}" for mistake in comparison.mistakes]
    assert not mistakes, "\n".join(mistakes)
    assert sorted(found) == sorted(item.name for item in DIFFERENCES if item.is_in(version))


@pytest.mark.parametrize(("library", "number"), [("mcp", "1.5.0"), ("fastmcp", "2.11.3")])
def test_a_version_that_is_too_old_is_refused_by_name(library: str, number: str) -> None:
    environment = make_environment(f"{library}-{number}", f"{library}=={number}", "mcp<1.13", OLD_PYDANTIC)
    sample = SERVERS / ("sdk_functions.py" if library == "mcp" else "fast_functions.py")
    done = subprocess.run(
        [environment.program("toolcrib"), "serve", str(sample), "--stdio"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"{library} {number} is not supported: toolcrib serves {library} " in done.stderr
