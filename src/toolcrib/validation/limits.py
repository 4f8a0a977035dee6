"""Limits on schemas: their size, their patterns, and the number of checks that a value needs.

A schema may come from an untrusted server. `check_limits` refuses one that is too large or refers outside
itself; `limit_patterns` keeps expensive patterns away from long strings; `read_bounds` refuses one whose
combinations and references multiply, or lead back to themselves without end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation.schema_tree import (
    DATA_KEYWORDS,
    NAMED_SCHEMAS,
    OBJECT,
    REFERENCES,
    Resolver,
    Schema,
    children,
)

MAX_DEPTH = 32
MAX_SUBSCHEMAS = 1_000
MAX_LIST_LENGTH = 10_000
"""Values in one list, for example an `enum`."""
MAX_VALUES = 30_000
"""Values in the whole schema."""
MAX_PATTERN_LENGTH = 256


# --- size --------------------------------------------------------------------------------------------


def check_limits(schema: Schema) -> None:
    """Raise InvalidSchemaError unless the schema is small and refers only to itself."""
    subschemas = values = 0
    id_keyword = "id" if "draft-04" in str(schema.get("$schema")) else "$id"
    for node, depth, keyword in walk_containers(schema):
        values += len(node)
        if values > MAX_VALUES:
            raise InvalidSchemaError(f"Schema has more than {MAX_VALUES} values", hint="split the tool")
        if depth > MAX_DEPTH * 2:  # a subschema is two levels below its parent: keyword, then name
            raise InvalidSchemaError(f"Schema is nested deeper than {MAX_DEPTH} levels", hint="use $defs")
        if isinstance(node, list | tuple):
            if len(node) > MAX_LIST_LENGTH:
                raise InvalidSchemaError(f"Schema has a list of more than {MAX_LIST_LENGTH} values")
            continue
        for key in node:
            if not isinstance(key, str):
                raise InvalidSchemaError(f"Schema has a key that is not a string: {key!r}")
        if keyword in DATA_KEYWORDS or keyword in NAMED_SCHEMAS:
            continue
        subschemas += 1
        if subschemas > MAX_SUBSCHEMAS:
            raise InvalidSchemaError(f"Schema has more than {MAX_SUBSCHEMAS} parts", hint="split the tool")
        _check_keywords(node)
        if depth > 1 and isinstance(node.get(id_keyword), str) and not node[id_keyword].startswith("#"):
            # It would change the meaning of the references below it.
            raise InvalidSchemaError(
                f"Schema has an '{id_keyword}' in a subschema", hint=f"keep {id_keyword} at the top"
            )


def walk_containers(schema: Any) -> Iterator[tuple[Any, int, str | None]]:
    """Yield every object and list in a schema, data included, with its depth and its role.

    The role is the keyword of DATA_KEYWORDS for data, of NAMED_SCHEMAS for a map of schemas, None for a
    schema.
    """
    pending: list[tuple[Any, int, str | None]] = [(schema, 1, None)]
    while pending:
        node, depth, role = pending.pop()
        yield node, depth, role
        items = node.items() if isinstance(node, OBJECT) else ((None, item) for item in node)
        for key, child in items:
            if not isinstance(child, Mapping | list | tuple):
                continue
            if role in DATA_KEYWORDS:
                below = role
            elif role in NAMED_SCHEMAS or (key not in DATA_KEYWORDS and key not in NAMED_SCHEMAS):
                below = None
            else:
                below = key
            pending.append((child, depth + 1, below))


def _check_keywords(node: Schema) -> None:
    by_pattern = node.get("patternProperties")
    for pattern in (node.get("pattern"), *(by_pattern if isinstance(by_pattern, Mapping) else ())):
        if isinstance(pattern, str) and len(pattern) > MAX_PATTERN_LENGTH:
            raise InvalidSchemaError(f"Schema has a pattern longer than {MAX_PATTERN_LENGTH} characters")
    for keyword in REFERENCES:
        target = node.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise InvalidSchemaError(
                f"Schema refers to {target[:100]!r}, outside itself",
                hint="copy the referenced schema into $defs",
            )


# --- patterns ----------------------------------------------------------------------------------------

PATTERN_BUDGET = 250_000
"""States of a pattern times characters of a string that matching may take: about 5 ms."""
_CHEAP_STATES = 10
"""Patterns of so few states become a small automaton, which is fast for strings of any length."""
_PATTERN_TOKEN = re.compile(
    r"""\\[pP]\{[^}]*\} | \\x\{[^}]*\} | \\u\{[^}]*\} | \\.   # an escape
    | \[ \^? \]? (?: \\. | [^\]\\] )* \]                      # a class
    | \{ (?P<low>\d+) (?:, (?P<high>\d*) )? \}                # a counted repetition
    | \( (?: \? (?: P?<\w+> | [a-zA-Z-]*:? ) )?               # the beginning of a group
    | .""",
    re.VERBOSE | re.DOTALL,
)
_STATELESS = frozenset("^$|?*+")


def max_matched_length(pattern: str) -> int | None:
    """Return the longest string that a pattern may be matched against, None for any length."""
    states = count_states(pattern)
    return None if states <= _CHEAP_STATES else PATTERN_BUDGET // states


def count_states(pattern: str) -> int:
    """Count the states that a matcher may be in at once, with counted repetitions written out.

    In a pattern that is anchored to the start, the part before the first repetition is passed only once and
    does not count, and the first repetition of a single character counts as one state.
    """
    totals = [0]  # one per open group
    last = start = 0  # the states of the last item; the total before the last item outside of groups
    prefix = None if pattern.startswith("^") else 0
    for match in _PATTERN_TOKEN.finditer(pattern):
        part = match.group()
        if part == "|" and len(totals) == 1:
            prefix = 0  # only the first alternative is anchored
        if match["low"] is not None or part in ("*", "+"):
            times = max(1, int(match["high"] or match["low"] or 1))
            if prefix is None:
                prefix = start
                times = 1 if last == 1 and len(totals) == 1 else times
            totals[-1] += last * (times - 1)
            last *= times
        elif part == ")":
            last = totals.pop() if len(totals) > 1 else 0
            totals[-1] += last
        elif part not in _STATELESS:
            start = totals[0] if len(totals) == 1 else start
            if part[0] == "(":
                totals.append(0)
            else:
                last = 1
                totals[-1] += last
    return sum(totals) - (start if prefix is None else prefix)


def limit_patterns(schema: Any) -> int | None:
    """Change a schema in place so that strings too long for an expensive pattern are refused by their length.

    Return the maximal length of property names that `patternProperties` requires, None for any.
    """
    name_limits: list[int] = []
    has_if = not any(draft in str(schema.get("$schema")) for draft in ("draft-04", "draft-06"))
    for node, _, keyword in list(walk_containers(schema)):  # a list: the new subschemas are not visited
        if keyword == "patternProperties":
            name_limits += [limit for limit in map(max_matched_length, node) if limit is not None]
        elif keyword is None and isinstance(node, dict) and isinstance(node.get("pattern"), str):
            limit = max_matched_length(node["pattern"])
            if limit is not None:
                if not has_if:
                    raise InvalidSchemaError("Schema has a costly pattern", hint="use a later draft")
                short = {"maxLength": limit}
                guard = {"if": short, "then": {"pattern": node.pop("pattern")}, "else": short}
                node["allOf"] = [*node.get("allOf", ()), guard]
    return min(name_limits, default=None)


# --- checks ------------------------------------------------------------------------------------------

MAX_CHECKS = 1_000_000
"""Values times the checks that each may need: about 50 ms."""
MAX_CHECKS_PER_VALUE = 1_000
"""The engine goes twice around a loop of references before it remembers: a million checks for one value."""
MAX_NESTING = 256
"""How deep data may nest below a recursive schema: the engine's stack is limited."""
_MAX_CHAIN = 200
_CHEAP_CHECKS = 5
_MAX_REPORTED_CHECKS = 3_000
"""Above this the engine is not asked for all errors: reporting takes a hundred times as long as checking."""
_MAX_REPORTED_DEPTH = 8
_UNEVALUATED_REPEATS = 3
"""How often the engine looks at the branches beside an `unevaluated...` keyword."""
_BRANCHING = (
    *(b'"allOf"', b'"anyOf"', b'"oneOf"', b'"not"', b'"if"', b'Ref"', b'"$ref"', b'"dependen', b'"patternP'),
    *(b'"propertyN', b'"contains"', b'"unevaluated', b'"enum"', b'"const"', b'"multipleOf"'),
)
"""A schema without any of these checks every value once."""
_IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
_FOR_ONE_PART = frozenset({"properties", "additionalProperties", "prefixItems", "items", "additionalItems"})
"""Keywords of which one applies to each property or item."""
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_FOR_EVERY_PART = _UNEVALUATED | {"patternProperties", "propertyNames", "contains"}
_CONTAINERS = frozenset({dict, list, tuple})


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many subschemas may look at one value, and whether the schema refers to itself."""

    checks: int = 1
    is_recursive: bool = False
    max_name_length: int | None = None

    @property
    def are_low(self) -> bool:
        """Whether data of any size that a request can carry is cheap to check."""
        return not self.is_recursive and self.max_name_length is None and self.checks <= _CHEAP_CHECKS

    def find_excess(self, value: Any) -> str | None:
        """Return why a value would take too long to check, or None."""
        count = 0
        for depth, level in enumerate(_levels(value)):
            count += len(level)
            if self.is_recursive and depth > MAX_NESTING:
                return f"nested deeper than {MAX_NESTING} levels"
            if count * self.checks > MAX_CHECKS:
                return "too large to check against this schema"
            if self.max_name_length is not None and _max_name_length(level) > self.max_name_length:
                return f"a property name is longer than {self.max_name_length} characters"
        return None

    def allow_report(self, value: Any) -> bool:
        """Whether the engine may be asked for everything that is wrong with a value."""
        count = 0
        for depth, level in enumerate(_levels(value)):
            count += len(level)
            if count * self.checks > _MAX_REPORTED_CHECKS:
                return False
            if self.is_recursive and (
                depth > _MAX_REPORTED_DEPTH or self.checks**depth > _MAX_REPORTED_CHECKS
            ):
                return False
        return True


def has_more_values(value: Any, limit: int) -> bool:
    """Whether a value has more members and items in all than this. Objects and arrays count twice."""
    total, level = -1, [value] if type(value) in _CONTAINERS else []
    while level:
        total += len(level) + sum(map(len, level))
        if total > limit:
            return True
        arrays = [item for item in level if type(item) is not dict]
        members = map(dict.values, [item for item in level if type(item) is dict])
        inner = chain(chain.from_iterable(arrays), chain.from_iterable(members))
        level = [item for item in inner if type(item) in _CONTAINERS]
    return False


def _levels(value: Any) -> Iterator[list[Any]]:
    """Yield the values at each level of nesting."""
    level = [value]
    while level:
        yield level
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list | tuple):
                below += item
        level = below


def _max_name_length(level: list[Any]) -> int:
    names = (name for item in level if isinstance(item, dict) for name in item if isinstance(name, str))
    return max(map(len, names), default=0)


def read_bounds(schema: Schema, text: bytes, max_name_length: int | None = None) -> Bounds:
    """Return the bounds of a schema; `text` is the schema as JSON.

    Raise InvalidSchemaError where it expands to too many checks or refers to itself without end.
    """
    if not any(word in text for word in _BRANCHING):
        return Bounds()
    counter = _Counter(schema)
    if counter.total > MAX_CHECKS_PER_VALUE:
        raise InvalidSchemaError("Schema expands to too many checks", hint="flatten allOf, anyOf, oneOf")
    # Of loops within each other, the engine remembers each only for itself.
    checks = counter.total * max(1, len(counter.loops)) ** 2
    return Bounds(checks, bool(counter.loops), max_name_length)


class _Counter:
    """Counts along references how many subschemas, and structures in `enum`, look at one value.

    A reference back to a definition that is being counted counts as one; `loops` has the ids of such
    definitions.
    """

    def __init__(self, root: Schema) -> None:
        self._resolver = Resolver(root)
        self._counted: dict[int, int] = {}
        self._open: dict[int, int] = {}
        """The level of the data at which a subschema was entered."""
        self.loops: set[int] = set()
        self.total = self._count(root, 0, 0)

    def _count(self, schema: Any, level: int, chain: int) -> int:
        if not isinstance(schema, dict):
            return 1
        key = id(schema)
        if key in self._counted:
            return self._counted[key]
        if key in self._open:
            if self._open[key] == level:
                raise InvalidSchemaError("Schema refers to itself without end", hint="break the $ref loop")
            self.loops.add(key)
            return 1
        if chain > _MAX_CHAIN:
            raise InvalidSchemaError(f"Schema is deeper than {_MAX_CHAIN} levels, references included")
        self._open[key] = level
        beside = one_part = 0
        by_pattern = schema.get("patternProperties")
        every_part = len(by_pattern) if isinstance(by_pattern, dict) else 0
        for path, child in children(schema):
            if path[0] in _IN_PLACE:
                beside += self._count(child, level, chain + 1)
            elif path[0] in _FOR_ONE_PART:
                one_part = max(one_part, self._count(child, level + 1, chain + 1))
            elif path[0] in _FOR_EVERY_PART:
                every_part += self._count(child, level + 1, chain + 1)
        for keyword in REFERENCES:
            if isinstance(schema.get(keyword), str):
                beside += self._count(self._resolver.resolve(schema[keyword]), level, chain + 1)
        repeats = _UNEVALUATED_REPEATS if not schema.keys().isdisjoint(_UNEVALUATED) else 1
        del self._open[key]
        self._counted[key] = max(_count_structures(schema), one_part + every_part) + repeats * beside
        return self._counted[key]


def _count_structures(schema: Schema) -> int:
    """Return how many objects and arrays of an `enum` a value is compared with, one by one; at least 1."""
    options = schema.get("enum")
    return max(1, sum(isinstance(item, dict | list) for item in options)) if isinstance(options, list) else 1
