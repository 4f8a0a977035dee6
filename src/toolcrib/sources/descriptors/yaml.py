"""Read and write YAML; the only module that imports yaml.

The values are those of JSON: objects, lists, strings, numbers, booleans and null. `yes`, `on`, dates and
`0x1F` are strings, unlike in other YAML readers. The text is read event by event, so that nesting and
repetition by aliases are limited; tags that create objects are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import Location, SourceError

MAX_DEPTH = 64
MAX_WEIGHT = 500_000
"""The most values in a document, counted as often as aliases repeat them; 16 characters count as one."""

_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99})(\.[0-9]+)?([eE][-+]?[0-9]{1,4})?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
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


def _load_engine(what: str) -> Any:
    """Import PyYAML, an optional dependency. Raises SourceError."""
    try:
        import yaml  # type: ignore[import-untyped]

        return yaml
    except ImportError:
        raise SourceError(
            f"{what} is YAML, but PyYAML is not installed",
            source=Location(what),
            hint="pip install 'toolcrib[yaml]', or write JSON or TOML",
        ) from None


class YamlError(ValueError):
    """A problem with a text, and its line."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read_yaml(text: str, what: str) -> tuple[Any, dict[int, int]]:
    """Return the value of a text, and the lines of its objects and lists by `id`. Raises YamlError."""
    yaml = _load_engine(what)
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        raise YamlError(str(problem), None if mark is None else mark.line + 1) from None
    except RecursionError:
        raise YamlError("nested too deeply") from None
    return builder.value, builder.lines


def write_yaml(value: Any, what: str) -> str:
    """Return a text that this and other readers read as the same value."""
    yaml = _load_engine(what)

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


@dataclass(slots=True)
class _Frame:
    """An object or list that is being read."""

    container: Any
    line: int
    anchor: str | None
    weight: int = 1
    key: str | None = None
    merged: list[dict[str, Any]] = field(default_factory=list)


class _Builder:
    """Builds a value from events."""

    def __init__(self) -> None:
        self.value: Any = None
        self.lines: dict[int, int] = {}
        self._documents = 0
        self._open: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int] | None] = {}

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        line = event.start_mark.line + 1 if event.start_mark is not None else None
        try:
            getattr(self, f"_{kind.removesuffix('Event').lower()}", _pass)(event)
        except YamlError as error:
            error.line = error.line or line
            raise

    def _documentstart(self, event: Any) -> None:  # noqa: ARG002
        self._documents += 1
        if self._documents > 1:
            raise YamlError("a second document begins here; put all tools in one document")

    def _mappingstart(self, event: Any) -> None:
        self._begin(event, {}, "map")

    def _sequencestart(self, event: Any) -> None:
        self._begin(event, [], "seq")

    def _begin(self, event: Any, container: Any, kind: str) -> None:
        if event.tag not in (None, "!", f"{_STANDARD}{kind}"):
            raise YamlError(f"the tag {event.tag} is not supported")
        if len(self._open) >= MAX_DEPTH:
            raise YamlError(f"nested deeper than {MAX_DEPTH}")
        if self._open and self._awaits_key(self._open[-1]):
            raise YamlError("a key must be a string")
        if event.anchor is not None:
            self._anchors[event.anchor] = None  # until it ends: it must not contain itself
        self._open.append(_Frame(container, event.start_mark.line + 1, event.anchor))

    def _mappingend(self, event: Any) -> None:  # noqa: ARG002
        frame = self._open[-1]
        for other in frame.merged:
            for key, value in other.items():
                frame.container.setdefault(key, value)
        self._end()

    def _sequenceend(self, event: Any) -> None:  # noqa: ARG002
        self._end()

    def _end(self) -> None:
        frame = self._open.pop()
        self.lines[id(frame.container)] = frame.line
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.container, frame.weight)
        self._put(frame.container, frame.weight)

    def _scalar(self, event: Any) -> None:
        value = _read_scalar(event)
        weight = 1 + len(event.value) // 16
        if self._open and self._awaits_key(self._open[-1]):
            is_merge = event.value == "<<" and event.implicit[0]
            self._take_key(_MERGE if is_merge else value)
            self._open[-1].weight += weight
            return
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, weight)
        self._put(value, weight)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise YamlError(f"unknown alias *{event.anchor}")
        found = self._anchors[event.anchor]
        if found is None:
            raise YamlError(f"*{event.anchor} contains itself")
        if self._open and self._awaits_key(self._open[-1]):
            self._take_key(found[0])
        else:
            self._put(*found)

    # --- building ---

    @staticmethod
    def _awaits_key(frame: _Frame) -> bool:
        return isinstance(frame.container, dict) and frame.key is None

    def _take_key(self, key: Any) -> None:
        frame = self._open[-1]
        if not isinstance(key, str):
            raise YamlError(f"a key must be a string, got {key!r:.40}; put it in quotes")
        if key in frame.container:
            raise YamlError(f"duplicate key '{key[:80]}'")
        frame.key = key

    def _put(self, value: Any, weight: int) -> None:
        if not self._open:
            self.value = value
            return
        frame = self._open[-1]
        frame.weight += weight
        if frame.weight > MAX_WEIGHT:
            raise YamlError("too large, with repetitions by aliases")
        if isinstance(frame.container, list):
            frame.container.append(value)
        elif frame.key is _MERGE:
            others = value if isinstance(value, list) else [value]
            if not all(isinstance(other, dict) for other in others):
                raise YamlError("<< requires an object or a list of objects")
            frame.merged += others
            frame.key = None
        else:
            frame.container[frame.key] = value
            frame.key = None


class _Merge(str):
    """The key `<<` without quotes, which differs from the same string in quotes."""


_MERGE = _Merge("<<")


def _pass(event: Any) -> None:
    """Ignore the start and the end of a stream."""


def _read_scalar(event: Any) -> Any:
    tag, text = event.tag, event.value
    if tag is None:
        return _resolve(text) if event.implicit[0] else text
    kind = tag.removeprefix(_STANDARD)
    if tag == "!" or kind == "str":
        return text
    if kind not in ("int", "float", "bool", "null"):
        raise YamlError(f"the tag {tag} is not supported")
    value = _resolve(text)
    fits: Any = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}[kind]
    if not isinstance(value, fits) or (kind in ("int", "float") and isinstance(value, bool)):
        raise YamlError(f"{text!r:.40} does not match its tag")
    return float(value) if kind == "float" else value


def _resolve(text: str) -> Any:
    """Return the value of a text without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if found := _NUMBER.fullmatch(text):
        if found[1] is None and found[2] is None:
            return int(text)
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise YamlError(f"the number {text[:40]} is too large")
        return number
    if _NOT_FINITE.fullmatch(text):
        raise YamlError(f"{text} is not a number in JSON")
    return text
