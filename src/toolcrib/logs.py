"""Log formatting and redaction.

    handler = configure("json", "info")   # everything that toolcrib logs, to stderr

Records of the logger `toolcrib` are redacted by a filter on that logger, so no handler sees a secret, however
logging is configured. Log text may come from outside (names that clients send, messages of exceptions), so a
record is one line (in text format one line and indented ones), control characters are escaped and lengths are
limited. Fields of a record (`tool_name`, `call_id`, `principal`, `outcome`, ...) are keys of the JSON object.

Redaction is a safety net: it removes what looks like a credential and the values of environment variables
that are named like one. A secret without any such mark is not recognised.

The package imports this module on start-up, so patterns are compiled when the first record needs them.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from itertools import islice
from traceback import TracebackException
from typing import IO, Any, Literal

from toolcrib.errors import ConfigurationError

# --- redaction -----------------------------------------------------------------------------------------

HIDDEN = "[redacted]"
MIN_SECRET_LENGTH = 8
"""Shorter values of environment variables are likely to be ordinary words."""
_MAX_NAME_CHARS = 64
MIN_PATTERN_LENGTH = 16
"""A shorter single word matches none of the patterns."""

KEY_PREFIXES = (
    r"sk-(?:ant-|proj-)?|[sr]k_(?:live|test)_|whsec_|gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|xapp-|npm_|pypi-|hf_"
    r"|ya29\.|AKIA|ASIA|AROA|AIDA|AIza"
)
"""Prefixes of well-known API keys, as a pattern; at least 16 more characters follow."""
_SENSITIVE_WORDS = (
    r"pass(?:word|wd|phrase)|pwd|secret|credentials?|cookie"
    r"|token|(?:api|access|private|account|signing|encryption|auth)[_ -]?key|client[_ -]?secret"
)
_MARKER_LIST = """
    authorization bearer basic tck_ eyj :// pass pwd secret credential cookie token key
    sk- k_live_ k_test_ whsec_ gho_ ghp_ ghr_ ghs_ ghu_ _pat_ glpat- xox xapp- npm_ pypi- hf_ ya29. akia asia
    aroa aida aiza
"""
_MARKERS = tuple(_MARKER_LIST.split())
"""Every text that one of the patterns matches contains at least one of these, in lower case."""

Redact = Callable[[str], str]


@functools.cache
def _secret_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return patterns of secrets, each with the part of the match that is kept."""
    return (
        (
            re.compile(r"(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(?:-----END [^-]*-----|$)"),
            r"\1",
        ),
        (
            re.compile(
                r"(?i)\b((?:proxy-)?authorization[\"']?\s*[:=,]\s*(?:b(?=[\"']))?[\"']?)(?:[a-z][\w-]*\s+)?"
                r"[^\s\"',;)}\]]+"
            ),
            r"\1",
        ),
        (re.compile(r"(?i)\b((?:set-)?cookie[\"']?\s*[:=]\s*(?:b(?=[\"']))?[\"']?)[^\"'\r\n]+"), r"\1"),
        (re.compile(r"(?i)\b(bearer\s+)[a-z0-9._~+/=-]{6,}"), r"\1"),
        (re.compile(r"\b([Bb]asic\s+)(?=\S*(?:[a-z][A-Z]|[0-9=]))[A-Za-z0-9+/]{8,}={0,2}"), r"\1"),
        (re.compile(r"\b(tck_)[A-Za-z0-9_.~-]+"), r"\1"),
        (re.compile(r"(?<![\w-])eyJ[\w-]{4,}\.[\w-]{2,}(?:\.[\w-]*)*"), ""),
        (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s/:@]*:)[^\s/]*(?=@)"), r"\1"),
        (re.compile(rf"\b({KEY_PREFIXES})[\w-]{{16,}}"), r"\1"),
        (
            re.compile(
                rf"(?i)((?:{_SENSITIVE_WORDS})s?"
                r"[\"']?\s*(?:=>|[:=])\s*(?:b(?=[\"']))?)(?![\"']?\[redacted\])"
                r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s\"'&,;)}\]]+)"
            ),
            r"\1",
        ),
        (re.compile(rf"(?i)((?<!\S)--?(?:[\w-]*[_-])?(?:{_SENSITIVE_WORDS})\s+)[^\s-]\S*"), r"\1"),
        (  # a command as a list, which is how subprocess shows it: ['login', '--password', 'x']
            re.compile(
                rf"(?i)([\"']--?(?:[\w-]*[_-])?(?:{_SENSITIVE_WORDS})[\"'],\s*(?:b(?=[\"']))?)"
                r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?)"
            ),
            r"\1",
        ),
    )


