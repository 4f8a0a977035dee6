"""Types that only pydantic can describe. The only module that imports pydantic, when something needs it.

A model whose fields say everything is read by hints.py like any other class. Validators of raw values,
schema extras that are code, discriminated unions and pydantic's own types come here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from functools import cache
from pathlib import PurePath
from typing import Annotated, Any, Literal, Never

from toolcrib.errors import InvalidSignatureError
from toolcrib.options import Extra
from toolcrib.schema.shapes import Convert, External
from toolcrib.validation import codec
from toolcrib.validation.validator import DATE_TIME_PATTERN, check_schema

Mode = Literal["validation", "serialization"]
"""Whether values come in or go out, in pydantic's terms."""

_FIELDS = "__pydantic_fields__"
_HOOKS = ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__")
_AS_TEXT = ("ipaddress", "fractions", "zoneinfo", "pydantic", "pydantic_core")


# --- reading classes by their fields -----------------------------------------------------------------


def is_pydantic(hint: type) -> bool:
    """Whether this is a pydantic model or dataclass, judged by an attribute, without loading pydantic."""
    return _FIELDS in hint.__dict__


def fields_of(cls: Any) -> dict[str, Any]:
    """Return the fields of a pydantic class, with resolved hints."""
    # Pydantic 2.11 calls a class complete whose inherited fields still have the text of a hint.
    is_complete = cls.__pydantic_complete__ and getattr(cls, "__pydantic_fields_complete__", True)
    if not is_complete and hasattr(cls, "model_rebuild"):
        cls.model_rebuild(force=True, raise_errors=False)
    if not cls.__pydantic_complete__:
        raise InvalidSignatureError(
            f"class '{cls.__name__}' is not fully defined",
            hint=f"define what it refers to in module {cls.__module__}, not inside a function",
        )
    fields: dict[str, Any] = vars(cls)[_FIELDS]
    return fields


def config_of(cls: Any) -> Mapping[str, Any]:
    config = getattr(cls, "model_config", None)
    return getattr(cls, "__pydantic_config__", {}) if config is None else config


def is_described_by_fields(cls: Any, mode: Mode) -> bool:
    """Whether the fields of a pydantic class say everything about its schema."""
    config = config_of(cls)
    if config.get("extra") == "allow" or callable(config.get("json_schema_extra")):
        return False
    if getattr(cls, "__pydantic_root_model__", False) or _has_hooks(cls):
        return False
    decorators = cls.__pydantic_decorators__
    if mode == "serialization":
        return not (
            decorators.computed_fields
            or decorators.field_serializers
            or decorators.model_serializers
            or any(info.exclude for info in fields_of(cls).values())
        )
    validators = (*decorators.field_validators.values(), *decorators.model_validators.values())
    older = (*decorators.validators, *decorators.root_validators)
    return not older and all(validator.info.mode == "after" for validator in validators)


