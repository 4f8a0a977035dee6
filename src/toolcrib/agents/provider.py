"""What a provider is: anything that starts, takes words, tells events and stops; and where they are by name.

Knows the shape, not the providers. To add one, write a class with these six things and register it:

    @providers.register("mine")
    class Mine: ...
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeVar, overload

from toolcrib.agents.events import Event, ToolAnswer
from toolcrib.agents.session import SessionCtx
from toolcrib.errors import ConfigurationError

Status = Literal["stopped", "ready", "working"]
"""Not started, or stopped again; waiting for words; owing an answer."""


class Provider(Protocol):
    """A model, and how to speak to it.

    After `send`, and again after `answer`, the runner reads `events()` to its end: tokens and tool calls as
    they come, then Final or Failure, or nothing more where tool calls wait for results. Raising AgentError is
    as good as a Failure. The runner counts time and size; a provider may be cancelled at every await.
    """

    @property
    def status(self) -> Status: ...

    async def start(self, session: SessionCtx) -> None:
        """Get ready. Called before the first `send` and again after `stop`: begin with `session.messages`."""
        ...

    async def send(self, text: str) -> None:
        """The user says something."""
        ...

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        """What the calls of the last turn came to: all of them, in the order in which they were made."""
        ...

    def events(self) -> AsyncGenerator[Event, None]:
        """One turn of the model."""
        ...

    async def stop(self) -> None:
        """Let go of everything, also in the middle of a turn. May be called twice."""
        ...


Factory = Callable[..., Provider]
F = TypeVar("F", bound=Factory)


class Providers:
    """Providers by name: `providers["openai"]` is what makes one."""

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = {}

    @overload
    def register(self, name: str) -> Callable[[F], F]: ...
    @overload
    def register(self, name: str, factory: F) -> F: ...
    def register(self, name: str, factory: Any = None) -> Any:
        """Add one, or put another in its place. Without a factory it is a decorator."""
        if not name:
            raise ConfigurationError("a provider has a name", key="provider")

        def add(made: Any) -> Any:
            if not callable(made):
                raise ConfigurationError("a provider is registered as what makes it", key="provider")
            self._factories[name] = made
            return made

        return add if factory is None else add(factory)

    def make(self, name: str, **options: Any) -> Provider:
        """A provider of this name. Raises ConfigurationError for a name or an option that there is not."""
        factory = self[name]
        try:
            inspect.signature(factory).bind(**options)
        except TypeError as error:
            known = [item for item in inspect.signature(factory).parameters if item != "self"]
            hint = f"{name} takes: {', '.join(known)}" if known else f"{name} takes no options"
            words = f"'{name}' cannot be made so: {error}"
            raise ConfigurationError(words, key="provider", hint=hint) from None
        return factory(**options)

    def __getitem__(self, name: str) -> Factory:
        try:
            return self._factories[name]
        except (KeyError, TypeError):
            pass
        close = difflib.get_close_matches(str(name).casefold().replace("-", "_"), self._factories, n=1)
        known = ", ".join(self._factories) or "none"
        hint = f"did you mean '{close[0]}'?" if close else f"there are: {known}"
        raise ConfigurationError(f"there is no provider {name!r}", key="provider", hint=hint)

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)


providers = Providers()
