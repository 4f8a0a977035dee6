"""What checking against a schema costs, found before anything is checked.

Several subschemas may look at one place of the data: through allOf and its kin, through references, through
branches that all look below the same property. The number of such visits is what validation costs, and it
can double with every level of the data. Here it is counted for each level, so that data that would cost too
much is refused instead of checked. Such schemas are legitimate (a tree of tagged unions), so the schema
itself is refused only where a single place is looked at too often, or without end. Knows JSON Schema's
keywords; refuses to know engines and tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from toolcrib.bounds import DATA, NAMED_SCHEMAS, REFERENCES, Schema, walk_schema
from toolcrib.errors import InvalidSchemaError

BUDGET = 4_000_000
"""How many visits checking one value may take: about 50 ms."""
LIGHT = 16
"""Schemas of so few visits per value need no counting: what a caller can send is bounded."""
MAX_VISITS = 2_000
"""How many subschemas may look at one place."""
MAX_LEVELS = 64
MAX_NESTING = 256
"""How deep data may nest below a schema that refers to itself: the engine's stack has an end."""
MAX_CHAIN = 100
"""How many references and combinations may be followed in a row."""
MAX_STEPS = 100_000
"""What finding all this out may cost, about 50 ms; schemas of people take a few hundred steps."""

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas", "dependencies")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_AGAIN = 3
"""How often the engine looks at branches beside an `unevaluated...` keyword."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Visits per value at each level of the data; the last figure holds for all deeper levels."""

    visits: tuple[int, ...]
    deepest: int | None = None
    longest_name: int | None = None

    @property
    def is_light(self) -> bool:
        return self.deepest is None and self.longest_name is None and self.visits[-1] <= LIGHT

    def refuse(self, value: Any) -> str | None:
        """Why checking this value would cost too much, or None."""
        for depth, (spent, level) in enumerate(self._levels(value)):
            if self.deepest is not None and depth > self.deepest:
                return f"nested deeper than {self.deepest} levels"
            if spent > BUDGET:
                return f"too much for this schema to check ({len(level)} values {depth} levels deep)"
            if self.longest_name is not None and self._has_long_name(level):
                return f"a name is longer than {self.longest_name} characters"
        return None

    def is_above(self, limit: int, value: Any) -> bool:
        """Whether checking this value may take more than so many visits."""
        return any(spent > limit for spent, _ in self._levels(value))

    def _levels(self, value: Any) -> Iterator[tuple[int, list[Any]]]:
        """The levels of a value, each with what checking costs down to there."""
        spent = depth = 0
        level = [value]
        while level:
            spent += len(level) * self.visits[min(depth, len(self.visits) - 1)]
            yield spent, level
            below: list[Any] = []
            for item in level:
                if isinstance(item, dict):
                    below += item.values()
                elif isinstance(item, list | tuple):
                    below += item
            level = below
            depth += 1

    def _has_long_name(self, level: list[Any]) -> bool:
        limit = self.longest_name or 0
        names = (name for item in level if isinstance(item, dict) for name in item if isinstance(name, str))
        return any(len(name) > limit for name in names)


def measure(schema: Schema, longest_name: int | None = None) -> Effort:
    """The effort a schema asks for. Raises InvalidSchemaError where no data could be checked against it."""
    return _Graph(schema).measure(longest_name)


class _Node:
    """One subschema: who looks at the same place, and who looks below, at which place.

    Objects and arrays have places of their own. Of each, `named` look at one name or index, `others` at those
    that none of `named` here looks at, `always` at all.
    """

    __slots__ = ("arrays", "beside", "factor", "here", "is_open", "objects", "spread", "weight")

    def __init__(self) -> None:
        self.beside: list[_Node] = []
        self.factor = 1
        self.weight = 1
        self.objects = _Below()
        self.arrays = _Below()
        self.here = 0
        self.is_open = False
        self.spread: dict[_Node, int] | None = None


class _Below:
    """Who looks one level deeper; besides, `patterns` and `names` look at the name of each value there."""

    __slots__ = ("always", "named", "names", "others", "patterns")

    def __init__(self) -> None:
        self.named: dict[str | int, _Node] = {}
        self.others: list[_Node] = []
        self.always: list[_Node] = []
        self.names: list[_Node] = []
        self.patterns = 0

    def children(self) -> Iterable[_Node]:
        return (*self.named.values(), *self.others, *self.always)


