"""What a running tool may know of its call, and say while it runs.

A function asks for it by annotating a parameter with `Context`; the parameter is never published. The
other end is a `Channel`: a client on the wire, or nobody. Knows nothing of transports, loops excepted.

What a running tool may ask its caller, and what it gets back.

A question is plain data; who carries it, and whether the tool waits for the answer or runs again with it, is
the channel's affair. Knows what MCP clients can be asked; refuses to know how it is spelt on the wire.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from toolcrib.errors import CannotAskError

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


logger = logging.getLogger("toolcrib")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. `name` tells people and rules apart: `local`, `key:ana`, `oauth:SUBJECT`.

    `roles` are those that a key or token brings along; rules may give more. `binding` is what sessions and
    sealed states are bound to where the name alone does not say enough: issuer, subject and client.
    """

    name: str = "local"
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    binding: str = ""
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.binding:
            object.__setattr__(self, "binding", self.name)
        object.__setattr__(self, "_hash", hash((self.name, self.scopes, self.roles, self.binding)))

    def __hash__(self) -> int:
        return self._hash  # asked for with every call


LOCAL = Principal()
ANONYMOUS = Principal("anonymous")
"""Whoever shows nothing where nothing has to be shown: many callers, who are not told apart."""
RESERVED = "toolcrib."
"""Questions with keys like this are the policy's own: no tool asks them, no client answers them unasked."""
CONFIRMATION = f"{RESERVED}confirm"


class Channel(Protocol):
    """The caller's end: hears of progress and log lines, and may be asked. Always on the loop of the call.

    `resumes` is the mark of the state that a call made again with answers came with, else None;
    `is_prompted` says that it comes again because it was asked something for the first time. `is_gone` says
    that the caller itself has gone, where a call is cancelled. `request` names the message and `trace`
    the caller's trace (W3C traceparent), where there are such.
    """

    @property
    def resumes(self) -> str | None: ...

    @property
    def is_prompted(self) -> bool: ...

    @property
    def is_gone(self) -> bool: ...

    @property
    def request(self) -> str | int | None: ...

    @property
    def trace(self) -> str | None: ...

    def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, data: Any) -> None: ...

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        """Answers by key. Raises CannotAskError, or InputNeeded to end a call that will be made again."""
        ...

    def close_stream(self) -> None:
        """Let the caller fetch the rest later, where its transport can."""
        ...


class Nobody:
    """The channel of a call that no client waits for: log lines go to the log, questions fail."""

    resumes: str | None = None
    is_prompted: bool = False
    is_gone: bool = False
    request: str | int | None = None
    trace: str | None = None

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        pass

    def log(self, level: str, data: Any) -> None:
        logger.log(logging.getLevelNamesMapping().get(level.upper(), logging.INFO), "%s", data)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:  # noqa: ARG002
        raise CannotAskError("This call has nobody to ask: it was not made by an interactive client.")

    def close_stream(self) -> None:
        pass


NOBODY = Nobody()


