"""The official conformance suite, scenario by scenario, over both HTTP stacks."""

from __future__ import annotations

import pytest

from tests.conformance.scenarios import PASSING, TASKS, UNTESTED, expected_failures
from tests.conformance.server import HTTP_STACKS
from tests.conformance.suite import Run

RUNS = [f"{http_stack}-{revision}" for http_stack in HTTP_STACKS for revision in PASSING]
SCENARIOS = [
    (f"{http_stack}-{revision}", scenario)
    for http_stack in HTTP_STACKS
    for revision, scenarios in PASSING.items()
    for scenario in scenarios
]
BEYOND_TOOLS = ("prompts-", "resources-", "completion-")
PARTLY_BEYOND_TOOLS = {"caching", "input-required-result-non-tool-request", "sep-2164-resource-not-found"}


@pytest.mark.parametrize(("name", "scenario"), SCENARIOS, ids=[f"{run}-{name}" for run, name in SCENARIOS])
def test_a_scenario_for_tools_passes_without_a_warning(
    runs: dict[str, Run], name: str, scenario: str
) -> None:
    run = runs[name]
    assert scenario in run.checks, run.output[-2000:]
    assert run.found(scenario, "FAILURE", "WARNING") == []
    assert run.found(scenario, "SUCCESS")


@pytest.mark.parametrize("name", RUNS)
def test_every_other_scenario_fails_in_the_checks_that_are_written_down(
    runs: dict[str, Run], name: str
) -> None:
    run, expected = runs[name], expected_failures()
    others = set(run.checks) - set(PASSING[name[-10:]]) - UNTESTED
    assert others <= set(expected)
    for scenario in others:
        failing = run.failing(scenario)
        assert failing == (expected[scenario] or failing), f"{scenario}: {run.checks[scenario]}"
        assert failing, f"{scenario} passes: take it out of the file"


@pytest.mark.parametrize("name", RUNS)
def test_the_suite_comes_to_the_same_verdict(runs: dict[str, Run], name: str) -> None:
    assert runs[name].status == 0, runs[name].output[-4000:]


@pytest.mark.parametrize("name", RUNS)
def test_nothing_the_suite_does_makes_the_server_stumble(runs: dict[str, Run], name: str) -> None:
    assert "Traceback" not in runs[name].server_errors


def test_what_may_fail_is_run(runs: dict[str, Run]) -> None:
    assert set(expected_failures()) <= {scenario for run in runs.values() for scenario in run.checks}


def test_only_what_is_not_about_tools_may_fail() -> None:
    wrong = {name for name in expected_failures() if not name.startswith(BEYOND_TOOLS)}
    assert wrong == PARTLY_BEYOND_TOOLS
    assert all(expected_failures()[name] for name in PARTLY_BEYOND_TOOLS)


def test_as_many_scenarios_are_to_pass_as_a_server_of_tools_can() -> None:
    """Three of each set are not counted by the suite; sep-2164 counts as passed there, for it only warns."""
    counted = {revision: [name for name in names if name not in TASKS] for revision, names in PASSING.items()}
    assert {revision: len(names) - 3 for revision, names in counted.items()} == {
        "2025-11-25": 18,
        "2026-07-28": 25 - 1,
    }
