"""A schema said more plainly, with exactly the same values fitting it.

The first half of every rewriting: what is left afterwards is what a provider's own rules are about. Works
from the leaves up, on a tree without references. Knows JSON Schema; refuses to know providers, and to lose
anything.
"""

from __future__ import annotations

from toolcrib.bounds import LISTED_SCHEMAS, SINGLE_SCHEMAS
from toolcrib.catalog.export.keywords import (
    ABOUT,
    ANNOTATIONS,
    CONTENT,
    KNOWN,
    NAMED,
    SWITCHES,
    TYPE_OF,
    TYPES,
    Node,
    identify,
    is_anything,
    is_nothing,
    nothing,
    type_of,
    types_of,
)
from toolcrib.catalog.export.merging import meet_types, merge
from toolcrib.catalog.export.verdicts import Journal, Path
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import Validator

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
