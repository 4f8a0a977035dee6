"""The log as lines: for people, or one JSON object each for programs.

    handler = configure("json", "info")   # everything that toolcrib logs, to stderr

What is logged is partly foreign: names that clients ask for, words of exceptions. So one record is one line
(or, for people, one line and indented ones that we laid out ourselves), nothing in it steers a terminal or
hides from a reader, secrets are taken out of words and fields, and everything has an end. Fields that a
record carries (`tool_name`, `call_id`, `principal`, `outcome`, ...) are keys of the object. Records of the
logger `toolcrib` come without secrets already (`logfilter.py`); from others they are taken out here.
Knows log records; refuses to know who writes them and why.

Text without the secrets that somebody let slip into it.

Takes out what looks like a credential (headers, bearer tokens, our own keys, signed tokens, passwords in
addresses, keys of known makes, whatever is called a password), and the very values of environment variables
that are named like one. A net, not a wall: who writes a secret plainly and calls it nothing is not caught.
Knows forms of secrets; refuses to know where the text goes.

Redact what toolcrib logs, whoever handles it.

Everything is logged on the logger `toolcrib`, and a filter there cleans each record before any handler sees
it: its message, its fields and its exception. So it does not matter who configured logging, or whether
anybody did. Loaded with the package; what it needs for its work is loaded for the first record.

A traceback as plain text of bounded size that cannot be mistaken for something else.

Error messages are foreign text: what could end a line or move a terminal's cursor is written out instead.
Knows exceptions and frames; refuses to know logs and tools.
"""

from __future__ import annotations

import functools
import json
import linecache
import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import IO, Any, Literal

from toolcrib.errors import ConfigurationError

HIDDEN = "[redacted]"
MIN_VALUE = 8
"""A shorter value of a variable is more likely to be a word that means nothing."""
SHORT = 16
"""A single word that is shorter is in none of the forms below: it is not even looked at."""

MAKES = (
    r"sk-(?:ant-|proj-)?|[sr]k_(?:live|test)_|whsec_|gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|xapp-|npm_|pypi-|hf_"
    r"|ya29\.|AKIA|ASIA|AROA|AIDA|AIza"
)
"""How keys of known makes begin, wherever we look for them: at least 16 more signs follow."""
_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret|credentials?|cookie"
    r"|token|(?:api|access|private|account|signing|encryption|auth)[_ -]?key|client[_ -]?secret"
)
_SECRET_NAME = re.compile(rf"(?i)(?:^|[_. -])(?:{_NAMES}|(?:proxy[_-]?)?authorization|auth|pass|dsn)s?$")
_SECRET_VARIABLE = re.compile(rf"(?i)(?:^|_)(?:{_NAMES}|key|auth|pass|pat|dsn)s?(?:_[0-9]+)?$")
_FOLDER = "PWD"
"""Every shell's name for the folder it is in: a part of most paths in a log, and no password."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_STARTS = """
    authorization bearer basic tck_ eyj :// pass pwd secret credential cookie token key
    sk- k_live_ k_test_ whsec_ gho_ ghp_ ghr_ ghs_ ghu_ _pat_ glpat- xox xapp- npm_ pypi- hf_ ya29. akia asia
    aroa aida aiza
"""
_HINTS = tuple(_STARTS.split())
"""What has none of this holds no secret that we would know."""

_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
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
    (re.compile(rf"\b({MAKES})[\w-]{{16,}}"), r"\1"),
    (
        re.compile(
            rf"(?i)((?:(?<![a-z])(?:{_NAMES})s?|(?-i:(?<=[a-z])(?:Password|Secret|Token|(?:Api|Access|Private)Key)))"
            r"[\"']?\s*(?:=>|[:=])\s*(?:b(?=[\"']))?)(?![\"']?\[redacted\])"
            r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s\"'&,;)}\]]+)"
        ),
        r"\1",
    ),
    (  # a command as a list, which is how subprocess shows it: ['login', '--password', 'x']
        re.compile(
            rf"(?i)([\"']--?(?:[\w-]*[_-])?(?:{_NAMES})[\"'],\s*(?:b(?=[\"']))?)"
            r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?)"
        ),
        r"\1",
    ),
)


def find_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """The values of variables that are named like secrets."""
    for name, value in environ.items():
        if name != _FOLDER and len(value.strip()) >= MIN_VALUE and _SECRET_VARIABLE.search(name):
            yield value.strip()


@functools.lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Whether something of this name is likely to be a secret: `api_key`, `accessToken`, `Authorization`."""
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None


def make_redactor(environ: Mapping[str, str]) -> Callable[[str], str]:
    """A function that takes secrets out of a text, those of this environment among them."""
    values = sorted(set(find_secrets(environ)), key=len, reverse=True)
    known = re.compile("|".join(map(re.escape, values))) if values else None

    def redact(text: str) -> str:
        if known is not None:
            text = known.sub(HIDDEN, text)
        if (len(text) < SHORT and text.isalnum()) or not _may_hold_secret(text):
            return text
        for form, kept in _FORMS:
            text = form.sub(kept + HIDDEN, text)
        return text

    return redact


