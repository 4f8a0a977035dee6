"""What happens while a model answers: small values, in the order in which they happen.

A provider tells of tokens, tool calls, and the end, which is a final answer or a failure. The runner adds
what tools came to. Knows the words of this vocabulary and nothing of who speaks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from toolcrib.content import Result
from toolcrib.errors import AgentError


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of what the model says, as it says it."""

    type: ClassVar[str] = "token"
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for a tool.

    `name` is the tool's own name, whatever a provider had to make of it. `flaw` says what is wrong with a
    call that cannot be understood; it is not made, and the model is told so.
    """

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    flaw: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call came to, in the words that the model gets. `is_cut`: some of them were left out."""

    type: ClassVar[str] = "tool_result"
    id: str
    name: str
    ok: bool
    text: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Final:
    """The answer is complete: `text` is what the model said since it last got results.

    `reason` is "stop", or "length" where the provider's limit cut it short, or "refused" where the model or a
    filter would not answer. `usage` is what the provider says it cost, in its own terms.
    """

    type: ClassVar[str] = "final"
    text: str
    reason: str = "stop"
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """There will be no answer. `kind` is for programs (see AgentError), the rest for people."""

    type: ClassVar[str] = "error"
    kind: str
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, error: AgentError) -> Failure:
        return cls(error.kind, str(error), error.hint)

    def to_error(self) -> AgentError:
        return AgentError(self.message, kind=self.kind, hint=self.hint)


Event = Token | ToolCall | ToolResult | Final | Failure


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A call and its result, on the way back to the model; `result` is short enough to be sent."""

    call: ToolCall
    result: Result


def event_to_json(event: Event) -> dict[str, Any]:
    """An event as plain data, for logs and for programs in other languages."""
    told = asdict(event)
    if isinstance(event, ToolCall):
        told["arguments"] = dict(event.arguments)
    return {"type": event.type, **told}
