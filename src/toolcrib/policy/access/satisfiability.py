"""Satisfiability of access rules: can any arguments pass the rules of a tool, and which do, for example?

A tool whose rules no arguments pass is hidden. The rules are translated into a JSON Schema that accepts at
least everything that passes, together with the input schema of the tool; the schema engine then decides
whether any value is valid. Only its "no" is a proof: otherwise the tool is shown, and its calls are judged.

Arguments are judged as they are sent. The tool may convert them, but what is refused as it was sent is
refused in any case, so a proof holds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, pairwise, product
from typing import Any

from toolcrib.component import Component
from toolcrib.errors import DefinitionError, ToolcribError
from toolcrib.policy.access.conditions import (
    ABSENT,
    ArgumentPath,
    Condition,
    Schema,
    Step,
    arguments_of,
    follow_steps,
    forms_of,
    is_number,
)
from toolcrib.validation.schema_tree import Resolver, rewrite
from toolcrib.validation.validator import Validator, satisfiability

logger = logging.getLogger("toolcrib")

Conditions = Sequence[Condition]
Demand = tuple[Condition, bool]
"""A condition, and whether it has to hold or to fail."""

_MAX_LISTS = 1
"""Levels of nested lists that are translated; whatever is in deeper ones is accepted."""
_MAX_DENIALS = 100
_MAX_ALTERNATIVES = 3
"""Rules with several conditions that are translated: each multiplies the work of the engine. To leave out a
rule that denies is safe, because more is accepted."""


def can_pass(tool: Component, allowing: Sequence[Conditions], denying: Sequence[Conditions]) -> bool:
    """Whether any arguments may meet all conditions of a rule that allows, and not all of any that denies."""
    several = [conditions for conditions in denying if len(conditions) > 1][:_MAX_ALTERNATIVES]
    used = [each for each in denying if len(each) == 1 or each in several][:_MAX_DENIALS]
    denials = [[(each, False) for each in conditions] for conditions in used]
    return any(
        _can_be_met(tool, [*([(each, True)] for each in conditions), *denials]) for conditions in allowing
    )


def can_hold(condition: Condition, tool: Component, *, permits: bool) -> bool:
    """Whether a condition can hold; in doubt, yes. In a rule that allows (`permits`) it must hold as the
    argument is sent; other rules may be about what the tool's own code makes of it."""
    if not permits:
        steps, required = condition.path.steps, condition.path.root.get("required", ())
        can_be_missing = len(steps) > 1 or steps[0].name not in required
        if condition.path.is_coded or (can_be_missing and condition.predicate.holds(ABSENT, False)):
            return True
    return _can_be_met(tool, [[(condition, True)]])


def _can_be_met(tool: Component, demands: Sequence[Sequence[Demand]]) -> bool:
    """Whether any arguments may meet demands, of each sequence one."""
    schema = _accepted(tool, [condition for choice in demands for condition, _ in choice])
    together: dict[str, list[Demand]] = {}  # those on the same path are combined, which is easier to decide
    added: list[Schema] = []
    for choice in demands:
        if len(choice) == 1:
            together.setdefault(choice[0][0].path.path, []).append(choice[0])
        else:
            added.append({"anyOf": [_at_path([demand]) for demand in choice]})
    added += [_at_path(combined) for combined in together.values()]
    try:
        return satisfiability({**schema, "allOf": added} if added else schema) != "no"
    except (DefinitionError, ValueError):
        return True  # beyond the engine: numbers of hundreds of digits, for example
    except ToolcribError as error:
        _warn(str(error))
        return True


@cache
def _warn(problem: str) -> None:
    """Say once that nothing can be proved."""
    logger.warning("tools that no arguments can call by their access rules are listed: %s", problem)


def _accepted(tool: Component, conditions: Iterable[Condition]) -> Schema:
    """Return a schema of what the tool accepts, for the arguments that conditions look at."""
    root, arguments = arguments_of(tool)
    properties = root.get("properties", {})
    others: Any = False if arguments.closed else root.get("additionalProperties", True)
    accepted: Schema = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    accepted |= {"type": "object", "properties": {}, "required": []}
    for name in dict.fromkeys(condition.path.steps[0].name for condition in conditions):
        schema = properties.get(name, True if "patternProperties" in root else others)
        if name in arguments.optional:
            schema = {"anyOf": [schema, {"type": "null"}]}  # null counts as left out
        accepted["properties"][name] = schema
        if name in root.get("required", ()):
            accepted["required"].append(name)
    stripped: Schema = rewrite(accepted, _without_format)
    return stripped


def _without_format(schema: Schema) -> Schema:
    """Formats are checked less strictly in calls than by the engine."""
    return {key: value for key, value in schema.items() if key != "format"}


def _at_path(demands: Sequence[Demand]) -> Schema:
    """Return a schema of arguments in which every value at one path meets all demands."""

    def is_met(value: Any, is_given: bool) -> bool:
        return all(condition.judge(value, is_given) is wanted for condition, wanted in demands)

    schemas = [condition.predicate.schema(wanted) for condition, wanted in demands]
    schema: Schema = {"not": {"type": "array"}, "allOf": schemas}
    path = demands[0][0].path
    resolver = Resolver(path.root)
    if _may_be_list(path.steps[-1], resolver):
        schema = _in_lists(schema, accepts_empty=is_met([], True) and is_met(ABSENT, False))
    for number in reversed(range(len(path.steps))):
        when_missing = all(is_met(*found) for found in follow_steps(path.steps[number:], {}))
        schema = _inside(path.steps[number], schema, when_missing)
        if number:  # the arguments themselves are an object
            if is_met(ABSENT, False):
                schema = {"anyOf": [schema, {"not": {"type": ["object", "array"]}}]}
            if _may_be_list(path.steps[number - 1], resolver):
                schema = _in_lists(schema, accepts_empty=is_met(ABSENT, False))
    return schema


