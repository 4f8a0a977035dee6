"""Rules for schemas that contradict themselves or their descriptions.

Schemas that no call could satisfy are refused at registration; these are the ones that mislead a caller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.catalog.lint.rule import LintedTool, Problem, quote

_NUMBER_LIMITS = ("minimum", "maximum")
_STRING_LIMITS = ("minLength", "maxLength")
_ARRAY_LIMITS = ("minItems", "maxItems")
_LIMITS = (_NUMBER_LIMITS, _STRING_LIMITS, _ARRAY_LIMITS, ("minProperties", "maxProperties"))
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}
_VALUE = (
    r"(?P<value>\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|`[^`\n]{1,60}`|-?\d+(?:\.\d+)?\b|true\b|false\b|none\b"
    r"|null\b)"
)
_DEFAULT_BEFORE = re.compile(
    rf"\b(?:defaults?(?: value)?(?: is|\s*[:=]|s? to)|by default)\s*[:=]?\s*{_VALUE}", re.IGNORECASE
)
_DEFAULT_AFTER = re.compile(rf"(?<![\w.-]){_VALUE},?\s{{1,9}}\(?by default\b", re.IGNORECASE)
_OPTIONAL = re.compile(r"\s*[(\[]?optional\b", re.IGNORECASE)
_REQUIRED = re.compile(r"\s*(?:[(\[]required[)\]]|required[.:])", re.IGNORECASE)
_CONSTANTS = {"true": True, "false": False, "none": None, "null": None}


def find_unknown_required(tool: LintedTool) -> Iterator[Problem]:
    if not tool.required or tool.definition.input_schema.get("patternProperties"):
        return
    for name in sorted(tool.required - tool.parameters.keys()):
        message = f"'{tool.name}' requires {quote(name)}, which is not one of its parameters"
        yield Problem(message, parameter=name)


def _enums(tool: LintedTool) -> Iterator[tuple[str, Mapping[str, Any], list[Any] | tuple[Any, ...]]]:
    for name, schema in tool.parameter_schemas.items():
        choices = schema.get("enum")
        if isinstance(choices, list | tuple):
            yield name, schema, choices


def find_repeated_choices(tool: LintedTool) -> Iterator[Problem]:
    for name, _, choices in _enums(tool):
        encoded = [json.dumps(choice, sort_keys=True, default=str) for choice in choices]
        repeated = next((text for index, text in enumerate(encoded) if text in encoded[:index]), None)
        if repeated is not None:
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' lists {quote(repeated)} twice", parameter=name
            )


def find_invalid_choices(tool: LintedTool) -> Iterator[Problem]:
    for name, schema, choices in _enums(tool):
        wrong = [choice for choice in choices if not _fits_type(schema, choice)]
        if wrong:
            shown = quote(json.dumps(wrong[0], default=str))
            message = f"Parameter '{name}' of '{tool.name}' lists {shown}, which its type does not allow"
            yield Problem(message, parameter=name)


def find_invalid_defaults(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        default, choices = schema.get("default"), schema.get("enum")
        if default is None:
            continue  # null often stands for no default
        is_unlisted = isinstance(choices, list | tuple) and default not in choices
        if is_unlisted or not _fits_type(schema, default) or not _fits_limits(schema, default):
            shown = quote(json.dumps(default, default=str))
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' has the default {shown}, which its schema refuses",
                parameter=name,
            )


def _fits_type(schema: Mapping[str, Any], value: Any) -> bool:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list | tuple):
        return True
    for kind in kinds:
        types = _TYPES.get(kind) if isinstance(kind, str) else None
        if types is None:
            return True
        if isinstance(value, types) and (kind == "boolean" or not isinstance(value, bool)):
            return True
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            return True
    return False


def _fits_limits(schema: Mapping[str, Any], value: Any) -> bool:
    if isinstance(value, str):
        size, keys = float(len(value)), _STRING_LIMITS
    elif isinstance(value, list):
        size, keys = float(len(value)), _ARRAY_LIMITS
    elif _is_number(value):
        size, keys = value, _NUMBER_LIMITS
    else:
        return True
    low, high = (schema.get(key) for key in keys)
    if isinstance(low, int | float) and size < low:
        return False
    return not (isinstance(high, int | float) and size > high)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def find_impossible_limits(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        for low_key, high_key in _LIMITS:
            low, high = schema.get(low_key), schema.get(high_key)
            if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
                limits = f"{low_key} {low} and {high_key} {high}"
                yield Problem(f"No value of '{name}' of '{tool.name}' satisfies {limits}", parameter=name)


def find_other_defaults(tool: LintedTool) -> Iterator[Problem]:
    """Compare only where the description names a value: "defaults to the current folder" is prose."""
    for name, schema in tool.parameter_schemas.items():
        description = schema.get("description")
        if not isinstance(description, str) or "efault" not in description or "default" not in schema:
            continue
        found = _DEFAULT_BEFORE.search(description) or _DEFAULT_AFTER.search(description)
        if found is None:
            continue
        described, default = _parse_value(found["value"]), schema["default"]
        if isinstance(default, list | dict) or described == default or str(described) == str(default):
            continue
        if type(described) is type(default) or (_is_number(described) and _is_number(default)):
            shown = json.dumps(default, default=str)
            yield Problem(
                f"The description of '{name}' of '{tool.name}' gives the default {found['value']}, its schema"
                f" {shown}",
                parameter=name,
            )


def _parse_value(text: str) -> Any:
    if text[0] in "\"'`":
        text = text[1:-1]
        return _CONSTANTS[text.lower()] if text.lower() in ("true", "false") else text
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    return float(text) if "." in text else int(text)


def find_other_required(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        description = schema.get("description")
        if not isinstance(description, str):
            continue
        if name in tool.required and _OPTIONAL.match(description):
            message = f"The description calls '{name}' of '{tool.name}' optional, but its schema requires it"
            yield Problem(message, "give it a default, or remove the word", name)
        elif name not in tool.required and "default" not in schema and _REQUIRED.match(description):
            message = f"The description calls '{name}' of '{tool.name}' required, but its schema does not"
            yield Problem(message, parameter=name)
