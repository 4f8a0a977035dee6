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
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit, Auth, Limit, OAuth, Policy, Rule, Telemetry

SECTIONS = ("policy", "auth", "roles", "scopes", "rules", "limits", "audit", "telemetry")
_Value = TypeVar("_Value", Rule, Limit, OAuth, Auth, Audit, Telemetry)


def read_policy(document: Mapping[str, Any], reader: Reader, folder: Path) -> Policy | None:
    """The policy that a document asks for; None where it asks for none."""
    if not any(name in document for name in SECTIONS):
        return None
    general = reader.section(document, "policy")
    reader.refuse_unknown("policy", general, ("default", "store", "local_scopes"))
    auth = None
    if "auth" in document:
        table = dict(reader.section(document, "auth"))
        issuers = [
            _make(OAuth, item, reader, f"auth.oauth[{number}]")
            for number, item in enumerate(_tables(table.pop("oauth", []), reader, "auth.oauth"), start=1)
        ]
        auth = _make(Auth, _placed(table, reader, "auth", folder, "keys"), reader, "auth", oauth=issuers)
    audit = None
    if "audit" in document:
        table = _placed(
            reader.section(document, "audit"), reader, "audit", folder, "file", "key_file", "checkpoints"
        )
        if "file" not in table:
            reader.refuse("audit", "says not where: file is missing", 'write file = "audit.db"')
        audit = _make(Audit, table, reader, "audit")
    telemetry = None
    if "telemetry" in document:
        telemetry = _make(Telemetry, reader.section(document, "telemetry"), reader, "telemetry")
    try:
        return Policy(
            default=general.get("default"),
            rules=_list_of(Rule, document, reader, "rules"),
            roles=reader.section(document, "roles"),
            scopes=reader.section(document, "scopes"),
            limits=_list_of(Limit, document, reader, "limits"),
            auth=auth,
            audit=audit,
            telemetry=telemetry,
            store=reader.take(general, "policy", "store", Below(folder)),
            local_scopes=general.get("local_scopes", ()),
            file=reader.file,
            lines=reader.lines,
        )
    except ConfigurationError as error:
        if error.file is not None:
            raise
        reader.refuse(error.key or "policy", error.message, error.hint)


def _list_of(kind: type[_Value], document: Mapping[str, Any], reader: Reader, name: str) -> list[_Value]:
    items = _tables(document.get(name, []), reader, name)
    return [_make(kind, item, reader, f"{name}[{number}]") for number, item in enumerate(items, start=1)]


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
