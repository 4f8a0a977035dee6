"""AgentRunner: tools and a model brought together for a conversation.

Makes the provider, opens the tools, hands over the catalog, and runs one exchange at a time. Knows how the
parts fit together and nothing that one of them knows better.

Results made short enough for a model, and refusals in the shape of results.

Knows content blocks and how long they are. Refuses to know providers and tools.

One answer: the words go to the model, its tool calls to the tools, the results back, until it is done.

Counts everything that could go on for ever: turns, calls, seconds, characters. Whatever goes wrong is the
last event, and by then the provider has been stopped and no tool of this answer runs any more. Knows the
provider's protocol and a toolbox; refuses to know which provider and which tools.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from toolcrib.agents.events import Event, Failure, Final, Token, ToolAnswer, ToolCall, ToolResult
from toolcrib.agents.provider import Provider, providers
from toolcrib.agents.session import Limits, Message, SessionCtx
from toolcrib.agents.toolbox import Toolbox, make_toolbox
from toolcrib.catalog.build import build_catalog
from toolcrib.catalog.export.calls import result_text
from toolcrib.content import Block, Result, text_block
from toolcrib.context import LOCAL, Principal
from toolcrib.dispatch.event_loop import is_in_loop
from toolcrib.errors import AgentError, ConfigurationError, ToolcribError, ToolError, ToolNotFoundError
from toolcrib.registry.registry import ToolRegistry
from toolcrib.tool import Tool
from toolcrib.validation import codec

_MAX_BLOCKS = 100


def refuse(words: str) -> Result:
    """The result of a call that was not made."""
    return Result([text_block(words)], is_error=True, error=ToolError(words))


def fit(result: Result, limit_chars: int) -> tuple[Result, bool]:
    """The result, or as much of it as fits in so many characters, with a note; and whether it was cut."""
    if _measure(result) <= limit_chars:
        return result, False
    kept: list[Block] = []
    left = limit_chars
    content = result.content or [text_block(codec.encode_text(result.structured_content))]
    for block in content:
        text = block.get("text") if block.get("type") == "text" else None
        if isinstance(text, str):
            kept.append(text_block(_cut(text, left)))
            left = max(0, left - len(text))
        elif (size := len(codec.encode(block))) <= left:
            kept.append(block)
            left -= size
        else:
            kept.append(text_block(f"[{block.get('type')} of {size} characters, left out]"))
        if len(kept) > _MAX_BLOCKS or left == 0:
            break
    dropped = len(content) - len(kept)
    if dropped > 0:
        kept.append(text_block(f"[{dropped} more parts, left out]"))
    # The data would say all of it again; what is left of the text says as much as fits.
    return Result(kept, is_error=result.is_error, error=result.error), True


def _measure(result: Result) -> int:
    """Characters of the larger of the two forms, words and data; whichever is sent, it fits."""
    words = sum(
        len(str(block.get("text", ""))) if block.get("type") == "text" else len(codec.encode(block))
        for block in result.content
    )
    data = len(codec.encode(result.structured_content)) if result.is_structured else 0
    return max(words, data)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text) - limit} of {len(text)} characters left out]"


logger = logging.getLogger("toolcrib")

T = TypeVar("T")
_TOOL_GRACE_S = 2.0
"""A tool answers in time by itself; whatever stands between it and us has this much longer."""
_SHOWN_CHARS = 200
_FLOOD = 100


class Exchange:
    """One question and its answer. `session` has the tools that the model was told of."""

    def __init__(self, session: SessionCtx, provider: Provider, toolbox: Toolbox) -> None:
        self._session = session
        self._provider = provider
        self._toolbox = toolbox
        self._limits = session.limits
        self._answer_left_s = self._limits.answer_s
        self._turn_left_s = self._limits.turn_s
        self._chars = 0
        self._asked: Counter[str] = Counter()
        self._made: list[asyncio.Task[Result]] = []
        self._has_ended = False
        self.is_idle = False
        """Whether the reader has an event and has not come back for the next one."""

    async def run(self, text: str) -> AsyncGenerator[Event, None]:
        """The events, the last of which is Final or Failure."""
        failure: AgentError | None = None
        is_whole = False
        try:
            async with aclosing(self._converse(text)) as events:
                async for event in events:
                    if isinstance(event, Final):
                        self._session.messages += [Message("user", text), Message("model", event.text)]
                        is_whole = self._has_ended = True
                    self.is_idle = True
                    yield event
                    self.is_idle = False
        except AgentError as error:
            failure = error
        except Exception as error:
            logger.exception("the provider '%s' failed", self._session.provider)
            words = f"the provider '{self._session.provider}' failed: {type(error).__name__}: {error}"
            failure = AgentError(words, kind="crashed", hint="this is a mistake in the provider's own code")
        finally:
            if not is_whole:
                await self.end()
        if failure is not None:
            yield Failure.of(failure)

    async def end(self) -> None:
        """Nobody will read on: what is under way ends now. The next question begins anew."""
        if self._has_ended:
            return
        self._has_ended = True
        await self._end_tools()
        try:
            await self._provider.stop()
        except Exception:
            logger.exception("the provider '%s' could not be stopped", self._session.provider)

    async def _converse(self, text: str) -> AsyncGenerator[Event, None]:
        if self._provider.status == "stopped":
            await self._wait(lambda: self._provider.start(self._session), "did not start")
        await self._wait(lambda: self._provider.send(text), "does not take the question")
        for _ in range(self._limits.turns):
            calls: list[ToolCall] = []
            async with aclosing(self._listen()) as events:
                async for event in events:
                    yield event
                    if isinstance(event, Final):
                        return
                    if isinstance(event, ToolCall):
                        calls.append(event)
                        self._check_flood(calls)
            if not calls:
                raise AgentError(
                    f"{self._name} ended its turn without an answer",
                    kind="garbled",
                    hint="a turn ends with Final, with Failure or with tool calls",
                )
            answers: list[ToolAnswer] = []
            async with aclosing(self._call_all(calls, answers)) as results:
                async for result in results:
                    yield result
            self._turn_left_s = self._limits.turn_s
            await self._wait(partial(self._provider.answer, answers), "does not take the results")
        raise self._out_of_turns()

    # --- the model ---

    async def _listen(self) -> AsyncGenerator[Event, None]:
        """One turn of the model, counted."""
        async with aclosing(self._provider.events()) as events:
            while True:
                try:
                    event = await self._wait(events.__anext__, "says nothing more")
                except StopAsyncIteration:
                    return
                if isinstance(event, Failure):
                    raise event.to_error()
                self._count(event)
                yield event
                if isinstance(event, Final):
                    return

    def _count(self, event: Event) -> None:
        match event:
            case Token():
                self._chars += len(event.text)
            case ToolCall():
                self._chars += len(event.name) + len(codec.encode(dict(event.arguments)))
            case Final() if len(event.text) > self._limits.output_chars:
                self._chars = len(event.text)  # said at once, without tokens
        if self._chars > self._limits.output_chars:
            raise AgentError(
                f"{self._name} said more than {self._limits.output_chars} characters in one answer",
                kind="limit",
                hint="the limit output_chars can be raised",
            )

    def _check_flood(self, calls: Sequence[ToolCall]) -> None:
        """A few calls too many are answered with words; one that does not stop asking is stopped."""
        if len(calls) > self._limits.calls_per_turn + _FLOOD:
            words = f"{self._name} asked for {len(calls)} tools at once"
            raise AgentError(words, kind="limit", hint="the limit calls_per_turn can be raised")

    async def _wait(self, step: Callable[[], Awaitable[T]], trouble: str) -> T:
        """Wait for the provider, for as long as the turn and the answer have left."""
        is_turn = self._turn_left_s <= self._answer_left_s
        left_s = min(self._turn_left_s, self._answer_left_s)
        if self._has_ended:
            raise _stopped()
        if left_s <= 0:  # a step that never waits would not notice
            raise self._out_of_time(trouble, is_turn)
        started = time.monotonic()
        try:
            async with asyncio.timeout(left_s) as scope:
                return await step()
        except TimeoutError:
            if not scope.expired():
                raise
            raise self._out_of_time(trouble, is_turn) from None
        finally:
            spent_s = time.monotonic() - started
            self._turn_left_s -= spent_s
            self._answer_left_s -= spent_s

    def _out_of_time(self, trouble: str, is_turn: bool) -> AgentError:
        if not is_turn:
            words = f"there is no answer after {self._limits.answer_s:g} s"
            return AgentError(words, kind="limit", hint="the limit answer_s can be raised")
        words = f"{self._name} {trouble}: its turn has taken {self._limits.turn_s:g} s"
        hint = getattr(self._provider, "stall_hint", None) or "the limit turn_s can be raised"
        return AgentError(words, kind="stalled", hint=hint)

    def _out_of_turns(self) -> AgentError:
        words = f"{self._name} has no answer after {self._limits.turns} turns"
        hint = "the limit turns can be raised"
        if self._asked and (often := self._asked.most_common(1)[0])[1] > 2:
            hint = f"it asked {often[1]} times for {often[0]}; {hint}"
        return AgentError(words, kind="limit", hint=hint)

    @property
    def _name(self) -> str:
        return getattr(self._provider, "place", None) or f"the provider '{self._session.provider}'"

    # --- the tools ---

    async def _call_all(
        self, calls: Sequence[ToolCall], answers: list[ToolAnswer]
    ) -> AsyncGenerator[ToolResult, None]:
        """Make all calls of a turn at once; tell of each when it is there, and collect them in order."""
        made = self._made = []
        for number, call in enumerate(calls):
            self._asked[f"'{call.name}'"] += 1
            made.append(asyncio.ensure_future(self._call(call, number)))
        results: dict[int, Result] = {}
        waiting = set(made)
        while waiting:
            started = time.monotonic()
            done, waiting = await asyncio.wait(
                waiting, timeout=max(0.0, self._answer_left_s), return_when=asyncio.FIRST_COMPLETED
            )
            self._answer_left_s -= time.monotonic() - started
            if not done:
                raise self._out_of_time("", False)
            for number in sorted(made.index(task) for task in done):
                if made[number].cancelled():
                    raise _stopped()
                call = calls[number]
                result, is_cut = fit(made[number].result(), self._limits.result_chars)
                results[number] = result
                yield ToolResult(call.id, call.name, not result.is_error, result_text(result), is_cut)
        answers += [ToolAnswer(call, results[number]) for number, call in enumerate(calls)]

    async def _end_tools(self) -> None:
        for task in self._made:
            task.cancel()
        await asyncio.gather(*self._made, return_exceptions=True)

    async def _call(self, call: ToolCall, number: int) -> Result:
        """Make one call. A model's mistake is told to the model, whatever it is."""
        if call.flaw is not None:
            return refuse(call.flaw)
        if number >= self._limits.calls_per_turn:
            return refuse(f"not run: at most {self._limits.calls_per_turn} calls at once; ask again")
        limit_s = self._limits.tool_s
        try:
            async with asyncio.timeout(limit_s + _TOOL_GRACE_S) as scope:
                return await self._toolbox.call(call.name, call.arguments, limit_s)
        except ToolNotFoundError:
            return refuse(self._unknown(call.name))
        except TimeoutError as error:
            if not scope.expired():
                return refuse(str(error) or f"Tool '{call.name}' ran out of time.")
            return refuse(f"Tool '{call.name}' did not finish within {limit_s:g} s.")
        except ToolcribError as error:
            return refuse(str(error))
        except Exception:
            logger.exception("calling '%s' failed", call.name)
            return refuse(f"Tool '{call.name}' failed unexpectedly.")

    def _unknown(self, name: str) -> str:
        """The model was told of these tools, so it may hear which one it may have meant."""
        known = [tool.name for tool in self._session.tools]
        close = difflib.get_close_matches(name[:_SHOWN_CHARS], known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "use one of the tools you were told of"
        return f"There is no tool '{name[:_SHOWN_CHARS]}': {hint}"


def _stopped() -> AgentError:
    return AgentError("the answer was stopped", kind="cut")


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
