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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from toolcrib.config.reading import Below, Reader
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit, Auth, Limit, OAuth, Policy, Rule, Telemetry

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
    with reader.faults.gathering():
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
        with reader.faults.gathering():
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
    with reader.faults.gathering():
        reader.refuse_unknown(place, table, known)
    needed = _NEEDED.get(kind)
    if needed is not None and needed[0] not in given:
        given[needed[0]] = _ANYWHERE
        if is_whole:
            with reader.faults.gathering():
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
            reader.faults.add(each)
        elif key := name(each.key):
            with reader.faults.gathering():
                reader.refuse(key, each.message, each.hint)


def _placed(
    table: Mapping[str, Any], reader: Reader, section: str, folder: Path, *names: str
) -> dict[str, Any]:
    """A table whose paths are seen from the folder of the file; that folder stands for one that is wrong."""
    taken = {name: reader.try_take(table, section, name, Below(folder)) for name in names if name in table}
    return {**table, **{name: path or folder for name, path in taken.items()}}
