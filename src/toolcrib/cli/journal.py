"""The log of a server that runs, on stderr: the time, the level, the words.

Takes the place of what other commands do with the log: those live for a moment, a server for months, so
nothing is kept. Knows log records and the terminal; refuses to know who writes them.
"""

from __future__ import annotations

import logging
import os
import time
from types import TracebackType
from typing import Self

from toolcrib.cli.terminal import Terminal, safe
from toolcrib.execution.trace import describe

LEVELS = ("debug", "info", "warning", "error", "critical")


class Journal(logging.Handler):
    """`with` it while a server runs. `marks_process` writes the number of the process, where there are
    several."""

    def __init__(self, terminal: Terminal, level: str, *, marks_process: bool = False) -> None:
        super().__init__(getattr(logging, level.upper()))
        self._terminal = terminal
        self._mark = f"[{os.getpid()}] " if marks_process else ""
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

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage() + self._explain(record)
            clock = time.strftime("%H:%M:%S", time.localtime(record.created))
            line = f"{clock} {self._mark}{record.levelname.lower()}: {safe(text)}\n"
            self._terminal.err.write(line)
            self._terminal.err.flush()
        except Exception:  # nosec B110  # nobody reads stderr any more: that must not become a call's trouble
            pass

    def _explain(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return ""
        if self._terminal.debug:
            return f"\n{logging.Formatter().formatException(record.exc_info)}"  # type: ignore[arg-type]
        return f": {describe(error)}"
