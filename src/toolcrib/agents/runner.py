"""AgentRunner: give tools to a model, run its tool calls, and return its answer.

    async with AgentRunner(server, provider="gemini_cli") as runner:
        print(await runner.ask("What is 2 and 3?"))

Turns, calls, seconds and characters are limited. A failure is the last event; by then the provider has been
stopped and no tool of this answer is running.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from toolcrib.agents.provider import (
    Event,
    Failure,
    Final,
    Limits,
    Message,
    Provider,
    SessionCtx,
    Token,
    ToolAnswer,
    ToolCall,
    ToolResult,
    providers,
)
from toolcrib.catalog.build import build_catalog
from toolcrib.catalog.export import result_text
from toolcrib.client import Client
from toolcrib.component import Component
from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, Principal
from toolcrib.dispatch.event_loop import is_in_loop
from toolcrib.errors import (
    AgentError,
    ClientError,
    ConfigurationError,
    DefinitionError,
    ToolcribError,
    ToolError,
    ToolNotFoundError,
    suggest,
)
from toolcrib.registry.registry import ToolRegistry
from toolcrib.server import MCPServer
from toolcrib.sources.described import describe
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

T = TypeVar("T")
_TOOL_GRACE_S = 2.0
"""Added to the time limit of a tool, so that the tool's own timeout is reported first."""
_MAX_SHOWN = 200


# --- the tools ---------------------------------------------------------------------------------------


class LocalTools:
    """The tools that a server shows a caller. A server that is not running is started, and stopped again."""

    def __init__(self, server: MCPServer, principal: Principal) -> None:
        self._server = server
        self._principal = principal
        self._was_started = False

    async def open(self) -> None:
        if not self._server._running:
            await self._server.start()
            self._was_started = True

    async def list(self) -> tuple[Component, ...]:
        return self._server.dispatcher.shown(self._principal)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        """Call a tool. Raise ToolNotFoundError; most failures are in the Result."""
        dispatcher = self._server.dispatcher
        return await dispatcher.call(name, arguments, principal=self._principal, timeout_s=timeout_s)

    async def close(self) -> None:
        if self._was_started:
            self._was_started = False
            await self._server.stop()


