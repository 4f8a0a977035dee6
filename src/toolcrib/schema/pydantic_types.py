"""Classes and types of pydantic, which it describes, loads and dumps itself. The only module that imports it,
when something needs it.

Added to its schemas are the texts of docstrings. In the copy that arguments are checked against, objects are
closed unless their class says `extra="allow"`.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from functools import cache
from pathlib import PurePath
from typing import Annotated, Any, Literal

from toolcrib.errors import InvalidSignatureError
from toolcrib.options import Extra
from toolcrib.schema.docstrings import parse_class
from toolcrib.schema.shapes import External
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import inline_definitions
from toolcrib.validation.validator import DATE_TIME_PATTERN, DURATION_PATTERN, TIME_PATTERN, check_schema

Mode = Literal["validation", "serialization"]
"""Whether values come in or go out, in pydantic's terms."""

_FIELDS = "__pydantic_fields__"
_AS_TEXT = ("ipaddress", "fractions", "zoneinfo", "pydantic", "pydantic_core")


# --- classes -----------------------------------------------------------------------------------------


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


def accepted_names(cls: Any) -> tuple[str, ...]:
    """Return every name by which a pydantic class takes a field, published or not."""
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


def _list_adapter(hint: Any) -> Callable[[], Any]:
    @cache
    def adapt_list() -> Any:
        from pydantic import FailFast

        adapt, _ = _engine()
        return adapt(Annotated[list[hint], FailFast()]).validator

    return adapt_list


# --- shapes ----------------------------------------------------------------------------------------


@cache
def _engine() -> tuple[Any, Any]:
    """Load pydantic, which takes about 90 ms where the user's own code has not done it."""
    from pydantic import TypeAdapter
    from pydantic import warnings as kinds
    from pydantic.json_schema import GenerateJsonSchema

    unsupported = getattr(kinds, "UnsupportedFieldAttributeWarning", None)  # since pydantic 2.12

    class Untitled(GenerateJsonSchema):
        """Publishes what the author wrote: no titles made of names, no OpenAPI discriminators, and the texts
        of docstrings."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default", "skipped-discriminator"}

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
            return False

        has_naive_times = False

        def model_schema(self, schema: Any) -> dict[str, Any]:
            return self.describe(super().model_schema(schema), schema["cls"])

        def dataclass_schema(self, schema: Any) -> dict[str, Any]:
            return self.describe(super().dataclass_schema(schema), schema["cls"])

        def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
            return self.describe(super().typed_dict_schema(schema), schema.get("cls"))

        def describe(self, rendered: dict[str, Any], cls: Any) -> dict[str, Any]:
            return rendered if cls is None else _add_texts(rendered, cls, self.mode)

        def default_schema(self, schema: Any) -> dict[str, Any]:
            rendered: dict[str, Any] = super().default_schema(schema)
            return {key: value for key, value in rendered.items() if key != "default" or value is not None}

        def time_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ARG002 - pydantic's signature
            return {"type": "string", "pattern": TIME_PATTERN}

        def timedelta_schema(self, schema: Any) -> dict[str, Any]:
            rendered: dict[str, Any] = super().timedelta_schema(schema)
            is_text = rendered.get("format") == "duration"
            return {"type": "string", "pattern": DURATION_PATTERN} if is_text else rendered

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


def _add_texts(rendered: dict[str, Any], cls: Any, mode: str) -> dict[str, Any]:
    """Return the schema of a class with the descriptions of its docstring, sections taken out."""
    docs = parse_class(cls)
    if isinstance(cls.__doc__, str) and rendered.get("description") == inspect.cleandoc(cls.__doc__):
        rendered = {key: value for key, value in rendered.items() if key != "description"}
    if docs.description and "description" not in rendered:
        rendered = {**rendered, "description": docs.description}
    properties = rendered.get("properties", {})
    fields = fields_of(cls) if is_pydantic(cls) else {}
    for name, text in docs.fields.items():
        info = fields.get(name)
        names = [name] if info is None else [getattr(info, f"{mode}_alias"), info.alias, name]
        found = next((item for item in names if isinstance(item, str) and item in properties), None)
        if found is not None and text:
            properties[found].setdefault("description", text)
    return rendered


@cache
def _enforcing_generator(extra: Extra) -> Any:
    """Return the generator of schemas that values are checked against: unless `extra` is "ignore", names that
    pydantic would ignore are refused."""
    _, generator = _engine()

    class Enforcing(generator):  # type: ignore[misc, valid-type]
        has_naive_times = True

        def describe(self, rendered: dict[str, Any], cls: Any) -> dict[str, Any]:
            is_decided = "properties" not in rendered or "additionalProperties" in rendered
            if extra == "ignore" or is_decided:
                return rendered
            properties = dict.fromkeys(accepted_names(cls) if is_pydantic(cls) else (), True)
            return {
                **rendered,
                "properties": {**properties, **rendered["properties"]},
                "additionalProperties": False,
            }

    return Enforcing


def external_shape(hint: Any, mode: Mode) -> External:
    """Return a shape that pydantic describes, loads and dumps."""
    adapt, generator = _engine()
    adapter = adapt(hint)
    by_alias = mode == "serialization" or config_of(hint).get("validate_by_alias") is not False
    schema = adapter.json_schema(mode=mode, by_alias=by_alias, schema_generator=generator)
    check_schema(schema)  # patterns and schema extras come from the author
    python = hint if isinstance(hint, type) else None

    def load(value: Any) -> Any:
        return adapter.validate_json(codec.encode(value))

    adapt_list = _list_adapter(hint)

    def load_list(value: Any) -> Any:
        return adapt_list().validate_json(codec.encode(value))

    def make_enforced(extra: Extra) -> dict[str, Any]:
        enforcing = _enforcing_generator(extra)
        enforced: dict[str, Any] = adapter.json_schema(
            mode=mode, by_alias=by_alias, schema_generator=enforcing
        )
        return enforced

    name = getattr(getattr(hint, "__origin__", hint), "__name__", "")
    schema = inline_definitions(_without_class_names(schema, name))
    return External(schema, load, _dump_with(adapter, python), python, load_list, make_enforced)


def _dump_with(adapter: Any, python: Any) -> Callable[[Any], Any]:
    """Return a dumper by the declared type: fields that only a subclass has are left out."""

    def dump(value: Any) -> Any:
        if python is not None and not isinstance(value, python):
            try:
                value = adapter.validate_python(value)
            except ValueError:
                raise TypeError(f"it is not a {python.__name__}") from None
        try:
            return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        except UnicodeDecodeError:
            raise TypeError("a model has bytes that are not UTF-8; set ser_json_bytes='base64'") from None

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
