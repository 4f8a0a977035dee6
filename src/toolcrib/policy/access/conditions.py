"""Where in a tool's arguments a condition looks, and what it finds there.

A path leads into objects by dots and through lists by itself: `orders.amount` is the amount of every order.
Where an argument is left out, what is found is the default that the schema publishes, as that is what the
tool will work with. Knows schemas, nulls and defaults; refuses to know what is done with what was found.

Whether a path stays below a folder, as far as its text can say.

Knows how paths are spelt and which spellings may mean another place than they seem to: those are neither
inside nor outside. Refuses to look at a disk: links are the business of the tool that follows them.

What a condition may ask of one value: the operators, how they are written, and what they answer.

An answer is True, False, or None where the value is of a kind that cannot be compared (a text, where a number
is asked about): whoever forbids takes None for yes, whoever allows takes it for no. Knows values and what
is wrong with a demand; refuses to know where a value is found in the arguments.
"""

from __future__ import annotations

import itertools
import operator as compare
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from typing import Any, Final

from toolcrib.config.settings import Policy
from toolcrib.errors import DefinitionError, ErrorCollector, InvalidSchemaError
from toolcrib.schema.arguments import ToolArguments
from toolcrib.schema.received import OPAQUE, Received
from toolcrib.tool import Tool
from toolcrib.validation import codec
from toolcrib.validation.limits import max_matched_length
from toolcrib.validation.validator import Validator

_TRICKS = re.compile(r"\x00|\\|%(?:2e|2f|5c|00)|^~|^[A-Za-z]:", re.IGNORECASE)
"""Ends of C strings, Windows' separators, encoded dots and slashes, homes and drives."""


class Folder:
    """A folder that paths may be below. Raises ValueError for a text that does not say which folder."""

    __slots__ = ("is_absolute", "parts", "text")

    def __init__(self, text: str) -> None:
        if not text or is_tricky(text):
            raise ValueError("must be a plain path: no '..', '~', backslash, drive or encoded character")
        self.is_absolute = text.startswith("/")
        self.parts = _split(text)
        self.text = ("/" if self.is_absolute else "") + "/".join(self.parts) or "."

    def holds(self, path: str) -> bool | None:
        """Whether `path` is the folder or below it. None where its text does not tell."""
        if is_tricky(path) or path.startswith("/") is not self.is_absolute:
            return None
        return _split(path)[: len(self.parts)] == self.parts


def is_tricky(path: str) -> bool:
    """Whether a path may lead elsewhere than it reads."""
    return not path or _TRICKS.search(path) is not None or ".." in path.split("/")


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


_NUMBERS = (int, float)

Verdict = bool | None
Check = Callable[[Any], Verdict]


