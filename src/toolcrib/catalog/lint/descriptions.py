"""Lint rules for names and descriptions, including tools that are too similar.

Tools are not compared with every other tool, only with those that share a key.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcrib.catalog.lint.rule import LintedTool, Problem
from toolcrib.names import STRICT
from toolcrib.schema.parameters import docstring_of

_SIMILAR = 0.6
"""The share of longer words in common, verbs apart, from which on two descriptions say the same."""
_SAME_VERBS = {
    verb: group.split()[0]
    for group in (
        "get fetch retrieve obtain",
        "delete remove erase",
        "update edit modify",
        "search find lookup",
    )
    for verb in group.split()
}
_VERBS = tuple(_SAME_VERBS)
_WORD = re.compile(r"\w+")
_LONG_WORD = re.compile(r"\w{4,}")


def find_same_descriptions(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Find descriptions that are equal except for case, punctuation and blanks."""
    first: dict[str, LintedTool] = {}
    for tool in tools:
        key = " ".join(_WORD.findall(tool.description.lower()))
        if " " not in key or tool.is_static:  # the files of a folder share theirs
            continue
        earlier = first.setdefault(key, tool)
        if earlier.name != tool.name:
            message = f"'{tool.name}' has the same description as '{earlier.name}'{_location(earlier, tool)}"
            yield tool, Problem(message)


def find_near_duplicates(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Find names that are spelled differently, or begin with another verb for the same: get, fetch, retrieve.

    Similar descriptions alone say nothing: families of tools have them (get and list, create and update).
    """
    by_letters: dict[str, LintedTool] = {}
    by_words: dict[tuple[str, ...], LintedTool] = {}
    for tool in tools:
        words = tool.name_words
        if tool.name.startswith("_") or tool.is_static:  # a helper of the tool without the underscore
            continue
        spelled = by_letters.setdefault("".join(words), tool)
        verb = "".join(words[:1])
        named = by_words.setdefault((_SAME_VERBS.get(verb, verb), *words[1:]), tool)
        if spelled.name != tool.name:
            yield tool, _near_duplicate(spelled, tool)
        elif named.name != tool.name and _say_the_same(named, tool):
            yield tool, _near_duplicate(named, tool)


def _say_the_same(one: LintedTool, other: LintedTool) -> bool:
    words, others = (
        {word for word in _LONG_WORD.findall(tool.description.lower()[:2_000]) if not word.startswith(_VERBS)}
        for tool in (one, other)
    )
    is_similar = 2 * len(words & others) >= _SIMILAR * (len(words) + len(others))
    return one.parameters.keys() == other.parameters.keys() and is_similar


def _near_duplicate(earlier: LintedTool, later: LintedTool) -> Problem:
    where = _location(earlier, later)
    return Problem(f"The names of '{later.name}' and '{earlier.name}' are nearly the same{where}")


def _location(earlier: LintedTool, later: LintedTool) -> str:
    """Return where the earlier tool is, if that is another file."""
    there, here = earlier.definition.source, later.definition.source
    return f" ({there})" if there.file and there.file != here.file else ""


# --- names --------------------------------------------------------------------------------------------

_VAGUE_NAME = re.compile(
    "action|bar|call|compute|data|do|execute|foo|func|function|get|handle|handler|helper|main|method|misc|"
    "my_function|my_tool|process|query|run|set|stuff|task|test|thing|tool|util|utils|work|.",
    re.IGNORECASE,
)
# The property names that the strictest of the large providers accepts.
_PORTABLE_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def find_look_alike_names(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Find names and aliases that look like another tool's: `delete_all` and `de1ete_all`."""
    first: dict[str, tuple[str, LintedTool]] = {}
    for tool in tools:
        for name in () if tool.is_static else (tool.name, *tool.tool.options.aliases):
            other, earlier = first.setdefault(skeleton(name), (name, tool))
            if earlier.name.casefold() != tool.name.casefold():
                text = f"The name '{name}' looks like '{other}' of another tool{_location(earlier, tool)}"
                yield tool, Problem(text)


def skeleton(name: str) -> str:
    """Return a form that is equal for names that look alike."""
    name = name.replace("I", "l").replace("1", "l").replace("0", "o").replace("O", "o")
    return name.casefold().replace("rn", "m")


def find_long_name(tool: LintedTool) -> Iterator[Problem]:
    name = tool.name
    if tool.tool.long_name is None and len(name) > STRICT.max_length:
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
    is_tool = tool.tool.kind == "tool"
    if not tool.description and not tool.is_static and not (is_tool and _could_have_docstring(tool)):
        readers = "models have" if is_tool else "users and models have"
        hint = None if is_tool else "write a docstring, or give description=..."
        yield Problem(f"{tool.tool.label} has no description; {readers} only its name to go by", hint)


def _could_have_docstring(tool: LintedTool) -> bool:
    return not tool.has_own_schema and not (docstring_of(tool.tool.handler) or "").strip()


def find_repeated_name(tool: LintedTool) -> Iterator[Problem]:
    if tool.description and _repeats_name(tool):
        yield Problem(f"The description of '{tool.name}' only repeats its name")


def find_short_description(tool: LintedTool) -> Iterator[Problem]:
    length = len(tool.description)
    if length and sum(map(_weigh, tool.description)) < MIN_DESCRIPTION and not _repeats_name(tool):
        yield Problem(f"The description of '{tool.name}' has only {length} character{'s' * (length > 1)}")


def _weigh(letter: str) -> int:
    """Return how many Latin letters one counts as: scripts of Asia need fewer for the same words."""
    return 3 if unicodedata.east_asian_width(letter) in "WF" else 2 if "\u0590" <= letter <= "\u17ff" else 1


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
    """Ask for an example only if a call is not obvious: a structured parameter is required."""
    if not tool.description:
        return  # reported already
    needed = [schema for name, schema in tool.parameter_schemas.items() if name in tool.required]
    if not any(map(_is_structured, needed)):
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
    if tool.token_count > COSTLY_TOOL and tool.definition.is_for_model:
        yield Problem(f"'{tool.name}' costs about {tool.token_count:,} tokens in every conversation")


def find_costly_list(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    tools = [tool for tool in tools if tool.definition.is_for_model]
    costs = [(tool.token_count, index) for index, tool in enumerate(tools)]
    total = sum(cost for cost, _ in costs)
    if total > COSTLY_LIST:
        largest = sorted(costs, reverse=True)[:3]
        shown = ", ".join(f"'{tools[index].name}' ({cost:,})" for cost, index in largest)
        message = f"The list of {len(tools):,} tools costs about {total:,} tokens; largest: {shown}"
        yield tools[largest[0][1]], Problem(message)
