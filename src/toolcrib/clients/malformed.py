"""What a text that is not what it should be raises: the line, the problem, the way out.

The file is not known here; `connection` adds it and makes a ConfigurationError of it.
"""

from __future__ import annotations


class MalformedError(ValueError):
    """What stands there is wrong."""

    def __init__(self, message: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


class CannotEditError(MalformedError):
    """Nothing is wrong, but the change cannot be made in the text without harm to something else."""

    def __init__(self) -> None:
        super().__init__("is written in a way that cannot be changed without losing something else in it")


def line_of(text: str, position: int) -> int:
    """Counted as editors count: a line ends with CR LF, with LF or with CR."""
    before = text[:position].replace("\r\n", "\n")
    return before.count("\n") + before.count("\r") + 1
