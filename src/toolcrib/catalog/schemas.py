"""Relations, plain forms and short texts of JSON Schemas.

    covers({"type": "number"}, {"type": "integer"})                  # True
    flatten({"allOf": [{"type": "string"}, {"maxLength": 5}]})       # {"type": "string", "maxLength": 5}
    expand({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}).tree

`expand` writes a schema as one tree without references, in the vocabulary of 2020-12. What schemas accept
is decided by the validation engine; if it cannot tell, or would take too long, the answer is None.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Path, Resolver, map_subschemas, pointer, walk
from toolcrib.validation.validator import canonicalize

Node = dict[str, Any]
"""A schema, or a part of one."""

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""All JSON types; an integer is a number too."""
ANNOTATIONS = frozenset(
    {"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
CONTENT = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
"""Keywords that describe strings and reject nothing."""

_COMPOSITIONS = frozenset({"allOf", "anyOf", "if", "oneOf"})
_MAX_CASES = 256
"""With more combinations, one question to the engine can take seconds."""
_MAX_NESTED_CASES = 8


def nothing() -> Node:
    """Return the schema that no value is valid for."""
    return {"not": {}}


def is_nothing(node: Any) -> bool:
    return node is False or (isinstance(node, dict) and node.get("not") == {})


def is_anything(node: Any) -> bool:
    return node is True or (isinstance(node, dict) and not node.keys() - ANNOTATIONS)


def types_of(node: Node) -> list[str]:
    """Return the types that a schema names in `type`; an empty list if it names none."""
    named = node.get("type")
    return [named] if isinstance(named, str) else list(named or ())


def type_of(value: Any) -> str:
    """Return the JSON type of a value: "integer" for every number without a fraction."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def identity(value: Any) -> Hashable:
    """Return a key that is the same for values that JSON Schema takes as equal, such as 1 and 1.0."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type_of(value), value)
    if isinstance(value, list):
        return ("array", tuple(identity(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(item)) for key, item in value.items()))
    return ("number", value)


# --- flattening --------------------------------------------------------------------------------------------


def flatten(node: Node) -> Node | None:
    """Return an equivalent schema without compositions: a plain one, or `anyOf` of such.

    None if the engine cannot write it. Annotations and the order of properties come from the parts.
    """
    canonical = canonical_form(node)
    if canonical is None:
        return None
    found = _restore(canonical.to_json_schema(), [node])
    branches = found.get("anyOf", [found])
    has_siblings = "anyOf" in found and not found.keys() <= {"anyOf", "$defs", "definitions", *ANNOTATIONS}
    is_flat = all(branch.keys().isdisjoint(_COMPOSITIONS) for branch in branches if branch is not found)
    is_flat = is_flat and found.keys().isdisjoint(_COMPOSITIONS - {"anyOf"})
    return found if is_flat and not has_siblings else None


def _restore(node: Any, sources: list[Any]) -> Node:
    """Return a schema in canonical form with the annotations of the schemas that it was made of."""
    conjuncts = [part for source in sources for part in _parts(source, ("allOf",))]
    annotations: Node = {}
    for part in reversed(conjuncts):
        annotations |= {key: value for key, value in part.items() if key in ANNOTATIONS}
    texts = [part["description"] for part in conjuncts if isinstance(part.get("description"), str)]
    if texts:
        annotations["description"] = "\n".join(dict.fromkeys(texts))
    parts = [part for source in sources for part in _parts(source, ("allOf", "anyOf", "oneOf"))]
    return {**_restore_parts(node, parts), **annotations}


def _parts(node: Any, keywords: tuple[str, ...]) -> Iterator[Node]:
    if isinstance(node, Mapping):
        yield dict(node)
        for keyword in keywords:
            for part in node.get(keyword, ()):
                yield from _parts(part, keywords)


def _restore_parts(node: Any, parts: list[Node]) -> Node:
    if isinstance(node, bool):
        return {} if node else nothing()
    keys = sorted(node.keys() - {"$schema", "const"}, key=lambda key: (key != "type", key))
    found = {key: node[key] for key in keys}
    if "const" in node:
        found["enum"] = [node["const"]]
        if node["const"] == {}:  # a closed object without properties
            found = {"type": "object", "properties": {}, "additionalProperties": False}
    if "anyOf" in found:
        found["anyOf"] = [_restore_parts(branch, parts) for branch in found["anyOf"]]
    for keyword in ("items", "additionalProperties"):
        if isinstance(found.get(keyword), Mapping):
            found[keyword] = _restore(found[keyword], [part.get(keyword) for part in parts])
    if "prefixItems" in found:
        found["prefixItems"] = [
            _restore(
                item,
                [part["prefixItems"][index] for part in parts if len(part.get("prefixItems", ())) > index],
            )
            for index, item in enumerate(found["prefixItems"])
        ]
    if found.get("type") == "object":
        _restore_properties(found, parts)
    return found


def _restore_properties(found: Node, parts: list[Node]) -> None:
    """Restore the order of properties, properties of any value, and the names of a closed object."""
    declared: dict[str, list[Any]] = {}
    for part in parts:
        for name, schema in part.get("properties", {}).items():
            declared.setdefault(name, []).append(schema)
    properties = dict(found.get("properties", {}))
    names = found.get("propertyNames", {})
    if isinstance(names, Mapping) and names.keys() & {"const", "enum"}:
        del found["propertyNames"]
        allowed = names.get("enum", [names.get("const")])
        properties = {name: properties.get(name, True) for name in allowed}
        found["additionalProperties"] = False
    elif "patternProperties" not in found:  # what accepts any value was left out
        rest = found.get("additionalProperties", True)
        free = [name for name, schemas in declared.items() if all(map(is_anything, schemas))]
        properties |= {name: rest for name in free if name not in properties}
    if properties or declared:
        order = [*(name for name in declared if name in properties), *properties]
        found["properties"] = {
            name: _restore(properties[name], declared.get(name, [])) for name in dict.fromkeys(order)
        }


# --- asking the validation engine --------------------------------------------------------------------------


def covers(outer: Any, inner: Any) -> bool | None:
    """Return whether every value valid for `inner` is valid for `outer`; None if it is not known."""
    if is_nothing(inner) or is_anything(outer):
        return True
    wider, narrower = canonical_form(outer), canonical_form(inner)
    if wider is None or narrower is None:
        return None
    try:
        return {"yes": True, "no": False}.get(wider.covers(narrower).value)
    except ValueError:  # the engine cannot combine them
        return None


def are_disjoint(one: Any, other: Any) -> bool:
    """Return whether the engine proves that no value is valid for both schemas."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        definitions = {key: one[key] for key in ("$schema", "$defs", "definitions") if key in one}
        both = canonical_form({"allOf": [one, other], **definitions})
        return both is not None and both.satisfiability().value == "no"
    return is_nothing(one) or is_nothing(other)


def canonical_form(schema: Any) -> Any:
    """Return the engine's canonical form of a schema, or None if it has none or would take too long."""
    try:
        return _canonicalize(codec.canonical(schema))
    except (InvalidSchemaError, RecursionError, TypeError, ValueError):
        return None


@lru_cache(maxsize=256)
def _canonicalize(text: bytes) -> Any:
    schema = codec.decode(text)
    resolver = Resolver(schema if isinstance(schema, Mapping) else {})
    is_complex = any(_count_cases(node, resolver, 0) > _MAX_CASES for _, node in walk(schema))
    return None if is_complex else canonicalize(schema)


def _count_cases(node: Any, resolver: Resolver, depth: int) -> int:
    """Count the combinations of alternatives that a schema has at one place: the engine writes them out."""
    if not isinstance(node, Mapping) or depth > _MAX_NESTED_CASES:
        return 1
    options = [len(node.get(key, ())) for key in ("dependentRequired", "dependentSchemas", "dependencies")]
    total: int = 2 ** min(sum(options) + ("if" in node), _MAX_CASES.bit_length())
    parts = [[part] for part in (*node.get("allOf", ()), node.get("not"))]
    parts += [node[key] for key in ("anyOf", "oneOf") if key in node]
    if isinstance(node.get("$ref"), str):
        parts.append([resolver.resolve(node["$ref"])])
    for alternatives in parts:
        if total <= _MAX_CASES:
            total *= max(1, sum(_count_cases(part, resolver, depth + 1) for part in alternatives))
    return total


# --- expansion ---------------------------------------------------------------------------------------------

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
"""Keywords that have no effect if they are 0 or false."""
_KNOWN = frozenset(TYPE_OF) | _LOGIC | ANNOTATIONS | {"enum", "type"}


def rules_for(node: Node, name: str) -> Node:
    """Return the keywords of a schema that apply to values of one type, except logic and `enum`."""
    keywords = KEYWORDS_OF.get("number" if name == "integer" else name, frozenset())
    is_number = name in ("integer", "number")
    return {k: value for k, value in node.items() if k in keywords or (k == "format" and is_number)}


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
    what contains itself."""

    levels: int
    tree: Node = field(default_factory=dict)
    cuts: list[tuple[Path, str]] = field(default_factory=list)


def expand(schema: Any, levels: tuple[int, ...] = _LEVELS, mark: str = "") -> Expansion:
    """Expand a schema. Where recursion ends, any value is valid; or, with a `mark`, only a text that consists
    of the mark and the path where what contains itself begins.

    Raise ExpansionError if references cannot be followed, or the schema would grow too large.
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
        known = {key: value for key, value in self._modernize(node).items() if key in _KNOWN}
        found = map_subschemas(known, path, lambda inner, here: self.expand(inner, here, inside))
        if isinstance(reference, str):
            target = self._follow(reference, path, inside)
            found = {**found, "allOf": [*found.get("allOf", ()), target]}
        return self._merge(found) if "allOf" in found else found

    def _merge(self, node: Node) -> Node:
        """Merge `allOf` into the schema, if that gives one plain schema."""
        parts = node["allOf"]
        if len(parts) == 1 and not node.keys() - ANNOTATIONS - {"allOf"}:
            return {**parts[0], **{key: value for key, value in node.items() if key != "allOf"}}
        has_mark = self.mark and self.mark.encode() in codec.encode(node)
        merged = flatten(node) if self.can_merge and not has_mark else None
        return node if merged is None or "anyOf" in merged or merged.get("not", {}) != {} else merged

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


# --- schemas as text ---------------------------------------------------------------------------------------

_MAX_TEXT = 300
_MAX_CHOICES, _MAX_SHORT_CHOICES = 60, 6
_MAX_TYPE_DEPTH = 5


def show_value(value: Any) -> str:
    text = codec.encode_text(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def show_type(node: Any, depth: int = 0, root: Mapping[str, Any] | None = None) -> str:
    """Return a schema as a short type: `{street: string, zip?: string}[]`. With the `root` of a schema that
    has references, they are named, and objects are not written out: `Address[]`."""
    if is_nothing(node):
        return "nothing"
    if not isinstance(node, Mapping) or is_anything(node) or depth > _MAX_TYPE_DEPTH:
        return "any"
    if root is not None and "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        definitions = root.get("$defs")
        target = definitions.get(name) if isinstance(definitions, Mapping) else None
        is_enum = isinstance(target, Mapping) and "enum" in target
        return show_type(target, depth + 1, root) if is_enum else name
    most = _MAX_CHOICES if root is None else _MAX_SHORT_CHOICES
    values = [node["const"]] if "const" in node else node.get("enum")
    if isinstance(values, list | tuple):
        return " | ".join([*map(show_value, values[:most]), *["..."] * (len(values) > most)])
    named = node.get("type")
    for keyword, sign in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if isinstance(node.get(keyword), list) and not named:
            parts = list(dict.fromkeys(show_type(branch, depth, root) for branch in node[keyword]))
            return sign.join([*parts[:most], *["..."] * (len(parts) > most)])
    types = list(named) if isinstance(named, list | tuple) else [named] if named else []
    types = types or sorted({TYPE_OF[key] for key in node if key in TYPE_OF}) or ["any"]
    return " | ".join(_show_one_type(str(name), node, depth, root) for name in types)


def _show_one_type(name: str, node: Mapping[str, Any], depth: int, root: Mapping[str, Any] | None) -> str:
    if name == "object" and root is None:
        return _show_object(node, depth)
    if name != "array":
        return f"{name} ({node['format']})" if root is not None and node.get("format") else name
    if isinstance(node.get("prefixItems"), list):
        return f"[{', '.join(show_type(item, depth + 1, root) for item in node['prefixItems'])}]"
    inner = show_type(node.get("items", {}), depth + 1, root)
    return f"({inner})[]" if " | " in inner and not inner.startswith("{") else f"{inner}[]"


def _show_object(node: Mapping[str, Any], depth: int) -> str:
    required = node.get("required", ())
    parts = []
    for name, inner in node.get("properties", {}).items():
        if not is_nothing(inner):
            shown = name if name.isidentifier() else show_value(name)
            parts.append(f"{shown}{'' if name in required else '?'}: {show_type(inner, depth + 1)}")
    parts += [f"{name}: any" for name in required if name not in node.get("properties", {})]
    rest = node.get("additionalProperties")
    if isinstance(rest, Mapping) and not is_anything(rest):
        parts.append(f"[name]: {show_type(rest, depth + 1)}")
    return f"{{{', '.join(parts)}}}" if parts else "object"
