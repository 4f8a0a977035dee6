"""The outcome of a call, and what is recorded and logged of it."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any, get_args

import pytest

from toolcrib import MCPServer, Tool
from toolcrib.content import File, Image, Result, text_block
from toolcrib.context import InputNeeded, NullChannel, Principal
from toolcrib.dispatch.calls import (
    OUTCOMES,
    Call,
    CallRecord,
    CallRegistry,
    Outcome,
    exceeds_size,
    outcome_of,
    result_size,
)
from toolcrib.errors import (
    APIError,
    AuditUnavailableError,
    CallError,
    CannotAskError,
    DeniedError,
    InsufficientScopeError,
    InvalidArgumentsError,
    InvalidResultError,
    NotConfirmedError,
    PolicyError,
    ThrottledError,
    ToolBusyError,
    ToolCrashedError,
    ToolError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.policy import Audit, Policy
from toolcrib.policy.audit import AuditLog, open_log

WORDS = [
    (ToolNotFoundError("x"), "denied", "unknown-tool"),
    (DeniedError("x"), "denied", "denied"),
    (InsufficientScopeError("x"), "denied", "insufficient-scope"),
    (NotConfirmedError("x"), "denied", "not-confirmed"),
    (ThrottledError("x"), "throttled", "throttled"),
    (ToolBusyError("x"), "throttled", "busy"),
    (ToolTimeoutError("x"), "timeout", "timeout"),
    (ToolCrashedError("x"), "crashed", "crashed"),
    (InputNeeded({}), "input_required", None),
    (asyncio.CancelledError(), "cancelled", None),
    (ToolError("x"), "error", "tool-error"),
    (APIError("x"), "error", "api-error"),
    (InvalidArgumentsError("x"), "error", "invalid-arguments"),
    (InvalidResultError("x"), "error", "invalid-result"),
    (CannotAskError("x"), "error", "cannot-ask"),
    (AuditUnavailableError("x"), "error", "audit-unavailable"),
    (PolicyError("x"), "error", "refused"),
    (RuntimeError("x"), "crashed", None),
    (KeyboardInterrupt(), "crashed", None),
]


@pytest.mark.parametrize(("error", "outcome", "code"), WORDS, ids=lambda item: type(item).__name__)
def test_every_end_has_one_word(error: BaseException, outcome: Outcome, code: str | None) -> None:
    assert outcome_of(error) == (outcome, code)
    if isinstance(error, CallError):  # the same, where a result carries it
        assert outcome_of(Result([text_block("x")], is_error=True, error=error)) == (outcome, code)


def test_a_result_without_an_error_is_well_unless_it_says_otherwise() -> None:
    assert outcome_of(Result([])) == ("ok", None)
    assert outcome_of(Result([], is_error=True)) == ("error", None)


def test_anyone_who_is_gone_has_not_cancelled_and_nothing_else_changes() -> None:
    assert outcome_of(asyncio.CancelledError(), is_gone=True) == ("disconnected", None)
    for error, outcome, code in WORDS:
        if outcome != "cancelled":
            assert outcome_of(error, is_gone=True) == (outcome, code)
    assert outcome_of(Result([]), is_gone=True) == ("ok", None)


def test_all_words_are_listed_once() -> None:
    assert get_args(Outcome) == OUTCOMES
    assert {outcome for _, outcome, _ in WORDS} | {"ok", "disconnected", "task"} == set(OUTCOMES)


ANA = Principal("key:ana")


def make(**options: Any) -> Tool:
    return Tool.from_function(lambda: "", name="report", description="Give it.", **options)


def call_of(
    arguments: Any, tool: Tool | None, *, id_: str = "id", name: str = "report", channel: Any = None
) -> Call:
    channel = channel or NullChannel()
    facts = (name,) if tool is None else (tool.reference, tool.version, tool.definition.fingerprint)
    record = CallRecord(id_, channel.request, ANA.name, *facts)
    return Call(id_, name, tool, arguments, ANA, channel, record)


class Leaver(NullChannel):
    is_gone = True
    request = "r-1"


async def record(tmp_path: Path, *ends: Any, tool: Tool | None = None, **audit: Any) -> list[dict[str, Any]]:
    """What is on the record when calls have ended like this."""
    log = AuditLog(Audit(tmp_path / "audit.db", **audit), server="test")
    await log.open()
    for number, (ended, channel) in enumerate(ends):
        arguments = {"a": 1, "password": "x"}
        call = call_of(arguments, tool, id_=f"id{number}", name="Report", channel=channel)
        CallRegistry().end(call, ended)
        if committed := log.record(call, arguments, ended if isinstance(ended, BaseException) else None):
            await committed
    await log.close()
    return [item for item in open_log(tmp_path / "audit.db").records() if item["kind"] == "call"]


async def test_a_call_that_no_caller_waits_for_is_recorded_all_the_same(tmp_path: Path) -> None:
    found = await record(
        tmp_path,
        (asyncio.CancelledError(), NullChannel()),
        (asyncio.CancelledError(), Leaver()),
        (GeneratorExit(), NullChannel()),
        tool=make(version="2"),
    )
    assert [(item["id"], item["outcome"], item["request"]) for item in found] == [
        ("id0", "cancelled", None),
        ("id1", "disconnected", "r-1"),
        ("id2", "crashed", None),
    ]
    assert {(item["tool"], item["version"]) for item in found} == {("report", "2")}


async def test_a_tool_that_is_not_there_is_recorded_as_it_was_spelt(tmp_path: Path) -> None:
    [item] = await record(tmp_path, (ToolNotFoundError("Report"), NullChannel()))
    assert (item["tool"], item["version"], item["definition"]) == ("Report", None, None)
    assert "values" not in item


async def test_values_are_recorded_where_that_is_wished_and_never_secrets(tmp_path: Path) -> None:
    [item] = await record(tmp_path, (Result([]), NullChannel()), tool=make(), values=["*"])
    assert item["values"]["a"] == 1
    assert item["values"]["password"] != "x"


def test_the_size_of_arguments_is_measured_once_and_only_when_asked() -> None:
    call = call_of({"a": 1}, make())
    assert call.record.arguments_bytes is None
    assert call.measure_arguments() == call.measure_arguments() == len('{"a":1}')
    assert call_of(None, make()).measure_arguments() == len("{}")


@pytest.mark.parametrize(
    ("options", "before"),
    [
        ({}, []),
        ({"read_only": True}, []),
        ({"destructive": False}, []),
        ({"destructive": True}, ["probe"]),
        ({"audit": "required"}, ["intent"]),
        ({"audit": "required", "destructive": True}, ["intent"]),
    ],
)
async def test_only_what_must_be_recorded_begins_with_a_record(
    tmp_path: Path, options: Any, before: list[str]
) -> None:
    server = MCPServer(policy=Policy(audit=Audit(tmp_path / "audit.db")))
    server.add(make(**options))
    async with server:
        assert not (await server.call("report")).is_error
    kinds = [item["kind"] for item in open_log(tmp_path / "audit.db").records()]
    assert kinds == ["opened", *before, "call", "closed"]


async def test_without_an_audit_log_a_required_record_is_not_missed() -> None:
    server = MCPServer(policy=Policy())
    server.add(make(audit="required"))
    assert not (await server.call("report")).is_error


async def test_a_store_that_cannot_be_opened_refuses_what_must_be_recorded(tmp_path: Path) -> None:
    log = AuditLog(Audit(tmp_path / "none" / "audit.db", wait_s=0.01), server="test")
    (tmp_path / "none").write_text("not a folder")
    with pytest.raises(AuditUnavailableError, match="Tool 'report' cannot run now"):
        await log.require(call_of({}, make(audit="required")))
    (tmp_path / "none").unlink()
    await log.close()


async def test_the_log_says_how_a_call_ended_and_only_where_somebody_reads_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "toolcrib")
    call, calls = call_of({"password": "hush"}, make()), CallRegistry()
    calls.end(call, Result([]))
    assert not caplog.records
    caplog.set_level(logging.INFO, "toolcrib")
    calls.end(call, ToolNotFoundError("report"))
    [line] = caplog.records
    told = {key: getattr(line, key) for key in ("call_id", "tool_name", "principal", "outcome", "error_code")}
    assert told == {
        "call_id": "id",
        "tool_name": "report",
        "principal": "key:ana",
        "outcome": "denied",
        "error_code": "unknown-tool",
    }
    assert "hush" not in str(vars(line))


def test_the_size_of_a_result_is_the_one_of_its_texts_and_data() -> None:
    assert result_size(Result([])) == 0
    assert result_size(Result([text_block("abc"), text_block("de")])) == 5
    assert result_size(Result([text_block("äöü€")])) == 9
    assert result_size(Result([Image(b"PNG").to_block()])) == 4
    assert result_size(Result([File("Dear reader", uri="desk://1").to_block()])) == len("Dear reader")
    assert result_size(Result([File(b"\0" * 9, uri="desk://2").to_block(), text_block("ab")])) == 14
    link = {"type": "resource_link", "uri": "x", "description": "y" * 100}
    assert result_size(Result([link])) == len(json.dumps(link, separators=(",", ":")))


@pytest.mark.parametrize(
    ("result", "size"),
    [
        (Result([]), 0),
        (Result([text_block("abcd")]), 4),
        (Result([text_block("ok")], structured_content={"rows": "x" * 89}), 100),
        (Result([text_block("x" * 200)], structured_content={"n": 1}), 200),
        (Result([], structured_content=["\u00e4\u20ac"]), 9),
    ],
)
def test_the_larger_of_content_and_structured_content_counts_for_a_limit(result: Result, size: int) -> None:
    assert not exceeds_size(result, size)
    assert exceeds_size(result, size - 1)
