"""What checking against a schema costs, found before anything is checked.

Several subschemas may look at one place of the data: through allOf and its kin, through references, through
branches that all look below the same property. The number of such visits is what validation costs, and it
can double with every level of the data. Here it is counted for each level, so that data that would cost too
much is refused instead of checked. Such schemas are legitimate, so the schema itself is refused only where a
single place is looked at too often, or without end.

One thing is known of the engine: where a schema refers back to itself, it looks at a place once and
remembers. So a tree of tagged unions is cheap to check. It is not cheap to say what is wrong with one.

Knows graphs of schemas and values. Refuses to know engines otherwise, and tools.

What a schema may look like: small, closed, and with patterns that stay cheap whatever they meet.

A schema is data from strangers. Before it is compiled it is walked once, without following references, and
refused where it is too deep, too large or points outside itself. Knows JSON Schema's keywords, those of older
drafts included; refuses to know tools and engines. What checking against a schema costs is in effort.py.

Which subschemas look at which place of the data: a schema as a graph, its references resolved.

Knows JSON Schema's keywords, those of older drafts included. Refuses to know costs, engines and tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import Any

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation.schema_tree import DATA_KEYWORDS, NAMED_SCHEMAS, REFERENCES, Resolver, Schema

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
        if keyword in DATA_KEYWORDS or keyword in NAMED_SCHEMAS:
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

    That is a keyword of DATA_KEYWORDS for data, of NAMED_SCHEMAS for a map of schemas, and None for a schema.
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
            inner = keyword if keyword in DATA_KEYWORDS else None
            waiting.extend(
                (item, depth + 1, inner) for item in node if isinstance(item, Mapping | list | tuple)
            )


def _role(key: Any, keyword: str | None) -> str | None:
    if keyword in DATA_KEYWORDS:
        return keyword
    if keyword in NAMED_SCHEMAS:
        return None
    return key if key in DATA_KEYWORDS or key in NAMED_SCHEMAS else None


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


_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas", "dependencies")
_BESIDE = (*_LISTS, *_SINGLES, *_MAPS)
_SLOW = ("const", "enum", "multipleOf")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_IN_OBJECTS = ("properties", "patternProperties", "additionalProperties", "propertyNames", _UNEVALUATED[0])
_IN_ARRAYS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_AGAIN = 3
"""How often the engine looks at branches beside an `unevaluated...` keyword."""


class Below:
    """Who looks one level deeper, at the members of objects or at the items of arrays.

    `named` look at one name or index, `others` at those that none of `named` looks at, `always` at all.
    Besides, `patterns` and `names` look at the name of each member.
    """

    __slots__ = ("always", "named", "names", "others", "patterns")

    def __init__(self) -> None:
        self.named: dict[str | int, Node] = {}
        self.others: list[Node] = []
        self.always: list[Node] = []
        self.names: list[Node] = []
        self.patterns = 0

    def children(self) -> Iterable[Node]:
        return (*self.named.values(), *self.others, *self.always)


_NOTHING = Below()


class Node:
    """One subschema: those `beside` it look at the same place, each `factor` times; others look below.

    `targets` are those beside it that it refers to. `weight` is what looking costs.
    """

    __slots__ = ("arrays", "beside", "factor", "objects", "targets", "weight")

    def __init__(self) -> None:
        self.beside: list[Node] = []
        self.targets: list[Node] = []
        self.factor = 1
        self.weight = 1
        self.objects = _NOTHING
        self.arrays = _NOTHING

    @property
    def is_leaf(self) -> bool:
        return self.objects is _NOTHING and self.arrays is _NOTHING

    def children(self) -> Iterable[Node]:
        """All that this one leads to, but for the names of members, which have nothing below them."""
        return (*self.beside, *self.objects.children(), *self.arrays.children())


class Graph:
    """All nodes that can be reached from the root, which is `top`."""

    def __init__(self, root: Schema) -> None:
        self._resolver = Resolver(root)
        self._nodes: dict[int, Node] = {}
        self._waiting: list[tuple[Any, Node]] = []
        self.top = self._node(root)
        while self._waiting:
            self._fill(*self._waiting.pop())

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    def _node(self, schema: Any) -> Node:
        known = self._nodes.get(id(schema))
        if known is None:
            known = self._nodes[id(schema)] = Node()
            self._waiting.append((schema, known))
        return known

    def _fill(self, schema: Any, node: Node) -> None:
        if not isinstance(schema, dict):
            return
        words = schema.keys()
        if not words.isdisjoint(REFERENCES):
            references = [schema[word] for word in REFERENCES if isinstance(schema.get(word), str)]
            node.targets = [self._node(self._resolver.resolve(reference)) for reference in references]
        if not words.isdisjoint(_BESIDE):
            node.beside = [self._node(child) for child in _list_beside(schema)]
        node.beside += node.targets
        if not words.isdisjoint(_SLOW):
            node.weight = _weigh(schema)
        if not words.isdisjoint(_UNEVALUATED):
            node.factor = _AGAIN
        if not words.isdisjoint(_IN_OBJECTS):
            node.objects = self._look_into_objects(schema)
        if not words.isdisjoint(_IN_ARRAYS):
            node.arrays = self._look_into_arrays(schema)

    def _look_into_objects(self, schema: Schema) -> Below:
        below = Below()
        below.named = {name: self._node(child) for name, child in _mapped(schema.get("properties")).items()}
        patterns = _mapped(schema.get("patternProperties"))
        below.always = [self._node(child) for child in patterns.values()]
        below.others = self._found(schema, "additionalProperties", "unevaluatedProperties")
        below.names = self._found(schema, "propertyNames")
        below.patterns = len(patterns)
        return below

    def _look_into_arrays(self, schema: Schema) -> Below:
        below = Below()
        first = _listed(schema.get("items")) or _listed(schema.get("prefixItems"))  # a list: before 2020-12
        below.named = {index: self._node(child) for index, child in enumerate(first)}
        below.always = self._found(schema, "contains")
        below.others = self._found(schema, "items", "additionalItems", "unevaluatedItems")
        return below

    def _found(self, schema: Schema, *words: str) -> list[Node]:
        return [self._node(schema[word]) for word in words if isinstance(schema.get(word), dict)]


def _list_beside(schema: Schema) -> Iterable[Any]:
    for word in _LISTS:
        yield from _listed(schema.get(word))
    for word in _SINGLES:
        if word in schema:
            yield schema[word]
    for word in _MAPS:
        yield from _mapped(schema.get(word)).values()


def _weigh(schema: dict[str, Any]) -> int:
    """What the engine pays for one look, in looks at a type. Numbers and structures are copied before they
    are compared, texts are found at once, and a fraction divides slowly."""
    weight = 1
    if "enum" in schema:
        values = _listed(schema["enum"])
        if not all(isinstance(value, str) for value in values):
            weight += 10 + sum(20 if isinstance(value, dict | list) else 1 for value in values)
    if isinstance(schema.get("const"), int | float | dict | list):
        weight += 10
    if isinstance(schema.get("multipleOf"), float):
        weight += 60
    return weight


def _listed(node: Any) -> list[Any]:
    return node if isinstance(node, list) else []


def _mapped(node: Any) -> dict[str, Any]:
    return node if isinstance(node, dict) else {}


# --- loops -------------------------------------------------------------------------------------------


def find_loops(graph: Graph) -> list[set[Node]]:
    """The groups of nodes that lead to each other, a node that leads to itself included."""
    if not any(node.targets for node in graph.nodes):
        return []
    back: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for child in node.children():
            back.setdefault(child, []).append(node)
    grouped: set[Node] = set()
    loops = []
    for node in reversed(_order(graph)):
        if node in grouped:
            continue
        group, waiting = {node}, [node]
        while waiting:
            for other in back.get(waiting.pop(), ()):
                if other not in grouped and other not in group:
                    group.add(other)
                    waiting.append(other)
        grouped |= group
        if len(group) > 1 or node in node.children():
            loops.append(group)
    return loops


def _order(graph: Graph) -> list[Node]:
    """The nodes, each after all it leads to, as far as loops allow."""
    seen: set[Node] = set()
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(graph.top, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in node.children())
    return order


def find_head(graph: Graph, loop: set[Node]) -> Node | None:
    """The node through which all ways into a loop and all ways around it lead, the latter by reference."""
    entries = {graph.top} & loop
    entries.update(
        child for node in graph.nodes if node not in loop for child in node.children() if child in loop
    )
    if len(entries) != 1:
        return None
    head = entries.pop()
    if any(head in node.children() and head not in node.targets for node in loop):
        return None
    return head if _is_acyclic(loop - {head}) else None


def _is_acyclic(nodes: set[Node]) -> bool:
    """Whether nodes can be taken away one by one, each when nothing that is left leads to it."""
    ways = dict.fromkeys(nodes, 0)
    for node in nodes:
        for child in node.children():
            if child in ways:
                ways[child] += 1
    free = [node for node, count in ways.items() if not count]
    left = len(nodes)
    while free:
        left -= 1
        for child in free.pop().children():
            if child in ways:
                ways[child] -= 1
                if not ways[child]:
                    free.append(child)
    return not left


BUDGET = 2_000_000
"""How many visits checking one value may take: about 50 ms at worst."""
LIGHT = 5
"""Schemas of so few visits per value need no counting: what a caller can send is bounded."""
MAX_VISITS = 2_000
"""How many subschemas may look at one place."""
MAX_LEVELS = 64
MAX_NESTING = 256
"""How deep data may nest below a schema that refers to itself: the engine's stack has an end."""
MAX_CHAIN = 100
"""How many references and combinations may be followed in a row."""
MAX_STEPS = 50_000
"""What finding all this out may cost, about 30 ms; schemas of people take a few hundred steps."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Visits per value at each level of the data; the last figure holds for all deeper levels.

    `visits` are for checking, `words` for saying what is wrong.
    """

    visits: tuple[int, ...]
    words: tuple[int, ...]
    deepest: int | None = None
    longest_name: int | None = None

    @property
    def is_light(self) -> bool:
        return self.deepest is None and self.longest_name is None and max(self.visits) <= LIGHT

    def refuse(self, value: Any) -> str | None:
        """Why checking this value would cost too much, or None."""
        spent = 0
        for depth, level in enumerate(_levels(value)):
            if self.deepest is not None and depth > self.deepest:
                return f"nested deeper than {self.deepest} levels"
            spent += len(level) * self.visits[min(depth, len(self.visits) - 1)]
            if spent > BUDGET:
                return f"too much for this schema to check ({len(level)} values {depth} levels deep)"
            if self.longest_name is not None and _longest_name(level) > self.longest_name:
                return f"a name is longer than {self.longest_name} characters"
        return None

    def is_wordy(self, value: Any, limit: int) -> bool:
        """Whether saying what is wrong with this value may take more than `limit` visits."""
        spent = 0
        for depth, level in enumerate(_levels(value)):
            spent += len(level) * self.words[min(depth, len(self.words) - 1)]
            if spent > limit:
                return True
        return False


