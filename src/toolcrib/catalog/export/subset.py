"""Write a schema for providers that support a subset of JSON Schema: OpenAI's strict mode and Gemini.

Every value is written as one type, or as `anyOf` of such with nothing beside it. A rule that the provider
does not support goes into the description, where the model still reads it, and is logged as a loss.
"""

from __future__ import annotations

import math
from typing import Any

from toolcrib.catalog.export.decode import WRAPPER, ValueDecoder, map_properties
from toolcrib.catalog.export.describe import append_notes, describe_condition, describe_keyword, show_type
from toolcrib.catalog.export.dialect import Dialect
from toolcrib.catalog.export.schema import LOGIC, MAX_PARTS, TYPE_OF, rules_for, simplify
from toolcrib.catalog.export.verdict import (
    ChangeLog,
    NotStrictError,
    Path,
    RefusedError,
    UnsatisfiableError,
    pointer,
)
from toolcrib.catalog.schema_merge import (
    ANNOTATIONS,
    CONTENT,
    TYPES,
    Node,
    are_disjoint,
    identity,
    is_anything,
    is_nothing,
    merge,
    type_of,
    types_of,
)

MAX_ALTERNATIVES = 40
"""The number of alternatives that one value may have; more are described in words."""
_UNIONS = ("anyOf", "oneOf")

Written = tuple[Node, ValueDecoder | None]