def is_secret_name(name: str) -> bool:
    """Return whether a value of this name is a secret: `api_key`, `accessToken`, `Authorization`."""
    return _is_secret_ending(name[-_MAX_NAME_CHARS:])


@functools.lru_cache(maxsize=1024)
def _is_secret_ending(name: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    pattern = rf"(?i)(?:{_SENSITIVE_WORDS}|(?:^|[_. -])(?:(?:proxy[_-]?)?authorization|auth|pass|dsn))s?$"
    return re.search(pattern, words) is not None


def find_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables that are named like secrets."""
    pattern = re.compile(rf"(?i)(?:^|_)(?:{_SENSITIVE_WORDS}|key|auth|pass|pat|dsn)s?(?:_[0-9]+)?$")
    for name, value in environ.items():
        # PWD is the current folder in every shell, and part of most paths in a log.
        if name != "PWD" and len(value.strip()) >= MIN_SECRET_LENGTH and pattern.search(name):
            yield value.strip()


def make_redactor(environ: Mapping[str, str]) -> Redact:
    """Return a function that removes secrets from a text, including those of this environment."""
    values = sorted(set(find_secrets(environ)), key=len, reverse=True)
    known = re.compile("|".join(map(re.escape, values))) if values else None

    def redact(text: str) -> str:
        if known is not None:
            text = known.sub(HIDDEN, text)
        if (len(text) < MIN_PATTERN_LENGTH and text.isalnum()) or not _may_hold_secret(text):
            return text
        for pattern, kept in _secret_patterns():
            text = pattern.sub(kept + HIDDEN, text)
        return text

    return redact


def _may_hold_secret(text: str) -> bool:
    """Return whether any marker occurs. Ten times as fast as the patterns, and mostly False."""
    lowered = text.lower()
    for marker in _MARKERS:  # noqa: SIM110 - a generator takes twice as long
        if marker in lowered:
            return True
    return False


# --- the filter ----------------------------------------------------------------------------------------

REDACTED = "_toolcrib_redacted"
"""An attribute of records that were redacted already."""
STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "asctime",
    "message",
    "taskName",
    REDACTED,
}
"""The attributes of every record; all others are fields."""
MAX_REDACT_CHARS = 64 * 1024
"""Longer texts are cut, because patterns would take long."""
_MAX_REDACT_DEPTH = 8
_MAX_CAUSES = 16


class RedactingFilter(logging.Filter):
    """Redacts records in place (message, fields and exception) and drops none."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        super().__init__()
        self._environ = environ
        self._redact: Redact | None = None

    def refresh(self) -> None:
        """Read the environment again: programs often set variables after the import."""
        self._redact = None

    def redact(self, text: str) -> str:
        if self._redact is None:
            self._redact = make_redactor(self._environ)
        return self._redact(text[:MAX_REDACT_CHARS])

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, REDACTED, False):
            return True
        try:
            self._clean(record)
        except Exception as error:  # for example an exception whose `__str__` raises
            record.msg, record.args = "(record cannot be redacted: %s)", (type(error).__name__,)
            record.exc_info = record.exc_text = record.stack_info = None
            for name in list(_fields(record)):
                delattr(record, name)
        setattr(record, REDACTED, True)
        return True

    def _clean(self, record: logging.LogRecord) -> None:
        message = _message(record)
        clean = self.redact(message)
        if clean != message:
            record.msg, record.args = clean, ()
        for name, value in _fields(record).items():
            setattr(record, name, HIDDEN if is_secret_name(name) else self._clean_value(value))
        if record.stack_info:
            record.stack_info = self.redact(record.stack_info)
        error = _error(record)
        if error is not None:
            text = logging.Formatter().formatException(record.exc_info)  # type: ignore[arg-type]  # it has one
            clean = self.redact(text)
            if clean != text:
                copied = self._copy_error(error, _MAX_CAUSES)
                record.exc_text = clean  # formatters of the standard library use this
                record.exc_info = (type(copied), copied, error.__traceback__)

    def _clean_value(self, value: Any, depth: int = _MAX_REDACT_DEPTH) -> Any:
        """Return the value without secrets; the same object where it has none and is not a container."""
        if isinstance(value, str):
            return self.redact(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth > 0 and isinstance(value, Mapping):
            return {
                self.redact(key) if isinstance(key, str) else key: (
                    HIDDEN if is_secret_name(str(key)) else self._clean_value(item, depth - 1)
                )
                for key, item in value.items()
            }
        if depth > 0 and type(value) in (list, tuple, set, frozenset):
            return type(value)(self._clean_value(item, depth - 1) for item in value)
        try:
            text = str(value)
        except Exception:  # no handler can show it either
            return value
        clean = self.redact(text)
        return value if clean == text else clean

    def _copy_error(self, error: BaseException, depth: int) -> BaseException:
        """Return an exception of the same name, traceback and causes whose texts are redacted."""
        kind = type(error)
        copied: BaseException
        if isinstance(error, BaseExceptionGroup):
            parts = [self._copy_error(part, depth - 1) for part in error.exceptions[: max(depth, 1)]]
            copied = BaseExceptionGroup(self.redact(error.message), parts)
        else:
            copied = type(kind.__name__, (Exception,), {"__module__": kind.__module__})(
                self.redact(_error_text(error))
            )
        copied.__traceback__ = error.__traceback__
        for note in getattr(error, "__notes__", None) or ():
            copied.add_note(self.redact(str(note)))
        if depth > 0:
            if error.__cause__ is not None:
                copied.__cause__ = self._copy_error(error.__cause__, depth - 1)
            elif error.__context__ is not None and not error.__suppress_context__:
                copied.__context__ = self._copy_error(error.__context__, depth - 1)
        copied.__suppress_context__ = error.__suppress_context__
        return copied


package_filter = RedactingFilter()


def install_filter() -> None:
    """Put the filter on the logger of this package; calling it again has no effect."""
    logging.getLogger("toolcrib").addFilter(package_filter)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in STANDARD_ATTRIBUTES}


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # the format string and its arguments do not match
        return f"{record.msg} ({type(error).__name__} while formatting this message)"


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _error_text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "(no text: __str__ failed)"


