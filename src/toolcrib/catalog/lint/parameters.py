"""Rules for parameters and results: each has a type and words, and says whether it is needed.

Knows schemas as data and, where there is one, the function behind a tool.

Finds alternatives that a description spells out in prose, where a schema could list them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.catalog.lint.rule import Remark, Rule, Subject, each_parameter

_QUOTED = r"""(?:"[^"\s]{1,40}"|'[^'\s]{1,40}'|`[^`\s]{1,40}`|“[^”\s]{1,40}”)"""
_AND = r"\s*(?:,\s*(?:or|and)\s|,|/|\||\bor\b|\band\b)\s*"
_QUOTED_LIST = re.compile(rf"{_QUOTED}(?:{_AND}{_QUOTED})+")
_PLAIN_LIST = re.compile(
    r"\b(?:one of|either|choices?|options|(?:allowed|valid|possible|permitted) values)\b"
    r"(?:\s+are)?\s*[:=(]?\s*"
    rf"(?P<list>[\w-]+(?:{_AND}[\w-]+)+)",
    re.IGNORECASE,
)
_BARS = re.compile(r"(?<![\w|])(?P<list>[\w-]+(?:\s*\|\s*[\w-]+)+)")
_CLOSING_LIST = re.compile(r"[:(]\s*(?P<list>[\w-]+(?:,\s*[\w-]+)*,?\s+or\s+[\w-]+)\s*\)?\.?\s*$")
_EXAMPLES = re.compile(
    r"(?:\be\.?g\.?|\bsuch as|\bfor example|\bfor instance|\blike|\bexamples?)[\s,:(]*$", re.I
)
_LONGEST = 2_000
"""What is longer is no list of choices, and looking for one would take too long."""


def list_choices(text: str) -> list[str]:
    """The alternatives that a description spells out; none where it only gives examples."""
    for pattern in (_QUOTED_LIST, _PLAIN_LIST, _BARS, _CLOSING_LIST) if len(text) <= _LONGEST else ():
        found = pattern.search(text)
        if found is None or _EXAMPLES.search(text[: found.start()]):
            continue
        listed = found.groupdict().get("list") or found[0]
        choices = [item.strip("\"'`“” ") for item in re.split(_AND, listed)]
        choices = [choice for choice in dict.fromkeys(choices) if choice]
        if len(choices) > 1:
            return choices
    return []


DEEPEST_PARAMETER = 4
"""Objects within objects; models get deeper ones wrong more often than not."""

_SILENT = frozenset({"description", "default", "title", "examples"})


