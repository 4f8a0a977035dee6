"""The provider contract, and the table of providers by name.

To add a provider, write a class with these six members and register it:

    @providers.register("mine")
    class Mine: ...

A package adds one with an entry point in the group `toolcrib.providers` that names such a class.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar, overload

from toolcrib.agents.events import Event, ToolAnswer
from toolcrib.agents.session import SessionCtx
from toolcrib.errors import ConfigurationError
from toolcrib.registry.plugins import load_plugins

ENTRY_POINTS = "toolcrib.providers"
BUILT_IN = {
    "gemini_cli": "toolcrib.agents.gemini_cli:GeminiCLI",
    "openai": "toolcrib.agents.openai:OpenAIModel",
    "anthropic": "toolcrib.agents.anthropic:AnthropicModel",
    "gemini": "toolcrib.agents.gemini:GeminiModel",
}
Status = Literal["stopped", "ready", "working"]
"""Not started or stopped; waiting for a question; owing an answer."""


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
        """Take a question of the user."""
        ...

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        """Take the results of all calls of the last turn, in the order of the calls."""
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
    """Providers by name: `providers["openai"]` is the class, or another callable that makes one."""

    def __init__(self) -> None:
        self._factories: dict[str, Factory | str] = dict(BUILT_IN)
        self._has_plugins = False

    @overload
    def register(self, name: str) -> Callable[[F], F]: ...
    @overload
    def register(self, name: str, factory: F) -> F: ...
    def register(self, name: str, factory: Any = None) -> Any:
        """Add a provider, or replace one. Without a factory this is a decorator."""
        if not name:
            raise ConfigurationError("a provider needs a name", key="provider")

        def add(made: Any) -> Any:
            if not callable(made):
                raise ConfigurationError("a provider is registered by its class", key="provider")
            self._factories[name] = made
            return made

        return add if factory is None else add(factory)

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
        if name not in BUILT_IN:
            self._load_plugins()
        factory = self._factories.get(name)
        if isinstance(factory, str):
            module, _, attribute = factory.partition(":")
            factory = self._factories[name] = getattr(import_module(module), attribute)
        if factory is not None and not isinstance(factory, str):
            return factory
        close = difflib.get_close_matches(str(name).casefold().replace("-", "_"), self._factories, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"available: {', '.join(self._factories)}"
        raise ConfigurationError(f"unknown provider {name!r}", key="provider", hint=hint)

    def __contains__(self, name: object) -> bool:
        self._load_plugins()
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(self._factories)

    def __len__(self) -> int:
        self._load_plugins()
        return len(self._factories)

    def _load_plugins(self) -> None:
        if not self._has_plugins:
            for name, factory in load_plugins(ENTRY_POINTS):
                if name not in self._factories:
                    self.register(name, factory)
            self._has_plugins = True


providers = Providers()
