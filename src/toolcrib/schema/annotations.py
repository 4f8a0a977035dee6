"""Annotations: evaluated, with type variables and aliases replaced, and the metadata in `Annotated[...]`.

Metadata objects of pydantic and annotated-types are recognised by their attributes, so that neither package
has to be loaded.
"""

from __future__ import annotations

import functools
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.parameters import EMPTY, HandlerInfo, constructor_of
from toolcrib.schema.pydantic_types import to_plain
from toolcrib.schema.shapes import (
    MISSING,
    Array,
    Constrained,
    Dictionary,
    Enumeration,
    FixedArray,
    Named,
    Record,
    Scalar,
    Shape,
    Union,
)
from toolcrib.validation.validator import check_schema

_MAX_ALIASES = 32


def resolve_hints(info: HandlerInfo, name: str) -> dict[str, Any]:
    """Return the hints of a handler by parameter, `return` included.

    Raise InvalidSignatureError, with the parameter, where an annotation cannot be evaluated.
    """
    hints, errors = try_hints(info, name)
    if errors:
        raise errors[0].add(errors[1:])
    return hints


def try_hints(info: HandlerInfo, name: str) -> tuple[dict[str, Any], list[InvalidSignatureError]]:
    """Return the hints of a handler that can be evaluated, and an error for each that cannot."""
    annotations = _annotations_of(info)
    for hint in annotations.values():
        if type(hint) is not type and not _is_evaluated(hint):
            break
    else:
        return annotations, []
    try:
        return _evaluate(info.function, annotations), []
    except Exception:  # one by one, to find out which
        hints: dict[str, Any] = {}
        errors: list[InvalidSignatureError] = []
    for parameter, hint in annotations.items():
        try:
            hints |= _evaluate(info.function, {parameter: hint})
        except Exception as error:
            subject = "The result" if parameter == "return" else f"Parameter '{parameter}'"
            message = f"{subject} of {info.kind} '{name}' has an annotation that cannot be resolved: {error}"
            hint = "import the name at run time, at the top of the module, not under TYPE_CHECKING"
            errors.append(info.refusal(name, parameter, message, hint))
    return hints, errors


def resolve_class_hints(cls: type) -> dict[str, Any]:
    """Return the hints of the fields of a class, inherited ones included."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise InvalidSignatureError(
            f"class '{cls.__name__}' has an annotation that cannot be resolved: {error}",
            hint=f"define the name in module {cls.__module__}, or import it there at run time",
        ) from None


def _annotations_of(info: HandlerInfo) -> dict[str, Any]:
    """Return annotations as written; those of a wrapper's own signature win."""
    function = constructor_of(info.function) if isinstance(info.function, type) else info.function
    annotations: dict[str, Any] = getattr(function, "__annotations__", {})
    if info.is_plain:
        return annotations
    shown = {item.name: item.annotation for item in info.parameters if item.annotation is not EMPTY}
    return {**annotations, **shown}


def _evaluate(function: Any, annotations: dict[str, Any]) -> dict[str, Any]:
    """Evaluate the annotations of a function or class with the names that it sees."""
    module = sys.modules.get(function.__module__) if isinstance(function, type) else None
    scope = getattr(function, "__globals__", {}) if module is None else vars(module)
    type_params = {variable.__name__: variable for variable in getattr(function, "__type_params__", ())}
    names = {**type_params, **_closure_of(function)}
    hints = {
        key: eval(_compile(hint), scope, names) if type(hint) is str else hint  # noqa: S307 # as `typing` does
        for key, hint in annotations.items()
    }
    if all(map(_is_evaluated, hints.values())):
        return hints
    probe = types.SimpleNamespace(__annotations__=annotations)
    return typing.get_type_hints(probe, scope, names, include_extras=True)


@functools.lru_cache(maxsize=1024)
def _compile(text: str) -> types.CodeType:
    """Compile an annotation. Programs repeat them, and compiling is most of the cost of evaluating."""
    return compile(text, "<annotation>", "eval", dont_inherit=True)


