"""What checking against a schema costs, found before anything is checked.

Several subschemas may look at one place of the data: through allOf and its kin, through references, through
branches that all look below the same property. The number of such visits is what validation costs, and it
can double with every level of the data. Here it is counted for each level, so that data that would cost too
much is refused instead of checked. Such schemas are legitimate, so the schema itself is refused only where a
single place is looked at too often, or without end.

One thing is known of the engine: where a schema refers back to itself, it looks at a place once and
remembers. So a tree of tagged unions is cheap to check. It is not cheap to say what is wrong with one.

Knows graphs of schemas and values. Refuses to know engines otherwise, and tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import Any

from toolcrib.bounds import Schema
from toolcrib.errors import InvalidSchemaError
from toolcrib.places import Below, Graph, Node, find_head, find_loops

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
