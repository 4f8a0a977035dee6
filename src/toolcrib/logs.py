"""The log as lines: for people, or one JSON object each for programs.

    handler = configure("json", "info")   # everything that toolcrib logs, to stderr

What is logged is partly foreign: names that clients ask for, words of exceptions. So one record is one line
(or, for people, one line and indented ones that we laid out ourselves), nothing in it steers a terminal or
hides from a reader, secrets are taken out of words and fields, and everything has an end. Fields that a
record carries (`tool_name`, `call_id`, `principal`, `outcome`, ...) are keys of the object. Records of the
logger `toolcrib` come without secrets already (`logfilter.py`); from others they are taken out here.
Knows log records; refuses to know who writes them and why.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import IO, Any, Literal

from toolcrib.errors import ConfigurationError
from toolcrib.execution.trace import describe, escape, format_trace
from toolcrib.logfilter import MAX_READ, REDACTED, USUAL
from toolcrib.redaction import HIDDEN, is_secret_name, make_redactor

Format = Literal["text", "json"]
FORMATS: tuple[Format, ...] = ("text", "json")
LEVELS = ("debug", "info", "warning", "error", "critical")
MAX_MESSAGE = 16 * 1024
MAX_FIELD = 2 * 1024
MAX_ITEMS = 50
MAX_DEPTH = 4
MAX_TRACE_BYTES = 8 * 1024
MAX_EXACT = 2**53
"""Beyond it, readers of JSON round whole numbers."""

_OWN = frozenset({"ts", "level", "logger", "process", "message", "trace"})
_LAID_OUT = ("error_type", "errors")
"""The fields of records whose words are in lines of our own making: crashes, and refused reloads."""
_TOLD = ("tool_name", "principal", "error_code", "duration_ms", "call_id")
_PLAIN = re.compile(r"[\w.:@/+-]+")


class Lines(logging.Formatter):
    """One record as one line."""

    def __init__(self, *, marks_process: bool = False, environ: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._pid = os.getpid() if marks_process else None
        self._redact: Callable[[str], str] = make_redactor(os.environ if environ is None else environ)

    def _words(self, record: logging.LogRecord) -> str:
        try:
            text = record.getMessage()
        except Exception as error:  # the words and their arguments do not fit together
            text = f"{record.msg} ({type(error).__name__} while this was put together)"
        return self._clean(text, MAX_MESSAGE, record)

    def _clean(self, text: str, length: int, record: logging.LogRecord) -> str:
        """Cut after secrets are out: half of one would not be recognised."""
        text = text[:MAX_READ]
        return _cut(text if getattr(record, REDACTED, False) else self._redact(text), length)

    def _trace(self, record: logging.LogRecord) -> str | None:
        error = record.exc_info[1] if record.exc_info else None
        return None if error is None else self._redact(format_trace(error, MAX_TRACE_BYTES))


class TextLines(Lines):
    """`12:30:05 warning: words`. Traces of errors only where `shows_traces` says so."""

    def __init__(
        self,
        *,
        marks_process: bool = False,
        shows_traces: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(marks_process=marks_process, environ=environ)
        self._shows_traces = shows_traces

    def format(self, record: logging.LogRecord) -> str:
        words = self._words(record)
        if any(hasattr(record, name) for name in _LAID_OUT):
            text = "\n  ".join(map(_escape, words.replace("\r\n", "\n").split("\n  ")))
        else:
            text = _escape(words)
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        mark = "" if self._pid is None else f"[{self._pid}] "
        text += self._tell_fields(record) + self._explain(record)
        return f"{clock} {mark}{record.levelname.lower()}: {text}"

    def _tell_fields(self, record: logging.LogRecord) -> str:
        """The fields of a call that has ended: its words alone do not say which."""
        if not hasattr(record, "outcome"):
            return ""
        given = ((name, getattr(record, name, None)) for name in _TOLD)
        shown = (
            (name, self._clean(str(value), MAX_FIELD, record)) for name, value in given if value is not None
        )
        return "".join(f" {name}={_quote(value)}" for name, value in shown)

    def _explain(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return ""
        if self._shows_traces:
            return f"\n{self._trace(record)}"
        return f": {self._redact(describe(error))}"


class JSONLines(Lines):
    """`{"ts": "...", "level": "warning", "logger": "toolcrib", "message": "words", ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        words, trace = self._words(record), self._trace(record)
        if trace is None and hasattr(record, "error_type"):
            words, _, trace = words.partition("\n")  # the report of a crash brings its own
        facts: dict[str, Any] = {
            "ts": _tell_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": words,
        }
        if self._pid is not None:
            facts["process"] = self._pid
        for name, value in vars(record).items():
            if name not in USUAL:
                shown = HIDDEN if is_secret_name(name) else self._show(value, record)
                facts[f"{name}_" if name in _OWN else name] = shown
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            facts.setdefault("error_type", type(error).__name__)
        if trace:
            facts["trace"] = trace
        return _to_json(facts)

    def _show(self, value: Any, record: logging.LogRecord) -> Any:
        """A field as JSON can say it, without secrets and without being endless."""
        try:
            return self._plain(value, MAX_DEPTH, record)
        except Exception as error:  # a class that cannot show itself, or a number of too many digits
            return f"({type(value).__name__}: {type(error).__name__})"

    def _plain(self, value: Any, depth: int, record: logging.LogRecord) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if type(value) is int and abs(value) <= MAX_EXACT:
            return value
        if type(value) is float and math.isfinite(value):
            return value
        if isinstance(value, Mapping | list | tuple | set | frozenset) and depth > 0:
            return self._plain_items(value, depth - 1, record)
        return self._clean(str(value), MAX_FIELD, record)

    def _plain_items(self, value: Any, depth: int, record: logging.LogRecord) -> Any:
        if not isinstance(value, Mapping):
            return [self._plain(item, depth, record) for item in islice(value, MAX_ITEMS)]
        return {
            self._plain(str(name), 0, record): (
                HIDDEN if is_secret_name(str(name)) else self._plain(item, depth, record)
            )
            for name, item in islice(value.items(), MAX_ITEMS)
        }


class LogLines(logging.Handler):
    """Writes lines to a stream. That nobody reads it any more must not become a call's trouble."""

    def __init__(self, stream: IO[str], lines: Lines, level: str) -> None:
        super().__init__(read_level(level))
        self._stream = stream
        self.setFormatter(lines)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._stream.write(self.format(record) + "\n")
            self._stream.flush()
        except Exception:  # nosec B110  # the stream is closed or full
            pass


def make_lines(
    format: str = "text",  # noqa: A002 - the word that files and the command have for it
    *,
    marks_process: bool = False,
    shows_traces: bool = False,
) -> Lines:
    """The lines of a format by its name. Raises ConfigurationError."""
    if format == "json":
        return JSONLines(marks_process=marks_process)
    if format == "text":
        return TextLines(marks_process=marks_process, shows_traces=shows_traces)
    raise ConfigurationError(f"must be one of {', '.join(FORMATS)}, got {format!r}", key="log.format")


def read_level(level: str) -> int:
    if level not in LEVELS:
        raise ConfigurationError(f"must be one of {', '.join(LEVELS)}, got {level!r}", key="log.level")
    return logging.getLevelNamesMapping()[level.upper()]


def configure(
    format: str = "text",  # noqa: A002 - as above
    level: str = "warning",
    stream: IO[str] | None = None,
) -> logging.Handler:
    """Write what toolcrib logs to a stream, stderr unless told. Gives the handler; a second call replaces it.

    For programs that serve without the command line and have no logging of their own. Raises
    ConfigurationError.
    """
    handler = LogLines(sys.stderr if stream is None else stream, make_lines(format), level)
    logger = logging.getLogger("toolcrib")
    for old in [each for each in logger.handlers if type(each) is LogLines]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(handler.level)
    logger.propagate = False
    return handler


def _escape(text: str) -> str:
    return escape(text, len(text))


def _quote(value: str) -> str:
    """A value that cannot be mistaken for the next field."""
    return value if _PLAIN.fullmatch(value) else _to_json(value)


def _to_json(facts: Any) -> str:
    """On one line, with the same letters written out: whoever reads the JSON gets the text as it was."""
    text = json.dumps(facts, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _tell_time(created_s: float) -> str:
    """In UTC, to the millisecond, as RFC 3339 has it."""
    ms = math.floor(created_s * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1000))}.{ms % 1000:03d}Z"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
