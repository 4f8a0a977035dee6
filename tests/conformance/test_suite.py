"""The official conformance suite, scenario by scenario, over both HTTP stacks and a fleet."""

from __future__ import annotations

import pytest

from tests.conformance.scenarios import COUNTED, PASSING, UNTESTED
from tests.conformance.suite import LANES, Run

RUNS = [f"{lane}-{revision}" for lane in LANES for revision in PASSING]
SCENARIOS = [
    (f"{lane}-{revision}", scenario)
    for lane in LANES
    for revision, scenarios in PASSING.items()
    for scenario in scenarios
]
STAYS_IN_A_REPLICA = {
    ("fleet-2025-11-25", "server-sse-polling"): "streams cannot be resumed at another replica",
    ("fleet-2026-07-28", "tools-list"): "lists that a tool changes are those of its replica",
    ("fleet-2026-07-28", "server-stateless"): "lists that a tool changes are those of its replica",
}
"""Where the suite warns that a fleet does not do what a server should (docs/how-to/fleet.md, limits)."""


@pytest.mark.parametrize(("name", "scenario"), SCENARIOS, ids=[f"{run}-{name}" for run, name in SCENARIOS])
def test_a_scenario_passes_without_a_warning(runs: dict[str, Run], name: str, scenario: str) -> None:
    run = runs[name]
    assert scenario in run.checks, run.output[-2000:]
    assert run.found(scenario, "FAILURE") == []
    if (name, scenario) in STAYS_IN_A_REPLICA:
        assert run.found(scenario, "WARNING")
    else:
        assert run.found(scenario, "WARNING") == []
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
