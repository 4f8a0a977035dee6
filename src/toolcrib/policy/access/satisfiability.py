"""Satisfiability of access rules: can any arguments pass the rules of a tool?

A tool whose rules no arguments pass is hidden. The rules are translated into a JSON Schema that accepts at
least everything that passes, together with the input schema of the tool; the schema engine then decides
whether any value is valid. Only its "no" is a proof: otherwise the tool is shown, and its calls are judged.

Arguments are judged as they are sent. The tool may convert them, but what is refused as it was sent is
refused in any case, so a proof holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from toolcrib.errors import DefinitionError
from toolcrib.policy.access.conditions import (
    ABSENT,
    Folder,
    Operator,
    Step,
    arguments_of,
    follow_steps,
    forms_of,
)
from toolcrib.policy.access.decision import Condition, RuleSet, ToolRule
from toolcrib.tool import Tool
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Resolver, rewrite
from toolcrib.validation.validator import Validator, canonicalize, satisfiability

Schema = dict[str, Any]
Demand = tuple[Condition, bool]
"""A condition, and whether it has to hold or to fail."""

_NOTHING: Schema = {"not": {}}
_MAX_LISTS = 1
"""Levels of nested lists that are translated; whatever is in deeper ones is accepted."""
MAX_EXAMPLES = 20
_MAX_DENIALS = 100
_MAX_ALTERNATIVES = 3
"""Rules with several conditions that are translated: each multiplies the work of the engine. To leave out a
rule that denies is safe, because more is accepted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`may_pass` is False only if it is proved that no arguments pass; `denied_by` is then the rule to name,
    None if no rule allows them. `example` are arguments that pass, if some were found."""

    may_pass: bool
    example: Mapping[str, Any] | None = None
    denied_by: ToolRule | None = None


def find_passing(rules: RuleSet, tool: Tool) -> Outcome:
    """Find out whether any arguments pass these rules."""
    allowing: list[tuple[ToolRule, ...]] = [()] if rules.is_open else [(rule,) for rule in rules.allows]
    may_pass = False
    for allowed_by in allowing:
        schema = _translate(tool, allowed_by, rules.denies)
        if _can_be_valid(schema):
            may_pass = True
            example = _find_example(schema, rules)
            if example is not None:
                return Outcome(True, example)
    if may_pass:
        return Outcome(True)
    if not any(_can_be_valid(_translate(tool, allowed_by, ())) for allowed_by in allowing):
        return Outcome(False)
    alone = (
        rule
        for rule in rules.denies
        if not any(_can_be_valid(_translate(tool, allowed_by, (rule,))) for allowed_by in allowing)
    )
    return Outcome(False, denied_by=next(alone, rules.denies[0]))


def can_hold(condition: Condition, tool: Tool, *, permits: bool) -> bool:
    """Whether a condition can hold; in doubt, yes. In a rule that allows (`permits`) it must hold as the
    argument is sent; other rules may be about what the tool's own code makes of it."""
    if not permits:
        steps, required = condition.path.steps, condition.path.root.get("required", ())
        can_be_missing = len(steps) > 1 or steps[0].name not in required
        if condition.path.is_coded or (can_be_missing and condition.predicate.holds(ABSENT, False)):
            return True
    return _can_be_valid(_add_demands(_accepted(tool, [condition]), [[(condition, True)]]))


def _can_be_valid(schema: Schema) -> bool:
    try:
        return satisfiability(schema) != "no"
    except DefinitionError:
        return True  # beyond the engine: numbers of hundreds of digits, for example


# --- rules to schemas ---


def _translate(tool: Tool, allowed_by: Sequence[ToolRule], denies: Sequence[ToolRule]) -> Schema:
    """Return a schema of arguments that meet all conditions of some rules, and of each denial not all."""
    demands: list[list[Demand]] = [[(each, True)] for rule in allowed_by for each in rule.conditions]
    several = [rule for rule in denies if len(rule.conditions) > 1][:_MAX_ALTERNATIVES]
    used = [rule for rule in denies if len(rule.conditions) == 1 or rule in several][:_MAX_DENIALS]
    demands += [[(each, False) for each in rule.conditions] for rule in used]
    return _add_demands(_accepted(tool, [each for choice in demands for each, _ in choice]), demands)


