"""What checking against a schema costs, found before anything is checked.

Several subschemas may look at one place of the data: through allOf and its kin, through references, through
branches that all look below the same property. The number of such visits is what validation costs, and it
can double with every level of the data. Here it is counted for each level, so that data that would cost too
much is refused instead of checked. Such schemas are legitimate, so the schema itself is refused only where a
single place is looked at too often, or without end.

One thing is known of the engine: at a place where a schema refers back to itself, it looks once and remembers.
So a tree of tagged unions is cheap to check. It is not cheap to say what is wrong with one.

Knows graphs of schemas and values. Refuses to know engines otherwise, and tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolcrib.bounds import Schema
from toolcrib.errors import InvalidSchemaError
from toolcrib.places import Below, Graph, Node, find_head, find_loops

BUDGET = 4_000_000
"""How many visits checking one value may take: about 100 ms at worst."""
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


def measure(schema: Schema, longest_name: int | None = None) -> Effort:
    """The effort a schema asks for. Raises InvalidSchemaError where no data could be checked against it.

    `longest_name` is how long a name in the data may be, where patterns for names say so.
    """
    return _Measure(Graph(schema)).take(longest_name)


_State = tuple[Node, int]
"""A node, and how often the way to it went around the loop that it belongs to."""


class _Table:
    """The places below a node and all that look at the same place as it does, as sums of visits."""

    __slots__ = ("common", "named", "toll")

    def __init__(self) -> None:
        self.common: dict[_State, int] = {}
        self.named: dict[str | int, dict[_State, int]] = {}
        self.toll = 0

    def worst(self, visits: dict[_State, int]) -> int:
        """The most visits that any place below gets, where each state there stands for so many."""
        common = sum(times * visits[state] for state, times in self.common.items())
        named = (
            sum(times * visits[state] for state, times in place.items()) for place in self.named.values()
        )
        return common + max((0, *named))


class _Measure:
    def __init__(self, graph: Graph) -> None:
        self.top = graph.top
        self.here: dict[Node, int] = {}
        self.steps = 0
        opened: set[Node] = set()
        for node in graph.nodes:
            self._count_here(node, opened, 0)
        loops = find_loops(graph)
        self.loop_of = {node: index for index, loop in enumerate(loops) for node in loop}
        self.heads = [find_head(graph, loop) for loop in loops]

    def take(self, longest_name: int | None) -> Effort:
        words, _ = _Levels(self, [None] * len(self.heads)).count()
        if not self.heads:
            return Effort(words, words, None, longest_name)
        visits, is_endless = _Levels(self, self.heads).count()
        return Effort(visits, words, len(visits) - 1 if is_endless else MAX_NESTING, longest_name)

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
        beside = sum(self._count_here(other, opened, chain + 1) for other in node.beside)
        if beside * node.factor > MAX_VISITS:
            raise InvalidSchemaError("Schema expands to too many checks", hint="flatten allOf, anyOf, oneOf")
        self.here[node] = total = node.weight + node.factor * beside
        return total


class _Levels:
    """Counts visits level by level.

    Where a loop has a head, the engine goes around it twice, and from then on looks at no value twice because
    of that head. So ways that go around a third time are cut, and what one way around costs is added once
    for each level. Loops without a head are gone around for ever.
    """

    def __init__(self, measure: _Measure, heads: list[Node | None]) -> None:
        self.measure = measure
        self.heads = heads
        self.spreads: dict[_State, dict[_State, int]] = {}
        self.tables: dict[_State, tuple[_Table, _Table]] = {}

    def count(self) -> tuple[tuple[int, ...], bool]:
        """Visits at each level, and whether there are levels below that would take more than the budget."""
        top: _State = (self.measure.top, 0)
        heads: list[_State] = [(head, 1) for head in self.heads if head is not None]
        self._find_tables([top, *heads])
        visits = {state: self.measure.here[state[0]] for state in self.tables}
        again = sum(visits[head] for head in heads)
        figures = [visits[top] + again]
        for level in range(MAX_LEVELS):
            self.measure.spend(len(self.tables))
            visits = {
                state: max(table.worst(visits) + (0 if level else table.toll) for table in tables)
                for state, tables in self.tables.items()
            }
            if not any(visits.values()):
                return (*figures, again), False
            again += sum(visits[head] for head in heads)
            if visits[top] + again > BUDGET:
                return tuple(figures), True
            figures.append(visits[top] + again)
        return tuple(figures), True

    def _find_tables(self, waiting: list[_State]) -> None:
        """A table for each state at which a level of the data can begin."""
        while waiting:
            state = waiting.pop()
            if state in self.tables:
                continue
            objects, arrays = _Table(), _Table()
            for inner, times in self._spread(state).items():
                self._add(objects, inner, inner[0].objects, times)
                self._add(arrays, inner, inner[0].arrays, times)
            self.tables[state] = objects, arrays
            for table in (objects, arrays):
                waiting += [*table.common, *(below for place in table.named.values() for below in place)]

    def _add(self, table: _Table, state: _State, below: Below, times: int) -> None:
        table.toll += times * (below.patterns + sum(self.measure.here[node] for node in below.names))
        others = [self._step(state, node) for node in below.others]
        for below_state in (*others, *(self._step(state, node) for node in below.always)):
            table.common[below_state] = table.common.get(below_state, 0) + times
        for name, node in below.named.items():
            place = table.named.setdefault(name, {})
            named = self._step(state, node)
            place[named] = place.get(named, 0) + times
            for other in others:
                place[other] = place.get(other, 0) - times
        self.measure.spend(1 + len(below.named) * (1 + len(others)) + len(others) + len(below.always))

    def _spread(self, state: _State) -> dict[_State, int]:
        """All that look at the same place because of a state, each with how often."""
        known = self.spreads.get(state)
        if known is None:
            node = state[0]
            known = {state: 1}
            for other in node.beside:
                step = self._step(state, other)
                if step[1] > 1:
                    continue
                part = self._spread(step)
                self.measure.spend(len(part))
                for inner, times in part.items():
                    known[inner] = known.get(inner, 0) + times * node.factor
            self.spreads[state] = known
        return known

    def _step(self, state: _State, node: Node) -> _State:
        """The state that a way from here to `node` leads to."""
        loop = self.measure.loop_of.get(node)
        if loop is None or loop != self.measure.loop_of.get(state[0]):
            return (node, 0)
        return (node, state[1] + (self.heads[loop] is node))
