"""Rules for schemas that contradict themselves, or the words beside them.

Knows schemas as data. What no call could ever keep to was refused before; this is what a caller gets wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.catalog.lint.rule import Remark, Rule, Subject, each_parameter, quote

_LIMITS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
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
_SAID_DEFAULT = re.compile(
    rf"\b(?:defaults?(?: value)?(?: is|\s*[:=]|s? to)|by default)\s*[:=]?\s*{_VALUE}", re.IGNORECASE
)
_DEFAULT_AFTER = re.compile(rf"(?<![\w.-]){_VALUE},?\s{{1,9}}\(?by default\b", re.IGNORECASE)
_SAYS_OPTIONAL = re.compile(r"\s*[(\[]?optional\b", re.IGNORECASE)
_SAYS_REQUIRED = re.compile(r"\s*(?:[(\[]required[)\]]|required[.:])", re.IGNORECASE)


def find_unknown_required(subject: Subject) -> Iterator[Remark]:
    if not subject.required or subject.definition.input_schema.get("patternProperties"):
        return
    for name in sorted(subject.required - subject.parameters.keys()):
        yield Remark(
            f"'{subject.name}' requires {quote(name)}, which is none of its parameters", parameter=name
        )


def find_repeated_choices(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        choices = schema.get("enum")
        if not isinstance(choices, list | tuple):
            continue
        seen: set[str] = set()
        for choice in choices:
            key = json.dumps(choice, sort_keys=True, default=str)
            if key in seen:
                yield Remark(
                    f"Parameter '{name}' of '{subject.name}' lists {quote(key)} twice", parameter=name
                )
                break
            seen.add(key)


def find_unfit_choices(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        choices = schema.get("enum")
        if not isinstance(choices, list | tuple):
            continue
        wrong = next((choice for choice in choices if not _fits_type(schema, choice)), None)
        if wrong is not None or (None in choices and not _fits_type(schema, None)):
            shown = quote(json.dumps(wrong, default=str))
            yield Remark(
                f"Parameter '{name}' of '{subject.name}' offers {shown}, which its type refuses",
                parameter=name,
            )


def find_unfit_defaults(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        if "default" not in schema or schema["default"] is None:
            continue  # null is how many say that there is none
        default, choices = schema["default"], schema.get("enum")
        unlisted = isinstance(choices, list | tuple) and default not in choices
        if unlisted or not _fits_type(schema, default) or not _fits_limits(schema, default):
            shown = quote(json.dumps(default, default=str))
            yield Remark(
                f"Parameter '{name}' of '{subject.name}' has the default {shown}, which its own schema"
                " refuses",
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
    size = value if isinstance(value, int | float) else len(value) if isinstance(value, str | list) else None
    if size is None or isinstance(value, bool):
        return True
    pair = _LIMITS[1] if isinstance(value, str) else _LIMITS[2] if isinstance(value, list) else _LIMITS[0]
    lowest, highest = (schema.get(key) for key in pair)
    if isinstance(lowest, int | float) and size < lowest:
        return False
    return not (isinstance(highest, int | float) and size > highest)


def find_impossible_limits(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        for low, high in _LIMITS:
            lowest, highest = schema.get(low), schema.get(high)
            if isinstance(lowest, int | float) and isinstance(highest, int | float) and lowest > highest:
                yield Remark(
                    f"No value of '{name}' of '{subject.name}' keeps to {low} {lowest} and {high} {highest}",
                    parameter=name,
                )


def find_other_defaults(subject: Subject) -> Iterator[Remark]:
    """Only where the words name a value of the same kind: "defaults to the current folder" is prose."""
    for name, schema in each_parameter(subject):
        words = schema.get("description")
        if not isinstance(words, str) or "efault" not in words or "default" not in schema:
            continue
        said = _SAID_DEFAULT.search(words) or _DEFAULT_AFTER.search(words)
        if said is None:
            continue
        claimed, default = _read_value(said["value"]), schema["default"]
        if isinstance(default, list | dict) or claimed == default or str(claimed) == str(default):
            continue
        if type(claimed) is type(default) or _are_numbers(claimed, default):
            shown = json.dumps(default, default=str)
            yield Remark(
                f"The words on '{name}' of '{subject.name}' give the default {said['value']}, its schema"
                f" {shown}",
                parameter=name,
            )


def _read_value(text: str) -> Any:
    if text[0] in "\"'`":
        text = text[1:-1]
        return {"true": True, "false": False}.get(text.lower(), text)
    plain = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in plain:
        return plain[text.lower()]
    return float(text) if "." in text else int(text)


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def find_other_need(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        words = schema.get("description")
        if not isinstance(words, str):
            continue
        if name in subject.required and _SAYS_OPTIONAL.match(words):
            yield Remark(
                f"The words call '{name}' of '{subject.name}' optional, its schema requires it",
                "give it a default, or drop the word",
                name,
            )
        elif name not in subject.required and "default" not in schema and _SAYS_REQUIRED.match(words):
            yield Remark(
                f"The words call '{name}' of '{subject.name}' required, its schema does not", parameter=name
            )


RULES = (
    Rule(
        "unknown-required",
        "warning",
        "The schema requires a parameter that it does not have",
        "No model can give what it is not told of, and every call without it is refused.",
        "add it to `properties`, or take it off `required`",
        find_unknown_required,
        in_check=True,
    ),
    Rule(
        "repeated-choice",
        "warning",
        "An enum lists a value twice",
        "Some providers refuse the whole list of tools for it, and one of the two was meant to be another.",
        "remove one, or write what was meant",
        find_repeated_choices,
        in_check=True,
    ),
    Rule(
        "unfit-choice",
        "warning",
        "An enum offers a value that the type refuses",
        "A model that takes the offer is told that it is wrong.",
        "change the type or the value",
        find_unfit_choices,
        in_check=True,
    ),
    Rule(
        "unfit-default",
        "warning",
        "A default does not keep to its own schema",
        "A model that repeats the default is told that it is wrong.",
        "change the default or the schema",
        find_unfit_defaults,
        in_check=True,
    ),
    Rule(
        "impossible-limits",
        "warning",
        "No value keeps to both limits",
        "Every call that gives the parameter is refused.",
        "exchange them",
        find_impossible_limits,
        in_check=True,
    ),
    Rule(
        "other-default",
        "warning",
        "The words give another default than the schema",
        "A model leaves out what it wants to be 10, and gets 20.",
        "change one of them",
        find_other_defaults,
        in_check=True,
    ),
    Rule(
        "other-need",
        "advice",
        "The words say optional or required, the schema says otherwise",
        "A model believes the words and is refused, or gives what it need not.",
        "change one of them",
        find_other_need,
    ),
)
