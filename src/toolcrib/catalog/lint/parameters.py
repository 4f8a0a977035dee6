"""Lint rules for parameters, results, annotations, and schemas that contradict their descriptions.

The rules know English verbs at the start of a name. Clients use hints to decide whether to ask the user.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.catalog.lint.rule import LintedTool, Problem, quote, word_set
from toolcrib.definition import find_wrong_annotations
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation.validator import Validator

_DESTRUCTIVE = word_set(
    "delete remove drop destroy erase purge wipe truncate kill terminate uninstall revoke format reset"
    " unlink overwrite shred deprovision prune evict rm"
)
_EXTERNAL_EFFECT = word_set(
    "send pay transfer publish post email tweet refund charge purchase buy sell order withdraw deploy"
    " merge push release broadcast wire donate trade"
)
_RISKY = _DESTRUCTIVE | _EXTERNAL_EFFECT | {"execute", "exec", "eval", "shell"}
_RISKY_ALONE = _DESTRUCTIVE | {"send", "pay", "exec", "eval"}
_RISKY_AFTER_NAMESPACE = _DESTRUCTIVE | {"send", "pay", "execute", "publish", "deploy"}
_RISKY_AT_END = _DESTRUCTIVE - {"reset", "format"}
_NOUNS_AT_END = frozenset({"status", "history", "list", "info", "count", "schema"})
_READS_ONLY = word_set(
    "get list find search read show describe count lookup view inspect browse peek summarize"
)
_READS = _READS_ONLY | {"query", "check", "fetch"}  # the last three may do more


def find_unmarked_risk(tool: LintedTool) -> Iterator[Problem]:
    verb = _risky_verb(tool)
    annotations = tool.definition.annotations
    is_marked = any(isinstance(annotations.get(hint), bool) for hint in ("readOnlyHint", "destructiveHint"))
    if verb is not None and not is_marked:
        yield Problem(
            f"'{tool.name}' sounds destructive ('{verb}') and is not marked as such or as harmless",
            'set annotations {"destructiveHint": true}, or false where it can be undone'
            if tool.has_own_schema
            else None,
        )


def find_doubtful_hints(tool: LintedTool) -> Iterator[Problem]:
    is_read_only = tool.definition.annotations.get("readOnlyHint") is True
    is_destructive = tool.definition.annotations.get("destructiveHint") is True
    verb = _risky_verb(tool)
    first_word = next(iter(tool.name_words), "")
    if is_read_only and verb is not None:
        yield Problem(
            f"'{tool.name}' is marked read-only, but '{verb}' suggests otherwise",
            "remove read_only, or rename the tool",
        )
    elif is_destructive and not is_read_only and first_word in _READS_ONLY:
        mark = 'annotations {"readOnlyHint": true}' if tool.has_own_schema else "read_only=True"
        yield Problem(
            f"'{tool.name}' is marked destructive, but '{first_word}' suggests that it only reads",
            f"set {mark}, or choose a name that says what it destroys",
        )
    if is_read_only and is_destructive:
        yield Problem(f"'{tool.name}' is marked both read-only and destructive", "remove one of the two")


def find_invalid_annotations(tool: LintedTool) -> Iterator[Problem]:
    annotations = tool.definition.annotations
    for key, kind in find_wrong_annotations(annotations):
        value = quote(repr(annotations[key]))
        yield Problem(f"Annotation '{key}' of '{tool.name}' must be {kind}, not {value}")


def _risky_verb(tool: LintedTool) -> str | None:
    """Return the risky verb at the start of the name, or after a namespace, or at its end."""
    words = tool.name_words
    if not words or words[0] in _READS or words[-1] in _NOUNS_AT_END:
        return None
    if words[0] in _RISKY:
        return words[0] if len(words) > 1 or words[0] in _RISKY_ALONE else None
    if len(words) > 2 and words[1] in _RISKY_AFTER_NAMESPACE:
        return words[1]  # shop_delete_order
    return words[-1] if len(words) > 1 and words[-1] in _RISKY_AT_END else None


MAX_DEPTH = 4
"""Objects within objects; models often get deeper ones wrong."""
_NOT_A_TYPE = frozenset({"description", "default", "title", "examples"})


def find_undocumented_parameters(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        if not schema.get("description"):
            hint = f"describe it: `{name}: ...` under Args in the docstring"
            own = "give its property a 'description'"
            message = f"Parameter '{name}' of '{tool.name}' has no description"
            yield Problem(message, own if tool.has_own_schema else hint, name)


def find_untyped_parameters(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        if not schema.keys() - _NOT_A_TYPE and _has_no_hint(tool, name):
            own = "give its property a 'type'"
            message = f"Parameter '{name}' of '{tool.name}' has no type: any value is accepted"
            yield Problem(message, own if tool.has_own_schema else f"add a type hint: `{name}: str`", name)


def _has_no_hint(tool: LintedTool, name: str) -> bool:
    """Tell a missing hint from one of Any or object, which is a decision."""
    if tool.is_described:
        return True
    parameter = tool.tool.info.signature.parameters.get(name)
    return parameter is None or parameter.annotation is inspect.Parameter.empty


def find_missing_required(tool: LintedTool) -> Iterator[Problem]:
    """Look at written schemas only: in one made from hints, the signature decides."""
    if not tool.has_own_schema or "required" in tool.definition.input_schema or not tool.parameters:
        return
    if not any("default" in schema for schema in tool.parameter_schemas.values()):
        yield Problem(f"The schema of '{tool.name}' does not say which parameters are required")


def find_deep_parameters(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        depth = _depth_of(schema)
        if depth > MAX_DEPTH:
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' is nested {depth} levels deep", parameter=name
            )


def _depth_of(schema: Any, level: int = 0) -> int:
    """Return how deep objects and arrays are nested. `$ref` is not followed: it may be recursive."""
    if not isinstance(schema, Mapping) or level > 30:
        return 0
    properties = schema.get("properties")
    children: list[Any] = list(properties.values()) if isinstance(properties, Mapping) else []
    children += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    depth = max((1 + _depth_of(child, level + 1) for child in children), default=0)
    for key in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(key)
        for choice in choices if isinstance(choices, list | tuple) else ():
            depth = max(depth, _depth_of(choice, level + 1))
    return depth


# --- choices listed in prose --------------------------------------------------------------------------

_QUOTED = r"""(?:"[^"\s]{1,40}"|'[^'\s]{1,40}'|`[^`\s]{1,40}`|“[^”\s]{1,40}”)"""
_SEPARATOR = r"\s*(?:,\s*(?:or|and)\s|,|/|\||\bor\b|\band\b)\s*"
_CHOICES = (
    re.compile(rf"{_QUOTED}(?:{_SEPARATOR}{_QUOTED})+"),
    re.compile(
        r"\b(?:one of|either|choices?|options|(?:allowed|valid|possible|permitted) values)\b"
        rf"(?:\s+are)?\s*[:=(]?\s*(?P<list>[\w-]+(?:{_SEPARATOR}[\w-]+)+)",
        re.IGNORECASE,
    ),
    re.compile(r"(?<![\w|])(?P<list>[\w-]+(?:\s*\|\s*[\w-]+)+)"),
    re.compile(r"[:(]\s*(?P<list>[\w-]+(?:,\s*[\w-]+)*,?\s+or\s+[\w-]+)\s*\)?\.?\s*$"),
)
_BEFORE_EXAMPLES = re.compile(
    r"(?:\be\.?g\.?|\bsuch as|\bfor example|\bfor instance|\blike|\bexamples?)[\s,:(]*$", re.I
)
_MAX_CHOICES_TEXT = 2_000
"""A longer text is no list of choices, and searching it would take too long."""


