"""What a schema may look like: small, closed, and with patterns that stay cheap whatever they meet.

A schema is data from strangers. Before it is compiled it is walked once, without following references, and
refused where it is too deep, too large or points outside itself. Knows JSON Schema's keywords, those of older
drafts included; refuses to know tools and engines. What checking against a schema costs is in effort.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.errors import InvalidSchemaError

MAX_DEPTH = 32
MAX_SUBSCHEMAS = 1_000
MAX_LISTED = 10_000
"""How many values one list may have: an `enum`, say."""
MAX_VALUES = 30_000
"""How many values a schema may have in all."""
MAX_PATTERN = 256
PATTERN_BUDGET = 250_000
"""Positions of a pattern times characters of a text: what matching may cost. About 5 ms."""
LIGHT_PATTERN = 10
"""Patterns of so few positions become a small automaton; texts of any length are cheap for them."""

LISTED_SCHEMAS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Their value is a list of schemas."""
SINGLE_SCHEMAS = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Their value is a schema."""
NAMED_SCHEMAS = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose value maps names to schemas, so that its keys are no keywords."""
DATA = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose value is data and no schema, whatever it looks like."""
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

Schema = Mapping[str, Any]


def check_bounds(schema: Schema) -> None:
    """Raise InvalidSchemaError unless the schema is small and closed."""
    subschemas = values = 0
    base = "id" if "draft-04" in str(schema.get("$schema")) else "$id"
    for node, depth, keyword in walk_schema(schema):
        values += len(node)
        if values > MAX_VALUES:
            raise InvalidSchemaError(f"Schema has more than {MAX_VALUES} values", hint="split the tool")
        if depth > MAX_DEPTH * 2:  # a subschema sits two levels below its parent: keyword, then name
            raise InvalidSchemaError(f"Schema is nested deeper than {MAX_DEPTH} levels", hint="use $defs")
        if isinstance(node, list | tuple):
            if len(node) > MAX_LISTED:
                raise InvalidSchemaError(f"Schema lists more than {MAX_LISTED} values in one place")
            continue
        _check_keys(node)
        if keyword in DATA or keyword in NAMED_SCHEMAS:
            continue
        subschemas += 1
        if subschemas > MAX_SUBSCHEMAS:
            raise InvalidSchemaError(f"Schema has more than {MAX_SUBSCHEMAS} parts", hint="split the tool")
        _check_keywords(node)
        if depth > 1 and isinstance(node.get(base), str) and not node[base].startswith("#"):
            # It would give the references below it another meaning than the one that is looked at here.
            raise InvalidSchemaError(f"Schema has an '{base}' inside", hint=f"keep {base} at the top")


def walk_schema(schema: Any) -> Iterator[tuple[Any, int, str | None]]:
    """Every mapping and list in a schema, with its depth, and with the keyword that says what it is.

    That is a keyword of DATA for data, of NAMED_SCHEMAS for a map of schemas, and None for a schema.
    """
    waiting: list[tuple[Any, int, str | None]] = [(schema, 1, None)]
    while waiting:
        node, depth, keyword = waiting.pop()
        yield node, depth, keyword
        if isinstance(node, Mapping):
            for key, child in node.items():
                if isinstance(child, Mapping | list | tuple):
                    waiting.append((child, depth + 1, _role(key, keyword)))
        else:
            inner = keyword if keyword in DATA else None
            waiting.extend(
                (item, depth + 1, inner) for item in node if isinstance(item, Mapping | list | tuple)
            )


def _role(key: Any, keyword: str | None) -> str | None:
    if keyword in DATA:
        return keyword
    if keyword in NAMED_SCHEMAS:
        return None
    return key if key in DATA or key in NAMED_SCHEMAS else None


def _check_keys(node: Schema) -> None:
    for key in node:
        if not isinstance(key, str):
            raise InvalidSchemaError(f"Schema has a key that is not a string: {key!r}")


def _check_keywords(node: Schema) -> None:
    below = node.get("patternProperties")
    for pattern in (node.get("pattern"), *(below if isinstance(below, Mapping) else ())):
        if isinstance(pattern, str) and len(pattern) > MAX_PATTERN:
            raise InvalidSchemaError(f"Schema has a pattern longer than {MAX_PATTERN} characters")
    for keyword in REFERENCES:
        target = node.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise InvalidSchemaError(
                f"Schema refers to {target[:100]!r}, outside itself", hint="copy what it refers to into $defs"
            )


# --- patterns ----------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\\[pP]\{[^}]*\} | \\x\{[^}]*\} | \\u\{[^}]*\} | \\.   # an escape
    | \[ \^? \]? (?: \\. | [^\]\\] )* \]                      # a class
    | \{ (?P<low>\d+) (?:, (?P<high>\d*) )? \}                # a counted repetition
    | \( (?: \? (?: P?<\w+> | [a-zA-Z-]*:? ) )?               # the beginning of a group
    | .""",
    re.VERBOSE | re.DOTALL,
)
_NO_POSITION = frozenset("^$|?*+")


def weigh_pattern(pattern: str) -> int:
    """How many positions a matcher may have to keep in mind at once, counted repetitions written out.

    In a pattern bound to the start of the text, what stands before the first repetition is passed once and
    for all, and weighs nothing; and the first repetition of a single character counts without a doubt.
    """
    sums = [0]  # one per open group
    last = start = 0  # what the last item weighs; what stood before the last item outside of groups
    free = None if pattern.startswith("^") else 0
    for found in _TOKEN.finditer(pattern):
        piece = found.group()
        if piece == "|" and len(sums) == 1:
            free = 0  # only the first alternative is bound to the start
        if found["low"] is not None or piece in ("*", "+"):
            times = max(1, int(found["high"] or found["low"] or 1))
            if free is None:
                free = start
                times = 1 if last == 1 and len(sums) == 1 else times
            sums[-1] += last * (times - 1)
            last *= times
        elif piece == ")":
            last = sums.pop() if len(sums) > 1 else 0
            sums[-1] += last
        elif piece not in _NO_POSITION:
            start = sums[0] if len(sums) == 1 else start
            if piece[0] == "(":
                sums.append(0)
            else:
                last = 1
                sums[-1] += last
    return sum(sums) - (start if free is None else free)


def guard_patterns(schema: Any) -> int | None:
    """Let no costly pattern meet a long text: such texts are refused for their length, in place.

    Returns the longest name that the patterns for names can be given, None where those are cheap.
    """
    limits: list[int] = []
    knows_if = not any(draft in str(schema.get("$schema")) for draft in ("draft-04", "draft-06"))
    for node, _, keyword in list(walk_schema(schema)):  # a list: the guards are not to be guarded
        if keyword == "patternProperties":
            limits += [limit for limit in map(_longest_text, node) if limit is not None]
        elif keyword is None and isinstance(node, dict) and isinstance(node.get("pattern"), str):
            limit = _longest_text(node["pattern"])
            if limit is not None:
                if not knows_if:
                    raise InvalidSchemaError("Schema has a costly pattern", hint="use a later draft")
                short = {"maxLength": limit}
                guard = {"if": short, "then": {"pattern": node.pop("pattern")}, "else": short}
                node["allOf"] = [*node.get("allOf", ()), guard]
    return min(limits, default=None)


def _longest_text(pattern: str) -> int | None:
    weight = weigh_pattern(pattern)
    return None if weight <= LIGHT_PATTERN else PATTERN_BUDGET // weight
