"""Read dataclasses of settings from a TOML document; errors name file, line and key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from toolcrib.config.fields import UNREADABLE, Setting, settings_of, show
from toolcrib.errors import ConfigurationError, ErrorCollector, suggest

Value = TypeVar("Value")


class TableReader:
    """Builds values from the tables of one document and collects every problem on the way.

    A key of a setting is relative to the table of its value: for a value at the root of the document,
    `server.name` is the key `name` in the table `[server]`.
    """

    def __init__(self, text: str, path: Path) -> None:
        self.file = str(path)
        self.folder = path.resolve().parent
        self.lines = find_key_lines(text)
        self.problems = ErrorCollector()

    def read(
        self, kind: type[Value], table: Mapping[str, Any], prefix: str = "", **more: Any
    ) -> Value | None:
        """Build a value from a table, or report its problems and return None. `more` are other arguments."""
        is_complete = self._check_sections(kind, table, prefix)
        if prefix:
            is_complete &= self.check_names(prefix, table, dict.fromkeys(names_of(kind)))
        arguments: dict[str, Any] = {}
        for item in settings_of(kind):
            found = self._read_field(item, table, prefix, is_complete=is_complete)
            if found is not None:
                arguments[item.name] = found
        try:
            return kind(**arguments, **more)
        except ConfigurationError as error:
            for each in (error, *error.others):
                # Where a key is misspelt, one that seems to be missing may be the misspelt one.
                if each.key is not None or is_complete:
                    self.report(_join(prefix, each.key or ""), each.message, each.hint)
            return None

    def check_names(self, prefix: str, table: Iterable[str], known: Mapping[str, str | None]) -> bool:
        """Report keys that are not known, and return whether there are none.

        `known` maps names to None, or to a pattern that keys match instead of the name.
        """
        unknown = [
            key
            for key in table
            if key not in known and not any(re.fullmatch(each, key) for each in known.values() if each)
        ]
        for key in unknown:
            names = [name for name in known if known[name] is None]
            hint = suggest(key, names, f"known keys: {', '.join(known)}")
            self.report(_join(prefix, key), "unknown key", hint)
        return not unknown

    def report(self, key: str, problem: str, hint: str | None = None) -> None:
        line = find_line(self.lines, key)
        self.problems.add(ConfigurationError(problem, file=self.file, key=key, line=line, hint=hint))

    def _check_sections(self, kind: type, table: Mapping[str, Any], prefix: str) -> bool:
        """Report unknown keys in the sections of a value, and return whether there are none."""
        sections: dict[str, dict[str, str | None]] = {}
        for item in settings_of(kind):
            section, _, name = item.key.rpartition(".")
            if section in table:
                sections.setdefault(section, {})[name] = item.pattern
        is_complete = True
        for section, known in sections.items():
            key = _join(prefix, section)
            is_complete &= self._is_table(table[section], key) and self.check_names(
                key, table[section], known
            )
        return is_complete

    def _read_field(self, item: Setting, table: Mapping[str, Any], prefix: str, *, is_complete: bool) -> Any:
        """Return the argument for a field; None where the table has no such key."""
        section, _, name = item.key.rpartition(".")
        holder = table.get(section, {}) if section else table
        if not isinstance(holder, dict):
            return None  # reported before
        if item.pattern is not None:
            return {key: value for key, value in holder.items() if re.fullmatch(item.pattern, key)}
        if name in holder:
            return self._read_value(item, holder[name], _join(prefix, item.key))
        if not item.required:
            return None
        if is_complete:
            self.report(
                prefix, f"{name} is required", None if item.example is None else f"write {item.example}"
            )
        return UNREADABLE

    def _read_value(self, item: Setting, value: Any, key: str) -> Any:
        if item.item_type is not None:
            if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
                self.report(key, "must be a list of tables", f"write [[{key}]] above the keys of each")
                return UNREADABLE
            return [
                self._read_table(item.item_type, each, f"{key}[{number}]")
                for number, each in enumerate(value, start=1)
            ]
        if item.table_type is not None:
            return self._read_table(item.table_type, value, key)
        is_path = item.is_path and isinstance(value, str) and value.strip()
        return self.folder / value if is_path else value

    def _read_table(self, kind: type[Any], value: Any, key: str) -> Any:
        found = self.read(kind, value, key) if self._is_table(value, key) else None
        return UNREADABLE if found is None else found

    def _is_table(self, value: Any, key: str) -> bool:
        if isinstance(value, dict):
            return True
        self.report(key, f"must be a table, got {show(value)}", f"write [{key}] above its keys")
        return False


def names_of(kind: type) -> list[str]:
    """Return the names that the settings of a value have in its table: keys and sections."""
    return list(dict.fromkeys(item.key.partition(".")[0] for item in settings_of(kind)))


def _join(prefix: str, key: str) -> str:
    return f"{prefix}.{key}" if prefix and key else prefix or key


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
    while key and key not in lines:
        key = key.rpartition("[" if key.endswith("]") else ".")[0]
    return lines.get(key)
