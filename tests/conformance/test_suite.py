"""The official conformance suite, scenario by scenario, over both HTTP stacks."""

from __future__ import annotations

import pytest

from tests.conformance.scenarios import COUNTED, PASSING, UNTESTED
from tests.conformance.server import HTTP_STACKS
from tests.conformance.suite import Run

RUNS = [f"{http_stack}-{revision}" for http_stack in HTTP_STACKS for revision in PASSING]
SCENARIOS = [
    (f"{http_stack}-{revision}", scenario)
    for http_stack in HTTP_STACKS
    for revision, scenarios in PASSING.items()
    for scenario in scenarios
]


@pytest.mark.parametrize(("name", "scenario"), SCENARIOS, ids=[f"{run}-{name}" for run, name in SCENARIOS])
def test_a_scenario_passes_without_a_warning(runs: dict[str, Run], name: str, scenario: str) -> None:
    run = runs[name]
    assert scenario in run.checks, run.output[-2000:]
    assert run.found(scenario, "FAILURE", "WARNING") == []
    assert run.found(scenario, "SUCCESS")


@pytest.mark.parametrize("name", RUNS)
def test_every_scenario_of_the_suite_is_listed(runs: dict[str, Run], name: str) -> None:
    assert set(runs[name].checks) - UNTESTED == set(PASSING[name[-10:]])


@pytest.mark.parametrize("name", RUNS)
def test_the_suite_comes_to_the_same_verdict(runs: dict[str, Run], name: str) -> None:
    assert runs[name].status == 0, runs[name].output[-4000:]


@pytest.mark.parametrize("name", RUNS)
def test_nothing_the_suite_does_makes_the_server_stumble(runs: dict[str, Run], name: str) -> None:
    assert "Traceback" not in runs[name].server_errors


def test_all_scenarios_that_the_suite_counts_pass() -> None:
    assert {revision: len(names) for revision, names in COUNTED.items()} == {
        "2025-11-25": 30,
        "2026-07-28": 37,
    }