def _accepted(tool: Tool, conditions: Iterable[Condition]) -> Schema:
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


def _add_demands(schema: Schema, demands: Sequence[Sequence[Demand]]) -> Schema:
    """Add demands, of each sequence one. Those on the same path are combined, which is easier to decide."""
    known = [operator for choice in demands for each, _ in choice for operator in each.predicate.walk()]
    together: dict[str, list[Demand]] = {}
    added: list[Schema] = []
    for choice in demands:
        if len(choice) == 1:
            together.setdefault(choice[0][0].path.path, []).append(choice[0])
        else:
            added.append({"anyOf": [_at_path([demand], known) for demand in choice]})
    added += [_at_path(combined, known) for combined in together.values()]
    return {**schema, "allOf": added} if added else schema


def _at_path(demands: Sequence[Demand], known: Sequence[Operator]) -> Schema:
    """Return a schema of arguments in which every value at one path meets all demands."""

    def is_met(value: Any, is_given: bool) -> bool:
        return all(condition.judge(value, is_given) is wanted for condition, wanted in demands)

    value: Schema = {"not": {"type": "array"}, "allOf": [_on_value(*demand, known) for demand in demands]}
    accepts_empty = is_met([], True) and is_met(ABSENT, False)
    path = demands[0][0].path
    resolver = Resolver(path.root)
    schema = _in_lists(value, accepts_empty) if _may_be_list(path.steps[-1], resolver) else value
    for number in reversed(range(len(path.steps))):
        when_missing = all(is_met(*found) for found in follow_steps(path.steps[number:], {}))
        schema = _inside(path.steps[number], schema, when_missing)
        if number:  # the arguments themselves are an object
            if is_met(ABSENT, False):
                schema = {"anyOf": [schema, {"not": {"type": ["object", "array"]}}]}
            if _may_be_list(path.steps[number - 1], resolver):
                schema = _in_lists(schema, is_met(ABSENT, False))
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


def _in_lists(schema: Schema, accepts_empty: bool) -> Schema:
    """Return a schema that also accepts lists of valid values."""
    accepted: Schema = {"anyOf": [schema, {"type": "array"}]}
    for _ in range(_MAX_LISTS):
        items = {"type": "array", "items": accepted, "minItems": 0 if accepts_empty else 1}
        accepted = {"anyOf": [schema, items]}
    return accepted


def _on_value(condition: Condition, wanted: bool, known: Sequence[Operator]) -> Schema:
    """Return a schema of values that were sent and for which a predicate holds, or fails."""
    predicate = condition.predicate
    if predicate.exists is False:
        return _NOTHING if wanted else {}
    return _all_operators(predicate.operators, wanted, known)


def _all_operators(operators: Sequence[Operator], wanted: bool, known: Sequence[Operator]) -> Schema:
    schemas = [_of_operator(operator, wanted, known) for operator in operators]
    if len(schemas) == 1:
        return schemas[0]
    if wanted:
        return {"allOf": schemas} if schemas else {}
    return {"anyOf": schemas} if schemas else _NOTHING


def _of_operator(operator: Operator, wanted: bool, known: Sequence[Operator]) -> Schema:
    if operator.inner is not None:
        return _all_operators(operator.inner.operators, not wanted, known)
    if operator.name in ("equals", "one_of"):
        constants = {"enum": [item for item in operator.constants if _is_json(item)]}
        return constants if wanted else {"not": constants}
    constant = operator.constants[0]
    if operator.name == "max_length":
        limit = {"maxLength": constant} if wanted else {"minLength": constant + 1}
        return {"type": "string" if wanted else ["string", "null"], **limit}
    if operator.name in _BOUNDS:
        keyword = _BOUNDS[operator.name][not wanted]
        return {"type": "number" if wanted else ["number", "null"], keyword: constant}
    return _of_text(operator, wanted, known)


