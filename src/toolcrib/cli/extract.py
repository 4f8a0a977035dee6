"""Records on their way out: to a file that is complete or not there, or to standard output.

Knows files and forms; refuses to know which records are wanted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from toolcrib import codec
from toolcrib.cli.frame import Failure
from toolcrib.cli.ledger import Record, to_cells, to_csv_line, to_json_line
from toolcrib.cli.terminal import Terminal
from toolcrib.vault import open_new


def find_speller(form: str, output: str | None, terminal: Terminal) -> Callable[[Record], str]:
    """How a record is written. What goes to a file is, as JSON, the very line of the log."""
    if form == "csv":
        return lambda record: to_csv_line(to_cells(record))
    encoding = (getattr(terminal.out, "encoding", None) or "utf-8").lower().replace("-", "")
    if output is None and (terminal.out.isatty() or encoding != "utf8"):
        return lambda record: f"{to_json_line(record)}\n"
    return lambda record: f"{codec.write(record).decode()}\n"


@contextmanager
def writing(output: str | None, terminal: Terminal) -> Iterator[Callable[[str], object]]:
    """To a file that is there when it is complete, and for its owner only; or to standard output."""
    if output is None:
        yield terminal.content
        return
    path = Path(os.path.realpath(Path(output).expanduser()))
    if path.exists() and not path.is_file():
        raise Failure(f"{output} is not a file", "leave -o out for standard output")
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(6).hex()}.tmp")
    with _saying(output):
        file = _open_new(draft)

    def write(text: str) -> None:
        with _saying(output):
            file.write(text)

    try:
        yield write
        with _saying(output):
            file.close()
            os.replace(draft, path)
    finally:
        for tidy in (file.close, draft.unlink):
            with suppress(OSError):  # after success there is nothing left; after trouble, that is told
                tidy()


@contextmanager
def _saying(output: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror}") from None


def _open_new(path: Path) -> IO[str]:
    return open(open_new(path), "w", encoding="utf-8", newline="")
