"""Write a tool's input schema in the JSON Schema of a provider, and decode the arguments of calls.

References are expanded, lists of types become `anyOf`, arrays get `items`, and a root that a provider rejects
is wrapped. A rule that a provider does not support goes into the description, where the model still reads it,
and is noted as lost; the tool itself enforces it all the same.

An export may have to wrap the arguments, to rename properties, or to ask for null where something is
optional: `ArgumentDecoder` undoes that. Whether the arguments are valid is checked by the tool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.schemas import (
    ANNOTATIONS,
    CONTENT,
    TYPES,
    ExpansionError,
    Node,
    are_disjoint,
    expand,
    identity,
    is_anything,
    is_nothing,
    nothing,
    rules_for,
    type_of,
    types_of,
)
from toolcrib.errors import InvalidSchemaError
from toolcrib.names import shorten_name
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import NAMED_SCHEMAS, Path, map_subschemas, pointer, rewrite, walk
from toolcrib.validation.validator import Validator

MAX_NAME = 64
TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""The names that every provider accepts. Gemini requires a letter or underscore first."""
WRAPPER = "arguments"
"""The property that arguments are wrapped in if a provider does not support the root of their schema."""
_DIGEST_LENGTH = 8
PLAIN_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
ANY_NAME = re.compile(".*", re.DOTALL)
MAX_BYTES = 512 * 1024
"""The size of one exported schema; no provider accepts so much."""
_MAX_SHOWN = 300
_NOT_AT_ROOT = frozenset({"allOf", "anyOf", "enum", "not", "oneOf"})
_RULES = frozenset({"format", "maxLength", "maxProperties", "minLength", "minProperties", "uniqueItems"})
"""Rules that strict mode may lack; a schema with any other unsupported keyword is not strict."""
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})


class SkippedError(Exception):
    """A tool that cannot be exported in a format; the text says why."""


class NotStrictError(Exception):
    """A schema that has no strict form; the text says why."""


@dataclass(frozen=True)
class Dialect:
    """One provider's JSON Schema. None means everything. With `root_keywords` there are no annotations
    at the root. `closed` means that every object is closed and lists all its properties as required, those
    that are optional being nullable."""

    keywords: frozenset[str] | None = None
    root_keywords: frozenset[str] | None = None
    property_name: re.Pattern[str] = ANY_NAME
    formats: frozenset[str] | None = None
    enum_types: frozenset[str] | None = None
    closed: bool = False


@dataclass(frozen=True)
class Rewritten:
    """A schema for a provider. `notes` name lost rules, `description` belongs to the tool's description."""

    schema: Node
    decoder: ArgumentDecoder
    notes: tuple[str, ...] = ()
    description: str = ""


def rewrite_schema(schema: Mapping[str, Any], dialect: Dialect, *, is_closed: bool = False) -> Rewritten:
    """Return a schema in a dialect.

    `is_closed` says that the tool rejects undeclared arguments, whatever its schema says. Raise SkippedError
    if the dialect has no form for it, NotStrictError if only strict mode has none.
    """
    try:
        expanded = expand(dict(schema))
    except ExpansionError as error:
        raise SkippedError(str(error)) from None
    tree, names = _rename_properties(expanded.tree, dialect)
    writer = _Writer(dialect, is_closed)
    for path, name in expanded.cuts:
        level = f"level {expanded.levels + 1}"
        writer.note(path, f"{name!r} contains itself: from {level} on any value is accepted")
    root = writer.write(tree, ())
    description = ""
    if dialect.root_keywords is not None:
        description = str(root.get("description", ""))
        root = {key: value for key, value in root.items() if key not in ANNOTATIONS}
        rest = root.get("additionalProperties", True)
        if is_anything(rest) or is_nothing(rest):
            root.pop("additionalProperties", None)
            if is_nothing(rest) and not is_closed:
                writer.note((), "additionalProperties: left out")
    rejected = _NOT_AT_ROOT if dialect.root_keywords is None else root.keys() - dialect.root_keywords
    is_wrapped = bool(root.keys() & rejected)
    if is_wrapped:
        root = {"type": "object", "properties": {WRAPPER: root}, "required": [WRAPPER]}
        if dialect.closed:
            root["additionalProperties"] = False
    root = {"type": "object", **root, "properties": root.get("properties", {})}
    if len(codec.write(root)) > MAX_BYTES:
        raise SkippedError(f"its schema has more than {MAX_BYTES // 1024} KiB")
    decoder = ArgumentDecoder(expanded.tree if dialect.closed else None, is_wrapped, names)
    return Rewritten(root, decoder, tuple(writer.notes), description)


