"""Dataclass fields as settings: checked and converted by their type hints, in Python and in TOML alike.

    @dataclass(frozen=True)
    class HTTPConfig:
        host: str | None = None
        port: int | None = setting(None, least=0, most=65535)

        def __post_init__(self) -> None:
            check_fields(self).raise_errors()

`check_fields` is called by values that are built in Python; `config.reader` builds the same values from a
document and adds file and line to the errors.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from toolcrib.errors import ConfigurationError, ErrorCollector

UNREADABLE: Any = object()
"""The value of a field whose problem was reported already; only a reader of files uses it."""

Convert = Callable[[Any], Any]


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
    above: float | None = None
    convert: Convert | None = None
    example: str | None = None
    """A line that shows how to write a required key."""
    pattern: str | None = None
    """For a mapping that takes those keys of its section that match."""

    @property
    def is_path(self) -> bool:
        return Path in (self.hint, *get_args(self.hint))

    @property
    def item_type(self) -> type | None:
        """The dataclass of the items, where the value is a list of tables."""
        arguments = get_args(self.hint)
        is_list = get_origin(self.hint) in (Sequence, tuple)
        return arguments[0] if is_list and dataclasses.is_dataclass(arguments[0]) else None  # type: ignore[return-value]

    @property
    def table_type(self) -> type | None:
        """The dataclass of the value, where it is a table."""
        return self.hint if dataclasses.is_dataclass(self.hint) else None  # type: ignore[return-value]


def setting(default: Any = dataclasses.MISSING, *, kw_only: Any = dataclasses.MISSING, **options: Any) -> Any:
    """Declare a field with options of `Setting`: `key`, `least`, `most`, `above`, `convert`, ..."""
    if default == {}:
        return dataclasses.field(default_factory=dict, kw_only=kw_only, metadata=options)
    return dataclasses.field(default=default, kw_only=kw_only, metadata=options)


_known_settings: dict[type, tuple[Setting, ...]] = {}


def settings_of(kind: type) -> tuple[Setting, ...]:
    """Return the settings of a dataclass. Fields with `key=None` are not settings."""
    if kind in _known_settings:
        return _known_settings[kind]
    hints = get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        options = dict(field.metadata)
        key = options.pop("key", field.name)
        if key is None:
            continue
        hint, is_optional = _split_optional(hints[field.name])
        is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        found.append(Setting(field.name, key, hint, is_optional, is_required, **options))
    _known_settings[kind] = tuple(found)
    return _known_settings[kind]


def _split_optional(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    members = [member for member in get_args(hint) if member is not type(None)]
    is_optional = len(members) < len(get_args(hint))
    return (members[0] if len(members) == 1 else Union[tuple(members)]), is_optional  # noqa: UP007


class FieldProblems(ErrorCollector):
    """The problems of one value. Checks of several fields ask `ok` first, to report no consequences."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[str] = set()

    def ok(self, *names: str) -> bool:
        return self.failed.isdisjoint(names)

    def report(self, problem: str, key: str | None = None, hint: str | None = None) -> None:
        self.add(ConfigurationError(problem, key=key, hint=hint))


def check_fields(value: Any) -> FieldProblems:
    """Convert the fields of a frozen dataclass in place and return the problems."""
    problems = FieldProblems()
    for item in settings_of(type(value)):
        given = getattr(value, item.name)
        if given is UNREADABLE:
            problems.failed.add(item.name)
        elif given is not None or not item.optional:
            try:
                object.__setattr__(value, item.name, _convert(item, given))
            except ConfigurationError as error:
                problems.failed.add(item.name)
                for each in (error, *error.others):
                    problems.report(each.message, each.key or item.key, each.hint)
            except ValueError as error:
                problems.failed.add(item.name)
                problems.report(str(error), item.key)
    return problems


def _convert(item: Setting, value: Any) -> Any:
    """Convert a value to the type of its field. Raises ValueError."""
    if item.convert is not None:
        return item.convert(value)
    hint, origin = item.hint, get_origin(item.hint)
    if item.is_path:
        return value if isinstance(value, Path) else Path(check_text(value))
    if item.item_type is not None:
        return _convert_items(value, item.item_type)
    if item.table_type is not None:
        if not isinstance(value, hint):
            raise ValueError(f"must be of type {hint.__name__}, got {show(value)}")
        return value
    if origin is Literal:
        if value not in get_args(hint):
            raise ValueError(f"must be one of {', '.join(get_args(hint))}, got {show(value)}")
        return value
    if origin in (Sequence, tuple):
        return check_texts(value)
    if origin is Mapping:
        return _convert_mapping(item, value)
    if hint is str:
        return check_text(value)
    if hint is bool:
        return check_flag(value)
    return _check_number(item, value)


def _convert_items(value: Any, kind: type) -> tuple[Any, ...]:
    items = tuple(value) if isinstance(value, Sequence) else (None,)
    if not all(isinstance(each, kind) or each is UNREADABLE for each in items):
        raise ValueError(f"must be a list of {kind.__name__}, got {show(value)}")
    return items


def _convert_mapping(item: Setting, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a table, got {show(value)}")
    kind = get_args(item.hint)[1]
    if kind is Any:
        return dict(value)
    check: Convert = check_flag if kind is bool else check_texts
    converted: dict[str, Any] = {}
    problems = ErrorCollector()
    for name, each in value.items():
        try:
            converted[name] = check(each)
        except ValueError as error:
            section = item.key.rpartition(".")[0] if item.pattern else item.key
            problems.add(ConfigurationError(str(error), key=f"{section}.{name}"))
    problems.raise_errors()
    return converted


def check_text(value: Any) -> str:
    """Return a non-empty string. Raises ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be a non-empty string, got {show(value)}")
    return value


def check_texts(value: Any) -> tuple[str, ...]:
    """Return a list of non-empty strings as a tuple. Raises ValueError."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"must be a list of strings, got {show(value)}")
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise ValueError(f"must be a list of non-empty strings, but one is {show(item)}")
    return tuple(value)


def check_flag(value: Any) -> bool:
    """Return a boolean. Raises ValueError: the string "no" is true in Python."""
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, got {show(value)}")
    return value


def _check_number(item: Setting, value: Any) -> float:
    is_whole = item.hint is int
    if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float):
        raise ValueError(f"must be {'an integer' if is_whole else 'a number'}, got {show(value)}")
    if item.above is not None:
        if not item.above < value <= (item.most or 0):  # also refuses NaN
            raise ValueError(f"must be above {item.above:g} and at most {item.most:g}, got {value!r}")
    elif item.least is not None and item.most is not None and not item.least <= value <= item.most:
        raise ValueError(f"must be from {item.least:.12g} to {item.most:.12g}, got {value!r}")
    return value if is_whole else float(value)


def show(value: Any) -> str:
    """Return a value for an error message, as TOML writes booleans."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
