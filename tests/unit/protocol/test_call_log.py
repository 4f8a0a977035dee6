"""Requests in the log, however they are written."""

from __future__ import annotations

import logging

import pytest

from toolcrib.component import Tool
from toolcrib.protocol.calls import MAX_LOGGED_NAMES, log_call
from toolcrib.protocol.lists import log_list


def read() -> str:
    """Read.

    At length.
    """
    return ""


def test_nothing_is_written_where_info_is_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "toolcrib")
    log_list([Tool.from_function(read)], None)
    log_call("read", {"a": 1}, values=True)
    assert caplog.records == []


def test_a_list_is_one_line_at_info_and_has_its_tools_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    log_list([Tool.from_function(read)] * 3, None)
    assert caplog.messages == ["Client requesting tool list: returning 3 tools"]
    caplog.clear()
    caplog.set_level(logging.DEBUG, "toolcrib")
    log_list([Tool.from_function(read)], None)
    assert caplog.messages == ["Client requesting tool list: returning 1 tools", " - read: Read."]
    caplog.clear()
    log_list([Tool.from_function(read)], "next")
    assert caplog.messages == ["Client requesting the next tools"]


def test_anything_that_a_client_writes_cannot_look_like_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    log_call("evil\n12:00:00 error: fake", {"a\x1b[2J": 1, "\ud800": 2}, values=False)
    assert caplog.messages == [
        "Tool execution request: evil\\n12:00:00 error: fake",
        "Arguments: a\\u001b[2J, \\ud800",
    ]
    caplog.clear()
    log_call("good", {"a": "line\nbreak \u2028"}, values=True)
    assert caplog.messages[1] == 'Arguments: {"a": "line\\nbreak \\u2028"}'


def test_anything_that_a_client_writes_at_length_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    log_call("x" * 1000, {f"{number}{'y' * 1000}": 1 for number in range(MAX_LOGGED_NAMES + 7)}, values=False)
    assert all(len(message) < 70 * MAX_LOGGED_NAMES for message in caplog.messages)
    assert caplog.messages[1].endswith("... (7 more)")
    caplog.clear()
    log_call("x", {"a": "z" * 100_000}, values=True)
    assert len(caplog.messages[1]) < 2100


def test_records_carry_their_facts_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    log_call("read", None, values=False)
    assert caplog.messages[1] == "Arguments: none"
    assert (caplog.records[1].tool_name, caplog.records[1].argument_names) == ("read", [])  # type: ignore[attr-defined]
