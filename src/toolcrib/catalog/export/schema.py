"""A schema said more plainly, with exactly the same values fitting it.

The first half of every rewriting: what is left afterwards is what a provider's own rules are about. Works
from the leaves up, on a tree without references. Knows JSON Schema; refuses to know providers, and to lose
anything.

JSON Schema's keywords by what they hold and which values they are about.

Knows the vocabulary of 2020-12, and equality of JSON values. Refuses to know what is done with it.

A schema as one tree: references followed, older drafts read as today's, recursion cut at a stated depth.

What a model gets has no `$ref`: several providers refuse it, others ignore it. Knows pointers and drafts.
Refuses to know providers, and to write out a schema that grows without measure.

Two schemas as one that exactly the values fit that fit both; or None where no such one can be written.

Knows what keywords mean together. Refuses to guess: what it cannot merge exactly it does not merge.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any
from urllib.parse import unquote

from toolcrib.catalog.export.verdict import Journal, Path, RefusedError, point
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import LISTED_SCHEMAS, SINGLE_SCHEMAS
from toolcrib.validation.validator import Validator

Node = dict[str, Any]

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""All of them: an integer is a number too."""

NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Their value maps names to schemas."""
SWITCHES = frozenset({"additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"})
"""Their value is a schema, left as true or false where it is that."""

ABOUT: Mapping[str, frozenset[str]] = {
    "string": frozenset(
        {
            "contentEncoding",
            "contentMediaType",
            "contentSchema",
            "format",
            "maxLength",
            "minLength",
            "pattern",
        }
    ),
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
"""Keywords that say something about values of one type only. (A `format` can be about numbers too.)"""
TYPE_OF = {keyword: kind for kind, keywords in ABOUT.items() for keyword in keywords}

LOGIC = frozenset({"allOf", "anyOf", "else", "if", "not", "oneOf", "then"})
ANNOTATIONS = frozenset(
    {"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
CONTENT = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
"""They describe and refuse nothing."""
KNOWN = frozenset(TYPE_OF) | LOGIC | ANNOTATIONS | {"enum", "type"}


def nothing() -> Node:
    """The schema that nothing fits."""
    return {"not": {}}


def is_nothing(node: Any) -> bool:
    return node is False or (isinstance(node, dict) and node.get("not") == {})


def is_anything(node: Any) -> bool:
    return node is True or (isinstance(node, dict) and not node.keys() - ANNOTATIONS)


def types_of(node: Node) -> list[str]:
    """The types that a schema names itself; none where it names none."""
    kind = node.get("type")
    return [kind] if isinstance(kind, str) else list(kind or ())


def type_of(value: Any) -> str:
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


def identify(value: Any) -> Hashable:
    """The same for values that JSON Schema takes for equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type_of(value), value)
    if isinstance(value, list):
        return ("array", tuple(identify(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identify(item)) for key, item in value.items()))
    return ("number", value)


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


_MOST_BRANCHES = 16
_HIGHEST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWEST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_ALONE = frozenset(
    {
        "contains",
        "dependentSchemas",
        "format",
        "if",
        "maxContains",
        "minContains",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "propertyNames",
    }
)
"""Keywords that two schemas must agree on, or that only one of them may have."""


def merge(one: Node, other: Node) -> Node | None:
    """Both at once. Annotations of the first win, but for descriptions, which add up."""
    if is_nothing(one) or is_nothing(other):
        return nothing()
    if not other:
        return one
    if not one:
        return other
    if any(key in node for node in (one, other) for key in ("unevaluatedProperties", "unevaluatedItems")):
        return None
    if ("if" in one) and ("if" in other):
        return None
    if "contains" in one and "contains" in other:
        return None
    merged = {**other, **one}
    for key in one.keys() & other.keys():
        if key in _ALONE and identify(one[key]) != identify(other[key]):
            return None
    for step in (_merge_types, _merge_objects, _merge_arrays, _merge_unions):
        if not step(one, other, merged):
            return nothing() if is_nothing(merged) else None
    _merge_limits(one, other, merged)
    _merge_words(one, other, merged)
    if "multipleOf" in one and "multipleOf" in other:
        factors = (one["multipleOf"], other["multipleOf"])
        if factors[0] != factors[1]:
            if not all(isinstance(factor, int) for factor in factors):
                return None
            merged["multipleOf"] = math.lcm(*factors)
    return merged


def _empty(merged: Node) -> bool:
    merged.clear()
    merged.update(nothing())
    return False


