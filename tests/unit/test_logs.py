"""Log formatting: one line per record, whatever is in it."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from toolcrib import logs
from toolcrib.errors import ConfigurationError
from toolcrib.logs import JSONFormatter, LineHandler, TextFormatter, configure, make_formatter

HOSTILE = "a\nb\r\nc\x1b[31md\u202ee\x00f\u2028g\tz\x85\ud800\U000e0041"


def record(
    message: Any = "words", *arguments: Any, level: int = logging.WARNING, error: Any = None, **extra: Any
) -> Any:
    exc_info = (type(error), error, error.__traceback__) if error is not None else None
    made = logging.LogRecord("toolcrib", level, __file__, 1, message, arguments, exc_info)
    made.created = 1_700_000_000.0625
    made.__dict__.update(extra)
    return made


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def to_json(*words: Any, **facts: Any) -> dict[str, Any]:
    line = JSONFormatter(environ={}).format(record(*words, **facts))
    assert "\n" not in line
    assert line.isprintable()
    found: dict[str, Any] = json.loads(line)
    return found


def to_text(*words: Any, **facts: Any) -> str:
    line = TextFormatter(environ={}).format(record(*words, **facts))
    assert re.match(r"\d\d:\d\d:\d\d ", line)
    return line[9:]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("toolcrib")
    before = found.level, found.propagate, list(found.handlers)
    yield found
    found.level, found.propagate, found.handlers = before
    found.manager._clear_cache()  # type: ignore[attr-defined]


# --- for programs ------------------------------------------------------------------------------------


def test_a_record_is_one_object_with_the_fields_it_carries() -> None:
    fields = {
        "call_id": "c1",
        "tool_name": "refund",
        "outcome": "ok",
        "error_code": None,
        "duration_ms": 1.25,
    }
    assert to_json("call ended: %s", "ok", level=logging.INFO, **fields) == {
        "ts": "2023-11-14T22:13:20.062Z",
        "level": "info",
        "logger": "toolcrib",
        "message": "call ended: ok",
        **fields,
    }


def test_text_that_nobody_sees_is_written_out_and_read_back_as_it_was() -> None:
    assert to_json("asked for %s", HOSTILE, tool_name=HOSTILE)["message"] == f"asked for {HOSTILE}"
    assert to_json(tool_name=HOSTILE)["tool_name"] == HOSTILE


def test_letters_of_other_languages_stay_readable() -> None:
    assert "погода 天気" in JSONFormatter(environ={}).format(record("погода 天気"))


def test_the_process_is_marked_where_there_are_several() -> None:
    line = JSONFormatter(show_process=True, environ={}).format(record())
    assert json.loads(line)["process"] == os.getpid()


def test_a_field_cannot_take_the_place_of_one_of_ours() -> None:
    fields = {"ts": "x", "level": "y", "logger": "z", "trace": "t"}
    made = record()
    made.__dict__.update(fields)
    found = json.loads(JSONFormatter(environ={}).format(made))
    assert (found["level"], found["logger"]) == ("warning", "toolcrib")
    assert [found[name] for name in ("ts_", "level_", "logger_", "trace_")] == ["x", "y", "z", "t"]


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, True),
        (None, None),
        (7, 7),
        (2**53, 2**53),
        (2**53 + 1, str(2**53 + 1)),
        (-(2**53), -(2**53)),
        pytest.param(10**5000, "(int: ValueError)", id="endless"),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (("a", 1), ["a", 1]),
        ({"a"}, ["a"]),
        ({"a": {"b": [1]}, 2: "c"}, {"a": {"b": [1]}, "2": "c"}),
        ({"password": "hunter2", "name": "ana"}, {"password": "[redacted]", "name": "ana"}),
        ([[[[["deep"]]]]], [[[["['deep']"]]]]),
        (b"bytes", "b'bytes'"),
        (Odd(), "(Odd: RuntimeError)"),
        (list(range(60)), list(range(50))),
        (dict.fromkeys(range(60), 0), {str(number): 0 for number in range(50)}),
        pytest.param("x" * 2048, "x" * 2048, id="long"),
        pytest.param("x" * 2049, "x" * 2048 + "...", id="too long"),
    ],
)
def test_a_field_is_what_json_can_say_of_it_and_has_an_end(value: Any, shown: Any) -> None:
    assert to_json(field=value)["field"] == shown


def test_words_that_do_not_fit_their_arguments_are_logged_all_the_same() -> None:
    assert to_json("%d of %d", 1)["message"] == "%d of %d (TypeError while formatting this message)"


def test_an_error_comes_with_its_type_and_a_trace_that_has_an_end() -> None:
    deep = raised(ValueError("x" * 300 + "\n" + HOSTILE))
    found = to_json("it failed", error=deep)
    assert found["message"] == "it failed"
    assert found["error_type"] == "ValueError"
    assert found["trace"].splitlines()[0].lstrip().startswith("File ")
    assert "ValueError: xxx" in found["trace"]
    assert len(found["trace"].encode()) <= 8 * 1024


def test_the_report_of_a_crash_is_a_line_and_its_trace() -> None:
    found = to_json(
        "tool 'a' raised ValueError: x (call 1)\n  File a\n  ValueError: x", error_type="ValueError"
    )
    assert found["message"] == "tool 'a' raised ValueError: x (call 1)"
    assert found["trace"] == "  File a\n  ValueError: x"
    assert found["error_type"] == "ValueError"


# --- for people --------------------------------------------------------------------------------------


def test_a_record_is_the_time_the_level_and_the_words() -> None:
    assert to_text("%d tools", 3) == "warning: 3 tools"
    assert (
        TextFormatter(show_process=True, environ={}).format(record())[9:] == f"[{os.getpid()}] warning: words"
    )


def test_foreign_text_cannot_end_a_line_or_steer_a_terminal() -> None:
    line = to_text("asked for %s", HOSTILE)
    assert line.isprintable()
    assert line.startswith(r"warning: asked for a\nb\r\nc\x1b[31md\u202ee\x00f\u2028g\tz\x85\ud800\U000e0041")


def test_a_call_that_has_ended_is_told_with_its_fields() -> None:
    fields = {"tool_name": "add", "principal": "oauth:ana@a.b", "duration_ms": 0.25, "call_id": "c1"}
    line = to_text("call ended: ok", outcome="ok", error_code=None, **fields)
    assert line == "warning: call ended: ok tool_name=add principal=oauth:ana@a.b duration_ms=0.25 call_id=c1"
    assert to_text("no call", **fields) == "warning: no call"


def test_a_field_cannot_be_mistaken_for_another() -> None:
    odd = 'a call_id="x"\nb\u202e'
    line = to_text(
        "call ended: error", outcome="error", tool_name=odd, error_code="", principal="tck_hunter2"
    )
    start = "warning: call ended: error "
    assert line == start + r'tool_name="a call_id=\"x\"\nb\u202e" principal="tck_[redacted]" error_code=""'
    assert line.isprintable()


def test_the_lines_of_a_crash_report_stay_lines_if_they_are_indented() -> None:
    assert to_text("a\n  b\n    c\nd\r\n  e\x1b", error_type=1) == "warning: a\n  b\n    c\\nd\n  e\\x1b"


def test_an_error_is_told_in_the_same_line_and_its_trace_only_where_asked_for() -> None:
    error = raised(ValueError("too\nbad"))
    assert to_text("it failed", error=error) == r"warning: it failed: ValueError: too\nbad"
    lines = TextFormatter(show_traces=True, environ={}).format(record("it failed", error=error)).split("\n")
    assert lines[0].endswith("warning: it failed")
    assert lines[-2:] == ["  ValueError: too", "  bad"]
    assert all(line.startswith("  ") for line in lines[1:])


def test_a_record_without_an_error_though_one_was_asked_for_is_a_plain_line() -> None:
    made = record("words")
    made.exc_info = (None, None, None)
    assert TextFormatter(environ={}).format(made)[9:] == "warning: words"
    assert "error_type" not in json.loads(JSONFormatter(environ={}).format(made))


# --- secrets -----------------------------------------------------------------------------------------

SLIPS = [
    ("Authorization: Bearer hunter2hunter2", "hunter2"),
    ("postgres://ana:hunter2@db/shop", "hunter2"),
    ("the value is correct-horse, sorry", "correct-horse"),
    ("tck_hunter2", "hunter2"),
]


@pytest.mark.parametrize(("text", "secret"), SLIPS)
@pytest.mark.parametrize("lines", [JSONFormatter, TextFormatter])
def test_secrets_are_taken_out_of_words_fields_errors_and_traces(lines: Any, text: str, secret: str) -> None:
    formatter = lines(environ={"SHOP_SECRET": "correct-horse"})
    error = raised(ValueError(text))
    for made in (
        record("%s", text),
        record(request=text),
        record(request={"headers": [text], text: 1}),
        record(error=error),
        record(f"raised\n  {text}", error_type="ValueError"),
    ):
        assert secret not in formatter.format(made)
    if lines is TextFormatter:
        shown = TextFormatter(show_traces=True, environ={"SHOP_SECRET": "correct-horse"}).format(
            record(error=error)
        )
        assert secret not in shown.splitlines()[-1]


def test_a_field_that_is_named_like_a_secret_is_not_shown() -> None:
    assert to_json(password=12345678)["password"] == "[redacted]"


def test_a_secret_at_the_very_end_of_what_is_shown_is_not_cut_in_half() -> None:
    text = "x" * (16 * 1024 - 6) + " correct-horse"
    shown = JSONFormatter(environ={"SHOP_SECRET": "correct-horse"}).format(record(text))
    assert "correct" not in shown
    assert "correct" not in JSONFormatter(environ={"SHOP_SECRET": "correct-horse"}).format(
        record(request="x" * 2040 + " correct-horse")
    )


def test_the_environment_of_the_process_is_where_secrets_are_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_SECRET", "correct-horse")
    assert "correct" not in JSONFormatter().format(record("correct-horse"))


# --- setting it up -----------------------------------------------------------------------------------


def test_configure_writes_everything_that_toolcrib_logs_to_a_stream(logger: logging.Logger) -> None:
    stream = io.StringIO()
    handler = configure("json", "info", stream)
    logger.info("first", extra={"tool_name": "a"})
    logger.debug("not this")
    [line] = stream.getvalue().splitlines()
    assert json.loads(line)["tool_name"] == "a"
    assert (logger.level, logger.propagate, handler.level) == (logging.INFO, False, logging.INFO)


def test_a_second_call_takes_the_place_of_the_first(logger: logging.Logger) -> None:
    other = logging.NullHandler()
    logger.addHandler(other)
    first, second = io.StringIO(), io.StringIO()
    configure("json", "info", first)
    configure("text", "warning", second)
    logger.warning("once")
    assert first.getvalue() == ""
    assert second.getvalue().endswith("warning: once\n")
    assert other in logger.handlers


def test_it_writes_warnings_as_text_to_stderr_unless_told(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    configure()
    logger.info("not this")
    logger.warning("this")
    assert capsys.readouterr().err.endswith("warning: this\n")
    assert logger.level == logging.WARNING


def test_every_line_is_there_as_soon_as_it_is_logged() -> None:
    class Held(io.StringIO):
        flushed = ""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    stream = Held()
    LineHandler(stream, make_formatter(), "info").emit(record("now"))
    assert stream.flushed.endswith("warning: now\n")


def test_a_stream_that_nobody_reads_any_more_is_nobody_s_trouble() -> None:
    stream = io.StringIO()
    stream.close()
    LineHandler(stream, make_formatter(), "info").emit(record())


@pytest.mark.parametrize(
    ("arguments", "key", "words"),
    [
        (("xml",), "log.format", "must be one of text, json, got 'xml'"),
        (("json", "loud"), "log.level", "must be one of debug, info, warning, error, critical, got 'loud'"),
    ],
)
def test_anything_that_cannot_be_is_refused_by_its_key(
    arguments: tuple[str, ...], key: str, words: str
) -> None:
    before = list(logging.getLogger("toolcrib").handlers)
    with pytest.raises(ConfigurationError) as caught:
        configure(*arguments)
    assert (caught.value.key, caught.value.message) == (key, words)
    assert logging.getLogger("toolcrib").handlers == before


def test_the_lines_of_a_format_know_what_they_are_told() -> None:
    assert type(make_formatter("json", show_process=True)) is JSONFormatter
    text = make_formatter("text", show_process=True, show_traces=True)
    assert f"[{os.getpid()}]" in text.format(record())
    assert "\n    File" in text.format(record(error=raised(ValueError("x"))))
    assert json.loads(make_formatter("json", show_process=True).format(record()))["process"] == os.getpid()


def test_no_level_is_missing() -> None:
    assert [logs.parse_level(level) for level in logs.LEVELS] == [10, 20, 30, 40, 50]
    assert sys.modules["toolcrib.logs"].FORMATS == ("text", "json")
