"""Every form that tools can be exported in, by name.

Knows which dialect, which wrapping and which answer belong together. Refuses to know how they work.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from toolcrib.catalog.export import anthropic, bedrock, dialects, gemini, langchain, openai
from toolcrib.catalog.export import calls as results
from toolcrib.catalog.export.calls import ToolCall
from toolcrib.catalog.export.dialects import Dialect
from toolcrib.catalog.export.schema import Node
from toolcrib.content import Result
from toolcrib.errors import ConfigurationError

Dress = Callable[[str, str, Node, bool | None], dict[str, Any]]
Answer = Callable[[ToolCall, Result], dict[str, Any]]
Kind = Literal["provider", "mcp", "prompt", "markdown", "catalog", "descriptor"]


@dataclass(frozen=True)
class Form:
    """One form. `strict` is the dialect that is tried first, where there is one."""

    name: str
    words: str
    kind: Kind = "provider"
    dialect: Dialect | None = None
    dress: Dress | None = None
    answer: Answer = results.answer_mcp
    strict: Dialect | None = None

    @property
    def maps_names(self) -> bool:
        return self.kind == "provider"


_FORMS = (
    Form(
        "openai",
        "OpenAI chat completions, and what is compatible with it",
        dialect=dialects.OPENAI,
        dress=openai.dress_chat,
        answer=results.answer_chat,
        strict=dialects.OPENAI_STRICT,
    ),
    Form(
        "openai-responses",
        "OpenAI responses",
        dialect=dialects.OPENAI,
        dress=openai.dress_responses,
        answer=results.answer_responses,
        strict=dialects.OPENAI_STRICT,
    ),
    Form(
        "anthropic",
        "Anthropic messages",
        dialect=dialects.ANTHROPIC,
        dress=anthropic.dress,
        answer=results.answer_anthropic,
    ),
    Form(
        "gemini",
        "Gemini function declarations with `parameters`",
        dialect=dialects.GEMINI,
        dress=gemini.dress,
        answer=results.answer_gemini,
    ),
    Form(
        "gemini-json",
        "Gemini function declarations with `parametersJsonSchema`",
        dialect=dialects.GEMINI_JSON,
        dress=gemini.dress_json,
        answer=results.answer_gemini,
    ),
    Form(
        "bedrock",
        "Bedrock Converse tool specifications",
        dialect=dialects.BEDROCK,
        dress=bedrock.dress,
        answer=results.answer_bedrock,
    ),
    Form(
        "langchain",
        "LangChain: JSON Schemas with title",
        dialect=dialects.LANGCHAIN,
        dress=langchain.dress,
        answer=results.answer_langchain,
    ),
    Form("mcp", "tools as MCP lists them", kind="mcp"),
    Form("prompt", "text for a prompt", kind="prompt", answer=results.answer_line),
    Form("markdown", "a page of documentation", kind="markdown"),
    Form("catalog", "the catalog of five keys", kind="catalog"),
    Form("descriptor", "a file that stands in for the code", kind="descriptor"),
)
FORMS: Mapping[str, Form] = MappingProxyType({form.name: form for form in _FORMS})


def find_form(name: str) -> Form:
    """The form of this name. Raises ConfigurationError with a guess at what was meant."""
    if name in FORMS:
        return FORMS[name]
    close = difflib.get_close_matches(name, FORMS, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(FORMS)}"
    raise ConfigurationError(f"there is no form '{name}'", hint=hint)