def _merge_types(one: Node, other: Node, merged: Node) -> bool:
    if "type" in one and "type" in other:
        kinds = meet_types(types_of(one), types_of(other))
        if not kinds:
            return _empty(merged)
        merged["type"] = kinds[0] if len(kinds) == 1 else kinds
    if "enum" in one and "enum" in other:
        common = {identify(value) for value in other["enum"]}
        merged["enum"] = [value for value in one["enum"] if identify(value) in common]
        if not merged["enum"]:
            return _empty(merged)
    return True


def meet_types(one: list[str], other: list[str]) -> list[str]:
    """The types that are in both lists, an integer being a number."""
    found = []
    for kind in one:
        if kind in other or (kind == "integer" and "number" in other):
            found.append(kind)
        elif kind == "number" and "integer" in other:
            found.append("integer")
    return list(dict.fromkeys(found))


def _merge_limits(one: Node, other: Node, merged: Node) -> None:
    for keywords, choose in ((_HIGHEST, max), (_LOWEST, min)):
        for keyword in keywords:
            if keyword in one and keyword in other:
                merged[keyword] = choose(one[keyword], other[keyword])
    if one.get("uniqueItems") or other.get("uniqueItems"):
        merged["uniqueItems"] = True
    required = [*one.get("required", ()), *other.get("required", ())]
    if required:
        merged["required"] = list(dict.fromkeys(required))
    if "dependentRequired" in one and "dependentRequired" in other:
        both = {name: list(names) for name, names in one["dependentRequired"].items()}
        for name, names in other["dependentRequired"].items():
            both[name] = list(dict.fromkeys([*both.get(name, ()), *names]))
        merged["dependentRequired"] = both


def _merge_words(one: Node, other: Node, merged: Node) -> None:
    texts = [node["description"] for node in (one, other) if isinstance(node.get("description"), str)]
    if len(texts) == 2 and texts[1] not in texts[0]:
        merged["description"] = "\n".join(texts)
    for keyword in CONTENT:
        if keyword in one and keyword in other and one[keyword] != other[keyword]:
            merged.pop(keyword)  # they only describe


def _merge_objects(one: Node, other: Node, merged: Node) -> bool:
    for first, second in ((one, other), (other, one)):
        # What one schema says of all other names is about the names of the other schema too.
        if is_anything(first.get("additionalProperties", True)):
            continue
        if "patternProperties" in second or ("patternProperties" in first and second.get("properties")):
            return False
    properties: dict[str, Any] = {}
    for name in dict.fromkeys((*one.get("properties", ()), *other.get("properties", ()))):
        both = merge(_said_of(one, name), _said_of(other, name))
        if both is None:
            return False
        properties[name] = both
    if properties:
        merged["properties"] = properties
    if "additionalProperties" in one and "additionalProperties" in other:
        rest = merge(_as_node(one["additionalProperties"]), _as_node(other["additionalProperties"]))
        if rest is None:
            return False
        merged["additionalProperties"] = False if is_nothing(rest) else rest or True
    return True


def _said_of(node: Node, name: str) -> Node:
    if name in node.get("properties", ()):
        found: Node = node["properties"][name]
        return found
    return _as_node(node.get("additionalProperties", True))


def _as_node(schema: Any) -> Node:
    if isinstance(schema, bool):
        return {} if schema else nothing()
    node: Node = schema
    return node


def _merge_arrays(one: Node, other: Node, merged: Node) -> bool:
    sides = [node for node in (one, other) if "items" in node or "prefixItems" in node]
    if len(sides) < 2:
        return True
    if "prefixItems" not in one and "prefixItems" not in other:
        items = merge(_as_node(one["items"]), _as_node(other["items"]))
        if items is None:
            return False
        merged["items"] = False if is_nothing(items) else items
        return True
    keys = ("items", "prefixItems")
    return [identify(one.get(key)) for key in keys] == [identify(other.get(key)) for key in keys]


def _merge_unions(one: Node, other: Node, merged: Node) -> bool:
    for keyword in ("anyOf", "allOf"):
        if keyword in one and keyword in other:
            if keyword == "allOf":
                merged["allOf"] = [*one["allOf"], *other["allOf"]]
                continue
            if identify(one["anyOf"]) == identify(other["anyOf"]):
                continue
            if len(one["anyOf"]) * len(other["anyOf"]) > _MOST_BRANCHES:
                return False
            branches = [merge(first, second) for first in one["anyOf"] for second in other["anyOf"]]
            if any(branch is None for branch in branches):
                return False
            merged["anyOf"] = [branch for branch in branches if not is_nothing(branch)]
            if not merged["anyOf"]:
                return _empty(merged)
    return True


