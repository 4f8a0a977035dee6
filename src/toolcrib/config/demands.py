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

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from toolcrib.config.reading import Below, Reader
from toolcrib.errors import ConfigurationError, Faults
from toolcrib.policy import Audit, Auth, Limit, OAuth, Policy, Rule, Telemetry

SECTIONS = ("policy", "auth", "roles", "scopes", "rules", "limits", "audit", "telemetry")
_Value = TypeVar("_Value", Rule, Limit, OAuth, Auth, Audit, Telemetry)


def read_policy(document: Mapping[str, Any], reader: Reader, folder: Path) -> Policy | None:
    """The policy that a document asks for; None where it asks for none."""
    if not any(name in document for name in SECTIONS):
        return None
    faults = Faults()
    parts: dict[str, Any] = {}
    for name, read in (
        ("general", lambda: _read_general(document, reader, folder)),
        ("auth", lambda: _read_auth(document, reader, folder)),
        ("rules", lambda: _make_all(Rule, document.get("rules", []), reader, "rules")),
        ("roles", lambda: reader.section(document, "roles")),
        ("scopes", lambda: reader.section(document, "scopes")),
        ("limits", lambda: _make_all(Limit, document.get("limits", []), reader, "limits")),
        ("audit", lambda: _read_audit(document, reader, folder)),
        ("telemetry", lambda: _read_telemetry(document, reader)),
    ):
        with faults.gathering():
            parts[name] = read()
    faults.tell()
    try:
        return Policy(**parts.pop("general"), **parts, file=reader.file, lines=reader.lines)
    except ConfigurationError as error:
        if error.file is not None:
            raise
        reader.refuse(error.key or "policy", error.message, error.hint)


def _read_general(document: Mapping[str, Any], reader: Reader, folder: Path) -> dict[str, Any]:
    general = reader.section(document, "policy")
    reader.refuse_unknown("policy", general, ("default", "store", "local_scopes"))
    return {**general, "store": reader.take(general, "policy", "store", Below(folder))}


def _read_auth(document: Mapping[str, Any], reader: Reader, folder: Path) -> Auth | None:
    if "auth" not in document:
        return None
    table = dict(reader.section(document, "auth"))
    issuers = _make_all(OAuth, table.pop("oauth", []), reader, "auth.oauth")
    return _make(Auth, _placed(table, reader, "auth", folder, "keys"), reader, "auth", oauth=issuers)


def _read_audit(document: Mapping[str, Any], reader: Reader, folder: Path) -> Audit | None:
    if "audit" not in document:
        return None
    section = reader.section(document, "audit")
    table = _placed(section, reader, "audit", folder, "file", "key_file", "checkpoints")
    if "file" not in table:
        reader.refuse("audit", "says not where: file is missing", 'write file = "audit.db"')
    return _make(Audit, table, reader, "audit")


def _read_telemetry(document: Mapping[str, Any], reader: Reader) -> Telemetry | None:
    if "telemetry" not in document:
        return None
    return _make(Telemetry, reader.section(document, "telemetry"), reader, "telemetry")


def _make_all(kind: type[_Value], items: Any, reader: Reader, name: str) -> list[_Value]:
    faults = Faults()
    made: list[_Value] = []
    for number, item in enumerate(_tables(items, reader, name), start=1):
        with faults.gathering():
            made.append(_make(kind, item, reader, f"{name}[{number}]"))
    faults.tell()
    return made


def _tables(value: Any, reader: Reader, name: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        reader.refuse(name, "must be a list of tables", f"write [[{name}]] above the keys of each")
    return value


def _make(kind: type[_Value], table: Mapping[str, Any], reader: Reader, place: str, **more: Any) -> _Value:
    """A value made of a table's keys. What is wrong with it, it says itself; here it is said where."""
    known = [item.name for item in fields(kind) if item.name not in more]
    reader.refuse_unknown(place, table, known)
    try:
        return kind(**table, **more)
    except ConfigurationError as error:
        key = f"{place}.{error.key}" if error.key else place
        line = reader.lines.get(key) or reader.lines.get(key.rpartition(".")[0]) or reader.lines.get(place)
        raise ConfigurationError(
            error.message, file=reader.file, key=key, line=line, hint=error.hint
        ) from None
    except TypeError:  # something that has to be there is not
        reader.refuse(place, f"needs {fields(kind)[0].name}")


def _placed(
    table: Mapping[str, Any], reader: Reader, section: str, folder: Path, *names: str
) -> dict[str, Any]:
    """A table whose paths are seen from the folder of the file."""
    paths = {name: reader.take(table, section, name, Below(folder)) for name in names if name in table}
    return {**table, **paths}
