"""Takes values out of a TOML document; whatever is wrong, it says where: file, line and key.

Knows shapes of values; refuses to know what settings mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from toolcrib.definition import MAX_TIMEOUT_S
from toolcrib.errors import ConfigurationError, Faults
from toolcrib.policy import find_line


class Reader:
    """Takes values out of a document; whatever is wrong, it says where."""

    def __init__(self, text: str, path: Path) -> None:
        self.file = str(path)
        self.lines = lines_of_keys(text)
        self.faults = Faults()

    def section(self, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        section = document.get(name, {})
        if not isinstance(section, dict):
            self.refuse(name, f"must be a table, got {kind_of(section)}", f"write [{name}] above its keys")
        return section

    def take(self, section: Mapping[str, Any], name: str, key: str, read: Callable[[Any], Any]) -> Any:
        if key not in section:
            return None
        try:
            return read(section[key])
        except ValueError as error:
            self.refuse(f"{name}.{key}", str(error))

    def try_section(self, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """The same, and what is wrong is kept for later."""
        with self.faults.gathering():
            return self.section(document, name)
        return {}

    def try_take(self, section: Mapping[str, Any], name: str, key: str, read: Callable[[Any], Any]) -> Any:
        with self.faults.gathering():
            return self.take(section, name, key, read)
        return None

    def refuse_unknown(
        self, section: str, given: Iterable[str], known: Iterable[str], besides: str | None = None
    ) -> None:
        names = list(known)
        faults = Faults()
        for key in given:
            if key in names:
                continue
            import difflib

            close = difflib.get_close_matches(key, names, n=1)
            hint = (
                f"did you mean '{close[0]}'?"
                if close
                else f"known here: {', '.join([*names, *([besides] if besides else [])])}"
            )
            with faults.gathering():
                self.refuse(f"{section}.{key}" if section else key, "unknown key", hint)
        faults.tell()

    def refuse(self, key: str, problem: str, hint: str | None = None) -> NoReturn:
        raise ConfigurationError(problem, file=self.file, key=key, line=find_line(self.lines, key), hint=hint)


_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.:\"'-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w.\"'-]+|\"[^\"]+\")\s*=")


def lines_of_keys(text: str) -> dict[str, int]:
    """Where each key is written; `rules[2].when` is that of the second `[[rules]]`. TOML's reader keeps no
    places; simple lines are all a person writes."""
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = _full_name(header[2].replace('"', "").replace("'", ""), counts, header[1] == "[[")
            lines.setdefault(section, number)
        elif key := _KEY.match(line):
            name = key[1].replace('"', "").replace("'", "")
            lines.setdefault(f"{section}.{name}" if section else name, number)
    return lines


def _full_name(name: str, counts: dict[str, int], is_item: bool) -> str:
    """The name of a table with its place among others of that name, and that of whatever holds it."""
    found = ""
    *holders, last = name.split(".")
    for part in holders:
        found += part if not found else f".{part}"
        found += f"[{counts[found]}]" if found in counts else ""
    found = f"{found}.{last}" if found else last
    if is_item:
        counts[found] = counts.get(found, 0) + 1
        found += f"[{counts[found]}]"
    return found


_KINDS = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}


def kind_of(value: Any) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a string, got {kind_of(value)}")
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def read_texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of strings, got {kind_of(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ValueError(f"must be a list of strings, but {item!r} is {kind_of(item)}")
        if not item.strip():
            raise ValueError("must be a list of strings, but one is empty")
    return value


def read_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, got {kind_of(value)}")
    return value


@dataclass(frozen=True, slots=True)
class Whole:
    """Reads a whole number between two others."""

    least: int
    most: int

    def __call__(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"must be a whole number, got {kind_of(value)}")
        if not self.least <= value <= self.most:
            raise ValueError(f"must be from {self.least} to {self.most}, got {value}")
        return value


class Choice:
    """Reads one of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, value: Any) -> str:
        if value not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)}, got {value!r}")
        return str(value)


@dataclass(frozen=True, slots=True)
class Below:
    """Reads the path of a file, seen from the folder of the file it is written in."""

    folder: Path

    def __call__(self, value: Any) -> Path:
        return self.folder / read_text(value)


_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+/?|/")


def check_path(value: Any) -> str:
    """The path of an endpoint as requests spell it. Raises ValueError."""
    text = read_text(value)
    if not _PATH.fullmatch(text) or any(part in (".", "..") for part in text.split("/")):
        raise ValueError(f"must be a path such as /mcp, got {text!r}")
    return text.rstrip("/") or "/"


def read_seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number of seconds, got {kind_of(value)}")
    if not 0 < value <= MAX_TIMEOUT_S:
        raise ValueError(f"must be above 0 and at most {MAX_TIMEOUT_S:g} seconds, got {value!r}")
    return float(value)
