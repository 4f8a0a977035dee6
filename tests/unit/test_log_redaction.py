"""Records of the logger `toolcrib` are redacted before any handler sees them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import MCPServer
from toolcrib.logs import MAX_REDACT_CHARS, REDACTED, JSONFormatter, install_filter, package_filter

SECRET = "Bearer abcdef0123456789"
CLEAN = "Bearer [redacted]"


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    logger = logging.getLogger("toolcrib")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def log(kept: Kept, message: str, *args: Any, **options: Any) -> logging.LogRecord:
    logging.getLogger("toolcrib").error(message, *args, **options)
    return kept.records[-1]


def caught(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as raised:
        return raised


def test_there_is_one_filter_however_often_it_is_installed() -> None:
    install_filter()
    assert logging.getLogger("toolcrib").filters == [package_filter]


def test_a_message_without_a_secret_keeps_its_arguments(kept: Kept) -> None:
    record = log(kept, "%s of %d", "one", 2)
    assert (record.msg, record.args, record.getMessage()) == ("%s of %d", ("one", 2), "one of 2")


def test_a_secret_in_an_argument_is_gone_from_the_record(kept: Kept) -> None:
    record = log(kept, "sent %s", SECRET)
    assert record.getMessage() == f"sent {CLEAN}"
    assert "abcdef" not in repr(vars(record))


def test_a_message_that_does_not_fit_its_arguments_is_still_clean(kept: Kept) -> None:
    assert (
        log(kept, f"%d {SECRET}", "x").getMessage() == f"%d {CLEAN} (TypeError while formatting this message)"
    )


def test_a_long_message_is_cut(kept: Kept) -> None:
    assert len(log(kept, "%s", "x" * (MAX_REDACT_CHARS + 1)).getMessage()) == MAX_REDACT_CHARS


def test_fields_are_clean_at_every_depth_and_keep_their_types(kept: Kept) -> None:
    class Told:
        def __str__(self) -> str:
            return SECRET

    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    mute, path = Mute(), Path("a")
    fields = {
        "api_key": 5,
        "said": SECRET,
        "number": 1.5,
        "items": [SECRET, (SECRET, 2), {"x"}],
        "table": {"password": "x", "at": [SECRET]},
        "told": Told(),
        "mute": mute,
        "path": path,
    }
    record: Any = log(kept, "words", extra=fields)
    assert (record.api_key, record.said, record.number) == ("[redacted]", CLEAN, 1.5)
    assert record.items == [CLEAN, (CLEAN, 2), {"x"}]
    assert record.table == {"password": "[redacted]", "at": [CLEAN]}
    assert record.told == CLEAN
    assert record.mute is mute
    assert record.path is path


def test_an_exception_without_a_secret_is_left_alone(kept: Kept) -> None:
    error = caught(ValueError("words"))
    record = log(kept, "failed", exc_info=error)
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_an_exception_with_a_secret_is_replaced_with_its_causes(kept: Kept) -> None:
    cause = caught(KeyError(f"password={SECRET}"))
    cause.add_note(f"noted {SECRET}")
    record = log(kept, "failed", exc_info=caught(ConnectionError(SECRET), cause), stack_info=True)
    assert record.exc_info is not None
    error = record.exc_info[1]
    assert (type(error).__name__, str(error)) == ("ConnectionError", CLEAN)
    assert error is not None
    assert error.__cause__ is not None
    assert error.__cause__.__notes__ == [f"noted {CLEAN}"]
    shown = logging.Formatter().format(record) + logging.Formatter().formatException(record.exc_info)
    assert "abcdef" not in shown
    assert shown.count("test_log_redaction.py") >= 4


def test_anything_that_an_exception_came_from_and_its_parts_are_clean_too(kept: Kept) -> None:
    try:
        try:
            raise ValueError(SECRET)
        except ValueError:
            raise ExceptionGroup(SECRET, [OSError(SECRET)])
    except ExceptionGroup as error:
        record = log(kept, "failed", exc_info=error)
    assert record.exc_info is not None
    group = record.exc_info[1]
    assert isinstance(group, ExceptionGroup)
    assert str(group.exceptions[0]) == CLEAN
    assert str(group.__context__) == CLEAN


def test_an_exception_that_cannot_show_itself_does_not_hide_the_others(kept: Kept) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    record = log(kept, "failed", exc_info=caught(ValueError(SECRET), caught(Mute())))
    assert "abcdef" not in logging.Formatter().format(record)


def test_a_record_that_cannot_be_cleaned_says_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> str:
        raise RecursionError

    monkeypatch.setattr(package_filter, "_redact", fail)
    record = log(kept, SECRET, extra={"said": SECRET}, exc_info=caught(ValueError(SECRET)))
    assert record.getMessage() == "(record cannot be redacted: RecursionError)"
    assert "abcdef" not in repr(vars(record))


def test_a_clean_record_is_not_cleaned_again(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    record = log(kept, SECRET, extra={"said": SECRET})
    before = dict(vars(record))
    monkeypatch.setattr(package_filter, "_redact", None)
    assert package_filter.filter(record)
    lines = JSONFormatter(environ={"SOME_TOKEN": "redacted"})
    assert CLEAN in lines.format(record)
    assert REDACTED not in lines.format(record)
    assert dict(vars(record)) == before


async def test_secrets_of_the_environment_are_looked_up_again_when_a_server_starts(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(kept, "first")
    monkeypatch.setenv("SHOP_PASSWORD", "tangerine-dream")
    async with MCPServer():
        assert log(kept, "it is tangerine-dream").getMessage() == "it is [redacted]"
    monkeypatch.undo()
    package_filter.refresh()
