"""Redact what toolcrib logs, whoever handles it.

Everything is logged on the logger `toolcrib`, and a filter there cleans each record before any handler sees
it: its message, its fields and its exception. So it does not matter who configured logging, or whether
anybody did. Loaded with the package; what it needs for its work is loaded for the first record.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

REDACTED = "_toolcrib_redacted"
"""An attribute of records that are clean, so that nobody cleans them again."""
USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message", "taskName", REDACTED}
"""The attributes of every record; all others are fields."""
MAX_READ = 64 * 1024
"""Longer texts are cut: patterns would take long over them, and nobody reads on."""
MAX_DEPTH = 8
MAX_CAUSES = 16
_PLAIN = (bool, int, float, type(None))

Redact = Callable[[str], str]


class RedactingFilter(logging.Filter):
    """Cleans records in place and lets all of them pass."""

    def __init__(self) -> None:
        super().__init__()
        self._redact: Redact | None = None

    def refresh(self) -> None:
        """Look for secrets in the environment again, where programs often put them after an import."""
        self._redact = None

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, REDACTED, False):
            return True
        try:
            self._clean(record, self._find_redact())
        except Exception as error:  # an exception that cannot show itself
            record.msg, record.args = "(a record that cannot be redacted: %s)", (type(error).__name__,)
            record.exc_info = record.exc_text = record.stack_info = None
            for name in [name for name in vars(record) if name not in USUAL]:
                delattr(record, name)
        setattr(record, REDACTED, True)
        return True

    def _find_redact(self) -> Redact:
        redact = self._redact
        if redact is None:
            from toolcrib.redaction import make_redactor  # delayed: most programs log nothing for long

            known = make_redactor(os.environ)
            redact = self._redact = lambda text: known(text if len(text) <= MAX_READ else text[:MAX_READ])
        return redact

    def _clean(self, record: logging.LogRecord, redact: Redact) -> None:
        from toolcrib.redaction import HIDDEN, is_secret_name

        text = _message_of(record)
        clean = redact(text)
        if clean != text:
            record.msg, record.args = clean, ()
        for name, value in list(vars(record).items()):
            if name not in USUAL:
                setattr(record, name, HIDDEN if is_secret_name(name) else _clean_value(value, redact))
        if record.stack_info:
            record.stack_info = redact(record.stack_info)
        if record.exc_info and record.exc_info[1] is not None:
            _clean_error(record, record.exc_info[1], redact)


FILTER = RedactingFilter()


def install() -> None:
    """Put the filter on the logger of this package; a second time does nothing."""
    logging.getLogger("toolcrib").addFilter(FILTER)


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # the words and their arguments do not fit together
        record.msg = f"{record.msg} ({type(error).__name__} while this was put together)"
        record.args = ()
        return record.msg


def _clean_value(value: Any, redact: Redact, depth: int = MAX_DEPTH) -> Any:
    """The same value where there is no secret in it."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, _PLAIN):
        return value
    if depth > 0 and isinstance(value, Mapping):
        from toolcrib.redaction import HIDDEN, is_secret_name

        return {
            key: HIDDEN if is_secret_name(str(key)) else _clean_value(item, redact, depth - 1)
            for key, item in value.items()
        }
    if depth > 0 and type(value) in (list, tuple, set, frozenset):
        return type(value)(_clean_value(item, redact, depth - 1) for item in value)
    try:
        text = str(value)
    except Exception:  # then nobody else can show it either
        return value
    clean = redact(text)
    return value if clean == text else clean


def _clean_error(record: logging.LogRecord, error: BaseException, redact: Redact) -> None:
    """Replace an exception whose traceback holds a secret by one that looks like it and does not."""
    text = logging.Formatter().formatException(record.exc_info)  # type: ignore[arg-type]  # it has one
    clean = redact(text)
    if clean == text:
        return
    stand_in = _stand_in(error, redact, MAX_CAUSES)
    record.exc_text = clean  # formatters of the standard library take this
    record.exc_info = (type(stand_in), stand_in, error.__traceback__)


def _stand_in(error: BaseException, redact: Redact, left: int) -> BaseException:
    kind = type(error)
    text = redact(_words_of(error))
    made: BaseException
    if isinstance(error, BaseExceptionGroup):
        parts = [_stand_in(part, redact, left - 1) for part in error.exceptions[: max(left, 1)]]
        made = BaseExceptionGroup(redact(error.message), parts)
    else:
        made = type(kind.__name__, (Exception,), {"__module__": kind.__module__})(text)
    made.__traceback__ = error.__traceback__
    for note in getattr(error, "__notes__", None) or ():
        made.add_note(redact(str(note)))
    if left > 0:
        if error.__cause__ is not None:
            made.__cause__ = _stand_in(error.__cause__, redact, left - 1)
        elif error.__context__ is not None and not error.__suppress_context__:
            made.__context__ = _stand_in(error.__context__, redact, left - 1)
    made.__suppress_context__ = error.__suppress_context__
    return made


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be had)"
