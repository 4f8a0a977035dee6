"""Events: what happens while a model answers, in order.

A provider yields tokens, tool calls, and at the end a final answer or a failure. The runner adds the
results of tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from toolcrib.content import Result
from toolcrib.errors import AgentError


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the model's text, as it arrives."""

    type: ClassVar[str] = "token"
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model.

    `name` is the tool's own name, even if the provider uses another. `flaw` says what is wrong with a
    call that cannot be read; it is not made, and the model gets the flaw as its result.
    """

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    flaw: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call, as the model gets it. `is_cut`: some of it was left out."""

    type: ClassVar[str] = "tool_result"
    id: str
    name: str
    ok: bool
    text: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Final:
    """The complete answer: `text` is what the model wrote since it last got results.

    `reason` is "stop", "length" where the provider's limit cut the answer short, or "refused" where the
    model or a filter refused to answer. `usage` is what the provider reports, in its own terms.
    """

    type: ClassVar[str] = "final"
    text: str
    reason: str = "stop"
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """There is no answer. `kind` is for programs (see AgentError), the rest for people."""

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
    """A call and its result on the way back to the model; the result is short enough to be sent."""

    call: ToolCall
    result: Result


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as plain data, for logs and other programs."""
    data = asdict(event)
    if isinstance(event, ToolCall):
        data["arguments"] = dict(event.arguments)
    return {"type": event.type, **data}