def _rename_properties(tree: Node, dialect: Dialect) -> tuple[Node, dict[str, str]]:
    """Rename the properties that a provider does not accept; also return the new names with the old ones."""
    nodes = [node for _, node in walk(tree)]
    declared = dict.fromkeys(name for node in nodes for name in node.get("properties", ()))
    # With a digest, a new name is not mistaken for an undeclared one.
    is_open = any(_takes_any_names(dict(node)) for node in nodes)
    mapped = map_names(declared, dialect.property_name, always_digest=is_open)
    names = {old: new for old, new in mapped.items() if old != new}
    if not names:
        return tree, {}
    has_rules = any(node.keys() & {"patternProperties", "propertyNames"} for node in nodes)
    has_objects = any(isinstance(value, dict | list) for node in nodes for value in node.get("enum", ()))
    if has_rules or has_objects:
        raise SkippedError(
            f"the property name {next(iter(names))!r} is not accepted, and other rules need it"
        )

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
    return ("object" in types and is_open) or ("array" in types and is_anything(node.get("items", True)))


class _Writer:
    """Writes one schema in a dialect, and collects notes about lost rules."""

    def __init__(self, dialect: Dialect, is_closed: bool) -> None:
        self.dialect = dialect
        self.is_closed = is_closed
        self.notes: dict[str, None] = {}

    def note(self, path: Path, text: str) -> None:
        self.notes[f"{pointer(path) or '/'}: {text}"] = None

    def write(self, node: Any, path: Path) -> Node:
        if isinstance(node, bool):
            return {} if node else nothing()
        written = _split_types(map_subschemas(node, path, self.write))
        alternatives = written.get("anyOf", ())
        if "anyOf" in written and "anyOf" not in node:  # one for each type
            written["anyOf"] = [self._finish(part, node, path) for part in alternatives]
        return self._finish(written, node, path)

    def _finish(self, node: Node, original: Node, path: Path) -> Node:
        """Return a schema whose parts are written as the dialect has it."""
        if self.dialect.closed:
            self._check_strict(node, path)
            if node.get("type") == "object":
                node = self._close(node, original, path)
        if self.dialect.keywords is not None:
            node = self._restrict(node, self.dialect.keywords, path)
        if node.get("type") == "array" and not isinstance(node.get("items"), dict):
            node = self._add_items(node, path)
        return node

    def _restrict(self, node: Node, keywords: frozenset[str], path: Path) -> Node:
        """Move unsupported keywords into the description."""
        found: Node = {}
        lost: list[str] = []
        if "oneOf" in node and "anyOf" not in node:
            branches = node["oneOf"]
            node = {**{key: value for key, value in node.items() if key != "oneOf"}, "anyOf": branches}
            pairs = [(one, other) for number, one in enumerate(branches) for other in branches[number + 1 :]]
            if not all(are_disjoint(*pair) for pair in pairs):
                lost.append("exactly one of the alternatives")
                self.note(path, "oneOf: only in the description")
        for key, value in node.items():
            if self._supports(key, value, keywords):
                found[key] = value
            elif not (key == "additionalProperties" and is_anything(value)):
                shown = codec.encode_text(value)
                lost.append(f"{key}: {shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + '...'}")
                if key not in ANNOTATIONS | CONTENT:
                    self.note(path, f"{key}: only in the description")
        if "patternProperties" in node:
            found.pop("additionalProperties", None)  # it would reject those properties
        if lost:
            text, added = str(node.get("description", "")).rstrip(), "; ".join(lost)
            found["description"] = f"{text} ({added})" if text else f"{added[0].upper()}{added[1:]}"
        return found

    def _supports(self, key: str, value: Any, keywords: frozenset[str]) -> bool:
        if key == "enum" and self.dialect.enum_types is not None:
            return all(type_of(item) in self.dialect.enum_types and item != "" for item in value)
        if key == "format" and self.dialect.formats is not None:
            return value in self.dialect.formats
        return key in keywords

    def _add_items(self, node: Node, path: Path) -> Node:
        """Add `items` to an array: providers reject arrays without."""
        if node.get("items") is False:
            count = len(node.get("prefixItems", ()))
            return {**node, "items": {}, "maxItems": min(node.get("maxItems", count), count)}
        if "items" not in node and "unevaluatedItems" in node:
            return node  # it applies to the same items
        if self.dialect.closed:
            raise NotStrictError(f"{pointer((*path, 'items'))} accepts any value")
        return {**node, "items": {}}

    # --- strict mode ---

    def _check_strict(self, node: Node, path: Path) -> None:
        """Raise NotStrictError for a part that strict mode has no form for."""
        place = pointer(path) or "/"
        if "type" not in node and not node.keys() & {"anyOf", "oneOf"}:
            raise NotStrictError(
                f"{place} accepts any value" if is_anything(node) else f"{place} has no type"
            )
        known = _RULES | ANNOTATIONS | CONTENT | (self.dialect.keywords or frozenset()) | {"oneOf"}
        if other := sorted(node.keys() - known):
            raise NotStrictError(f"{place} has {other[0]}")
        if node.keys() & {"anyOf", "oneOf"} and node.keys() - ANNOTATIONS - {"anyOf", "oneOf"}:
            raise NotStrictError(f"{place} has rules beside alternatives")

    def _close(self, node: Node, original: Node, path: Path) -> Node:
        """Return an object that lists all its properties, or raise NotStrictError."""
        place = pointer(path) or "/"
        rest, declared = node.get("additionalProperties"), node.get("properties", {})
        if rest is not None and not is_nothing(rest):
            raise NotStrictError(f"{place} accepts undeclared properties")
        if rest is None and "properties" not in node and not (self.is_closed and not path):
            raise NotStrictError(f"{place} is an object with any properties")
        required = node.get("required", ())
        if undeclared := [name for name in required if name not in declared]:
            raise NotStrictError(f"{place} requires {undeclared[0]!r} and does not declare it")
        written = dict(declared)
        for name, schema in declared.items():
            if name not in required:
                here = pointer((*path, "properties", name))
                written[name] = _make_nullable(schema, original["properties"][name], here)
        return {**node, "properties": written, "required": list(written), "additionalProperties": False}


