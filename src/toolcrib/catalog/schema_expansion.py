"""A schema as one tree without references, in the vocabulary of 2020-12, with `allOf` merged where possible.

expand({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}).tree
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.schema_algebra import ANNOTATIONS, CONTENT, Node, flatten, nothing
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import LISTED_SCHEMAS, SINGLE_SCHEMAS, Resolver

Path = tuple[str, ...]
NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords whose value maps names to schemas, in 2020-12 and without definitions."""
BOOLEAN_SCHEMAS = frozenset({"additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords whose value stays true or false where it is that."""
KEYWORDS_OF: Mapping[str, frozenset[str]] = {
    "string": CONTENT | {"format", "maxLength", "minLength", "pattern"},
    "number": frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"}),
    "array": frozenset(
        {
            "contains",
            "items",
            "maxContains",
            "maxItems",
            "minContains",
            "minItems",
            "prefixItems",
            "unevaluatedItems",
            "uniqueItems",
        }
    ),
    "object": frozenset(
        {
            "additionalProperties",
            "dependentRequired",
            "dependentSchemas",
            "maxProperties",
            "minProperties",
            "patternProperties",
            "properties",
            "propertyNames",
            "required",
            "unevaluatedProperties",
        }
    ),
}
"""Keywords that apply to values of one type only. (A `format` can apply to numbers too.)"""
TYPE_OF = {keyword: name for name, keywords in KEYWORDS_OF.items() for keyword in keywords}
_LOGIC = frozenset({"allOf", "anyOf", "else", "if", "not", "oneOf", "then"})
_OPEN_LIMITS = frozenset({"minItems", "minLength", "minProperties", "uniqueItems"})
"""Keywords that have no effect where they are 0 or false."""
_KNOWN = frozenset(TYPE_OF) | _LOGIC | ANNOTATIONS | {"enum", "type"}


def rules_for(node: Node, name: str) -> Node:
    """Return the keywords of a schema that apply to values of one type, except logic and `enum`."""
    keywords = KEYWORDS_OF.get("number" if name == "integer" else name, frozenset())
    is_number = name in ("integer", "number")
    return {k: value for k, value in node.items() if k in keywords or (k == "format" and is_number)}


def map_subschemas(node: Node, path: Path, change: Callable[[Any, Path], Any]) -> Node:
    """Return a schema with `change(subschema, path)` for each of its subschemas."""
    found: Node = {}
    for key, value in node.items():
        here = (*path, key)
        if key in NAMED_SCHEMAS and isinstance(value, dict):
            found[key] = {name: change(item, (*here, name)) for name, item in value.items()}
        elif key in LISTED_SCHEMAS and isinstance(value, list):
            found[key] = [change(item, (*here, str(number))) for number, item in enumerate(value)]
        elif key in SINGLE_SCHEMAS and not (isinstance(value, bool) and key in BOOLEAN_SCHEMAS):
            found[key] = change(value, here)
        else:
            found[key] = value
    return found


def pointer(path: Path) -> str:
    """Return a path as a JSON pointer."""
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)


# --- references and drafts ---------------------------------------------------------------------------------

MAX_PARTS = 4_000
"""The number of subschemas that a schema may have when its references are expanded."""
_MAX_DEPTH = 48
_LEVELS = (3, 2, 1)
"""Levels of recursion that are expanded: the first of these that stays within bounds."""


class ExpansionError(Exception):
    """A schema that cannot be expanded; the text says why."""


class _TooLargeError(Exception):
    pass


@dataclass(slots=True)
class Expansion:
    """An expanded schema. `cuts` are the places where recursion ends, after `levels` of it, with the name of
    what contains itself; `notes` say what else was changed."""

    levels: int
    tree: Node = field(default_factory=dict)
    cuts: list[tuple[Path, str]] = field(default_factory=list)
    notes: list[tuple[Path, str]] = field(default_factory=list)


def expand(schema: Any, levels: tuple[int, ...] = _LEVELS, mark: str = "") -> Expansion:
    """Expand a schema. Where recursion ends, any value is valid; or, with a `mark`, only a text that consists
    of the mark and the path where what contains itself begins.

    Raise ExpansionError where references cannot be followed, or the schema would grow too large.
    """
    try:
        plain = codec.decode(codec.encode(schema))
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ExpansionError(f"its schema is not JSON: {error}") from None
    for number in levels:
        expander = _Expander(plain, Expansion(number), mark)
        try:
            expander.result.tree = expander.expand(plain, (), (("#", ()),))
        except _TooLargeError:
            if not expander.is_recursive:
                break
            continue
        return expander.result
    raise ExpansionError(
        f"without references its schema has more than {MAX_PARTS} parts, or more than {_MAX_DEPTH} levels"
    )


class _Expander:
    """One pass over a schema that expands recursive definitions to a number of levels."""

    def __init__(self, root: Any, result: Expansion, mark: str) -> None:
        top = root if isinstance(root, dict) else {}
        self.resolver = Resolver(top)
        self.result = result
        self.mark = mark
        self.parts = 0
        self.is_recursive = False
        self.is_old_draft = "draft-0" in str(top.get("$schema"))
        # With these, a merged part may no longer evaluate the same properties.
        self.can_merge = b'"unevaluated' not in codec.encode(root)

    def expand(self, node: Any, path: Path, inside: tuple[tuple[str, Path], ...]) -> Node:
        """`inside` are the references that led here, and where each was."""
        if isinstance(node, bool):
            return {} if node else nothing()
        if not isinstance(node, dict):
            raise ExpansionError(f"{pointer(path) or 'the root'} is not a schema")
        self.parts += 1
        if self.parts > MAX_PARTS or len(path) > _MAX_DEPTH * 2:
            raise _TooLargeError
        reference = node.get("$ref")
        if isinstance(reference, str) and self.is_old_draft:  # other keywords are ignored beside it
            node = {key: value for key, value in node.items() if key in ANNOTATIONS}
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in node:
                place = pointer((*path, keyword))
                raise ExpansionError(f"{place} depends on where it is used; only $ref is followed")
        values = self._modernize(node)
        unknown = [key for key in values if key not in _KNOWN]
        if extra := sorted(key for key in unknown if key[0:1] != "$" and key not in ("definitions", "id")):
            self.result.notes.append((path, f"{', '.join(extra)}: not a keyword of JSON Schema, left out"))
        known = {key: value for key, value in values.items() if key in _KNOWN}
        found = map_subschemas(known, path, lambda inner, here: self.expand(inner, here, inside))
        if isinstance(reference, str):
            target = self._follow(reference, path, inside)
            found = {**found, "allOf": [*found.get("allOf", ()), target]}
        return self._merge(found, path) if "allOf" in found else found

    def _merge(self, node: Node, path: Path) -> Node:
        """Merge `allOf` into the schema, where that gives one plain schema."""
        parts = node["allOf"]
        if len(parts) == 1 and not node.keys() - ANNOTATIONS - {"allOf"}:
            return {**parts[0], **{key: value for key, value in node.items() if key != "allOf"}}
        has_mark = self.mark and self.mark.encode() in codec.encode(node)
        merged = flatten(node) if self.can_merge and not has_mark else None
        if merged is None or "anyOf" in merged or merged.get("not", {}) != {}:
            return node
        self.result.notes.append(((*path, "allOf"), "merged into the schema around it"))
        return merged

    def _follow(self, reference: str, path: Path, inside: tuple[tuple[str, Path], ...]) -> Node:
        if reference.startswith("#") and not reference.startswith("#/") and reference != "#":
            raise ExpansionError(
                f"{pointer(path)} refers to the anchor {reference[:80]!r}; only pointers are followed"
            )
        starts = [start for followed, start in inside if followed == reference]
        self.is_recursive |= bool(starts)
        if len(starts) >= self.result.levels:
            name = reference.rpartition("/")[2].lstrip("#") or "the schema"
            self.result.cuts.append((path, name))
            return {"enum": [f"{self.mark}{starts[-1]}"]} if self.mark else {}
        try:
            target = self.resolver.resolve(reference)
        except InvalidSchemaError as error:
            raise ExpansionError(f"{pointer(path) or 'the root'}: {error}") from None
        return self.expand(target, path, (*inside, (reference, path)))

    def _modernize(self, node: Node) -> Node:
        """Return a schema of an older draft in the vocabulary of 2020-12, with `enum` instead of `const`."""
        node = {key: value for key, value in node.items() if key not in _OPEN_LIMITS or value}
        if isinstance(node.get("items"), list):
            node["prefixItems"] = node.pop("items")
            if "additionalItems" in node:
                node["items"] = node.pop("additionalItems")
        node.pop("additionalItems", None)
        if self.is_old_draft and isinstance(node.get("dependencies"), dict):
            for name, value in node.pop("dependencies").items():
                keyword = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
                node.setdefault(keyword, {})[name] = value
        for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and limit in node:
                node[exclusive] = node.pop(limit)
        if "const" not in node:
            return node
        fixed = {"enum": [node.pop("const")]}
        return {**node, "allOf": [*node.get("allOf", ()), fixed]} if "enum" in node else {**node, **fixed}
