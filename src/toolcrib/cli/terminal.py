"""Where the command line's output goes: data to stdout, words to stderr, nothing else to stdout.

While a command runs it holds the real stdout; whatever a target prints, on import or when called, lands on
stderr. Foreign text is made harmless before a terminal sees it. Knows streams, colours and the log; refuses
to know tools.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import click

from toolcrib.finding import Finding, Source

_COLOURS = {"error": "red", "warning": "yellow", "advice": "cyan", "hint": "cyan", "note": "cyan"}
# Controls, marks that change the reading direction, and characters without width can rewrite a terminal line.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


Spell = Callable[[str, str, str | None], str]
"""A line of a label, words, and a hint."""


def safe(text: object) -> str:
    """Foreign text with everything written out that could steer a terminal; line ends and tabs stay."""
    return _UNSAFE.sub(_spell, str(text).replace("\r\n", "\n"))


def _spell(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: object) -> str:
    return " ".join(safe(text).split())


def shorten_paths(text: str) -> str:
    """Paths as the user would type them: from the current folder, where they are below it."""
    return text.replace(os.getcwd() + os.sep, "")


def show_place(source: Source) -> str:
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
        self.spell: Spell | None = None
        """Makes the line of what is said, where programs read stderr."""

    @property
    def width(self) -> int:
        """Columns of the terminal; COLUMNS, or 80 where there is none."""
        if os.environ.get("COLUMNS", "").isdigit():
            return max(40, int(os.environ["COLUMNS"]))
        try:
            return max(40, os.get_terminal_size(self.out.fileno()).columns)
        except (OSError, ValueError, AttributeError):
            return 80

    def data(self, text: str) -> None:
        """Print a result."""
        self.out.write(text if text.endswith("\n") else f"{text}\n")
        self.out.flush()

    def json(self, value: Any) -> None:
        """Print data for programs. No character in it can steer a terminal either."""
        ascii_only = (getattr(self.out, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"
        text = json.dumps(value, indent=2, ensure_ascii=ascii_only, default=_plain)
        self.data(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))

    def say(self, label: str, text: object, hint: str | None = None) -> None:
        """`error: what is wrong`, then `hint: what to do`."""
        if self.spell is not None:
            self.err.write(self.spell(label, shorten_paths(str(text)), hint and shorten_paths(hint)) + "\n")
            self.err.flush()
            return
        self.err.write(f"{self._label(label)} {safe(shorten_paths(str(text)))}\n")
        if hint:
            self.err.write(f"{self._label('hint')} {safe(shorten_paths(hint))}\n")
        self.err.flush()

    def show_trace(self, error: BaseException) -> None:
        """For whoever asked for it with `--debug`."""
        text = "".join(traceback.format_exception(error))
        if self.spell is None:
            self.err.write(text)
        else:
            self.say("debug", text)

    def tell(self, finding: Finding) -> None:
        place = f"{show_place(finding.where)}: " if finding.file else ""
        self.say(finding.level, f"{place}{finding.message}", finding.hint)

    def _label(self, label: str) -> str:
        text = f"{label}:"
        return click.style(text, fg=_COLOURS.get(label), bold=True) if self.err_colour else text


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