class _Told:
    """Lets `await ctx.progress(...)` and plain `ctx.progress(...)` both be right."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_TOLD = _Told()


@dataclass(slots=True, eq=False)
class Context:
    """The running call, for the tool that asks for it."""

    tool: str
    arguments: Mapping[str, Any]
    principal: Principal = LOCAL
    channel: Channel = NOBODY
    server: Any = None
    deadline: float | None = None
    loop: asyncio.AbstractEventLoop | None = None
    cancelled: bool = False
    """True once nobody waits any more. Code on a thread cannot be stopped: it looks here."""
    pause: Callable[[bool], None] | None = None
    """Stops the clock of the deadline, and lets it run again: a person may think as long as they like."""
    _question: concurrent.futures.Future[Any] | None = None

    def cancel(self) -> None:
        """Nobody waits any more. A thread that waits for an answer gets a CancelledError."""
        self.cancelled = True
        question = self._question
        if question is not None:
            question.cancel()

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, never below zero; None where there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> _Told:
        """Tell the caller how far the work is. Works with and without `await`."""
        self._tell(self.channel.progress, progress, total, message)
        return _TOLD

    def log(self, level: str, data: Any) -> _Told:
        """Send a log line to the caller. Works with and without `await`."""
        self._tell(self.channel.log, level, data)
        return _TOLD

    # --- asking: awaited in async code, blocking in code on a thread ---

    def ask(self, key: str, message: str, schema: Mapping[str, Any] | None = None) -> Any:
        """Ask the person behind the call; gives an Answer. `schema` describes the fields, none: yes or no.

        A client of 2026-07-28 calls again with the answer, and the function runs again from its top: so ask
        before you act. `key` tells the questions of one call apart.
        """
        return self._one(key, Form(message) if schema is None else Form(message, schema))

    def ask_to_visit(self, key: str, message: str, url: str) -> Any:
        """Ask the person to open a page; gives an Answer."""
        return self._one(key, Visit(message, url))

    def sample(self, key: str, messages: str | Any, *, max_tokens: int = 1024, **options: Any) -> Any:
        """Have the client's model complete something; gives a Completion. Options: `system`, and whatever
        else MCP's sampling takes."""
        system = options.pop("system", None)
        return self._one(key, Prompt(messages, max_tokens, system, options))

    def folders(self, key: str = "folders") -> Any:
        """The folders the client works in (MCP calls them roots); gives a list of Folder."""
        return self._one(key, Folders())

    def ask_all(self, questions: Mapping[str, Question]) -> Any:
        """Ask several things at once; gives a mapping of replies under the same keys."""
        return self._put(questions, None)

    def close_stream(self) -> None:
        """Let go of the caller's connection without ending the call: a 2025-11-25 client fetches the rest
        later. Elsewhere it does nothing."""
        self._tell(self.channel.close_stream)

    def _one(self, key: str, question: Question) -> Any:
        return self._put({key: question}, key)

    def _put(self, questions: Mapping[str, Question], key: str | None) -> Any:
        for name in questions:
            if name.startswith(RESERVED):
                raise ValueError(f"a question's key must not begin with {RESERVED!r}, got {name!r}")
        running = _running_loop()
        if self.loop is None or running is self.loop:
            return self._ask(questions, key)
        if self.cancelled:
            raise concurrent.futures.CancelledError
        future = asyncio.run_coroutine_threadsafe(self._ask(questions, key), self.loop)
        if running is not None:  # a thread with a loop of its own
            return asyncio.wrap_future(future)
        self._question = future
        if self.cancelled:  # by now: whoever cancelled did not see the question
            future.cancel()
        try:
            return future.result()
        finally:
            self._question = None

    async def _ask(self, questions: Mapping[str, Question], key: str | None) -> Any:
        if self.cancelled:
            raise CannotAskError("This call has ended: nobody waits for what it asks.")
        pause = self.pause
        if pause is not None:
            pause(True)
        try:
            replies = await self.channel.ask(questions)
        finally:
            if pause is not None:
                pause(False)
        return replies if key is None else replies[key]

    def _tell(self, method: Any, *words: Any) -> None:
        if self.cancelled:
            return  # whoever is told now has been answered already
        if self.loop is None or _running_loop() is self.loop:
            self._pass_on(method, words)
            return
        try:
            self.loop.call_soon_threadsafe(self._pass_on, method, words)
        except RuntimeError:
            pass  # the loop was closed meanwhile: there is nobody left to tell

    def _pass_on(self, method: Any, words: tuple[Any, ...]) -> None:
        if self.cancelled:
            return  # it ended between the word and its turn
        try:
            method(*words)
        except Exception as error:  # the caller's end is broken; the tool's work is not
            logger.warning(
                "tool '%s' could not reach its caller: %s",
                self.tool,
                type(error).__name__,
                extra={"tool_name": self.tool},
            )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
