"""Where in a tool's arguments a condition looks, and what it finds there.

A path leads into objects by dots and through lists by itself: `orders.amount` is the amount of every order.
Where an argument is left out, what is found is the default that the schema publishes, as that is what the
tool will work with. Knows schemas, nulls and defaults; refuses to know what is done with what was found.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.errors import DefinitionError
from toolcrib.policies.access.operators import ABSENT
from toolcrib.schema.binder import Binder
from toolcrib.schema.received import OPAQUE, Received
from toolcrib.tool import Tool

Found = tuple[Any, bool]
"""A value, and whether the caller gave it."""

_PLAIN = frozenset({str, int, float, bool})
_ALIKE = _PLAIN | {type(None)}
_FLAT = _ALIKE | {dict}
_NUMBERS = frozenset({int, float})
_NOT_THERE: Found = (ABSENT, False)
_LARGEST_OWN_HASH = 2**60
"""Whole numbers up to here are their own hashes."""
_MAX_FORMS = 64
_MAX_LISTS = 4
"""How many lists within lists a path is followed through when a schema is read."""


@dataclass(frozen=True, slots=True)
class Step:
    """One name on the way. `schemas` are what may stand there, none: anything. `lists` are the lists that are
    gone through before it. `drops_null` says that a null counts as left out. `is_possible` says that the
    schema has room for such a name, `is_whole` that it knows of no form without it."""

    name: str
    schemas: tuple[Any, ...] = ()
    lists: int = 0
    defaults: tuple[Any, ...] = ()
    drops_null: bool = False
    is_required: bool = False
    is_possible: bool = True
    is_whole: bool = True


class Reach:
    """One path into the arguments of one tool. `is_changing` says that the tool may get something else there
    than what came, and `is_coded` that code of its author makes it, so that it may be anything."""

    __slots__ = ("_bare", "is_changing", "is_coded", "path", "root", "steps")

    def __init__(self, path: str, tool: Tool) -> None:
        self.path = path
        self.root, binder, changing = _facts_of(tool)
        self.steps = tuple(_walk(path, self.root, binder.optional, binder.closed))
        self._bare = tuple(replace(step, defaults=(), drops_null=False) for step in self.steps)
        self.is_changing = self.steps[0].name in changing
        self.is_coded = self.steps[0].name in binder.coded

    @property
    def is_possible(self) -> bool:
        """Whether the tool may have such an argument."""
        return all(step.is_possible for step in self.steps)

    def find(self, arguments: Mapping[str, Any]) -> list[Found]:
        """Every value that is there or will be; never empty."""
        if len(self.steps) == 1:
            value = arguments.get(self.steps[0].name)
            if type(value) in _PLAIN:  # as nearly all are
                return [(value, True)]
        return _follow_steps(self.steps, arguments)

    def find_received(self, received: Received) -> list[Any]:
        """The same of what the tool gets, into which its own code has filled what was left out."""
        if len(self._bare) == 1:
            value = received.get(self._bare[0].name)
            if type(value) in _PLAIN:
                return [value]
        return [value for value, _ in _follow_steps(self._bare, received)]


def _follow_steps(steps: tuple[Step, ...], arguments: Mapping[str, Any]) -> list[Found]:
    current: list[Found] = [(arguments, True)]
    for step in steps:
        entered: list[Found] = []
        for value, is_given in current:
            _enter(step, value, is_given, entered)
        current = entered
    found: list[Found] = []
    for value, is_given in current:
        _spread(value, is_given, found)
    return found


def _enter(step: Step, value: Any, is_given: bool, found: list[Found]) -> None:
    if isinstance(value, list | tuple):
        for item in value:
            _enter(step, item, is_given, found)
        if not value:
            found.append(_NOT_THERE)
    elif type(value) is not dict and not isinstance(value, Mapping):
        found.append((value, is_given) if value is OPAQUE else _NOT_THERE)
    elif step.name in value and not (step.drops_null and value[step.name] is None):
        found.append((value[step.name], is_given))
    elif step.defaults:
        found.extend((default, False) for default in step.defaults)
    else:
        found.append(_NOT_THERE)


def _spread(value: Any, is_given: bool, found: list[Found]) -> None:
    """The items of a list, those of lists in it too. An empty one is there and has nothing in it: both."""
    if not isinstance(value, list | tuple):
        found.append((value, is_given))
    elif not value:
        found += (([], is_given), _NOT_THERE)
    elif (distinct := _distinct(value)) is not None:
        found += zip(distinct, itertools.repeat(is_given))
    else:
        for item in value:
            _spread(item, is_given, found)


def _distinct(items: Sequence[Any]) -> Iterable[Any] | None:
    """The items of a list, texts and numbers once each; None where there may be lists among them.

    The same is said of all that are equal, and of half a million numbers in a megabyte few differ. Truth
    values equal numbers, and are not the same."""
    kinds = set(map(type, items))
    if not kinds <= _ALIKE:
        return items if kinds <= _FLAT else None
    if bool in kinds and not kinds.isdisjoint(_NUMBERS):
        return items
    if int in kinds:
        whole = items if len(kinds) == 1 else [item for item in items if type(item) is int]
        if max(whole) > _LARGEST_OWN_HASH or min(whole) < -_LARGEST_OWN_HASH:
            return items  # many of these can be found that have one hash, and take a minute to tell apart
    return dict.fromkeys(items)


# --- reading schemas -----------------------------------------------------------------------------------


def is_changing(tool: Tool) -> bool:
    """Whether a tool may get some argument in another form than it came in."""
    return bool(_facts_of(tool)[2])


def _facts_of(tool: Tool) -> tuple[Mapping[str, Any], Binder, frozenset[str]]:
    try:
        check = tool.built.arguments
        return tool.definition.input_schema, check.binder, check.changing
    except DefinitionError:
        return {}, Binder(closed=False), frozenset()  # what cannot be built is neither listed nor called


def _walk(path: str, root: Mapping[str, Any], optional: frozenset[str], is_closed: bool) -> Iterator[Step]:
    properties = root.get("properties")
    names = [path] if isinstance(properties, Mapping) and path in properties else path.split(".")
    schemas: tuple[Any, ...] = (root,)
    for number, name in enumerate(names):
        step = _step(name, schemas, root)
        if number == 0:
            is_possible = bool(step.schemas) or (step.is_possible and not is_closed)
            step = replace(step, drops_null=name in optional, is_possible=is_possible)
        yield step
        schemas = step.schemas


def _step(name: str, schemas: tuple[Any, ...], root: Mapping[str, Any]) -> Step:
    if not schemas:
        return Step(name)  # anything may be here
    level = [form for schema in schemas for form in forms_of(schema, root)]
    for lists in range(_MAX_LISTS):
        having = [form for form in level if name in _properties(form)]
        if having:
            found = tuple(form["properties"][name] for form in having)
            defaults = tuple(default for schema in found for default in _defaults(schema, root))
            is_whole = len(having) == len(level)
            is_required = is_whole and all(_requires(form, name) for form in having)
            return Step(name, found, lists, defaults, False, is_required, is_whole=is_whole)
        values = [item for form in level if isinstance(item := form.get("additionalProperties"), Mapping)]
        if values:  # a table: under every name there is the same
            return Step(name, tuple(values), lists, is_whole=len(values) == len(level))
        items = [form["items"] for form in level if isinstance(form.get("items"), Mapping)]
        if not items:
            break
        level = [form for item in items for form in forms_of(item, root)]
    else:
        return Step(name)  # too far down to be looked at here
    return Step(name, is_possible=any(_may_have_more(form) for form in level))


def forms_of(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The forms that a value may have: references followed, alternatives side by side."""
    found: list[Mapping[str, Any]] = []
    waiting, seen = [schema], set()
    while waiting and len(found) < _MAX_FORMS:
        item = waiting.pop(0)
        item = {} if item is True else item
        if not isinstance(item, Mapping) or id(item) in seen:
            continue
        seen.add(id(item))
        below = [form for word in ("anyOf", "oneOf", "allOf") for form in item.get(word, ())]
        if "$ref" in item:
            below.append(_follow(item["$ref"], root))
        if not below or "properties" in item or "type" in item:
            found.append(item)
        waiting += below
    return found


def _follow(reference: Any, root: Mapping[str, Any]) -> Any:
    place: Any = root
    for name in str(reference).split("/")[1:]:
        place = place.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place


def _properties(form: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = form.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _requires(form: Mapping[str, Any], name: str) -> bool:
    return name in form.get("required", ())


def _defaults(schema: Any, root: Mapping[str, Any]) -> list[Any]:
    """The default beside a reference wins over those behind it; behind it there may be several."""
    if isinstance(schema, Mapping) and "default" in schema:
        return [schema["default"]]
    return [form["default"] for form in forms_of(schema, root) if "default" in form]


def _may_have_more(form: Mapping[str, Any]) -> bool:
    """Whether a form is, or may be, an object that takes other names than those it tells of."""
    kind = form.get("type", "object")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind)
    return is_object and form.get("additionalProperties", True) is not False
