"""A session: one conversation with a model, its tools, and the limits of an answer."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from toolcrib.definition import MAX_TIMEOUT_S
from toolcrib.errors import ConfigurationError
from toolcrib.tool import Tool

_MAX_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one answer may take. Exceeding a limit is an event, never an endless wait.

    Time counts while the runner waits for the model or for tools, not while the reader of the events is busy.
    """

    turns: int = 25
    """How often the model may be asked: once, and again after each round of tool calls."""
    calls_per_turn: int = 16
    """Further calls are not made; the model gets a refusal."""
    tool_s: float = 60.0
    turn_s: float = 180.0
    answer_s: float = 900.0
    result_chars: int = 50_000
    """Longer results are cut, with a note."""
    output_chars: int = 1_000_000
    """The length of the model's text in one answer."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            is_time = item.name.endswith("_s")
            is_number = type(value) is int or (is_time and type(value) is float)
            if not is_number or not value > 0:
                raise ConfigurationError(f"must be above 0, got {value!r}", key=item.name)
            max_s = MAX_TIMEOUT_S if item.name == "tool_s" else _MAX_S
            if is_time and value > max_s:
                raise ConfigurationError(f"must be at most {max_s:g}, got {value!r}", key=item.name)


@dataclass(frozen=True, slots=True)
class Message:
    """A question, or the final answer to it."""

    role: Literal["user", "model"]
    text: str


@dataclass(slots=True)
class SessionCtx:
    """What a provider knows of its conversation.

    `toolCatalog` has the five keys of `build_catalog`; without a provider it is None. `tools` are the
    same tools as objects, for providers that need another format. `messages` are the answered questions
    and their answers, with which a provider starts again after `stop`.
    """

    session_id: str = field(default_factory=lambda: secrets.token_hex(8))
    provider: str | None = None
    toolCatalog: dict[str, Any] | None = None  # noqa: N815 - the name in requirement document C
    tools: Sequence[Tool] = field(default=(), repr=False)
    messages: list[Message] = field(default_factory=list, repr=False)
    instructions: str | None = field(default=None, repr=False)
    limits: Limits = field(default_factory=Limits)
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
