"""The arguments of a tool: checked, repaired, converted, and bound to the parameters of its handler.

The order for one call: refuse unknown names, refuse too many values to convert, check against the published
schema, repair common mistakes of models and check again (`check`); then convert to Python values
(`bind`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from toolcrib.errors import InvalidArgumentsError
from toolcrib.options import NO_OPTIONS, ToolOptions
from toolcrib.schema.converters import (
    build_lenient_loader,
    build_loader,
    find_limit,
    is_flat,
    load_integer,
    runs_user_code,
)
from toolcrib.schema.hints import HintReader
from toolcrib.schema.received import OPAQUE, Received
from toolcrib.schema.render import enforced_schema, value_schema
from toolcrib.schema.shapes import MISSING, Convert, External, Record, Shape, convert, unwrap
from toolcrib.validation import codec
from toolcrib.validation.limits import has_more_values
from toolcrib.validation.schema_tree import Resolver, Schema
from toolcrib.validation.validator import (
    Problem,
    Validator,
    check_schema,
    describe_value,
    format_path,
    show_name,
    suggest_name,
)

_MAX_PROBLEMS = 10
_MAX_MESSAGE = 2_000
"""How many characters of a converter's own message are shown."""
_MAX_NAMES, _MAX_VALUES = 1_000, 5_000
"""How many arguments, and how much of each, are searched for what is not JSON."""
_UNCHANGED = frozenset({bool, dict, int, list, str})
"""Types that a parameter without a loader, or for an int, gets as they are. (5.0 becomes an int.)"""
_SCALARS = frozenset({bool, float, int, str})
_NO_NAMES: frozenset[str] = frozenset()
_NO_SCHEMA: dict[str, Any] = {}
_MAX_DIGITS = 16


class Converted(dict[str, Any]):
    """The parameters of one call, converted before it runs. `bind` passes them on as they are."""

    __slots__ = ()


class _Compiled(NamedTuple):
    """How arguments are checked. Made at the first call."""

    validator: Validator
    repairer: Repairer
    known: frozenset[str]
    nulls: frozenset[str]
    """Arguments whose null is not checked against the schema."""
    limits: list[tuple[str, int, bool]]
    is_identity: bool
    """Plain arguments are passed on as they are."""
    is_surely_valid: Callable[[Any], bool] | None
    """A check of plain arguments that is true only where nothing else has to be checked."""


class _Conversion(NamedTuple):
    """How arguments are converted. Made when somebody asks."""

    loaders: dict[str, Convert]
    hidden_defaults: dict[str, Any]
    """The defaults that the schema does not publish as they are."""
    changing: frozenset[str]
    user_code: frozenset[str]


