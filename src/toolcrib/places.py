"""Which subschemas look at which place of the data: a schema as a graph, its references resolved.

Knows JSON Schema's keywords, those of older drafts included. Refuses to know costs, engines and tools.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from toolcrib.bounds import DATA, NAMED_SCHEMAS, REFERENCES, Schema, walk_schema
from toolcrib.errors import InvalidSchemaError

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
        self._root = root
        self._anchors: dict[str, Any] | None = None
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
            node.targets = [self._node(self._resolve(reference)) for reference in references]
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

    def _resolve(self, reference: str) -> Any:
        """What a reference means: the root, an anchor, or what a pointer points at."""
        target = unquote(reference[1:])
        if not target:
            return self._root
        if target[0] != "/":
            if self._anchors is None:
                self._anchors = _find_anchors(self._root)
            if target not in self._anchors:
                raise _missing(reference)
            return self._anchors[target]
        node: Any = self._root
        is_keyword = True
        for part in target[1:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name in node:
                if is_keyword and name in DATA:
                    raise InvalidSchemaError(f"Schema refers to {reference[:100]!r}, which is data")
                node = node[name]
                is_keyword = not (is_keyword and name in NAMED_SCHEMAS)
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                raise _missing(reference)
        return node


def _list_beside(schema: Schema) -> Iterable[Any]:
    for word in _LISTS:
        yield from _listed(schema.get(word))
    for word in _SINGLES:
        if word in schema:
            yield schema[word]
    for word in _MAPS:
        yield from _mapped(schema.get(word)).values()


def _missing(reference: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"Schema refers to {reference[:100]!r}, which is not there")


def _find_anchors(root: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node, _, keyword in walk_schema(root):
        if keyword is not None or not isinstance(node, dict):
            continue
        for word in ("$anchor", "$dynamicAnchor", "$id", "id"):
            name = node.get(word)
            if not isinstance(name, str) or (word.endswith("id") and not name.startswith("#")):
                continue
            if found.setdefault(name.lstrip("#"), node) is not node:
                raise InvalidSchemaError(f"Schema has the anchor {name[:100]!r} twice")
    return found


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
