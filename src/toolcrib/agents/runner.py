"""AgentRunner: tools and a model brought together for a conversation.

Makes the provider, opens the tools, hands over the catalog, and runs one exchange at a time. Knows how the
parts fit together and nothing that one of them knows better.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

from toolcrib.agents.event import Event, Failure, Final
from toolcrib.agents.exchange import Exchange
from toolcrib.agents.provider import Provider, providers
from toolcrib.agents.session import Limits, SessionCtx
from toolcrib.agents.toolbox import Toolbox, make_toolbox
from toolcrib.catalog.build import build_catalog
from toolcrib.context import LOCAL, Principal
from toolcrib.errors import AgentError, ConfigurationError
from toolcrib.execution import is_in_loop
from toolcrib.registry import ToolRegistry
from toolcrib.tool import Tool

_PARTS = ("start", "send", "answer", "events", "stop", "status")


class AgentRunner:
    """`async with AgentRunner(server, provider="openai", model="...") as runner: await runner.ask("...")`

    `tools` is a server, a registry, a client of another server, or functions and tools. `provider` is a name
    in `providers` or a provider of your own; without one there is a session but nobody to talk to. What else
    is given by name goes to the provider. `instructions` is what the model is told before everything else.
    """

    def __init__(
        self,
        tools: Any,
        provider: str | Provider | None = None,
        *,
        instructions: str | None = None,
        limits: Limits | None = None,
        principal: Principal = LOCAL,
        session_id: str | None = None,
        **options: Any,
    ) -> None:
        self._toolbox: Toolbox = make_toolbox(tools, principal)
        self._provider, name = _find_provider(provider, options)
        self.session = SessionCtx(provider=name, instructions=instructions, limits=limits or Limits())
        if session_id is not None:
            self.session.session_id = session_id
        self._is_open = False
        self._current: Exchange | None = None

    @property
    def provider(self) -> Provider | None:
        return self._provider

    # --- living ---

    async def start(self) -> SessionCtx:
        """Open the tools and attach their catalog to the session. The model is not spoken to yet."""
        if not self._is_open:
            await self._toolbox.open()
            self._is_open = True
            try:
                await self._attach_catalog()
            except BaseException:
                await self.stop()
                raise
        return self.session

    async def stop(self) -> None:
        """End the exchange that is under way, the provider, and what was opened. Safe to call twice."""
        self._is_open = False
        current, self._current = self._current, None
        try:
            if current is not None:
                await current.end()
            if self._provider is not None:
                await self._provider.stop()
        finally:
            await self._toolbox.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _attach_catalog(self) -> None:
        """The tools as they are now. A server may have changed since the last question."""
        tools = await self._toolbox.list()
        if tools != self.session.tools:
            self.session.tools, self.session.toolCatalog = tools, None
        if self._provider is not None and self.session.toolCatalog is None:
            self.session.toolCatalog = build_catalog(_register(tools))

    # --- talking ---

    async def send(self, text: str) -> AsyncGenerator[Event, None]:
        """The events of one answer, the last of which is Final or Failure.

        Whoever stops reading ends the answer: the provider's process or connection and all tool calls under
        way. Use `contextlib.aclosing` where that must not wait for the garbage collector.
        """
        if self._provider is None:
            raise ConfigurationError("there is nobody to talk to", key="provider", hint=_name_one())
        if not text.strip():
            raise ConfigurationError("a question is a text that is not empty")
        if self._current is not None:
            if not self._current.is_idle:
                words = "the last question is still being answered"
                raise AgentError(words, kind="busy", hint="wait for its answer, or close its events")
            await self._current.end()  # whoever asks anew has stopped reading
        exchange = self._current = Exchange(self.session, self._provider, self._toolbox)
        try:
            await self.start()
            await self._attach_catalog()
            async with aclosing(exchange.run(text)) as events:
                async for event in events:
                    if isinstance(event, Final | Failure):
                        self._current = None  # the next question may come before these events are closed
                    yield event
        finally:
            if self._current is exchange:
                self._current = None

    async def ask(self, text: str) -> str:
        """The answer to one question. Raises AgentError where there is none."""
        async with aclosing(self.send(text)) as events:
            async for event in events:
                if isinstance(event, Final):
                    return event.text
                if isinstance(event, Failure):
                    raise event.to_error()
        raise AgentError("the answer was stopped", kind="cut")

    def run(self, text: str) -> str:
        """`ask` for scripts, with everything opened before and closed after."""
        if is_in_loop():
            hint = "await runner.ask(...)"
            raise ConfigurationError("run() is for scripts, and an event loop runs here", hint=hint)
        return asyncio.run(self._run(text))

    async def _run(self, text: str) -> str:
        async with self:
            return await self.ask(text)


def _register(tools: Iterable[Tool]) -> ToolRegistry:
    """The tools in a registry of their own, under the very names that they are called by."""
    registry = ToolRegistry(name_rule="mcp", confusable="allow")
    registry.add_all(tool.renamed(tool.name) if tool.long_name else tool for tool in tools)
    return registry


def _find_provider(
    provider: str | Provider | None, options: dict[str, Any]
) -> tuple[Provider | None, str | None]:
    if isinstance(provider, str):
        return providers.make(provider, **options), provider
    if options:
        hint = _name_one() if provider is None else "give them to the provider itself"
        raise ConfigurationError("options are for a provider named by its name", key=min(options), hint=hint)
    if provider is None:
        return None, None
    missing = [name for name in _PARTS if not hasattr(provider, name)]
    if missing or isinstance(provider, type):
        words = f"{provider!r:.80} has no {missing[0]}" if missing else "give an instance, not the class"
        raise ConfigurationError(words, key="provider", hint="see toolcrib.agents.Provider")
    return provider, str(getattr(provider, "name", None) or type(provider).__name__)


def _name_one() -> str:
    return f"name one: {', '.join(providers)}"
