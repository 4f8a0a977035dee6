"""Compiled JSON Schema checks; the only module that imports jsonschema-rs.

Knows schemas, values and how to say what is wrong. Refuses to know tools. Nothing is ever fetched: a
retriever that refuses stands behind every schema, and patterns run on a linear-time engine.

A shortcut around the engine, for schemas that name plain types and nothing else, as most tools have.

It says yes where yes is beyond doubt and leaves everything else to the engine: so both always say the same,
and a server whose tools take and give plain values need not load the engine before somebody errs. Knows a few
keywords of JSON Schema; refuses to guess about the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.limits import (
    MAX_PATTERN_LENGTH,
    ValidationCost,
    check_limits,
    estimate_cost,
    limit_patterns,
)
from toolcrib.validation.schema_tree import Schema, expanded_size

if TYPE_CHECKING:
    import jsonschema_rs

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


_JSON_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_PATTERN_BYTES = 1 << 20
_MAX_PROBLEMS = 10
_MAX_OPTIONS = 20
_MAX_WORDS = 60
_MAX_PATH = 200
_MANY_VISITS = 3_000
"""Above this the engine is not asked for all that is wrong: saying it takes a hundred times as long as
finding it, about 10 us for each visit."""
_MANY_VALUES = 20_000
"""Above this it is not even asked for the first thing: it would copy most of the value."""


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


def _pattern_options() -> Any:
    """Patterns run on an engine of linear time, in a bounded space."""
    return _engine().RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)


def _refuse(uri: str) -> Any:
    raise LookupError(f"{uri} is not fetched")


class Validator:
    """One schema, compiled: one of plain types when the engine is first wanted. Where it `is_heavy`, ask for
    the `excess` of a value first, see effort.py."""

    __slots__ = ("_compiled", "_text", "is_heavy", "is_valid")

    def __init__(self, schema: Mapping[str, Any], *, trusted: bool = False) -> None:
        """`trusted` schemas were made by this library from type hints, and are right by construction."""
        if not trusted:
            check_limits(schema)
        self._text = _encode(schema)
        self._compiled: tuple[Any, ValidationCost] | None = None
        shortcut = find_shortcut(schema, lambda value: self._check.is_valid(value)) if trusted else None
        self.is_heavy = shortcut is None and not self._cost.is_low
        self.is_valid: IsValid = shortcut or self._check.is_valid

    @property
    def _check(self) -> Any:
        if self._compiled is None:
            self._compiled = _compile(self._text)
        return self._compiled[0]

    @property
    def _cost(self) -> ValidationCost:
        return (self._compiled or _compile(self._text))[1]

    def find_excess(self, value: Any) -> str | None:
        """Why `value` is not even checked: it would cost too much. None where it is checked."""
        return self._cost.find_excess(value) if self.is_heavy else None

    def problems(self, value: Any) -> list[Problem]:
        """What is wrong with a value that is not valid: the first things, where there are many, and nothing
        where there is too much to look at or something that is not JSON."""
        try:
            if not self._cost.exceeds_report(value, _MANY_VISITS):
                errors = self._check.iter_errors(value)
                found = (problem for error in errors for problem in _problems_of(error, value))
                return list(islice(found, _MAX_PROBLEMS))
            # Where there are branches, one error may contain thousands; where there is much, it is copied.
            has_branches = b'"anyOf"' in self._text or b'"oneOf"' in self._text
            if not has_branches and not self._cost.exceeds_report(value, _MANY_VALUES):
                self._check.validate(value)
        except _engine().ValidationError as error:
            return list(islice(_problems_of(error, value), _MAX_PROBLEMS))
        except ValueError:
            pass  # somewhere in it is something that is not JSON, or that nests too deep to be quoted
        return []


@lru_cache(maxsize=16)
def _compile(text: bytes) -> tuple[Any, ValidationCost]:
    """The engine's validator, and what checking costs. Remembered for a moment: a schema is compiled once to
    see whether it can be, and again when its tool is first called."""
    engine = _engine()
    plain = codec.decode(text)
    longest_name = limit_patterns(plain) if b"attern" in text else None
    cost = estimate_cost(plain, text, longest_name)
    try:
        check = engine.validator_for(
            plain,
            validate_formats=True,
            retriever=_refuse,
            pattern_options=_pattern_options(),
        )
    except Exception as error:  # the engine raises ValueError, ValidationError and ReferencingError
        raise InvalidSchemaError(_explain_refusal(error)) from None
    return check, cost


def check_schema(schema: Any) -> Validator:
    """Compile a stranger's schema, or raise InvalidSchemaError. The schema itself is checked, not `{}`."""
    if not isinstance(schema, Mapping):
        raise InvalidSchemaError("Schema must be a JSON object")
    declared = schema.get("$schema")
    if declared is not None and not isinstance(declared, str):
        raise InvalidSchemaError("Schema has a '$schema' that is not a string")
    return Validator(schema)


