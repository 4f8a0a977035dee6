"""Parse the text of a descriptor into plain data, with the line of every entry.

JSON, YAML and TOML are read strictly, because files may not be trusted: no duplicate keys, no NaN, limited
depth and size.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from toolcrib.errors import Location, SourceError
from toolcrib.sources.descriptors.yaml import YamlError, read_yaml
from toolcrib.validation import codec

MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_BYTES = 2 * 1024 * 1024
"""The limit for YAML and TOML, which take longer to read."""

_BYTE = re.compile(r" ?\(byte (\d+)\)")
_TOML_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\(?:(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""A pair of surrogates, a lone surrogate (the group), or any other escape."""
_SEPARATOR = re.compile(r"[ \t\r\n]*[,:]?[ \t\r\n]*")

Kind = Literal["json", "yaml", "toml"]
Keys = tuple[str, ...]

SUFFIXES: Mapping[str, Kind] = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


def kind_of(path: Path) -> Kind | None:
    """Return the format of a file by its suffix; None where it is not one of a descriptor."""
    return SUFFIXES.get(path.suffix.lower())


@dataclass(slots=True)
class Document:
    """The data of a file. `lines` has the lines of objects and lists in YAML, by `id`."""

    path: Path
    value: Any
    text: str = ""
    lines: Mapping[int, int] = field(default_factory=dict)

    def entry_lines(self, container: Any, path: Keys) -> list[int | None]:
        """Return the first line of each entry in the list or object at a path of keys."""
        count = len(container)
        lines: list[int | None]
        if kind_of(self.path) == "json":
            lines = [*_json_lines(self.text, path)]
        elif kind_of(self.path) == "toml":
            lines = [*_toml_lines(self.text, path, isinstance(container, list))]
        else:
            items = container.values() if isinstance(container, dict) else container
            lines = [self.lines.get(id(item)) for item in items]
        return lines if len(lines) == count else [None] * count


def read_document(path: Path) -> Document:
    """Return the data of a file. Raises SourceError with the file and, where known, the line."""
    return parse_document(_read_bytes(path), path)


def parse_document(data: bytes, path: Path) -> Document:
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        _refuse(path, "is not UTF-8", data.count(b"\n", 0, error.start) + 1, "save it as UTF-8")
    lines: dict[int, int] = {}
    if kind_of(path) == "json":
        value = _parse_json(text, path)
    elif kind_of(path) == "toml":
        value = _parse_toml(text, path)
    else:
        try:
            value, lines = read_yaml(text, str(path))
        except YamlError as error:
            _refuse(path, f"is not valid YAML: {error}", error.line)
    return Document(path, value, text, lines)


def _read_bytes(path: Path) -> bytes:
    limit = MAX_JSON_BYTES if kind_of(path) == "json" else MAX_BYTES
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                _refuse(path, "is not a file")
            data = file.read(limit + 1)
    except OSError as error:
        _refuse(path, f"cannot be read: {error.strerror}")
    if len(data) > limit:
        _refuse(path, f"is larger than {limit // 1024 // 1024} MiB", hint="split it")
    return data


def _refuse(path: Path, problem: str, line: int | None = None, hint: str | None = None) -> NoReturn:
    raise SourceError(f"{path} {problem}", source=Location(str(path), line), hint=hint) from None


# --- JSON --------------------------------------------------------------------------------------------


def _parse_json(text: str, path: Path) -> Any:
    data = text.encode()
    try:
        return codec.parse(data)
    except ValueError as error:
        problem = str(error)
        lone = next((found for found in _ESCAPE.finditer(text) if found[1]), None)
        if lone is not None and ("truncated" in problem or "surrogate" in problem):
            _refuse(path, f"contains a lone surrogate, {lone[0]}", text.count("\n", 0, lone.start()) + 1)
        position = _BYTE.search(problem)
        line = data.count(b"\n", 0, int(position[1])) + 1 if position else None
        _refuse(path, f"is not valid JSON: {_BYTE.sub('', problem)}", line)


def _json_lines(text: str, path: Keys) -> Iterator[int]:
    """Yield the lines of the entries in the container at a path. The text is known to be JSON."""
    at = _skip(text, 0)
    for key in path:
        at = next(start for name, start in _walk(text, at) if name == key)
    line, counted = 1, 0
    for _, start in _walk(text, at):
        line, counted = line + text.count("\n", counted, start), start
        yield line


def _walk(text: str, at: int) -> Iterator[tuple[str | None, int]]:
    """Yield key and position of every entry in the object or list that begins at a position."""
    decode = json.JSONDecoder().raw_decode
    is_object, end = text[at] == "{", "}" if text[at] == "{" else "]"
    at = _skip(text, at + 1)
    while text[at] != end:
        name = None
        if is_object:
            name, at = decode(text, at)
            at = _skip(text, at)
        yield name, at
        at = _skip(text, decode(text, at)[1])


def _skip(text: str, at: int) -> int:
    """Return the position after blanks and a comma or colon."""
    found = _SEPARATOR.match(text, at)
    return at if found is None else found.end()


# --- TOML --------------------------------------------------------------------------------------------


def _parse_toml(text: str, path: Path) -> Any:
    import tomllib  # most descriptors are JSON

    try:
        value = _without_dates(tomllib.loads(text), 0)
        codec.encode(value)
    except tomllib.TOMLDecodeError as error:
        position = _TOML_POSITION.search(str(error))
        line = int(position[1]) if position and position[1] else None
        _refuse(path, f"is not valid TOML: {_TOML_POSITION.sub('', str(error))}", line)
    except codec.NotFiniteError as error:
        _refuse(path, f"has {error.value} at '{error.path}', which is not a number in JSON")
    except RecursionError:
        _refuse(path, "is not valid TOML: nested too deeply")
    except (ValueError, OverflowError) as error:
        _refuse(path, f"is not valid TOML: {error}")
    return value


def _without_dates(value: Any, depth: int) -> Any:
    """Return the value with dates as strings: JSON has no dates."""
    if depth > codec.MAX_DEPTH:
        raise ValueError(f"nested deeper than {codec.MAX_DEPTH}")
    if isinstance(value, dict):
        return {key: _without_dates(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_dates(item, depth + 1) for item in value]
    return value.isoformat() if isinstance(value, dt.date | dt.time) else value


def _toml_lines(text: str, path: Keys, is_list: bool) -> Iterator[int]:
    """Yield the lines of `[[tools]]` or `[tools.NAME]`; none where the tools are written in another way.
    tomllib does not keep lines."""
    name = r"\s*\.\s*".join(re.escape(key) for key in path)
    header = rf"\s*\[\[\s*{name}\s*\]\]" if is_list else rf"\s*\[\s*{name}\s*\.\s*(?:[\w-]+|\"[^\"]*\")\s*\]"
    pattern = re.compile(rf"{header}\s*(?:#.*)?")
    for number, line in enumerate(text.split("\n"), start=1):
        if pattern.fullmatch(line):
            yield number
