"""The formats of descriptors: JSON, YAML and TOML. The only module that imports yaml.

Files may not be trusted: their size and depth are limited, duplicate keys are refused, and YAML has the
values of JSON only: `yes`, `on`, dates and `0x1F` are strings.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from toolcrib.errors import ConfigurationError, Location, SourceError
from toolcrib.validation import codec

Format = Literal["json", "yaml", "toml"]
FORMATS: tuple[str, ...] = get_args(Format)
SUFFIXES: Mapping[str, Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}

MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_BYTES = 2 * 1024 * 1024
"""The limit for YAML and TOML, which take longer to read."""

MAX_FRONTMATTER = 64 * 1024

_FRONTMATTER = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_BYTE = re.compile(r" ?\(byte (\d+)\)")
_TOML_LINE = re.compile(r"\(at line (\d+), column \d+\)$")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99})(\.[0-9]+)?([eE][-+]?[0-9]{1,4})?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_STANDARD = "tag:yaml.org,2002:"
_BLOCK = re.compile(r"[!-~](?:[ -~]*[!-~])?(?:\n+[!-~](?:[ -~]*[!-~])?)+\n?")
"""Text of several lines that can be written as a block, without leading or trailing spaces."""
_BREAK = re.compile("[\r\x85\u2028\u2029]")
"""Line breaks for some readers only: they are safe in double quotes."""


def format_of(path: str | Path) -> Format | None:
    """Return the format of a file by its suffix; None where it is not one of a descriptor."""
    return SUFFIXES.get(os.path.splitext(path)[1].lower())


def read_text(path: Path) -> str:
    """Return the text of a file. Raises SourceError."""
    limit = MAX_JSON_BYTES if format_of(path) == "json" else MAX_BYTES
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
    return decode_text(data, path)


def decode_text(data: bytes, path: Path) -> str:
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        _refuse(path, "is not UTF-8", data.count(b"\n", 0, error.start) + 1, "save it as UTF-8")


def parse_text(text: str, path: Path) -> Any:
    """Return the data of the text of a file. Raises SourceError with the file and, where known, the line."""
    return _PARSERS[format_of(path) or "json"](text, path)


def parse_frontmatter(data: bytes, path: Path) -> Any:
    """Return the YAML at the beginning of a Markdown file, between two lines of `---`. Raises SourceError."""
    found = _FRONTMATTER.match(decode_text(data, path))
    if found is None:
        _refuse(path, "has no frontmatter", 1, "begin with a line of ---, YAML, and another line of ---")
    if len(found[1]) > MAX_FRONTMATTER:
        _refuse(path, f"has more than {MAX_FRONTMATTER // 1024} KiB of frontmatter", 1)
    return _parse_yaml(f"\n{found[1]}", path)  # in the line where it is in the file


def dump_text(value: Any, form: Format) -> str:
    """Return a text that is read as the same value. In TOML, the value must not contain null."""
    if form == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if form == "yaml":
        return _dump_yaml(value)
    if form == "toml":
        import tomlkit  # few descriptors are TOML

        return tomlkit.dumps(value)
    raise ConfigurationError(f"must be one of {', '.join(FORMATS)}, got {form!r}", key="format")


def _refuse(path: Path, problem: str, line: int | None = None, hint: str | None = None) -> NoReturn:
    raise SourceError(f"{path} {problem}", source=Location(str(path), line), hint=hint) from None


def _parse_json(text: str, path: Path) -> Any:
    data = text.encode()
    try:
        return codec.parse(data)
    except ValueError as error:
        position = _BYTE.search(str(error))
        line = data.count(b"\n", 0, int(position[1])) + 1 if position else None
        _refuse(path, f"is not valid JSON: {_BYTE.sub('', str(error))}", line)


def _parse_toml(text: str, path: Path) -> Any:
    import tomllib  # most descriptors are JSON

    try:
        return codec.decode(codec.encode(tomllib.loads(text)))  # dates become strings
    except RecursionError:
        _refuse(path, "is not valid TOML: nested too deeply")
    except (ValueError, OverflowError) as error:
        line = _TOML_LINE.search(str(error))
        _refuse(path, f"is not valid TOML: {error}", int(line[1]) if line else None)


# --- YAML --------------------------------------------------------------------------------------------


def _load_yaml(path: str) -> Any:
    """Import PyYAML, an optional dependency. Raises SourceError."""
    try:
        import yaml  # type: ignore[import-untyped]

        return yaml
    except ImportError:
        raise SourceError(
            f"{path} is YAML, but PyYAML is not installed",
            source=Location(path),
            hint="pip install 'toolcrib[yaml]', or write JSON or TOML",
        ) from None


def _parse_yaml(text: str, path: Path) -> Any:
    yaml = _load_yaml(str(path))
    reader = _YamlReader(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    try:
        return reader.read_document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        _refuse(path, f"is not valid YAML: {problem}", None if mark is None else mark.line + 1)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"cannot be read: {error}", reader.line)


class _YamlReader:
    """Builds plain data from the events of a document. Raises ValueError; `line` is then the current line.

    PyYAML's own loaders would create objects and take `no` for False, and crash on deep nesting. Aliases are
    refused, because they make a large value of a small file.
    """

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self.line = 1

    def read_document(self) -> Any:
        value = None
        documents = 0
        while (kind := self._next()) != "StreamEnd":
            if kind == "DocumentStart":
                documents += 1
                if documents > 1:
                    raise ValueError("a second document begins here; put all tools in one document")
                value = self._read(self._next(), 0)
        return value

    def _next(self) -> str:
        self._event = next(self._events)
        self.line = self._event.start_mark.line + 1
        return type(self._event).__name__.removesuffix("Event")

    def _read(self, kind: str, depth: int) -> Any:
        """Return the value that begins with the current event."""
        event = self._event
        if kind == "Alias":
            raise ValueError(f"the alias *{event.anchor} is not supported; write the value in full")
        if depth > codec.MAX_DEPTH:
            raise ValueError(f"nested deeper than {codec.MAX_DEPTH}")
        if event.tag not in (None, "!", f"{_STANDARD}str"):
            raise ValueError(f"the tag {event.tag.replace(_STANDARD, '!!')} is not supported; leave it out")
        if kind == "Scalar":
            return _resolve(event.value) if event.tag is None and event.implicit[0] else event.value
        if kind == "MappingStart":
            return self._read_object(depth)
        found = []
        while (kind := self._next()) != "SequenceEnd":
            found.append(self._read(kind, depth + 1))
        return found

    def _read_object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (kind := self._next()) != "MappingEnd":
            key = self._read(kind, depth + 1)
            if not isinstance(key, str):
                raise ValueError(f"a key must be a string, got {key!r:.40}; put it in quotes")
            if key in found:
                raise ValueError(f"duplicate key '{key[:80]}'")
            found[key] = self._read(self._next(), depth + 1)
        return found


def _resolve(text: str) -> Any:
    """Return the value of a text without quotes."""
    if text == "<<":
        raise ValueError("the merge key << is not supported; write its keys in full")
    if text in _WORDS:
        return _WORDS[text]
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    if found[1] is None and found[2] is None:
        return int(text)
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


_PARSERS = {"json": _parse_json, "toml": _parse_toml, "yaml": _parse_yaml}


def _dump_yaml(value: Any) -> str:
    yaml = _load_yaml("the descriptor")

    class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined]
        """Quotes strings that other readers take for numbers, and writes several lines as a block."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    def represent_text(dumper: Any, text: str) -> Any:
        style = "|" if _BLOCK.fullmatch(text) else '"' if _BREAK.search(text) else None
        return dumper.represent_scalar(f"{_STANDARD}str", text, style)

    Dumper.add_representer(str, represent_text)
    Dumper.add_implicit_resolver(f"{_STANDARD}float", _NUMBER, list("-+0123456789"))
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**9))
