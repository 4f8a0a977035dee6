"""Every supported version of `mcp` and `fastmcp`: the sample servers answer as under their own library.

Each sample runs twice in the same environment, as `python sample.py` and as `toolcrib serve sample.py`. A long
test that installs packages: `python dev.py matrix`.
"""

from __future__ import annotations

import os

import pytest

from tests.matrix.differences import compare
from tests.matrix.environments import make_environment
from tests.matrix.recording import record
from tests.matrix.samples import SAMPLES, Sample
from tests.matrix.versions import VERSIONS, Version

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: python dev.py matrix")
CASES = [
    pytest.param(version, sample, id=f"{version.name}-{sample.name}")
    for version in VERSIONS
    for sample in SAMPLES
    if sample.library == version.library and version.major in sample.majors
]


@pytest.mark.parametrize(("version", "sample"), CASES)
def test_a_sample_server_answers_as_under_its_own_library(version: Version, sample: Sample) -> None:
    environment = make_environment(version.name, *version.requirements)
    folder = sample.file.parent
    own = record([environment.program("python"), str(sample.file)], sample.calls, folder)
    serve = [environment.program("toolcrib"), "serve", str(sample.file), "--stdio"]
    ours = record(serve, sample.calls, folder)
    comparison = compare(own, ours, sample.calls)
    assert not comparison.mistakes, "\n".join(comparison.mistakes)
    assert comparison.found <= version.differences