def _is_evaluated(hint: Any) -> bool:
    """Whether a hint contains no string that `typing` would have to evaluate, which is slow."""
    kind = type(hint)
    if kind is type or hint is None:
        return True
    if kind is types.UnionType:
        return all(map(_is_evaluated, hint.__args__))
    origin = getattr(hint, "__origin__", None)
    if origin is typing.Literal:
        return True
    if origin is not None:
        return all(map(_is_evaluated, getattr(hint, "__args__", ())))
    return isinstance(hint, type)


def _closure_of(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, cells, strict=True) if code is not None and cells else ():
        try:
            found[name] = cell.cell_contents
        except ValueError:  # assigned after the function was made
            continue
    return found


def origin_of(hint: Any) -> Any:
    """Do the same as `typing.get_origin`, faster for plain classes."""
    return None if type(hint) is type else typing.get_origin(hint)


def substitute(hint: Any, arguments: Mapping[Any, Any]) -> Any:
    """Return the hint with its type variables replaced by their arguments, as far as these are known."""
    if hint in arguments:
        return arguments[hint]
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type) or not any(item in arguments for item in parameters):
        return hint
    return hint[tuple(arguments.get(item, item) for item in parameters)]


def arguments_by_class(hint: Any) -> dict[type, dict[Any, Any]]:
    """Return the arguments of the type variables of a class and of each of its bases."""
    found: dict[type, dict[Any, Any]] = {}
    pending = [hint]
    while pending:
        item = pending.pop()
        cls = origin_of(item) or item
        arguments = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(item), strict=False))
        found.setdefault(cls, arguments)
        bases = vars(cls).get("__orig_bases__") or getattr(cls, "__bases__", ())
        pending += [
            substitute(base, arguments)
            for base in bases
            if origin_of(base) not in (typing.Generic, typing.Protocol)
        ]
    return found


def is_alias(hint: Any) -> bool:
    """Whether this was made by a `type` statement, or by TypeAliasType."""
    return type(hint).__name__ == "TypeAliasType"


def resolve_alias(hint: Any) -> Any:
    """Return the type behind `type X = ...`, with its arguments; any other hint as it is."""
    for _ in range(_MAX_ALIASES):
        if is_alias(hint):
            hint = hint.__value__
        elif is_alias(origin := origin_of(hint)):
            arguments = dict(zip(origin.__type_params__, typing.get_args(hint), strict=False))
            hint = substitute(origin.__value__, arguments)
        else:
            break
    return hint


# --- metadata ----------------------------------------------------------------------------------------

_NUMBER_KEYWORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_KEYWORDS = {
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
    "integer": _NUMBER_KEYWORDS,
    "number": _NUMBER_KEYWORDS,
}
_BOUNDS = (*_NUMBER_KEYWORDS, *_KEYWORDS["string"])
_TEXT_CHANGES = ("strip_whitespace", "to_upper", "to_lower", "ascii_only")
_REQUIRED = {"Required": True, "NotRequired": False}
_QUALIFIERS = (*_REQUIRED, "ReadOnly", "Final", "ClassVar")
_PREDICATES = ("Predicate", "Not")  # of annotated-types: code that only pydantic runs


@dataclass(slots=True)
class FieldInfo:
    """The metadata of one type.

    `required` comes from `Required` and `NotRequired`. With `needs_pydantic`, only pydantic can enforce all
    of it.
    """

    description: str = ""
    alias: str | None = None
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    required: bool | None = None
    bounds: dict[str, Any] = field(default_factory=dict)
    keywords: dict[str, Any] = field(default_factory=dict)
    needs_pydantic: bool = False


NO_INFO: Final = FieldInfo()
"""Shared by all types without metadata; not to be changed."""


def split_annotated(hint: Any) -> tuple[Any, FieldInfo]:
    """Return the bare type and its metadata; where two items contradict each other, the last wins."""
    if type(hint) is type:
        return hint, NO_INFO
    info = FieldInfo()
    while (origin := origin_of(hint)) is not None:
        if origin is typing.Annotated:
            for item in hint.__metadata__:
                _read_metadata(item, info)
            hint = hint.__origin__
        elif is_qualifier(origin):
            info.required = _REQUIRED.get(origin._name, info.required)
            hint = hint.__args__[0]
        else:
            break
    return hint, info


def is_qualifier(origin: Any) -> bool:
    """Whether this is `Required`, `Final` or the like, of typing or typing_extensions."""
    return getattr(origin, "_name", None) in _QUALIFIERS