def _encode(schema: Mapping[str, Any]) -> bytes:
    try:
        return codec.encode(dict(schema))
    except codec.NotFiniteError as error:
        raise InvalidSchemaError(f"Schema has {error.value} at '{error.path}', which is not JSON") from None
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidSchemaError(f"Schema is not JSON: {_cut(str(error))}") from None


def _explain_refusal(error: Exception) -> str:
    text = getattr(error, "message", None) or str(error)
    text = text.splitlines()[0] if text else type(error).__name__
    what, is_pattern, _ = text.partition('is not a "regex"')
    if is_pattern:
        words = "is not a pattern that runs in linear time (no look-around, no back-references)"
        text = f"{_cut(what.strip())} {words}"
    where = "/".join(str(part) for part in getattr(error, "instance_path", ()) or ())
    where = re.sub(r"allOf/\d+/then/pattern$", "pattern", where)  # where its author has put it
    return f"{text[:300]} (at {where[:_MAX_PATH]})" if where else text[:300]


# --- comparing schemas -------------------------------------------------------------------------------

Answer = Literal["yes", "no", "unknown"]
_MAX_EXPANDED = 20_000


def canonicalize(schema: Schema | bool) -> jsonschema_rs.CanonicalSchema:
    """Return the engine's canonical form of a schema, for `covers`, `satisfiability` and `intersect`.

    Raise InvalidSchemaError for what is not a schema or refers outside itself.
    """
    engine = _engine()
    try:
        canonical: jsonschema_rs.CanonicalSchema = engine.canonicalize(
            _plain(schema), validate_formats=True, retriever=_refuse, pattern_options=_pattern_options()
        )
    except Exception as error:  # the engine raises ValueError, ValidationError and CanonicalizationError
        raise InvalidSchemaError(_explain_refusal(error)) from None
    return canonical


def covers(wider: Schema | bool, narrower: Schema | bool) -> Answer:
    """Whether every value that is valid for `narrower` is valid for `wider`; only "yes" is a proof."""
    return _answer(canonicalize(wider).covers(canonicalize(narrower)))


def satisfiability(schema: Schema | bool) -> Answer:
    """Whether some value is valid; only "no" is a proof."""
    return _answer(canonicalize(schema).satisfiability())


def intersect(one: Schema | bool, other: Schema | bool) -> Any:
    """Return a schema for the values that are valid for both, or None where the engine cannot write it."""
    first, second = canonicalize(one), canonicalize(other)
    try:
        return first.intersect(second).to_json_schema()
    except ValueError:  # UnsupportedOperand, UnsupportedResult
        return None


def dereference(schema: Schema, *, limit: int = _MAX_EXPANDED) -> dict[str, Any]:
    """Return the schema with every `$ref` replaced by its target, except those that lead in a circle.

    Raise InvalidSchemaError where a target is missing, or where the result has more than `limit` subschemas.
    """
    if expanded_size(schema, limit) > limit:
        raise InvalidSchemaError(f"Schema has more than {limit} parts once its references are resolved")
    try:
        expanded: dict[str, Any] = _engine().dereference(_plain(schema), retriever=_refuse)
    except Exception as error:  # the engine raises ValueError and ReferencingError
        raise InvalidSchemaError(_explain_refusal(error)) from None
    return expanded


def _plain(schema: Schema | bool) -> Any:
    return schema if isinstance(schema, bool) else codec.decode(_encode(schema))


