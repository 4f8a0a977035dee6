"""Whether a path stays below a folder, as far as its text can say.

Knows how paths are spelt and which spellings may mean another place than they seem to: those are neither
inside nor outside. Refuses to look at a disk: links are the business of the tool that follows them.
"""

from __future__ import annotations

import re

_TRICKS = re.compile(r"\x00|\\|%(?:2e|2f|5c|00)|^~|^[A-Za-z]:", re.IGNORECASE)
"""Ends of C strings, Windows' separators, encoded dots and slashes, homes and drives."""


class Folder:
    """A folder that paths may be below. Raises ValueError for a text that does not say which folder."""

    __slots__ = ("is_absolute", "parts", "text")

    def __init__(self, text: str) -> None:
        if not text or is_tricky(text):
            raise ValueError("must be a plain path: no '..', '~', backslash, drive or encoded character")
        self.is_absolute = text.startswith("/")
        self.parts = _split(text)
        self.text = ("/" if self.is_absolute else "") + "/".join(self.parts) or "."

    def holds(self, path: str) -> bool | None:
        """Whether `path` is the folder or below it. None where its text does not tell."""
        if is_tricky(path) or path.startswith("/") is not self.is_absolute:
            return None
        return _split(path)[: len(self.parts)] == self.parts


def is_tricky(path: str) -> bool:
    """Whether a path may lead elsewhere than it reads."""
    return not path or _TRICKS.search(path) is not None or ".." in path.split("/")


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
