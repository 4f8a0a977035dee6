"""Compiled JSON Schemas: validation, error messages, and comparison. The only module that imports
jsonschema_rs.

Nothing is fetched: references to other documents are refused. Patterns run on a linear-time engine. Schemas
that name only plain types, as most tools have, are checked in Python, so that a server of such tools loads
the engine only when it has to explain an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from toolcrib.errors import InvalidSchemaError, ToolcribError, suggest
from toolcrib.validation import codec
from toolcrib.validation.limits import (
    MAX_PATTERN_LENGTH,
    Bounds,
    check_limits,
    has_more_values,
    limit_patterns,
    read_bounds,
)
from toolcrib.validation.schema_tree import Resolver, Schema

if TYPE_CHECKING:
    import jsonschema_rs

IsValid = Callable[[Any], bool]

TIME_PATTERN = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?$"
DATE_TIME_PATTERN = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ]{TIME_PATTERN[1:].replace('Z', '[Zz]')}"
DURATION_PATTERN = "^-?P[0-9DHMSTW.]+$"
"""Python's times may have no offset, and its durations have fractions and signs, unlike the formats of JSON
Schema."""

_PATTERN_BYTES = 1 << 20
_MAX_PROBLEMS = 10
_MAX_OPTIONS = 20
_MAX_VALUE_TEXT = 60
_MAX_PATH = 200
_MAX_SUGGESTED_NAME = 64
"""Finding a similar name takes long for longer names."""
_MAX_REPORTED_VALUES = 20_000
"""Above this the engine is not asked for the first error, because it copies most of the value."""


def _engine() -> Any:
    """Load the engine, which takes 30 ms."""
    import jsonschema_rs

    return jsonschema_rs


def _pattern_options() -> Any:
    return _engine().RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)


def _refuse_to_fetch(uri: str) -> Any:
    raise LookupError(f"{uri} is not fetched")


class Validator:
    """A compiled schema. Where it `is_heavy`, call `find_excess` before `is_valid`.

    `is_surely_valid`, if there is one, is cheaper than `is_valid`, and may be false for valid values.
    """

    __slots__ = ("_compiled", "_text", "is_heavy", "is_surely_valid", "is_valid")

    def __init__(self, schema: Mapping[str, Any], *, trusted: bool = False) -> None:
        """`trusted` schemas were made by this library from type hints."""
        if not trusted:
            check_limits(schema)
        self._text = _encode(schema)
        self._compiled: tuple[Any, Bounds] | None = None
        fast = self.is_surely_valid = build_fast_check(schema) if trusted else None
        self.is_heavy = fast is None and not self._bounds.are_low
        self.is_valid: IsValid
        if fast is None:
            self.is_valid = self._check.is_valid
        else:
            self.is_valid = lambda value: fast(value) or self._check.is_valid(value)

    @property
    def _check(self) -> Any:
        if self._compiled is None:
            self._compiled = _compile(self._text)
        return self._compiled[0]

    @property
    def _bounds(self) -> Bounds:
        return (self._compiled or _compile(self._text))[1]

    def find_excess(self, value: Any) -> str | None:
        """Return why a value is not checked, because that would take too long; None where it can be."""
        return self._bounds.find_excess(value) if self.is_heavy else None

    def problems(self, value: Any) -> list[Problem]:
        """Return what is wrong with an invalid value: the first problems, where there are many.

        Return nothing where finding them would take too long, or where a part of the value is not JSON.
        """
        try:
            if self._bounds.allow_report(value):
                errors = self._check.iter_errors(value)
                found = (problem for error in errors for problem in _problems_of(error, value, self._text))
                return list(islice(found, _MAX_PROBLEMS))
            # The first error of a branching schema may contain thousands of others.
            has_branches = b'"anyOf"' in self._text or b'"oneOf"' in self._text
            if not has_branches and not has_more_values(value, _MAX_REPORTED_VALUES):
                self._check.validate(value)
        except _engine().ValidationError as error:
            return list(islice(_problems_of(error, value, self._text), _MAX_PROBLEMS))
        except ValueError:
            pass  # a part of the value is not JSON, or is nested too deeply to be quoted
        return []


def check_schema(schema: Any) -> Validator:
    """Compile a schema of unknown origin, or raise InvalidSchemaError."""
    if not isinstance(schema, Mapping):
        raise InvalidSchemaError("Schema must be a JSON object")
    declared = schema.get("$schema")
    if declared is not None and not isinstance(declared, str):
        raise InvalidSchemaError("Schema has a '$schema' that is not a string")
    return Validator(schema)


@lru_cache(maxsize=16)
def _compile(text: bytes) -> tuple[Any, Bounds]:
    """Compile a schema and read its bounds. Cached: it is compiled at registration and again at the first
    call."""
    plain = codec.decode(text)
    max_name_length = limit_patterns(plain) if b"attern" in text else None
    bounds = read_bounds(plain, text, max_name_length)
    try:
        check = _engine().validator_for(
            plain, validate_formats=True, retriever=_refuse_to_fetch, pattern_options=_pattern_options()
        )
    except Exception as error:  # the engine raises ValueError, ValidationError and ReferencingError
        raise InvalidSchemaError(_explain(error)) from None
    return check, bounds


def _encode(schema: Mapping[str, Any]) -> bytes:
    try:
        return codec.encode(dict(schema))
    except codec.NotFiniteError as error:
        raise InvalidSchemaError(f"Schema has {error.value} at '{error.path}', which is not JSON") from None
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidSchemaError(f"Schema is not JSON: {_shorten(str(error))}") from None


def _explain(error: Exception) -> str:
    """Return a short message for an error of the engine, with its location."""
    text = getattr(error, "message", None) or str(error)
    text = text.splitlines()[0] if text else type(error).__name__
    pattern, is_pattern, _ = text.partition('is not a "regex"')
    if is_pattern:
        reason = "is not a pattern that runs in linear time (no look-around, no back-references)"
        text = f"{_shorten(pattern.strip())} {reason}"
    path = "/".join(str(part) for part in getattr(error, "instance_path", ()) or ())
    # Where the author wrote it, see limit_patterns.
    path = re.sub(r"allOf/\d+/then/pattern$", "pattern", path)
    if path.endswith("/type") and (found := re.match(r'"[^"]*"(?=.* .anyOf. )', text)):
        text = f"{found[0]} is not a type: use string, number, integer, boolean, array, object or null"
    return f"{text[:300]} (at {path[:_MAX_PATH]})" if path else text[:300]


# --- schemas of plain types --------------------------------------------------------------------------

_ANNOTATIONS = frozenset({"description", "title", "default", "examples"})
_OBJECT_KEYWORDS = _ANNOTATIONS | {"type", "properties", "required"}
_SCALAR_KEYWORDS = _ANNOTATIONS | {"type"}
_PYTHON_TYPES: dict[Any, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
}


def build_fast_check(schema: Mapping[str, Any]) -> IsValid | None:
    """Return a check for a schema of plain types that is true only where a value is surely valid. None for
    other schemas."""
    own_types = _types_of(schema)
    if own_types is not None:
        return lambda value: type(value) in own_types and (type(value) is int or _is_json(value))
    if schema.get("type") != "object" or not schema.keys() <= _OBJECT_KEYWORDS:
        return None
    known: dict[str, frozenset[type]] = {}
    for name, item in schema.get("properties", {}).items():
        types = _types_of(item)
        if types is None:
            return None
        known[name] = types
    required = frozenset(schema.get("required", ()))
    no_types: frozenset[type] = frozenset()

    def is_valid(value: Any) -> bool:
        if type(value) is not dict or not value.keys() >= required:
            return False
        for name, item in value.items():
            kind = type(item)
            if kind not in known.get(name, no_types) or (kind is not int and not _is_json(item)):
                return False
        return True

    return is_valid


def _types_of(schema: Any) -> frozenset[type] | None:
    if not isinstance(schema, Mapping) or not schema.keys() <= _SCALAR_KEYWORDS:
        return None
    kind = schema.get("type")
    return _PYTHON_TYPES.get(kind) if isinstance(kind, str) else None


def _is_json(value: Any) -> bool:
    """Whether a scalar surely is JSON: other text may have a lone surrogate, and a float may be NaN."""
    kind = type(value)
    return value.isascii() if kind is str else kind is not float or value - value == 0.0


# --- comparing schemas -------------------------------------------------------------------------------

_COMPARING = "0.52"
"""The oldest engine that compares. One that only validates may be older, see pyproject.toml."""


def canonicalize(schema: Schema | bool) -> jsonschema_rs.CanonicalSchema:
    """Return the engine's canonical form of a schema, to compare it with others.

    Raise InvalidSchemaError for what is not a schema or refers outside itself, and ToolcribError if the
    engine is one that can validate but not compare.
    """
    engine = _engine()
    if not hasattr(getattr(engine, "CanonicalSchema", None), "covers"):
        raise ToolcribError(
            f"Comparing or exporting schemas needs jsonschema-rs {_COMPARING} or newer, and an older one is"
            f" installed: pip install 'jsonschema-rs>={_COMPARING}'"
        )
    try:
        canonical: jsonschema_rs.CanonicalSchema = engine.canonicalize(
            _plain(schema),
            validate_formats=True,
            retriever=_refuse_to_fetch,
            pattern_options=_pattern_options(),
        )
    except Exception as error:  # the engine raises ValueError, ValidationError and CanonicalizationError
        raise InvalidSchemaError(_explain(error)) from None
    return canonical


def _plain(schema: Schema | bool) -> Any:
    return schema if isinstance(schema, bool) else codec.decode(_encode(schema))


# --- error messages ----------------------------------------------------------------------------------

_JSON_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a value: where, what was expected, what was received, and what to do."""

    field: str
    expected: str
    got: str
    hint: str | None = None

    def __str__(self) -> str:
        field = f"'{self.field}': " if self.field else ""
        hint = f" ({self.hint})" if self.hint else ""
        got = f", got {self.got}" if self.got else ""
        return f"{field}{self.expected}{got}{hint}"

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def describe_value(value: Any) -> str:
    """Return the JSON type of a value, and the value itself where it is short."""
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
    """Return a name from a caller on one line, shortened, without control characters."""
    text = _shorten(str(name))
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def suggest_name(name: Any, known: list[str]) -> str:
    """Return the hint for an unknown name: a similar one, or those that there are."""
    if not known:
        return "it takes none"
    text = str(name)
    others = f"it takes: {', '.join(known[:_MAX_OPTIONS])}"
    return suggest(text, known if len(text) <= _MAX_SUGGESTED_NAME else (), others)


