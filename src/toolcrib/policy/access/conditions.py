"""Conditions on arguments: operators on one value, and the path to that value.

    when = { "order.amount" = { at_most = 100 } }

An operator answers True, False, or None for a value that it cannot compare (a string where a number is asked
for): a rule that denies treats None as yes, a rule that allows as no. A path leads into objects by dots and
through every item of a list. For an argument that is left out, the default that the schema publishes is
judged, because the tool will work with it.
"""

from __future__ import annotations

import itertools
import operator as compare
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import partial
from typing import Any, Final

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.errors import DefinitionError, ErrorCollector, InvalidSchemaError
from toolcrib.schema.arguments import ToolArguments
from toolcrib.schema.received import OPAQUE, Received
from toolcrib.validation import codec
from toolcrib.validation.limits import max_matched_length
from toolcrib.validation.schema_tree import Resolver
from toolcrib.validation.validator import Validator

Verdict = bool | None
Check = Callable[[Any], Verdict]


class _Absent:
    __slots__ = ()

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()
"""The value of an argument that is missing and has no published default."""


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, and true is not a number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    return is_number(value) and value - value == 0


def is_nothing(value: Any) -> bool:
    """Whether there is nothing to compare: no argument, null, an empty list."""
    return value is ABSENT or value is None or value == []


def kind_of(value: Any) -> type:
    """Return the JSON type of a value, with one type for all numbers."""
    return float if is_number(value) else type(value)


# --- folders ---

_AMBIGUOUS = re.compile(r"\x00|\\|%(?:2e|2f|5c|00)|^~|^[A-Za-z]:", re.IGNORECASE)
"""NUL bytes, Windows separators, encoded dots and slashes, home folders and drives."""


def _make_below_path(folder: str) -> Callable[[str], Verdict]:
    """Return a function that says whether a path is the folder or below it; None if its text does not tell.

    Paths are judged by text alone: links are up to the tool that follows them. Raises ValueError for a text
    that does not name one folder.
    """
    if is_ambiguous(folder):
        raise ValueError("must be a plain path: no '..', '~', backslash, drive or encoded character")
    is_absolute, parts = folder.startswith("/"), _split_path(folder)

    def holds(path: str) -> Verdict:
        if is_ambiguous(path) or path.startswith("/") is not is_absolute:
            return None
        return _split_path(path)[: len(parts)] == parts

    return holds


def is_ambiguous(path: str) -> bool:
    """Whether a path may lead elsewhere than it reads."""
    return not path or _AMBIGUOUS.search(path) is not None or ".." in path.split("/")


