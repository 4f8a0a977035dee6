"""What a running tool may ask its caller, and what it gets back.

A question is plain data; who carries it, and whether the tool waits for the answer or runs again with it, is
the channel's affair. Knows what MCP clients can be asked; refuses to know how it is spelt on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal["accept", "decline", "cancel"]

YES_OR_NO: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Form:
    """A few fields for the person to fill in: `schema` is an object with flat properties."""

    message: str
    schema: Mapping[str, Any] = field(default_factory=lambda: dict(YES_OR_NO))


@dataclass(frozen=True, slots=True)
class Visit:
    """A page for the person to open, for what must not pass through the client (a password, a payment)."""

    message: str
    url: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """Something for the client's model to complete. `messages` as MCP has them, or one text."""

    messages: str | Sequence[Mapping[str, Any]]
    max_tokens: int = 1024
    system: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Folders:
    """Which folders the client works in."""


Question = Form | Visit | Prompt | Folders


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person did with a form or a page. True where they accepted; `answer["name"]` reads a field."""

    action: Action
    content: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.action == "accept"

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.content.get(name, default)


@dataclass(frozen=True, slots=True)
class Completion:
    """What the client's model wrote. `content` is the block, or the blocks, as they came."""

    content: Any
    role: str = "assistant"
    model: str = ""
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        blocks = self.content if isinstance(self.content, list) else [self.content]
        texts = [block.get("text", "") for block in blocks if isinstance(block, Mapping)]
        return "\n".join(text for text in texts if text)


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder the client works in."""

    uri: str
    name: str | None = None


Reply = Answer | Completion | list[Folder]


class InputNeeded(BaseException):
    """Ends a call whose answers come with the next one. Not an Exception, so that `except Exception` in a
    tool does not swallow it."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        super().__init__(", ".join(questions))
        self.questions = questions
