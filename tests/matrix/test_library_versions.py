"""Every supported version of `mcp` and `fastmcp`: the sample servers answer as under their own library.

Each sample runs twice in the same environment, as `python sample.py` and as `toolcrib serve sample.py`. A
long test that installs packages: `python dev.py matrix`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from tests.matrix.differences import DIFFERENCES, compare
from tests.matrix.environments import make_environment
from tests.matrix.recording import record
from tests.matrix.samples import SAMPLES, SERVERS
from tests.matrix.versions import OLD_PYDANTIC, VERSIONS, Version

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: python dev.py matrix")
OF_FUNCTIONS = {item.name for item in DIFFERENCES if item.is_of_functions}


@pytest.mark.parametrize("version", [pytest.param(item, id=item.name) for item in VERSIONS])
def test_the_sample_servers_answer_as_under_their_own_library(
    version: Version, record_property: Callable[[str, object], None]
) -> None:
    record_property("name", version.name)
    environment = make_environment(version.name, *version.requirements)
    record_property("library", f"{version.library} {environment.version_of(version.library)}")
    found: set[str] = set()
    mistakes: list[str] = []
    right = tools = calls = 0
    samples = [item for item in SAMPLES if item.library == version.library and version.major in item.majors]
    for sample in samples:
        serve = [environment.program("toolcrib"), "serve", str(sample.file), "--stdio"]
        try:
            start = [environment.program("python"), str(sample.file)]
            own = record(start, sample.calls, SERVERS, requests=sample.requests)
            ours = record(serve, sample.calls, SERVERS, requests=sample.requests)
        except RuntimeError as error:
            mistakes.append(f"{sample.name}: {error}")
            continue
        comparison = compare(own, ours, sample.calls, sample.requests)
        found |= comparison.found
        if sample.is_guarded:
            mistakes += [
                f"{sample.name}: {name}, of plain functions" for name in comparison.found & OF_FUNCTIONS
            ]
        mistakes += [f"{sample.name}: {mistake}" for mistake in comparison.mistakes]
        right += not comparison.mistakes
        tools += len(own.tools)
        calls += len(sample.calls)
    record_property("samples", f"{right} of {len(samples)}")
    record_property("tools", tools)
    record_property("calls", calls)
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
