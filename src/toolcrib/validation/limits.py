"""Limits on schemas: their size, their patterns, and the work of checking data against them.

A schema may come from an untrusted server. `check_limits` refuses one that is too large or refers outside
itself; `limit_patterns` keeps expensive patterns away from long strings; `estimate_cost` bounds the work.

The work is the number of checks: how many subschemas look at each value. Several may look at one value,
through `allOf` and the like, through references, or through branches that describe the same property, and
their number can double with every level of the data. Such schemas are legitimate, so the number is counted
per level and data that would need too many checks is refused, not the schema. A schema is refused where a
single value needs too many checks, or where it refers to itself without end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from typing import Any

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation.schema_tree import (
    DATA_KEYWORDS,
    NAMED_SCHEMAS,
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
        items = node.items() if isinstance(node, Mapping) else ((None, item) for item in node)
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


# --- the cost of checking ----------------------------------------------------------------------------

MAX_CHECKS = 2_000_000
"""Checks for one value with all its parts: about 50 ms at worst."""
MAX_CHECKS_PER_VALUE = 2_000
MAX_LEVELS = 64
MAX_NESTING = 256
"""How deep data may nest below a recursive schema: the engine's stack is limited."""
MAX_CHAIN = 100
"""References and combinations in a row."""
_CHEAP_CHECKS = 5
_UNEVALUATED_REPEATS = 3
"""How often the engine looks at the branches beside an `unevaluated...` keyword."""
_ROUNDS = 3
_MAX_LOOP = 50
"""Definitions in a loop that are tried as its entry."""
_NEED_ESTIMATE = (
    *(b'"allOf"', b'"anyOf"', b'"oneOf"', b'"not"', b'"if"', b'Ref"', b'"$ref"', b'"dependen', b'"patternP'),
    *(b'"propertyN', b'"contains"', b'"unevaluated', b'"enum"', b'"const"', b'"multipleOf"'),
)
"""A schema without any of these checks every value once."""
_IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
_FOR_PROPERTIES = ("properties", "additionalProperties", "unevaluatedProperties")
_FOR_ITEMS = ("prefixItems", "items", "additionalItems", "unevaluatedItems")
_FOR_EVERY = ("patternProperties", "propertyNames", "contains")


@dataclass(frozen=True, slots=True)
class ValidationCost:
    """The checks that a value needs at each level of the data; the last number holds for all deeper levels.

    `checks` is for deciding whether data is valid, `report` for listing everything that is wrong with it.
    They differ for recursive schemas: there the engine remembers what it has checked, but reports it again.
    """

    checks: tuple[int, ...]
    report: tuple[int, ...]
    max_depth: int | None = None
    max_name_length: int | None = None

    @property
    def is_low(self) -> bool:
        """Whether data of any size that a request can carry is cheap to check."""
        is_limited = self.max_depth is not None or self.max_name_length is not None
        return not is_limited and max(self.checks) <= _CHEAP_CHECKS

    def find_excess(self, value: Any) -> str | None:
        """Return why a value would cost too much to check, or None."""
        spent = 0
        for depth, level in enumerate(_levels(value)):
            if self.max_depth is not None and depth > self.max_depth:
                return f"nested deeper than {self.max_depth} levels"
            spent += len(level) * self.checks[min(depth, len(self.checks) - 1)]
            if spent > MAX_CHECKS:
                return f"too expensive to check against this schema ({len(level)} values at level {depth})"
            if self.max_name_length is not None and _max_name_length(level) > self.max_name_length:
                return f"a property name is longer than {self.max_name_length} characters"
        return None

    def exceeds_report(self, value: Any, limit: int) -> bool:
        """Whether listing what is wrong with a value may take more than `limit` checks."""
        spent = 0
        for depth, level in enumerate(_levels(value)):
            spent += len(level) * self.report[min(depth, len(self.report) - 1)]
            if spent > limit:
                return True
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


