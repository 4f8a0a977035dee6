"""One line on the terminal that says how far long work is, and goes away with it.

Knows the terminal and the clock; refuses to know the work.

Where the command line's output goes: data to stdout, words to stderr, nothing else to stdout.

While a command runs it holds the real stdout; whatever a target prints, on import or when called, lands on
stderr. Commands print through the methods of `Terminal`, which escape everything that could steer a terminal;
only here are the streams written to. Knows streams, colours and the log; refuses to know tools.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from toolcrib.cli.text import join, one_line, safe, safe_json, style
from toolcrib.errors import Finding, Location

_COLOURS = {"error": "red", "warning": "yellow", "advice": "cyan", "hint": "cyan", "note": "cyan"}

Spell = Callable[[str, str, str | None], str]
"""A line of a label, words, and a hint."""


def shorten_paths(text: str) -> str:
    """Paths as the user would type them: from the current folder, where they are below it."""
    return text.replace(os.getcwd() + os.sep, "")


def show_place(source: Location) -> str:
    return safe(shorten_paths(str(source))) if source.file else "-"


class Terminal:
    """Both streams of one command, and whether they take colour."""

    def __init__(self, out: IO[str], err: IO[str], *, debug: bool) -> None:
        self.out = out
        self.err = err
        self.debug = debug
        self.out_colour = _takes_colour(out)
        self.err_colour = _takes_colour(err)
        self.log = LogWords(self)
        self._status = 0
        self.spell: Spell | None = None
        """Makes the line of what is said, where programs read stderr."""

    @property
    def width(self) -> int:
        """Columns of the terminal; COLUMNS, or 80 where there is none."""
        given = os.environ.get("COLUMNS", "")
        if given.isdecimal() and len(given) < 10:
            return max(40, int(given))
        try:
            return max(40, os.get_terminal_size(self.out.fileno()).columns)
        except (OSError, ValueError, AttributeError):
            return 80

    # --- stdout ---

    def data(self, *pieces: str) -> None:
        """Print a result for people, on lines of its own. What is not `Styled` is escaped."""
        self._put_out(join(*pieces))

    def content(self, text: str) -> None:
        """Print what a tool or a model said: escaped on a terminal, and as it is for a program or a file."""
        self.out.write(safe(text) if self.out.isatty() else text)
        self.out.flush()

    def json(self, value: Any) -> None:
        """Print data for programs. No character in it can steer a terminal either."""
        ascii_only = (getattr(self.out, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"
        self.json_line(json.dumps(value, indent=2, ensure_ascii=ascii_only, default=_plain))

    def json_line(self, text: str) -> None:
        """The same for what is JSON already."""
        self._put_out(safe_json(text))

    def style_out(self, text: str, **how: Any) -> str:
        """A piece for `data`, in colours where stdout takes them."""
        return style(text, **how) if self.out_colour else text

    def _put_out(self, text: str) -> None:
        self.out.write(text if text.endswith("\n") else f"{text}\n")
        self.out.flush()

    # --- stderr ---

    def put(self, *pieces: str, end: str = "\n") -> None:
        """Write to stderr, for people. What is not `Styled` is escaped."""
        self.err.write(f"{join(*pieces)}{end}")
        self.err.flush()

    def say(self, label: str, text: object, hint: str | None = None) -> None:
        """`error: what is wrong`, then `hint: what to do`."""
        if self.spell is not None:
            self.err.write(self.spell(label, shorten_paths(str(text)), hint and shorten_paths(hint)) + "\n")
            self.err.flush()
            return
        self.put(self._label(label), " ", shorten_paths(str(text)))
        if hint:
            self.put(self._label("hint"), " ", shorten_paths(hint))

    def show_status(self, text: str) -> None:
        """Write one line on a terminal in place of the last one; an empty text clears it."""
        line = one_line(text)[: self.width - 1]
        if line or self._status:
            self.err.write(f"\r{line.ljust(self._status)}" if line else f"\r{' ' * self._status}\r")
            self.err.flush()
        self._status = len(line)

    def style_err(self, text: str, **how: Any) -> str:
        """A piece for `put`, in colours where stderr takes them."""
        return style(text, **how) if self.err_colour else text

    def show_trace(self, error: BaseException) -> None:
        """For whoever asked for it with `--debug`."""
        text = "".join(traceback.format_exception(error))
        if self.spell is None:
            self.put(text, end="")
        else:
            self.say("debug", text)

    def tell(self, finding: Finding) -> None:
        place = f"{show_place(finding.where)}: " if finding.file else ""
        self.say(finding.level, f"{place}{finding.message}", finding.hint)

    def _label(self, label: str) -> str:
        return self.style_err(f"{label}:", fg=_COLOURS.get(label), bold=True)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _takes_colour(stream: IO[str]) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(getattr(stream, "isatty", lambda: False)())


class LogWords(logging.Handler):
    """What the library logs, as words on stderr. Reports of crashed tools are kept for the command."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.DEBUG if terminal.debug else logging.WARNING)
        self.terminal = terminal
        self.crashes: list[str] = []
        self.is_muted = False

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if hasattr(record, "error_type"):
            self.crashes.append(text)
        elif not self.is_muted or self.terminal.debug:
            trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
            label = record.levelname.lower()
            self.terminal.say(label, f"{text}\n{trace}" if trace and self.terminal.debug else text)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """While tools are loaded and built: what is logged then is in the findings too."""
        self.is_muted = True
        try:
            yield
        finally:
            self.is_muted = False


@contextmanager
def open_terminal(*, debug: bool) -> Iterator[Terminal]:
    """Hold stdout and listen to the log, until the command ends."""
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
    """The real stdout. Until it is given back, `print`, child processes and C code write to stderr."""
    before = sys.stdout
    if not _is_first_descriptor(before):
        sys.stdout = sys.stderr
        try:
            yield before
        finally:
            sys.stdout = before
        return
    before.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    out = open(kept, "w", encoding=before.encoding, errors="backslashreplace")  # noqa: SIM115 - closed below
    sys.stdout = sys.stderr
    try:
        yield out
        out.flush()
    finally:
        sys.stdout = before
        _quietly(before.flush)  # what was printed past `sys.stdout` still belongs to stderr
        os.dup2(kept, 1)
        _quietly(out.close)


def _is_first_descriptor(stream: IO[str]) -> bool:
    try:
        os.fstat(2)
        return stream.fileno() == 1
    except (OSError, ValueError, AttributeError):
        return False


def _quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except (OSError, ValueError):
        pass  # nobody reads it any more


PATIENCE_S = 0.2
"""Whoever waits less wants no word."""
PAUSE_S = 0.1


@contextmanager
def telling(
    terminal: Terminal, patience_s: float = PATIENCE_S
) -> Iterator[Callable[[Callable[[], str]], None] | None]:
    """Takes words that are made when they are shown; None where nobody looks."""
    if not getattr(terminal.err, "isatty", lambda: False)():
        yield None
        return
    next_s = time.monotonic() + patience_s

    def tell(words: Callable[[], str]) -> None:
        nonlocal next_s
        now_s = time.monotonic()
        if now_s < next_s:
            return
        next_s = now_s + PAUSE_S
        terminal.show_status(words())

    try:
        yield tell
    finally:
        terminal.show_status("")