def _levels(value: Any) -> Iterator[list[Any]]:
    """The values at each level of nesting."""
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


def _longest_name(level: list[Any]) -> int:
    names = (name for item in level if isinstance(item, dict) for name in item if isinstance(name, str))
    return max(map(len, names), default=0)


_BRANCHING = (
    *(b'"allOf"', b'"anyOf"', b'"oneOf"', b'"not"', b'"if"', b'Ref"', b'"$ref"', b'"dependen', b'"patternP'),
    *(b'"propertyN', b'"contains"', b'"unevaluated', b'"enum"', b'"const"', b'"multipleOf"'),
)
_PLAIN = Effort((1,), (1,))


def measure(schema: Schema, text: bytes, longest_name: int | None = None) -> Effort:
    """The effort a schema asks for. Raises InvalidSchemaError where no data could be checked against it.

    `text` is the schema as JSON; where it holds none of the words that let two subschemas look at one place,
    there is nothing to count. `longest_name` is how long names may be that patterns look at.
    """
    if not any(word in text for word in _BRANCHING):
        return _PLAIN
    return _Measure(Graph(schema)).take(longest_name)


_State = tuple[Node, int]
"""A node, and how often the way to it went around the loop that it belongs to."""
_Figures = tuple[int, ...]
"""Visits at each level, beginning with the place that is looked at."""