class SubsetWriter:
    """Writes one schema in a dialect. `notes` are texts for the description of what is being written."""

    def __init__(self, dialect: Dialect, log: ChangeLog, *, is_closed: bool) -> None:
        self.dialect = dialect
        self.log = log
        self.is_closed = is_closed
        self.parts = 0

    def write_root(self, tree: Node) -> tuple[Node, ValueDecoder | None, bool]:
        """Return the schema, how to decode arguments, and whether they are wrapped."""
        notes: list[str] = []
        try:
            alternatives = self._split(tree, (), notes)
            found, decoder = self._write_alternatives(alternatives, tree, (), notes)
        except UnsatisfiableError:
            raise RefusedError("no arguments can satisfy its schema") from None
        if len(alternatives) == 1:
            return {**found, "properties": found.get("properties", {})}, decoder, False
        self.log.add((), f"several alternatives at the root: the arguments are wrapped in '{WRAPPER}'")
        root: Node = {"type": "object", "properties": {WRAPPER: found}, "required": [WRAPPER]}
        if self.dialect.closed_objects:
            root["additionalProperties"] = False
        return root, decoder, True

    def write(self, node: Node, path: Path) -> Written:
        notes: list[str] = []
        return self._write_alternatives(self._split(node, path, notes), node, path, notes)

    # --- alternatives ---

    def _split(self, node: Node, path: Path, notes: list[str]) -> list[Node]:
        """Return the alternatives of a value, each of one type or any; none where no value is valid."""
        self.parts += 1  # counted, so that a schema cannot grow without bound
        if self.parts > MAX_PARTS:
            raise RefusedError(f"with all its alternatives its schema has more than {MAX_PARTS} parts")
        base = {
            key: value
            for key, value in node.items()
            if key not in ANNOTATIONS and key not in ("allOf", *_UNIONS)
        }
        for branch in node.get("allOf", ()):
            self.log.add_loss((*path, "allOf"), f"also: {show_type(branch)}", notes)
        found = [base]
        for keyword in _UNIONS:
            if keyword in node:
                found = self._multiply(found, node[keyword], (*path, keyword), notes)
        if found == [base]:
            return self._split_types(base, path)
        return [
            item
            for alternative in found
            for item in (
                self._split(alternative, path, notes)
                if alternative.keys() & {"allOf", *_UNIONS}
                else self._split_types(alternative, path)
            )
        ]

    def _multiply(self, nodes: list[Node], branches: list[Node], path: Path, notes: list[str]) -> list[Node]:
        """Merge every node with every branch of a union."""
        found: list[Node] = []
        for node in nodes:
            merged = [merge(node, branch) for branch in branches]
            if None in merged or len(found) + len(merged) > MAX_ALTERNATIVES:
                shown = " | ".join(dict.fromkeys(show_type(branch) for branch in branches[:MAX_ALTERNATIVES]))
                self.log.add_loss(path, f"one of these alternatives: {shown}", notes)
                return nodes
            simple = [simplify(item, path, ChangeLog()) for item in merged if item is not None]
            simple = [item for item in simple if not is_nothing(item)]
            pairs = [(one, other) for number, one in enumerate(simple) for other in simple[number + 1 :]]
            if path[-1] == "oneOf" and not all(are_disjoint(*pair) for pair in pairs):
                self.log.add_loss(path, "exactly one of the alternatives", notes)
            found.extend(simple)
        return found

    def _split_types(self, node: Node, path: Path) -> list[Node]:
        """Return one schema for each type that a schema without unions accepts."""
        annotations = {key: value for key, value in node.items() if key in ANNOTATIONS}
        if "enum" in node:
            by_type = _group_by_type(node["enum"])
            return [{"type": name, "enum": values, **annotations} for name, values in by_type.items()]
        types = types_of(node)
        if not types:
            implied = sorted({TYPE_OF[key] for key in node if key in TYPE_OF and key not in CONTENT})
            if not implied:
                return [node]
            types = implied if len(implied) == 1 else list(TYPES)
            if len(implied) == 1:
                self.log.add(path, f"no type is given; assumed to be {implied[0]}", "narrower")
        logic = {key: value for key, value in node.items() if key in LOGIC}
        return [{"type": name, **rules_for(node, name), **logic, **annotations} for name in types]

    def _write_alternatives(self, nodes: list[Node], node: Node, path: Path, notes: list[str]) -> Written:
        """Write all alternatives of a value as one schema, with the annotations of the whole `node`."""
        if len(nodes) == 1:
            inner: list[str] = []
            found, decoder = self._write_one(nodes[0], path, inner)
            return self._annotate(found, [node, nodes[0]], path, [*notes, *inner]), decoder
        written: dict[Any, Written] = {}
        for alternative in nodes:
            inner = []
            try:
                found, decoder = self._write_one(alternative, path, inner)
            except UnsatisfiableError:
                continue
            found = self._annotate(found, [alternative], path, inner)
            written.setdefault(identity(found), (found, decoder))
        if not written:
            raise UnsatisfiableError
        if len(written) == 1:
            ((found, decoder),) = written.values()
            return self._annotate(found, [node], path, notes), decoder
        flat: list[Written] = []
        for found, decoder in written.values():
            if found.keys() == {"anyOf"}:  # any value is written as several alternatives
                flat.extend((branch, None) for branch in found["anyOf"])
            else:
                flat.append((found, decoder))
        decoder = ValueDecoder(alternatives=tuple(flat)).or_none()
        return self._annotate({"anyOf": [found for found, _ in flat]}, [node], path, notes), decoder

    # --- one alternative ---

    def _write_one(self, node: Node, path: Path, notes: list[str]) -> Written:
        if "if" in node:
            self.log.add_loss((*path, "if"), describe_condition(node), notes)
        if "not" in node:
            self._describe(path, "not", node["not"], notes)
        if "enum" in node and node["type"] in ("array", "object"):
            self._describe(path, "enum", node["enum"], notes)
            node = {"type": node["type"]}
        match node.get("type"):
            case None:
                return self._write_any(path), None
            case "object":
                return self._write_object(node, path, notes)
            case "array":
                return self._write_array(node, path, notes)
        return self._write_scalar(node, path, notes), None

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

    def _write_array(self, node: Node, path: Path, notes: list[str]) -> Written:
        found: Node = {"type": "array"}
        decoder = ValueDecoder()
        items = node.get("items", True)
        first = node.get("prefixItems")
        if first is not None and not self._supports("prefixItems", first, "array"):
            items, first = self._combine_items(node, path, notes), None
        count = len(first or ())
        if items is False:
            found["maxItems"] = min(node.get("maxItems", count), count)
        try:
            found["items"], decoder.items = self.write(
                {} if isinstance(items, bool) else items, (*path, "items")
            )
        except UnsatisfiableError:
            found["maxItems"] = min(node.get("maxItems", count), count)
            found["items"], decoder.items = self.write({"type": "string"}, path)
        if first is not None:
            written = [self.write(item, (*path, "prefixItems", str(n))) for n, item in enumerate(first)]
            found["prefixItems"] = [item for item, _ in written]
            decoder.first_items = tuple(item for _, item in written)
        elif "items" not in node:
            self.log.add(path, "items may be any value: written as items")
        omitted = {"items", "prefixItems", "minContains", "maxContains", *found}
        self._write_rules(node, found, omitted, path, notes)
        return found, decoder.or_none()

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
        return simplify({"anyOf": [item for item in schemas if item is not False]}, path, ChangeLog())

    # --- objects ---

    def _write_object(self, node: Node, path: Path, notes: list[str]) -> Written:
        if self.dialect.closed_objects:
            self._check_can_be_closed(node, path)
        properties = node.get("properties", {})
        required = list(node.get("required", ()))
        names = map_properties(properties, self.dialect.property_name, always_digest=False)
        decoder = ValueDecoder(names={new: old for old, new in names.items() if new != old})
        found: Node = {"type": "object"}
        written = self._write_properties(node, names, decoder, path)
        if written or "properties" in node:
            found["properties"] = written
        undeclared = [name for name in required if name not in properties]
        if undeclared:
            self._describe(path, "required", undeclared, notes)
        if self.dialect.closed_objects:
            found["required"] = list(written)
        elif needed := [names[name] for name in required if name in names]:
            found["required"] = needed
        self._write_other_properties(node, found, decoder, path, notes)
        self._write_rules(node, found, {"additionalProperties", "properties", "required"}, path, notes)
        return found, decoder.or_none()

    def _write_properties(
        self, node: Node, names: dict[str, str], decoder: ValueDecoder, path: Path
    ) -> dict[str, Node]:
        required = node.get("required", ())
        written: dict[str, Node] = {}
        optional = []
        for name, inner in node.get("properties", {}).items():
            here = (*path, "properties", name)
            exported = names[name]
            try:
                if is_nothing(inner):
                    raise UnsatisfiableError
                schema, inner_decoder = self.write(inner, here)
            except UnsatisfiableError:
                if name in required:
                    raise
                self._omit_property(node, here)
                continue
            if exported != name:
                self.log.add(here, f"renamed to {exported!r}: {self.dialect.label} does not accept the name")
            if self.dialect.closed_objects and name not in required:
                schema = _make_nullable(schema, inner, here)
                optional.append(exported)
                self.log.add(here, "optional: null stands for leaving it out")
            written[exported] = schema
            if inner_decoder is not None:
                decoder.properties[exported] = inner_decoder
        decoder.null_if_absent = frozenset(optional)
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

    def _omit_property(self, node: Node, path: Path) -> None:
        """Log that a property which must not be there is not declared."""
        is_closed = is_nothing(node.get("additionalProperties", True)) and self._supports(
            "additionalProperties", False, "object"
        )
        is_same = self.dialect.closed_objects or is_closed
        self.log.add(path, "must not be present: not declared", "same" if is_same else "wider")

    def _write_other_properties(
        self, node: Node, found: Node, decoder: ValueDecoder, path: Path, notes: list[str]
    ) -> None:
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
                    found["additionalProperties"], decoder.other_properties = self.write(rest, here)
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
