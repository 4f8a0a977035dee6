"""A schema as one tree: references followed, older drafts read as today's, recursion cut at a stated depth.

What a model gets has no `$ref`: several providers refuse it, others ignore it. Knows pointers and drafts.
Refuses to know providers, and to write out a schema that grows without measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from toolcrib import codec
from toolcrib.bounds import LISTED_SCHEMAS, SINGLE_SCHEMAS
from toolcrib.catalog.export.keywords import ANNOTATIONS, NAMED, SWITCHES, Node, nothing
from toolcrib.catalog.export.verdicts import Journal, Path, RefusedError, point

MOST_PARTS = 4_000
"""How many subschemas a schema may have when its references are written out."""
LEVELS = (3, 2, 1)
"""How often a definition is written inside itself: the first of these that stays within bounds."""
DEEPEST = 48

_LEFT_OUT = frozenset(
    {
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$id",
        "$recursiveAnchor",
        "$schema",
        "$vocabulary",
        "definitions",
        "id",
    }
)
"""They say something about the schema, not about values."""
_SINCE = {
    "draft-04": 4,
    "draft-06": 6,
    "draft-07": 7,
    "2019-09": 8,
}
_YOUNGER = {
    6: frozenset({"const", "contains", "examples", "propertyNames"}),
    7: frozenset({"else", "if", "readOnly", "then", "writeOnly"}),
    8: frozenset(
        {
            "dependentRequired",
            "dependentSchemas",
            "maxContains",
            "minContains",
            "unevaluatedItems",
            "unevaluatedProperties",
        }
    ),
    9: frozenset({"prefixItems"}),
}
"""Keywords by the draft that brought them; older ones ignore them."""


class _TooLargeError(Exception):
    pass


def read_schema(schema: Mapping[str, Any], journal: Journal) -> Node:
    """The schema without references. Raises RefusedError where that cannot be."""
    try:
        plain = codec.decode(codec.encode(dict(schema)))
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise RefusedError(f"its schema is not JSON: {error}") from None
    for levels in LEVELS:
        reader = _Reader(plain, levels)
        try:
            tree = reader.read(plain, (), ())
        except _TooLargeError:
            if not reader.is_recursive:
                break
            continue
        journal.adopt(reader.journal.changes)
        return tree
    raise RefusedError(
        f"written out without references its schema has more than {MOST_PARTS} parts, or nests deeper "
        f"than {DEEPEST} levels"
    )


class _Reader:
    """One pass over a schema, at one depth of recursion."""

    def __init__(self, root: Node, levels: int) -> None:
        self.root = root
        self.levels = levels
        self.parts = 0
        self.is_recursive = False
        self.journal = Journal()
        declared = str(root.get("$schema"))
        self.draft = next((age for name, age in _SINCE.items() if name in declared), 9)

    def read(self, node: Any, path: Path, inside: tuple[str, ...]) -> Node:
        if node is True:
            return {}
        if node is False:
            return nothing()
        if not isinstance(node, dict):
            raise RefusedError(f"what is at {point(path) or 'the top'} is not a schema")
        self.parts += 1
        if self.parts > MOST_PARTS or len(path) > DEEPEST * 2:
            raise _TooLargeError
        reference = node.get("$ref")
        own = node
        if isinstance(reference, str) and self.draft < 8:
            own = {key: value for key, value in node.items() if key in ANNOTATIONS}
        found = self._read_keywords(self._modernise(own), path, inside)
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in own:
                raise RefusedError(
                    f"{point((*path, keyword))} depends on where it is used; only $ref is followed"
                )
        if not isinstance(reference, str):
            return found
        target = self._follow(reference, path, inside)
        if not found.keys() - ANNOTATIONS:
            return {**target, **found}
        return {**found, "allOf": [*found.get("allOf", ()), target]}

    def _read_keywords(self, node: Node, path: Path, inside: tuple[str, ...]) -> Node:
        found: Node = {}
        for key, value in node.items():
            if key in _LEFT_OUT or key in ("$ref", "$dynamicRef", "$recursiveRef"):
                continue
            here = (*path, key)
            if key in NAMED and isinstance(value, dict):
                found[key] = {name: self.read(item, (*here, name), inside) for name, item in value.items()}
            elif key in LISTED_SCHEMAS and isinstance(value, list):
                found[key] = [
                    self.read(item, (*here, str(number)), inside) for number, item in enumerate(value)
                ]
            elif key in SINGLE_SCHEMAS:
                is_plain = isinstance(value, bool) and key in SWITCHES
                found[key] = value if is_plain else self.read(value, here, inside)
            else:
                found[key] = value
        return found

    def _follow(self, reference: str, path: Path, inside: tuple[str, ...]) -> Node:
        if not reference.startswith("#"):
            raise RefusedError(f"{point(path)} refers to {reference[:80]!r}, outside of the schema")
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            raise RefusedError(
                f"{point(path)} refers to the anchor {reference[:80]!r}; only pointers are followed"
            )
        times = inside.count(pointer)
        if times:
            self.is_recursive = True
        if times >= self.levels:
            name = pointer.rpartition("/")[2] or "the whole"
            words = (
                f"{name!r} holds itself; from the {_count(self.levels + 1)} level on anything is permitted"
            )
            self.journal.note(path, words, "wider")
            return {}
        target: Any = self.root
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and step.isdecimal() and int(step) < len(target):
                target = target[int(step)]
            elif isinstance(target, dict) and step in target:
                target = target[step]
            else:
                raise RefusedError(f"{point(path)} refers to {reference[:80]!r}, which is not there")
        return self.read(target, path, (*inside, pointer))

    def _modernise(self, node: Node) -> Node:
        """What an older draft says, in the words of 2020-12."""
        if self.draft == 9:
            return _with_enum(node)
        node = {
            key: value
            for key, value in node.items()
            if not any(age > self.draft and key in keywords for age, keywords in _YOUNGER.items())
        }
        if isinstance(node.get("items"), list):
            node["prefixItems"] = node.pop("items")
            if "additionalItems" in node:
                node["items"] = node.pop("additionalItems")
        node.pop("additionalItems", None)
        if self.draft < 8 and isinstance(node.get("dependencies"), dict):
            for name, value in node.pop("dependencies").items():
                keyword = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
                node.setdefault(keyword, {})[name] = value
        for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and limit in node:
                node[exclusive] = node.pop(limit)
        return _with_enum(node)


def _with_enum(node: Node) -> Node:
    """A `const` as the `enum` that every provider knows."""
    if "const" not in node:
        return node
    node = dict(node)
    value = node.pop("const")
    if "enum" in node:
        node["allOf"] = [*node.get("allOf", ()), {"enum": [value]}]
    else:
        node["enum"] = [value]
    return node


def _count(number: int) -> str:
    return {2: "second", 3: "third", 4: "fourth"}.get(number, f"{number}th")