class _Measure:
    """Counts what looks at one place, and finds the loops."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = 0
        self.here: dict[Node, int] = {}
        for node in graph.nodes:
            self._count_here(node, set(), 0)
        loops = find_loops(graph)
        self.loop_of = {node: index for index, loop in enumerate(loops) for node in loop}
        self.heads = [find_head(graph, loop) for loop in loops]

    def take(self, longest_name: int | None) -> Effort:
        top: _State = (self.graph.top, 0)
        straight = _Ways(self, [None] * len(self.heads))
        if not self.heads:
            words = (*straight.count(top), 0)
            deepest = MAX_LEVELS - 1 if len(words) > MAX_LEVELS else None
            return Effort(words, words, deepest, longest_name)
        words = straight.grow()
        if None in self.heads:
            return Effort(words, words, len(words) - 1, longest_name)
        ways = _Ways(self, self.heads)
        first = ways.count(top)
        around = _add([(1, ways.count((head, 1))) for head in self.heads if head is not None])
        again = list(accumulate(around))  # a value may be looked at because of each value above it
        visits = _add([(1, first), (1, (*again, *[again[-1]] * len(first)))])
        deepest = MAX_NESTING if len(first) < MAX_LEVELS else MAX_LEVELS - 1
        return Effort(visits, words, deepest, longest_name)

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise InvalidSchemaError("Schema is too intertwined", hint="use fewer references and branches")

    def _count_here(self, node: Node, opened: set[Node], chain: int) -> int:
        """How many subschemas look at the place that `node` looks at, because of it."""
        known = self.here.get(node)
        if known is not None:
            return known
        if node in opened:
            raise InvalidSchemaError("Schema refers to itself without end", hint="break the $ref loop")
        if chain > MAX_CHAIN:
            raise InvalidSchemaError(f"Schema follows more than {MAX_CHAIN} references in a row")
        opened.add(node)
        beside = sum([self._count_here(other, opened, chain + 1) for other in node.beside])
        if beside * node.factor > MAX_VISITS:
            raise InvalidSchemaError("Schema expands to too many checks", hint="flatten allOf, anyOf, oneOf")
        self.here[node] = total = node.weight + node.factor * beside
        return total


class _Ways:
    """Counts visits level by level, along all ways that lead down.

    Where a loop has a head, the engine goes around it twice, and from then on looks at no value twice because
    of that head. So ways that go around a third time are cut, which leaves no loop. Of loops without a head
    only the growth is known.
    """

    def __init__(self, measure: _Measure, heads: list[Node | None]) -> None:
        self._measure = measure
        self._heads = heads
        self._spreads: dict[_State, dict[_State, int]] = {}
        self._below: dict[_State, _Figures] = {}

    def count(self, first: _State) -> _Figures:
        """Visits at each level below a state, where no loop is left."""
        waiting = [self._through(first)]
        opened: set[_State] = set()
        while waiting:
            state = waiting[-1]
            if state is None or state in self._below:
                waiting.pop()
            elif state in opened:
                self._below[state] = self._worst_place(state, self._figures_of)
            else:
                opened.add(state)
                waiting += [self._through(below) for below in self._list_below(state)]
        return self._figures_of(first)

    def grow(self) -> _Figures:
        """What any way can cost at most, level by level, if it always takes the worst turn."""
        states = {self._through((node, 0)) for node in self._measure.graph.nodes}
        turns = [self._worst_place(state, lambda _: (1,)) for state in states if state is not None]
        growth = max((turn[0] for turn in turns if turn), default=0)
        figures = [max(self._measure.here.values())]
        while len(figures) < MAX_LEVELS and figures[-1] * growth <= BUDGET:
            figures.append(figures[-1] * growth)
        return tuple(figures)

    def _figures_of(self, state: _State) -> _Figures:
        target = self._through(state)
        below = () if target is None else self._below[target]
        return (self._measure.here[state[0]], *below)[:MAX_LEVELS]

    def _through(self, state: _State) -> _State | None:
        """Past mere references, to where something is said; None where the way is cut."""
        node = state[0]
        while len(node.beside) == 1 and node.is_leaf and node.factor == 1:
            state = self._step(state, node.beside[0])
            if state[1] > 1:
                return None
            node = state[0]
        return state

    def _step(self, state: _State, node: Node) -> _State:
        """The state that a way from here to `node` leads to."""
        loop = self._measure.loop_of.get(node)
        if loop is None or loop != self._measure.loop_of.get(state[0]):
            return (node, 0)
        return (node, state[1] + (self._heads[loop] is node))

    def _spread(self, state: _State) -> dict[_State, int]:
        """All that look at the same place because of a state, each with how often."""
        known = self._spreads.get(state)
        if known is None:
            known = {state: 1}
            for other in state[0].beside:
                step = self._step(state, other)
                if step[1] > 1:
                    continue
                part = self._spread(step)
                self._measure.spend(len(part))
                for inner, times in part.items():
                    known[inner] = known.get(inner, 0) + times * state[0].factor
            self._spreads[state] = known
        return known

    def _list_below(self, state: _State) -> list[_State]:
        return [
            self._step(inner, child)
            for inner in self._spread(state)
            for below in (inner[0].objects, inner[0].arrays)
            for child in below.children()
        ]

    def _worst_place(self, state: _State, look: Callable[[_State], _Figures]) -> _Figures:
        """The most visits that any place below gets, and any place below that, and so on."""
        spread = [(inner, times) for inner, times in self._spread(state).items() if not inner[0].is_leaf]
        if not spread:
            return ()
        objects = self._list_places([(inner, inner[0].objects, times) for inner, times in spread], look)
        arrays = self._list_places([(inner, inner[0].arrays, times) for inner, times in spread], look)
        return tuple(map(max, zip_longest(*{*objects, *arrays}, fillvalue=0)))

    def _list_places(
        self, parts: list[tuple[_State, Below, int]], look: Callable[[_State], _Figures]
    ) -> Iterator[_Figures]:
        everywhere: list[tuple[int, _Figures]] = []
        named: dict[str | int, list[tuple[int, _Figures]]] = {}
        for state, below, times in parts:
            others = [look(self._step(state, node)) for node in below.others]
            always = [look(self._step(state, node)) for node in below.always]
            names = below.patterns + sum(self._measure.here[node] for node in below.names)
            everywhere += [(times, figures) for figures in (*others, *always)]
            if names:
                everywhere.append((times, (names,)))
            for name, node in below.named.items():
                place = named.setdefault(name, [])
                place.append((times, look(self._step(state, node))))
                place += [(-times, figures) for figures in others]
            self._measure.spend(1 + len(below.named) * (1 + len(others)) + len(others) + len(always))
        common = _add(everywhere)
        yield common
        for place in named.values():
            yield _add([(1, common), *place])


def _add(parts: Iterable[tuple[int, _Figures]]) -> _Figures:
    rows = [[times * figure for figure in figures] if times != 1 else figures for times, figures in parts]
    return tuple(rows[0]) if len(rows) == 1 else tuple(map(sum, zip_longest(*rows, fillvalue=0)))