def _make_nullable(schema: Node, original: Any, place: str) -> Node:
    """Return the schema of an optional property, with null for leaving it out."""
    branches = schema.get("anyOf", [schema])
    if any(branch.get("type") == "null" for branch in branches):
        if isinstance(original, dict) and original.get("default", "") is None:
            return schema  # null means the same as leaving it out
        raise NotStrictError(f"{place} is nullable and optional, which are not the same")
    annotations: Node = {key: schema[key] for key in ("title", "description") if key in schema}
    plain = {key: value for key, value in schema.items() if key not in annotations}
    return {**annotations, "anyOf": [*plain.get("anyOf", [plain]), {"type": "null"}]}


# --- one type each -----------------------------------------------------------------------------------------


def _split_types(node: Node) -> Node:
    """Return a schema with one type, or with `anyOf` of such."""
    types = [
        name for name in dict.fromkeys(types_of(node)) if name != "integer" or "number" not in types_of(node)
    ]
    if "enum" in node:
        groups = _group_by_type(node["enum"], types)
        if not groups:
            return nothing()
        branches: list[Node] = [{"type": name, "enum": values} for name, values in groups.items()]
        branches = [{"type": "null"} if branch["type"] == "null" else branch for branch in branches]
    elif len(types) == len(TYPES):
        return {key: value for key, value in node.items() if key != "type"}
    elif types:
        branches = [{"type": name} for name in types]
    else:
        return node
    if not node.keys() & _UNEVALUATED:
        branches = [{**rules_for(node, branch["type"]), **branch} for branch in branches]
    moved = {"type", "enum", *(key for branch in branches for key in branch)}
    kept = {key: value for key, value in node.items() if key not in moved}
    if len(branches) == 1:
        return {**branches[0], **kept}
    if "anyOf" in kept:
        return {**kept, "allOf": [*kept.get("allOf", ()), {"anyOf": branches}]}
    return {**kept, "anyOf": branches}


