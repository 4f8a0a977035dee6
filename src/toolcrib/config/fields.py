"""Settings: dataclasses whose fields are checked by their type hints, in Python and in TOML alike.

    @dataclass(frozen=True)
    class HTTPConfig(Settings):
        host: str | None = None
        port: int | None = setting(None, least=0, most=65535)

A value that is built in Python raises a ConfigurationError with the problems of all fields. `TableReader`
builds the same values from the tables of a document, and adds file and line to the errors.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from toolcrib.errors import ConfigurationError, ErrorCollector, check_keywords, suggest

Value = TypeVar("Value")


class Settings:
    """Base of dataclasses with settings: converts the fields, then checks that they fit together."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker knows the arguments of dataclasses

        def __new__(cls, *_: Any, **given: Any) -> Any:
            check_keywords(cls.__name__, given, [item.name for item in dataclasses.fields(cls)])
            return super().__new__(cls)

    def __post_init__(self) -> None:
        problems = ErrorCollector()
        for item in settings_of(type(self)):
            given = getattr(self, item.name)
            if given is not None or not item.optional:
                with problems.collecting():
                    object.__setattr__(self, item.name, convert(item, given, item.name))
        problems.raise_errors()
        for problem in self.find_conflicts():
            problems.add(problem)
        problems.raise_errors()

    def find_conflicts(self) -> Iterable[ConfigurationError]:
        """Return the problems of fields that are valid alone, but not together."""
        return ()


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One field: its name, its key in a document (relative, with dots), its type and its bounds."""

    name: str
    key: str
    hint: Any
    optional: bool
    required: bool
    least: float | None = None
    most: float | None = None
    convert: Callable[[Any], Any] | None = None
    regex: str = r"[\s\S]*\S[\s\S]*"
    expected: str = "a non-empty string"
    """The kind of string that matches `regex`, for the error message."""
    pattern: str | None = None
    """For a mapping that takes those keys of its section that match."""
    example: str | None = None
    """An example, for the hint about a required setting that is missing."""
    word: str | None = None
    """A value of a path that is not a path."""

    @property
    def item_type(self) -> Any:
        """The dataclass of the items, if the value is a list of tables."""
        arguments = get_args(self.hint)
        is_list = get_origin(self.hint) in (Sequence, tuple)
        return arguments[0] if is_list and dataclasses.is_dataclass(arguments[0]) else None

    @property
    def table_type(self) -> Any:
        """The dataclass of the value, if it is a table."""
        return self.hint if dataclasses.is_dataclass(self.hint) else None


def setting(default: Any = dataclasses.MISSING, **options: Any) -> Any:
    """Declare a field with options of `Setting`: `key`, `least`, `most`, `convert`, `regex`, ..."""
    if default == {}:
        return dataclasses.field(default_factory=dict, metadata=options)
    return dataclasses.field(default=default, metadata=options)


def _find_settings(kind: type) -> tuple[Setting, ...]:
    hints = get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        options = dict(field.metadata)
        key = options.pop("key", field.name)
        if key is not None:
            hint = hints[field.name]
            members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
            is_optional = type(None) in members  # values are converted to the first member of a union
            is_required = field.default is field.default_factory is dataclasses.MISSING
            found.append(Setting(field.name, key, members[0], is_optional, is_required, **options))
    return tuple(found)


settings_of: Callable[[type], tuple[Setting, ...]] = functools.cache(_find_settings)
"""Returns the settings of a dataclass. Fields with `key=None` are not settings."""


# --- values ------------------------------------------------------------------------------------------


def convert(item: Setting, value: Any, key: str) -> Any:
    """Convert a value to the type of its field. Raises ConfigurationError about the key."""
    try:
        return _convert(item, value, key)
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(str(error), key=key) from None


def _convert(item: Setting, value: Any, key: str) -> Any:
    hint, origin = item.hint, get_origin(item.hint)
    if item.convert is not None:
        return item.convert(value)
    if item.hint is Path:
        return value if isinstance(value, Path) else Path(_check_text(item, value))
    if item.item_type is not None:
        items = tuple(value) if isinstance(value, Sequence) else (None,)
        if not all(isinstance(each, item.item_type) for each in items):
            raise ValueError(f"must be a list of {item.item_type.__name__}, got {show(value)}")
        return items
    if item.table_type is not None:
        if not isinstance(value, hint):
            raise ValueError(f"must be of type {hint.__name__}, got {show(value)}")
        return value
    if origin is Literal:
        if value not in get_args(hint):
            raise ValueError(f"must be one of {', '.join(get_args(hint))}, got {show(value)}")
        return value
    if origin in (Sequence, tuple):
        return _check_texts(value)
    if origin is Mapping:
        return _convert_mapping(item, value, key)
    if hint is str:
        return _check_text(item, value)
    if hint is bool:
        return _check_flag(value)
    return _check_number(item, value)


def _convert_mapping(item: Setting, value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a table, got {show(value)}")
    kind = get_args(item.hint)[1]
    if kind is Any:
        return dict(value)
    check: Callable[[Any], Any] = _check_flag if kind is bool else _check_texts
    converted: dict[str, Any] = {}
    problems = ErrorCollector()
    section = key.rpartition(".")[0] if item.pattern else key
    for name, each in value.items():
        try:
            converted[name] = check(each)
        except ValueError as error:
            problems.add(ConfigurationError(str(error), key=f"{section}.{name}"))
    problems.raise_errors()
    return converted


def _check_text(item: Setting, value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(item.regex, value):
        raise ValueError(f"must be {item.expected}, got {show(value)}")
    return value


def _check_texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"must be a list of strings, got {show(value)}")
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise ValueError(f"must be a list of non-empty strings, but one is {show(item)}")
    return tuple(value)


def _check_flag(value: Any) -> bool:
    if not isinstance(value, bool):  # the string "no" is true in Python
        raise ValueError(f"must be true or false, got {show(value)}")
    return value


def _check_number(item: Setting, value: Any) -> float:
    is_whole = item.hint is int
    if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float):
        raise ValueError(f"must be {'an integer' if is_whole else 'a number'}, got {show(value)}")
    if item.least is not None and item.most is not None and not item.least <= value <= item.most:
        raise ValueError(f"must be from {item.least:.12g} to {item.most:.12g}, got {value!r}")
    return value if is_whole else float(value)


def show(value: Any) -> str:
    """Return a value for an error message, as TOML writes booleans."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


