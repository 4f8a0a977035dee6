"""The JSON Schema that a provider supports, as a table of rules. Each provider's module has its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

PLAIN_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMPOSITIONS = frozenset({"allOf", "anyOf", "enum", "not", "oneOf"})
_SCALARS = frozenset({"boolean", "integer", "null", "number", "string"})


@dataclass(frozen=True)
class Dialect:
    """One provider's JSON Schema.

    With `keywords` the provider supports a subset: only these, and schemas of one type or `anyOf` of such.
    None stands for nearly everything. `closed_objects` means that every object is closed and lists all its
    properties as required, those that are optional being nullable.
    """

    label: str
    keywords: frozenset[str] | None = None
    not_at_root: frozenset[str] = _COMPOSITIONS
    root_keywords: frozenset[str] | None = None
    annotations_at_root: bool = True
    property_name: re.Pattern[str] | None = None
    formats: frozenset[str] | None = None
    enum_types: frozenset[str] = _SCALARS
    closed_objects: bool = False
    any_value: bool = True
    empty_enum_value: bool = True
    defaults: bool = True