def published_names(cls: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of attribute and name for the fields of a pydantic class.

    Aliases come last: an alias may be the attribute of another field, and is the one that is published.
    """
    fields = fields_of(cls)
    pairs = [(name, name) for name in fields]
    if config_of(cls).get("validate_by_alias") is not False:
        for name, info in fields.items():
            alias = info.alias if info.validation_alias is None else info.validation_alias
            pairs += [(name, item) for item in getattr(alias, "choices", (alias,)) if isinstance(item, str)]
    return tuple(pairs)


def takes_other_names(cls: Any) -> bool:
    """Whether a class says that it takes names besides those of its fields, or renames them before it reads
    them. `extra="ignore"` is pydantic's default, and counts only where the author wrote it."""
    decorators = getattr(cls, "__pydantic_decorators__", None)
    if decorators is not None:
        modes = (item.info.mode for item in decorators.model_validators.values())
        if decorators.root_validators or any(mode != "after" for mode in modes):
            return True
    further = getattr(cls, "__extra_items__", Never)  # of a TypedDict
    has_further = further is not Never and type(further).__name__ != "NoExtraItemsType"
    is_open = getattr(cls, "__closed__", None) is False or has_further
    return is_open or config_of(cls).get("extra") in ("allow", "ignore")


def accepted_names(cls: Any) -> tuple[str, ...]:
    """Return every name by which a pydantic class takes a field, published or not."""
    if not is_pydantic(cls):
        return ()
    config = config_of(cls)
    names: list[Any] = []
    for name, info in fields_of(cls).items():
        alias = info.alias if info.validation_alias is None else info.validation_alias
        found = [getattr(item, "path", [item])[0] for item in getattr(alias, "choices", (alias,))]
        names += found if config.get("validate_by_alias") is not False else []
        if alias is None or config.get("validate_by_name") or config.get("populate_by_name"):
            names.append(name)
    return tuple(name for name in names if isinstance(name, str))


def factory_made_fields(value: Any) -> list[str]:
    """Return the fields of a pydantic model that have the value of a default factory."""
    if not hasattr(value, "__pydantic_fields_set__"):
        return []
    given = value.__pydantic_fields_set__
    return [
        name for name, info in fields_of(type(value)).items() if info.default_factory and name not in given
    ]


def has_own_init(cls: Any) -> bool:
    """Whether the constructor was written by the author, and may not take any name."""
    return bool(getattr(cls, "__pydantic_custom_init__", False))


def is_model(cls: Any) -> bool:
    """Whether this is a pydantic model, which pydantic makes of a dict even where it is strict."""
    return is_pydantic(cls) and hasattr(cls, "model_fields")


def is_strict(cls: Any) -> bool:
    """Whether a pydantic class, or a field of it, takes only values of exactly its type."""
    metadata = (item for info in fields_of(cls).values() for item in info.metadata)
    return bool(config_of(cls).get("strict")) or any(getattr(item, "strict", False) for item in metadata)


def model_loader(cls: Any) -> Convert:
    """Return a function that makes a pydantic model or dataclass of its JSON."""
    return lambda value: cls.__pydantic_validator__.validate_python(value)


def model_list_loader(cls: Any) -> Convert:
    """Return a function that makes a list of models by one call, in half the time of making each."""
    adapt = _list_adapter(cls)
    return lambda value: adapt().validate_python(value)


def _list_adapter(hint: Any) -> Callable[[], Any]:
    @cache
    def adapt_list() -> Any:
        from pydantic import FailFast

        adapt, _ = _engine()
        return adapt(Annotated[list[hint], FailFast()]).validator

    return adapt_list


def _has_hooks(cls: type) -> bool:
    """Whether the class, or one of its bases outside pydantic, describes itself."""
    return any(
        hook in base.__dict__
        for base in cls.__mro__
        if base.__module__.partition(".")[0] != "pydantic"
        for hook in _HOOKS
    )


# --- types described by pydantic ---------------------------------------------------------------------


@cache
def _engine() -> tuple[Any, Any]:
    """Load pydantic, which takes about 90 ms where the user's own code has not done it."""
    from pydantic import TypeAdapter
    from pydantic import warnings as kinds
    from pydantic.json_schema import GenerateJsonSchema

    unsupported = getattr(kinds, "UnsupportedFieldAttributeWarning", None)  # since pydantic 2.12

    class Untitled(GenerateJsonSchema):
        """Publishes what the author wrote: no titles made of names, no OpenAPI discriminators."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default", "skipped-discriminator"}

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
            return False

        has_naive_times = False

        def datetime_schema(self, schema: Any) -> dict[str, Any]:
            rendered: dict[str, Any] = super().datetime_schema(schema)
            is_aware = schema.get("tz_constraint") not in (None, "naive")
            is_result = self.mode == "serialization"
            if is_aware or rendered.get("format") != "date-time" or not (is_result or self.has_naive_times):
                return rendered
            return {"type": "string", "pattern": DATE_TIME_PATTERN}

        def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
            rendered = super().tagged_union_schema(schema)
            rendered.pop("discriminator", None)
            return rendered

    def adapt(hint: Any) -> Any:
        with warnings.catch_warnings():  # about aliases and defaults, which are handled elsewhere
            if unsupported is not None:
                warnings.simplefilter("ignore", unsupported)
            return TypeAdapter(hint)

    return adapt, Untitled


@cache
def _enforcing_generator(extra: Extra) -> Any:
    """Return the generator of schemas that values are checked against: unless `extra` is "ignore", names that
    pydantic would ignore are refused."""
    _, generator = _engine()

    def close(rendered: dict[str, Any], cls: Any) -> dict[str, Any]:
        is_decided = "properties" not in rendered or "additionalProperties" in rendered
        if extra == "ignore" or is_decided or takes_other_names(cls):
            return rendered
        properties = rendered["properties"]
        others = {name: True for name in accepted_names(cls) if name not in properties}
        return {**rendered, "properties": {**properties, **others}, "additionalProperties": False}

    class Enforcing(generator):  # type: ignore[misc, valid-type]
        has_naive_times = True

        def model_schema(self, schema: Any) -> dict[str, Any]:
            return close(super().model_schema(schema), schema["cls"])

        def dataclass_schema(self, schema: Any) -> dict[str, Any]:
            return close(super().dataclass_schema(schema), schema["cls"])

        def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
            return close(super().typed_dict_schema(schema), schema.get("cls"))

    return Enforcing


def external_shape(hint: Any, mode: Mode) -> External:
    """Return a shape that pydantic describes, loads and dumps."""
    adapt, generator = _engine()
    adapter = adapt(hint)
    schema = adapter.json_schema(mode=mode, by_alias=True, schema_generator=generator)
    check_schema(schema)  # patterns and schema extras come from the author
    python = hint if isinstance(hint, type) else None

    def load(value: Any) -> Any:
        return adapter.validate_json(codec.encode(value))

    adapt_list = _list_adapter(hint)

    def load_list(value: Any) -> Any:
        return adapt_list().validate_json(codec.encode(value))

    def make_enforced(extra: Extra) -> dict[str, Any]:
        generator = _enforcing_generator(extra)
        enforced: dict[str, Any] = adapter.json_schema(mode=mode, by_alias=True, schema_generator=generator)
        return enforced

    name = getattr(getattr(hint, "__origin__", hint), "__name__", "")
    schema = _without_class_names(schema, name)
    return External(schema, load, _dump_with(adapter, python), python, load_list, make_enforced)


def _dump_with(adapter: Any, python: Any) -> Callable[[Any], Any]:
    """Return a dumper by the declared type: fields that only a subclass has are left out."""

    def dump(value: Any) -> Any:
        if python is not None and not isinstance(value, python):
            try:
                value = adapter.validate_python(value)
            except ValueError:
                raise TypeError(f"it is not a {python.__name__}") from None
        return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    return dump


def _without_class_names(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Remove the titles that repeat the names of classes."""
    for key, part in ((name, schema), *schema.get("$defs", {}).items()):
        title = part.get("title")
        if title is not None and _key(key).endswith(_key(title)):
            del part["title"]
    return schema


def _key(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)


# --- JSON data of any value --------------------------------------------------------------------------


def to_plain(value: Any) -> Any:
    """Return the JSON data of a value, or raise TypeError where it has no obvious form."""
    return codec.to_plain(value, _unknown)


_SIMPLER: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, str.__str__),  # subclasses, which the codec does not accept
    (int, int.__int__),
    (float, float.__float__),
    ((PurePath, complex), str),
    (re.Pattern, lambda value: value.pattern),
    (Mapping, dict),
    ((Sequence, Set, ValuesView, Iterator), list),
)


def _unknown(value: Any) -> Any:
    """Return a simpler form of a value that the codec does not support."""
    if isinstance(value, type):
        raise TypeError(f"the class {value.__name__} has no JSON form")
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    for kind, simplify in _SIMPLER:
        if isinstance(value, kind):
            return simplify(value)
    if type(value).__module__.partition(".")[0] in _AS_TEXT:
        return str(value)
    return _from_array(value)


def _from_array(value: Any) -> Any:
    """Return the numbers of NumPy arrays and the like, by the methods that they share."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        return item()
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    kind = type(value).__name__
    raise TypeError(f"a value of type {kind} has no JSON form (use text, numbers, lists, dicts or models)")