def _split_path(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


# --- operators ---


@dataclass(frozen=True, slots=True)
class Operator:
    """One comparison with `constants`. `inner` is the predicate that `not` negates. For values of these
    `kinds`, `test` says the same as `check`, without Python code."""

    name: str
    constants: tuple[Any, ...]
    check: Check
    inner: Predicate | None = None
    kinds: frozenset[type] = frozenset()
    test: Callable[[Any], bool] = bool

    def __str__(self) -> str:
        if self.inner is not None:
            return f"not ({self.inner})" if len(self.inner.operators) > 1 else f"not {self.inner}"
        shown = [codec.encode_text(item) for item in self.constants]
        return f"{self.name} {shown[0] if self.name != 'one_of' else '[' + ', '.join(shown) + ']'}"


@dataclass(frozen=True, slots=True)
class Predicate:
    """All operators on one value. `exists` asks whether the caller gave it; None does not ask."""

    operators: tuple[Operator, ...]
    exists: bool | None = None

    def holds(self, value: Any, is_given: bool) -> Verdict:
        if self.exists is not None and self.exists is not is_given:
            return False
        if value is OPAQUE:
            return None if self.operators else True
        verdict: Verdict = True
        for operator in self.operators:
            found = operator.check(value)
            if found is False:
                return False
            if found is None:
                verdict = None
        return verdict

    def walk(self) -> Iterator[Operator]:
        """Yield every operator, also those below a `not`."""
        for operator in self.operators:
            yield operator
            if operator.inner is not None:
                yield from operator.inner.walk()

    def __str__(self) -> str:
        parts = [str(operator) for operator in self.operators]
        if self.exists is not None:
            parts.insert(0, "is given" if self.exists else "is not given")
        return " and ".join(parts)


def parse_predicate(policy: Policy, key: str, given: Any) -> Predicate:
    """Parse a predicate as written in a rule. Raises ConfigurationError, which names the key."""
    if not isinstance(given, Mapping):
        name = "one_of" if isinstance(given, list | tuple) else "equals"
        return Predicate((_PARSERS[name](policy, key, given),))
    if not given:
        raise policy.error_at(key, "has no operator", f"operators: {_NAMES}")
    exists = None
    operators = []
    problems = ErrorCollector()
    for name, constant in given.items():
        place = f"{key}.{name}"
        with problems.collecting():
            if name == "exists":
                if not isinstance(constant, bool):
                    raise policy.error_at(place, f"must be true or false, got {constant!r}")
                exists = constant
            elif name in _PARSERS:
                operators.append(_PARSERS[name](policy, place, constant))
            else:
                inside = f"{key.partition('.when.')[2]}.{name}"
                hint = f'operators: {_NAMES}; for a field of an object, write "{inside}" in quotes'
                raise policy.error_at(place, "unknown operator", hint)
    problems.raise_errors()
    return Predicate(tuple(operators), exists)


_NUMBERS = frozenset({int, float})


def _read_number(text: str) -> float | None:
    try:
        return float(text)  # accepts spaces, underscores and exponents, as converters do
    except ValueError:
        return None


def _parse_equals(policy: Policy, key: str, constant: Any) -> Operator:
    return _compare(policy, key, "equals", (constant,))


def _parse_one_of(policy: Policy, key: str, constants: Any) -> Operator:
    if not isinstance(constants, list | tuple) or not constants:
        raise policy.error_at(key, f"must be a non-empty list of values, got {constants!r}")
    return _compare(policy, key, "one_of", tuple(constants))


def _compare(policy: Policy, key: str, name: str, constants: tuple[Any, ...]) -> Operator:
    """Compare like `is_same`. A string that spells a number cannot be compared: the tool may convert it."""
    for constant in constants:
        _check_constant(policy, key, constant)
    texts = frozenset(item for item in constants if isinstance(item, str))
    numbers = frozenset(item for item in constants if is_number(item))

    def check(value: Any) -> Verdict:
        if isinstance(value, str):
            if value in texts:
                return True
            return None if numbers and _read_number(value) in numbers else False
        if type(value) in (int, float):  # sets, because lists in calls and in rules may be long
            return value in numbers
        return any(is_same(value, item) for item in constants)

    if numbers:
        return Operator(name, constants, check, None, _NUMBERS, numbers.__contains__)
    return Operator(name, constants, check, None, frozenset({str}), texts.__contains__)


def _parse_not(policy: Policy, key: str, given: Any) -> Operator:
    inner = parse_predicate(policy, key, given)
    if inner.exists is not None or any(operator.inner is not None for operator in inner.operators):
        raise policy.error_at(
            key, "cannot negate `exists` or `not`", "write exists = false, or leave out both `not`"
        )

    def check(value: Any) -> Verdict:
        found = inner.holds(value, True)
        return None if found is None else not found

    return Operator("not", (), check, inner)


def _text_parser(name: str, make: Callable[[str], Callable[[str], Verdict]]) -> Callable[..., Operator]:
    def parse(policy: Policy, key: str, constant: Any) -> Operator:
        if not isinstance(constant, str) or not constant:
            raise policy.error_at(key, f"must be a non-empty string, got {constant!r}")
        try:
            matches = make(constant)
        except ValueError as error:  # InvalidSchemaError is one too
            message = error.message if isinstance(error, InvalidSchemaError) else str(error)
            raise policy.error_at(key, message) from None
        return Operator(name, (constant,), _check_text(matches))

    return parse


def _check_text(matches: Callable[[str], Verdict]) -> Check:
    def check(value: Any) -> Verdict:
        if isinstance(value, str):
            return matches(value)
        return False if is_nothing(value) else None

    return check


def _make_glob(pattern: str) -> Callable[[str], Verdict]:
    match = re.compile(translate(pattern)).match
    return lambda text: match(text) is not None


def _make_matches(pattern: str) -> Callable[[str], Verdict]:
    Validator({"pattern": pattern})  # alone, so that no parenthesis in it closes the group around it
    whole = f"^(?:{pattern})$"
    validator = Validator({"pattern": whole})
    longest = max_matched_length(whole)

    def matches(text: str) -> Verdict:
        return None if longest is not None and len(text) > longest else bool(validator.is_valid(text))

    return matches


def _number_parser(name: str, compares: Callable[[Any, Any], bool]) -> Callable[..., Operator]:
    """`compares` gets the constant first."""

    def parse(policy: Policy, key: str, constant: Any) -> Operator:
        if not is_finite(constant):
            raise policy.error_at(key, f"must be a number, got {constant!r}")

        def check(value: Any) -> Verdict:
            if is_number(value):
                return compares(constant, value)
            return False if is_nothing(value) else None

        return Operator(name, (constant,), check, None, _NUMBERS, partial(compares, constant))

    return parse


def _parse_max_length(policy: Policy, key: str, constant: Any) -> Operator:
    if not isinstance(constant, int) or isinstance(constant, bool) or constant < 0:
        raise policy.error_at(key, f"must be a number of characters, got {constant!r}")
    return Operator("max_length", (constant,), _check_text(lambda text: len(text) <= constant))


def _check_constant(policy: Policy, key: str, constant: Any) -> None:
    if isinstance(constant, list | tuple | Mapping):
        hint = "lists are compared item by item; for a field of an object, write a path: order.amount"
    elif constant is None or isinstance(constant, str | bool) or is_finite(constant):
        return
    else:
        hint = "dates and times are compared as strings"
    raise policy.error_at(key, f"must be a string, a number, true or false, got {constant!r}", hint)


_PARSERS: Mapping[str, Callable[[Policy, str, Any], Operator]] = {
    "equals": _parse_equals,
    "not": _parse_not,
    "one_of": _parse_one_of,
    "prefix": _text_parser("prefix", lambda constant: lambda text: text.startswith(constant)),
    "suffix": _text_parser("suffix", lambda constant: lambda text: text.endswith(constant)),
    "glob": _text_parser("glob", _make_glob),
    "matches": _text_parser("matches", _make_matches),
    "below_path": _text_parser("below_path", _make_below_path),
    "below": _number_parser("below", compare.gt),
    "at_most": _number_parser("at_most", compare.ge),
    "above": _number_parser("above", compare.lt),
    "at_least": _number_parser("at_least", compare.le),
    "max_length": _parse_max_length,
}
_NAMES = ", ".join([*_PARSERS, "exists"])


# --- paths ---

Found = tuple[Any, bool]
"""A value, and whether the caller gave it."""

PLAIN = frozenset({str, int, float, bool})
_FLAT = PLAIN | {type(None), dict}
_NOT_THERE: Found = (ABSENT, False)
_KINDS: Mapping[str, type] = {
    "string": str,
    "boolean": bool,
    "integer": float,
    "number": float,
    "object": dict,
    "null": type(None),
}
"""The types of values, as `kind_of` returns them. A list without a schema of its items may have any."""
_MAX_LISTS = 4
"""Levels of nested lists that are followed when a schema is read."""


@dataclass(frozen=True, slots=True)
class Step:
    """One name of a path. `schemas` are the schemas of its value; empty means anything. `drops_null` says
    that null counts as left out, `is_possible` that the schema has room for this name."""

    name: str
    schemas: tuple[Any, ...] = ()
    defaults: tuple[Any, ...] = ()
    drops_null: bool = False
    is_possible: bool = True


class ArgumentPath:
    """A path into the arguments of one tool.

    `is_changing` says that the tool may get another value than the caller sent, `is_coded` that code of the
    tool's author makes it, so that it may be anything.
    """

    __slots__ = ("_received_steps", "is_changing", "is_coded", "path", "root", "steps")

    def __init__(self, path: str, tool: Component) -> None:
        self.path = path
        self.root, arguments = arguments_of(tool)
        self.steps = tuple(_read_steps(path, self.root, arguments.optional, arguments.closed))
        self._received_steps = tuple(replace(step, defaults=(), drops_null=False) for step in self.steps)
        self.is_changing = self.steps[0].name in arguments.changing
        self.is_coded = self.steps[0].name in arguments.user_code

    @property
    def is_possible(self) -> bool:
        """Whether the tool may have such an argument."""
        return all(step.is_possible for step in self.steps)

    def accepts(self, operator: Operator) -> bool:
        """Whether the schema has room for a value that an operator compares, also in a list: by the types and
        values that it names. In doubt, yes."""
        resolver = Resolver(self.root)
        forms = [form for schema in self.steps[-1].schemas for form in resolver.forms(schema)]
        for _ in range(_MAX_LISTS):
            items = [form["items"] for form in forms if isinstance(form.get("items"), Mapping)]
            forms = [form for form in forms if "items" not in form]
            forms += [form for item in items for form in resolver.forms(item)]
        return not forms or None in operator.constants or any(_accepts(form, operator) for form in forms)

    def find(self, arguments: Mapping[str, Any]) -> list[Found]:
        """Return every value that is there or will be; never empty."""
        return follow_steps(self.steps, arguments)

    def find_received(self, received: Received) -> list[Any]:
        """Return the same of what the tool gets, with what its own code has filled in."""
        return [value for value, _ in follow_steps(self._received_steps, received)]


def _accepts(form: Mapping[str, Any], operator: Operator) -> bool:
    names = form.get("type", "array")
    kinds = {_KINDS.get(name) for name in ([names] if isinstance(names, str) else names)}
    if operator.inner is not None or None in kinds:
        return True
    if operator.name not in ("equals", "one_of"):
        compared = {str} if operator.name == "max_length" else set(map(kind_of, operator.constants))
        return not kinds.isdisjoint(compared)
    possible = [item for item in operator.constants if kind_of(item) in kinds]
    listed = form.get("enum", [form["const"]] if "const" in form else possible)
    return any(is_same(item, one) for item in possible for one in listed)


def arguments_of(tool: Component) -> tuple[Mapping[str, Any], ToolArguments]:
    """Return the input schema of a tool, and what its handler makes of arguments."""
    try:
        return tool.definition.input_schema, tool.arguments
    except DefinitionError:
        # A tool that cannot be built is neither listed nor called.
        return {}, ToolArguments(name=tool.name, schema={}, closed=False)


def follow_steps(steps: Sequence[Step], arguments: Mapping[str, Any]) -> list[Found]:
    if len(steps) == 1:
        value = arguments.get(steps[0].name)
        if type(value) in PLAIN:  # nearly always
            return [(value, True)]
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
    """Add the items of a list, also of nested ones. An empty list is itself and nothing at once."""
    if not isinstance(value, list | tuple):
        found.append((value, is_given))
    elif not value:
        found += (([], is_given), _NOT_THERE)
    else:
        kinds = set(map(type, value))
        if kinds <= _FLAT:
            found += zip(_distinct(value, kinds), itertools.repeat(is_given))
        else:  # there may be lists in it
            for item in value:
                _spread(item, is_given, found)


def _distinct(items: Sequence[Any], kinds: set[type]) -> Iterable[Any]:
    """Return equal strings and numbers once: of half a million in a megabyte few differ.

    Not booleans beside numbers, which equal them and are judged differently, and not integers beyond 60 bits,
    of which an attacker can choose many with one hash.
    """
    if dict in kinds or (bool in kinds and kinds & {int, float}):
        return items
    integers = [item for item in items if type(item) is int] if int in kinds else [0]
    return dict.fromkeys(items) if min(integers) > -(2**60) and max(integers) < 2**60 else items


def _read_steps(
    path: str, root: Mapping[str, Any], optional: frozenset[str], is_closed: bool
) -> Iterator[Step]:
    properties = root.get("properties")
    names = [path] if isinstance(properties, Mapping) and path in properties else path.split(".")
    resolver = Resolver(root)
    schemas: tuple[Any, ...] = (root,)
    for number, name in enumerate(names):
        step = _read_step(name, schemas, resolver)
        if number == 0:
            is_possible = bool(step.schemas) or (step.is_possible and not is_closed)
            step = replace(step, drops_null=name in optional, is_possible=is_possible)
        yield step
        schemas = step.schemas


def _read_step(name: str, schemas: tuple[Any, ...], resolver: Resolver) -> Step:
    if not schemas:
        return Step(name)
    forms = [form for schema in schemas for form in resolver.forms(schema)]
    for _ in range(_MAX_LISTS):
        properties = [form["properties"] for form in forms if isinstance(form.get("properties"), Mapping)]
        found = tuple(each[name] for each in properties if name in each)
        if found:
            return Step(name, found, tuple(d for schema in found for d in _defaults(schema, resolver)))
        values = [item for form in forms if isinstance(item := form.get("additionalProperties"), Mapping)]
        if values:  # a table: the same schema under every name
            return Step(name, tuple(values))
        items = [form["items"] for form in forms if isinstance(form.get("items"), Mapping)]
        if not items:
            return Step(name, is_possible=any(_allows_more(form) for form in forms))
        forms = [form for item in items for form in resolver.forms(item)]
    return Step(name)  # nested too deeply to be looked at


def _defaults(schema: Any, resolver: Resolver) -> list[Any]:
    """Return possible defaults. One beside a reference overrides those behind it."""
    if isinstance(schema, Mapping) and "default" in schema:
        return [schema["default"]]
    return [form["default"] for form in resolver.forms(schema) if "default" in form]


def _allows_more(form: Mapping[str, Any]) -> bool:
    """Whether a form may be an object with other names than those in `properties`."""
    kind = form.get("type", "object")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind)
    return is_object and form.get("additionalProperties", True) is not False


