"""The provider contract: events, the session with its limits, and `Provider`.

To add a provider, write a class with the six members of `Provider` and register it:

    @providers.register("mine")
    class Mine: ...

A package adds one with an entry point in the group `toolcrib.providers` that names such a class.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from toolcrib.component import Component
from toolcrib.content import Result
from toolcrib.errors import AgentError, ConfigurationError, suggest
from toolcrib.options import MAX_TIMEOUT_S
from toolcrib.registry.plugins import find_plugins, load_plugin

# --- events -------------------------------------------------------------------------------------------


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

    `reason` is "stop", "length" if the provider's limit cut the answer short, or "refused" if the
    model or a filter refused to answer. `usage` is what the provider reports, in its own terms.
    """

    type: ClassVar[str] = "final"
    text: str
    reason: str = "stop"
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error instead of an answer. For `kind` see AgentError."""

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
    """A call and its result for the model, shortened to `Limits.result_chars`."""

    call: ToolCall
    result: Result


# --- the session --------------------------------------------------------------------------------------

_MAX_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one answer.

    Time counts while the runner waits for the model or for tools, not while the reader of the events is busy.
    """

    turns: int = 25
    """Requests to the model: one, and another after each round of tool calls."""
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
    """The conversation, as a provider sees it.

    `toolCatalog` has the five keys of `build_catalog`; without a provider it is None. `tools` are the
    same tools as objects, for providers that need another format. `messages` are the answered questions
    and their answers, with which a provider starts again after `stop`.
    """

    provider: str | None = None
    toolCatalog: dict[str, Any] | None = None  # noqa: N815 - the name in requirement document C
    tools: Sequence[Component] = field(default=(), repr=False)
    messages: list[Message] = field(default_factory=list, repr=False)
    instructions: str | None = field(default=None, repr=False)
    limits: Limits = field(default_factory=Limits)


# --- providers ----------------------------------------------------------------------------------------

ENTRY_POINTS = "toolcrib.providers"
HOSTED = ("openai", "anthropic", "gemini")
"""Providers of earlier releases, which are an example now."""
Status = Literal["stopped", "ready", "working"]
"""Not started or stopped; waiting for a question; working on an answer."""


class Provider(Protocol):
    """A model.

    After `send`, and again after `answer`, the runner reads `events()` to its end: tokens and tool calls as
    they come, then Final or Failure, or nothing more where tool calls wait for results. Raising AgentError is
    the same as yielding a Failure. The runner enforces limits; a provider may be cancelled at every await.
    """

    @property
    def status(self) -> Status: ...

    async def start(self, session: SessionCtx) -> None:
        """Get ready, before the first `send` and after `stop`: the conversation so far is in `session`."""
        ...

    async def send(self, text: str) -> None:
        """Accept a question of the user."""
        ...

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        """Accept the results of all calls of the last turn, in the order of the calls."""
        ...

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of one turn of the model."""
        ...

    async def stop(self) -> None:
        """Release everything, even in the middle of a turn. May be called twice."""
        ...


Factory = Callable[..., Provider]
F = TypeVar("F", bound=Factory)


class Providers:
    """Providers by name: `providers["gemini_cli"]` is the class, or another callable that makes one."""

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = {}

    def register(self, name: str) -> Callable[[F], F]:
        """Return a decorator that adds a provider, or replaces one."""

        def add(factory: F) -> F:
            self._factories[name] = factory
            return factory

        return add

    def make(self, name: str, **options: Any) -> Provider:
        """Make a provider. Raise ConfigurationError for an unknown name or option."""
        factory = self[name]
        try:
            inspect.signature(factory).bind(**options)
        except TypeError as error:
            known = [item for item in inspect.signature(factory).parameters if item != "self"]
            hint = f"{name} takes: {', '.join(known)}" if known else f"{name} takes no options"
            raise ConfigurationError(f"cannot make '{name}': {error}", key="provider", hint=hint) from None
        return factory(**options)

    def __getitem__(self, name: str) -> Factory:
        factory = self._factories.get(name)
        if factory is None and name in find_plugins(ENTRY_POINTS):
            factory = load_plugin(ENTRY_POINTS, name)
        if factory is not None:
            return factory
        spelling = str(name).casefold().replace("-", "_")
        hint = suggest(spelling, self, f"available: {', '.join(self)}")
        if spelling in HOSTED:
            hint = "hosted models are an example, which you can copy: examples/hosted_models.py"
        raise ConfigurationError(f"unknown provider {name!r}", key="provider", hint=hint)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._factories, *find_plugins(ENTRY_POINTS)]))


providers = Providers()