def estimate_cost(schema: Schema, text: bytes, max_name_length: int | None = None) -> ValidationCost:
    """Return the cost of checking data against a schema; `text` is the schema as JSON.

    Raise InvalidSchemaError where no data could be checked against it.
    """
    if not any(word in text for word in _NEED_ESTIMATE):
        return ValidationCost((1,), (1,))
    graph = _Graph(schema)
    report = checks = tuple(root for root, _ in graph.count_levels(None))
    levels = len(report)
    entry = graph.find_loop_entry() if max(report) > MAX_CHECKS_PER_VALUE else None
    if entry is not None:
        # The engine goes around a loop twice; from then on it checks a value against its entry only once,
        # for each of the values above.
        counted = list(graph.count_levels(entry))
        levels = len(counted)
        again = accumulate(around for _, around in counted)
        checks = tuple(first + more for (first, _), more in zip(counted, again, strict=True))
    max_depth = MAX_NESTING if graph.is_recursive else None
    if levels > MAX_LEVELS:
        max_depth = MAX_LEVELS - 1
    return ValidationCost(checks, report, max_depth, max_name_length)


class _Node:
    """One subschema: what it applies to the same value, `repeats` times each, and to the parts of the value.

    `targets` are those of its references. Each of `parts` lists the subschemas for one property or item, and
    `every` those for all.
    """

    __slots__ = ("cost", "every", "in_place", "parts", "repeats", "targets")

    def __init__(self, cost: int = 1) -> None:
        self.cost = cost
        self.repeats = 1
        self.in_place: list[_Node] = []
        self.targets: list[_Node] = []
        self.parts: list[list[_Node]] = []
        self.every: list[_Node] = []


class _Graph:
    """The subschemas of a schema, and which lead to which."""

    def __init__(self, root: Schema) -> None:
        self._resolver = Resolver(root)
        self._nodes: dict[int, _Node] = {}
        self._pending: list[tuple[Any, _Node]] = []
        self.root = self._node(root)
        while self._pending:
            self._fill(*self._pending.pop())
        self._order: dict[_Node, int] = {}
        """The checks that each subschema needs for one value without its parts, those in place first."""
        for node in self._nodes.values():
            _check_in_place(node, self._order, set(), 0)
        targets = {target for node in self._nodes.values() for target in node.targets}
        self._links = {item: _find_targets(item) for item in {self.root, *targets}} if targets else {}
        self._loop = _find_loop(self._links)

    @property
    def is_recursive(self) -> bool:
        return bool(self._loop)

    def _node(self, schema: Any) -> _Node:
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = _Node()
            self._pending.append((schema, node))
        return node

    def _fill(self, schema: Any, node: _Node) -> None:
        if not isinstance(schema, dict):
            return
        references = [schema[keyword] for keyword in REFERENCES if isinstance(schema.get(keyword), str)]
        node.targets = [self._node(self._resolver.resolve(reference)) for reference in references]
        node.cost = _cost_of_keywords(schema)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            node.repeats = _UNEVALUATED_REPEATS
        inner = [(path, self._node(child)) for path, child in children(schema)]
        node.in_place = [child for path, child in inner if path[0] in _IN_PLACE]
        node.every = [child for path, child in inner if path[0] in _FOR_EVERY]
        by_pattern = schema.get("patternProperties")
        if isinstance(by_pattern, dict):  # every name is matched
            matching = _Node(len(by_pattern))
            self._nodes[id(by_pattern)] = matching
            node.every.append(matching)
        for keywords in (_FOR_PROPERTIES, _FOR_ITEMS):
            below = [(path, child) for path, child in inner if path[0] in keywords]
            # A path of two steps has a name or an index: its subschema is for one part.
            node.parts += [[child] for path, child in below if len(path) == 2]
            node.parts.append([child for path, child in below if len(path) == 1])

    def find_loop_entry(self) -> _Node | None:
        """Return the definition through which every way into a loop and around it leads, None if there is
        none."""
        for entry in self._loop if len(self._loop) <= _MAX_LOOP else ():
            rest = {node: found - {entry} for node, found in self._links.items() if node is not entry}
            if not _find_loop(rest):  # it is in every loop
                back = {entry}
                while more := {node for node in rest if node not in back and self._links[node] & back}:
                    back |= more
                loop = back & _reachable(entry, self._links)
                entries = {self.root} & loop
                entries.update(*(self._links[node] & loop for node in self._links if node not in loop))
                if entries == {entry}:
                    return entry
        return None

    def count_levels(self, entry: _Node | None) -> Iterator[tuple[int, int]]:
        """Yield the most checks that a value needs at each level: below the root, and below `entry`.

        `entry` is followed twice from the root, and not at all from itself. Stop where nothing is checked,
        where the limit is exceeded, or where the numbers stay the same.
        """
        last: list[dict[_Node, int]] = []
        for _ in range(MAX_LEVELS + 1):
            current: list[dict[_Node, int]] = []
            for number in range(_ROUNDS if entry else 1):
                counts: dict[_Node, int] = {}
                current.append(counts)
                for node in self._order:
                    own = _count_parts(node, last[number]) if last else node.cost
                    if node.in_place or node.targets:
                        applied = sum([counts[other] for other in node.in_place])
                        for other in node.targets:
                            if other is not entry:
                                applied += counts[other]
                            elif number:
                                applied += current[number - 1][other]
                        own += node.repeats * applied
                    counts[node] = own
            yield current[-1][self.root], current[0][entry or self.root]
            if current == last or not 0 < current[-1][self.root] <= MAX_CHECKS:
                return
            last = current