# --- tracebacks ----------------------------------------------------------------------------------------

MAX_FRAMES = 50
MAX_TRACE_LINES = 500
_TITLE = "Traceback (most recent call last):"
MAX_ERROR_CHARS = 500

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


def escape(text: str, limit: int = MAX_ERROR_CHARS) -> str:
    """Return the text on one line: cut to `limit`, line breaks and control characters escaped."""
    cut = _cut(text, limit)
    if cut.isprintable():
        return cut
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in cut
    )


def describe_error(error: BaseException) -> str:
    """Return type and message of an exception on one line, even where its `__str__` fails."""
    kind, text = type(error).__name__, _error_text(error)
    return escape(f"{kind}: {text}" if text else kind)


def format_trace(error: BaseException, max_bytes: int, clean: Callable[[str], str]) -> str:
    """Return the traceback of an exception and its causes, the first cause first, each line indented.

    Of each exception, the last `MAX_FRAMES` frames are shown. Those of toolcrib between the call and the tool
    are left out: they are the same for every tool. `clean` removes secrets, which may have several lines.
    """
    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        first = first.tb_next
    trace = first or error.__traceback__
    told = TracebackException(type(error), error, trace, limit=-MAX_FRAMES, compact=True)
    lines = "".join(told.format()).rstrip("\n").split("\n")
    lines = [_cut(line, 4 * MAX_ERROR_CHARS) for line in lines if not line.endswith(_TITLE)]
    if len(lines) > MAX_TRACE_LINES:  # texts of exceptions may have any number
        lines[MAX_TRACE_LINES // 2 : -MAX_TRACE_LINES // 2] = ["... cut ..."]
    lines = clean("\n".join(lines)).split("\n")
    return _cut_middle("\n".join(f"  {escape(line)}" for line in lines), max_bytes)


def _cut_middle(text: str, max_bytes: int) -> str:
    """Cut the middle: the first frames show the caller, the last lines the error."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= max_bytes:
        return text
    mark = b"\n  ... cut ...\n"
    half = (max_bytes - len(mark)) // 2
    return (data[:half] + mark + data[-half:]).decode("utf-8", "ignore")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


# --- formatting ----------------------------------------------------------------------------------------

Format = Literal["text", "json"]
FORMATS: tuple[Format, ...] = ("text", "json")
LEVELS = ("debug", "info", "warning", "error", "critical")
MAX_MESSAGE_CHARS = 16 * 1024
MAX_FIELD_CHARS = 2 * 1024
MAX_ITEMS = 50
MAX_DEPTH = 4
MAX_TRACE_BYTES = 8 * 1024
MAX_EXACT_INTEGER = 2**53
"""JSON readers round larger integers."""

_JSON_KEYS = frozenset({"ts", "level", "logger", "process", "message", "trace"})
_MULTILINE_FIELDS = ("error_type",)
"""Records with these fields (crashes) have several lines, laid out by toolcrib."""
_CALL_FIELDS = ("tool_name", "principal", "error_code", "duration_ms", "call_id")


class LineFormatter(logging.Formatter):
    """Base of the formatters: one record, one line, no secrets."""

    def __init__(self, *, show_process: bool = False, environ: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._pid = os.getpid() if show_process else None
        self._filter = RedactingFilter(os.environ if environ is None else environ)

    def format(self, record: logging.LogRecord) -> str:
        if not getattr(record, REDACTED, False):  # of another logger, or made by hand
            record = copy(record)
            self._filter.filter(record)
        return self._format(record)

    def _format(self, record: logging.LogRecord) -> str:
        raise NotImplementedError

    def _format_trace(self, record: logging.LogRecord) -> str | None:
        error = _error(record)
        # A traceback shows lines of source code, which the filter has not seen.
        return None if error is None else format_trace(error, MAX_TRACE_BYTES, self._filter.redact)


class TextFormatter(LineFormatter):
    """`12:30:05 warning: message`. Tracebacks only with `show_traces`."""

    def __init__(
        self,
        *,
        show_process: bool = False,
        show_traces: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(show_process=show_process, environ=environ)
        self._show_traces = show_traces

    def _format(self, record: logging.LogRecord) -> str:
        message = _cut(_message(record), MAX_MESSAGE_CHARS)
        if any(hasattr(record, name) for name in _MULTILINE_FIELDS):
            text = "\n  ".join(map(_escape_all, message.replace("\r\n", "\n").split("\n  ")))
        else:
            text = _escape_all(message)
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        process = "" if self._pid is None else f"[{self._pid}] "
        text += _format_call_fields(record) + self._format_error(record)
        return f"{clock} {process}{record.levelname.lower()}: {text}"

    def _format_error(self, record: logging.LogRecord) -> str:
        error = _error(record)
        if error is None:
            return ""
        if self._show_traces:
            return f"\n{self._format_trace(record)}"
        return f": {self._filter.redact(describe_error(error))}"


def _format_call_fields(record: logging.LogRecord) -> str:
    """Return the fields that identify a call, for records about the end of one (with an `outcome`)."""
    if not hasattr(record, "outcome"):
        return ""
    given = ((name, getattr(record, name, None)) for name in _CALL_FIELDS)
    return "".join(
        f" {name}={_quote(_cut(str(value), MAX_FIELD_CHARS))}" for name, value in given if value is not None
    )


class JSONFormatter(LineFormatter):
    """`{"ts": "...", "level": "warning", "logger": "toolcrib", "message": "...", ...}`."""

    def _format(self, record: logging.LogRecord) -> str:
        message, trace = _cut(_message(record), MAX_MESSAGE_CHARS), self._format_trace(record)
        if trace is None and hasattr(record, "error_type"):
            message, _, trace = message.partition("\n")  # a crash report has its traceback in the message
        line: dict[str, Any] = {
            "ts": _format_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        if self._pid is not None:
            line["process"] = self._pid
        for name, value in _fields(record).items():
            line[f"{name}_" if name in _JSON_KEYS else name] = _to_json_value(value)
        error = _error(record)
        if error is not None:
            line.setdefault("error_type", type(error).__name__)
        if trace:
            line["trace"] = trace
        return _to_json(line)


def _to_json_value(value: Any) -> Any:
    """Return a field as JSON can hold it, with bounded size."""
    try:
        return _convert(value, MAX_DEPTH)
    except Exception as error:  # `__str__` failed, or an integer with too many digits
        return f"({type(value).__name__}: {type(error).__name__})"


def _convert(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int and abs(value) <= MAX_EXACT_INTEGER:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if depth > 0 and isinstance(value, Mapping):
        return {
            _cut(str(name), MAX_FIELD_CHARS): _convert(item, depth - 1)
            for name, item in islice(value.items(), MAX_ITEMS)
        }
    if depth > 0 and isinstance(value, list | tuple | set | frozenset):
        return [_convert(item, depth - 1) for item in islice(value, MAX_ITEMS)]
    return _cut(str(value), MAX_FIELD_CHARS)


def _escape_all(text: str) -> str:
    return escape(text, len(text))


def _quote(value: str) -> str:
    """Quote a value that could be mistaken for the next field."""
    return value if re.fullmatch(r"[\w.:@/+-]+", value) else _to_json(value)


def _to_json(value: Any) -> str:
    """Return JSON on one line, with characters that are not printable escaped."""
    import json  # most programs that import toolcrib log no JSON

    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _format_time(created_s: float) -> str:
    """Return a time in UTC to the millisecond, as in RFC 3339."""
    ms = math.floor(created_s * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1000))}.{ms % 1000:03d}Z"


# --- setup ---------------------------------------------------------------------------------------------


class LineHandler(logging.Handler):
    """Writes lines to a stream. A closed or full stream never makes a call fail."""

    def __init__(self, stream: IO[str], formatter: LineFormatter, level: str) -> None:
        super().__init__(parse_level(level))
        self._stream = stream
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._stream.write(self.format(record) + "\n")
            self._stream.flush()
        except Exception:  # the stream is closed or full  # noqa: S110
            pass


def make_formatter(
    format: str = "text",  # noqa: A002 - the name of the setting
    *,
    show_process: bool = False,
    show_traces: bool = False,
) -> LineFormatter:
    """Return the formatter of a format's name. Raises ConfigurationError."""
    if format == "json":
        return JSONFormatter(show_process=show_process)
    if format == "text":
        return TextFormatter(show_process=show_process, show_traces=show_traces)
    raise ConfigurationError(f"must be one of {', '.join(FORMATS)}, got {format!r}", key="log.format")


def parse_level(level: str) -> int:
    if level not in LEVELS:
        raise ConfigurationError(f"must be one of {', '.join(LEVELS)}, got {level!r}", key="log.level")
    return logging.getLevelNamesMapping()[level.upper()]


def configure(
    format: str = "text",  # noqa: A002 - the name of the setting
    level: str = "warning",
    stream: IO[str] | None = None,
) -> logging.Handler:
    """Write the log of toolcrib to a stream, by default stderr. A second call replaces the handler.

    For programs that serve without the command line and have no logging of their own. Raises
    ConfigurationError.
    """
    handler = LineHandler(sys.stderr if stream is None else stream, make_formatter(format), level)
    logger = logging.getLogger("toolcrib")
    for old in [each for each in logger.handlers if type(each) is LineHandler]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(handler.level)
    logger.propagate = False
    return handler
