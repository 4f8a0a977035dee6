"""What each provider takes of JSON Schema: one table of rules, with where each rule is from.

Knows what the providers have published or answer. Refuses to know how a schema is made to fit.

OpenAI, strict: the guide to structured outputs lists the keywords, the closed objects, the limits. OpenAI,
not strict: answers 400 to compositions, `enum` and `not` at the top, and to arrays without `items`.
Anthropic: answers 400 to compositions at the top and to property names outside its pattern. Bedrock: the top
is an object; Amazon's own models take three fields there, and Anthropic's rules hold for Anthropic's models.
Gemini, `parameters`: the fields of its `Schema`, choices for strings only, few formats, `anyOf` without
neighbours. Gemini, `parametersJsonSchema`: the keywords listed for structured output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOP = frozenset({"allOf", "anyOf", "enum", "not", "oneOf"})
_SCALARS = frozenset({"boolean", "integer", "null", "number", "string"})
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")


@dataclass(frozen=True)
class Dialect:
    """One provider's JSON Schema.

    `keeps` are the keywords it takes, None where it takes them all. `closes` means that every object is
    closed and lists all its properties as required, those that may be left out being nullable.
    """

    label: str
    keeps: frozenset[str] | None = None
    not_on_top: frozenset[str] = _TOP
    top_only: frozenset[str] | None = None
    takes_words_on_top: bool = True
    property_name: re.Pattern[str] | None = None
    formats: frozenset[str] | None = None
    enums: frozenset[str] = _SCALARS
    closes: bool = False
    takes_any: bool = True
    takes_empty_choice: bool = True
    takes_default: bool = True


OPENAI = Dialect("OpenAI")
ANTHROPIC = Dialect("Anthropic", property_name=_PLAIN_NAME)
BEDROCK = Dialect(
    "Bedrock",
    property_name=_PLAIN_NAME,
    top_only=frozenset({"properties", "required", "type"}),
    takes_words_on_top=False,
)
LANGCHAIN = Dialect("LangChain", property_name=_PLAIN_NAME, takes_words_on_top=False)
"""Whoever is behind LangChain: the rules of all of them that can be kept without loss."""

OPENAI_STRICT = Dialect(
    "OpenAI's strict mode",
    keeps=frozenset(
        {
            "exclusiveMaximum",
            "exclusiveMinimum",
            "format",
            "maxItems",
            "maximum",
            "minItems",
            "minimum",
            "multipleOf",
            "pattern",
        }
    ),
    formats=frozenset(
        {
            "date",
            "date-time",
            "duration",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "time",
            "uuid",
        }
    ),
    closes=True,
    takes_any=False,
    takes_default=False,
)
GEMINI = Dialect(
    "Gemini",
    keeps=frozenset(
        {
            "format",
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minProperties",
            "minimum",
            "pattern",
        }
    ),
    formats=frozenset({"date-time", "double", "float", "int32", "int64"}),
    property_name=_IDENTIFIER,
    enums=frozenset({"string"}),
    takes_any=False,
    takes_empty_choice=False,
    takes_default=False,
)
GEMINI_JSON = Dialect(
    "Gemini",
    keeps=frozenset(
        {"additionalProperties", "format", "maxItems", "maximum", "minItems", "minimum", "prefixItems"}
    ),
    formats=frozenset({"date", "date-time", "double", "float", "int32", "int64", "time"}),
    enums=frozenset({"integer", "number", "string"}),
    property_name=_IDENTIFIER,
    takes_empty_choice=False,
)

MOST_PROPERTIES = 5_000
MOST_NESTED = 10
MOST_CHOICES = 1_000
MANY_CHOICES, LONGEST_CHOICES = 250, 15_000
LONGEST_NAMES = 120_000
"""The limits of OpenAI's strict mode."""
