"""Plain advice on a definition: would a model know from these words when and how to use the tool?

Every rule is a small function that looks at one thing and yields findings with a stable code. Nothing here
is an error: what cannot work was refused when the tool was built. Knows a tool and its definition; refuses
to know other tools.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.definition import STRICT, ToolDefinition
from toolcrib.finding import Finding, Level
from toolcrib.schema.parameters import words_of
from toolcrib.tool import Tool

SHORTEST_DESCRIPTION = 10
LONGEST_DESCRIPTION = 500
HUGE_DESCRIPTION_BYTES = 8 * 1024
_VAGUE = re.compile(
    "action|bar|call|compute|data|do|execute|foo|func|function|get|handle|handler|helper|main|method|misc|"
    "my_function|my_tool|process|query|run|set|stuff|task|test|thing|tool|util|utils|work|.",
    re.IGNORECASE,
)
_FILLER = frozenset({"a", "an", "the", "this", "tool", "function", "to", "for", "of"})


def advise(definition: ToolDefinition, tool: Tool) -> list[Finding]:
    """Everything worth saying about one tool, the name first, then its words, then its parameters."""
    remark = _Remark(definition)
    return [
        finding
        for rule in (_look_at_name, _look_at_description, _look_at_parameters, _look_at_result)
        for finding in rule(definition, tool, remark)
    ]


class _Remark:
    """Makes the findings of one tool."""

    def __init__(self, definition: ToolDefinition) -> None:
        self.definition = definition

    def __call__(
        self, code: str, message: str, hint: str, *, level: Level = "advice", parameter: str | None = None
    ) -> Finding:
        source = self.definition.source
        return Finding(code, level, message, self.definition.name, parameter, source.file, source.line, hint)


# --- the name --------------------------------------------------------------------------------------


def _look_at_name(definition: ToolDefinition, tool: Tool, remark: _Remark) -> Iterator[Finding]:
    name = definition.name
    if tool.long_name is None and len(name) > STRICT.longest:
        yield remark(
            "long-name",
            f"The name '{name}' has {len(name)} characters",
            f"stay below {STRICT.longest}: clients put prefixes before it",
        )
    if STRICT.pattern.fullmatch(name) is None:
        yield remark("name-style", f"The name '{name}' is not in snake_case", f"call it '{_snake(name)}'")
    if _VAGUE.fullmatch(name):
        yield remark(
            "vague-name",
            f"The name '{name}' does not say what the tool does",
            "name the deed and the thing: find_order, send_invoice",
        )


def _snake(name: str) -> str:
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    text = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()
    return f"tool_{text}" if not text or text[0].isdigit() else text


# --- the description -------------------------------------------------------------------------------


def _look_at_description(definition: ToolDefinition, tool: Tool, remark: _Remark) -> Iterator[Finding]:
    name, text = definition.name, definition.description.strip()
    if not text:
        yield _nothing_said(name, tool, remark)
    elif _repeats(text, name):
        yield remark(
            "repeats-name",
            f"The description of '{name}' only repeats its name",
            "say what it does, and when to use it",
        )
    elif len(text) < SHORTEST_DESCRIPTION:
        yield remark(
            "short-description",
            f"The description of '{name}' has only {len(text)} characters",
            "say what it does, and when to use it",
        )
    size = len(text.encode("utf-8", "replace"))
    if size > HUGE_DESCRIPTION_BYTES:
        yield remark(
            "huge-description",
            f"The description of '{name}' takes {size // 1024} KiB of every model's context",
            "keep what a caller needs, move the rest to the documentation",
            level="warning",
        )
    elif len(text) > LONGEST_DESCRIPTION:
        yield remark(
            "long-description",
            f"The description of '{name}' has {len(text)} characters",
            f"{LONGEST_DESCRIPTION} are enough for most; strict servers refuse more",
        )


def _nothing_said(name: str, tool: Tool, remark: _Remark) -> Finding:
    if tool.options.input_schema is None and not (words_of(tool.handler) or "").strip():
        return remark(
            "missing-docstring",
            f"Tool '{name}' has no docstring: its name is all a model has to go by",
            "write one: what it does, when to use it, its Args",
            level="warning",
        )
    return remark(
        "missing-description",
        f"Tool '{name}' has no description: its name is all a model has to go by",
        "say what it does, and when to use it",
        level="warning",
    )


def _repeats(text: str, name: str) -> bool:
    said = set(re.findall(r"[a-z0-9]+", text.lower())) - _FILLER
    named = set(_snake(name).split("_")) - _FILLER
    return said <= named


# --- parameters ------------------------------------------------------------------------------------


def _look_at_parameters(definition: ToolDefinition, tool: Tool, remark: _Remark) -> Iterator[Finding]:
    for name, schema in definition.input_schema.get("properties", {}).items():
        if not isinstance(schema, Mapping):
            continue
        if not schema.get("description"):
            yield remark(
                "undocumented-parameter",
                f"Parameter '{name}' of '{definition.name}' has no description",
                f"describe it: `{name}: ...` under Args in the docstring"
                if tool.options.input_schema is None
                else "give its property a 'description'",
                parameter=name,
            )
        if not schema.keys() - {"description", "default", "title", "examples"} and _is_untyped(tool, name):
            yield remark(
                "untyped-parameter",
                f"Parameter '{name}' of '{definition.name}' has no type: anything is accepted",
                f"give a hint: `{name}: str`"
                if tool.options.input_schema is None
                else "give its property a 'type'",
                level="warning",
                parameter=name,
            )
        choices = list_choices(str(schema.get("description", ""))) if _is_free_text(schema) else []
        if choices:
            spelled = ", ".join(f'"{choice}"' for choice in choices)
            yield remark(
                "could-be-literal",
                f"Parameter '{name}' of '{definition.name}' is any string, but its words list the choices",
                f"use Literal[{spelled}], so that nothing else gets in"
                if tool.options.input_schema is None
                else f'use "enum": [{spelled}], so that nothing else gets in',
                parameter=name,
            )


def _is_untyped(tool: Tool, name: str) -> bool:
    """A hint of Any or object is a decision; no hint is an omission."""
    parameter = tool.callee.signature.parameters.get(name)
    return parameter is None or parameter.annotation is inspect.Parameter.empty


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and not schema.keys() & {"enum", "const", "format", "pattern"}


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


def list_choices(text: str) -> list[str]:
    """The alternatives that a description spells out; none where it only gives examples."""
    for pattern in (_QUOTED_LIST, _PLAIN_LIST, _BARS, _CLOSING_LIST):
        found = pattern.search(text)
        if found is None or _EXAMPLES.search(text[: found.start()]):
            continue
        listed = found.groupdict().get("list") or found[0]
        choices = [item.strip("\"'`“” ") for item in re.split(_AND, listed)]
        choices = [choice for choice in dict.fromkeys(choices) if choice]
        if len(choices) > 1:
            return choices
    return []


# --- the result ------------------------------------------------------------------------------------


def _look_at_result(definition: ToolDefinition, tool: Tool, remark: _Remark) -> Iterator[Finding]:
    """Data needs explaining; text explains itself, and so do records with named fields."""
    output = definition.output_schema
    if definition.returns or tool.options.input_schema is not None:
        return
    if output is not None:
        is_silent = not output.get("description") and not _has_fields(output)
    else:
        is_silent = "return" not in getattr(tool.callee.function, "__annotations__", {"return": None})
        is_silent = is_silent and _returns_something(tool.callee.function)
    if is_silent:
        yield remark(
            "undocumented-result",
            f"What '{definition.name}' returns is not described",
            "add a Returns section to the docstring"
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
    import dis

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
