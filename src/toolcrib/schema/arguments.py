"""Checks the arguments of one tool against its published schema and makes them Python values.

The order: unknown names, the cost of conversion, nulls, the compiled schema, repair and the schema again,
conversion. Knows one tool's schema and binder. Refuses to know who calls and what runs.

How checked arguments get back into a function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from toolcrib.errors import InvalidArgumentsError
from toolcrib.schema.conversion import Convert
from toolcrib.schema.loader import FREE_NS, Bounded, FloatsLoader, allowance, load_integer, load_number
from toolcrib.schema.notes import is_field
from toolcrib.schema.parameters import EMPTY, Parameter
from toolcrib.schema.received import OPAQUE, Received
from toolcrib.schema.repair import Repairer
from toolcrib.schema.shapes import MISSING
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Schema
from toolcrib.validation.validator import Problem, Validator, describe_value, format_path, show_name


@dataclass(slots=True)
class Binder:
    """How checked arguments get back into the function.

    `loads` are the parameters that need converting or renaming; `nullable` take an explicit null as None,
    `optional` take it as left out. `context` and `server` are filled in by the caller; `whole` gets all
    arguments in one dict. `closed` refuses names that are not `known`. `attributes` are the parameters by
    their published names. Parameters that are left out get their default, or what their factory makes.
    To convert those that are `coded` runs code of the author's, besides the function. Those that are
    `reconverted` are converted once more by another library, so that nobody knows what the function gets.
    """

    known: frozenset[str] = frozenset()
    loads: tuple[tuple[str, str, Convert | None], ...] = ()
    nullable: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    positional: tuple[tuple[str, Any], ...] = ()
    context: str | None = None
    server: str | None = None
    whole: str | None = None
    closed: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)
    coded: frozenset[str] = frozenset()
    reconverted: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    factories: Mapping[str, Callable[[], Any]] = field(default_factory=dict)


def find_defaults(parameters: Iterable[Parameter], filled: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of parameters, of which some are `filled` in for the function."""
    return {
        item.name: filled.get(item.name, item.default)
        for item in parameters
        if item.name in filled or not (item.default is EMPTY or is_field(item.default))
    }


_MAX_PROBLEMS = 10
_MAX_WORDS = 2_000
"""How much of a converter's own words is shown."""
_MAX_NAMES, _MAX_VALUES = 1_000, 5_000
"""How many arguments, and how much of each, are looked through for what is no JSON."""
_AS_THEY_ARE = frozenset({bool, dict, int, list, str})
"""What a parameter that takes whole numbers, or whatever it gets, is given as it came. 5.0 is whole too."""
_PLAIN = frozenset({bool, float, int, str})
_NUMBERS = frozenset({float, int})
_LARGEST_EXACT = 2**53
"""Whole numbers up to here are floats without being rounded."""
_LONGEST_NAME = 64
"""Of longer names nobody wants to know what they may have meant, and finding it out takes long."""


class Converted(dict[str, Any]):
    """The parameters of one call, converted before it runs. `bind` hands them on as they are."""

    __slots__ = ()


def _makes_floats(load: Any) -> bool:
    return load is load_number or isinstance(load, FloatsLoader)


def _is_exact(value: Any) -> bool:
    """Whether a number, or each number of a list, equals the float that is made of it."""
    if type(value) in _NUMBERS:
        return bool(-_LARGEST_EXACT <= value <= _LARGEST_EXACT)
    if type(value) is not list or not _NUMBERS.issuperset(map(type, value)):
        return False
    if not value:
        return True
    is_small = min(value) >= -_LARGEST_EXACT and max(value) <= _LARGEST_EXACT
    return is_small and all(map(math.isfinite, value))  # among others, not-a-number is neither least nor most


