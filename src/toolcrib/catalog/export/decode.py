"""Turn the arguments of a model's call back into what the tool takes, and map names of tools and properties.

An export may have to wrap the arguments, to rename properties, or to ask for null where something is
optional. How to undo that is recorded while a schema is rewritten. Whether the arguments are valid is
checked by the tool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.schema_algebra import Node, type_of, types_of
from toolcrib.definition import shorten_name
from toolcrib.errors import InvalidSchemaError
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
    `always_digest` every changed name does, so that it is recognized wherever it occurs.
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


# --- values ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ValueDecoder:
    """Decodes one value. `names` (new to old) and `null_if_absent` are by the names in the export."""

    names: dict[str, str] = field(default_factory=dict)
    null_if_absent: frozenset[str] = frozenset()
    properties: dict[str, ValueDecoder] = field(default_factory=dict)
    other_properties: ValueDecoder | None = None
    items: ValueDecoder | None = None
    first_items: tuple[ValueDecoder | None, ...] = ()
    alternatives: tuple[tuple[Node, ValueDecoder | None], ...] = ()
    _validators: list[Validator | None] = field(default_factory=list, repr=False)

    def or_none(self) -> ValueDecoder | None:
        """Return this decoder, or None where it would change nothing."""
        renames = any(name != original for name, original in self.names.items())
        inner = [*self.properties.values(), self.other_properties, self.items, *self.first_items]
        inner += [decoder for _, decoder in self.alternatives]
        has_effect = renames or self.null_if_absent or any(decoder is not None for decoder in inner)
        return self if has_effect else None

    def decode(self, value: Any) -> Any:
        if self.alternatives:
            return _decode(value, self._choose(value))
        if isinstance(value, dict):
            return {
                self.names.get(name, name): _decode(item, self.properties.get(name, self.other_properties))
                for name, item in value.items()
                if item is not None or name not in self.null_if_absent
            }
        if isinstance(value, list):
            decoders = [*self.first_items, *[self.items] * (len(value) - len(self.first_items))]
            return [_decode(item, decoder) for item, decoder in zip(value, decoders, strict=False)]
        return value

    def _choose(self, value: Any) -> ValueDecoder | None:
        """Return the decoder of the alternative that the value is valid for, or else of its type."""
        if not self._validators:
            self._validators.extend(_compile(schema) for schema, _ in self.alternatives)
        for validator, (_, decoder) in zip(self._validators, self.alternatives, strict=True):
            if validator is not None and validator.is_valid(value):
                return decoder
        name = type_of(value)
        return next((decoder for schema, decoder in self.alternatives if name in types_of(schema)), None)


def _decode(value: Any, decoder: ValueDecoder | None) -> Any:
    return value if decoder is None else decoder.decode(value)


def _compile(schema: Node) -> Validator | None:
    try:
        return Validator(schema)
    except InvalidSchemaError:
        return None


@dataclass(frozen=True, slots=True)
class ArgumentDecoder:
    """Decodes the arguments of one tool. `renamed` are names that were changed wherever they occur."""

    value: ValueDecoder | None = None
    is_wrapped: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)

    def decode(self, arguments: dict[str, Any]) -> dict[str, Any]:
        value: Any = arguments
        if self.is_wrapped and isinstance(arguments.get(WRAPPER), dict) and len(arguments) == 1:
            value = arguments[WRAPPER]  # a model that did not wrap them is understood too
        value = _decode(value, self.value)
        if self.renamed:
            value = self._rename(value)
        return value if isinstance(value, dict) else arguments

    def _rename(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.renamed.get(name, name): self._rename(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._rename(item) for item in value]
        return value
