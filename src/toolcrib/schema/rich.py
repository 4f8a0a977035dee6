"""What only pydantic can say; the only module that imports it, and only when something needs it.

A model whose fields tell all is read by records.py like any other class. Validators that change what is
accepted, generated aliases, schema extras, discriminated unions and pydantic's own types come here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Set
from functools import cache
from pathlib import PurePath
from typing import Any

from toolcrib import codec
from toolcrib.schema.shapes import Foreign

_TELLING_CONFIG = {"alias_generator", "json_schema_extra", "json_schema_serialization_defaults_required"}


def is_model(hint: Any) -> bool:
    """Whether this is a pydantic model class. Where pydantic was never loaded, nothing is."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def is_plain_model(model: Any) -> bool:
    """Whether the model's fields say all there is to say about its schema."""
    pydantic = sys.modules["pydantic"]
    if issubclass(model, pydantic.RootModel) or model.model_config.keys() & _TELLING_CONFIG:
        return False
    if any(
        "__get_pydantic_json_schema__" in base.__dict__
        for base in model.__mro__
        if base not in _own(pydantic)
    ):
        return False
    return not any(
        "__get_pydantic_core_schema__" in base.__dict__
        for base in model.__mro__
        if base not in _own(pydantic)
    )


def _own(pydantic: Any) -> tuple[type, ...]:
    return (pydantic.BaseModel, object)


@cache
def _type_adapter() -> Any:
    """The one place that loads pydantic where the user's own code has not: about 90 ms."""
    from pydantic import TypeAdapter

    return TypeAdapter


def _adapter(hint: Any) -> Any:
    return _type_adapter()(hint)


def foreign(hint: Any) -> Foreign:
    """A shape described, checked and made by pydantic."""
    adapter = _adapter(hint)
    schema = strip_titles(adapter.json_schema(mode="validation", by_alias=True))
    return Foreign(schema, adapter.validate_python, _dump_with(adapter))


def dumper(model: Any) -> Callable[[Any], Any]:
    """Serialises by the declared model: fields that only a subclass has stay at home."""
    made: list[Callable[[Any], Any]] = []

    def dump(value: Any) -> Any:
        if not made:
            made.append(_dump_with(_adapter(model)))
        return made[0](value)

    return dump


def _dump_with(adapter: Any) -> Callable[[Any], Any]:
    def dump(value: Any) -> Any:
        return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    return dump


def strip_titles(node: Any, *, names: bool = False) -> Any:
    """Drop the titles that pydantic makes out of names; `names` marks a mapping whose keys are names."""
    if isinstance(node, dict):
        return {
            key: strip_titles(value, names=key in ("properties", "$defs", "patternProperties") and not names)
            for key, value in node.items()
            if names or key != "title" or not isinstance(value, str)
        }
    if isinstance(node, list):
        return [strip_titles(item) for item in node]
    return node


def to_plain(value: Any) -> Any:
    """Plain JSON data out of anything that has an obvious form; raises TypeError where there is none."""
    return codec.to_plain(value, _unknown)


def _unknown(value: Any) -> Any:
    """What the codec does not know by itself."""
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set | Iterator | Generator) or type(value).__name__ in ("dict_keys", "dict_values"):
        return list(value)
    if type(value).__module__ in ("ipaddress", "fractions"):
        return str(value)
    if hasattr(value, "pattern") and hasattr(value, "fullmatch"):
        return value.pattern
    if isinstance(value, complex):
        return str(value)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        return item()  # a number of NumPy's
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")
