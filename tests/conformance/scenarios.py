"""The scenarios of the official suite, by revision. All of them pass."""

from __future__ import annotations

_BOTH = """
    completion-complete dns-rebinding-protection prompts-get-embedded-resource prompts-get-simple
    prompts-get-with-args prompts-get-with-image prompts-list resources-list resources-read-binary
    resources-read-text resources-templates-read server-sse-multiple-streams tools-call-audio
    tools-call-embedded-resource tools-call-error tools-call-image tools-call-mixed-content
    tools-call-simple-text tools-call-with-progress tools-list
"""
_COUNTED = {
    "2025-11-25": """
        elicitation-sep1034-defaults elicitation-sep1330-enums logging-set-level ping resources-subscribe
        resources-unsubscribe server-initialize tools-call-elicitation tools-call-sampling
        tools-call-with-logging
    """,
    "2026-07-28": """
        caching input-required-result-basic-elicitation input-required-result-basic-list-roots
        input-required-result-basic-sampling input-required-result-capability-check
        input-required-result-ignore-extra-params input-required-result-missing-input-response
        input-required-result-multi-round input-required-result-multiple-input-requests
        input-required-result-non-tool-request input-required-result-request-state
        input-required-result-result-type input-required-result-tampered-state
        input-required-result-unsupported-methods input-required-result-validate-input
        sep-2164-resource-not-found server-stateless
    """,
}
_OTHERS = {
    "2025-11-25": "json-schema-2020-12 server-session-lifecycle server-sse-polling",
    "2026-07-28": """
        json-schema-2020-12 http-header-validation http-custom-header-server-validation
        tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal
        tasks-mrtr-input tasks-request-headers tasks-dispatch-and-envelope tasks-required-task-error
        tasks-mrtr-composition
    """,
}
COUNTED = {revision: [*_BOTH.split(), *names.split()] for revision, names in _COUNTED.items()}
PASSING = {revision: [*names, *_OTHERS[revision].split()] for revision, names in COUNTED.items()}
"""With those that the suite runs and does not count."""

UNTESTED = {"tasks-status-notifications"}
"""Skips itself."""