def are_apart(one: Node, other: Node) -> bool:
    """Whether it is plain that no value fits both: by type, by choices, or by a property that tells them."""
    kinds = types_of(one), types_of(other)
    if all(kinds) and not meet_types(*kinds):
        return True
    if "enum" in one and "enum" in other:
        mine = {identify(value) for value in one["enum"]}
        return not any(identify(value) in mine for value in other["enum"])
    for first, second in ((one, other), (other, one)):
        if "enum" in first and types_of(second):
            return not any(meet_types([type_of(value)], types_of(second)) for value in first["enum"])
    if kinds != (["object"], ["object"]):
        return False
    shared = set(one.get("required", ())) & set(other.get("required", ()))
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    return any(are_apart(mine[name], theirs[name]) for name in shared if name in mine and name in theirs)


def without_words(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in ANNOTATIONS}


_NO_OPERATION = {
    "minItems": 0,
    "minLength": 0,
    "minProperties": 0,
    "uniqueItems": False,
    "required": [],
    "dependentRequired": {},
    "dependentSchemas": {},
    "patternProperties": {},
}
_SEE_THROUGH = frozenset({"allOf", "anyOf", "dependentSchemas", "if", "oneOf"})
"""What `unevaluatedProperties` looks into."""
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_LOOKED_INTO = _SEE_THROUGH | {"contains", "else", "then"}


def simplify(node: Node, path: Path, journal: Journal) -> Node:
    """The same, plainer. What nothing can fit becomes the one schema that nothing fits."""
    node = _descend(node, path, journal)
    unknown = node.keys() - KNOWN
    if unknown:
        journal.note(path, f"{', '.join(sorted(unknown))}: not a keyword that models are told")
        node = {key: value for key, value in node.items() if key not in unknown}
    for step in (_drop_idle, _settle_types, _settle_arrays, _fold, _settle_evaluated, _settle_types):
        node = step(node, path, journal)
        if is_nothing(node):
            return nothing()
    node = _settle_choices(node, path, journal)
    return nothing() if _is_impossible(node) else node


def _descend(node: Node, path: Path, journal: Journal) -> Node:
    found: Node = {}
    looks_in = "unevaluatedProperties" in node or "unevaluatedItems" in node
    for key, value in node.items():
        here = (*path, key)
        if looks_in and key in _LOOKED_INTO:
            found[key] = value  # what it evaluates matters too, and a plainer schema may evaluate less
        elif key in NAMED:
            found[key] = {name: simplify(item, (*here, name), journal) for name, item in value.items()}
        elif key in LISTED_SCHEMAS:
            found[key] = [simplify(item, (*here, str(number)), journal) for number, item in enumerate(value)]
        elif key in SINGLE_SCHEMAS and not isinstance(value, bool):
            found[key] = simplify(value, here, journal)
            if key in SWITCHES and is_nothing(found[key]):
                found[key] = False
        else:
            found[key] = value
    return found


def _drop_idle(node: Node, *_: object) -> Node:
    """No keyword that refuses nothing."""
    node = {key: value for key, value in node.items() if _NO_OPERATION.get(key, node) != value}
    if "not" in node:
        if is_anything(node["not"]):
            return nothing()
        if is_nothing(node["not"]):
            del node["not"]
    if any(keyword in node for keyword in _UNEVALUATED):
        return node  # what seems idle may still evaluate something
    for keyword in ("then", "else"):
        if keyword in node and ("if" not in node or is_anything(node[keyword])):
            del node[keyword]
    if "if" in node and "then" not in node and "else" not in node:
        del node["if"]
    if "contains" not in node or (node.get("minContains") == 0 and "maxContains" not in node):
        for keyword in ("contains", "minContains", "maxContains"):
            node.pop(keyword, None)
    return node


def _settle_types(node: Node, path: Path, journal: Journal) -> Node:
    """A type, or several, or none where every type will do; and no word about values of other types."""
    if "type" not in node:
        return node
    given = types_of(node)
    kinds = [kind for kind in dict.fromkeys(given) if not (kind == "integer" and "number" in given)]
    node = dict(node)
    if set(kinds) == set(TYPES):
        journal.note((*path, "type"), "every type is listed, which is to say anything")
        del node["type"]
        return node
    node["type"] = kinds[0] if len(kinds) == 1 else kinds
    about = {"number" if kind == "integer" else kind for kind in kinds}
    idle = sorted(key for key in node if key in TYPE_OF and TYPE_OF[key] not in about and key != "format")
    if idle:
        journal.note(path, f"{', '.join(idle)}: means nothing for {' and '.join(kinds)}")
        node = {key: value for key, value in node.items() if key not in idle}
    return node


