"""Run `toolcrib` on a pseudo-terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Mapping
from pathlib import Path

from tests.support.system import fork_server

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def run_on_terminal(
    *words: str,
    columns: int = 80,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    program: tuple[str, ...] = ("-m", "toolcrib"),
) -> str:
    """Return what a terminal is sent, on both streams."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {**(env or os.environ), "TERM": "xterm"}
    for name in ("COLUMNS", "NO_COLOR"):
        variables.pop(name, None)
    process = fork_server.launch(*program, *words, stdout=slave, stderr=slave, env=variables, cwd=cwd)
    os.close(slave)
    pieces = []
    try:
        while piece := os.read(master, 65536):
            pieces.append(piece)
    except OSError:
        pass  # the other end is closed
    os.close(master)
    process.wait(30)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def plain(text: str) -> str:
    """Return a text without colours."""
    return _COLOUR.sub("", text)
