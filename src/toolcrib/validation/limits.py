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
from itertools import accumulate, zip_longest
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
_NEED_ESTIMATE = (
    *(b'"allOf"', b'"anyOf"', b'"oneOf"', b'"not"', b'"if"', b'Ref"', b'"$ref"', b'"dependen', b'"patternP'),
    *(b'"propertyN', b'"contains"', b'"unevaluated', b'"enum"', b'"const"', b'"multipleOf"'),
)
"""A schema without any of these checks every value once."""
_IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
_FOR_EACH = (
    ("properties", "additionalProperties", "unevaluatedProperties"),
    ("prefixItems", "items", "additionalItems", "unevaluatedItems"),
)
"""Keywords that apply to one property or item, or to those that no other is for: of objects, of arrays."""
_FOR_EVERY = (("patternProperties", "propertyNames"), ("contains",))


@dataclass(frozen=True, slots=True)
class ValidationCost:
    """The checks that a value needs at each level of the data; the last number holds for deeper ones.

    `checks` is for deciding whether data is valid, `report` for listing everything that is wrong with it.
    They differ for recursive schemas: there the engine remembers the answers, but lists all errors again.
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
    report = count_levels(graph.root)
    checks = graph.count_with_memory(report) if report[-1] > MAX_CHECKS_PER_VALUE else report
    max_depth = MAX_NESTING if report[-1] else None  # it is recursive
    if len(report) > MAX_LEVELS:
        max_depth = MAX_LEVELS - 1
    return ValidationCost(checks, report, max_depth, max_name_length)


class _Parts:
    """The subschemas for the parts of an object or array: those for `every` part, and a list for each."""

    __slots__ = ("each", "every")

    def __init__(self) -> None:
        self.every: list[_Node] = []
        self.each: list[list[_Node]] = []

    def count(self, counts: dict[_Node, int]) -> int:
        """Return the most checks that one part needs."""
        total = sum([counts[child] for child in self.every])
        return total + max([sum([counts[child] for child in part]) for part in self.each], default=0)


class _Node:
    """One subschema: those that it applies to the same value, `repeats` times each, and to its parts.

    `targets` are those of its references, which apply to the same value too.
    """

    __slots__ = ("cost", "in_place", "parts", "repeats", "targets")

    def __init__(self, cost: int = 1, repeats: int = 1) -> None:
        self.cost = cost
        self.repeats = repeats
        self.in_place: list[_Node] = []
        self.targets: list[_Node] = []
        self.parts = (_Parts(), _Parts())
        """Of an object, and of an array."""

    def below(self) -> Iterator[_Node]:
        """Yield the subschemas that stand inside this one."""
        yield from self.in_place
        for parts in self.parts:
            yield from parts.every
            for each in parts.each:
                yield from each


class _Graph:
    """The subschemas of a schema, and which lead to which."""

    def __init__(self, root: Schema) -> None:
        self._resolver = Resolver(root)
        self._nodes: dict[int, _Node] = {}
        self._pending: list[tuple[Any, _Node]] = []
        self.root = self._node(root)
        while self._pending:
            self._fill(*self._pending.pop())
        checked: dict[_Node, int] = {}
        for node in self._nodes.values():
            _check_in_place(node, checked, set(), 0)

    def _node(self, schema: Any) -> _Node:
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = _Node()
            self._pending.append((schema, node))
        return node

    def _fill(self, schema: Any, node: _Node) -> None:
        if not isinstance(schema, dict):
            return
        node.cost = _cost_of_keywords(schema)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            node.repeats = _UNEVALUATED_REPEATS
        inner = [(path, self._node(child)) for path, child in children(schema)]
        references = [schema[keyword] for keyword in REFERENCES if isinstance(schema.get(keyword), str)]
        node.in_place = [child for path, child in inner if path[0] in _IN_PLACE]
        node.targets = [self._node(self._resolver.resolve(reference)) for reference in references]
        for parts, for_each, for_every in zip(node.parts, _FOR_EACH, _FOR_EVERY, strict=True):
            parts.every = [child for path, child in inner if path[0] in for_every]
            below = [(path, child) for path, child in inner if path[0] in for_each]
            # A path of two steps has a name or an index: its subschema is for one part.
            parts.each = [[child] for path, child in below if len(path) == 2]
            parts.each.append([child for path, child in below if len(path) == 1])
        by_pattern = schema.get("patternProperties")
        if isinstance(by_pattern, dict):  # every name is matched
            node.parts[0].every.append(_Node(len(by_pattern)))

    def count_with_memory(self, report: tuple[int, ...]) -> tuple[int, ...]:
        """Return the checks at each level for an engine that remembers its answers, else `report`.

        The engine goes around a loop of references twice; from then on it checks a value against the head
        of the loop only once.
        """
        unrolled = _Unrolled(self._find_loops())
        start = unrolled.enter((self.root, None, 0), self.root)
        heads = [unrolled.copy((head, head, 1)) for head in unrolled.loops]
        unrolled.fill()
        first, *rounds = map(count_levels, (start, *heads))
        if not rounds or first[-1] or any(levels[-1] for levels in rounds):
            return report  # there is a loop without a head
        once = map(sum, zip_longest(*rounds, fillvalue=0))
        again = list(accumulate(once))  # a value may be checked because of each value above it
        return tuple(map(sum, zip_longest(first, again + again[-1:] * len(first), fillvalue=0)))

    def _find_loops(self) -> dict[_Node, set[_Node]]:
        """Return the definitions that lead back to themselves, by the head of each loop.

        The head is the one definition through which every way into the loop leads. Loops with several
        entries are left out.
        """
        definitions = {self.root, *(target for node in self._nodes.values() for target in node.targets)}
        links = {definition: _find_targets(definition) for definition in definitions}
        reached = {definition: set(targets) for definition, targets in links.items()}
        for middle in definitions:
            for found in reached.values():
                if middle in found:
                    found |= reached[middle]
        loops: dict[_Node, set[_Node]] = {}
        pending = [definition for definition in definitions if definition in reached[definition]]
        while pending:
            member = pending.pop()
            loop = {other for other in reached[member] if member in reached[other]}
            pending = [definition for definition in pending if definition not in loop]
            entries = loop & {self.root}
            entries.update(*(links[definition] & loop for definition in definitions - loop))
            if len(entries) == 1:
                loops[entries.pop()] = loop
        return loops


def _find_targets(definition: _Node) -> set[_Node]:
    """Return the definitions that a definition refers to."""
    found: set[_Node] = set()
    pending, seen = [definition], {definition}
    while pending:
        node = pending.pop()
        found.update(node.targets)
        below = set(node.below()) - seen
        seen |= below
        pending += below
    return found


_State = tuple[_Node, _Node | None, int]
"""A subschema, the head of the loop in which it was reached, and how often that head was passed."""


class _Unrolled:
    """Copies of subschemas in which every loop ends after two rounds."""

    def __init__(self, loops: Mapping[_Node, set[_Node]]) -> None:
        self.loops = loops
        self._head_of = {member: head for head, loop in loops.items() for member in loop}
        self._copies: dict[_State, _Node] = {}
        self._pending: list[_State] = []

    def enter(self, state: _State, target: _Node) -> _Node:
        """Return a copy of the target of a reference; one that costs nothing after two rounds."""
        _, head, rounds = state
        own_head = self._head_of.get(target)
        rounds = rounds + (target is own_head) if own_head is not None and own_head is head else 0
        return self.copy((target, own_head, rounds)) if rounds < 2 else _Node(0)

    def copy(self, state: _State) -> _Node:
        """Return a copy of a subschema; `fill` adds the subschemas that it leads to."""
        if state not in self._copies:
            self._copies[state] = _Node(state[0].cost, state[0].repeats)
            self._pending.append(state)
        return self._copies[state]

    def fill(self) -> None:
        while self._pending:
            state = self._pending.pop()
            node, head, rounds = state
            copy = self._copies[state]
            copy.in_place = [self.copy((child, head, rounds)) for child in node.in_place]
            copy.targets = [self.enter(state, target) for target in node.targets]
            for new, old in zip(copy.parts, node.parts, strict=True):
                new.every = [self.copy((child, head, rounds)) for child in old.every]
                new.each = [[self.copy((child, head, rounds)) for child in part] for part in old.each]


def count_levels(root: _Node) -> tuple[int, ...]:
    """Return the most checks that a value needs at each level below a subschema.

    Stop where nothing is checked, where the limit is exceeded, or where the numbers stay the same.
    """
    nodes = _in_order(root)
    found: list[int] = []
    last: dict[_Node, int] = {}
    while len(found) <= MAX_LEVELS and (not found or 0 < found[-1] <= MAX_CHECKS):
        by_kind: list[dict[_Node, int]] = []
        for kind in (0, 1):  # the value is an object, or an array
            counts: dict[_Node, int] = {}
            for node in nodes:
                own = node.parts[kind].count(last) if last else node.cost
                applied = sum([counts[other] for other in node.in_place + node.targets])
                counts[node] = own + node.repeats * applied
            by_kind.append(counts)
        current = {node: max(by_kind[0][node], by_kind[1][node]) for node in nodes}
        found.append(current[root])
        if current == last:
            break
        last = current
    return tuple(found)


def _in_order(root: _Node) -> list[_Node]:
    """Return all subschemas that one leads to; those that apply to the same value come before it."""
    order: dict[_Node, int] = {}
    pending, seen = [root], {root}
    while pending:
        node = pending.pop()
        _check_in_place(node, order, set(), 0)
        new = {*node.targets, *node.below()} - seen
        seen |= new
        pending += new
    return list(order)


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