def format_path(path: list[str | int]) -> str:
    text = ""
    for part in path:
        if len(text) > _MAX_PATH:
            return f"{text}..."
        name = f"[{part}]" if isinstance(part, int) else show_name(part)
        text += name if isinstance(part, int) or not text else f".{name}"
    return text


def _problems_of(error: jsonschema_rs.ValidationError, value: Any, text: bytes) -> Iterator[Problem]:
    """Yield the problems of one error. `text` is the schema."""
    path = _path_of(error, value)
    kind: Any = error.kind
    name = kind.name
    if name == "required":
        yield Problem(format_path([*path, kind.property]), "required, but missing", "")
    elif name in ("additionalProperties", "unevaluatedProperties"):
        known = _known_names(text, error.schema_path)
        for extra in kind.unexpected:
            hint = suggest_name(extra, known) if known else None
            yield Problem(format_path([*path, extra]), "not a known name", "", hint)
    elif name in ("anyOf", "oneOf") and getattr(kind, "context", None):
        yield _closest_option(error, value, text)
    else:
        got = describe_value(error.instance)
        yield Problem(format_path(path), _expectation(name, kind), got, _hint(name, kind, error.instance))


def _path_of(error: Any, value: Any) -> list[str | int]:
    """Return the names and indices that lead to the error. The engine takes a name of digits for an index."""
    path: list[str | int] = []
    for part in error.instance_path:
        if isinstance(value, dict):
            path.append(str(part))
            value = value.get(str(part))
        else:
            path.append(part)
            # The engine drops empty names, so that the rest of the path may not exist here.
            exists = isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
            value = value[part] if exists else None
    return path


