"""What a schema may cost: structural bounds that make every later check cheap.

A schema is data from strangers. Before it is compiled it is walked once, without recursion into
references, and refused where it is too deep, too large, points outside itself, or would make validation
explode. Knows JSON Schema's keywords; refuses to know tools and engines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from toolcrib.errors import InvalidSchemaError

MAX_DEPTH = 32
MAX_SUBSCHEMAS = 1_000
MAX_PATTERN = 256
MAX_REFERENCES = 100
"""How many references may be followed in a row."""
MAX_EXPANDED = 10_000
"""How many subschemas may look at one place of the data once references are followed."""
VALIDATION_BUDGET = 100_000
"""How many visits a branching, recursive schema may ask for; bounds how deep its data may nest."""

_LISTS_HERE = ("allOf", "anyOf", "oneOf")
_ONE_HERE = ("not", "if", "then", "else")
_MAPS_BELOW = ("properties", "patternProperties")
_ONE_BELOW = ("additionalProperties", "items", "contains", "unevaluatedProperties", "unevaluatedItems")
_ASIDE = ("propertyNames", "contentSchema")
_DEFINITIONS = ("$defs", "definitions")

Schema = Mapping[str, Any]


def check_bounds(schema: Schema) -> None:
    """Raise InvalidSchemaError unless the schema is small, closed and cheap to check against."""
    _check_size(schema)
    count_visits(schema)


def _check_size(schema: Schema) -> None:
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    subschemas = 0
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, Mapping):
            subschemas += 1
            if subschemas > MAX_SUBSCHEMAS:
                raise InvalidSchemaError(
                    f"Schema has more than {MAX_SUBSCHEMAS} parts", hint="split the tool"
                )
            if depth > MAX_DEPTH * 2:  # a subschema sits two levels below its parent: keyword, then name
                raise InvalidSchemaError(f"Schema is nested deeper than {MAX_DEPTH} levels", hint="use $defs")
            _check_keywords(node)
            waiting.extend((item, depth + 1) for item in node.values() if isinstance(item, Mapping | list))
        elif isinstance(node, list):
            if len(node) > MAX_SUBSCHEMAS * 10:
                raise InvalidSchemaError(f"Schema lists more than {MAX_SUBSCHEMAS * 10} values in one place")
            waiting.extend((item, depth + 1) for item in node if isinstance(item, Mapping | list))


def _check_keywords(node: Schema) -> None:
    for key in node:
        if not isinstance(key, str):
            raise InvalidSchemaError(f"Schema has a key that is not a string: {key!r}")
    pattern = node.get("pattern")
    patterns = [pattern] if isinstance(pattern, str) else []
    below = node.get("patternProperties")
    if isinstance(below, Mapping):
        patterns.extend(key for key in below if isinstance(key, str))
    for text in patterns:
        if len(text) > MAX_PATTERN:
            raise InvalidSchemaError(f"Schema has a pattern longer than {MAX_PATTERN} characters")
    for keyword in ("$ref", "$dynamicRef"):
        target = node.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise InvalidSchemaError(
                f"Schema refers to {target!r}, outside itself", hint="copy what it refers to into $defs"
            )


class _Visits:
    """Counts, per place in the data, how many subschemas look at it; finds explosive recursion."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.anchors = _anchors(root)
        self.cost: dict[int, int] = {}
        self.active: set[int] = set()

    def here(self, node: Any, trail: int = 0) -> int:
        """The number of subschemas that look at the same place as `node` does."""
        if not isinstance(node, Mapping):
            return 1
        key = id(node)
        if key in self.cost:
            return self.cost[key]
        if key in self.active:
            raise InvalidSchemaError("Schema refers to itself without end", hint="break the $ref loop")
        if trail > MAX_REFERENCES:
            raise InvalidSchemaError(f"Schema follows more than {MAX_REFERENCES} references in a row")
        self.active.add(key)
        total = 1 + sum(self.here(child, trail + 1) for child in self.same_place(node))
        self.active.discard(key)
        if total > MAX_EXPANDED:
            raise InvalidSchemaError("Schema expands to too many checks", hint="flatten allOf, anyOf, oneOf")
        self.cost[key] = total
        return total

    def same_place(self, node: Schema) -> Iterator[Any]:
        for keyword in _LISTS_HERE:
            branch = node.get(keyword)
            if isinstance(branch, list):
                yield from branch
        for keyword in _ONE_HERE:
            if keyword in node:
                yield node[keyword]
        dependent = node.get("dependentSchemas")
        if isinstance(dependent, Mapping):
            yield from dependent.values()
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(node.get(keyword), str):
                yield self.resolve(node[keyword])

    def below(self, node: Schema) -> Iterator[tuple[str, Any]]:
        """Children that look one level deeper, each with the place it looks at."""
        for keyword in _MAPS_BELOW:
            children = node.get(keyword)
            if isinstance(children, Mapping):
                for name, child in children.items():
                    yield (name if keyword == "properties" else "*"), child
        for keyword in _ONE_BELOW:
            if isinstance(node.get(keyword), Mapping):
                yield "*", node[keyword]
        for item in node.get("prefixItems", ()) if isinstance(node.get("prefixItems"), list) else ():
            yield "*", item
        if isinstance(node.get("items"), list):  # how drafts before 2020-12 spell prefixItems
            yield from (("*", item) for item in node["items"])

    def resolve(self, reference: str) -> Any:
        if reference in ("#", ""):
            return self.root
        if not reference.startswith("#/"):
            if reference[1:] in self.anchors:
                return self.anchors[reference[1:]]
            raise InvalidSchemaError(f"Schema refers to {reference!r}, which is not there")
        node: Any = self.root
        for part in unquote(reference[2:]).split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isdigit() and int(name) < len(node):
                node = node[int(name)]
            else:
                raise InvalidSchemaError(f"Schema refers to {reference!r}, which is not there")
        return node

    def closure(self, node: Any) -> list[Schema]:
        """`node` and everything that looks at the same place because of it."""
        found: list[Schema] = []
        waiting = [node]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Mapping) and len(found) <= MAX_EXPANDED:
                found.append(item)
                waiting.extend(self.same_place(item))
        return found