_BOUNDS = {
    "below": ("exclusiveMaximum", "minimum"),
    "at_most": ("maximum", "exclusiveMinimum"),
    "above": ("exclusiveMinimum", "maximum"),
    "at_least": ("minimum", "exclusiveMaximum"),
}
"""The keyword of an operator, and that of its negation."""


def _is_json(value: Any) -> bool:
    try:
        codec.encode(value)
    except Exception:  # a lone surrogate, which no argument can hold
        return False
    return True


def _of_text(operator: Operator, wanted: bool, known: Sequence[Operator]) -> Schema:
    """Return a schema of strings that an operator accepts, or rejects.

    The engine compares patterns by their text only. So the schema also says what a prefix, suffix or folder
    implies about the others that the rules mention.
    """
    name, text = operator.name, operator.constants[0]
    if name == "glob" and not set(text) & set("*?["):
        return {"enum": [text]} if wanted else {"type": ["string", "null"], "not": {"enum": [text]}}
    if name == "glob" and set(text) == {"*"}:
        return {"type": "string" if wanted else "null"}
    pattern = _pattern(operator)
    if pattern is None:
        return {"type": "string" if wanted else ["string", "null"]}
    alike = [each for each in known if each.name == name and name in ("prefix", "suffix", "below_path")]
    if wanted:
        shortest = len(text.replace("*", "")) if name in ("prefix", "suffix", "glob") else 0
        implied = [{"pattern": _pattern(each)} for each in alike if _implies(operator, each)]
        disjoint = [each for each in alike if not (_implies(operator, each) or _implies(each, operator))]
        excluded = [{"not": {"pattern": _pattern(each)}} for each in disjoint]
        return {"type": "string", "pattern": pattern, "minLength": shortest, "allOf": [*implied, *excluded]}
    rejected = [pattern, *(_pattern(each) for each in alike if _implies(each, operator))]
    schema = {
        "type": ["string", "null"],
        "allOf": [{"not": {"type": "string", "pattern": each}} for each in rejected],
    }
    if name == "below_path":  # a relative path cannot be compared with an absolute folder
        schema["pattern"] = "^/" if Folder(text).is_absolute else "^[^/]"
    return schema


def _implies(one: Operator, other: Operator) -> bool:
    """Whether a prefix, suffix or folder accepts only what another one accepts too."""
    text, wider = one.constants[0], other.constants[0]
    if one.name == "prefix":
        return bool(text.startswith(wider))
    if one.name == "suffix":
        return bool(text.endswith(wider))
    return Folder(wider).holds(text) is True


def _pattern(operator: Operator) -> str | None:
    """Return a regular expression of the strings that an operator accepts; None if there is none."""
    text = operator.constants[0]
    if operator.name == "prefix":
        return f"^{_escape(text)}"
    if operator.name == "suffix":
        return f"{_escape(text)}$"
    if operator.name == "matches":
        return f"^(?:{text})$"
    if operator.name == "below_path":
        folder = Folder(text)
        skipped = r"(?:\.?/)*"  # empty parts and single dots
        parts = "/".join(skipped + _escape(part) for part in folder.parts)
        return f"^{'/' if folder.is_absolute else ''}{parts}{'(?:/|$)' if parts else ''}"
    if "[" in text:
        return None
    pieces = [_GLOB_PATTERNS.get(part) or _escape(part) for part in re.split(r"([*?])", text)]
    return f"^{''.join(pieces)}$"


_GLOB_PATTERNS = {"*": r"[\s\S]*", "?": r"[\s\S]"}


def _escape(text: str) -> str:
    return re.sub(r"[\\^$.|?*+()\[\]{}]", r"\\\g<0>", text)


# --- examples ---

_FRESH = "zqxjkvwy0189~"
_KINDS = ("null", "boolean", "number", "string", "array", "object")
_MAX_EXAMPLE_DEPTH = 8