class _Table:
    """The places below one node and all that look at the same place as it does, as sums of visits."""

    __slots__ = ("common", "named", "toll")

    def __init__(self) -> None:
        self.common: dict[_Node, int] = {}
        self.named: dict[str | int, dict[_Node, int]] = {}
        self.toll = 0

    def add(self, below: _Below, times: int) -> int:
        """Returns how many steps it took."""
        self.toll += (below.patterns + sum(node.here for node in below.names)) * times
        for node in (*below.others, *below.always):
            self.common[node] = self.common.get(node, 0) + times
        for name, node in below.named.items():
            place = self.named.setdefault(name, {})
            place[node] = place.get(node, 0) + times
            for other in below.others:
                place[other] = place.get(other, 0) - times
        return 1 + len(below.named) * (1 + len(below.others)) + len(below.others) + len(below.always)

    def worst(self, visits: dict[_Node, int]) -> int:
        common = self.toll + sum(times * visits[node] for node, times in self.common.items())
        most = max(
            (sum(times * visits[node] for node, times in place.items()) for place in self.named.values()),
            default=0,
        )
        return common + max(0, most)


class _Graph:
    def __init__(self, root: Schema) -> None:
        self.root = root
        self.anchors = _find_anchors(root)
        self.nodes: dict[int, _Node] = {}
        self.waiting: list[tuple[Any, _Node]] = []
        self.steps = 0
        self.top = self.node(root)
        while self.waiting:
            self.fill(*self.waiting.pop())

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise InvalidSchemaError("Schema is too intertwined", hint="use fewer references and branches")

    # --- building ---

    def node(self, schema: Any) -> _Node:
        known = self.nodes.get(id(schema))
        if known is None:
            known = self.nodes[id(schema)] = _Node()
            self.waiting.append((schema, known))
        return known

    def fill(self, schema: Any, node: _Node) -> None:
        if not isinstance(schema, Mapping):
            return
        node.beside = [self.node(child) for child in self.same_place(schema)]
        node.weight = 1 + _weigh_values(schema.get("enum"))
        if any(word in schema for word in _UNEVALUATED):
            node.factor = _AGAIN
        self.fill_objects(schema, node.objects)
        self.fill_arrays(schema, node.arrays)

    def same_place(self, schema: Schema) -> Iterable[Any]:
        for word in _LISTS:
            yield from _listed(schema.get(word))
        for word in _SINGLES:
            if word in schema:
                yield schema[word]
        for word in _MAPS:
            yield from _mapped(schema.get(word)).values()
        for word in REFERENCES:
            if isinstance(schema.get(word), str):
                yield self.resolve(schema[word])

    def fill_objects(self, schema: Schema, below: _Below) -> None:
        below.named = {name: self.node(child) for name, child in _mapped(schema.get("properties")).items()}
        patterns = _mapped(schema.get("patternProperties"))
        below.always = [self.node(child) for child in patterns.values()]
        below.others = self.found(schema, "additionalProperties", "unevaluatedProperties")
        below.names = self.found(schema, "propertyNames")
        below.patterns = len(patterns)

    def fill_arrays(self, schema: Schema, below: _Below) -> None:
        items = schema.get("items")
        first = _listed(items) or _listed(schema.get("prefixItems"))  # a list: before 2020-12
        below.named = {index: self.node(child) for index, child in enumerate(first)}
        below.always = self.found(schema, "contains")
        below.others = self.found(schema, "additionalItems", "unevaluatedItems")
        if isinstance(items, Mapping):
            below.others.append(self.node(items))

    def found(self, schema: Schema, *words: str) -> list[_Node]:
        return [self.node(schema[word]) for word in words if isinstance(schema.get(word), Mapping)]

    def resolve(self, reference: str) -> Any:
        """What a reference means: the root, an anchor, or what a pointer points at."""
        target = unquote(reference[1:])
        if not target.startswith("/"):
            if target and target not in self.anchors:
                raise InvalidSchemaError(f"Schema refers to {reference[:100]!r}, which is not there")
            return self.anchors[target] if target else self.root
        node: Any = self.root
        is_keyword = True
        for part in target[1:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and name in node:
                if is_keyword and name in DATA:
                    raise InvalidSchemaError(f"Schema refers to {reference[:100]!r}, which is data")
                node = node[name]
                is_keyword = not (is_keyword and name in NAMED_SCHEMAS)
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
                is_keyword = True
            else:
                raise InvalidSchemaError(f"Schema refers to {reference[:100]!r}, which is not there")
        return node

    # --- measuring ---

    def measure(self, longest_name: int | None) -> Effort:
        for node in self.nodes.values():
            self.count_here(node, 0)
        tables = {node: self.tables_of(node) for node in self.entries()}
        visits = {node: node.here for node in tables}
        figures = [self.top.here]
        for _ in range(MAX_LEVELS):
            deeper = {
                node: max(node.here, *(table.worst(visits) for table in tables[node])) for node in tables
            }
            self.spend(len(tables))
            if deeper == visits:
                deepest = MAX_NESTING if self.is_recursive() else None
                return Effort(tuple(figures), deepest, longest_name)
            visits = deeper
            if visits[self.top] > BUDGET:
                break
            figures.append(visits[self.top])
        return Effort(tuple(figures), len(figures) - 1, longest_name)

    def count_here(self, node: _Node, chain: int) -> int:
        """How many subschemas look at the place that `node` looks at, because of it."""
        if node.here:
            return node.here
        if node.is_open:
            raise InvalidSchemaError("Schema refers to itself without end", hint="break the $ref loop")
        if chain > MAX_CHAIN:
            raise InvalidSchemaError(f"Schema follows more than {MAX_CHAIN} references in a row")
        node.is_open = True
        total = node.weight + node.factor * sum(self.count_here(other, chain + 1) for other in node.beside)
        if total > MAX_VISITS and node.beside:
            raise InvalidSchemaError("Schema expands to too many checks", hint="flatten allOf, anyOf, oneOf")
        node.is_open = False
        node.here = total
        return total

    def spread_of(self, node: _Node) -> dict[_Node, int]:
        """The nodes that look at the same place because of `node`, each with how often."""
        if node.spread is None:
            found = {node: 1}
            for other in node.beside:
                part = self.spread_of(other)
                self.spend(len(part))
                for inner, times in part.items():
                    found[inner] = found.get(inner, 0) + times * node.factor
            node.spread = found
        return node.spread

    def entries(self) -> list[_Node]:
        """The root and all that look below something: where a level of the data begins."""
        parts = [part for node in self.nodes.values() for part in (node.objects, node.arrays)]
        return list(dict.fromkeys((self.top, *(child for part in parts for child in part.children()))))

    def tables_of(self, node: _Node) -> tuple[_Table, _Table]:
        objects, arrays = _Table(), _Table()
        for inner, times in self.spread_of(node).items():
            self.spend(objects.add(inner.objects, times) + arrays.add(inner.arrays, times))
        return objects, arrays

    def is_recursive(self) -> bool:
        """Whether some subschema is reachable from below itself."""
        done: set[_Node] = set()
        path: set[_Node] = set()
        stack: list[tuple[_Node, bool]] = [(self.top, False)]
        while stack:
            node, is_leaving = stack.pop()
            if is_leaving:
                path.discard(node)
                done.add(node)
            elif node in path:
                return True
            elif node not in done:
                path.add(node)
                stack.append((node, True))
                children = (*node.beside, *node.objects.children(), *node.arrays.children())
                stack.extend((child, False) for child in children)
        return False


def _find_anchors(root: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node, _, keyword in walk_schema(root):
        if keyword is not None or not isinstance(node, Mapping):
            continue
        for word in ("$anchor", "$dynamicAnchor", "$id", "id"):
            name = node.get(word)
            if not isinstance(name, str) or (word.endswith("id") and not name.startswith("#")):
                continue
            if found.setdefault(name.lstrip("#"), node) is not node:
                raise InvalidSchemaError(f"Schema has the anchor {name[:100]!r} twice")
    return found


def _weigh_values(values: Any) -> int:
    """Comparing with values that are not all text means comparing with each, and structures are slow."""
    if not isinstance(values, list) or all(isinstance(value, str) for value in values):
        return 0
    return sum(10 if isinstance(value, dict | list) else 1 for value in values)


def _listed(node: Any) -> list[Any]:
    return node if isinstance(node, list) else []


def _mapped(node: Any) -> Mapping[str, Any]:
    return node if isinstance(node, Mapping) else {}
