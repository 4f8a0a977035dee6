"""Write a tool's input schema in the JSON Schema dialect of a provider, and log every change.

The schema is expanded first. Two kinds of dialects are enough: those that support nearly all
of JSON Schema, and those that support a subset (OpenAI's strict mode and Gemini). For a subset every value is
written as one type, or as `anyOf` of such with nothing beside it. A rule that the provider does not support
goes into the description, where the model still reads it, and is logged as a loss.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.catalog.export.decode import WRAPPER, ArgumentDecoder, map_names
from toolcrib.catalog.export.describe import append_notes, describe_keyword, show_type
from toolcrib.catalog.export.verdict import (
    Change,
    ChangeLog,
    NotStrictError,
    RefusedError,
    UnsatisfiableError,
    read_schema,
)
from toolcrib.catalog.schema_algebra import (
    ANNOTATIONS,
    CONTENT,
    TYPES,
    Node,
    are_disjoint,
    flatten,
    identity,
    is_anything,
    is_nothing,
    nothing,
    type_of,
    types_of,
)
from toolcrib.catalog.schema_expansion import (
    MAX_PARTS,
    NAMED_SCHEMAS,
    TYPE_OF,
    Path,
    map_subschemas,
    pointer,
    rules_for,
)
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import rewrite, walk
from toolcrib.validation.validator import Validator

PLAIN_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
ANY_NAME = re.compile(".*", re.DOTALL)
_COMPOSITIONS = frozenset({"allOf", "anyOf", "enum", "not", "oneOf"})
_SCALARS = frozenset({"boolean", "integer", "null", "number", "string"})


@dataclass(frozen=True)
class Dialect:
    """One provider's JSON Schema.

    With `keywords` the provider supports a subset: only these, and schemas of one type or `anyOf` of such.
    None stands for nearly everything. `closed_objects` means that every object is closed and lists all its
    properties as required, those that are optional being nullable.
    """

    label: str
    keywords: frozenset[str] | None = None
    not_at_root: frozenset[str] = _COMPOSITIONS
    root_keywords: frozenset[str] | None = None
    annotations_at_root: bool = True
    property_name: re.Pattern[str] = ANY_NAME
    formats: frozenset[str] | None = None
    enum_types: frozenset[str] = _SCALARS
    closed_objects: bool = False
    any_value: bool = True
    empty_enum_value: bool = True
    defaults: bool = True


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
    tree = read_schema(schema, log)
    renamed, names = _rename_properties(tree, dialect, log)
    notes: list[str] = []
    if dialect.keywords is not None:
        found, is_wrapped = _SubsetWriter(dialect, log, is_closed=is_closed).write_root(renamed)
    else:
        found, is_wrapped = _Writer(dialect, log).write_root(renamed, notes, is_closed=is_closed)
    if len(codec.write(found)) > MAX_BYTES:
        raise RefusedError(f"its schema has more than {MAX_BYTES // 1024} KiB")
    decoder = ArgumentDecoder(tree if dialect.closed_objects else None, is_wrapped, names)
    return Rewritten(found, decoder, log.close(), tuple(notes))


def _rename_properties(tree: Node, dialect: Dialect, log: ChangeLog) -> tuple[Node, dict[str, str]]:
    """Rename the properties that a provider does not accept; also return the new names with the old ones."""
    nodes = list(walk(tree))
    declared = dict.fromkeys(name for _, node in nodes for name in node.get("properties", ()))
    # With a digest, a new name is not mistaken for an undeclared one.
    is_open = dialect.keywords is None or any(_takes_any_names(dict(node)) for _, node in nodes)
    mapped = map_names(declared, dialect.property_name, always_digest=is_open)
    names = {old: new for old, new in mapped.items() if old != new}
    if not names:
        return tree, {}
    label = dialect.label
    for path, node in nodes:
        if "patternProperties" in node or "propertyNames" in node:
            raise RefusedError(
                f"{label} does not accept the property name {next(iter(names))!r}, "
                "and a rule about names would not hold for another one"
            )
        if any(isinstance(value, dict | list) for value in node.get("enum", ())):
            raise RefusedError(f"{label} does not accept a property name that may be in an enum too")
        for name in node.get("properties", ()):
            if name in names:
                here = (*map(str, path), "properties", name)
                log.add(here, f"renamed to {names[name]!r}: {label} does not accept the name")

    def rename(node: Node) -> Node:
        for key in node.keys() & {*NAMED_SCHEMAS, "dependentRequired"}:
            node[key] = {names.get(name, name): value for name, value in node[key].items()}
        if "dependentRequired" in node:
            needs = node["dependentRequired"].items()
            node["dependentRequired"] = {name: [names.get(n, n) for n in needed] for name, needed in needs}
        if "required" in node:
            node["required"] = [names.get(name, name) for name in node["required"]]
        return node

    return rewrite(tree, rename), {new: old for old, new in names.items()}


def _takes_any_names(node: Node) -> bool:
    """Return whether objects with names that are not declared may be anywhere in a value."""
    if is_nothing(node) or "enum" in node:
        return False
    types = types_of(node) or ([] if node.keys() & {"allOf", "anyOf", "oneOf"} else TYPES)
    is_open = not is_nothing(node.get("additionalProperties", "properties" not in node))
    has_any_items = is_anything(node.get("items", True))
    return ("object" in types and is_open) or ("array" in types and has_any_items)


# --- dialects that support nearly everything ---------------------------------------------------------------


class _Writer:
    """Writes a schema in a dialect that supports nearly all of JSON Schema."""

    def __init__(self, dialect: Dialect, log: ChangeLog) -> None:
        self.dialect = dialect
        self.log = log

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
            rest = tree.pop("additionalProperties")
            is_same = is_closed or is_anything(rest)
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

    def write(self, node: Any, path: Path) -> Node:
        if isinstance(node, bool):  # an item or property of a flattened schema
            return {} if node else nothing()
        found = map_subschemas(node, path, self.write)
        return self._with_items(self._without_type_list(found, path), path)

    def _without_type_list(self, node: Node, path: Path) -> Node:
        types = _reduce_types(types_of(node))
        if len(types_of(node)) < 2:
            return node
        rest = {key: value for key, value in node.items() if key != "type"}
        if len(types) == 1:
            return {**rest, "type": types[0]}
        if len(types) == len(TYPES):
            self.log.add((*path, "type"), "lists every type, so any value is accepted")
            return rest
        self.log.add((*path, "type"), "several types: written as anyOf")
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
        items = node.get("items")
        if node.get("type") != "array" or isinstance(items, dict):
            return node
        if items is False:
            count = len(node.get("prefixItems", ()))
            self.log.add((*path, "items"), f"no more than {count} items: written as maxItems")
            return {**node, "items": {}, "maxItems": min(node.get("maxItems", count), count)}
        if items is None and "unevaluatedItems" in node:
            return node  # it applies to the same items
        if "prefixItems" not in node:
            self.log.add(path, "items may be any value: written as items")
        return {**node, "items": {}}


def _reduce_types(types: list[str]) -> list[str]:
    """Return types without repetitions, and without integers among numbers."""
    return [name for name in dict.fromkeys(types) if not (name == "integer" and "number" in types)]


# --- dialects that support a subset ------------------------------------------------------------------------

MAX_ALTERNATIVES = 40
"""The number of alternatives that one value may have; more are described in words."""
_UNIONS = ("anyOf", "oneOf")
_ONLY_DESCRIBED = (
    *("if", "not", "contains", "dependentRequired", "dependentSchemas", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
"""Rules that no such provider supports, and that stand for themselves."""
_PARTS_OF_RULES = frozenset({"then", "else", "minContains", "maxContains"})


class _SubsetWriter:
    """Writes one schema in a dialect. `notes` are texts for the description of what is being written."""

    def __init__(self, dialect: Dialect, log: ChangeLog, *, is_closed: bool) -> None:
        self.dialect = dialect
        self.log = log
        self.is_closed = is_closed
        self.parts = 0

    def write_root(self, tree: Node) -> tuple[Node, bool]:
        """Return the schema, and whether the arguments are wrapped."""
        notes: list[str] = []
        try:
            alternatives = self._split(tree, (), notes)
            found = self._write_alternatives(alternatives, tree, (), notes)
        except UnsatisfiableError:
            raise RefusedError("no arguments can satisfy its schema") from None
        if len(alternatives) == 1:
            return {**found, "properties": found.get("properties", {})}, False
        self.log.add((), f"several alternatives at the root: the arguments are wrapped in '{WRAPPER}'")
        root: Node = {"type": "object", "properties": {WRAPPER: found}, "required": [WRAPPER]}
        if self.dialect.closed_objects:
            root["additionalProperties"] = False
        return root, True

    def write(self, node: Node, path: Path) -> Node:
        notes: list[str] = []
        return self._write_alternatives(self._split(node, path, notes), node, path, notes)

    # --- alternatives ---

    def _split(self, node: Node, path: Path, notes: list[str]) -> list[Node]:
        """Return the alternatives of a value, each of one type or any; none where no value is valid."""
        self.parts += 1  # counted, so that a schema cannot grow without bound
        if self.parts > MAX_PARTS:
            raise RefusedError(f"with all its alternatives its schema has more than {MAX_PARTS} parts")
        if is_nothing(node):
            return []
        rules = {key: value for key, value in node.items() if key not in ANNOTATIONS}
        if "enum" in rules:
            by_type = _group_by_type(_valid_values(rules))
            return [{"type": name, "enum": values} for name, values in by_type.items()]
        for keyword in _ONLY_DESCRIBED:
            if keyword in rules:
                self._describe(path, keyword, rules if keyword == "if" else rules[keyword], notes)
        rules = {k: v for k, v in rules.items() if k not in _ONLY_DESCRIBED and k not in _PARTS_OF_RULES}
        unions = [keyword for keyword in _UNIONS if keyword in rules]
        if "allOf" not in rules and not unions:
            return self._split_types(rules, path)
        if len(rules) == len(unions) == 1:
            branches = self._list_branches(rules[unions[0]], (*path, unions[0]), notes)
        else:
            branches = self._combine(rules, path, notes)
        alternatives = []
        for branch in branches:
            inner = notes if len(branches) == 1 else []  # what is said of one alternative belongs to it
            for item in self._split(branch, path, inner):
                found = {**{key: value for key, value in branch.items() if key in ANNOTATIONS}, **item}
                if inner is not notes and inner:
                    found["description"] = append_notes(found.get("description"), inner)
                alternatives.append(found)
        return alternatives

    def _list_branches(self, branches: list[Node], path: Path, notes: list[str]) -> list[Node]:
        """Return the alternatives of a union that has no rules beside it."""
        if len(branches) > MAX_ALTERNATIVES:
            self._describe_union(branches, path, notes)
            return [{}]
        pairs = [(one, other) for number, one in enumerate(branches) for other in branches[number + 1 :]]
        if path[-1] == "oneOf" and not all(are_disjoint(*pair) for pair in pairs):
            self.log.add_loss(path, "exactly one of the alternatives", notes)
        return branches

    def _combine(self, rules: Node, path: Path, notes: list[str]) -> list[Node]:
        """Return the alternatives of unions and `allOf` with the rules beside them."""
        flat = flatten(rules)
        branches: list[Node] = [] if flat is None else flat.get("anyOf", [flat])
        if 0 < len(branches) <= MAX_ALTERNATIVES:
            return branches
        for branch in rules.get("allOf", ()):
            self.log.add_loss((*path, "allOf"), f"also: {show_type(branch)}", notes)
        for keyword in _UNIONS:
            if keyword in rules:
                self._describe_union(rules[keyword], (*path, keyword), notes)
        return [{key: value for key, value in rules.items() if key not in ("allOf", *_UNIONS)}]

    def _describe_union(self, branches: list[Node], path: Path, notes: list[str]) -> None:
        shown = " | ".join(dict.fromkeys(show_type(branch) for branch in branches[:MAX_ALTERNATIVES]))
        self.log.add_loss(path, f"one of these alternatives: {shown}", notes)

    def _split_types(self, node: Node, path: Path) -> list[Node]:
        """Return one schema for each type that a schema without unions accepts."""
        types = _reduce_types(types_of(node))
        if len(types) == len(TYPES) and not node.keys() & TYPE_OF.keys():
            return [{}]
        if not types:
            implied = sorted({TYPE_OF[key] for key in node if key in TYPE_OF and key not in CONTENT})
            if not implied:
                return [node]
            types = implied if len(implied) == 1 else list(TYPES)
            if len(implied) == 1:
                self.log.add(path, f"no type is given; assumed to be {implied[0]}", "narrower")
        return [{"type": name, **rules_for(node, name)} for name in types]

    def _write_alternatives(self, nodes: list[Node], node: Node, path: Path, notes: list[str]) -> Node:
        """Write all alternatives of a value as one schema, with the annotations of the whole `node`."""
        if len(nodes) == 1:
            inner: list[str] = []
            found = self._write_one(nodes[0], path, inner)
            return self._annotate(found, [node, nodes[0]], path, [*notes, *inner])
        written: list[Node] = []
        for alternative in nodes:
            inner = []
            try:
                found = self._annotate(self._write_one(alternative, path, inner), [alternative], path, inner)
            except UnsatisfiableError:
                continue
            # Any value is written as several alternatives.
            written += found["anyOf"] if found.keys() == {"anyOf"} else [found]
        unique = list({identity(found): found for found in written}.values())
        if not unique:
            raise UnsatisfiableError
        found = unique[0] if len(unique) == 1 else {"anyOf": unique}
        return self._annotate(found, [node], path, notes)

    # --- one alternative ---

    def _write_one(self, node: Node, path: Path, notes: list[str]) -> Node:
        if "enum" in node and node["type"] in ("array", "object"):
            self._describe(path, "enum", node["enum"], notes)
            node = {"type": node["type"]}
        match node.get("type"):
            case None:
                return self._write_any(path)
            case "object":
                return self._write_object(node, path, notes)
            case "array":
                return self._write_array(node, path, notes)
        return self._write_scalar(node, path, notes)

    def _write_any(self, path: Path) -> Node:
        if self.dialect.any_value:
            return {}
        if self.dialect.closed_objects:
            raise NotStrictError(f"{pointer(path) or '/'} accepts any value")
        self.log.add(path, "accepts any value; arrays in arrays can have no further arrays", "narrower")
        types: list[Node] = [{"type": name} for name in ("string", "number", "boolean", "object")]
        inner = {"anyOf": [*types, {"type": "null"}]}
        return {"anyOf": [*types, {"type": "array", "items": inner}, {"type": "null"}]}

    def _write_scalar(self, node: Node, path: Path, notes: list[str]) -> Node:
        name = node["type"]
        found: Node = {"type": name}
        if "enum" in node:
            return self._write_enum(found, node["enum"], path, notes)
        for key, value in rules_for(node, name).items():
            if self._supports(key, value, name):
                found.setdefault(key, value)  # an exclusive limit may have set a narrower one
            elif key == "format" and name in ("integer", "number"):
                self.log.add((*path, key), f"format {value}: no effect on numbers")
            elif key in CONTENT:
                self.log.add_note((*path, key), describe_keyword(key, value), notes)
            elif key in ("exclusiveMinimum", "exclusiveMaximum"):
                self._write_exclusive_limit(found, node, key, path, notes)
            else:
                self._describe(path, key, value, notes)
        return found

    def _write_exclusive_limit(self, found: Node, node: Node, key: str, path: Path, notes: list[str]) -> None:
        """Write an exclusive limit for a provider that only has inclusive ones."""
        value = node[key]
        is_minimum = key == "exclusiveMinimum"
        inclusive = "minimum" if is_minimum else "maximum"
        if node["type"] == "integer":
            nearest = math.floor(value) + 1 if is_minimum else math.ceil(value) - 1
            self.log.add((*path, key), f"written as {inclusive}")
        else:
            nearest = value
            self._describe(path, key, value, notes)
        others = [limit for limit in (node.get(inclusive), found.get(inclusive)) if limit is not None]
        found[inclusive] = (max if is_minimum else min)([nearest, *others])

    def _write_enum(self, found: Node, values: list[Any], path: Path, notes: list[str]) -> Node:
        name = found["type"]
        here = (*path, "enum")
        if name == "null" or (name == "boolean" and len(values) == 2):
            return found
        if name in self.dialect.enum_types and (self.dialect.empty_enum_value or "" not in values):
            return {**found, "enum": values}
        if name == "integer":
            least, most = int(min(values)), int(max(values))
            if len(set(values)) == most - least + 1:  # all numbers between them
                self.log.add(here, "written as minimum and maximum")
                return {**found, "minimum": least, "maximum": most}
        self._describe(path, "enum", values, notes)
        return found

    def _write_rules(self, node: Node, found: Node, omitted: set[str], path: Path, notes: list[str]) -> None:
        """Copy the rules for an array or object that the dialect supports, and describe the others."""
        name = node["type"]
        for key, value in rules_for(node, name).items():
            if key in omitted:
                continue
            if self._supports(key, value, name):
                found[key] = value
            else:
                self._describe(path, key, value, notes)

    def _describe(self, path: Path, key: str, value: Any, notes: list[str]) -> None:
        """Log the loss of a rule that goes into the description."""
        self.log.add_loss((*path, key), describe_keyword(key, value), notes)

    def _supports(self, key: str, value: Any, name: str) -> bool:
        """Return whether the dialect has a keyword with this value for a type."""
        if self.dialect.keywords is None or key not in self.dialect.keywords:
            return False
        if key != "format":
            return True
        formats = self.dialect.formats
        is_numeric = value in ("double", "float", "int32", "int64")
        return (formats is None or value in formats) and is_numeric == (name != "string")

    def _write_array(self, node: Node, path: Path, notes: list[str]) -> Node:
        found: Node = {"type": "array"}
        first = node.get("prefixItems")
        count = len(first or ())
        if node.get("items") is False:
            rest = {key: value for key, value in node.items() if key != "items"}
            node = {**rest, "maxItems": min(node.get("maxItems", count), count)}
        items = node.get("items", True)
        if first is not None and not self._supports("prefixItems", first, "array"):
            items, first = self._combine_items(node, path, notes), None
        try:
            found["items"] = self.write({} if isinstance(items, bool) else items, (*path, "items"))
        except UnsatisfiableError:
            found["maxItems"] = min(node.get("maxItems", count), count)
            found["items"] = {"type": "string"}
        if first is not None:
            for number, item in enumerate(first):
                try:
                    written = self.write(item, (*path, "prefixItems", str(number)))
                except UnsatisfiableError:
                    if node.get("minItems", 0) > number:
                        raise
                    found["maxItems"] = min(node.get("maxItems", number), number)  # no array is longer
                    break
                found.setdefault("prefixItems", []).append(written)
        elif "items" not in node:
            self.log.add(path, "items may be any value: written as items")
        self._write_rules(node, found, {"items", "prefixItems", *found}, path, notes)
        return found

    def _combine_items(self, node: Node, path: Path, notes: list[str]) -> Any:
        """Return one schema for all items of an array whose first items have schemas of their own."""
        first = node["prefixItems"]
        is_full = node.get("maxItems", math.inf) <= len(first)
        schemas = first if is_full else [*first, node.get("items", True)]
        schemas = list({identity(item): item for item in schemas}.values())
        here = (*path, "prefixItems")
        if len(schemas) == 1:
            self.log.add(here, "all items have the same schema: written as items")
            return schemas[0]
        self._describe(path, "prefixItems", first, notes)
        if any(is_anything(item) for item in schemas):
            return {}
        return {"anyOf": [item for item in schemas if item is not False]}

    # --- objects ---

    def _write_object(self, node: Node, path: Path, notes: list[str]) -> Node:
        if self.dialect.closed_objects:
            self._check_can_be_closed(node, path)
        found: Node = {"type": "object"}
        written = self._write_properties(node, path)
        if written or "properties" in node:
            found["properties"] = written
        required = node.get("required", ())
        undeclared = [name for name in required if name not in node.get("properties", {})]
        if undeclared:
            self._describe(path, "required", undeclared, notes)
        if self.dialect.closed_objects:
            found["required"] = list(written)
        elif needed := [name for name in required if name not in undeclared]:
            found["required"] = needed
        self._write_other_properties(node, found, path, notes)
        self._write_rules(node, found, {"additionalProperties", "properties", "required"}, path, notes)
        return found

    def _write_properties(self, node: Node, path: Path) -> dict[str, Node]:
        required = node.get("required", ())
        written: dict[str, Node] = {}
        for name, inner in node.get("properties", {}).items():
            here = (*path, "properties", name)
            try:
                schema = self.write(inner, here)
            except UnsatisfiableError:
                if name in required:
                    raise
                is_same = self.dialect.closed_objects
                self.log.add(here, "must not be present: not declared", "same" if is_same else "wider")
                continue
            if self.dialect.closed_objects and name not in required:
                schema = _make_nullable(schema, inner, here)
                self.log.add(here, "optional: null stands for leaving it out")
            written[name] = schema
        return written

    def _check_can_be_closed(self, node: Node, path: Path) -> None:
        """Raise NotStrictError where an object is meant to have properties that cannot be listed."""
        place = pointer(path) or "/"
        rest = node.get("additionalProperties")
        if "patternProperties" in node or (rest is not None and not is_nothing(rest)):
            raise NotStrictError(f"{place} accepts undeclared properties")
        if rest is None and "properties" not in node and not (self.is_closed and not path):
            raise NotStrictError(f"{place} is an object with any properties")
        undeclared = [name for name in node.get("required", ()) if name not in node.get("properties", {})]
        if undeclared:
            raise NotStrictError(f"{place} requires {undeclared[0]!r} and does not declare it")

    def _write_other_properties(self, node: Node, found: Node, path: Path, notes: list[str]) -> None:
        """Write what holds for properties that are not declared."""
        rest = node.get("additionalProperties", True)
        here = (*path, "additionalProperties")
        is_closed_tool = self.is_closed and not path
        if self.dialect.closed_objects:
            found["additionalProperties"] = False
            if rest is True and not is_closed_tool:
                self.log.add(path, "undeclared properties cannot be sent")
        elif self._supports("additionalProperties", rest, "object") and "patternProperties" not in node:
            if isinstance(rest, dict):
                try:
                    found["additionalProperties"] = self.write(rest, here)
                except UnsatisfiableError:
                    found["additionalProperties"] = False
            elif "additionalProperties" in node:
                found["additionalProperties"] = rest
        elif not is_anything(rest):
            is_same = is_nothing(rest) and is_closed_tool
            rule = describe_keyword("additionalProperties", rest)
            self.log.add(here, f"{rule}: not enforced", "same" if is_same else "wider")
            if not is_nothing(rest):
                notes.append(rule)

    # --- annotations ---

    def _annotate(self, found: Node, nodes: list[Node], path: Path, notes: list[str]) -> Node:
        """Add title, description, default and examples of `nodes`, the first that has each."""
        found = dict(found)
        annotations: Node = {}
        for node in reversed(nodes):
            annotations |= {key: value for key, value in node.items() if key in ANNOTATIONS}
        if isinstance(annotations.get("title"), str):
            found["title"] = annotations["title"]
        if "default" in annotations:
            if self.dialect.defaults:
                found["default"] = annotations["default"]
            else:
                text = describe_keyword("default", annotations["default"])
                self.log.add_note((*path, "default"), text, notes)
        if annotations.get("examples"):
            text = describe_keyword("examples", annotations["examples"])
            self.log.add_note((*path, "examples"), text, notes)
        notes += [key for key in ("deprecated", "readOnly", "writeOnly") if annotations.get(key) is True]
        texts = [node["description"] for node in (*nodes, found) if isinstance(node.get("description"), str)]
        if description := append_notes("\n".join(dict.fromkeys(texts)), notes):
            found["description"] = description
        return found


def _valid_values(node: Node) -> list[Any]:
    """Return the values of `enum`, each once, that the other keywords accept."""
    values = list({identity(value): value for value in node["enum"]}.values())
    try:
        is_valid = Validator({key: value for key, value in node.items() if key != "enum"}).is_valid
        return [value for value in values if is_valid(value)]
    except (InvalidSchemaError, ValueError):
        return values  # it cannot be tried, so all stay


def _group_by_type(values: list[Any]) -> dict[str, list[Any]]:
    """Group values by type; integers among other numbers are numbers."""
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(type_of(value), []).append(value)
    if "number" in found and "integer" in found:
        numbers = {*map(identity, found.pop("integer")), *map(identity, found["number"])}
        found["number"] = [value for value in values if identity(value) in numbers]
    return found


def _make_nullable(found: Node, inner: Node, path: Path) -> Node:
    """Return the schema of an optional property, with null for leaving it out."""
    branches = found.get("anyOf", [found])
    if any(branch.get("type") == "null" for branch in branches):
        if "default" in inner and inner["default"] is None:
            return found  # null means the same as leaving it out
        raise NotStrictError(f"{pointer(path)} is nullable and optional, which are not the same")
    annotations: Node = {key: found[key] for key in ("title", "description") if key in found}
    plain = {key: value for key, value in found.items() if key not in annotations}
    return {**annotations, "anyOf": [*plain.get("anyOf", [plain]), {"type": "null"}]}