def _settle_arrays(node: Node, path: Path, journal: Journal) -> Node:
    """No more items than may be there, instead of a schema for those that must not be."""
    if node.get("items") is False and "unevaluatedItems" not in node:
        node = dict(node)
        del node["items"]
        first = node.get("prefixItems", [])
        most = next((number for number, item in enumerate(first) if is_nothing(item)), len(first))
        node["maxItems"] = min(node.get("maxItems", most), most)
        journal.note((*path, "items"), f"no more than {most} items: written as maxItems")
    return node


# --- compositions ------------------------------------------------------------------------------------


def _fold(node: Node, path: Path, journal: Journal) -> Node:
    """Branches that must hold anyway become part of the schema, where that is exact."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in node:
            node = _prune(node, keyword, path, journal)
            if is_nothing(node):
                return node
    waiting = node.get("allOf", [])
    node = {key: value for key, value in node.items() if key != "allOf"}
    hidden: Node = {key: node.pop(key) for key in _UNEVALUATED if key in node}
    left = []
    is_merged = False
    while waiting:
        branch, *waiting = waiting
        inner = branch.get("allOf", ())
        both = merge(node, {key: value for key, value in branch.items() if key != "allOf"})
        if both is None:
            left.append(branch)
            continue
        if is_nothing(both):
            return both
        node = both
        is_merged = True
        waiting = [*inner, *waiting]
        journal.note((*path, "allOf"), "merged into the schema around it")
    node = {**node, **hidden}
    if is_merged:
        node = _descend(node, path, Journal())  # what was plain by itself may be plainer together
    return {**node, "allOf": left} if left else node


def _prune(node: Node, keyword: str, path: Path, journal: Journal) -> Node:
    branches = [branch for branch in node[keyword] if not is_nothing(branch)]
    if not branches:
        return nothing()
    seen = "unevaluatedProperties" in node or "unevaluatedItems" in node
    node = {**node, keyword: branches}
    if keyword == "anyOf" and not seen and any(is_anything(branch) for branch in branches):
        del node[keyword]
        journal.note((*path, keyword), "one of the forms is anything")
    elif len(branches) == 1:
        del node[keyword]
        node["allOf"] = [*node.get("allOf", ()), branches[0]]
    elif keyword == "anyOf":
        unique = list({identify(branch): branch for branch in branches}.values())
        if len(unique) < len(branches):
            node[keyword] = unique
            return _prune(node, keyword, path, journal)
    return node


def _settle_evaluated(node: Node, path: Path, journal: Journal) -> Node:
    """`unevaluatedProperties` beside nothing that it could look into is `additionalProperties`."""
    if node.keys() & _SEE_THROUGH:
        return node
    for old, new in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        if old not in node or (old == "unevaluatedItems" and "contains" in node):
            continue
        node = dict(node)
        rest = node.pop(old)
        if new not in node and not is_anything(rest):
            node[new] = rest
        journal.note((*path, old), f"written as {new}")
        if new == "items":
            node = _settle_arrays(node, path, journal)
    return node


# --- choices -----------------------------------------------------------------------------------------


def _settle_choices(node: Node, path: Path, journal: Journal) -> Node:
    """Of listed values those that fit all that is said beside the list; then the list says it all."""
    if "enum" not in node:
        return node
    values = list({identify(value): value for value in node["enum"]}.values())
    beside = node.keys() - ANNOTATIONS - CONTENT - {"enum", "type"}
    if beside:
        try:
            fits = Validator({key: node[key] for key in (*beside, "type") if key in node}).is_valid
            fitting = [value for value in values if fits(value)]
        except (InvalidSchemaError, ValueError):
            return {**node, "enum": values}  # it cannot be tried; so it stays as it is
        journal.note(path, f"{', '.join(sorted(beside))}: only what fits is left in the enum")
        values = fitting
        node = {key: value for key, value in node.items() if key not in beside}
    kinds = types_of(node)
    if kinds:
        values = [value for value in values if meet_types([type_of(value)], kinds)]
    if not values:
        return nothing()
    return {**node, "enum": values}


def _is_impossible(node: Node) -> bool:
    """Whether it is plain that nothing fits. Only where the type is given: else another type would."""
    kinds = types_of(node)
    if kinds == ["object"]:
        properties = node.get("properties", {})
        closed = node.get("additionalProperties") is False and "patternProperties" not in node
        return any(is_nothing(properties.get(name, not closed)) for name in node.get("required", ()))
    if kinds == ["array"]:
        most, least = node.get("maxItems"), node.get("minItems", 0)
        return most is not None and least > most
    return False


def relevant(node: Node, kind: str) -> Node:
    """What a schema says about values of one type; annotations, logic and choices apart."""
    about = ABOUT.get("number" if kind == "integer" else kind, frozenset())
    return {
        key: value
        for key, value in node.items()
        if key in about or (key == "format" and kind in ("integer", "number"))
    }
