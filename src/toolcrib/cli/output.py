"""Terminal output: results on stdout, messages on stderr, nothing else on stdout.

While a command runs it holds the real stdout; whatever a target prints, on import or when called, goes to
stderr. Only `Terminal` writes to the streams, and it escapes everything that could control a terminal.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from textwrap import indent
from types import TracebackType
from typing import IO, Any, Self, TypeVar

import click

import toolcrib
from toolcrib.cli.text import join, one_line, safe, safe_json, style
from toolcrib.errors import Finding, Location, shorten
from toolcrib.sources.loading import is_installed

T = TypeVar("T")
_FRAME = re.compile(r'^ *File "(.*)", line (\d+)', re.MULTILINE)
_OWN = (os.path.dirname(toolcrib.__file__), "<frozen")
PROGRESS_DELAY_S = 1.0
"""Shorter work shows no progress."""
PROGRESS_INTERVAL_S = 0.1
_COLOURS = {"error": "red", "warning": "yellow", "advice": "cyan", "note": "cyan"}


def shorten_paths(text: str) -> str:
    """Return a text with paths below the current folder made relative."""
    folder = os.getcwd()
    return text if folder == os.path.dirname(folder) else text.replace(folder + os.sep, "")  # not in /: URLs


def format_source(source: Location) -> str:
    """Return `file:line`, or `-`."""
    return safe(shorten_paths(str(source))) if source.file else "-"


class Terminal:
    """The output streams of one command. Colours are removed if a stream does not support them."""

    def __init__(self, out: IO[str], err: IO[str], *, debug: bool) -> None:
        self.out = out
        self.err = err
        self.debug = debug
        self.log = MessageLogHandler(self)
        self.message_format: Callable[[str, str, str | None], str] | None = None
        """Formats a level, a text and a hint as one line, where messages are not for people."""
        self._status_width = 0

    @property
    def width(self) -> int | None:
        """Columns of stdout: COLUMNS, else the size of the terminal, else 80. None if it is not a terminal: a
        program or a file gets whole lines."""
        return _columns_of(self.out) if self.out.isatty() else None

    # --- stdout ---

    def echo(self, *pieces: str) -> None:
        """Print a result for people. Pieces that are not `Styled` are escaped."""
        text = join(*pieces)
        self.status("")
        _write(self.out, text if text.endswith("\n") else f"{text}\n")

    def write(self, text: str) -> None:
        """Write the output of a tool or model: escaped on a terminal, unchanged for a program or a file."""
        self.status("")
        self.out.write(safe(text) if self.out.isatty() else text)
        self.out.flush()

    def write_bytes(self, data: bytes) -> None:
        """Write data to a program or a file."""
        self.status("")
        self.out.flush()
        self.out.buffer.write(data)  # type: ignore[attr-defined]  # stdout has one, and so have its stand-ins
        self.out.flush()

    def json(self, value: Any, *, indent: int | None = 2) -> None:
        """Print data for programs, on one line without `indent`; control characters are escaped too."""
        ascii_only = (getattr(self.out, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"
        separators = (",", ":") if indent is None else None
        text = json.dumps(
            value, indent=indent, separators=separators, ensure_ascii=ascii_only, default=_to_plain
        )
        self.json_line(text)

    def json_line(self, text: str) -> None:
        """Print JSON that is encoded already."""
        self.status("")
        self.out.write(safe_json(text).rstrip("\n") + "\n")
        self.out.flush()

    # --- stderr ---

    def echo_err(self, *pieces: str, end: str = "\n") -> None:
        """Print to stderr. Pieces that are not `Styled` are escaped."""
        self.status("")
        _write(self.err, f"{join(*pieces)}{end}")

    def message(self, level: str, text: object, hint: str | None = None) -> None:
        """Print `error: what is wrong` to stderr, then `hint: what to do`."""
        words, hint = shorten_paths(shorten(str(text))), hint and shorten_paths(shorten(hint))
        if self.message_format is not None:
            self.status("")
            self.err.write(self.message_format(level, words, hint) + "\n")
            self.err.flush()
            return
        self.echo_err(style(f"{level}:", fg=_COLOURS.get(level), bold=True), " ", words)
        if hint:
            self.echo_err(style("hint:", fg="cyan", bold=True), " ", hint)

    def finding(self, finding: Finding) -> None:
        place = f"{format_source(finding.where)}: " if finding.file else ""
        excerpt = f"\n{indent(finding.excerpt, '    ')}" if finding.excerpt else ""
        self.message(finding.level, f"{place}{finding.message}{excerpt}", finding.hint)

    def traceback(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        if self.message_format is None:
            self.echo_err(text, end="")
        else:
            self.message("debug", text)

    def status(self, text: str) -> None:
        """Replace the status line, on a terminal only; an empty text clears it, as any other output does."""
        line = one_line(text)[: _columns_of(self.err) - 1]
        if self.err.isatty() and (line or self._status_width):
            blank = " " * self._status_width
            self.err.write(f"\r{line.ljust(self._status_width)}" if line else f"\r{blank}\r")
            self.err.flush()
            self._status_width = len(line)


def _columns_of(stream: IO[str]) -> int:
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((80, 24))
    return max(40, shutil.get_terminal_size(size).columns)


# --- progress ----------------------------------------------------------------------------------------


class Progress:
    """The progress line of one piece of work on a terminal, on stderr.

    Call it with the number of items done and the total:

        with Progress(terminal, "reading files") as progress:
            scan("servers/", progress=progress)

        reading files 480/1000
    """

    def __init__(
        self, terminal: Terminal, label: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._terminal = terminal
        self._label = label
        self._clock = clock
        self._began_s = self._shown_s = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._terminal.status("")

    def __call__(self, done: float, total: float | None = None) -> None:
        """Show the progress, unless the work began, or was shown, just now."""
        now_s = self._clock()
        if now_s - self._began_s >= PROGRESS_DELAY_S and now_s - self._shown_s >= PROGRESS_INTERVAL_S:
            self._shown_s = now_s
            self.show(done, total)

    def show(self, done: float, total: float | None, message: str | None = None) -> None:
        """Show the progress at once."""
        counts = f"{done:g}/{total:g}" if total else f"{done:g}"
        self._terminal.status(" ".join(part for part in (self._label, counts, message or "") if part))

    def track(self, items: Collection[T]) -> Iterator[T]:
        """Yield the items and show how many are done."""
        for number, item in enumerate(items):
            self(number, len(items))
            yield item


# --- streams -----------------------------------------------------------------------------------------


def _write(stream: IO[str], text: str) -> None:
    has_colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
    stream.write(text if has_colour else click.unstyle(text))
    stream.flush()


def _to_plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _shorten_crash(report: str) -> str:
    """Return the exception of a tool and its place in the author's code; the lines after the first are its
    traceback."""
    line, _, trace = report.partition("\n")
    frames = _FRAME.findall(trace)
    own = [frame for frame in frames if not _is_of_library(frame[0])]
    return f"{line}, at {':'.join((own or frames)[-1])}" if frames else line


def _is_of_library(file: str) -> bool:
    """Whether a file belongs to Python, to an installed package or to toolcrib."""
    return file.startswith(_OWN) or is_installed(file)


class MessageLogHandler(logging.Handler):
    """Print log records as messages on stderr; with --debug all of them, and with tracebacks."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.DEBUG if terminal.debug else logging.WARNING)
        self.terminal = terminal
        self.is_muted = False

    def emit(self, record: logging.LogRecord) -> None:
        text, hint = record.getMessage(), None
        if self.terminal.debug and record.exc_info:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        elif hasattr(record, "error_type") and not self.terminal.debug:
            text, hint = _shorten_crash(text), "--debug shows the traceback"
        elif (name := getattr(record, "tool_name", None)) and name not in text:
            text = f"{text}: {name}"
        if not self.is_muted or self.terminal.debug:
            self.terminal.message(record.levelname.lower(), text, hint)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Print nothing while tools are loaded: everything logged then is also a finding."""
        self.is_muted = True
        try:
            yield
        finally:
            self.is_muted = False


@contextmanager
def open_terminal(*, debug: bool) -> Iterator[Terminal]:
    """Take over stdout and the log until the command ends."""
    logger = logging.getLogger("toolcrib")
    before = logger.level, logger.propagate
    with claim_stdout() as out:
        terminal = Terminal(out, sys.stderr, debug=debug)
        logger.addHandler(terminal.log)
        logger.setLevel(terminal.log.level)
        logger.propagate = False
        try:
            yield terminal
        finally:
            logger.removeHandler(terminal.log)
            logger.level, logger.propagate = before


@contextmanager
def claim_stdout() -> Iterator[IO[str]]:
    """Yield the real stdout; meanwhile `print`, child processes and C code write to stderr."""
    real = sys.stdout
    if not _is_descriptor_1(real):
        with redirect_stdout(sys.stderr):
            yield real
        return
    real.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    out = open(kept, "w", encoding=real.encoding, errors="backslashreplace")  # noqa: SIM115 - closed below
    try:
        with redirect_stdout(sys.stderr):
            yield out
    finally:
        with suppress(OSError, ValueError):  # the reader may have gone
            real.flush()  # what was written around `sys.stdout` still belongs to stderr
        os.dup2(kept, 1)
        with suppress(OSError, ValueError):
            out.close()


def _is_descriptor_1(stream: IO[str]) -> bool:
    try:
        os.fstat(2)
        return stream.fileno() == 1
    except (OSError, ValueError, AttributeError):
        return False
