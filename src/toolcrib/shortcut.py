"""A shortcut around the engine, for schemas that name plain types and nothing else, as most tools have.

It says yes where yes is beyond doubt and leaves everything else to the engine: so both always say the same,
and a server whose tools take and give plain values need not load the engine before somebody errs. Knows a few
keywords of JSON Schema; refuses to guess about the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

IsValid = Callable[[Any], bool]

_WORDS = frozenset({"description", "title", "default", "examples"})
_KINDS: dict[Any, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
}
_OBJECT = frozenset({"type", "properties", "required"}) | _WORDS
_SCALAR = _WORDS | {"type"}


def find_shortcut(schema: Mapping[str, Any], ask: IsValid) -> IsValid | None:
    """A check that asks the engine only in doubt; None where that would be always."""
    kinds = _kinds_of(schema)
    if kinds is not None:
        return lambda value: (type(value) in kinds and _is_json(value)) or ask(value)
    if schema.get("type") != "object" or not schema.keys() <= _OBJECT:
        return None
    known = {name: _kinds_of(item) for name, item in schema.get("properties", {}).items()}
    if None in known.values():
        return None
    required = frozenset(schema.get("required", ()))
    return _check_object(known, required, ask)  # type: ignore[arg-type]  # None was looked for


def _kinds_of(schema: Any) -> frozenset[type] | None:
    if not isinstance(schema, Mapping) or not schema.keys() <= _SCALAR:
        return None
    kind = schema.get("type")
    return _KINDS.get(kind) if isinstance(kind, str) else None


def _check_object(known: Mapping[str, frozenset[type]], required: frozenset[str], ask: IsValid) -> IsValid:
    nothing: frozenset[type] = frozenset()

    def is_valid(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys():
            return ask(value)
        for name, item in value.items():
            kind = type(item)
            if kind not in known.get(name, nothing) or (kind is not int and not _is_json(item)):
                return ask(value)
        return True

    return is_valid


def _is_json(value: Any) -> bool:
    """Whether a plain value surely is JSON: text may hold what is no character, and NaN is a float."""
    kind = type(value)
    return value.isascii() if kind is str else kind is not float or value - value == 0.0