_ARGUMENT = re.compile(r"\b(\w+)=(?=[\"'\[{\d]|True|False)")


def to_toml(hint: str) -> str:
    """Return a hint with keyword arguments, such as `optional=True`, with keys of a document instead."""
    return re.sub(r"(?<= = )(True|False)", lambda found: found[0].lower(), _ARGUMENT.sub(r"\1 = ", hint))


# --- documents ---------------------------------------------------------------------------------------

_TOML_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read_text(path: Path) -> str:
    """Return the text of a document. Raise ConfigurationError."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigurationError("not UTF-8 text", file=str(path)) from None


def parse_toml(text: str, file: str | None = None) -> dict[str, Any]:
    """Parse a document. Raises ConfigurationError with the line."""
    import tomllib  # most commands read no file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_POSITION.search(str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        message = f"not valid TOML: {_TOML_POSITION.sub('', str(error))}"
        raise ConfigurationError(message, file=file, line=line) from None


class TableReader:
    """Builds values from the tables of one document, and collects every problem on the way.

    A key of a setting is relative to the table of its value: for a value at the root of the document,
    `server.name` is the key `name` in the table `[server]`.
    """

    def __init__(self, text: str, path: Path) -> None:
        self.file = str(path)
        self.folder = path.resolve().parent
        self.lines = find_key_lines(text)
        self.problems: list[ConfigurationError] = []
        self._top_level: frozenset[str] = frozenset()

    def read(
        self, kind: type[Value], table: Mapping[str, Any], prefix: str = "", **more: Any
    ) -> Value | None:
        """Build a value from a table, or report its problems and return None. `more` are other arguments."""
        before = len(self.problems)
        arguments = dict(more)
        sections: dict[str, list[Setting]] = {}
        for item in settings_of(kind):
            sections.setdefault(item.key.rpartition(".")[0], []).append(item)
        for section, items in sections.items():
            holder = table.get(section, {}) if section else table
            where = _join(prefix, section)
            if not self._is_table(holder, where):
                continue
            if where:  # the root has the settings of several values
                self.check_names(where, holder, {_last(item.key): item.pattern for item in items})
            # Where a key is misspelt, one that seems to be missing may be the misspelt one.
            may_report_missing = len(self.problems) == before
            for item in items:
                name = _last(item.key)
                if item.pattern is not None:
                    given = {key: value for key, value in holder.items() if re.fullmatch(item.pattern, key)}
                    arguments[item.name] = self._read_value(item, given, _join(prefix, item.key))
                elif name in holder:
                    arguments[item.name] = self._read_value(item, holder[name], _join(prefix, item.key))
                elif item.required and may_report_missing:
                    hint = None if item.example is None else f"write {item.example}"
                    self.report(prefix, f"{name} is required", hint)
        if len(self.problems) > before:
            return None
        try:
            return kind(**arguments)
        except ConfigurationError as error:
            self._report_all(error, prefix)
            return None

    def finish(self, value: Value | None) -> Value:
        """Return the value, or raise all reported problems as one ConfigurationError, ordered by line."""
        if value is None or self.problems:
            first, *others = sorted(self.problems, key=lambda error: error.line or 0)
            first.others = tuple(others)
            raise first
        return value

    def check_names(self, prefix: str, table: Iterable[str], known: Mapping[str, str | None]) -> None:
        """Report unknown keys. `known` maps names to None, or to a pattern of keys in place of the name. The
        names at the root of the document are checked first, and suggested if one is in another table."""
        if not prefix:
            self._top_level = frozenset(known)
        for key in table:
            if key in known or any(re.fullmatch(each, key) for each in known.values() if each):
                continue
            names = [name for name in known if known[name] is None]
            hint = suggest(key, names, f"known keys: {', '.join(known)}")
            if key in self._top_level and not prefix.endswith("]"):
                is_item = f"{_join(prefix, key)}[1]" in self.lines
                hint = f"it is not part of [{prefix}]: write {f'[[{key}]]' if is_item else f'[{key}]'}"
            self.report(_join(prefix, key), "unknown key", hint)

    def report(self, key: str, problem: str, hint: str | None = None) -> None:
        line = find_line(self.lines, key)
        self.problems.append(ConfigurationError(problem, file=self.file, key=key, line=line, hint=hint))

    def _report_all(self, error: ConfigurationError, prefix: str = "") -> None:
        for each in (error, *error.others):
            self.report(_join(prefix, each.key or ""), each.message, each.hint and to_toml(each.hint))

    def _read_value(self, item: Setting, value: Any, key: str) -> Any:
        """Convert a value, or report its problems and return None."""
        if item.item_type is not None:
            if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
                self.report(key, "must be a list of tables", f"write [[{key}]] above the keys of each")
                return None
            return [
                self.read(item.item_type, each, f"{key}[{number}]")
                for number, each in enumerate(value, start=1)
            ]
        if item.table_type is not None:
            return self.read(item.table_type, value, key) if self._is_table(value, key) else None
        if item.hint is Path and isinstance(value, str) and value.strip() and value != item.word:
            return self.folder / value
        try:
            return convert(item, value, key)
        except ConfigurationError as error:
            self._report_all(error)
            return None

    def _is_table(self, value: Any, key: str) -> bool:
        if not isinstance(value, dict):
            self.report(key, f"must be a table, got {show(value)}", f"write [{key}] above its keys")
        return isinstance(value, dict)


def names_of(kind: type) -> list[str]:
    """Return the names that the settings of a value have in its table: keys and sections."""
    return list(dict.fromkeys(item.key.partition(".")[0] for item in settings_of(kind)))


def _join(prefix: str, key: str) -> str:
    return f"{prefix}.{key}" if prefix and key else prefix or key


def _last(key: str) -> str:
    return key.rpartition(".")[2]


# --- lines of keys: tomllib does not keep them -----------------------------------------------------------

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.:\"'-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w.\"'-]+|\"[^\"]+\")\s*=")


def find_key_lines(text: str) -> dict[str, int]:
    """Return the line of each key that begins a line; `rules[2].when` is in the second `[[rules]]`."""
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = _number_table(_unquote(header[2]), counts, is_item=header[1] == "[[")
            lines.setdefault(section, number)
        elif key := _KEY.match(line):
            lines.setdefault(_join(section, _unquote(key[1])), number)
    return lines


def _unquote(name: str) -> str:
    return name.replace('"', "").replace("'", "")


def _number_table(name: str, counts: dict[str, int], *, is_item: bool) -> str:
    """Return the name of a table with its number, and the numbers of the tables that hold it."""
    found = ""
    *holders, last = name.split(".")
    for part in holders:
        found = _join(found, part)
        found += f"[{counts[found]}]" if found in counts else ""
    found = _join(found, last)
    if is_item:
        counts[found] = counts.get(found, 0) + 1
        found += f"[{counts[found]}]"
    return found


def find_line(lines: Mapping[str, int], key: str) -> int | None:
    """Return the line of a key, or else of the nearest table that holds it."""
    first = lines.get(f"{key}[1]")  # of a list of tables
    while key and key not in lines:
        key = key.rpartition("[" if key.endswith("]") else ".")[0]
    return lines.get(key, first)
