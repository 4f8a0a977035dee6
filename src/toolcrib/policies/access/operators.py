"""What a condition may ask of one value: the operators, how they are written, and what they answer.

An answer is True, False, or None where the value is of a kind that cannot be compared (a text, where a number
is asked about): whoever forbids takes None for yes, whoever allows takes it for no. Knows values and what
is wrong with a demand; refuses to know where a value is found in the arguments.
"""

from __future__ import annotations

import operator as compare
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import Any, Final

from toolcrib import codec
from toolcrib.bounds import LIGHT_PATTERN, PATTERN_BUDGET, weigh_pattern
from toolcrib.errors import Faults, InvalidSchemaError
from toolcrib.policies.access.containment import Folder
from toolcrib.policy import Policy
from toolcrib.schema.received import OPAQUE
from toolcrib.validation import Validator

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
        raise policy.wrong(key, "asks nothing", f"operators: {_NAMES}")
    exists = None
    operators = []
    faults = Faults()
    for name, constant in given.items():
        place = f"{key}.{name}"
        with faults.gathering():
            if name == "exists":
                if not isinstance(constant, bool):
                    raise policy.wrong(place, f"must be true or false, got {constant!r}")
                exists = constant
            elif name in _READERS:
                operators.append(_READERS[name](policy, place, constant))
            else:
                inside = f"{key.partition('.when.')[2]}.{name}"
                hint = f'operators: {_NAMES}; for what is inside an object, write "{inside}" in quotes'
                raise policy.wrong(place, "is no operator", hint)
    faults.tell()
    return Demand(tuple(operators), exists)


def _read_equals(policy: Policy, key: str, constant: Any) -> Operator:
    _plain(policy, key, constant)
    return Operator("equals", (constant,), lambda value: _compare(value, constant))


def _read_one_of(policy: Policy, key: str, constants: Any) -> Operator:
    if not isinstance(constants, list | tuple) or not constants:
        raise policy.wrong(key, f"must be a list of values, got {constants!r}")
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
        raise policy.wrong(key, "turns values round, not itself", "write exists = false, or leave both out")

    def check(value: Any) -> Verdict:
        found = inner.holds(value, True)
        return None if found is None else not found

    return Operator("not", (), check, inner)


def _read_text(name: str, make: Callable[[str], Callable[[str], Verdict]]) -> Callable[..., Operator]:
    def read(policy: Policy, key: str, constant: Any) -> Operator:
        if not isinstance(constant, str) or not constant:
            raise policy.wrong(key, f"must be a text that is not empty, got {constant!r}")
        try:
            fits = make(constant)
        except ValueError as error:  # InvalidSchemaError is one, too
            message = error.message if isinstance(error, InvalidSchemaError) else str(error)
            raise policy.wrong(key, message) from None
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
    weight = weigh_pattern(whole)
    longest = None if weight <= LIGHT_PATTERN else PATTERN_BUDGET // weight

    def fits(text: str) -> Verdict:
        return None if longest is not None and len(text) > longest else bool(validator.is_valid(text))

    return fits


def _read_number(name: str, compares: Callable[[Any, Any], bool]) -> Callable[..., Operator]:
    def read(policy: Policy, key: str, constant: Any) -> Operator:
        if not is_finite(constant):
            raise policy.wrong(key, f"must be a number, got {constant!r}")

        def check(value: Any) -> Verdict:
            if type(value) is float or is_number(value):
                return compares(value, constant)
            return False if is_nothing(value) else None

        return Operator(name, (constant,), check)

    return read


def _read_max_length(policy: Policy, key: str, constant: Any) -> Operator:
    if not isinstance(constant, int) or isinstance(constant, bool) or constant < 0:
        raise policy.wrong(key, f"must be a whole number of characters, got {constant!r}")
    return Operator("max_length", (constant,), _text_check(lambda text: len(text) <= constant))


def _plain(policy: Policy, key: str, constant: Any) -> None:
    if isinstance(constant, list | tuple | Mapping):
        hint = "lists are compared item by item; for what is inside an object, write a path: order.amount"
        raise policy.wrong(key, f"must be a text, a number, true or false, got {constant!r}", hint)
    if constant is not None and not isinstance(constant, str | bool) and not is_finite(constant):
        hint = "dates and times come as texts, and are compared as texts"
        raise policy.wrong(key, f"must be a text, a number, true or false, got {constant!r}", hint)


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
