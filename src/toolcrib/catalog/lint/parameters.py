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
    "delete remove drop destroy erase purge wipe truncate kill terminate uninstall revoke reset"
    " unlink overwrite shred deprovision prune evict rm"
)
_EXTERNAL_EFFECT = word_set(
    "send pay transfer publish post email tweet refund charge purchase buy sell order withdraw deploy"
    " merge push release broadcast wire donate trade"
)
_RISKY = _DESTRUCTIVE | _EXTERNAL_EFFECT | {"execute", "exec", "eval", "shell"}
_RISKY_ALONE = _DESTRUCTIVE | {"send", "pay", "exec", "eval"}
_RISKY_AFTER_NAMESPACE = _DESTRUCTIVE | {"send", "pay", "execute", "publish", "deploy"}
_RISKY_AT_END = _DESTRUCTIVE - {"reset"}
_NOUNS_AT_END = frozenset({"status", "history", "list", "info", "count", "schema"})
_READS = word_set(
    "get list find search read show describe count lookup view inspect browse peek summarize query check"
    " fetch"
)


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


_NOT_A_TYPE = frozenset({"description", "default", "title", "examples"})


def find_undocumented_parameters(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        if not schema.get("description"):
            hint = f"describe it: `{name}: ...` under Args in the docstring"
            own = "give its property a 'description'"
            noun = "Argument" if tool.tool.kind == "prompt" else "Parameter"
            message = f"{noun} '{name}' of '{tool.name}' has no description"
            yield Problem(message, own if tool.has_own_schema else hint, name)


def find_untyped_parameters(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        if not schema.keys() - _NOT_A_TYPE and _has_no_hint(tool, name):
            own = "give its property a 'type'"
            message = f"Parameter '{name}' of '{tool.name}' has no type: any value is accepted"
            kind = "Context" if name in ("ctx", "context") else "str"
            yield Problem(message, own if tool.has_own_schema else f"add a type hint: `{name}: {kind}`", name)


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


# --- choices listed in prose --------------------------------------------------------------------------

_WORD = r"[A-Za-z][\w.+-]{0,40}"
_QUOTED = rf"""(?:"{_WORD}"|'{_WORD}'|`{_WORD}`|“{_WORD}”)"""
_SEPARATOR = r"\s*(?:,\s*(?:or|and)\s|,|/|\||\bor\b)\s*"
_INTRODUCED = (
    r"(?:(?<!exactly )(?<!least )one of|(?:choices|options|(?:allowed|valid|possible|permitted|accepted)"
    r" values)(?:\s+are)?)\s*[:=(]?\s*"
)
_END = r"(?=\s*(?:[.;)\]](?!\w)|$|\n|[,(\[]\s*default|by default))"
_BEFORE_QUOTED = rf"(?:^|[:(]\s*|\b(?:be|is|either)\s+|{_INTRODUCED})"
_CHOICES = (
    re.compile(rf"{_BEFORE_QUOTED}(?P<list>{_QUOTED}(?:{_SEPARATOR}{_QUOTED})+){_END}", re.IGNORECASE),
    re.compile(rf"\b{_INTRODUCED}(?P<list>{_WORD}(?:{_SEPARATOR}{_WORD})+){_END}", re.IGNORECASE),
    re.compile(rf"(?:^|\()(?P<list>{_WORD}(?:\s*\|\s*{_WORD})+){_END}"),
    re.compile(
        r"\b(?:format|mode|order|type|kind|unit|level|status|state|sort|direction|style|visibility|priority"
        r"|severity|method|strategy|scope|role|period|interval|frequency|size|operator|algorithm|environment)s?"
        rf"\b[^.:]{{0,20}}:\s*(?P<list>{_WORD}(?:,\s*{_WORD})*,?\s+or\s+{_WORD}){_END}",
        re.IGNORECASE,
    ),
)
# A list that is not complete, or whose members can be combined
_OPEN_LIST = re.compile(
    r"\b(?:e\.?g|i\.?e|such as|for (?:example|instance)|like|examples?|common\w*|typical\w*|etc|comma"
    r"|separated|list of|multiple|combin\w+|custom|other|another|any|anything|or an?|as well as|more"
    r"|includ\w+|prefix\w*|patterns?|glob|regex|expression|placeholders?)\b|\.\.\.|…",
    re.IGNORECASE,
)
_KINDS = word_set(
    "name id ids path url uri email number string str int integer float bool boolean none null list dict"
    " object file folder date datetime username slug title the empty omitted"
)
_SECRET = re.compile(r"key|token|secret|passw|passphrase|pwd|auth|credential|bearer|cookie", re.IGNORECASE)
_MAX_CHOICES_TEXT = 400
"""A longer text explains more than one list."""


def list_choices(text: str) -> list[str]:
    """Return the alternatives that a description lists; none if the list may not be complete."""
    if len(text) > _MAX_CHOICES_TEXT or _OPEN_LIST.search(text):
        return []
    for pattern in _CHOICES:
        if found := pattern.search(text):
            items = [item.strip("\"'`“” ") for item in re.split(_SEPARATOR, found["list"])]
            choices = [item.rstrip(".") for item in dict.fromkeys(items) if item]
            if len(choices) > 1 and _KINDS.isdisjoint(map(str.lower, choices)):
                return choices
    return []


def find_prose_choices(tool: LintedTool) -> Iterator[Problem]:
    """Look at free texts, but never repeat what may be a secret."""
    for name, schema in tool.parameter_schemas.items():
        text = schema.get("description")
        if not isinstance(text, str) or not _is_free_text(schema) or _SECRET.search(f"{name} {text}"):
            continue
        choices = list_choices(text)
        if not choices or not tool.parameters.keys().isdisjoint(choices):
            continue
        if schema.get("default") in (None, "", *choices):
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