def _known_names(text: bytes, path: list[str | int]) -> list[str]:
    """Return the names that an object may have where `path` leads to its `additionalProperties`."""
    node: Any = codec.decode(text)
    resolver = Resolver(node)
    for part in path[:-1]:
        node = resolver.follow(node) if part == "$ref" else node[part]
    return list(node.get("properties", ()))


def _closest_option(error: Any, value: Any, text: bytes) -> Problem:
    """Return the problem of the option that comes closest: of the right type, with the right constants, and
    wrong only deep in the value."""
    path = format_path(_path_of(error, value))
    got = describe_value(error.instance)
    options = [option for option in error.kind.context if option]
    if len(options) < len(error.kind.context):  # an option without an error fits
        return Problem(path, "fits more than one of the permitted forms", got)
    types = [
        " or ".join(option[0].kind.types)
        for option in options
        if option[0].kind.name == "type" and list(option[0].instance_path) == list(error.instance_path)
    ]
    if len(types) == len(options):
        return Problem(path, f"expected {' or '.join(dict.fromkeys(types))}", got)

    def rank(option: Any) -> tuple[bool, bool, int, int]:
        is_of_type = option[0].kind.name != "type" or list(option[0].instance_path) != list(
            error.instance_path
        )
        has_constants = all(item.kind.name not in ("const", "enum") for item in option)
        return is_of_type, has_constants, len(option[0].instance_path), -len(option)

    inner = next(_problems_of(max(options, key=rank)[0], value, text))
    return inner if inner.field else Problem(path, "fits none of the permitted forms", got)