def find_undocumented_parameters(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        if not schema.get("description"):
            yield Remark(
                f"Parameter '{name}' of '{subject.name}' has no description",
                "give its property a 'description'"
                if subject.has_own_schema
                else f"describe it: `{name}: ...` under Args in the docstring",
                name,
            )


def find_untyped_parameters(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        if not schema.keys() - _SILENT and _is_untyped(subject, name):
            yield Remark(
                f"Parameter '{name}' of '{subject.name}' has no type: anything is accepted",
                "give its property a 'type'" if subject.has_own_schema else f"give a hint: `{name}: str`",
                name,
            )


def _is_untyped(subject: Subject, name: str) -> bool:
    """A hint of Any or object is a decision; no hint is an omission."""
    if subject.is_described:
        return True
    parameter = subject.tool.callee.signature.parameters.get(name)
    return parameter is None or parameter.annotation is inspect.Parameter.empty


def find_unsaid_required(subject: Subject) -> Iterator[Remark]:
    """Where a schema is made from hints, Python says it; one that was written must."""
    schema = subject.definition.input_schema
    if not subject.has_own_schema or "required" in schema or not subject.parameters:
        return
    if not any("default" in value for _, value in each_parameter(subject)):
        yield Remark(f"The schema of '{subject.name}' does not say which parameters are required")


def find_prose_choices(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        choices = list_choices(str(schema.get("description", ""))) if _is_free_text(schema) else []
        if choices:
            spelled = ", ".join(f'"{choice}"' for choice in choices)
            yield Remark(
                f"Parameter '{name}' of '{subject.name}' is any string, but its words list the choices",
                f'use "enum": [{spelled}], so that nothing else gets in'
                if subject.has_own_schema
                else f"use Literal[{spelled}], so that nothing else gets in",
                name,
            )


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and not schema.keys() & {"enum", "const", "format", "pattern"}


def find_deep_parameters(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        depth = _depth_of(schema)
        if depth > DEEPEST_PARAMETER:
            yield Remark(
                f"Parameter '{name}' of '{subject.name}' is nested {depth} levels deep", parameter=name
            )


def _depth_of(schema: Any, level: int = 0) -> int:
    """How many objects and arrays lie inside one another; `$ref` is not followed, it may lead in a circle."""
    if not isinstance(schema, Mapping) or level > 30:
        return 0
    deepest = 0
    properties = schema.get("properties")
    below: list[Any] = list(properties.values()) if isinstance(properties, Mapping) else []
    below += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    for item in below:
        deepest = max(deepest, 1 + _depth_of(item, level + 1))
    for key in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(key)
        for item in choices if isinstance(choices, list | tuple) else ():
            deepest = max(deepest, _depth_of(item, level + 1))
    return deepest


# --- the result ------------------------------------------------------------------------------------


def find_undocumented_result(subject: Subject) -> Iterator[Remark]:
    """Data needs explaining; text explains itself, and so do records with named fields."""
    output = subject.definition.output_schema
    if subject.definition.returns or subject.has_own_schema:
        return
    function = subject.tool.callee.function
    if output is not None:
        is_silent = not output.get("description") and not _has_fields(output)
    else:
        is_silent = "return" not in getattr(function, "__annotations__", {"return": None})
        is_silent = is_silent and _returns_something(function)
    if is_silent:
        yield Remark(
            f"What '{subject.name}' returns is not described",
            None
            if output is not None
            else "give the function a return hint, and its docstring a Returns section",
        )


def _has_fields(schema: Mapping[str, Any]) -> bool:
    items = schema.get("items")
    return "properties" in schema or "$ref" in schema or (isinstance(items, Mapping) and _has_fields(items))


def _returns_something(function: Any) -> bool:
    """Whether some path through a function returns more than None, as its code tells without running it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    import dis  # few functions have no hint

    before: dis.Instruction | None = None
    for step in dis.get_instructions(code):
        if step.opname == "RETURN_CONST" and step.argval is not None:
            return True
        if step.opname == "RETURN_VALUE" and before is not None:
            is_none = before.opname.startswith("LOAD_CONST") and before.argval is None
            if not is_none and before.opname != "RETURN_GENERATOR":
                return True
        before = step
    return False


RULES = (
    Rule(
        "undocumented-parameter",
        "advice",
        "A parameter has no description",
        "A model fills in what it understands; a name alone leaves unit, form and meaning open.",
        "describe it",
        find_undocumented_parameters,
        in_check=True,
    ),
    Rule(
        "untyped-parameter",
        "warning",
        "A parameter has no type",
        "Anything is accepted then, so nothing is checked before the code meets it.",
        "give it a type",
        find_untyped_parameters,
        in_check=True,
    ),
    Rule(
        "required-unsaid",
        "advice",
        "A written schema does not say which parameters are required",
        "Without `required` everything may be left out, and models do leave out what they may.",
        'list them: "required": [...], or [] where all are optional',
        find_unsaid_required,
    ),
    Rule(
        "could-be-literal",
        "advice",
        "A string's words list the choices that the schema does not",
        "A list in prose is a suggestion; a `Literal` or an `enum` is enforced, and models keep to it.",
        "use Literal[...] or an enum",
        find_prose_choices,
        in_check=True,
    ),
    Rule(
        "deep-parameter",
        "advice",
        f"A parameter is nested more than {DEEPEST_PARAMETER} levels deep",
        "The simpler an annotation, the more often a model gets it right.",
        "flatten it, or take the parts as parameters of their own",
        find_deep_parameters,
    ),
    Rule(
        "undocumented-result",
        "advice",
        "What the tool returns is not described",
        "A model that does not know what comes back cannot plan the next step.",
        "add a Returns section to the docstring",
        find_undocumented_result,
        in_check=True,
    ),
)