class _Absent:
    __slots__ = ()

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()
"""The value of an argument that is not there, and of which no default is known."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One comparison. `constants` are what it compares with; `inner` is the demand that `not` turns round."""

    name: str
    constants: tuple[Any, ...]
    check: Check
    inner: Demand | None = None

    def __str__(self) -> str:
        if self.inner is not None:
            return f"not ({self.inner})" if len(self.inner.operators) > 1 else f"not {self.inner}"
        shown = [codec.encode_text(item) for item in self.constants]
        return f"{self.name} {shown[0] if self.name != 'one_of' else '[' + ', '.join(shown) + ']'}"


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything that is asked of one value. `exists` asks whether the caller gave it, None does not ask."""

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
        """Every operator, those below a `not` too."""
        for operator in self.operators:
            yield operator
            if operator.inner is not None:
                yield from operator.inner.walk()

    def __str__(self) -> str:
        said = [str(operator) for operator in self.operators]
        if self.exists is not None:
            said.insert(0, "is given" if self.exists else "is not given")
        return " and ".join(said)


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, and true is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _compare(value: Any, constant: Any) -> Verdict:
    """As `is_same`; a text that spells the number is neither: the tool may make that number of it."""
    if is_same(value, constant):
        return True
    return None if isinstance(value, str) and is_number(constant) and _spells(value, constant) else False


def _spells(text: str, number: Any) -> bool:
    try:
        return bool(float(text) == number)  # takes spaces, underscores and exponents, as converters do
    except (ValueError, OverflowError):
        return False


def is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    return is_number(value) and value - value == 0


def kind_of(value: Any) -> type:
    """The kind of a JSON value: a text, a number, a truth value, an object."""
    return float if is_number(value) else type(value)


def is_nothing(value: Any) -> bool:
    """Whether there is nothing to compare: no argument, null, an empty list."""
    return value is ABSENT or value is None or value == []


# --- reading -------------------------------------------------------------------------------------------


def read_demand(policy: Policy, key: str, given: Any) -> Demand:
    """A demand as it is written in a rule. Raises ConfigurationError, which names the key."""
    if not isinstance(given, Mapping):
        name = "one_of" if isinstance(given, list | tuple) else "equals"
        return Demand((_READERS[name](policy, key, given),))
    if not given:
        raise policy.error_at(key, "asks nothing", f"operators: {_NAMES}")
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
            elif name in _READERS:
                operators.append(_READERS[name](policy, place, constant))
            else:
                inside = f"{key.partition('.when.')[2]}.{name}"
                hint = f'operators: {_NAMES}; for what is inside an object, write "{inside}" in quotes'
                raise policy.error_at(place, "is no operator", hint)
    problems.raise_errors()
    return Demand(tuple(operators), exists)


def _read_equals(policy: Policy, key: str, constant: Any) -> Operator:
    _plain(policy, key, constant)
    return Operator("equals", (constant,), lambda value: _compare(value, constant))


def _read_one_of(policy: Policy, key: str, constants: Any) -> Operator:
    if not isinstance(constants, list | tuple) or not constants:
        raise policy.error_at(key, f"must be a list of values, got {constants!r}")
    for constant in constants:
        _plain(policy, key, constant)
    known = tuple(constants)
    texts = frozenset(item for item in known if isinstance(item, str))
    numbers = tuple(item for item in known if is_number(item))

    def check(value: Any) -> Verdict:
        if type(value) is str:
            if value in texts:
                return True
            return None if any(_spells(value, item) for item in numbers) else False
        found = [_compare(value, item) for item in known]
        return True if True in found else None if None in found else False

    return Operator("one_of", known, check)


def _read_not(policy: Policy, key: str, given: Any) -> Operator:
    inner = read_demand(policy, key, given)
    if inner.exists is not None or any(operator.inner is not None for operator in inner.operators):
        raise policy.error_at(
            key, "turns values round, not itself", "write exists = false, or leave both out"
        )

    def check(value: Any) -> Verdict:
        found = inner.holds(value, True)
        return None if found is None else not found

    return Operator("not", (), check, inner)


def _read_text(name: str, make: Callable[[str], Callable[[str], Verdict]]) -> Callable[..., Operator]:
    def read(policy: Policy, key: str, constant: Any) -> Operator:
        if not isinstance(constant, str) or not constant:
            raise policy.error_at(key, f"must be a text that is not empty, got {constant!r}")
        try:
            fits = make(constant)
        except ValueError as error:  # InvalidSchemaError is one, too
            message = error.message if isinstance(error, InvalidSchemaError) else str(error)
            raise policy.error_at(key, message) from None
        return Operator(name, (constant,), _text_check(fits))

    return read


def _text_check(fits: Callable[[str], Verdict]) -> Check:
    def check(value: Any) -> Verdict:
        if isinstance(value, str):
            return fits(value)
        return False if is_nothing(value) else None

    return check


def _make_glob(pattern: str) -> Callable[[str], Verdict]:
    fits = re.compile(translate(pattern)).match
    return lambda text: fits(text) is not None


def _make_matches(pattern: str) -> Callable[[str], Verdict]:
    Validator({"pattern": pattern})  # by itself, so that no parenthesis in it closes the one around it
    whole = f"^(?:{pattern})$"
    validator = Validator({"pattern": whole})
    longest = max_matched_length(whole)

    def fits(text: str) -> Verdict:
        return None if longest is not None and len(text) > longest else bool(validator.is_valid(text))

    return fits


def _read_number(name: str, compares: Callable[[Any, Any], bool]) -> Callable[..., Operator]:
    def read(policy: Policy, key: str, constant: Any) -> Operator:
        if not is_finite(constant):
            raise policy.error_at(key, f"must be a number, got {constant!r}")

        def check(value: Any) -> Verdict:
            if type(value) is float or is_number(value):
                return compares(value, constant)
            return False if is_nothing(value) else None

        return Operator(name, (constant,), check)

    return read


def _read_max_length(policy: Policy, key: str, constant: Any) -> Operator:
    if not isinstance(constant, int) or isinstance(constant, bool) or constant < 0:
        raise policy.error_at(key, f"must be a whole number of characters, got {constant!r}")
    return Operator("max_length", (constant,), _text_check(lambda text: len(text) <= constant))


def _plain(policy: Policy, key: str, constant: Any) -> None:
    if isinstance(constant, list | tuple | Mapping):
        hint = "lists are compared item by item; for what is inside an object, write a path: order.amount"
        raise policy.error_at(key, f"must be a text, a number, true or false, got {constant!r}", hint)
    if constant is not None and not isinstance(constant, str | bool) and not is_finite(constant):
        hint = "dates and times come as texts, and are compared as texts"
        raise policy.error_at(key, f"must be a text, a number, true or false, got {constant!r}", hint)


_READERS: Mapping[str, Callable[[Policy, str, Any], Operator]] = {
    "equals": _read_equals,
    "not": _read_not,
    "one_of": _read_one_of,
    "prefix": _read_text("prefix", lambda constant: lambda text: text.startswith(constant)),
    "suffix": _read_text("suffix", lambda constant: lambda text: text.endswith(constant)),
    "glob": _read_text("glob", _make_glob),
    "matches": _read_text("matches", _make_matches),
    "below_path": _read_text("below_path", lambda constant: Folder(constant).holds),
    "below": _read_number("below", compare.lt),
    "at_most": _read_number("at_most", compare.le),
    "above": _read_number("above", compare.gt),
    "at_least": _read_number("at_least", compare.ge),
    "max_length": _read_max_length,
}
_NAMES = ", ".join([*_READERS, "exists"])


Found = tuple[Any, bool]
"""A value, and whether the caller gave it."""

_PLAIN = frozenset({str, int, float, bool})
_ALIKE = _PLAIN | {type(None)}
_FLAT = _ALIKE | {dict}
_NUMBERS_reach = frozenset({int, float})
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
        self.root, arguments, changing = _facts_of(tool)
        self.steps = tuple(_walk(path, self.root, arguments.optional, arguments.closed))
        self._bare = tuple(replace(step, defaults=(), drops_null=False) for step in self.steps)
        self.is_changing = self.steps[0].name in changing
        self.is_coded = self.steps[0].name in arguments.user_code

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
    if bool in kinds and not kinds.isdisjoint(_NUMBERS_reach):
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


def _facts_of(tool: Tool) -> tuple[Mapping[str, Any], ToolArguments, frozenset[str]]:
    try:
        arguments = tool.arguments
        return tool.definition.input_schema, arguments, arguments.changing
    except DefinitionError:
        # A tool that cannot be built is neither listed nor called.
        return {}, ToolArguments(name=tool.name, schema={}, closed=False), frozenset()


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
