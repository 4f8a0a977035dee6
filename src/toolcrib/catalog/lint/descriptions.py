"""Rules for names, descriptions and their cost: telling, documented, and no longer than needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcrib.catalog.lint.rule import LintedTool, Problem
from toolcrib.definition import STRICT
from toolcrib.schema.parameters import docstring_of

# --- names --------------------------------------------------------------------------------------------

_VAGUE_NAME = re.compile(
    "action|bar|call|compute|data|do|execute|foo|func|function|get|handle|handler|helper|main|method|misc|"
    "my_function|my_tool|process|query|run|set|stuff|task|test|thing|tool|util|utils|work|.",
    re.IGNORECASE,
)
# The property names that the strictest of the large providers accepts.
_PORTABLE_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def find_long_name(tool: LintedTool) -> Iterator[Problem]:
    name = tool.name
    if tool.tool.long_name is None and len(name) > STRICT.longest:
        yield Problem(f"The name '{name}' has {len(name)} characters")


def find_name_style(tool: LintedTool) -> Iterator[Problem]:
    name = tool.name
    if STRICT.pattern.fullmatch(name) is None:
        yield Problem(f"The name '{name}' is not in snake_case", f"call it '{to_snake_case(name)}'")


def find_vague_name(tool: LintedTool) -> Iterator[Problem]:
    if _VAGUE_NAME.fullmatch(tool.name):
        yield Problem(f"The name '{tool.name}' does not say what the tool does")


def find_odd_parameter_names(tool: LintedTool) -> Iterator[Problem]:
    for name in tool.parameters:
        if _PORTABLE_PARAMETER.fullmatch(name) is None:
            shown = name if len(name) <= 64 else f"{name[:61]}..."
            yield Problem(
                f"The name of parameter '{shown}' of '{tool.name}' is refused by some providers",
                f"call it '{to_snake_case(name, 'value')[:64]}'",
                name,
            )


def to_snake_case(name: str, prefix: str = "tool") -> str:
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    text = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()
    return f"{prefix}_{text}".rstrip("_") if not text or text[0].isdigit() else text


# --- descriptions -------------------------------------------------------------------------------------

MIN_DESCRIPTION = 10
MAX_DESCRIPTION = 500
HUGE_DESCRIPTION_BYTES = 8 * 1024
_FILLER = frozenset({"a", "an", "the", "this", "tool", "function", "to", "for", "of"})
_EXAMPLE_WORDS = ("example", "ejemplo", "beispiel", "exemple", "esempi", "e.g.", "for instance", "such as")
_EXAMPLE_SIGNS = (*_EXAMPLE_WORDS, ">>>", "```")
_CALL = re.compile(r"\w\((?:[^()\n]*=[^()\n]*|\"[^()\n]*\")\)")


def find_missing_docstring(tool: LintedTool) -> Iterator[Problem]:
    if not tool.description and _could_have_docstring(tool):
        yield Problem(f"Tool '{tool.name}' has no docstring; models have only its name to go by")


def find_missing_description(tool: LintedTool) -> Iterator[Problem]:
    if not tool.description and not _could_have_docstring(tool):
        yield Problem(f"Tool '{tool.name}' has no description; models have only its name to go by")


def _could_have_docstring(tool: LintedTool) -> bool:
    return not tool.has_own_schema and not (docstring_of(tool.tool.handler) or "").strip()


def find_repeated_name(tool: LintedTool) -> Iterator[Problem]:
    if tool.description and _repeats_name(tool):
        yield Problem(f"The description of '{tool.name}' only repeats its name")


def find_short_description(tool: LintedTool) -> Iterator[Problem]:
    length = len(tool.description)
    if 0 < length < MIN_DESCRIPTION and not _repeats_name(tool):
        yield Problem(f"The description of '{tool.name}' has only {length} character{'s' * (length > 1)}")


def _repeats_name(tool: LintedTool) -> bool:
    if len(tool.description) > 40 + 2 * len(tool.name):
        return False
    words = set(re.findall(r"\w+", tool.description.lower().replace("_", " "))) - _FILLER
    return words <= set(to_snake_case(tool.name).split("_")) - _FILLER


def find_huge_description(tool: LintedTool) -> Iterator[Problem]:
    size = _count_bytes(tool.description)
    if size > HUGE_DESCRIPTION_BYTES:
        yield Problem(f"The description of '{tool.name}' takes {size // 1024} KiB of every context window")


def find_long_description(tool: LintedTool) -> Iterator[Problem]:
    length = len(tool.description)
    if length > MAX_DESCRIPTION and _count_bytes(tool.description) <= HUGE_DESCRIPTION_BYTES:
        yield Problem(f"The description of '{tool.name}' has {length} characters")


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def find_missing_example(tool: LintedTool) -> Iterator[Problem]:
    """Ask for an example only where a call is not obvious: two free texts, or a structured parameter."""
    if not tool.description:
        return  # reported already
    needed = [schema for name, schema in tool.parameter_schemas.items() if name in tool.required]
    texts = sum(schema.get("type") == "string" and "enum" not in schema for schema in needed)
    if texts < 2 and not any(map(_is_structured, needed)):
        return
    if any(sign in tool.lower_text for sign in _EXAMPLE_SIGNS) or _CALL.search(tool.joined_text):
        return
    if not any(schema.get("examples") for schema in tool.parameter_schemas.values()):
        own = 'give the schema "examples", or add an example to the description'
        yield Problem(f"No example shows how to call '{tool.name}'", own if tool.has_own_schema else None)


def _is_structured(schema: Mapping[str, Any]) -> bool:
    return "$ref" in schema or schema.get("type") == "object" or bool(schema.get("properties"))


# --- cost ---------------------------------------------------------------------------------------------

COSTLY_TOOL = 1_000
COSTLY_LIST = 10_000
"""The number of tokens beyond which a server may offer a search instead of its list."""


def find_costly_tool(tool: LintedTool) -> Iterator[Problem]:
    if tool.token_count > COSTLY_TOOL:
        yield Problem(f"'{tool.name}' costs about {tool.token_count:,} tokens in every conversation")


def find_costly_list(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    costs = [(tool.token_count, index) for index, tool in enumerate(tools)]
    total = sum(cost for cost, _ in costs)
    if total > COSTLY_LIST:
        largest = sorted(costs, reverse=True)[:3]
        shown = ", ".join(f"'{tools[index].name}' ({cost:,})" for cost, index in largest)
        message = f"The list of {len(tools):,} tools costs about {total:,} tokens; largest: {shown}"
        yield tools[largest[0][1]], Problem(message)