class ArgumentCheck:
    """Compiled when first used; the same for every call. `changing` are the arguments that the tool may get
    in another form than the checked one; `runs_code` says that converting runs code of the author's."""

    __slots__ = (
        "_bounded",
        "_changes_others",
        "_costs",
        "_defaults",
        "_floats",
        "_loads",
        "_names",
        "_nulls",
        "_passes_plain",
        "_repairer",
        "_validator",
        "binder",
        "changing",
        "ignores_extra",
        "max_convert_ms",
        "name",
        "repairs",
        "runs_code",
        "schema",
        "trusted",
    )

    def __init__(
        self,
        name: str,
        schema: Schema,
        binder: Binder,
        *,
        trusted: bool,
        repairs: bool,
        ignores_extra: bool,
        max_convert_ms: float | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.binder = binder
        self.trusted = trusted
        self.repairs = repairs
        self.ignores_extra = ignores_extra
        self.max_convert_ms = max_convert_ms
        self._bounded = {name: load for name, _, load in binder.loads if isinstance(load, Bounded)}
        self._costs = [(name, load.cost) for name, load in self._bounded.items()]
        self._loads = {
            name: load.load if isinstance(load, Bounded) else load for name, _, load in binder.loads
        }
        self._nulls = binder.nullable | binder.optional
        self._passes_plain = all(load is load_integer for load in self._loads.values()) and all(
            name == attribute for name, attribute in binder.attributes.items()
        )
        self._names = {attribute: name for name, attribute in binder.attributes.items()}
        self._defaults = _find_unpublished(schema, self._by_name(binder.defaults))
        changed = [name for name, load in self._loads.items() if load not in (None, load_integer)]
        made = self._by_name(binder.factories)
        self._floats = tuple(name for name in changed if _makes_floats(self._loads[name]))
        others = self._defaults or made or binder.reconverted
        self._changes_others = len(changed) > len(self._floats) or bool(others)
        is_whole = binder.whole is not None
        self.changing = frozenset() if is_whole else binder.reconverted.union(changed, self._defaults, made)
        self.runs_code = bool(binder.coded or binder.factories)
        self._repairer = Repairer(schema)
        self._validator: Validator | None = None

    @property
    def validator(self) -> Validator:
        if self._validator is None:
            self._validator = Validator(self.schema, trusted=self.trusted)
        return self._validator

    def check(self, given: Any) -> dict[str, Any]:
        """Plain arguments that fit the schema, explicit nulls still in them. Raises InvalidArgumentsError."""
        arguments: dict[str, Any] = given if type(given) is dict else self._as_dict(given)
        validator = self._validator or self.validator
        try:
            if self.binder.closed and not arguments.keys() <= self.binder.known:
                arguments = self._drop_unknown(arguments)
            if self._costs:
                spent = 0
                for name, cost in self._costs:
                    if name in arguments:
                        spent += cost(arguments[name])
                if spent > FREE_NS:
                    self._refuse_excess(arguments, spent)
            checked = self._without_nulls(arguments) if None in arguments.values() else arguments
            if not validator.is_heavy and validator.is_valid(checked):
                return arguments
            return self._check_closely(validator, arguments, checked)
        except ValueError:  # the engine meets something that is not JSON
            raise self._refusal([self._find_unusable(arguments)]) from None

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Checked arguments as the function's parameters. Raises InvalidArgumentsError."""
        binder = self.binder
        if binder.whole is not None:
            return {binder.whole: self._without_nulls(arguments)}
        if self._passes_plain and _AS_THEY_ARE.issuperset(map(type, arguments.values())):
            return arguments
        if type(arguments) is Converted:
            return arguments
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            if value is None and name in self._nulls:
                if name in binder.optional:
                    continue
            else:
                load = self._loads.get(name)
                if load is not None:
                    try:
                        value = load(value)
                    except (ValueError, ArithmeticError, AssertionError) as error:
                        raise self._refusal(_conversion_problems(name, value, error)) from None
            values[binder.attributes.get(name, name)] = value
        return values

    def convert(self, arguments: dict[str, Any]) -> Converted:
        """As `bind`, with what factories make for parameters that were left out, so that it is made once."""
        values = Converted(self.bind(arguments))
        for name, make in self.binder.factories.items():
            if name not in values:
                values[name] = make()
        return values

    def keeps(self, arguments: dict[str, Any]) -> bool:
        """Whether the tool gets these checked arguments as they are, or numbers that equal them. Then nobody
        has to convert them in order to judge what the tool gets."""
        if self._changes_others:
            return False
        return all(_is_exact(arguments[name]) for name in self._floats if name in arguments)

    def _refuse_excess(self, arguments: dict[str, Any], spent: int) -> None:
        """Refuse what would take much longer to convert than to send."""
        if self.max_convert_ms is not None:
            most = round(self.max_convert_ms * 1e6)
        else:
            least = sum(load.least_bytes(arguments.get(name)) for name, load in self._bounded.items())
            if spent <= allowance(least):
                return
            try:
                most = allowance(len(codec.write(arguments)))
            except (TypeError, ValueError, ArithmeticError, RecursionError):
                return  # it is not JSON, which is found out soon
        if spent > most:
            words = f"too much to convert in one call: about {spent / 1e6:.0f} ms of work, at most"
            size = "" if self.max_convert_ms is not None else " for its size"
            raise self._refusal(
                [Problem("", f"{words} {most / 1e6:.0f} ms{size}", "", "send less at a time")]
            )

    def receive(self, arguments: dict[str, Any], values: Converted) -> Received:
        """Checked arguments in the form that the tool gets: `values`, and defaults for the others."""
        unknown = {name: OPAQUE for name in self.binder.reconverted if name in arguments}
        return Received({**self._defaults, **self._by_name(values), **unknown}, arguments)

    def _by_name(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of parameters, by the names that the schema publishes."""
        return {self._names.get(parameter, parameter): value for parameter, value in values.items()}

    def _as_dict(self, arguments: Any) -> dict[str, Any]:
        if arguments is None:
            return {}
        if isinstance(arguments, Mapping):
            return dict(arguments)
        raise self._refusal([Problem("", "arguments must be an object", describe_value(arguments))])

    def _drop_unknown(self, arguments: dict[str, Any]) -> dict[str, Any]:
        known = self.binder.known
        if self.ignores_extra:
            return {name: value for name, value in arguments.items() if name in known}
        unknown = [name for name in arguments if name not in known][:_MAX_PROBLEMS]
        problems = [
            Problem(show_name(name), "not a parameter of this tool", "", self._suggest(name))
            for name in unknown
        ]
        missing = [name for name in self.schema.get("required", ()) if name not in arguments]
        problems += [Problem(name, "required, but missing", "") for name in missing]
        raise self._refusal(problems)

    def _suggest(self, name: Any) -> str | None:
        known = sorted(self.binder.known)
        if not known:
            return "it takes none"
        text = str(name).lower()
        import difflib  # only where something is misspelt

        close = difflib.get_close_matches(text, known, n=1, cutoff=0.6) if len(text) <= _LONGEST_NAME else []
        return f"did you mean '{close[0]}'?" if close else f"it takes: {', '.join(known[:20])}"

    def _without_nulls(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """A copy without those nulls that mean None, or that mean nothing was given."""
        nulls = self._nulls
        return {name: value for name, value in arguments.items() if value is not None or name not in nulls}

    def _check_closely(
        self, validator: Validator, arguments: dict[str, Any], checked: dict[str, Any]
    ) -> dict[str, Any]:
        excess = validator.excess(checked)
        if excess is not None:
            raise self._refusal([Problem("", excess, "")])
        if validator.is_valid(checked):
            return arguments
        if self.repairs:
            mended: dict[str, Any] = self._repairer.repair(arguments)
            if mended is not arguments:
                spent = sum(cost(mended[name]) for name, cost in self._costs if name in mended)
                if spent > FREE_NS:
                    self._refuse_excess(mended, spent)
                plain = self._without_nulls(mended)
                if validator.excess(plain) is None and validator.is_valid(plain):
                    return mended
        raise self._refusal(validator.problems(checked) or [self._find_unusable(arguments)])

    def _find_unusable(self, arguments: dict[str, Any]) -> Problem:
        """The argument that is no JSON: the engine has met it, but does not say which it was."""
        for name, value in islice(arguments.items(), _MAX_NAMES):
            words = _find_flaw({name: value})
            if words is not None:
                return Problem(show_name(name), words, describe_value(value))
        return Problem("", "arguments do not fit the schema, and are too large to say where", "")

    def _refusal(self, problems: list[Problem]) -> InvalidArgumentsError:
        head = f"Invalid arguments for tool '{self.name}'"
        lines = [str(problem) for problem in problems]
        text = (
            f"{head}: {lines[0]}"
            if len(lines) == 1
            else f"{head}:\n" + "\n".join(f"- {line}" for line in lines)
        )
        return InvalidArgumentsError(text, details=[problem.to_json() for problem in problems])


def _find_unpublished(schema: Schema, defaults: dict[str, Any]) -> dict[str, Any]:
    """The defaults of arguments that the schema does not publish as they are."""
    found = {}
    for name, item in schema.get("properties", {}).items():
        published = item.get("default", MISSING) if isinstance(item, Mapping) else MISSING
        default = defaults.get(name, MISSING)
        is_told = type(default) is type(published) and type(default) in _PLAIN and default == published
        if default is not MISSING and not is_told:
            found[name] = default
    return found


def _find_flaw(value: Any) -> str | None:
    """What keeps a value from being JSON, or None; only so much of it is looked at."""
    waiting = [value]
    for _ in range(_MAX_VALUES):
        if not waiting:
            break
        item = waiting.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                return "not valid Unicode"
        elif isinstance(item, dict):
            if not all(isinstance(name, str) for name in item):
                return "a name that is not text"
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item[:_MAX_VALUES]
        elif not isinstance(item, int | float | None):
            return "not JSON"
    return None


def _conversion_problems(name: str, value: Any, error: Exception) -> list[Problem]:
    """What a converter refused, in the words of whoever refused it, without values and web addresses."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        try:
            found = errors(include_url=False, include_input=False)
        except TypeError:
            pass  # some other exception that happens to have `errors`
        else:
            return [Problem(format_path([name, *item["loc"]]), _words_of(item), "") for item in found]
    words = str(error)[:_MAX_WORDS] or type(error).__name__
    return [Problem(name, words, describe_value(value))]


def _words_of(item: Mapping[str, Any]) -> str:
    """The words of whoever refused: a validator's own, or what its library says."""
    own = item.get("ctx", {}).get("error")
    return str(own if isinstance(own, Exception) else item["msg"])[:_MAX_WORDS]