def list_choices(text: str) -> list[str]:
    """Return the alternatives that a description lists; none where it only gives examples."""
    for pattern in _CHOICES if len(text) <= _MAX_CHOICES_TEXT else ():
        found = pattern.search(text)
        if found is None or _BEFORE_EXAMPLES.search(text[: found.start()]):
            continue
        listed = found.groupdict().get("list") or found[0]
        choices = [item.strip("\"'`“” ") for item in re.split(_SEPARATOR, listed)]
        choices = [choice for choice in dict.fromkeys(choices) if choice]
        if len(choices) > 1:
            return choices
    return []


def find_prose_choices(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        choices = list_choices(str(schema.get("description", ""))) if _is_free_text(schema) else []
        if choices:
            listed = ", ".join(f'"{choice}"' for choice in choices)
            form = f'"enum": [{listed}]' if tool.has_own_schema else f"Literal[{listed}]"
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' accepts any string, but its description lists choices",
                f"use {form}, so that nothing else is accepted",
                name,
            )


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and not schema.keys() & {"enum", "const", "format", "pattern"}


# --- the result ---------------------------------------------------------------------------------------


def find_undocumented_result(tool: LintedTool) -> Iterator[Problem]:
    """Ask for a description of data; text and records with named fields explain themselves."""
    output = tool.definition.output_schema
    if tool.definition.returns or tool.has_own_schema or output is None:
        return
    if not output.get("description") and not _has_fields(output):
        yield Problem(f"The result of '{tool.name}' is not described")


def _has_fields(schema: Mapping[str, Any]) -> bool:
    items = schema.get("items")
    return "properties" in schema or "$ref" in schema or (isinstance(items, Mapping) and _has_fields(items))


# --- contradictions -----------------------------------------------------------------------------------
#
# Schemas that no call could satisfy are refused at registration; these are the ones that mislead a caller.

_LIMITS = tuple((f"min{noun}", f"max{noun}") for noun in ("imum", "Length", "Items", "Properties"))
_CHECKED = frozenset({"type", "enum", *(key for pair in _LIMITS for key in pair)})
"""The keywords that a default is checked against; types in compositions may depend on other parameters."""
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
        uses = Counter(json.dumps(choice, sort_keys=True, default=str) for choice in choices)
        repeated = next((text for text, count in uses.items() if count > 1), None)
        if repeated is not None:
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' lists {quote(repeated)} twice", parameter=name
            )


def find_invalid_choices(tool: LintedTool) -> Iterator[Problem]:
    for name, schema, choices in _enums(tool):
        wrong = [choice for choice in choices if not _is_valid({"type": schema.get("type")}, choice)]
        if wrong:
            shown = quote(json.dumps(wrong[0], default=str))
            message = f"Parameter '{name}' of '{tool.name}' lists {shown}, which its type does not allow"
            yield Problem(message, parameter=name)


def find_invalid_defaults(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        default = schema.get("default")
        if default is not None and not _is_valid(schema, default):  # null often stands for no default
            shown = quote(json.dumps(default, default=str))
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' has the default {shown}, which its schema refuses",
                parameter=name,
            )


def _is_valid(schema: Mapping[str, Any], value: Any) -> bool:
    """Tell whether a value fits the type, the choices and the limits of a schema, as far as that is known."""
    rules = {key: rule for key, rule in schema.items() if key in _CHECKED and rule is not None}
    try:
        return not rules or Validator(rules, trusted=True).is_valid(value)
    except (InvalidSchemaError, TypeError, ValueError):
        return True


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
        if type(described) is type(default) or {type(described), type(default)} == {int, float}:
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
