"""A tool's input schema as a provider takes it, with the way back and every change on the way.

Reads the schema as one tree, says it plainly, then keeps to a dialect: either one that takes nearly all of
JSON Schema (here), or one that takes a subset (subset.py). Pure: knows schemas and dialects, refuses to know
tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.catalog.export.dialects import Dialect
from toolcrib.catalog.export.restore import WRAPPER, Restorer, map_properties
from toolcrib.catalog.export.schema import (
    ANNOTATIONS,
    NAMED,
    Node,
    is_anything,
    is_nothing,
    read_schema,
    relevant,
    simplify,
    types_of,
)
from toolcrib.catalog.export.subset import Subset
from toolcrib.catalog.export.verdict import Change, Journal, Path, RefusedError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import LISTED_SCHEMAS, SINGLE_SCHEMAS

LARGEST = 512 * 1024
"""Bytes of one exported schema; no provider takes so much, and nobody would want to pay for it."""


@dataclass(frozen=True)
class Rewritten:
    """A schema for a provider. `words` are rules that only the tool's description has room for."""

    schema: Node
    restorer: Restorer
    changes: tuple[Change, ...]
    words: tuple[str, ...] = ()


def rewrite(schema: Mapping[str, Any], dialect: Dialect, *, is_closed: bool = False) -> Rewritten:
    """Raises RefusedError where the dialect has no form for it, NotStrictError where only strict mode has
    none.

    `is_closed` says that the tool refuses names that its schema does not have, whatever the schema says.
    """
    journal = Journal()
    tree = simplify(read_schema(schema, journal), (), journal)
    if is_nothing(tree):
        raise RefusedError("no arguments can satisfy its schema")
    if not isinstance(tree.get("properties", {}), dict):
        raise RefusedError("its properties are not an object")
    words: list[str] = []
    if dialect.keeps is not None:
        subset = Subset(dialect, journal, is_closed=is_closed)
        found, way, is_wrapped = subset.write_top(tree)
        restorer = Restorer(way, is_wrapped)
    else:
        writer = _Writer(dialect, journal, _rename(tree, dialect))
        found, is_wrapped = writer.write_top(tree, words, is_closed=is_closed)
        restorer = Restorer(None, is_wrapped, {new: old for old, new in writer.names.items()})
    if len(codec.write(found)) > LARGEST:
        raise RefusedError(f"its schema has more than {LARGEST // 1024} KiB")
    return Rewritten(found, restorer, journal.close(), tuple(words))


def wrap(schema: Node) -> Node:
    return {"type": "object", "properties": {WRAPPER: schema}, "required": [WRAPPER]}


# --- dialects that take nearly everything --------------------------------------------------------------


def _rename(tree: Node, dialect: Dialect) -> dict[str, str]:
    """Property names that the provider refuses, and what they are called there; in one table for the whole
    tool."""
    names = dict.fromkeys(name for node in _walk(tree) for name in node.get("properties", ()))
    mapped = map_properties(names, dialect.property_name, marked=True)
    renamed = {old: new for old, new in mapped.items() if old != new}
    if not renamed:
        return {}
    for node in _walk(tree):
        if "patternProperties" in node or "propertyNames" in node:
            raise RefusedError(
                f"{dialect.label} refuses the property name {next(iter(renamed))!r}, and a rule about names "
                "would not hold for another one"
            )
        if any(_has_key(value, renamed) for value in node.get("enum", ())):
            raise RefusedError(f"{dialect.label} refuses a property name that is also in an enum")
    return renamed


def _has_key(value: Any, names: Mapping[str, str]) -> bool:
    if isinstance(value, dict):
        return any(name in names or _has_key(item, names) for name, item in value.items())
    return isinstance(value, list) and any(_has_key(item, names) for item in value)


def _walk(node: Any) -> Iterator[Node]:
    if not isinstance(node, dict):
        return
    yield node
    for key, value in node.items():
        if key in NAMED:
            for item in value.values():
                yield from _walk(item)
        elif key in LISTED_SCHEMAS:
            for item in value:
                yield from _walk(item)
        elif key in SINGLE_SCHEMAS:
            yield from _walk(value)