def _count_parts(node: _Node, counts: dict[_Node, int]) -> int:
    """Return the most checks that one part of a value needs."""
    total = sum([counts[child] for child in node.every])
    return total + max([sum([counts[child] for child in part]) for part in node.parts], default=0)


def _check_in_place(node: _Node, checked: dict[_Node, int], inside: set[_Node], chain: int) -> int:
    """Count the checks that a subschema needs for one value, without its parts. Raise if there are too
    many."""
    if node in checked:
        return checked[node]
    if node in inside:
        raise InvalidSchemaError("Schema refers to itself without end", hint="break the $ref loop")
    if chain > MAX_CHAIN:
        raise InvalidSchemaError(f"Schema follows more than {MAX_CHAIN} references in a row")
    inside.add(node)
    applied = [_check_in_place(other, checked, inside, chain + 1) for other in node.in_place + node.targets]
    if sum(applied) * node.repeats > MAX_CHECKS_PER_VALUE:
        raise InvalidSchemaError("Schema expands to too many checks", hint="flatten allOf, anyOf, oneOf")
    checked[node] = total = node.cost + node.repeats * sum(applied)
    return total


def _cost_of_keywords(schema: Mapping[str, Any]) -> int:
    """Return what one check costs, in checks of a type.

    Numbers and structures are copied before they are compared, strings are found in a set, and division by a
    fraction is slow.
    """
    cost = 1
    options = schema.get("enum")
    if isinstance(options, list) and not all(isinstance(option, str) for option in options):
        cost += 10 + sum(20 if isinstance(option, dict | list) else 1 for option in options)
    if isinstance(schema.get("const"), int | float | dict | list):
        cost += 10
    if isinstance(schema.get("multipleOf"), float):
        cost += 60
    return cost


def _find_targets(definition: _Node) -> set[_Node]:
    """Find the definitions that the body of a definition refers to."""
    found: set[_Node] = set()
    pending, seen = [definition], {definition}
    while pending:
        node = pending.pop()
        found.update(node.targets)
        below = {*node.in_place, *node.every, *(child for part in node.parts for child in part)} - seen
        seen |= below
        pending += below
    return found


def _find_loop(links: Mapping[_Node, set[_Node]]) -> list[_Node]:
    """Return the definitions of one loop, none where there is no loop."""
    try:
        TopologicalSorter(links).prepare()
    except CycleError as error:
        found: list[_Node] = error.args[1][1:]
        return found
    return []


def _reachable(start: _Node, links: Mapping[_Node, set[_Node]]) -> set[_Node]:
    found, pending = {start}, [start]
    while pending:
        more = links[pending.pop()] - found
        found |= more
        pending += more
    return found
