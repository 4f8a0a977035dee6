"""A schema as one tree without references, in the vocabulary of 2020-12, with `allOf` merged where possible.

`ValueGenerator` draws random values for such a tree.

expand({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}).tree
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from re import _parser  # type: ignore[attr-defined]  # what a pattern consists of
from typing import Any

from toolcrib.catalog.schema_algebra import ANNOTATIONS, CONTENT, TYPES, Node, flatten, nothing, types_of
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import LISTED_SCHEMAS, SINGLE_SCHEMAS, Resolver
from toolcrib.validation.validator import DATE_TIME_PATTERN, DURATION_PATTERN, TIME_PATTERN

Path = tuple[str, ...]
NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords whose value maps names to schemas, in 2020-12 and without definitions."""
BOOLEAN_SCHEMAS = frozenset({"additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords whose value stays true or false where it is that."""
KEYWORDS_OF: Mapping[str, frozenset[str]] = {
    "string": CONTENT | {"format", "maxLength", "minLength", "pattern"},
    "number": frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"}),
    "array": frozenset(
        {
            "contains",
            "items",
            "maxContains",
            "maxItems",
            "minContains",
            "minItems",
            "prefixItems",
            "unevaluatedItems",
            "uniqueItems",
        }
    ),
    "object": frozenset(
        {
            "additionalProperties",
            "dependentRequired",
            "dependentSchemas",
            "maxProperties",
            "minProperties",
            "patternProperties",
            "properties",
            "propertyNames",
            "required",
            "unevaluatedProperties",
        }
    ),
}
"""Keywords that apply to values of one type only. (A `format` can apply to numbers too.)"""
TYPE_OF = {keyword: name for name, keywords in KEYWORDS_OF.items() for keyword in keywords}
_LOGIC = frozenset({"allOf", "anyOf", "else", "if", "not", "oneOf", "then"})
_OPEN_LIMITS = frozenset({"minItems", "minLength", "minProperties", "uniqueItems"})
"""Keywords that have no effect where they are 0 or false."""
_KNOWN = frozenset(TYPE_OF) | _LOGIC | ANNOTATIONS | {"enum", "type"}


def rules_for(node: Node, name: str) -> Node:
    """Return the keywords of a schema that apply to values of one type, except logic and `enum`."""
    keywords = KEYWORDS_OF.get("number" if name == "integer" else name, frozenset())
    is_number = name in ("integer", "number")
    return {k: value for k, value in node.items() if k in keywords or (k == "format" and is_number)}


def map_subschemas(node: Node, path: Path, change: Callable[[Any, Path], Any]) -> Node:
    """Return a schema with `change(subschema, path)` for each of its subschemas."""
    found: Node = {}
    for key, value in node.items():
        here = (*path, key)
        if key in NAMED_SCHEMAS and isinstance(value, dict):
            found[key] = {name: change(item, (*here, name)) for name, item in value.items()}
        elif key in LISTED_SCHEMAS and isinstance(value, list):
            found[key] = [change(item, (*here, str(number))) for number, item in enumerate(value)]
        elif key in SINGLE_SCHEMAS and not (isinstance(value, bool) and key in BOOLEAN_SCHEMAS):
            found[key] = change(value, here)
        else:
            found[key] = value
    return found


def pointer(path: Path) -> str:
    """Return a path as a JSON pointer."""
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)


# --- references and drafts ---------------------------------------------------------------------------------

MAX_PARTS = 4_000
"""The number of subschemas that a schema may have when its references are expanded."""
_MAX_DEPTH = 48
_LEVELS = (3, 2, 1)
"""Levels of recursion that are expanded: the first of these that stays within bounds."""


class ExpansionError(Exception):
    """A schema that cannot be expanded; the text says why."""


class _TooLargeError(Exception):
    pass


@dataclass(slots=True)
class Expansion:
    """An expanded schema. `cuts` are the places where recursion ends, after `levels` of it, with the name of
    what contains itself; `notes` say what else was changed."""

    levels: int
    tree: Node = field(default_factory=dict)
    cuts: list[tuple[Path, str]] = field(default_factory=list)
    notes: list[tuple[Path, str]] = field(default_factory=list)


def expand(schema: Any, levels: tuple[int, ...] = _LEVELS, mark: str = "") -> Expansion:
    """Expand a schema. Where recursion ends, any value is valid; or, with a `mark`, only a text that consists
    of the mark and the path where what contains itself begins.

    Raise ExpansionError where references cannot be followed, or the schema would grow too large.
    """
    try:
        plain = codec.decode(codec.encode(schema))
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ExpansionError(f"its schema is not JSON: {error}") from None
    for number in levels:
        expander = _Expander(plain, Expansion(number), mark)
        try:
            expander.result.tree = expander.expand(plain, (), (("#", ()),))
        except _TooLargeError:
            if not expander.is_recursive:
                break
            continue
        return expander.result
    raise ExpansionError(
        f"without references its schema has more than {MAX_PARTS} parts, or more than {_MAX_DEPTH} levels"
    )


class _Expander:
    """One pass over a schema that expands recursive definitions to a number of levels."""

    def __init__(self, root: Any, result: Expansion, mark: str) -> None:
        top = root if isinstance(root, dict) else {}
        self.resolver = Resolver(top)
        self.result = result
        self.mark = mark
        self.parts = 0
        self.is_recursive = False
        self.is_old_draft = "draft-0" in str(top.get("$schema"))
        # With these, a merged part may no longer evaluate the same properties.
        self.can_merge = b'"unevaluated' not in codec.encode(root)

    def expand(self, node: Any, path: Path, inside: tuple[tuple[str, Path], ...]) -> Node:
        """`inside` are the references that led here, and where each was."""
        if isinstance(node, bool):
            return {} if node else nothing()
        if not isinstance(node, dict):
            raise ExpansionError(f"{pointer(path) or 'the root'} is not a schema")
        self.parts += 1
        if self.parts > MAX_PARTS or len(path) > _MAX_DEPTH * 2:
            raise _TooLargeError
        reference = node.get("$ref")
        if isinstance(reference, str) and self.is_old_draft:  # other keywords are ignored beside it
            node = {key: value for key, value in node.items() if key in ANNOTATIONS}
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in node:
                place = pointer((*path, keyword))
                raise ExpansionError(f"{place} depends on where it is used; only $ref is followed")
        values = self._modernize(node)
        unknown = [key for key in values if key not in _KNOWN]
        if extra := sorted(key for key in unknown if key[0:1] != "$" and key not in ("definitions", "id")):
            self.result.notes.append((path, f"{', '.join(extra)}: not a keyword of JSON Schema, left out"))
        known = {key: value for key, value in values.items() if key in _KNOWN}
        found = map_subschemas(known, path, lambda inner, here: self.expand(inner, here, inside))
        if isinstance(reference, str):
            target = self._follow(reference, path, inside)
            found = {**found, "allOf": [*found.get("allOf", ()), target]}
        return self._merge(found, path) if "allOf" in found else found

    def _merge(self, node: Node, path: Path) -> Node:
        """Merge `allOf` into the schema, where that gives one plain schema."""
        parts = node["allOf"]
        if len(parts) == 1 and not node.keys() - ANNOTATIONS - {"allOf"}:
            return {**parts[0], **{key: value for key, value in node.items() if key != "allOf"}}
        has_mark = self.mark and self.mark.encode() in codec.encode(node)
        merged = flatten(node) if self.can_merge and not has_mark else None
        if merged is None or "anyOf" in merged or merged.get("not", {}) != {}:
            return node
        self.result.notes.append(((*path, "allOf"), "merged into the schema around it"))
        return merged

    def _follow(self, reference: str, path: Path, inside: tuple[tuple[str, Path], ...]) -> Node:
        if reference.startswith("#") and not reference.startswith("#/") and reference != "#":
            raise ExpansionError(
                f"{pointer(path)} refers to the anchor {reference[:80]!r}; only pointers are followed"
            )
        starts = [start for followed, start in inside if followed == reference]
        self.is_recursive |= bool(starts)
        if len(starts) >= self.result.levels:
            name = reference.rpartition("/")[2].lstrip("#") or "the schema"
            self.result.cuts.append((path, name))
            return {"enum": [f"{self.mark}{starts[-1]}"]} if self.mark else {}
        try:
            target = self.resolver.resolve(reference)
        except InvalidSchemaError as error:
            raise ExpansionError(f"{pointer(path) or 'the root'}: {error}") from None
        return self.expand(target, path, (*inside, (reference, path)))

    def _modernize(self, node: Node) -> Node:
        """Return a schema of an older draft in the vocabulary of 2020-12, with `enum` instead of `const`."""
        node = {key: value for key, value in node.items() if key not in _OPEN_LIMITS or value}
        if isinstance(node.get("items"), list):
            node["prefixItems"] = node.pop("items")
            if "additionalItems" in node:
                node["items"] = node.pop("additionalItems")
        node.pop("additionalItems", None)
        if self.is_old_draft and isinstance(node.get("dependencies"), dict):
            for name, value in node.pop("dependencies").items():
                keyword = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
                node.setdefault(keyword, {})[name] = value
        for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and limit in node:
                node[exclusive] = node.pop(limit)
        if "const" not in node:
            return node
        fixed = {"enum": [node.pop("const")]}
        return {**node, "allOf": [*node.get("allOf", ()), fixed]} if "enum" in node else {**node, **fixed}


# --- values ----------------------------------------------------------------------------------------------

_TEXTS = ("a", "", "two words", "line\nbreak", "'\"\\", "0", "ümläut 漢字 🙂", "<b>&amp;</b>", "x" * 60)
_NUMBERS = (0, 1, -1, 2, 7, 100, -1000, 2**31, 2**53 - 1)
_FRACTIONS = (0.5, -0.25, 1e-9, 1e12, 3.14159)
_OPTIONAL_DEPTH, _MAX_VALUE_DEPTH = 3, 12
_FORMATS: Mapping[str, Sequence[str]] = {
    "date": ("2026-11-16", "2000-02-29", "1969-12-31"),
    "date-time": ("2026-11-16T10:00:00Z", "1999-12-31T23:59:59.5+02:00"),
    "duration": ("P1DT2H30M", "PT0S"),
    "email": ("ada@example.com",),
    "hostname": ("example.com",),
    "ipv4": ("192.0.2.1", "127.0.0.1"),
    "ipv6": ("2001:db8::1", "::1"),
    "regex": ("a+",),
    "time": ("10:00:00Z",),
    "uri": ("https://example.com/a?b=c",),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    DATE_TIME_PATTERN: ("2026-11-16T10:00:00Z", "1999-12-31T23:59:59"),
    DURATION_PATTERN: ("P1DT2H30M", "PT0S"),
    TIME_PATTERN: ("10:00:00", "23:59:59.5"),
    "base64": ("", "aGVsbG8=", "AAEC/w=="),
}
_WRONG: Sequence[Any] = (True, -1, 0.5, 10**12, "no", "", [], ["no"], {}, {"unexpected": 1}, [[]], "x" * 5000)


class ValueGenerator:
    """Draws values that are likely to fit an expanded schema, often at its limits, and spoils them.

    A validator has to decide which of them are valid.
    """

    def __init__(self, random: Random, tree: dict[str, Any]) -> None:
        self._random = random
        self._tree = tree

    def arguments(self, size: int, values: Mapping[str, Sequence[Any] | None]) -> Any:
        """Return arguments. With size 0 they are only those that are required, with 1 all."""
        drawn = self.value(self._tree, 0, (0.0, 1.0)[size] if size < 2 else 0.5)
        for name in drawn if isinstance(drawn, dict) else ():
            if options := values.get(name):
                drawn[name] = self._random.choice(options)
        return drawn

    def value(self, schema: Any, depth: int, share: float = 0.5) -> Any:
        """Return a value. `share` is the share of optional properties that are included."""
        pick = self._random
        if not isinstance(schema, dict) or depth > _MAX_VALUE_DEPTH:
            return None
        for keyword in ("anyOf", "oneOf"):
            if options := schema.get(keyword):
                rest = {key: item for key, item in schema.items() if key != keyword}
                schema = {**rest, **pick.choice(options)}
        for part in schema.get("allOf", ()):
            schema = {**part, **schema}
        if "enum" in schema:
            return pick.choice(schema["enum"])
        known = [*schema.get("examples", ()), *([schema["default"]] if "default" in schema else ())]
        if known and pick.random() < 0.2:
            return pick.choice(known)
        match pick.choice(types_of(schema) or (TYPES if depth < _OPTIONAL_DEPTH else TYPES[:4])):
            case "null":
                return None
            case "boolean":
                return pick.random() < 0.5
            case "string":
                return self._string(schema)
            case "array":
                return self._array(schema, depth)
            case "object":
                return self._object(schema, depth, share)
            case kind:
                return self._number(schema, kind == "integer")

    def _number(self, schema: Mapping[str, Any], is_whole: bool) -> float:
        step = schema.get("multipleOf", 1 if is_whole else 0)
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        ends = [end + shift for end in (low, high) if end is not None for shift in (0, step, -step)]
        start = low if low is not None else -1000 if high is None else high - 1000
        between = self._random.uniform(start, start + 1000 if high is None else high)
        drawn = self._random.choice([*_NUMBERS, *([] if is_whole else _FRACTIONS), *ends * 3, *[between] * 9])
        if step:
            drawn = round(drawn / step) * step
        return int(drawn) if is_whole else drawn

    def _string(self, schema: Mapping[str, Any]) -> str:
        known = [schema.get(key) for key in ("format", "pattern", "contentEncoding")]
        if texts := next((_FORMATS[key] for key in known if key is not None and key in _FORMATS), None):
            return self._random.choice(texts)
        low = schema.get("minLength", 0)
        if "pattern" in schema:
            return self._fitting(_parser.parse(schema["pattern"]), low)
        text = self._random.choice(_TEXTS)
        text = text if len(text) >= low else (text or "a") * low
        return text[: self._random.randint(low, max(low, schema.get("maxLength", low + 100)))]

    def _fitting(self, pattern: Any, low: int = 0) -> str:
        """Return a text that is likely to match a parsed pattern."""
        pick, text = self._random, ""
        for kind, value in pattern:
            match kind.name:
                case "LITERAL":
                    text += chr(value)
                case "NOT_LITERAL" | "ANY":
                    text += "y" if value == ord("x") else "x"
                case "IN":
                    letters = [chr(code) for code in range(32, 127) if _is_in(chr(code), value)]
                    text += pick.choice(letters or ["x"])
                case "BRANCH":
                    text += self._fitting(pick.choice(value[1]))
                case "SUBPATTERN":
                    text += self._fitting(value[-1])
                case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                    least, most, inner = value
                    times = pick.randint(least, min(most, max(least + 3, low)))
                    text += "".join(self._fitting(inner) for _ in range(times))
        return text

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        first, least = schema.get("prefixItems", []), schema.get("minItems", 0)
        most = max(least, min(schema.get("maxItems", least + 3), least + 3, 0 if depth > 6 else 99))
        rest = schema.get("items", {})
        number = 0 if rest is False else max(0, self._random.randint(least, most) - len(first))
        return [self.value(item, depth + 1) for item in [*first, *[rest] * number]]

    def _object(self, schema: Mapping[str, Any], depth: int, share: float) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        share = share if depth < _OPTIONAL_DEPTH else 0.0
        names = [name for name in properties if name in required or self._random.random() < share]
        names += [name for name in required if name not in properties]
        others = schema.get("additionalProperties")
        other = others if isinstance(others, dict) else {}
        drawn = {name: self.value(properties.get(name, other), depth + 1) for name in names}
        least = schema.get("minProperties", 0)
        if (least > len(drawn) or other) and depth < _OPTIONAL_DEPTH:
            for _ in range(self._random.randint(least, least + 3)):
                key = self._string(schema.get("propertyNames", {})) or "key"
                drawn.setdefault(key, self.value(other, depth + 1))
        return drawn

    def spoil(self, value: Any, ignores_names: bool = False, depth: int = 0) -> Any:
        """Return a copy with one thing changed, which is likely to be invalid."""
        pick = self._random
        if not isinstance(value, dict | list) or (depth and pick.random() < 0.4):
            return pick.choice(_WRONG)
        copy: Any = value.copy()
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        action = pick.random()
        if isinstance(value, dict) and (action < 0.2 or not keys):
            return copy if ignores_names and not depth else {**value, "unexpected": 1}
        if not keys:
            return ["no"]
        key = pick.choice(keys)
        if action < 0.4:
            del copy[key]
        else:
            copy[key] = self.spoil(value[key], depth=depth + 1)
        return copy


def _is_in(letter: str, items: Any) -> bool:
    """Return whether a class of a parsed pattern has a letter."""
    is_negated = has_it = False
    for kind, value in items:
        match kind.name:
            case "NEGATE":
                is_negated = True
            case "LITERAL":
                has_it |= ord(letter) == value
            case "RANGE":
                has_it |= value[0] <= ord(letter) <= value[1]
            case "CATEGORY":
                name = value.name.removeprefix("CATEGORY_").removeprefix("NOT_")
                test = {"DIGIT": str.isdigit, "SPACE": str.isspace}.get(
                    name, lambda x: x == "_" or x.isalnum()
                )
                has_it |= test(letter) is not ("NOT_" in value.name)
    return has_it is not is_negated
