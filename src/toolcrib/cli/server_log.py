"""The log of a server that runs, on stderr: the time, the level, the words; or the same as JSON.

Takes the place of what other commands do with the log: those live for a moment, a server for months, so
nothing is kept. Knows the terminal; how a record becomes a line is in `toolcrib.logs`.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from toolcrib.cli.output import Terminal
from toolcrib.logs import JSONFormatter, LineHandler, make_formatter

_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "debug": logging.DEBUG}


class Journal(LineHandler):
    """`with` it while a server runs. `marks_process` writes the number of the process, where there are
    several."""

    def __init__(
        self, terminal: Terminal, level: str, *, style: str | None = None, marks_process: bool = False
    ) -> None:
        lines = make_formatter(style or "text", show_process=marks_process, show_traces=terminal.debug)
        super().__init__(terminal.err, lines, level)
        self._terminal = terminal
        self._logger = logging.getLogger("toolcrib")

    def __enter__(self) -> Self:
        self._logger.removeHandler(self._terminal.log)
        self._logger.addHandler(self)
        self._logger.setLevel(self.level)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._logger.removeHandler(self)
        self._logger.addHandler(self._terminal.log)
        self._logger.setLevel(self._terminal.log.level)


def speak_json(terminal: Terminal, *, marks_process: bool = False) -> None:
    """Say everything as the log does from now on: what programs read has no line that is another thing."""
    lines = JSONFormatter(show_process=marks_process)

    def spell(label: str, words: str, hint: str | None) -> str:
        level = _LEVELS.get(label, logging.INFO)
        facts = {"name": "toolcrib", "levelno": level, "levelname": logging.getLevelName(level), "msg": words}
        return lines.format(logging.makeLogRecord({**facts, "hint": hint} if hint else facts))

    terminal.spell = spell