def is_pydantic_field(item: Any) -> bool:
    """Whether this was made by pydantic's `Field(...)`."""
    return type(item).__name__ == "FieldInfo" and type(item).__module__.startswith("pydantic")


def _read_metadata(item: Any, info: FieldInfo) -> None:
    """Add one item of metadata to `info`; unknown ones are ignored."""
    kind = type(item)
    if kind is str:
        info.description = item
    elif is_pydantic_field(item):
        _read_pydantic_field(item, info)
    elif kind.__name__ == "Doc":
        info.description = item.documentation
    elif not _read_bounds(item, info):
        package = kind.__module__.partition(".")[0]
        if package.startswith("pydantic") or (package == "annotated_types" and kind.__name__ in _PREDICATES):
            info.needs_pydantic = True


def _read_pydantic_field(item: Any, info: FieldInfo) -> None:
    if item.description:
        info.description = item.description
    alias = item.validation_alias or item.alias
    if isinstance(alias, str):
        info.alias = alias
    elif alias is not None:
        info.needs_pydantic = True
    if item.discriminator is not None or callable(item.json_schema_extra):
        info.needs_pydantic = True
    if item.default is not ... and type(item.default).__name__ != "PydanticUndefinedType":
        info.default = item.default
    elif item.default_factory is not None:
        info.factory = item.default_factory
    if item.title:
        info.keywords["title"] = item.title
    if item.examples:
        info.keywords["examples"] = list(item.examples)
    if item.deprecated:
        info.keywords["deprecated"] = True
    if isinstance(item.json_schema_extra, dict):
        info.keywords.update(item.json_schema_extra)
    for inner in item.metadata:
        _read_metadata(inner, info)


def _read_bounds(item: Any, info: FieldInfo) -> bool:
    """Add the bounds of any object that has them under the usual names; return False if it has none."""
    found = {name: getattr(item, name, None) for name in _BOUNDS}
    found = {name: value for name, value in found.items() if value is not None and not callable(value)}
    for name, value in found.items():
        info.bounds[name] = value.pattern if isinstance(value, re.Pattern) else value
        if name in _NUMBER_KEYWORDS and not isinstance(value, int | float | Decimal):
            info.needs_pydantic = True  # an earliest date, a longest duration: no schema says that
    if any(getattr(item, name, None) for name in _TEXT_CHANGES):
        info.needs_pydantic = True
    return bool(found) or hasattr(item, "strict")


def constrain(shape: Shape, info: FieldInfo) -> Shape:
    """Return the shape with the bounds and keywords of `info`; raise where they are wrong or do not apply."""
    keywords = to_plain(info.keywords)
    pattern = {"pattern": info.bounds["pattern"]} if "pattern" in info.bounds else {}
    if keywords or pattern:
        check_schema({**keywords, **pattern})
    if info.bounds:
        shape, used = _bound(shape, info.bounds)
        unused = [name for name in info.bounds if name not in used]
        if unused:
            raise InvalidSignatureError(
                f"{', '.join(unused)} cannot bound this type", hint="remove the bound or change the type"
            )
    return Constrained(shape, keywords) if keywords else shape


def _bound(shape: Shape, bounds: dict[str, Any]) -> tuple[Shape, Set[str]]:
    """Return the shape within the bounds that apply to it, and their names; in a union, each member."""
    match shape:
        case Union(options=options):
            parts = [_bound(option, bounds) for option in options]
            return Union(tuple(part for part, _ in parts)), {name for _, used in parts for name in used}
        case Enumeration():
            return shape, bounds.keys()  # its values are listed
        case Named(target=target) if not isinstance(target, Record):
            return _bound(target, bounds)
    names = _KEYWORDS.get(_json_type(shape), {})
    keywords = {
        names[name]: float(value) if isinstance(value, Decimal) else value
        for name, value in bounds.items()
        if name in names
    }
    return (Constrained(shape, keywords) if keywords else shape), names.keys()


def _json_type(shape: Shape) -> str:
    match shape:
        case Scalar(kind=kind):
            return kind
        case Array() | FixedArray():
            return "array"
        case Dictionary() | Record() | Named():
            return "object"
        case Constrained(base=base):
            return _json_type(base)
    return ""