def _group_by_type(values: list[Any], types: list[str]) -> dict[str, list[Any]]:
    """Group values of certain types, or of any; integers among other numbers are numbers."""
    found: dict[str, list[Any]] = {}
    unique = list({identity(value): value for value in values}.values())
    kinds = [type_of(value) for value in unique]
    for value, kind in zip(unique, kinds, strict=True):
        name = "number" if kind == "integer" and ("number" in types or "number" in kinds) else kind
        if not types or name in types:
            found.setdefault(name, []).append(value)
    return found


# --- reading calls back: names and arguments ---------------------------------------------------------------


def map_names(
    names: Iterable[str], pattern: re.Pattern[str] = TOOL_NAME, *, always_digest: bool = False
) -> dict[str, str]:
    """Map names of tools or properties to unique ones that match a provider's pattern.

    A name that is accepted stays, whatever else is exported. Another is written with the accepted
    characters; if that could be another name, or is too long, it ends in a digest of the whole name. With
    `always_digest` every changed name does, so that nothing else is called like it.
    """
    wanted = list(dict.fromkeys(names))
    found = {name: name for name in wanted if pattern.fullmatch(name)}
    taken = set(found)
    drafts: dict[str, str] = {}
    for name in sorted(wanted):
        if name not in found:
            text = "".join(letter if pattern.fullmatch(f"_{letter}") else "_" for letter in name)
            drafts[name] = text if text and pattern.match(text) else f"_{text}"
    uses = Counter(drafts.values())
    for name, draft in drafts.items():
        text = shorten_name(name, MAX_NAME) if draft == name else draft
        is_usable = pattern.fullmatch(text) and any(map(str.isalnum, text)) and uses[draft] == 1
        if always_digest or not is_usable or text in taken:
            text = _with_digest(draft, name, taken)
        found[name] = text
        taken.add(text)
    return {name: found[name] for name in wanted}


def _with_digest(text: str, name: str, taken: Iterable[str]) -> str:
    """Return the text with a digest of the name, longer if somebody forged the same one."""
    digest = codec.digest(name)
    stem = text if any(map(str.isalnum, text)) else "name"
    for length in range(_DIGEST_LENGTH, MAX_NAME // 2):
        found = f"{stem[: MAX_NAME - length - 1]}_{digest[:length]}"
        if found not in taken:
            return found
    raise AssertionError("a digest has more digits than names can clash in")  # pragma: no cover


@dataclass(frozen=True, slots=True)
class ArgumentDecoder:
    """Decodes the arguments of one tool. `renamed` maps names in the export to the tool's names.

    `tree` is the tool's schema without references, in which null may mean that a property is left out.
    """

    tree: Node | None = None
    is_wrapped: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)

    def decode(self, arguments: dict[str, Any]) -> dict[str, Any]:
        value = arguments
        if self.is_wrapped and isinstance(arguments.get(WRAPPER), dict) and len(arguments) == 1:
            value = arguments[WRAPPER]  # a model that did not wrap them is understood too
        if self.renamed:
            value = self._rename(value)
        found = value if self.tree is None else _drop_nulls(value, self.tree)
        return found if isinstance(found, dict) else arguments

    def _rename(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.renamed.get(name, name): self._rename(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._rename(item) for item in value]
        return value


def _drop_nulls(value: Any, node: Any) -> Any:
    """Return a value without the nulls for properties that cannot be null."""
    if not isinstance(node, dict):
        return value
    if isinstance(value, dict):
        properties = node.get("properties", {})
        value = {
            name: _drop_nulls(item, properties.get(name))
            for name, item in value.items()
            if item is not None or _accepts(properties.get(name, True), None)
        }
    elif isinstance(value, list):
        schemas = [*node.get("prefixItems", ()), *[node.get("items")] * len(value)]
        value = [_drop_nulls(item, schema) for item, schema in zip(value, schemas, strict=False)]
    for part in node.get("allOf", ()):
        value = _drop_nulls(value, part)
    for keyword in ("anyOf", "oneOf"):
        branches = [(branch, _drop_nulls(value, branch)) for branch in node.get(keyword, ())]
        value = next((found for branch, found in branches if _accepts(branch, found)), value)
    return value


def _accepts(schema: Any, value: Any) -> bool:
    if isinstance(schema, bool):
        return schema
    try:
        return bool(Validator(schema).is_valid(value))
    except InvalidSchemaError:
        return True
