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
_READS_ONLY = word_set(
    "get list find search read show describe count lookup view inspect browse peek summarize"
)
_READS = _READS_ONLY | {"query", "check", "fetch"}  # the last three may do more
_SURELY_ACTS = word_set(
    "delete destroy erase purge wipe uninstall unlink revoke terminate send publish deploy pay refund"
)
_ONLY_SHOWS = re.compile(
    r"\b(?:preview|dry|simulat|plan|estimat|validat|draft|status|history|count|list|cost|not\b|without|would"
    r"|only|copy of|returns? (?:the|a) (?:new )?(?:text|string))"
)
_SURELY_READS = word_set("get list search describe count")
_ALSO_ACTS = re.compile(
    r"\b(?:acknowledg|archiv|book|chang|clear|consum|creat|delet|down\b|execut|lock|mark|modif|mov|overwrit|pop\b"
    r"|remov|replac|reset|run|sale|set\b|sets\b|trigger|updat|writ)"
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


def find_doubtful_hints(tool: LintedTool) -> Iterator[Problem]:
    """Report only verbs that cannot mean anything else: `remove_background` and `format_code` may read."""
    is_read_only = tool.definition.annotations.get("readOnlyHint") is True
    is_destructive = tool.definition.annotations.get("destructiveHint") is True
    verb = next(iter(tool.name_words), "")
    if is_read_only and is_destructive:
        yield Problem(f"'{tool.name}' is marked both read-only and destructive", "remove one of the two")
    elif is_read_only and verb in _SURELY_ACTS and _begins_with(tool, _SURELY_ACTS, _ONLY_SHOWS):
        yield Problem(
            f"'{tool.name}' is marked read-only, but '{verb}' suggests otherwise",
            "remove read_only, or rename the tool",
        )
    elif (
        is_destructive and verb in _SURELY_READS and _begins_with(tool, _READS_ONLY | {"return"}, _ALSO_ACTS)
    ):
        mark = 'annotations {"readOnlyHint": true}' if tool.has_own_schema else "read_only=True"
        yield Problem(
            f"'{tool.name}' is marked destructive, but '{verb}' suggests that it only reads",
            f"set {mark}, or choose a name that says what it destroys",
        )


def _begins_with(tool: LintedTool, verbs: frozenset[str], unless: re.Pattern[str]) -> bool:
    """Tell whether the description begins with one of the verbs, too, or is missing.

    `send_rate` may return a rate. `unless` is looked for in the description and in the name without its verb.
    """
    text = tool.description.lower()
    first = re.match(r"[a-z]+", text)
    is_verb = first is None or not verbs.isdisjoint({first[0], first[0][:-1], first[0][:-2]})
    return is_verb and not unless.search(f"{' '.join(tool.name_words[1:])}. {text}")


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
    """Return the alternatives that a description lists; none where the list may not be complete."""
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
_VALUE = (
    r"(?P<value>\"[^\"\s]{1,60}\"|'[^'\s]{1,60}'|`[^`\s]{1,60}`|-?\d{1,3}(?:[,_]\d{3})+|-?\d+(?:\.\d+)?"
    r"|true|false)"
)
# Only a value that stands alone counts: "30 seconds", "10 for lists" and "the server's default is 5" do not.
_DEFAULT_BEFORE = re.compile(
    r"(?:^|[.,;:(\[\u2013\u2014-]|\n|\b(?:which|it|and))\s*(?:the )?defaults?(?: value)?"
    r"(?: is|\s*[:=]|s? to|(?=\s))"
    rf"\s*[:=]?\s*{_VALUE}(?=\s*(?:$|\n|[.;)\]](?!\w)))",
    re.IGNORECASE,
)
_DEFAULT_AFTER = re.compile(
    rf"(?:^|[,;(]\s*){_VALUE},?\s{{1,9}}\(?by default(?=\s*(?:$|[.;)\]]))", re.IGNORECASE
)
_NAME_OF_VALUE = re.compile(r"[A-Z][A-Z0-9]*_\w+|[^\d.][^.]*[.(\[{$<].*|.*\\.*")
_OPTIONAL = re.compile(r"\s*[(\[]?optional\b", re.IGNORECASE)
_REQUIRED = re.compile(r"\s*(?:[(\[]required[)\]]|required[.:])", re.IGNORECASE)


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
    """Compare where the description names one value, and the default is no stand-in for "not given"."""
    for name, schema in tool.parameter_schemas.items():
        description, default = schema.get("description"), schema.get("default")
        if not isinstance(description, str) or description.lower().count("default") != 1:
            continue
        found = _DEFAULT_BEFORE.search(description) or _DEFAULT_AFTER.search(description)
        if found is None or (default in ("", 0, -1, None) and not isinstance(default, bool)):
            continue
        described = _parse_value(found["value"])
        if isinstance(described, str) and (
            described in tool.parameters or _NAME_OF_VALUE.fullmatch(described)
        ):
            continue
        if found["value"].replace(".", "") == str(default):  # 30.000 is 30,000 in some countries
            continue
        same_type = type(described) is type(default) or {type(described), type(default)} == {int, float}
        if same_type and _normalise(described) != _normalise(default):
            shown = json.dumps(default, default=str)
            yield Problem(
                f"The description of '{name}' of '{tool.name}' gives the default {found['value']}, its schema"
                f" {shown}",
                parameter=name,
            )


def _parse_value(text: str) -> Any:
    bare = text.strip("\"'`")
    if bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    if bare != text:
        return bare
    number = text.replace(",", "").replace("_", "")
    return float(number) if "." in number else int(number)


def _normalise(value: Any) -> Any:
    return value.strip("\"'`/").casefold() if isinstance(value, str) else value


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
