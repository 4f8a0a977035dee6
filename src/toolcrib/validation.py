"""Compiled JSON Schema checks; the only module that imports jsonschema-rs.

Knows schemas, values and how to say what is wrong. Refuses to know tools. Nothing is ever fetched: a
retriever that refuses stands behind every schema, and patterns run on a linear-time engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from toolcrib import bounds
from toolcrib.errors import InvalidSchemaError

if TYPE_CHECKING:
    import jsonschema_rs

_JSON_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_PATTERN_BYTES = 1 << 20
_MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a value: where, what was expected, what came, and a way out."""

    field: str
    expected: str
    got: str
    hint: str | None = None

    def __str__(self) -> str:
        place = f"'{self.field}': " if self.field else ""
        hint = f" ({self.hint})" if self.hint else ""
        got = f", got {self.got}" if self.got else ""
        return f"{place}{self.expected}{got}{hint}"

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def _engine() -> Any:
    """The one place that loads the engine: 30 ms that only a server that checks something pays."""
    import jsonschema_rs

    return jsonschema_rs


def _refuse(uri: str) -> Any:
    raise LookupError(f"{uri} is not fetched")


class Validator:
    """One schema, compiled. `branching` above 1 bounds how deep data may nest, see bounds.py."""

    __slots__ = ("_check", "deepest", "is_valid")

    def __init__(self, schema: Mapping[str, Any], *, trusted: bool = False) -> None:
        """`trusted` schemas were made by this library from type hints, and are right by construction."""
        engine = _engine()
        branching = 1
        if not trusted or "$defs" in schema:
            bounds.check_bounds(schema)
            branching = bounds.count_visits(schema)
        self.deepest = bounds.deepest_data(branching)
        try:
            self._check = engine.validator_for(
                dict(schema),
                validate_formats=True,
                retriever=_refuse,
                pattern_options=engine.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES),
            )
        except Exception as error:  # the engine raises ValueError, ValidationError and ReferencingError
            raise InvalidSchemaError(_explain_refusal(error)) from None
        self.is_valid = self._check.is_valid

    def is_too_deep(self, value: Any) -> bool:
        return self.deepest is not None and _nests_deeper(value, self.deepest)

    def problems(self, value: Any) -> list[Problem]:
        """What is wrong with `value`, most telling first; empty when nothing is."""
        found: list[Problem] = []
        for error in self._check.iter_errors(value):
            found.extend(_problems_of(error))
            if len(found) >= _MAX_PROBLEMS:
                break
        return found


def check_schema(schema: Any) -> Validator:
    """Compile a stranger's schema, or raise InvalidSchemaError. The schema itself is checked, not `{}`."""
    if not isinstance(schema, Mapping):
        raise InvalidSchemaError("Schema must be a JSON object")
    declared = schema.get("$schema")
    if declared is not None and not isinstance(declared, str):
        raise InvalidSchemaError("Schema has a '$schema' that is not a string")
    return Validator(schema)


def _explain_refusal(error: Exception) -> str:
    text = getattr(error, "message", None) or str(error)
    text = text.splitlines()[0] if text else type(error).__name__
    if 'is not a "regex"' in text:
        text = text.replace(
            'is not a "regex"',
            "is not a pattern that runs in linear time (no look-around, no back-references)",
        )
    where = "/".join(str(part) for part in getattr(error, "instance_path", ()) or ())
    return f"{text} (at {where})" if where else text


def _nests_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def describe_value(value: Any) -> str:
    """What came, short: its JSON type, and itself where it is small and plain."""
    if value is None:
        return "null"
    name = _JSON_NAMES.get(type(value), type(value).__name__)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        text = str(value)
        return f"{name} {text}" if len(text) <= 24 else name
    if isinstance(value, str):
        return f"string {value!r}" if len(value) <= 40 else f"a string of {len(value)} characters"
    if isinstance(value, list):
        return "an empty array" if not value else f"an array of {len(value)}"
    return name


def format_path(path: list[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def _problems_of(error: jsonschema_rs.ValidationError) -> Iterator[Problem]:
    path = format_path(list(error.instance_path))
    kind: Any = error.kind
    instance = error.instance
    name = kind.name
    if name == "required":
        missing = format_path([*error.instance_path, kind.property])
        yield Problem(missing, "required, but missing", "")
    elif name in ("additionalProperties", "unevaluatedProperties"):
        for extra in kind.unexpected:
            yield Problem(format_path([*error.instance_path, extra]), "not a known name", "")
    elif name in ("anyOf", "oneOf") and getattr(kind, "context", None):
        yield _best_branch(error, path, instance)
    else:
        yield Problem(path, _expectation(name, kind), describe_value(instance))


def _best_branch(error: Any, path: str, instance: Any) -> Problem:
    """Of all branches that failed, the one that came furthest says most."""
    branches = [branch for branch in error.kind.context if branch]
    types = [
        ", ".join(_type_names(branch[0].kind))
        for branch in branches
        if branch[0].kind.name == "type" and list(branch[0].instance_path) == list(error.instance_path)
    ]
    if len(types) == len(branches):
        return Problem(path, f"expected {' or '.join(dict.fromkeys(types))}", describe_value(instance))
    deepest = max(branches, key=lambda branch: (len(branch[0].instance_path), -len(branch)))
    inner = next(iter(_problems_of(deepest[0])), None)
    if inner is None or not inner.field:
        return Problem(path, "fits none of the permitted forms", describe_value(instance))
    return Problem(inner.field, inner.expected, inner.got, inner.hint)


def _type_names(kind: Any) -> list[str]:
    return list(kind.types)


def _expectation(name: str, kind: Any) -> str:
    match name:
        case "type":
            return f"expected {' or '.join(_type_names(kind))}"
        case "enum":
            options = ", ".join(repr(option) for option in list(kind.options)[:20])
            return f"expected one of {options}"
        case "const":
            return f"expected {kind.expected_value!r}"
        case "format":
            return f"expected a {kind.format}"
        case "pattern":
            return f"expected text that matches {kind.pattern!r}"
        case "minimum" | "exclusiveMinimum":
            return f"expected {'at least' if name == 'minimum' else 'more than'} {kind.limit}"
        case "maximum" | "exclusiveMaximum":
            return f"expected {'at most' if name == 'maximum' else 'less than'} {kind.limit}"
        case "minLength" | "minItems" | "minProperties":
            return f"expected a length of at least {kind.limit}"
        case "maxLength" | "maxItems" | "maxProperties":
            return f"expected a length of at most {kind.limit}"
        case "multipleOf":
            return f"expected a multiple of {kind.multiple_of}"
        case "uniqueItems":
            return "expected items that differ"
        case _:
            # The engine's own words quote the whole value; the keyword alone is safe and short.
            return f"does not satisfy '{name}'"