# --- conditions ---

_SAME_IF_EQUAL = frozenset({str, int, float})
"""Types whose equal values no operator tells apart."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate on one argument of one tool."""

    path: ArgumentPath
    predicate: Predicate
    name: str = field(init=False, default="")
    """The name of the argument, unless the path leads on from there."""
    kinds: frozenset[type] = field(init=False, default=frozenset())
    test: Callable[[Any], bool] = field(init=False, default=bool)
    """Judges a value of that argument, if it is of these `kinds`."""

    def __post_init__(self) -> None:
        if len(self.path.steps) == 1:
            object.__setattr__(self, "name", self.path.steps[0].name)
            if self.predicate.exists is None and len(self.predicate.operators) == 1:
                operator = self.predicate.operators[0]
                object.__setattr__(self, "kinds", operator.kinds)
                object.__setattr__(self, "test", operator.test)

    def holds(self, arguments: Mapping[str, Any], received: Received | None = None) -> Verdict:
        """Judge the values that were sent and, if they may differ, those that the tool gets: True if the
        predicate holds for all of them, False if for none, else None."""
        found = self.path.find(arguments)
        if received is None and len(found) == 1:  # nearly always
            return self.judge(*found[0])
        verdicts: Iterator[Verdict] = itertools.starmap(self.judge, found)
        if received is not None:
            verdicts = itertools.chain(verdicts, self._judge_received(found, received))
        first = next(verdicts)
        return first if first is not None and all(verdict is first for verdict in verdicts) else None

    def judge(self, value: Any, is_given: bool) -> Verdict:
        verdict = self.predicate.holds(value, is_given)
        # Nothing is certain about a missing argument except that it is missing.
        return None if verdict and value is ABSENT and self.predicate.exists is not False else verdict

    def _judge_received(self, found: Sequence[Found], received: Received) -> Iterator[Verdict]:
        """Judge what the tool gets. `exists` is about what the caller sent."""
        exists = self.predicate.exists
        if exists is not None and all(is_given is not exists for _, is_given in found):
            return
        values = self.path.find_received(received)
        if _is_unchanged(values, found):
            return
        left_out = sum(not is_given for _, is_given in found)
        kinds = self._comparable_kinds(found)
        for value in values:
            if value is ABSENT:
                left_out -= 1
                if left_out >= 0:
                    continue
                value = OPAQUE  # it was sent, and became something else
            elif not is_nothing(value) and kind_of(value) not in kinds:
                value = OPAQUE
            yield self.predicate.holds(value, exists is not False)

    def _comparable_kinds(self, found: Sequence[Found]) -> set[type]:
        """Return the types of what was sent and of the constants. Other values cannot be compared: a user
        object made from a name neither equals nor differs from that name."""
        kinds = {kind_of(item) for item, _ in found}
        kinds.update(kind_of(item) for each in self.predicate.walk() for item in each.constants)
        return kinds


def _is_unchanged(values: Sequence[Any], found: Sequence[Found]) -> bool:
    """Whether the tool gets exactly the strings and numbers that were sent."""
    return (
        len(values) == len(found)
        and _SAME_IF_EQUAL.issuperset(map(type, values))
        and all(is_given and type(item) in _SAME_IF_EQUAL for item, is_given in found)
        and values == [item for item, _ in found]
    )