_EXPECTATIONS = {
    "minimum": "at least {limit}",
    "exclusiveMinimum": "more than {limit}",
    "maximum": "at most {limit}",
    "exclusiveMaximum": "less than {limit}",
    "minLength": "a length of at least {limit}",
    "minItems": "a length of at least {limit}",
    "minProperties": "a length of at least {limit}",
    "maxLength": "a length of at most {limit}",
    "maxItems": "a length of at most {limit}",
    "maxProperties": "a length of at most {limit}",
    "uniqueItems": "items that differ",
}


_FORMATS = {
    "date": "a date such as 2026-11-16",
    "date-time": "a date-time such as 2026-11-16T10:00:00Z",
    "duration": "a duration such as P1DT2H30M",
    "email": "an email address such as ada@example.com",
    "hostname": "a host name such as example.com",
    "ipv4": "an IPv4 address such as 192.0.2.1",
    "ipv6": "an IPv6 address such as 2001:db8::1",
    "regex": "a regular expression",
    "time": "a time such as 10:00:00Z",
    "uri": "a URI such as https://example.com/a",
    "uuid": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
}
_PATTERNS = {
    DATE_TIME_PATTERN: _FORMATS["date-time"],
    TIME_PATTERN: "a time such as 10:00:00",
    DURATION_PATTERN: _FORMATS["duration"],
}


def _hint(name: str, kind: Any, instance: Any) -> str | None:
    is_date_time = name == "format" and kind.format == "date-time" and isinstance(instance, str)
    if is_date_time and len(instance) < _MAX_VALUE_TEXT and re.fullmatch(DATE_TIME_PATTERN, f"{instance}Z"):
        return "the offset from UTC is missing: add Z, or one such as +01:00"
    return None


def _expectation(name: str, kind: Any) -> str:
    match name:
        case "type":
            return f"expected {' or '.join(kind.types)}"
        case "enum":
            options = list(kind.options)
            more = f" and {len(options) - _MAX_OPTIONS} more" if len(options) > _MAX_OPTIONS else ""
            return f"expected one of {', '.join(map(_show, options[:_MAX_OPTIONS]))}{more}"
        case "const":
            return f"expected {_show(kind.expected_value)}"
        case "format":
            return f"expected {_FORMATS.get(kind.format, f'the format {_show(kind.format)}')}"
        case "pattern" if kind.pattern in _PATTERNS:
            return f"expected {_PATTERNS[kind.pattern]}"
        case "pattern":
            return f"expected text that matches {_shorten(repr(kind.pattern), MAX_PATTERN_LENGTH)}"
        case "multipleOf":
            return f"expected a multiple of {kind.multiple_of}"
        case "falseSchema":
            return "not permitted"
    if name in _EXPECTATIONS:
        return f"expected {_EXPECTATIONS[name].format(limit=getattr(kind, 'limit', ''))}"
    return f"does not satisfy '{name}'"  # the engine's own message quotes the whole value


def _show(value: Any) -> str:
    """Return a value from a schema as JSON; strings in single quotes, like names."""
    return _shorten(repr(value) if isinstance(value, str) else codec.encode_text(value))


def _shorten(text: str, limit: int = _MAX_VALUE_TEXT) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