class RemoteTools:
    """Tools of another server. A client that is not connected is connected here, and closed again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._wire: list[Any] | None = None
        self._tools: tuple[Component, ...] = ()
        self._was_connected = False

    async def open(self) -> None:
        try:
            _ = self._client.protocol_version
        except ClientError:
            await self._client.connect()
            self._was_connected = True

    async def list(self) -> tuple[Component, ...]:
        found = await self._client.list_tools()
        if self._wire is None or [tool.wire for tool in found] != self._wire:
            self._wire = [tool.wire for tool in found]
            described = (describe(tool.definition) for tool in found)
            self._tools = tuple(tool for tool in described if _can_be_built(tool))
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        return await self._client.call(name, dict(arguments), timeout_s=timeout_s)

    async def close(self) -> None:
        if self._was_connected:
            self._was_connected = False
            await self._client.close()


def _can_be_built(tool: Component) -> bool:
    """Return whether the model can get a tool of another server."""
    try:
        _ = tool.definition
    except DefinitionError:
        return False
    return True


Toolbox: TypeAlias = LocalTools | RemoteTools


def make_toolbox(tools: Any, principal: Principal = LOCAL) -> Toolbox:
    """Return the tools of a server, a client, a registry, or one or many tools and functions."""
    if isinstance(tools, MCPServer):
        return LocalTools(tools, principal)
    if isinstance(tools, Client):
        return RemoteTools(tools)
    server = MCPServer("agent")
    is_many = isinstance(tools, list | tuple | set | frozenset)
    try:
        for thing in tools if is_many else [tools]:
            server.add(thing)
    except DefinitionError as error:
        hint = error.hint or "give a server, a registry, a client, or functions and tools"
        raise ConfigurationError(error.message, key="tools", hint=hint) from None
    return LocalTools(server, principal)


# --- one answer ---------------------------------------------------------------------------------------


class Exchange:
    """One question and its answer. The session has the tools that the model knows."""

    def __init__(self, session: SessionCtx, provider: Provider, toolbox: Toolbox) -> None:
        self._session = session
        self._provider = provider
        self._toolbox = toolbox
        self._limits = session.limits
        self._answer_left_s = self._limits.answer_s
        self._turn_left_s = self._limits.turn_s
        self._chars = 0
        self._running: list[asyncio.Task[Result]] = []
        self._has_ended = False
        self.is_idle = False
        """Whether the reader has an event and has not asked for the next one."""

    async def run(self, text: str) -> AsyncGenerator[Event, None]:
        """Yield the events, the last of which is Final or Failure."""
        failure: AgentError | None = None
        try:
            async with aclosing(self._converse(text)) as events:
                async for event in events:
                    if isinstance(event, Final):
                        self._session.messages += [Message("user", text), Message("model", event.text)]
                        self._has_ended = True
                    self.is_idle = True
                    yield event
                    self.is_idle = False
        except AgentError as error:
            failure = error
        except Exception as error:
            logger.exception("the provider '%s' failed", self._session.provider)
            message = f"the provider '{self._session.provider}' failed: {type(error).__name__}: {error}"
            failure = AgentError(message, kind="crashed", hint="this is a bug in the provider")
        finally:
            await self.end()
        if failure is not None:
            yield Failure.of(failure)

    async def end(self) -> None:
        """End an incomplete answer: cancel running tools and stop the provider."""
        if self._has_ended:
            return
        self._has_ended = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        try:
            await self._provider.stop()  # the next question starts it again
        except Exception:
            logger.exception("the provider '%s' could not be stopped", self._session.provider)

    async def _converse(self, text: str) -> AsyncGenerator[Event, None]:
        if self._provider.status == "stopped":
            await self._wait(self._provider.start(self._session), "did not start")
        await self._wait(self._provider.send(text), "does not accept the question")
        for _ in range(self._limits.turns):
            calls: list[ToolCall] = []
            async with aclosing(self._read_turn()) as events:
                async for event in events:
                    yield event
                    if isinstance(event, Final):
                        return
                    if isinstance(event, ToolCall):
                        calls.append(event)
            if not calls:
                message = f"{self._name} ended its turn without an answer"
                hint = "a turn ends with Final, with Failure or with tool calls"
                raise AgentError(message, kind="garbled", hint=hint)
            answers: list[ToolAnswer] = []
            for call, result in zip(calls, await self._call_tools(calls), strict=True):
                sent = _cut_result(result, self._limits.result_chars)
                answers.append(ToolAnswer(call, sent))
                yield ToolResult(call.id, call.name, not sent.is_error, result_text(sent), sent is not result)
            self._turn_left_s = self._limits.turn_s
            await self._wait(self._provider.answer(answers), "does not accept the results")
        message = f"{self._name} has no answer after {self._limits.turns} turns"
        raise AgentError(message, kind="limit", hint="raise the limit turns")

    # --- the model ---

    async def _read_turn(self) -> AsyncGenerator[Event, None]:
        """Yield the events of one turn, and enforce the limits."""
        async with aclosing(self._provider.events()) as events:
            while True:
                try:
                    event = await self._wait(anext(events), "stalls")
                except StopAsyncIteration:
                    return
                if isinstance(event, Failure):
                    raise event.to_error()
                self._count_output(event)
                yield event
                if isinstance(event, Final):
                    return

    def _count_output(self, event: Event) -> None:
        match event:
            case Token():
                self._chars += len(event.text)
            case ToolCall():
                self._chars += len(event.name) + len(codec.encode(dict(event.arguments)))
            case Final():
                self._chars = max(self._chars, len(event.text))  # the answer may come without tokens
        if self._chars > self._limits.output_chars:
            message = f"{self._name} sent more than {self._limits.output_chars} characters in one answer"
            raise AgentError(message, kind="limit", hint="raise the limit output_chars")

    async def _wait(self, step: Awaitable[T], problem: str) -> T:
        """Wait for the provider, for as long as the turn and the answer have left."""
        is_turn = self._turn_left_s <= self._answer_left_s
        limit_s = min(self._turn_left_s, self._answer_left_s)
        started = time.monotonic()
        try:
            async with asyncio.timeout(limit_s) as scope:
                value = await step
        except TimeoutError:
            if not scope.expired():
                raise
            raise self._out_of_time(problem if is_turn else None) from None
        spent_s = time.monotonic() - started
        self._turn_left_s -= spent_s
        self._answer_left_s -= spent_s
        if self._has_ended:
            raise _stopped()
        if spent_s > limit_s:  # a step that does not await is not interrupted
            raise self._out_of_time(problem if is_turn else None)
        return value

    def _out_of_time(self, problem: str | None) -> AgentError:
        """Return the error for a turn with a problem, or for the whole answer."""
        if problem is None:
            message = f"no answer after {self._limits.answer_s:g} s"
            return AgentError(message, kind="limit", hint="raise the limit answer_s")
        message = f"{self._name} {problem}: its turn has taken {self._limits.turn_s:g} s"
        hint = getattr(self._provider, "stall_hint", None) or "raise the limit turn_s"
        return AgentError(message, kind="stalled", hint=hint)

    @property
    def _name(self) -> str:
        return getattr(self._provider, "label", None) or f"the provider '{self._session.provider}'"

    # --- the tools ---

    async def _call_tools(self, calls: Sequence[ToolCall]) -> list[Result]:
        """Run all calls of a turn concurrently, and return their results in order."""
        self._running = [
            asyncio.ensure_future(self._call_tool(call, number)) for number, call in enumerate(calls)
        ]
        started = time.monotonic()
        _, pending = await asyncio.wait(self._running, timeout=max(0.0, self._answer_left_s))
        self._answer_left_s -= time.monotonic() - started
        if self._has_ended:
            raise _stopped()
        if pending:
            raise self._out_of_time(None)
        return [task.result() for task in self._running]

    async def _call_tool(self, call: ToolCall, number: int) -> Result:
        """Run one call. Mistakes of the model become error results, so that it can correct them."""
        if call.flaw is not None:
            return _refuse(call.flaw)
        if number >= self._limits.calls_per_turn:
            return _refuse(f"not run: at most {self._limits.calls_per_turn} calls at once; ask again")
        limit_s = self._limits.tool_s
        try:
            async with asyncio.timeout(limit_s + _TOOL_GRACE_S) as scope:
                return await self._toolbox.call(call.name, call.arguments, limit_s)
        except ToolNotFoundError:
            shown, known = call.name[:_MAX_SHOWN], [tool.name for tool in self._session.tools]
            hint = suggest(shown, known, "use one of the tools in the list")  # the model knows them
            return _refuse(f"There is no tool '{shown}': {hint}")
        except TimeoutError as error:
            if not scope.expired():
                return _refuse(str(error) or f"Tool '{call.name}' timed out.")
            return _refuse(f"Tool '{call.name}' did not finish within {limit_s:g} s.")
        except ToolcribError as error:
            return _refuse(str(error))
        except Exception:
            logger.exception("calling '%s' failed", call.name)
            return _refuse(f"Tool '{call.name}' failed unexpectedly.")


def _stopped() -> AgentError:
    return AgentError("the answer was stopped", kind="cut")


def _refuse(message: str) -> Result:
    """Return the result of a call that was not made."""
    return Result([text_block(message)], is_error=True, error=ToolError(message))


def _cut_result(result: Result, limit: int) -> Result:
    """Return a result, or only the beginning of its text if it is longer than `limit` characters."""
    text = result_text(result)
    others = [block for block in result.content if block.get("type") != "text"]
    if max(len(text), len(codec.encode([*others, result.structured_content]))) <= limit:
        return result
    if len(text) > limit:
        text = f"{text[:limit]}\n[cut: {len(text) - limit} of {len(text)} characters left out]"
    return Result([text_block(text)], is_error=result.is_error, error=result.error)


# --- the runner ---------------------------------------------------------------------------------------

_MEMBERS = ("start", "send", "answer", "events", "stop", "status")


class AgentRunner:
    """Tools and a model, for one conversation.

    Args:
        tools: A server, a registry, a client of another server, or functions and tools
        provider: A name in `providers`, or a provider of your own; without one there is only a session
        instructions: The system prompt
        limits: The limits of one answer
        principal: The caller of the tools
        options: Options of the provider, if it is given by name
    """

    def __init__(
        self,
        tools: Any,
        provider: str | Provider | None = None,
        *,
        instructions: str | None = None,
        limits: Limits | None = None,
        principal: Principal = LOCAL,
        **options: Any,
    ) -> None:
        self._toolbox = make_toolbox(tools, principal)
        self._provider, name = _find_provider(provider, options)
        self.session = SessionCtx(provider=name, instructions=instructions, limits=limits or Limits())
        self._is_open = False
        self._current: Exchange | None = None

    @property
    def provider(self) -> Provider | None:
        return self._provider

    async def start(self) -> SessionCtx:
        """Open the tools and attach their catalog to the session. The provider is started by a question."""
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
        """End the current answer and the provider, and close the tools. May be called twice."""
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
        """Attach the tools as they are now: a server may have changed since the last question."""
        tools = await self._toolbox.list()
        if tools != self.session.tools:
            self.session.tools, self.session.toolCatalog = tools, None
        if self._provider is not None and self.session.toolCatalog is None:
            self.session.toolCatalog = build_catalog(_register(tools))

    async def send(self, text: str) -> AsyncGenerator[Event, None]:
        """Ask a question; yield the events of the answer, the last of which is Final or Failure.

        Closing the generator ends the answer, with the provider's process or connection and all running tool
        calls. Use `contextlib.aclosing` to close it at once, and not with the garbage collector.
        """
        if self._provider is None:
            raise ConfigurationError("no provider was given", key="provider", hint=_list_providers())
        if not text.strip():
            raise ConfigurationError("the question must be a non-empty string")
        if self._current is not None:
            if not self._current.is_idle:
                message = "the last question is still being answered"
                raise AgentError(message, kind="busy", hint="wait for its answer, or close its events")
            await self._current.end()  # its reader has stopped reading
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
        """Return the answer to a question. Raise AgentError if there is none."""
        async with aclosing(self.send(text)) as events:
            async for event in events:
                if isinstance(event, Final):
                    return event.text
                if isinstance(event, Failure):
                    raise event.to_error()
        raise _stopped()

    def run(self, text: str) -> str:
        """Open, ask and close, in a script without an event loop."""
        if is_in_loop():
            hint = "await runner.ask(...)"
            raise ConfigurationError("run() cannot be used inside an event loop", hint=hint)
        return asyncio.run(self._run(text))

    async def _run(self, text: str) -> str:
        async with self:
            return await self.ask(text)


def _register(tools: Iterable[Component]) -> ToolRegistry:
    """Return a registry of the tools, under the names that they are called by."""
    registry = ToolRegistry(name_rule="mcp")
    registry.add_all(tool.renamed(tool.name) if tool.long_name else tool for tool in tools)
    return registry


def _find_provider(
    provider: str | Provider | None, options: dict[str, Any]
) -> tuple[Provider | None, str | None]:
    if isinstance(provider, str):
        return providers.make(provider, **options), provider
    if options:
        hint = _list_providers() if provider is None else "pass them to the provider itself"
        message = "options need a provider that is given by name"
        raise ConfigurationError(message, key=min(options), hint=hint)
    if provider is None:
        return None, None
    missing = [name for name in _MEMBERS if not hasattr(provider, name)]
    if missing or isinstance(provider, type):
        message = f"{provider!r:.80} has no {missing[0]}" if missing else "give an instance, not the class"
        raise ConfigurationError(message, key="provider", hint="see toolcrib.agents.Provider")
    return provider, str(getattr(provider, "name", None) or type(provider).__name__)


def _list_providers() -> str:
    return f"available: {', '.join(providers)}"