def _answer(verdict: Any) -> Answer:
    answer: Answer = verdict.value
    return answer


# --- words -------------------------------------------------------------------------------------------


def describe_value(value: Any) -> str:
    """What came, short: its JSON type, and itself where it is small and plain."""
    if value is None:
        return "null"
    name = _JSON_NAMES.get(type(value), type(value).__name__)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 80):
        return f"{name} {value}"
    if isinstance(value, str):
        return f"string {value!r}" if len(value) <= 40 else f"a string of {len(value)} characters"
    if isinstance(value, list):
        return "an empty array" if not value else f"an array of {len(value)}"
    return name


def show_name(name: Any) -> str:
    """A name that a caller made up, on one line, short, without what a terminal could take for its own."""
    text = str(name)
    text = text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]}..."
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def format_path(path: list[str | int]) -> str:
    text = ""
    for part in path:
        if len(text) > _MAX_PATH:
            return f"{text}..."
        name = f"[{part}]" if isinstance(part, int) else show_name(part)
        text += name if isinstance(part, int) or not text else f".{name}"
    return text


def _problems_of(error: jsonschema_rs.ValidationError, value: Any) -> Iterator[Problem]:
    place = _place_of(error, value)
    kind: Any = error.kind
    name = kind.name
    if name == "required":
        yield Problem(format_path([*place, kind.property]), "required, but missing", "")
    elif name in ("additionalProperties", "unevaluatedProperties"):
        for extra in kind.unexpected:
            yield Problem(format_path([*place, extra]), "not a known name", "")
    elif name in ("anyOf", "oneOf") and getattr(kind, "context", None):
        yield _best_branch(error, value)
    else:
        yield Problem(format_path(place), _expectation(name, kind), describe_value(error.instance))


def _place_of(error: Any, value: Any) -> list[str | int]:
    """Names and indices on the way to what is wrong. The engine takes a name of digits for an index."""
    place: list[str | int] = []
    for part in error.instance_path:
        if isinstance(value, dict):
            place.append(str(part))
            value = value.get(str(part))
        else:
            place.append(part)
            # It drops empty names too, so that what follows may be somewhere else.
            is_there = isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
            value = value[part] if is_there else None
    return place


def _best_branch(error: Any, value: Any) -> Problem:
    """Of all branches that failed, the one that came furthest says most."""
    path = format_path(_place_of(error, value))
    got = describe_value(error.instance)
    branches = [branch for branch in error.kind.context if branch]
    if len(branches) < len(error.kind.context):  # a branch without an error fits
        return Problem(path, "fits more than one of the permitted forms", got)
    types = [
        " or ".join(branch[0].kind.types)
        for branch in branches
        if branch[0].kind.name == "type" and list(branch[0].instance_path) == list(error.instance_path)
    ]
    if len(types) == len(branches):
        return Problem(path, f"expected {' or '.join(dict.fromkeys(types))}", got)
    deepest = max(branches, key=lambda branch: (len(branch[0].instance_path), -len(branch)))
    inner = next(_problems_of(deepest[0], value))
    return inner if inner.field else Problem(path, "fits none of the permitted forms", got)


def _expectation(name: str, kind: Any) -> str:
    match name:
        case "type":
            return f"expected {' or '.join(kind.types)}"
        case "enum":
            options = list(kind.options)
            more = f" and {len(options) - _MAX_OPTIONS} more" if len(options) > _MAX_OPTIONS else ""
            return f"expected one of {', '.join(map(_say, options[:_MAX_OPTIONS]))}{more}"
        case "const":
            return f"expected {_say(kind.expected_value)}"
        case "format":
            return f"expected a {kind.format}"
        case "pattern":
            return f"expected text that matches {_cut(repr(kind.pattern), MAX_PATTERN_LENGTH)}"
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
        case "falseSchema":
            return "not permitted"
        case _:
            # The engine's own words quote the whole value; the keyword alone is safe and short.
            return f"does not satisfy '{name}'"


def _say(value: Any) -> str:
    """A value out of a schema, as its author would write it in JSON; text in single quotes, as names are."""
    return _cut(repr(value) if isinstance(value, str) else codec.encode_text(value))


def _cut(text: str, limit: int = _MAX_WORDS) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