def _may_be_list(step: Step, resolver: Resolver) -> bool:
    forms = [form for schema in step.schemas for form in forms_of(schema, resolver)]
    kinds = [form.get("type", "array") for form in forms]
    return not forms or any("array" in ([kind] if isinstance(kind, str) else kind) for kind in kinds)


def _inside(step: Step, value: Schema, when_missing: bool) -> Schema:
    """Return a schema of objects in which one property is valid, or missing if that is accepted."""
    if step.drops_null:
        null = [{"type": "null"}] if when_missing else []
        value = {"anyOf": [*null, {"not": {"type": "null"}, "allOf": [value]}]}
    required = {} if when_missing else {"required": [step.name]}
    return {"type": "object", "properties": {step.name: value}, **required}


def _in_lists(schema: Schema, *, accepts_empty: bool) -> Schema:
    """Return a schema that also accepts lists of valid values."""
    accepted: Schema = {"anyOf": [schema, {"type": "array"}]}
    for _ in range(_MAX_LISTS):
        items = {"type": "array", "items": accepted, "minItems": 0 if accepts_empty else 1}
        accepted = {"anyOf": [schema, items]}
    return accepted


# --- examples ---

_MAX_EXAMPLES = 1_000
_MAX_TEXTS = 8
_MAX_DEPTH = 8
_SIMPLE: Mapping[str, Any] = {"string": "", "boolean": False, "array": [], "null": None}


def find_example(
    tool: Component, conditions: Conditions, passes: Callable[[Mapping[str, Any]], bool]
) -> dict[str, Any] | None:
    """Return arguments that pass, as far as conditions look at them; None if none are easily found.

    Tries the values that occur in the conditions and in the schema, beginning with nothing.
    """
    accepted = _accepted(tool, conditions)
    resolver = Resolver(accepted)
    try:
        required, optional = Validator(accepted), Validator({**accepted, "required": []})
    except DefinitionError:
        return None
    tried: dict[ArgumentPath, list[Any]] = {}
    for path in {each.path.path: each.path for each in conditions}.values():
        alike = [each for each in conditions if each.path.path == path.path]
        values = list(_example_values(path, alike, resolver))
        values = [ABSENT, *values, *([item] for item in values)]
        values = list({repr(item): item for item in values}.values())  # a rule may repeat a value
        tried[path] = [item for item in values if _is_valid(optional, _put({}, path, item, resolver))]
    for combination in islice(product(*tried.values()), _MAX_EXAMPLES):
        example = {name: _sample(accepted["properties"][name], resolver) for name in accepted["required"]}
        for path, value in zip(tried, combination, strict=True):
            _put(example, path, value, resolver)
        if _is_valid(required, example) and passes(example):
            return example
    return None


def _is_valid(validator: Validator, value: Any) -> bool:
    try:
        return bool(validator.is_valid(value))
    except ValueError:  # not JSON: a lone surrogate in a rule
        return False


def _example_values(path: ArgumentPath, conditions: Conditions, resolver: Resolver) -> Iterator[Any]:
    """Yield simple values, those of the conditions and schema, and values beside them."""
    yield from ("", 0, False, True, None, [])
    constants = [
        item for each in conditions for operator in each.predicate.walk() for item in operator.constants
    ]
    for form in (form for schema in path.steps[-1].schemas for form in forms_of(schema, resolver)):
        constants += form.get("enum", ())
        constants += [form[key] for key in ("const", "minimum", "maximum") if key in form]
    texts = [item.replace("*", "").replace("?", "x") for item in constants if isinstance(item, str)]
    texts = texts[:_MAX_TEXTS]
    yield from sorted(map("".join, product(texts, ("", "x", "/x"), ("", *texts))), key=len)
    for item in constants:
        yield item
        if is_number(item) and math.isfinite(item):
            yield from (math.floor(item), math.ceil(item), item + 1, item - 1)
    yield "x"


def _put(arguments: dict[str, Any], path: ArgumentPath, value: Any, resolver: Resolver) -> dict[str, Any]:
    """Set the value at a path, in objects with the members that they require."""
    target = arguments
    for step, _ in pairwise(path.steps) if value is not ABSENT else ():
        if not isinstance(target.get(step.name), dict):
            made = _sample(step.schemas[0] if step.schemas else {}, resolver)
            target[step.name] = made if isinstance(made, dict) else {}
        target = target[step.name]
    if value is not ABSENT:
        target[path.steps[-1].name] = value
    return arguments


def _sample(schema: Any, resolver: Resolver, depth: int = 0) -> Any:
    """Return a simple value, which is likely to be valid."""
    form = next(iter(forms_of(schema, resolver)), {})
    if found := [form[key] for key in ("default", "const") if key in form] or form.get("enum"):
        return found[0]
    kind = form.get("type", "object")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind != "object" or depth > _MAX_DEPTH:
        return _SIMPLE.get(kind, form.get("minimum", 0))
    properties = form.get("properties", {})
    return {name: _sample(properties.get(name, {}), resolver, depth + 1) for name in form.get("required", ())}
