"""The scenarios of the official suite that a server without resources and prompts can pass, by revision.

The others are in `expected-failures.yml`, by scenario or by check.
"""

from __future__ import annotations

import re
from pathlib import Path

EXPECTED_FAILURES = Path(__file__).parent / "expected-failures.yml"

_PASSING = {
    "2025-11-25": """
        server-initialize logging-set-level ping tools-list tools-call-simple-text tools-call-image
        tools-call-audio tools-call-embedded-resource tools-call-mixed-content tools-call-with-logging
        tools-call-error tools-call-with-progress tools-call-sampling tools-call-elicitation
        elicitation-sep1034-defaults server-sse-multiple-streams elicitation-sep1330-enums
        dns-rebinding-protection
        server-session-lifecycle json-schema-2020-12 server-sse-polling
    """,
    "2026-07-28": """
        server-stateless tools-list tools-call-simple-text tools-call-image tools-call-audio
        tools-call-embedded-resource tools-call-mixed-content tools-call-error tools-call-with-progress
        server-sse-multiple-streams dns-rebinding-protection input-required-result-basic-elicitation
        input-required-result-basic-sampling input-required-result-basic-list-roots
        input-required-result-request-state input-required-result-multiple-input-requests
        input-required-result-multi-round input-required-result-missing-input-response
        input-required-result-result-type input-required-result-unsupported-methods
        input-required-result-tampered-state input-required-result-capability-check
        input-required-result-ignore-extra-params input-required-result-validate-input
        json-schema-2020-12 http-header-validation http-custom-header-server-validation
    """,
}
_TASKS = """
    tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal
    tasks-mrtr-input tasks-request-headers tasks-dispatch-and-envelope tasks-required-task-error
    tasks-mrtr-composition
"""
TASKS = _TASKS.split()
"""The scenarios of the tasks extension, which the suite does not count."""
PASSING = {revision: names.split() for revision, names in _PASSING.items()}
"""The last three of each are not counted by the suite, and are run with the others."""
PASSING["2026-07-28"] = TASKS + PASSING["2026-07-28"]

UNTESTED = {"tasks-status-notifications"}
"""Skips itself."""


def expected_failures() -> dict[str, set[str]]:
    """Scenarios with the checks that may fail; with none named, all of them."""
    found: dict[str, set[str]] = {}
    for scenario, check in re.findall(r"^ +- ([\w-]+)(?::([\w-]+))?", EXPECTED_FAILURES.read_text(), re.M):
        found.setdefault(scenario, set()).update({check} - {""})
    return found