class _Writer:
    def __init__(self, dialect: Dialect, journal: Journal, names: dict[str, str]) -> None:
        self.dialect = dialect
        self.journal = journal
        self.names = names

    def write_top(self, tree: Node, words: list[str], *, is_closed: bool) -> tuple[Node, bool]:
        """The schema, and whether the arguments had to be wrapped."""
        tree = dict(tree)
        blocked = self._blocked(tree)
        if blocked:
            refused = f"{self.dialect.label} refuses {', '.join(sorted(blocked))} at the top"
            self.journal.note((), f"{refused}: the arguments are wrapped in '{WRAPPER}'")
            return wrap(self.write(tree, ())), True
        if not self.dialect.takes_words_on_top:
            for keyword in sorted(ANNOTATIONS & tree.keys()):
                if keyword == "description":
                    words.append(str(tree[keyword]))
                self.journal.note((keyword,), f"{self.dialect.label} takes no {keyword} at the top")
                del tree[keyword]
        if self.dialect.top_only is not None:
            self._open_top(tree, is_closed)
        found = self.write(tree, ())
        return {**found, "properties": found.get("properties", {})}, False

    def _blocked(self, tree: Node) -> set[str]:
        """What keeps a schema from standing at the top."""
        blocked = set(tree.keys() & self.dialect.not_on_top)
        if self.dialect.top_only is not None:
            blocked |= tree.keys() - self.dialect.top_only - ANNOTATIONS
            rest = tree.get("additionalProperties", True)
            if is_anything(rest) or is_nothing(rest):
                blocked.discard("additionalProperties")
        return blocked

    def _open_top(self, tree: Node, is_closed: bool) -> None:
        """Take away what is said about other names, where that is no more than a yes or no."""
        rest = tree.pop("additionalProperties", None)
        if rest is None:
            return
        words = f"{self.dialect.label} takes no additionalProperties at the top"
        is_same = is_closed or is_anything(rest)
        self.journal.note(("additionalProperties",), words, "same" if is_same else "wider")

    def write(self, node: Node, path: Path) -> Node:
        found: Node = {}
        for key, value in node.items():
            here = (*path, key)
            if key == "properties":
                found[key] = {
                    self._name(name, here): self.write(item, (*here, name)) for name, item in value.items()
                }
            elif key in NAMED:
                found[key] = {
                    self.names.get(name, name): self.write(item, (*here, name))
                    for name, item in value.items()
                }
            elif key in LISTED_SCHEMAS:
                found[key] = [self.write(item, (*here, str(number))) for number, item in enumerate(value)]
            elif key in SINGLE_SCHEMAS and not isinstance(value, bool):
                found[key] = self.write(value, here)
            elif key == "required":
                found[key] = [self.names.get(name, name) for name in value]
            elif key == "dependentRequired":
                found[key] = {
                    self.names.get(name, name): [self.names.get(item, item) for item in names]
                    for name, names in value.items()
                }
            else:
                found[key] = value
        return self._with_items(self._without_type_list(found, path), path)

    def _name(self, name: str, path: Path) -> str:
        if name in self.names:
            words = f"called {self.names[name]!r}: {self.dialect.label} refuses the name"
            self.journal.note((*path, name), words)
        return self.names.get(name, name)

    def _without_type_list(self, node: Node, path: Path) -> Node:
        kinds = types_of(node)
        if len(kinds) < 2:
            return node
        self.journal.note((*path, "type"), "several types: written as anyOf")
        rest = {key: value for key, value in node.items() if key != "type"}
        if "anyOf" in rest:
            either = {"anyOf": [self._with_items({"type": kind}, path) for kind in kinds]}
            return {**rest, "allOf": [*rest.get("allOf", ()), either]}
        if "unevaluatedProperties" in rest or "unevaluatedItems" in rest or "enum" in rest:
            return {**rest, "anyOf": [self._with_items({"type": kind}, path) for kind in kinds]}
        branches = [{"type": kind, **relevant(rest, kind)} for kind in kinds]
        moved = {key for branch in branches for key in branch}
        kept = {key: value for key, value in rest.items() if key not in moved}
        return {**kept, "anyOf": [self._with_items(branch, path) for branch in branches]}

    def _with_items(self, node: Node, path: Path) -> Node:
        """An array says what its items are; providers refuse it otherwise."""
        if node.get("type") != "array" or isinstance(node.get("items"), dict):
            return node
        if node.get("items") is False:
            return node
        if "items" not in node and "unevaluatedItems" in node:
            return node  # it is about the same items
        if "prefixItems" not in node:
            self.journal.note(path, "items may be anything: said so")
        return {**node, "items": {}}