def _find_example(schema: Schema, rules: RuleSet) -> dict[str, Any] | None:
    """Return arguments that are valid for a schema and pass the rules, if some are easily found."""
    try:
        simple: Any = canonicalize(schema).to_json_schema()
    except (DefinitionError, ValueError):  # the engine cannot write it
        return None
    conditions = [each for rule in (*rules.denies, *rules.allows) for each in rule.conditions]
    operators = [operator for condition in conditions for operator in condition.predicate.walk()]
    definitions = simple.get("$defs", {}) if isinstance(simple, dict) else {}
    examples = _Examples(_example_texts(operators), definitions).of(simple)
    for example in islice(examples, MAX_EXAMPLES):
        if isinstance(example, dict) and rules.judge(example).is_allowed:
            return example
    return None


@dataclass(frozen=True, slots=True)
class _Examples:
    """Makes valid values with as little in them as possible. Strings are taken from `texts`."""

    texts: Sequence[str]
    definitions: Mapping[str, Any]

    def of(self, schema: Any, depth: int = 0) -> Iterator[Any]:
        if not isinstance(schema, Mapping):
            schema = {} if schema else _NOTHING
        try:
            validator = Validator({**schema, "$defs": self.definitions}, trusted=True)
        except DefinitionError:
            return
        for value in self._candidates(schema, depth + 1) if depth < _MAX_EXAMPLE_DEPTH else ():
            with suppress(ValueError):  # the engine meets something that is not JSON
                if validator.is_valid(value):
                    yield value

    def _candidates(self, schema: Mapping[str, Any], depth: int) -> Iterator[Any]:
        if "const" in schema or "enum" in schema:
            yield from schema.get("enum", [schema.get("const")])
            return
        for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from self.of(part, depth)
        if "$ref" in schema:
            yield from self.of(self.definitions.get(schema["$ref"].removeprefix("#/$defs/"), False), depth)
        kinds = schema.get("type", _KINDS)
        if "object" in kinds:
            properties, required = schema.get("properties", {}), schema.get("required", ())
            members = {name: list(islice(self.of(properties.get(name, True), depth), 1)) for name in required}
            if all(members.values()):
                yield {name: found for name, (found,) in members.items()}
        if "array" in kinds:
            items = next(self.of(schema.get("items", True), depth), None)
            yield [items] * min(schema.get("minItems", 0), MAX_EXAMPLES)
        if "integer" in kinds or "number" in kinds:
            yield from _example_numbers(schema)
        if "string" in kinds:
            yield from (text.ljust(schema.get("minLength", 0), _FRESH[0]) for text in self.texts)
        if "boolean" in kinds:
            yield from (True, False)
        if "null" in kinds:
            yield None


def _example_numbers(schema: Mapping[str, Any]) -> Iterator[Any]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    step = schema.get("multipleOf", 1)
    yield 0
    with suppress(OverflowError):  # numbers of hundreds of digits
        for bound in (low, high):
            if bound is not None:
                nearest = bound // step * step
                yield from (bound, nearest, nearest + step, nearest - step)
        if low is not None and high is not None:
            yield low + (high - low) / 2
    yield from (step, -step)


def _example_texts(operators: Sequence[Operator]) -> list[str]:
    """Return strings that the operators are likely to accept, and one that no operator mentions."""
    mentioned = [(each.name, text) for each in operators for text in each.constants if isinstance(text, str)]
    used = {letter for _, text in mentioned for letter in text}
    fresh = next((letter for letter in _FRESH if letter not in used), _FRESH[0])
    suffixes = ["", *(text for name, text in mentioned if name == "suffix")]
    texts = ["", fresh]
    for name, text in mentioned:
        start = text.replace("*", "").replace("?", fresh) if name == "glob" else text
        between = "/" if name == "below_path" else ""
        for suffix in suffixes:
            texts += [start + suffix, f"{start}{between}{fresh}{suffix}"]
    return sorted(dict.fromkeys(texts), key=len)
