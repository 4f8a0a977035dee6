"""Rewrite a tool's input schema for a provider, and log every change.

The schema is expanded and simplified, then written in a dialect: here for those that support nearly all of
JSON Schema, in `subset` for those that support a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.catalog.export.decode import WRAPPER, ArgumentDecoder, map_properties
from toolcrib.catalog.export.dialect import Dialect
from toolcrib.catalog.export.schema import NAMED_SCHEMAS, expand, map_subschemas, rules_for, simplify
from toolcrib.catalog.export.subset import SubsetWriter
from toolcrib.catalog.export.verdict import Change, ChangeLog, Path, RefusedError
from toolcrib.catalog.schema_merge import ANNOTATIONS, Node, is_anything, is_nothing, types_of
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import walk

MAX_BYTES = 512 * 1024
"""The size of one exported schema; no provider accepts so much."""


@dataclass(frozen=True)
class Rewritten:
    """A schema for a provider. `notes` are rules that belong into the tool's description."""

    schema: Node
    decoder: ArgumentDecoder
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()


def rewrite_schema(schema: Mapping[str, Any], dialect: Dialect, *, is_closed: bool = False) -> Rewritten:
    """Return a schema in a dialect.

    `is_closed` says that the tool rejects undeclared arguments, whatever its schema says. Raise RefusedError
    where the dialect has no form for it, NotStrictError where only strict mode has none.
    """
    log = ChangeLog()
    tree = simplify(expand(schema, log), (), log)
    if is_nothing(tree):
        raise RefusedError("no arguments can satisfy its schema")
    if not isinstance(tree.get("properties", {}), dict):
        raise RefusedError("its properties are not an object")
    notes: list[str] = []
    if dialect.keywords is not None:
        found, decoder, is_wrapped = SubsetWriter(dialect, log, is_closed=is_closed).write_root(tree)
        arguments = ArgumentDecoder(decoder, is_wrapped)
    else:
        writer = _Writer(dialect, log, _find_renames(tree, dialect))
        found, is_wrapped = writer.write_root(tree, notes, is_closed=is_closed)
        arguments = ArgumentDecoder(None, is_wrapped, {new: old for old, new in writer.names.items()})
    if len(codec.write(found)) > MAX_BYTES:
        raise RefusedError(f"its schema has more than {MAX_BYTES // 1024} KiB")
    return Rewritten(found, arguments, log.close(), tuple(notes))


def _find_renames(tree: Node, dialect: Dialect) -> dict[str, str]:
    """Map the property names that a provider does not accept, in one table for the whole tool."""
    nodes = [node for _, node in walk(tree)]
    names = dict.fromkeys(name for node in nodes for name in node.get("properties", ()))
    mapped = map_properties(names, dialect.property_name, always_digest=True)
    renamed = {old: new for old, new in mapped.items() if old != new}
    for node in nodes if renamed else ():
        if "patternProperties" in node or "propertyNames" in node:
            raise RefusedError(
                f"{dialect.label} does not accept the property name {next(iter(renamed))!r}, "
                "and a rule about names would not hold for another one"
            )
        if any(_has_key(value, renamed) for value in node.get("enum", ())):
            raise RefusedError(f"{dialect.label} does not accept a property name that is also in an enum")
    return renamed


def _has_key(value: Any, names: Mapping[str, str]) -> bool:
    if isinstance(value, dict):
        return any(name in names or _has_key(item, names) for name, item in value.items())
    return isinstance(value, list) and any(_has_key(item, names) for item in value)


class _Writer:
    """Writes a schema in a dialect that supports nearly all of JSON Schema."""

    def __init__(self, dialect: Dialect, log: ChangeLog, names: dict[str, str]) -> None:
        self.dialect = dialect
        self.log = log
        self.names = names

    def write_root(self, tree: Node, notes: list[str], *, is_closed: bool) -> tuple[Node, bool]:
        """Return the schema, and whether the arguments are wrapped."""
        tree = dict(tree)
        label = self.dialect.label
        unsupported = self._unsupported_at_root(tree)
        if unsupported:
            reason = f"{label} does not accept {', '.join(sorted(unsupported))} at the root"
            self.log.add((), f"{reason}: the arguments are wrapped in '{WRAPPER}'")
            inner = self.write(tree, ())
            return {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER]}, True
        if not self.dialect.annotations_at_root:
            for keyword in sorted(ANNOTATIONS & tree.keys()):
                if keyword == "description":
                    notes.append(str(tree[keyword]))
                self.log.add((keyword,), f"{label} does not accept {keyword} at the root")
                del tree[keyword]
        if self.dialect.root_keywords is not None and "additionalProperties" in tree:
            is_same = is_closed or is_anything(tree.pop("additionalProperties"))
            message = f"{label} does not accept additionalProperties at the root"
            self.log.add(("additionalProperties",), message, "same" if is_same else "wider")
        found = self.write(tree, ())
        return {**found, "properties": found.get("properties", {})}, False

    def _unsupported_at_root(self, tree: Node) -> set[str]:
        found = set(tree.keys() & self.dialect.not_at_root)
        if self.dialect.root_keywords is not None:
            found |= tree.keys() - self.dialect.root_keywords - ANNOTATIONS
            rest = tree.get("additionalProperties", True)
            if is_anything(rest) or is_nothing(rest):
                found.discard("additionalProperties")
        return found

    def write(self, node: Node, path: Path) -> Node:
        found = map_subschemas(node, path, self.write)
        for name in node.get("properties", ()):
            if name in self.names:
                message = f"renamed to {self.names[name]!r}: {self.dialect.label} does not accept the name"
                self.log.add((*path, "properties", name), message)
        for key in found.keys() & {*NAMED_SCHEMAS, "dependentRequired"}:
            found[key] = {self._name(name): value for name, value in found[key].items()}
        if "dependentRequired" in found:
            needs = found["dependentRequired"].items()
            found["dependentRequired"] = {name: [*map(self._name, names)] for name, names in needs}
        if "required" in found:
            found["required"] = [*map(self._name, found["required"])]
        return self._with_items(self._without_type_list(found, path), path)

    def _name(self, name: str) -> str:
        return self.names.get(name, name)

    def _without_type_list(self, node: Node, path: Path) -> Node:
        types = types_of(node)
        if len(types) < 2:
            return node
        self.log.add((*path, "type"), "several types: written as anyOf")
        rest = {key: value for key, value in node.items() if key != "type"}
        if rest.keys() & {"anyOf", "enum", "unevaluatedItems", "unevaluatedProperties"}:
            plain = {"anyOf": [self._with_items({"type": name}, path) for name in types]}
            return (
                {**rest, "allOf": [*rest.get("allOf", ()), plain]} if "anyOf" in rest else {**rest, **plain}
            )
        branches = [{"type": name, **rules_for(rest, name)} for name in types]
        moved = {key for branch in branches for key in branch}
        kept = {key: value for key, value in rest.items() if key not in moved}
        return {**kept, "anyOf": [self._with_items(branch, path) for branch in branches]}

    def _with_items(self, node: Node, path: Path) -> Node:
        """Add `items` to an array: providers reject arrays without."""
        if node.get("type") != "array" or isinstance(node.get("items"), dict) or node.get("items") is False:
            return node
        if "items" not in node and "unevaluatedItems" in node:
            return node  # it applies to the same items
        if "prefixItems" not in node:
            self.log.add(path, "items may be any value: written as items")
        return {**node, "items": {}}
