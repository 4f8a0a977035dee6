"""Read an input schema as one tree without references, and simplify it without changing its meaning.

The first half of every export: what is left afterwards is what a provider's own rules are about.

    tree = simplify(expand(schema, log), (), log)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.catalog.export.verdict import ChangeLog, Path, RefusedError, pointer
from toolcrib.catalog.schema_merge import (
    ANNOTATIONS,
    CONTENT,
    TYPES,
    Node,
    common_types,
    identity,
    is_anything,
    is_nothing,
    merge,
    nothing,
    type_of,
    types_of,
)
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import LISTED_SCHEMAS, SINGLE_SCHEMAS, Resolver
from toolcrib.validation.validator import Validator

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
LOGIC = frozenset({"allOf", "anyOf", "else", "if", "not", "oneOf", "then"})
_KNOWN = frozenset(TYPE_OF) | LOGIC | ANNOTATIONS | {"enum", "type"}


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


# --- references and drafts ---------------------------------------------------------------------------------

MAX_PARTS = 4_000
"""The number of subschemas that a schema may have when its references are expanded."""
_MAX_DEPTH = 48
_LEVELS = (3, 2, 1)
"""Levels of recursion that are expanded: the first of these that stays within bounds."""
_ORDINALS = {2: "second", 3: "third", 4: "fourth"}
_DRAFTS = {"draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 8}
_LATEST = 9
_INTRODUCED = {
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
"""Keywords by the draft that introduced them; older drafts ignore them."""


class _TooLargeError(Exception):
    pass


def expand(schema: Mapping[str, Any], log: ChangeLog) -> Node:
    """Return the schema without references, in the vocabulary of 2020-12.

    Several providers reject `$ref`, others ignore it. Recursion ends at a level that is logged as a loss.
    Raise RefusedError where references cannot be followed, or the schema would grow too large.
    """
    try:
        plain = codec.decode(codec.encode(dict(schema)))
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise RefusedError(f"its schema is not JSON: {error}") from None
    for levels in _LEVELS:
        expansion = _Expansion(plain, levels)
        try:
            tree = expansion.expand(plain, (), ())
        except _TooLargeError:
            if not expansion.is_recursive:
                break
            continue
        log.update(expansion.log.changes)
        return tree
    raise RefusedError(
        f"without references its schema has more than {MAX_PARTS} parts, or more than {_MAX_DEPTH} levels"
    )


class _Expansion:
    """One pass over a schema that expands recursive definitions to a number of levels."""

    def __init__(self, root: Node, levels: int) -> None:
        self.resolver = Resolver(root)
        self.levels = levels
        self.parts = 0
        self.is_recursive = False
        self.log = ChangeLog()
        declared = str(root.get("$schema"))
        self.draft = next((draft for name, draft in _DRAFTS.items() if name in declared), _LATEST)

    def expand(self, node: Any, path: Path, inside: tuple[str, ...]) -> Node:
        """`inside` are the references that led here."""
        if isinstance(node, bool):
            return {} if node else nothing()
        if not isinstance(node, dict):
            raise RefusedError(f"{pointer(path) or 'the root'} is not a schema")
        self.parts += 1
        if self.parts > MAX_PARTS or len(path) > _MAX_DEPTH * 2:
            raise _TooLargeError
        reference = node.get("$ref")
        if isinstance(reference, str) and self.draft < 8:  # other keywords are ignored beside it
            node = {key: value for key, value in node.items() if key in ANNOTATIONS}
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in node:
                place = pointer((*path, keyword))
                raise RefusedError(f"{place} depends on where it is used; only $ref is followed")
        values = {
            key: value
            for key, value in self._modernize(node).items()
            if not key.startswith("$")
            and key not in ("definitions", "id")  # about the schema, not about values
        }
        found = map_subschemas(values, path, lambda inner, here: self.expand(inner, here, inside))
        if not isinstance(reference, str):
            return found
        target = self._follow(reference, path, inside)
        if not found.keys() - ANNOTATIONS:
            return {**target, **found}
        return {**found, "allOf": [*found.get("allOf", ()), target]}

    def _follow(self, reference: str, path: Path, inside: tuple[str, ...]) -> Node:
        if reference.startswith("#") and not reference.startswith("#/") and reference != "#":
            raise RefusedError(
                f"{pointer(path)} refers to the anchor {reference[:80]!r}; only pointers are followed"
            )
        times = inside.count(reference)
        self.is_recursive |= times > 0
        if times >= self.levels:
            name = reference.rpartition("/")[2].lstrip("#") or "the schema"
            level = _ORDINALS[self.levels + 1]
            self.log.add(
                path, f"{name!r} contains itself; from the {level} level on any value is accepted", "wider"
            )
            return {}
        try:
            target = self.resolver.resolve(reference)
        except InvalidSchemaError as error:
            raise RefusedError(f"{pointer(path) or 'the root'}: {error}") from None
        return self.expand(target, path, (*inside, reference))

    def _modernize(self, node: Node) -> Node:
        """Return a schema of an older draft in the vocabulary of 2020-12, with `enum` instead of `const`."""
        if self.draft < _LATEST:
            unknown = {key for draft, keys in _INTRODUCED.items() if draft > self.draft for key in keys}
            node = {key: value for key, value in node.items() if key not in unknown}
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
        if "const" not in node:
            return node
        node = dict(node)
        fixed = {"enum": [node.pop("const")]}
        return {**node, "allOf": [*node.get("allOf", ()), fixed]} if "enum" in node else {**node, **fixed}


# --- simplification ----------------------------------------------------------------------------------------

_NO_EFFECT = {
    "minItems": 0,
    "minLength": 0,
    "minProperties": 0,
    "uniqueItems": False,
    "required": [],
    "dependentRequired": {},
    "dependentSchemas": {},
    "patternProperties": {},
}
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_EVALUATING = frozenset({"allOf", "anyOf", "dependentSchemas", "if", "oneOf"})
"""Keywords whose subschemas `unevaluatedProperties` looks into."""


def simplify(node: Node, path: Path, log: ChangeLog) -> Node:
    """Return an equivalent schema with fewer keywords, `not: {}` where no value is valid."""
    node = _simplify_subschemas(node, path, log)
    unknown = node.keys() - _KNOWN
    if unknown:
        log.add(path, f"{', '.join(sorted(unknown))}: not a keyword of JSON Schema, left out")
        node = {key: value for key, value in node.items() if key not in unknown}
    steps = (
        _drop_keywords_without_effect,
        _simplify_types,
        _limit_items,
        _merge_compositions,
        _replace_unevaluated,
        _simplify_types,
    )
    for step in steps:
        node = step(node, path, log)
        if is_nothing(node):
            return nothing()
    node = _simplify_enum(node, path, log)
    return nothing() if _is_unsatisfiable(node) else node


def _has_unevaluated(node: Node) -> bool:
    return any(keyword in node for keyword in _UNEVALUATED)


def _simplify_subschemas(node: Node, path: Path, log: ChangeLog) -> Node:
    # With `unevaluated...`, what a subschema evaluates matters too, and a simpler one may evaluate less.
    kept = _EVALUATING | {"contains", "else", "then"} if _has_unevaluated(node) else frozenset()
    rest = {key: value for key, value in node.items() if key not in kept}
    found = map_subschemas(rest, path, lambda inner, here: simplify(inner, here, log))
    closed = {key: False for key in BOOLEAN_SCHEMAS & found.keys() if is_nothing(found[key])}
    return {key: closed.get(key, found.get(key, value)) for key, value in node.items()}


def _drop_keywords_without_effect(node: Node, *_: object) -> Node:
    node = {key: value for key, value in node.items() if _NO_EFFECT.get(key, node) != value}
    if "not" in node:
        if is_anything(node["not"]):
            return nothing()
        if is_nothing(node["not"]):
            del node["not"]
    if _has_unevaluated(node):
        return node  # what rejects nothing may still evaluate something
    for keyword in ("then", "else"):
        if keyword in node and ("if" not in node or is_anything(node[keyword])):
            del node[keyword]
    if "if" in node and "then" not in node and "else" not in node:
        del node["if"]
    if "contains" not in node or (node.get("minContains") == 0 and "maxContains" not in node):
        for keyword in ("contains", "minContains", "maxContains"):
            node.pop(keyword, None)
    return node


def _simplify_types(node: Node, path: Path, log: ChangeLog) -> Node:
    """Drop `type` where it lists every type, and keywords that apply to none of the types."""
    if "type" not in node:
        return node
    named = types_of(node)
    types = [name for name in dict.fromkeys(named) if not (name == "integer" and "number" in named)]
    if set(types) == set(TYPES):
        log.add((*path, "type"), "lists every type, so any value is accepted")
        return {key: value for key, value in node.items() if key != "type"}
    node = {**node, "type": types[0] if len(types) == 1 else types}
    families = {"number" if name == "integer" else name for name in types}
    idle = sorted(key for key in node if TYPE_OF.get(key) not in (None, *families) and key != "format")
    if idle:
        log.add(path, f"{', '.join(idle)}: no effect on {' and '.join(types)}")
        node = {key: value for key, value in node.items() if key not in idle}
    return node


def _limit_items(node: Node, path: Path, log: ChangeLog) -> Node:
    """Replace `items: false` by `maxItems`."""
    if node.get("items") is not False or "unevaluatedItems" in node:
        return node
    first = node.get("prefixItems", [])
    most = next((number for number, item in enumerate(first) if is_nothing(item)), len(first))
    log.add((*path, "items"), f"no more than {most} items: written as maxItems")
    rest = {key: value for key, value in node.items() if key != "items"}
    return {**rest, "maxItems": min(node.get("maxItems", most), most)}


def _merge_compositions(node: Node, path: Path, log: ChangeLog) -> Node:
    """Merge `allOf` and single alternatives into the schema, where that is exact."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in node:
            node = _simplify_alternatives(node, keyword, path, log)
            if is_nothing(node):
                return node
    pending = node.get("allOf", [])
    hidden = {key: node[key] for key in _UNEVALUATED if key in node}
    node = {key: value for key, value in node.items() if key != "allOf" and key not in hidden}
    left = []
    is_merged = False
    while pending:
        branch, *pending = pending
        both = merge(node, {key: value for key, value in branch.items() if key != "allOf"})
        if both is None:
            left.append(branch)
            continue
        if is_nothing(both):
            return both
        node = both
        is_merged = True
        pending = [*branch.get("allOf", ()), *pending]
        log.add((*path, "allOf"), "merged into the schema around it")
    node = {**node, **hidden}
    if is_merged:
        node = _simplify_subschemas(node, path, ChangeLog())
    return {**node, "allOf": left} if left else node