def _anchors(root: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    found[node[keyword]] = node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found


def count_visits(schema: Schema) -> int:
    """How often checking one level of nested data can multiply: 1 means the cost is linear.

    Two branches that both look below the same property of a recursive schema double the work at every
    level. Such schemas are common and legitimate (a tree of tagged unions), so they are not refused: the
    number bounds how deep their data may nest, see `deepest_data`.
    """
    visits = _Visits(schema)
    worst = 1
    seen: set[int] = set()
    waiting = [schema, *(item for word in _DEFINITIONS for item in _values(schema.get(word)))]
    for node in waiting:
        visits.here(node)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping) or id(node) in seen:
            continue
        seen.add(id(node))
        visits.here(node)
        places: dict[str, int] = {}
        for item in visits.closure(node):
            for place, child in visits.below(item):
                places[place] = places.get(place, 0) + 1
                waiting.append(child)
            waiting.extend(item[word] for word in _ASIDE if word in item)
        if places:
            anywhere = places.pop("*", 0)
            worst = max(worst, anywhere + max(places.values(), default=0))
    return worst if worst > 1 and _is_recursive(visits, schema) else 1


def deepest_data(branching: int) -> int | None:
    """How deep data may nest so that a schema of this branching stays within budget; None: any depth."""
    return None if branching <= 1 else max(4, int(math.log(VALIDATION_BUDGET) / math.log(branching)))


def _is_recursive(visits: _Visits, root: Schema) -> bool:
    """Whether some subschema is reachable from below itself."""
    state: dict[int, int] = {}
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        node, leaving = stack.pop()
        if not isinstance(node, Mapping):
            continue
        if leaving:
            state[id(node)] = 2
            continue
        if state.get(id(node)) == 1:
            return True
        if id(node) in state:
            continue
        state[id(node)] = 1
        stack.append((node, True))
        children = [child for _, child in visits.below(node)] + list(visits.same_place(node))
        for child in children:
            if isinstance(child, Mapping) and state.get(id(child)) == 1:
                return True
            stack.append((child, False))
    return False


def _values(node: Any) -> list[Any]:
    return list(node.values()) if isinstance(node, Mapping) else []
