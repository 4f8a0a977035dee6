"""Turn the arguments of a model's call back into what the tool takes, and map names of tools and properties.

An export may have to wrap the arguments, to rename properties, or to ask for null where something is
optional. Whether the arguments are valid is checked by the tool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.schemas import Node
from toolcrib.errors import InvalidSchemaError
from toolcrib.names import shorten_name
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

MAX_NAME = 64
TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""The names that every provider accepts. Gemini requires a letter or underscore first."""
WRAPPER = "arguments"
"""The property that arguments are wrapped in where a provider does not support the root of their schema."""
_DIGEST_LENGTH = 8


# --- names -------------------------------------------------------------------------------------------------


def map_names(
    names: Iterable[str], pattern: re.Pattern[str] = TOOL_NAME, *, always_digest: bool = False
) -> dict[str, str]:
    """Map names of tools or properties to unique ones that match a provider's pattern.

    A name that is accepted stays, whatever else is exported. Another is written with the accepted
    characters; where that could be another name, or is too long, it ends in a digest of the whole name. With
    `always_digest` every changed name does, so that nothing else is called like it.
    """
    wanted = list(dict.fromkeys(names))
    found = {name: name for name in wanted if pattern.fullmatch(name)}
    taken = set(found)
    drafts = {name: _replace_characters(name, pattern) for name in sorted(wanted) if name not in found}
    uses = Counter(drafts.values())
    for name, draft in drafts.items():
        text = shorten_name(name, MAX_NAME) if draft == name else draft
        is_usable = pattern.fullmatch(text) and any(map(str.isalnum, text)) and uses[draft] == 1
        if always_digest or not is_usable or text in taken:
            text = _with_digest(draft, name, taken)
        found[name] = text
        taken.add(text)
    return {name: found[name] for name in wanted}


def _replace_characters(name: str, pattern: re.Pattern[str]) -> str:
    text = "".join(letter if pattern.fullmatch(f"_{letter}") else "_" for letter in name)
    return text if text and pattern.match(text) else f"_{text}"


def _with_digest(text: str, name: str, taken: Iterable[str]) -> str:
    """Return the text with a digest of the name, longer where somebody forged the same one."""
    digest = codec.digest(name)
    stem = text if any(map(str.isalnum, text)) else "name"
    for length in range(_DIGEST_LENGTH, MAX_NAME // 2):
        found = f"{stem[: MAX_NAME - length - 1]}_{digest[:length]}"
        if found not in taken:
            return found
    raise AssertionError("a digest has more digits than names can clash in")  # pragma: no cover


# --- arguments ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArgumentDecoder:
    """Decodes the arguments of one tool. `renamed` maps names in the export to those of the tool.

    `tree` is the tool's schema without references, where null may stand for leaving out a property.
    """

    tree: Node | None = None
    is_wrapped: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)

    def decode(self, arguments: dict[str, Any]) -> dict[str, Any]:
        value = arguments
        if self.is_wrapped and isinstance(arguments.get(WRAPPER), dict) and len(arguments) == 1:
            value = arguments[WRAPPER]  # a model that did not wrap them is understood too
        if self.renamed:
            value = self._rename(value)
        found = value if self.tree is None else _drop_nulls(value, self.tree)
        return found if isinstance(found, dict) else arguments

    def _rename(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.renamed.get(name, name): self._rename(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._rename(item) for item in value]
        return value


def _drop_nulls(value: Any, node: Any) -> Any:
    """Return a value without the nulls for properties that cannot be null."""
    if not isinstance(node, dict):
        return value
    if isinstance(value, dict):
        properties = node.get("properties", {})
        value = {
            name: _drop_nulls(item, properties.get(name))
            for name, item in value.items()
            if item is not None or _accepts(properties.get(name, True), None)
        }
    elif isinstance(value, list):
        schemas = [*node.get("prefixItems", ()), *[node.get("items")] * len(value)]
        value = [_drop_nulls(item, schema) for item, schema in zip(value, schemas, strict=False)]
    for part in node.get("allOf", ()):
        value = _drop_nulls(value, part)
    for keyword in ("anyOf", "oneOf"):
        branches = [(branch, _drop_nulls(value, branch)) for branch in node.get(keyword, ())]
        value = next((found for branch, found in branches if _accepts(branch, found)), value)
    return value


def _accepts(schema: Any, value: Any) -> bool:
    if isinstance(schema, bool):
        return schema
    try:
        return bool(Validator(schema).is_valid(value))
    except InvalidSchemaError:
        return True