@dataclass(slots=True, kw_only=True, eq=False)
class ToolArguments:
    """Checks the arguments of one tool and makes them the parameters of its handler.

    Made once, when the tool is built; the type checker keeps it from being changed. (A frozen dataclass adds
    a tenth to the cost of building a tool.) What only calls need is made at the first call: most tools of a
    large catalog are never called.

    Names are those of the published schema; `parameters` maps them to the parameters that are called
    otherwise.
    """

    name: Final[str]
    """The name of the tool, for error messages."""
    kind: Final[str] = "tool"
    schema: Final[Schema]
    trusted: Final[bool] = True
    """The schema was made by this library from type hints."""
    options: Final[ToolOptions] = NO_OPTIONS
    closed: Final[bool] = True
    """Other names than those in the schema are refused, whatever the schema says."""
    parameters: Final[Mapping[str, str]] = field(default_factory=dict)
    shapes: Final[Mapping[str, Shape]] = field(default_factory=dict)
    """The shapes of the arguments, which tell how their values are converted."""
    is_lenient: Final[bool] = False
    """Values that do not fit their shape are passed on as they are."""
    nullable: Final[frozenset[str]] = _NO_NAMES
    """An explicit null means None, although the schema does not say so."""
    optional: Final[frozenset[str]] = _NO_NAMES
    """An explicit null means that the argument was left out."""
    positional: Final[tuple[tuple[str, Any], ...]] = ()
    """Positional-only parameters with their defaults."""
    context: Final[str | None] = None
    """The parameter that gets the Context."""
    server: Final[str | None] = None
    """The parameter that gets the server."""
    whole: Final[str | None] = None
    """The parameter that gets all arguments in one dict."""
    bound: Final[Mapping[str, Any]] = field(default_factory=dict)
    """Further members of that dict."""
    defaults: Final[Mapping[str, Any]] = field(default_factory=dict)
    """Defaults by parameter."""
    field_defaults: Final[Mapping[str, Any]] = field(default_factory=dict)
    """The defaults in `Field(...)`, which every call has to pass."""
    factories: Final[Mapping[str, Callable[[], Any]]] = field(default_factory=dict)
    """Default factories by parameter."""
    reconverted: Final[frozenset[str]] = _NO_NAMES
    """Another library converts these again, so that the value which the handler gets is not known."""
    withheld: Final[frozenset[str]] = _NO_NAMES
    """Names that were bound, hidden or renamed: refused also where the schema allows further names."""

    _compiled: _Compiled | None = field(default=None, init=False)
    _conversion: _Conversion | None = field(default=None, init=False)

    def decode_texts(self, texts: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments that came as texts, with plain integers decoded: `check` decodes all others, at
        five times the cost."""
        properties: Mapping[str, Any] = self.schema["properties"]
        return {
            name: int(text)
            if type(text) is str
            and text.isdigit()
            and text.isascii()
            and len(text) < _MAX_DIGITS
            and properties.get(name, _NO_SCHEMA).get("type") == "integer"
            else text
            for name, text in texts.items()
        }

    @property
    def validator(self) -> Validator:
        return (self._compiled or self._compile()).validator

    @property
    def loaders(self) -> Mapping[str, Convert]:
        """The loaders of the arguments that are converted."""
        return (self._conversion or self._prepare_conversion()).loaders

    def _compile(self) -> _Compiled:
        loaders = self.loaders
        found = ((name, self.shapes[name], find_limit(self.shapes[name])) for name in loaders)
        limits = [(name, limit, is_flat(shape)) for name, shape, limit in found if limit is not None]
        converted = [name for name, load in loaders.items() if load is not load_integer]
        schema = self.schema  # an explicit one is enforced as it is
        if not self.is_lenient:
            schema = enforced_schema(schema, self.shapes, self.options.extra)
        validator = Validator(schema, trusted=self.trusted)
        self._compiled = _Compiled(
            validator,
            Repairer(self.schema),
            frozenset(self.schema.get("properties", ())),
            self.nullable | self.optional,
            limits,
            not (self.parameters or converted or self.field_defaults or self.factories),
            None if limits or (self.withheld and not self.closed) else validator.is_surely_valid,
        )
        return self._compiled

    def _prepare_conversion(self) -> _Conversion:
        build = build_lenient_loader if self.is_lenient else build_loader
        found = ((name, build(shape)) for name, shape in self.shapes.items())
        loaders = {name: load for name, load in found if load is not None}
        hidden_defaults = self._find_hidden_defaults()
        converted = [name for name, load in loaders.items() if load is not load_integer]
        made = (
            () if self.whole is not None else (*converted, *hidden_defaults, *self._by_name(self.factories))
        )
        self._conversion = _Conversion(
            loaders,
            hidden_defaults,
            self.reconverted.union(made),
            frozenset(name for name in loaders if runs_user_code(self.shapes[name])),
        )
        return self._conversion

    # --- checking ---

    def check(self, given: Any) -> dict[str, Any]:
        """Return arguments that fit the schema, explicit nulls still in them, or raise
        InvalidArgumentsError."""
        compiled = self._compiled or self._compile()
        if compiled.is_surely_valid is not None and compiled.is_surely_valid(given):
            return given  # type: ignore[no-any-return]
        if given is not None and not isinstance(given, Mapping):
            raise self._error([Problem("", "arguments must be an object", describe_value(given))])
        arguments: dict[str, Any] = given if type(given) is dict else dict(given or ())
        validator = compiled.validator
        try:
            if self.closed:
                if not arguments.keys() <= compiled.known:
                    arguments = self._without_unknown(arguments, compiled.known)
            elif self.withheld and not self.withheld.isdisjoint(arguments):
                arguments = self._without_unknown(arguments, {*compiled.known, *arguments} - self.withheld)
            if compiled.limits:
                self._check_limits(arguments, compiled.limits)
            checked = _without_nulls(arguments, compiled.nulls) if None in arguments.values() else arguments
            if not validator.is_heavy and validator.is_valid(checked):
                return arguments
            return self._check_and_repair(compiled, arguments, checked)
        except ValueError:  # the engine found something that is not JSON
            raise self._error([self._find_unusable(arguments)]) from None

    def _without_unknown(self, arguments: dict[str, Any], known: Set[str]) -> dict[str, Any]:
        """Drop unknown names if the tool ignores them, else raise an error with suggestions."""
        if self.options.extra == "ignore":
            return {name: value for name, value in arguments.items() if name in known}
        unknown = [name for name in arguments if name not in known][:_MAX_PROBLEMS]
        problems = [
            Problem(
                show_name(name), f"not a parameter of this {self.kind}", "", suggest_name(name, sorted(known))
            )
            for name in unknown
        ]
        missing = [name for name in self.schema.get("required", ()) if name not in arguments]
        problems += [Problem(name, "required, but missing", "") for name in missing]
        raise self._error(problems)

    def _check_limits(self, arguments: dict[str, Any], limits: list[tuple[str, int, bool]]) -> None:
        """Refuse arguments that take much longer to convert than to send."""
        for name, limit, is_list in limits:
            value = arguments.get(name)
            if is_list and type(value) is list and len(value) <= limit:
                continue  # without a look at each
            if name in arguments and has_more_values(value, limit):
                message = f"more than {limit} values are too many to convert in one call"
                raise self._error([Problem(name, message, "", "send less at a time")])

    def _check_and_repair(
        self, compiled: _Compiled, arguments: dict[str, Any], checked: dict[str, Any]
    ) -> dict[str, Any]:
        validator = compiled.validator
        excess = validator.find_excess(checked)
        if excess is not None:
            raise self._error([Problem("", excess, "")])
        if validator.is_valid(checked):
            return arguments
        if self.options.repair:
            repaired: dict[str, Any] = compiled.repairer.repair(arguments)
            if repaired is not arguments:
                self._check_limits(repaired, compiled.limits)
                plain = _without_nulls(repaired, compiled.nulls)
                if validator.find_excess(plain) is None and validator.is_valid(plain):
                    return repaired
        raise self._error(validator.problems(checked) or [self._find_unusable(arguments)])

    def _find_unusable(self, arguments: dict[str, Any]) -> Problem:
        """Find the argument that is not JSON, which the engine does not name."""
        for name, value in islice(arguments.items(), _MAX_NAMES):
            flaw = _find_flaw(name, value)
            if flaw is not None:
                return Problem(show_name(name), flaw, describe_value(value))
        return Problem("", "arguments do not fit the schema", "")

    def _error(self, problems: list[Problem]) -> InvalidArgumentsError:
        message = f"Invalid arguments for {self.kind} '{self.name}'"
        lines = [str(problem) for problem in problems]
        if len(lines) == 1:
            message += f": {lines[0]}"
        else:
            message += ":\n" + "\n".join(f"- {line}" for line in lines)
        return InvalidArgumentsError(message, details=[problem.to_json() for problem in problems])

    # --- binding ---

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return checked arguments as the parameters of the handler, or raise InvalidArgumentsError."""
        compiled = self._compiled or self._compile()
        if self.whole is not None:
            return self._add_defaults({self.whole: self._members(arguments, compiled.nulls)})
        if compiled.is_identity and _UNCHANGED.issuperset(map(type, arguments.values())):
            return arguments
        if type(arguments) is Converted:
            return arguments
        loaders = (self._conversion or self._prepare_conversion()).loaders
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            if value is None and name in compiled.nulls:
                if name in self.optional:
                    continue
            else:
                load = loaders.get(name)
                if load is not None:
                    try:
                        value = load(value)
                    except (ValueError, ArithmeticError, AssertionError) as error:
                        raise self._error(_conversion_problems(name, value, error)) from None
            values[self.parameters.get(name, name)] = value
        return self._add_defaults(values)

    def _members(self, arguments: dict[str, Any], nulls: frozenset[str]) -> dict[str, Any]:
        """Return the dict for a handler that gets all arguments in one."""
        given = _without_nulls(arguments, nulls)
        if self.parameters:
            given = {self.parameters.get(name, name): value for name, value in given.items()}
        for name, value in self.bound.items():
            given[name] = deepcopy(value) if isinstance(value, list | dict) else value
        return given

    def _add_defaults(self, values: dict[str, Any]) -> dict[str, Any]:
        for name, make in self.factories.items():
            if name not in values:
                values[name] = make()
        return {**self.field_defaults, **values} if self.field_defaults else values

    # --- the values that the handler gets, for policies that judge them ---

    @property
    def changing(self) -> frozenset[str]:
        """The arguments that the handler may get in another form than the checked one."""
        return (self._conversion or self._prepare_conversion()).changing

    @property
    def user_code(self) -> frozenset[str]:
        """The arguments whose conversion runs code of the author, besides the handler."""
        return (self._conversion or self._prepare_conversion()).user_code

    @property
    def runs_user_code(self) -> bool:
        """Whether converting runs code of the author, besides the handler."""
        return bool(self.factories or self.user_code)

    def convert(self, arguments: dict[str, Any]) -> Converted:
        """Do the same as `bind`, before the call runs."""
        return Converted(self.bind(arguments))

    def receive(self, arguments: dict[str, Any], values: Converted) -> Received:
        """Return checked arguments in the form that the handler gets: `values`, and defaults for the
        others."""
        unknown = {name: OPAQUE for name in self.reconverted if name in arguments}
        hidden_defaults = (self._conversion or self._prepare_conversion()).hidden_defaults
        given = self._by_name(values) if self.whole is None else {}
        return Received({**hidden_defaults, **given, **unknown}, arguments)

    def _by_name(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of parameters by the names that the schema publishes."""
        names = {parameter: name for name, parameter in self.parameters.items()}
        return {names.get(parameter, parameter): value for parameter, value in values.items()}

    def _find_hidden_defaults(self) -> dict[str, Any]:
        defaults = self._by_name(self.defaults)
        found = {}
        for name, item in self.schema.get("properties", {}).items() if defaults else ():
            published = item.get("default", MISSING) if isinstance(item, Mapping) else MISSING
            default = defaults.get(name, MISSING)
            is_same = type(default) is type(published) and type(default) in _SCALARS and default == published
            if default is not MISSING and not is_same:
                found[name] = default
        return found


def _without_nulls(arguments: dict[str, Any], nulls: frozenset[str]) -> dict[str, Any]:
    """Return a copy without the nulls that mean None, or that nothing was given."""
    return {name: value for name, value in arguments.items() if value is not None or name not in nulls}


def _find_flaw(name: Any, value: Any) -> str | None:
    """Return why an argument is not JSON, or None; only a part of a large value is searched."""
    pending: list[Any] = [{name: value}]
    for _ in range(_MAX_VALUES):
        if not pending:
            break
        item = pending.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                return "not valid Unicode"
        elif isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                return "has a name that is not a string"
            pending += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            pending += item[:_MAX_VALUES]
        elif not isinstance(item, int | float | None):
            return "not JSON"
    return None


def _conversion_problems(name: str, value: Any, error: Exception) -> list[Problem]:
    """Return the problems that a converter found, in its words, without values and web addresses."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        try:
            found = errors(include_url=False, include_input=False)
        except TypeError:
            pass  # another exception that happens to have `errors`
        else:
            paths = [[*([name] if name else []), *item["loc"]] for item in found]
            return [
                Problem(format_path(path), _message_of(item), "")
                for path, item in zip(paths, found, strict=True)
            ]
    message = str(error)[:_MAX_MESSAGE] or type(error).__name__
    return [Problem(name, message, describe_value(value) if name else "")]


def _message_of(item: Mapping[str, Any]) -> str:
    own = item.get("ctx", {}).get("error")  # a validator's own exception
    return str(own if isinstance(own, Exception) else item["msg"])[:_MAX_MESSAGE]


# --- forms: questions to the user --------------------------------------------------------------------

_FORM_TYPES = frozenset({"string", "integer", "number", "boolean"})


def read_form(schema: Any) -> tuple[Schema, Convert | None]:
    """Return the JSON Schema of a form, and a function that makes an object of its data, if `schema` is a
    class. Raise ValueError or TypeError for anything that is not a form."""
    if isinstance(schema, Mapping):
        check_schema(schema)
        if schema.get("type") != "object":
            raise ValueError("its schema must have type 'object'")
        return schema, None
    shape = HintReader().shape(schema)
    if not isinstance(unwrap(shape), Record | External):
        got = getattr(schema, "__name__", None) or describe_value(schema)
        raise TypeError(f"a form is a JSON Schema, a model, a dataclass or a TypedDict, got {got}")
    name = getattr(schema, "__name__", "the form")
    rendered = value_schema(shape)
    resolver = Resolver(rendered)
    fields = {
        key: _form_field(f"{name}.{key}", item, resolver) for key, item in rendered["properties"].items()
    }
    load = build_loader(shape)

    def load_answer(content: Any) -> Any:
        try:
            return convert(load, content)
        except (ValueError, ArithmeticError, AssertionError) as error:
            problems = _conversion_problems("", content, error)
            raise ValueError("; ".join(map(str, problems))) from None

    flat = {key: item for key, item in rendered.items() if key in ("type", "required", "description")}
    return {**flat, "properties": fields}, load_answer


def _form_field(name: str, schema: Any, resolver: Resolver) -> Schema:
    """Return the schema of a field as MCP permits it: flat, without null, which means nothing was given."""
    found = dict(resolver.follow(schema))
    options = [resolver.follow(item) for item in found.get("anyOf", ())]
    others = [item for item in options if item.get("type") != "null"]
    if len(others) == 1 < len(options):
        described = {key: found[key] for key in ("description", "title", "default") if key in found}
        found = {**others[0], **described}
    items = resolver.follow(found.get("items"))
    is_choice = found.get("type") == "array" and isinstance(items, Mapping) and "enum" in items
    if found.get("type") not in _FORM_TYPES and not is_choice:
        kind = found.get("type", "value of several types")
        raise ValueError(f"{name} is an {kind}; a form has text, numbers, booleans and choices")
    return {**found, "items": items} if is_choice else found


# --- repair ------------------------------------------------------------------------------------------

_MAX_REPAIR_DEPTH = 32
_MAX_REPAIR_VALUES = 20_000
"""Values looked at in one call: models do not write more, and looking takes longer than checking."""
_MAX_REPAIR_TEXT = 1 << 20
_NO_TEXT = frozenset({int, float, bool, type(None)})
"""Types that are neither a string nor hold one."""
_JSON_TYPES: dict[type, str] = {str: "string", dict: "object", list: "array"}


class Repairer:
    """Decodes numbers, lists and objects that a model sent as a string.

    Only where the schema does not allow a string; a value that may be a string is never touched. Whether
    the result is valid is checked afterwards.
    """

    __slots__ = ("_possible", "_resolver")

    def __init__(self, schema: Schema) -> None:
        self._resolver = Resolver(schema)
        self._possible: dict[tuple[int, type], bool] = {}

    def repair(self, value: Any) -> Any:
        """Return `value` with strings decoded where no string is allowed; itself where nothing changes."""
        return self._repair(value, self._resolver.root, 0, [_MAX_REPAIR_VALUES])

    def _repair(self, value: Any, schema: Any, depth: int, left: list[int]) -> Any:
        """Repair one value. `left[0]` is how many more values may be looked at."""
        if depth > _MAX_REPAIR_DEPTH or not isinstance(schema, Mapping):
            return value
        if isinstance(value, str):
            if self._may_be(schema, str):
                return value
            left[0] -= 1
            decoded = _decode(value)
            return decoded if decoded is value else self._repair(decoded, schema, depth + 1, left)
        if type(value) not in _JSON_TYPES or len(value) > left[0]:
            return value
        left[0] -= len(value)
        schema = self._choose(value, schema)
        if isinstance(value, dict):
            return self._repair_object(value, schema, depth, left)
        return self._repair_array(value, schema, depth, left)

    def _repair_object(self, value: dict[str, Any], schema: Schema, depth: int, left: list[int]) -> Any:
        properties = schema.get("properties", {})
        # A pattern may apply to any of the other names; patternProperties is not looked at here.
        others = None if "patternProperties" in schema else schema.get("additionalProperties")
        repaired: dict[str, Any] = {}
        for name, item in value.items():
            if type(item) in _NO_TEXT:
                continue
            new = self._repair(item, properties.get(name, others), depth + 1, left)
            if new is not item:
                repaired[name] = new
        return {**value, **repaired} if repaired else value

    def _repair_array(self, value: list[Any], schema: Schema, depth: int, left: list[int]) -> Any:
        first, others = schema.get("prefixItems", ()), schema.get("items")
        if isinstance(others, list):  # drafts before 2020-12
            first, others = others, schema.get("additionalItems")
        repaired = [
            item
            if type(item) in _NO_TEXT
            else self._repair(item, first[index] if index < len(first) else others, depth + 1, left)
            for index, item in enumerate(value)
        ]
        return value if all(new is old for new, old in zip(repaired, value, strict=True)) else repaired

    def _may_be(self, schema: Any, kind: type) -> bool:
        """Whether some string, object or array may be valid; in doubt, yes."""
        key = (id(schema), kind)
        if key not in self._possible:
            self._possible[key] = True  # while it refers to itself
            self._possible[key] = self._decide(self._resolver.follow(schema), kind)
        return self._possible[key]

    def _decide(self, schema: Any, kind: type) -> bool:
        if not isinstance(schema, Mapping):
            return schema is not False
        types = schema.get("type")
        if types is not None:
            return types == _JSON_TYPES[kind] or (isinstance(types, list) and _JSON_TYPES[kind] in types)
        if isinstance(schema.get("enum"), list):
            return any(isinstance(item, kind) for item in schema["enum"])
        if "const" in schema:
            return isinstance(schema["const"], kind)
        for keyword, decide in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            if isinstance(schema.get(keyword), list):
                return decide(self._may_be(item, kind) for item in schema[keyword])
        return True

    def _choose(self, value: Any, schema: Schema) -> Schema:
        """Return the subschema that describes an object or array: of several options, the only possible
        one."""
        for _ in range(_MAX_REPAIR_DEPTH):
            schema = self._resolver.follow(schema)
            if not isinstance(schema, Mapping):
                return {}
            options = schema.get("anyOf", schema.get("oneOf"))
            if "properties" in schema or not isinstance(options, list):
                break
            possible = [option for option in options if self._may_be(option, type(value))]
            if len(possible) != 1:
                break
            schema = possible[0]
        return schema


def _decode(text: str) -> Any:
    """Return the JSON value that a string contains; the string if it is none, or a string again."""
    if len(text) > _MAX_REPAIR_TEXT:
        return text
    try:
        decoded = codec.decode(text)
    except ValueError:
        return text
    return text if isinstance(decoded, str) else decoded