def _may_hold_secret(text: str) -> bool:
    """Most texts do not, and a pattern of all these would look ten times as long."""
    lowered = text.lower()
    for hint in _HINTS:  # noqa: SIM110 - a generator takes twice as long
        if hint in lowered:
            return True
    return False


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
            known = make_redactor(os.environ)
            redact = self._redact = lambda text: known(text if len(text) <= MAX_READ else text[:MAX_READ])
        return redact

    def _clean(self, record: logging.LogRecord, redact: Redact) -> None:

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


MAX_FRAMES = 50
MAX_WORDS = 500
MAX_ERRORS = 4

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def escape(text: str, limit: int = MAX_WORDS) -> str:
    """The text on one line, without anything that a terminal or a log reader could take for its own."""
    cut = text if len(text) <= limit else text[:limit] + "..."
    if cut.isprintable():
        return cut
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in cut
    )


def describe(error: BaseException) -> str:
    """Type and words of an error on one line, whatever its `__str__` does."""
    try:
        kind, words = type(error).__name__, str(error)
    except BaseException:
        return f"{type(error).__name__} (its text cannot be had)"
    return escape(f"{kind}: {words}" if words else kind)


def format_trace(error: BaseException, max_bytes: int) -> str:
    """Where it was raised, causes first, each line indented; `MAX_FRAMES` frames at most in all."""
    chain = _list_causes(error)
    share = MAX_FRAMES // len(chain)
    lines: list[str] = []
    for relation, cause in chain:
        lines += _format_frames(cause.__traceback__, share)
        lines.append(f"  {describe(cause)}")
        lines += _format_notes(cause)
        if relation:
            lines.append(f"  ... {relation}:")
    return _fit("\n".join(lines), max_bytes)


def _list_causes(error: BaseException) -> list[tuple[str, BaseException]]:
    """The error and what led to it, the earliest first, each with how it relates to the next."""
    found: list[tuple[str, BaseException]] = [("", error)]
    seen = {id(error)}
    while len(found) < MAX_ERRORS:
        relation, cause = _find_cause(found[-1][1])
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        found.append((relation, cause))
    return found[::-1]


def _find_cause(error: BaseException) -> tuple[str, BaseException | None]:
    if error.__cause__ is not None:
        return "which caused", error.__cause__
    if error.__context__ is not None and not error.__suppress_context__:
        return "and while that was handled", error.__context__
    if isinstance(error, BaseExceptionGroup):
        return f"the first of {len(error.exceptions)} in", error.exceptions[0]
    return "", None


def _format_frames(trace: TracebackType | None, share: int) -> list[str]:
    places: list[tuple[str, int | None, str]] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    own = next((i for i, place in enumerate(places) if not place[0].startswith(_OWN_FOLDER)), 0)
    places = places[own:]  # how a call gets to a tool is no news
    left_out = len(places) - share
    if left_out <= 0:
        return [line for place in places for line in _format_place(*place)]
    first = share // 2
    return [
        *(line for place in places[:first] for line in _format_place(*place)),
        f"  ... {left_out} frames left out ...",
        *(line for place in places[first + left_out :] for line in _format_place(*place)),
    ]


def _format_place(file: str, line: int | None, function: str) -> list[str]:
    place = f'  File "{escape(file)}", line {line}, in {escape(function)}'
    source = linecache.getline(file, line).strip() if line else ""
    return [place, f"    {escape(source, 120)}"] if source else [place]


def _format_notes(error: BaseException) -> list[str]:
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list):
        return []
    lines = (line for note in notes if isinstance(note, str) for line in note.splitlines())
    return [f"  | {escape(line)}" for line in islice(lines, 2 * MAX_FRAMES)]


def _fit(text: str, max_bytes: int) -> str:
    """Cut out the middle: the beginning says who called, the end says what happened."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= max_bytes:
        return text
    mark = b"\n  ... cut ...\n"
    half = (max_bytes - len(mark)) // 2
    return (data[:half] + mark + data[-half:]).decode("utf-8", "ignore")


Format = Literal["text", "json"]
FORMATS: tuple[Format, ...] = ("text", "json")
LEVELS = ("debug", "info", "warning", "error", "critical")
MAX_MESSAGE = 16 * 1024
MAX_FIELD = 2 * 1024
MAX_ITEMS = 50
MAX_DEPTH_LOGS = 4
MAX_TRACE_BYTES = 8 * 1024
MAX_EXACT = 2**53
"""Beyond it, readers of JSON round whole numbers."""

_OWN = frozenset({"ts", "level", "logger", "process", "message", "trace"})
_LAID_OUT = ("error_type", "errors")
"""The fields of records whose words are in lines of our own making: crashes, and refused reloads."""
_TOLD = ("tool_name", "principal", "error_code", "duration_ms", "call_id")
_PLAIN_logs = re.compile(r"[\w.:@/+-]+")


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
            return self._plain(value, MAX_DEPTH_LOGS, record)
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
    return value if _PLAIN_logs.fullmatch(value) else _to_json(value)


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
