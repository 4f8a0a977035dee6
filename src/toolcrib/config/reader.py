"""The sections of `toolcrib.toml` that make up a policy, read into the values of `toolcrib.policy`.

    [policy]
    default = "deny"                    # what no rule is about: allow, or deny (as soon as one rule allows)
    store = "policy.db"                 # where several processes count together; without, each for itself
    local_scopes = ["orders:write"]     # what the local user may, who has no token; "*" is everything

    [auth]                              # who calls over HTTP
    keys = "toolcrib.keys.json"         # what `toolcrib keys` keeps
    optional = false                    # true: whoever shows nothing is `anonymous`

    [[auth.oauth]]
    issuer = "https://login.example.com"
    resource = "https://tools.example.com/mcp"

    [roles]
    support = ["key:ana", "oauth:*@example.com"]

    [scopes]
    "orders:write" = ["refund", "tag:orders"]

    [[rules]]
    allow = ["refund"]
    who = ["role:support"]
    when = { amount = { at_most = 100 } }

    [[limits]]
    rate = "60/min"
    per = "principal"

    [audit]
    file = "audit.db"

    [telemetry]
    prometheus = true

Knows which table becomes which value; what a value may be, it leaves to the values themselves.

Takes values out of a TOML document; whatever is wrong, it says where: file, line and key.

Knows shapes of values; refuses to know what settings mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from toolcrib.config.settings import Audit, Auth, Limit, OAuth, Policy, Rule, Telemetry, find_line
from toolcrib.definition import MAX_TIMEOUT_S
from toolcrib.errors import ConfigurationError, ErrorCollector


class Reader:
    """Takes values out of a document; whatever is wrong, it says where."""

    def __init__(self, text: str, path: Path) -> None:
        self.file = str(path)
        self.lines = lines_of_keys(text)
        self.problems = ErrorCollector()

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
        with self.problems.collecting():
            return self.section(document, name)
        return {}

    def try_take(self, section: Mapping[str, Any], name: str, key: str, read: Callable[[Any], Any]) -> Any:
        with self.problems.collecting():
            return self.take(section, name, key, read)
        return None

    def refuse_unknown(
        self, section: str, given: Iterable[str], known: Iterable[str], besides: str | None = None
    ) -> None:
        names = list(known)
        problems = ErrorCollector()
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
            with problems.collecting():
                self.refuse(f"{section}.{key}" if section else key, "unknown key", hint)
        problems.raise_errors()

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


SECTIONS = ("policy", "auth", "roles", "scopes", "rules", "limits", "audit", "telemetry")
_Value = TypeVar("_Value", Rule, Limit, OAuth, Auth, Audit, Telemetry)


def read_policy(document: Mapping[str, Any], reader: Reader, folder: Path) -> Policy | None:
    """The policy that a document asks for; None where it asks for none."""
    if not any(name in document for name in SECTIONS):
        return None
    parts: dict[str, Any] = {
        **_read_general(document, reader, folder),
        "auth": _read_auth(document, reader, folder),
        "rules": _make_all(Rule, document.get("rules", []), reader, "rules"),
        "roles": reader.try_section(document, "roles"),
        "scopes": reader.try_section(document, "scopes"),
        "limits": _make_all(Limit, document.get("limits", []), reader, "limits"),
        "audit": _read_audit(document, reader, folder),
        "telemetry": _read_telemetry(document, reader),
    }
    try:
        return Policy(**parts, file=reader.file, lines=reader.lines)
    except ConfigurationError as error:
        _keep(reader, error, lambda key: key or "policy")
        return None


def _read_general(document: Mapping[str, Any], reader: Reader, folder: Path) -> dict[str, Any]:
    general = reader.try_section(document, "policy")
    known = ("default", "store", "local_scopes")
    with reader.problems.collecting():
        reader.refuse_unknown("policy", general, known)
    given = {key: value for key, value in general.items() if key in known}
    return {**given, "store": reader.try_take(general, "policy", "store", Below(folder))}


def _read_auth(document: Mapping[str, Any], reader: Reader, folder: Path) -> Auth | None:
    section = _find(document, reader, "auth")
    if section is None:
        return None
    table = _placed(section, reader, "auth", folder, "keys")
    issuers = _make_all(OAuth, table.pop("oauth", []), reader, "auth.oauth")
    return _make(Auth, table, reader, "auth", oauth=issuers)


def _read_audit(document: Mapping[str, Any], reader: Reader, folder: Path) -> Audit | None:
    section = _find(document, reader, "audit")
    if section is None:
        return None
    table = _placed(section, reader, "audit", folder, "file", "key_file", "checkpoints")
    return _make(Audit, table, reader, "audit")


def _read_telemetry(document: Mapping[str, Any], reader: Reader) -> Telemetry | None:
    section = _find(document, reader, "telemetry")
    return None if section is None else _make(Telemetry, section, reader, "telemetry")


def _find(document: Mapping[str, Any], reader: Reader, name: str) -> Mapping[str, Any] | None:
    """A section that may be left out; None also where it is no table, which is kept to be told."""
    section = reader.try_section(document, name)
    return section if section is document.get(name) else None


_ANYWHERE = "https://toolcrib.invalid"
_STAND_INS: dict[type, Callable[[int], Any]] = {
    Rule: lambda _: Rule(deny=["*"]),
    Limit: lambda _: Limit(daily=1),
    OAuth: lambda number: OAuth(issuer=_ANYWHERE, label=f"unread{number}"),
}
"""What stands for an item that is wrong, so that the others keep their numbers and are looked at."""
_NEEDED: dict[type, tuple[str, str, str | None]] = {
    OAuth: ("issuer", "needs issuer", None),
    Audit: ("file", "says not where: file is missing", 'write file = "audit.db"'),
}


def _make_all(kind: type[_Value], items: Any, reader: Reader, name: str) -> list[_Value]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        with reader.problems.collecting():
            reader.refuse(name, "must be a list of tables", f"write [[{name}]] above the keys of each")
        return [_STAND_INS[kind](1)]
    return [
        _make(kind, item, reader, f"{name}[{number}]") or _STAND_INS[kind](number)
        for number, item in enumerate(items, start=1)
    ]


def _make(
    kind: type[_Value], table: Mapping[str, Any], reader: Reader, place: str, **more: Any
) -> _Value | None:
    """A value made of a table's keys. What is wrong with it, it says itself; here it is said where."""
    known = [item.name for item in fields(kind) if item.name not in more]
    given = {key: value for key, value in table.items() if key in known}
    is_whole = len(given) == len(table)  # what seems to be missing may be what is misspelt
    with reader.problems.collecting():
        reader.refuse_unknown(place, table, known)
    needed = _NEEDED.get(kind)
    if needed is not None and needed[0] not in given:
        given[needed[0]] = _ANYWHERE
        if is_whole:
            with reader.problems.collecting():
                reader.refuse(place, *needed[1:])
    try:
        return kind(**given, **more)
    except ConfigurationError as error:
        _keep(reader, error, lambda key: f"{place}.{key}" if key else place if is_whole else None)
        return None


def _keep(reader: Reader, error: ConfigurationError, name: Callable[[str | None], str | None]) -> None:
    """Keep what is wrong with a value, each under the key that `name` gives it, if any."""
    for each in (error, *error.others):
        if each.file is not None:
            each.others = ()
            reader.problems.add(each)
        elif key := name(each.key):
            with reader.problems.collecting():
                reader.refuse(key, each.message, each.hint)


def _placed(
    table: Mapping[str, Any], reader: Reader, section: str, folder: Path, *names: str
) -> dict[str, Any]:
    """A table whose paths are seen from the folder of the file; that folder stands for one that is wrong."""
    taken = {name: reader.try_take(table, section, name, Below(folder)) for name in names if name in table}
    return {**table, **{name: path or folder for name, path in taken.items()}}