def _simplify_alternatives(node: Node, keyword: str, path: Path, log: ChangeLog) -> Node:
    branches = [branch for branch in node[keyword] if not is_nothing(branch)]
    if not branches:
        return nothing()
    rest = {key: value for key, value in node.items() if key != keyword}
    if keyword == "anyOf":
        if not _has_unevaluated(node) and any(is_anything(branch) for branch in branches):
            log.add((*path, keyword), "one alternative accepts any value")
            return rest
        branches = list({identity(branch): branch for branch in branches}.values())
    if len(branches) == 1:
        return {**rest, "allOf": [*rest.get("allOf", ()), branches[0]]}
    return {**node, keyword: branches}


def _replace_unevaluated(node: Node, path: Path, log: ChangeLog) -> Node:
    """Replace `unevaluatedProperties` by `additionalProperties` where there is nothing else it looks into."""
    if node.keys() & _EVALUATING:
        return node
    for old, new in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        if old not in node or (old == "unevaluatedItems" and "contains" in node):
            continue
        node = dict(node)
        rest = node.pop(old)
        if new not in node and not is_anything(rest):
            node[new] = rest
        log.add((*path, old), f"written as {new}")
        if new == "items":
            node = _limit_items(node, path, log)
    return node


def _simplify_enum(node: Node, path: Path, log: ChangeLog) -> Node:
    """Keep the values of `enum` that the other keywords accept, and drop those keywords."""
    if "enum" not in node:
        return node
    values = list({identity(value): value for value in node["enum"]}.values())
    others = node.keys() - ANNOTATIONS - CONTENT - {"enum", "type"}
    if others:
        try:
            is_valid = Validator({key: node[key] for key in (*others, "type") if key in node}).is_valid
            values = [value for value in values if is_valid(value)]
        except (InvalidSchemaError, ValueError):
            return {**node, "enum": values}  # it cannot be tried, so it stays
        log.add(path, f"{', '.join(sorted(others))}: applied to the values of enum")
        node = {key: value for key, value in node.items() if key not in others}
    if types := types_of(node):
        values = [value for value in values if common_types([type_of(value)], types)]
    return {**node, "enum": values} if values else nothing()


def _is_unsatisfiable(node: Node) -> bool:
    """Return whether plainly no value is valid. Only where the type is given: else another type would be."""
    types = types_of(node)
    if types == ["object"]:
        properties = node.get("properties", {})
        is_closed = node.get("additionalProperties") is False and "patternProperties" not in node
        return any(is_nothing(properties.get(name, not is_closed)) for name in node.get("required", ()))
    return types == ["array"] and node.get("minItems", 0) > node.get("maxItems", node.get("minItems", 0))
