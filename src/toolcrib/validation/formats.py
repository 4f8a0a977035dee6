"""JSON and YAML files, and the frontmatter of Markdown. The only module that imports yaml.

Files may not be trusted: their size and depth are limited, duplicate keys are refused, and YAML has the
values of JSON only: `yes`, `on`, dates and `0x1F` are strings.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

from toolcrib.errors import Location, SourceError
from toolcrib.validation import codec

Format = Literal["json", "yaml"]
SUFFIXES: Mapping[str, Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}

LOCK_SUFFIX = ".lock"

MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_BYTES = 2 * 1024 * 1024
"""The limit for YAML, which takes longer to read."""

MAX_FRONTMATTER = 64 * 1024

_FRONTMATTER = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_BYTE = re.compile(r" ?\(byte (\d+)\)")
_INTEGER = re.compile("[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,4})?$")
_STANDARD = "tag:yaml.org,2002:"


def format_of(path: str | Path) -> Format | None:
    """Return the format of a file by its suffix; None where it is not one of a descriptor or a lock."""
    suffix = os.path.splitext(path)[1].lower()
    return "json" if suffix == LOCK_SUFFIX else SUFFIXES.get(suffix)


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
            hint="pip install 'toolcrib[yaml]', or write JSON",
        ) from None


def _parse_yaml(text: str, path: Path) -> Any:
    yaml = _load_yaml(str(path))
    try:
        return yaml.load(text, Loader=_make_loader(yaml))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        _refuse(path, f"is not valid YAML: {problem}", None if mark is None else mark.line + 1)


@cache
def _make_loader(yaml: Any) -> Any:
    """Return a SafeLoader for what JSON can express. It refuses aliases, which make a large value of a small
    file, and takes `no` for text."""
    fast = getattr(yaml, "CSafeLoader", None)
    bases = (yaml.SafeLoader,) if fast is None else (yaml.composer.Composer, fast)  # its events, our nodes

    def refuse(problem: str, place: Any) -> NoReturn:
        raise yaml.constructor.ConstructorError(None, None, problem, place.start_mark)

    class Loader(*bases):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def __init__(self, text: str) -> None:
            bases[-1].__init__(self, text)
            self.anchors: dict[str, Any] = {}
            self.depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            tag = getattr(event, "tag", None)
            if isinstance(event, yaml.AliasEvent):
                refuse(f"the alias *{event.anchor} is not supported; write the value in full", event)
            if tag not in (None, "!", f"{_STANDARD}str"):
                refuse(f"the tag {tag.replace(_STANDARD, '!!')} is not supported; leave it out", event)
            if self.depth > codec.MAX_DEPTH:
                refuse(f"nested deeper than {codec.MAX_DEPTH}", event)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:  # noqa: ARG002
            found: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = self.construct_object(key_node, deep=True)
                if key == "<<" and not key_node.style:
                    refuse("the merge key << is not supported; write its keys in full", key_node)
                if not isinstance(key, str):
                    refuse(f"a key must be a string, got {key!r:.40}; put it in quotes", key_node)
                if key in found:
                    refuse(f"duplicate key '{key[:80]}'", key_node)
                found[key] = self.construct_object(value_node, deep=True)
            return found

        def construct_number(self, node: Any) -> int | float:
            number = int(node.value) if _INTEGER.fullmatch(node.value) else float(node.value)
            if number in (float("inf"), float("-inf")):
                refuse(f"the number {node.value[:40]} is too large", node)
            return number

    Loader.add_implicit_resolver(
        f"{_STANDARD}null", re.compile("(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
    )
    Loader.add_implicit_resolver(
        f"{_STANDARD}bool", re.compile("(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    Loader.add_implicit_resolver(f"{_STANDARD}float", _NUMBER, list("-+0123456789"))
    Loader.add_constructor(f"{_STANDARD}float", Loader.construct_number)
    return Loader


_PARSERS = {"json": _parse_json, "yaml": _parse_yaml}
