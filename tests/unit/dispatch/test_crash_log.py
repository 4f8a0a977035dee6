"""Reports of what tools raise: bounded, off the loop, and harmless whatever the error is."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
import weakref

import pytest

from tests.unit.dispatch.running import run_async, wait_until
from toolcrib.dispatch import failures as crash
from toolcrib.dispatch.failures import CrashReporter, Raised, hide_values
from toolcrib.dispatch.runners import Runner, ToolSlots

FLUSH_S = 10.0


@pytest.fixture
def reporter():
    made = CrashReporter()
    yield made
    assert made.flush(FLUSH_S)


def catch(function, *args) -> BaseException:
    try:
        function(*args)
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def dive(depth: int) -> None:
    if depth == 0:
        raise ValueError("at the bottom")
    dive(depth - 1)


def messages(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


# --- what a report says ---


def test_a_report_names_tool_call_and_error_and_shows_where(reporter, caplog):
    reporter.report("probe", catch(dive, 3), "call-7")
    assert reporter.flush(FLUSH_S)
    (record,) = caplog.records
    first, *trace = record.getMessage().split("\n")
    assert first == "tool 'probe' raised ValueError: at the bottom (call call-7)"
    assert record.levelno == logging.ERROR
    assert (record.tool_name, record.call_id, record.error_type) == ("probe", "call-7", "ValueError")
    assert record.exc_info is None
    assert sum("in dive" in line for line in trace) == 4
    assert '      raise ValueError("at the bottom")' in trace
    assert all(line.startswith("  ") for line in trace)


def climb(depth: int) -> None:
    dive(0) if depth == 0 else descend(depth)


def descend(depth: int) -> None:
    climb(depth - 1)


def test_long_lines_and_names_are_cut_to_8_kib(reporter, caplog):
    scope: dict[str, object] = {}
    name = "f" + "ü" * 400
    code = f"def {name}(n):\n    if n == 0: raise ValueError('x' * 10**6)\n    other(n - 1)"
    exec(compile(f"{code}\ndef other(n):\n    {name}(n)", "x", "exec"), scope)
    reporter.report("probe", catch(scope[name], 100), "c")
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    assert len(text.encode()) <= 8192
    assert "... cut ..." in text
    assert text.split("\n")[-1].startswith("  ValueError: xxx")


def test_frames_of_toolcrib_at_the_top_are_left_out(reporter, caplog):
    async def tool():
        await asyncio.sleep(0)
        dive(0)

    try:
        asyncio.run(run_async(Runner(), ToolSlots("probe"), tool(), 5.0))
    except Raised as raised:
        reporter.report("probe", raised.error, "c")
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    assert "steps.py" not in text
    assert "in tool" in text


def test_causes_come_first(reporter, caplog):
    def explain():
        try:
            dive(199)
        except ValueError as error:
            raise KeyError("explained") from error

    def handle():
        try:
            explain()
        except KeyError:
            raise TypeError("again")

    reporter.report("probe", catch(handle), "c")
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    where = [
        text.index(words)
        for words in ("  ValueError: at", "direct cause", "  KeyError:", "During handling", "  TypeError:")
    ]
    assert where == sorted(where)


def test_circular_causes_end(reporter, caplog):
    left, right = ValueError("left"), ValueError("right")
    left.__cause__, right.__cause__ = right, left
    reporter.report("probe", left, "c")
    assert reporter.flush(FLUSH_S)
    assert len(caplog.records) == 1


def test_the_errors_and_notes_of_a_group_are_shown(reporter, caplog):
    error = ExceptionGroup("several", [ValueError("first of them"), ValueError("second")])
    error.add_note("a note\nof two lines")
    reporter.report("probe", error, "c")
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    assert "ValueError: first of them" in text
    assert "ValueError: second" in text
    assert "| a note\n    | of two lines" in text


def test_a_text_of_many_lines_has_an_end(reporter, caplog):
    reporter.report("probe", ValueError("x\n" * 200_000 + "the end"), "c")
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    assert text.count("\n") < 600
    assert text.endswith("  the end")


# --- what cannot harm it ---


class HatefulError(Exception):
    def __str__(self):
        raise SystemExit("no words")


class OddNotesError(Exception):
    __notes__ = 7


class EndlessError(Exception):
    def __str__(self):
        return str(self)


@pytest.mark.parametrize(
    "error", [HatefulError(), OddNotesError("x"), EndlessError(), SystemExit(3), MemoryError()]
)
def test_odd_errors_are_reported_too(reporter, caplog, error):
    reporter.report("probe", error, "c")
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    assert type(error).__name__ in text


def test_endless_recursion_is_reported_within_bounds(reporter, caplog):
    def endless():
        endless()

    reporter.report("probe", catch(endless), "c")
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    assert "RecursionError" in text
    assert len(text.encode()) <= 8192


def test_a_report_from_the_very_end_of_the_stack_does_not_raise(reporter):
    def exhaust():
        try:
            exhaust()
        except RecursionError as error:
            reporter.report("probe", error, "c")
            raise

    assert isinstance(catch(exhaust), RecursionError)


def test_a_handler_that_raises_does_not_end_reporting(reporter, caplog):
    class Angry(logging.Handler):
        def handle(self, record):
            raise RuntimeError("disk full")

    logger, angry = logging.getLogger("toolcrib"), Angry()
    logger.addHandler(angry)
    try:
        reporter.report("probe", ValueError("one"), "c")
        assert reporter.flush(FLUSH_S)
    finally:
        logger.removeHandler(angry)
    reporter.report("probe", ValueError("two"), "c")
    assert reporter.flush(FLUSH_S)
    assert "two" in messages(caplog)[-1]


def test_a_silent_logger_costs_nothing_and_says_nothing(reporter, caplog):
    caplog.set_level(logging.CRITICAL, "toolcrib")
    reporter.report("probe", ValueError("x"), "c")
    assert reporter.flush(FLUSH_S)
    assert caplog.records == []


def test_frames_and_their_locals_are_let_go_after_the_report(reporter):
    class Witness:
        pass

    def fail(witness):
        raise ValueError("x")

    witness = Witness()
    reference = weakref.ref(witness)
    reporter.report("probe", catch(fail, witness), "c")
    del witness
    assert reporter.flush(FLUSH_S)
    asyncio.run(wait_until(lambda: gc.collect() >= 0 and reference() is None))


# --- how much it says ---


def test_after_five_full_reports_a_tool_gets_lines_and_the_next_says_what_was_left_out(
    reporter, caplog, monkeypatch
):
    monkeypatch.setattr(crash, "SHORT_PERIOD_S", 0.5)
    error = catch(dive, 10)
    for number in range(200):
        reporter.report("noisy", error, str(number))
    reporter.report("other", error, "c")
    assert reporter.flush(FLUSH_S)
    noisy = [record.getMessage() for record in caplog.records if record.tool_name == "noisy"]
    assert len([text for text in noisy if "\n" in text]) == crash.FULL_REPORTS
    assert len(noisy) <= crash.FULL_REPORTS + 2 * crash.SHORT_LINES + 3
    (other,) = [record for record in caplog.records if record.tool_name == "other"]
    assert "\n" in other.getMessage()
    time.sleep(0.5)
    reporter.report("noisy", error, "last")
    assert reporter.flush(FLUSH_S)
    left_out = re.findall(r"\((\d+) more times since the last message\)", "".join(messages(caplog)))
    assert len(noisy) + sum(map(int, left_out)) == 200


def test_anything_that_was_left_out_is_counted_after_a_quiet_time_too(reporter, caplog, monkeypatch):
    monkeypatch.setattr(crash, "IDLE_S", 0.01)
    monkeypatch.setattr(crash, "FULL_REPORTS", 1)
    monkeypatch.setattr(crash, "SHORT_LINES", 1)
    for _ in range(5):
        reporter.report("probe", ValueError("x"), "c")
    end = time.monotonic() + FLUSH_S
    while reporter._is_running and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(1.1)  # another line may be logged
    reporter.report("probe", ValueError("x"), "c")
    assert reporter.flush(FLUSH_S)
    assert "(3 more times since the last message)" in messages(caplog)[-1]


def test_a_full_queue_counts_what_it_cannot_take(reporter, caplog, monkeypatch):
    monkeypatch.setattr(crash, "MAX_QUEUE", 0)
    for _ in range(3):
        reporter.report("probe", ValueError("x"), "c")
    monkeypatch.setattr(crash, "MAX_QUEUE", 1)
    reporter.report("probe", ValueError("x"), "c")
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    assert "(3 more times since the last message)" in text


def test_the_thread_ends_when_nothing_comes_and_starts_again(reporter, caplog, monkeypatch):
    monkeypatch.setattr(crash, "IDLE_S", 0.05)
    reporter.report("probe", ValueError("one"), "c")
    assert reporter.flush(FLUSH_S)
    asyncio.run(wait_until(lambda: not reporter._is_running))
    reporter.report("probe", ValueError("two"), "c")
    assert reporter.flush(FLUSH_S)
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("invalid literal: 'hunter22'", {"pin": "hunter22"}, "invalid literal: '[value]'"),
        ("no row 123456789 here", {"n": 123456789}, "no row [value] here"),
        ("short: abc", {"a": "abc"}, "short: abc"),
        ("in a list: secret-one", {"a": ["x", {"b": "secret-one"}]}, "in a list: [value]"),
        ("'two\\nlines'", {"a": "two\nlines"}, "'[value]'"),
        ("a longer-secret-text", {"a": "longer", "b": "longer-secret-text"}, "a [value]"),
        ("ValueErrors", {"a": "ValueError"}, "ValueErrors"),
        ("nothing given", None, "nothing given"),
        ("a.b*c+d", {"a": "a.b*c+d"}, "[value]"),
    ],
)
def test_values_are_taken_out_wherever_they_are_repeated(text: str, given: object, expected: str) -> None:
    assert hide_values(text, given) == expected


def test_values_without_end_are_looked_at_only_so_far() -> None:
    deep: list[object] = ["buried-secret"]
    for _ in range(20):
        deep = [deep]
    assert hide_values("buried-secret", deep) == "buried-secret"
    assert hide_values("x" * 10, ["y" * 10] * 10_000) == "x" * 10


def test_a_value_of_several_lines_is_hidden_in_the_traceback_too(reporter, caplog):
    error = ValueError("no: first line\nsecond line")
    reporter.report("probe", error, "c", {"text": "first line\nsecond line"})
    assert reporter.flush(FLUSH_S)
    (text,) = messages(caplog)
    assert text.count("[value]") == 2
    assert "second line" not in text
