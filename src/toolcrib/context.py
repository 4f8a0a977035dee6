"""The context of a running call: its principal, progress, log messages, and questions to the user.

A function gets it by annotating a parameter with `Context`; the parameter is not published. Messages and
questions go through a `Channel`: to a client, or nowhere.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import math
import reprlib
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

from toolcrib.errors import CannotAskError, ContextError, InvalidToolError, missing_attribute, suggest
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

T = TypeVar("T")

# --- questions and answers -----------------------------------------------------------------------------

Action = Literal["accept", "decline", "cancel"]

YES_OR_NO: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A form for the user. `schema` is a JSON Schema of an object with flat properties; then the reply is an
    Answer. Or it is a model, a dataclass or a TypedDict; then the reply is one of it, or None if the user
    declines."""

    message: str
    schema: Any = field(default_factory=lambda: dict(YES_OR_NO))


@dataclass(frozen=True, slots=True)
class URLElicitation:
    """A web page for the user to open, for data that must not pass through the client, such as a password."""

    message: str
    url: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """A prompt for the client's model. `messages` are MCP's sampling messages, or one text."""

    messages: str | Sequence[Mapping[str, Any]]
    max_tokens: int = 1024
    system: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Roots:
    """A request for the folders that the client works in (MCP's roots)."""


Question = Elicitation | URLElicitation | Sampling | Roots


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a form or a page. True if the user accepted; `answer["name"]` is a field."""

    action: Action
    content: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.action == "accept"

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.content.get(name, default)


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """The answer of the client's model. `content` is one content block or a list of them."""

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
class Root:
    """A folder that the client works in."""

    uri: str
    name: str | None = None


Reply = Answer | SamplingResult | list[Root]
ReadForm = Callable[[Any], tuple[Mapping[str, Any], Callable[[Any], Any] | None]]
"""Returns the JSON Schema of a form, and a function that makes the answer of its data. Raises ValueError."""


class InputNeeded(BaseException):
    """Raised to end a call that the client will repeat with the answers. Not an Exception, so that `except
    Exception` in a tool does not catch it."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        super().__init__(", ".join(questions))
        self.questions = questions


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. `name` identifies it in rules and logs: `local`, `key:ana`, `oauth:SUBJECT`.

    `roles` come from the key or token; rules may add more. `binding` identifies the caller to sessions and
    sealed states where the name is not unique: issuer, subject and client.
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
        return self._hash  # computed once: every call needs it


@dataclass(frozen=True, eq=False)
class Headers(Mapping[str, str]):
    """The headers of an HTTP request, found by name in any case. `known` has their names in lower case."""

    known: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.known[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The HTTP request of a call: its headers, and the IP address that it came from.

    Headers with credentials, the id of the session, and those that were sent twice are left out.
    """

    headers: Headers = field(default_factory=Headers)
    address: str | None = None


NO_REQUEST = RequestInfo()

LOCAL = Principal()
ANONYMOUS = Principal("anonymous")
"""Callers without credentials, if credentials are optional."""
RESERVED = "toolcrib."
"""Prefix of question keys that only the policy uses."""
CONFIRMATION = f"{RESERVED}confirm"


class Channel(Protocol):
    """The connection to the caller, used on the event loop of the call.

    `resumes` identifies the sealed state of a call that is repeated with answers, else it is None;
    `is_prompted` says that the call is repeated after its first question. `is_gone` says that a call was
    cancelled by a disconnect. `request` is the id of the message and `trace` the caller's trace
    (W3C traceparent), if there are any. `session` is an object that represents the client's session, if
    it has one.

    `sends_reply` says that the channel sends the reply of the call, and does so when `committed` is done: the
    audit record of the call, which is set before the call ends.
    """

    committed: asyncio.Future[bool] | None

    @property
    def sends_reply(self) -> bool: ...

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

    @property
    def session(self) -> object | None: ...

    def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, data: Any) -> None: ...

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        """Return answers by key. Raises CannotAskError, or InputNeeded if the call will be repeated."""
        ...

    def close_stream(self) -> None:
        """Close the caller's connection, if its transport can fetch the rest later."""
        ...


class NullChannel:
    """The channel of a call without a client: log messages go to the log, questions fail."""

    sends_reply: bool = False
    committed: asyncio.Future[bool] | None = None
    resumes: str | None = None
    is_prompted: bool = False
    is_gone: bool = False
    request: str | int | None = None
    trace: str | None = None
    session: object | None = None

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        pass

    def log(self, level: str, data: Any) -> None:
        logger.log(logging.getLevelNamesMapping().get(level.upper(), logging.INFO), "%s", data)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:  # noqa: ARG002
        raise CannotAskError("Cannot ask the user: the call was not made by an interactive client.")

    def close_stream(self) -> None:
        pass


NO_CHANNEL = NullChannel()


@dataclass(frozen=True, slots=True)
class Depends:
    """Says where the value of a parameter comes from: `db: Annotated[Db, Depends(get_db)]`.

    The parameter is not published. The function may be sync or async, take a Context and further
    dependencies, and `yield` its value instead of returning it: what follows runs after the tool.
    It runs once per call, however many parameters need its value.
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            got = f"Depends takes a function, got {_shorten(self.function)}"
            raise InvalidToolError(got, hint="name the function without calling it: Depends(get_db)")
        try:
            hash(self.function)
        except TypeError:
            got = f"Depends takes a function, got a {type(self.function).__name__}, which has no hash"
            raise InvalidToolError(got, hint="use a function or a method") from None


class _Done:
    """Makes `await ctx.progress(...)` work as well as `ctx.progress(...)`."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_DONE = _Done()


NOT_AWAITED = "a question must be awaited in async code: `await ctx.ask(...)`"


class PendingAnswer(Coroutine[Any, Any, T]):
    """A question to be awaited. It has no truth value: `if ctx.ask(...)` without `await` would be true.

    Code on a thread gets the answer itself; a type checker does not know which, so it takes any attribute.
    """

    __slots__ = ("_asking", "_misuse")

    def __init__(self, asking: Coroutine[Any, Any, T], misuse: Callable[[str], Exception]) -> None:
        self._asking = asking
        self._misuse = misuse

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, name: str) -> Any: ...

    def __await__(self) -> Generator[Any, Any, T]:
        return self._asking.__await__()

    def send(self, value: Any) -> Any:
        return self._asking.send(value)

    def throw(self, *error: Any) -> Any:
        return self._asking.throw(*error)

    def close(self) -> None:
        self._asking.close()

    def __bool__(self) -> bool:
        self.close()
        raise self._misuse(NOT_AWAITED)


@dataclass(slots=True, eq=False)
class Context:
    """The running call, for a tool with a parameter of this type."""

    tool: str
    arguments: Mapping[str, Any]
    principal: Principal = LOCAL
    channel: Channel = NO_CHANNEL
    server: Any = None
    deadline: float | None = None
    loop: asyncio.AbstractEventLoop | None = None
    cancelled: bool = False
    """Whether the call was cancelled or timed out. Code on a thread cannot be stopped: check this there."""
    pause: Callable[[bool], None] | None = None
    """Called with True to pause the deadline while a question is open, and with False to resume it."""
    read_form: ReadForm | None = None
    asked: list[Coroutine[Any, Any, Any]] | None = None
    """The questions of async code so far; None if nothing was asked at all."""
    _waits_for: concurrent.futures.Future[Any] | None = None

    def cancel(self) -> None:
        """Mark the call as cancelled. A thread that waits for an answer gets a CancelledError."""
        self.cancelled = True
        if self.asked:
            self._drop_forgotten()
        future = self._waits_for
        if future is not None:
            future.cancel()

    def check_awaited(self) -> None:
        """Raise ContextError for a question that was not awaited, when the tool has ended."""
        if self._drop_forgotten():
            raise self._misuse(NOT_AWAITED)

    def _drop_forgotten(self) -> bool:
        asked: Any = self.asked or ()
        forgotten = [item for item in asked if inspect.getcoroutinestate(item) == inspect.CORO_CREATED]
        for item in forgotten:
            item.close()
        return bool(forgotten)

    @property
    def request(self) -> RequestInfo:
        """The HTTP request of the call: `ctx.request.headers["x-tenant"]`, `ctx.request.address`. Empty where
        there is none: over stdio, and in this process."""
        found: RequestInfo = getattr(getattr(self.channel, "peer", None), "http", NO_REQUEST)
        return found

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, at least zero; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def is_identified(self) -> bool:
        """Whether the caller is known: it has credentials, or is in this process."""
        is_unknown = self.principal is LOCAL or self.principal is ANONYMOUS
        return not is_unknown or self.channel.request is None

    # --- state ---

    @property
    def state(self) -> Any:
        """What the `lifespan` of the server has yielded."""
        lifespan = getattr(self.server, "lifespan", None)
        if lifespan is None:
            raise self._misuse("ctx.state needs a server with a lifespan: MCPServer(lifespan=...)")
        if not lifespan.is_open:
            raise self._misuse("ctx.state is there while the server runs: call it in `async with server`")
        return lifespan.state

    def get_state(self, key: str, *, of: Literal["session", "principal"] = "session") -> Any:
        """Return a value that a tool has set for the session of the caller, or for its principal in all
        sessions; None if there is none. Clients of 2026-07-28 have no session over HTTP: there it belongs to
        their credentials."""
        states, owner = self._find_state("get_state", key, of)
        return self._run(states.get(of, owner, key))

    def set_state(self, key: str, value: Any, *, of: Literal["session", "principal"] = "session") -> Any:
        """Keep a JSON value for the session of the caller, or for its principal. None removes it."""
        states, owner = self._find_state("set_state", key, of)
        try:
            data = None if value is None else codec.encode(value)
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise self._misuse(f"ctx.set_state('{key}') takes a JSON value: {error}") from None
        if data is not None and len(data) > states.max_bytes:
            raise self._misuse(f"ctx.set_state('{key}') takes at most {states.max_bytes} bytes of JSON")
        return self._run(states.set(of, owner, key, data))

    def _find_state(self, method: str, key: str, of: str) -> tuple[Any, str]:
        if type(key) is not str or of not in ("session", "principal"):
            raise self._misuse(f"ctx.{method}() takes a string, and of='session' or of='principal'")
        states = getattr(self.server, "caller_states", None)
        owner = None if states is None else states.find_owner(self, of)
        if owner is None:
            needed = "credentials" if of == "principal" else "a session or credentials"
            raise self._misuse(f"ctx.{method}(of='{of}') needs a caller with {needed}")
        return states, owner

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> _Done:
        """Report progress to the caller. Works with and without `await`."""
        for name, value in (("progress", progress), ("total", total)):
            if not _is_number(value) and (value is not None or name == "progress"):
                raise self._misuse(f"ctx.progress() takes a number as {name}, got {_shorten(value)}")
        if not isinstance(message, str | None):
            raise self._misuse(f"ctx.progress() takes a string as message, got {_shorten(message)}")
        self._send(self.channel.progress, progress, total, message)
        return _DONE

    def log(self, level: str, data: Any) -> _Done:
        """Send a log message to the caller, as JSON if it has such a form. Works with and without `await`."""
        if type(data) is not str:
            try:
                codec.encode(data)
            except (TypeError, ValueError, ArithmeticError, RecursionError):
                data = str(data)
        self._send(self.channel.log, level, data)
        return _DONE

    # --- names of mcp and fastmcp ---

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> _Done:
        """Do the same as `progress`."""
        return self.progress(progress, total, message)

    def debug(self, message: Any, **extra: Any) -> _Done:
        """Send a log message with the level "debug"; so do `info`, `warning` and `error`."""
        return self._log_message("debug", message, extra)

    def info(self, message: Any, **extra: Any) -> _Done:
        return self._log_message("info", message, extra)

    def warning(self, message: Any, **extra: Any) -> _Done:
        return self._log_message("warning", message, extra)

    def error(self, message: Any, **extra: Any) -> _Done:
        return self._log_message("error", message, extra)

    def _log_message(self, level: str, message: Any, extra: dict[str, Any]) -> _Done:
        return self.log(level, {"message": message, **extra} if extra else message)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("Context", name, find_attribute(name), self)

    # --- asking: awaited in async code, blocking in code on a thread ---

    @overload
    def ask(self, key: str, message: str, schema: type[T]) -> PendingAnswer[T | None]: ...
    @overload
    def ask(
        self, key: str, message: str, schema: Mapping[str, Any] | None = None
    ) -> PendingAnswer[Answer]: ...
    def ask(self, key: str, message: str, schema: Mapping[str, Any] | type | None = None) -> Any:
        """Ask the user and return an Answer. `schema` describes the fields; without one, it is yes or no.

        If `schema` is a pydantic model, a dataclass or a TypedDict, return one of it, or None if the user
        declines. Its fields are text, numbers, booleans and choices.

        A client of 2026-07-28 repeats the call with the answer, and the function runs again from the start:
        ask before you act. `key` identifies the question within the call.
        """
        return self._ask_one(key, Elicitation(message) if schema is None else Elicitation(message, schema))

    def ask_url(self, key: str, message: str, url: str) -> Any:
        """Ask the user to open a page and return an Answer."""
        return self._ask_one(key, URLElicitation(message, url))

    def sample(self, key: str, messages: str | Any, *, max_tokens: int = 1024, **options: Any) -> Any:
        """Ask the client's model and return a SamplingResult. Options: `system`, and others of MCP."""
        system = options.pop("system", None)
        return self._ask_one(key, Sampling(messages, max_tokens, system, options))

    def roots(self, key: str = "roots") -> Any:
        """Return a list of `Root`: the folders that the client works in."""
        return self._ask_one(key, Roots())

    def ask_all(self, questions: Mapping[str, Question]) -> Any:
        """Ask several questions at once and return a mapping of replies by key."""
        return self._ask_any(questions, None)

    def close_stream(self) -> None:
        """Close the caller's connection without ending the call, if the client can fetch the rest later:
        over HTTP with 2025-11-25."""
        self._send(self.channel.close_stream)

    def _ask_one(self, key: str, question: Question) -> Any:
        return self._ask_any({key: question}, key)

    def _ask_any(self, questions: Mapping[str, Question], key: str | None) -> Any:
        questions, loaders = self._prepare(questions)
        asking = self._ask(questions, loaders, key)
        asked = self.asked = self.asked or []
        if self.loop is None or _running_loop() is self.loop:
            asked.append(asking)
            return PendingAnswer(asking, self._misuse)
        return self._run(asking)

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return something to be awaited; on a thread, wait for the result and return it."""
        running = _running_loop()
        if self.loop is None or running is self.loop:
            return coroutine
        if self.cancelled:
            coroutine.close()
            raise concurrent.futures.CancelledError
        if running is not None:  # a thread with a loop of its own
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self.loop))
        return self.wait_for(coroutine)

    def wait_for(self, coroutine: Coroutine[Any, Any, Any], *, is_cleanup: bool = False) -> Any:
        """Run a coroutine on the event loop of the call, while this thread waits, and return its result.

        It is cancelled with the call, unless it `is_cleanup`.
        """
        if self.loop is None or _running_loop() is not None:
            coroutine.close()
            raise RuntimeError(f"tool '{self.tool}' cannot wait for a coroutine on an event loop")
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:  # the loop was closed in the meantime
            coroutine.close()
            raise
        if is_cleanup:
            return future.result()
        self._waits_for = future
        if self.cancelled:  # in the meantime: `cancel` did not see the future
            future.cancel()
        try:
            return future.result()
        finally:
            self._waits_for = None

    def _prepare(
        self, questions: Mapping[str, Question]
    ) -> tuple[dict[str, Question], dict[str, Callable[[Any], Any]]]:
        """Return questions that can be sent, and loaders of typed answers. Raise ContextError for others."""
        prepared: dict[str, Question] = {}
        loaders: dict[str, Callable[[Any], Any]] = {}
        for key, question in questions.items():
            if type(key) is not str or not key or key.startswith(RESERVED):
                rule = f"be a non-empty string and must not begin with {RESERVED!r}"
                raise self._misuse(f"The key of a question must {rule}, got {_shorten(key)}")
            try:
                if isinstance(question, Elicitation) and self.read_form is not None:
                    schema, load = self.read_form(question.schema)
                    question = Elicitation(question.message, schema)
                    if load is not None:
                        loaders[key] = load
                _check_question(question)
            except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
                raise self._misuse(f"Question '{_shorten(key)[1:-1]}' cannot be asked: {error}") from None
            prepared[key] = question
        return prepared, loaders

    def _misuse(self, problem: str) -> ContextError:
        logger.warning("tool '%s': %s", self.tool, problem, extra={"tool_name": self.tool})
        return ContextError(f"Tool '{self.tool}' has an error: {problem}")

    async def _ask(
        self, questions: Mapping[str, Question], loaders: Mapping[str, Callable[[Any], Any]], key: str | None
    ) -> Any:
        if self.cancelled:
            raise CannotAskError("Cannot ask the user: the call has ended.")
        pause = self.pause
        if pause is not None:
            pause(True)
        try:
            replies: Mapping[str, Any] = await self.channel.ask(questions)
        finally:
            if pause is not None:
                pause(False)
        if loaders:
            replies = {name: _load_reply(name, reply, loaders.get(name)) for name, reply in replies.items()}
        return replies if key is None else replies[key]

    def _send(self, method: Any, *arguments: Any) -> None:
        if self.cancelled:
            return  # the caller has its answer already
        if self.loop is None or _running_loop() is self.loop:
            self._deliver(method, arguments)
            return
        try:
            self.loop.call_soon_threadsafe(self._deliver, method, arguments)
        except RuntimeError:
            pass  # the loop was closed in the meantime

    def _deliver(self, method: Any, arguments: tuple[Any, ...]) -> None:
        if self.cancelled:
            return  # it ended in the meantime
        try:
            method(*arguments)
        except Exception as error:  # a broken connection must not end the tool's work
            logger.warning(
                "tool '%s' could not send a message to its caller: %s",
                self.tool,
                type(error).__name__,
                extra={"tool_name": self.tool},
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _shorten(value: Any) -> str:
    return reprlib.repr(value)


def _check_question(question: Any) -> None:
    """Raise TypeError or ValueError for a question that cannot be sent."""
    if not isinstance(question, Question):
        raise TypeError(
            f"it is a {type(question).__name__}, not an Elicitation, URLElicitation, Sampling or Roots"
        )
    for name in ("message", "url", "system"):
        value = getattr(question, name, "")
        if not isinstance(value, str) and not (name == "system" and value is None):
            raise TypeError(f"its {name} must be a string, got {_shorten(value)}")
    if isinstance(question, Sampling):
        if type(question.max_tokens) is not int or question.max_tokens < 1:
            raise TypeError(f"max_tokens must be a positive integer, got {_shorten(question.max_tokens)}")
        codec.encode({**question.options, "messages": question.messages})


def _load_reply(key: str, reply: Any, load: Callable[[Any], Any] | None) -> Any:
    if load is None:
        return reply
    if not reply:
        return None
    try:
        return load(dict(reply.content))
    except (ValueError, ArithmeticError, AssertionError) as error:
        raise CannotAskError(f"The answer to '{key}' cannot be used: {error}") from None


_ELSEWHERE = {
    "client_id": "use ctx.principal.name",
    "delete_state": "use await ctx.set_state('key', None)",
    "elicit": "use ctx.ask('key', message, Model)",
    "elicit_url": "use ctx.ask_url('key', message, url)",
    "fastmcp": "use ctx.server",
    "lifespan_context": "use ctx.state",
    "list_roots": "use ctx.roots()",
    "mcp_server": "use ctx.server",
    "headers": "use ctx.request.headers",
    "request_context": "use ctx.state for what the lifespan yields, ctx.request for the HTTP request",
    "request_id": "use ctx.channel.request",
    "principal_state": "use await ctx.get_state('key', of='principal') and ctx.set_state",
    "session": "use ctx.ask, ctx.sample, ctx.roots, ctx.log or ctx.set_state",
    "session_id": "use ctx.set_state for what belongs to a session",
    "session_state": "use await ctx.get_state('key') and await ctx.set_state('key', value)",
    "user": "use ctx.principal",
}
"""What a Context of mcp or fastmcp has under other names."""


def find_attribute(name: str) -> str | None:
    """Return how something is called here that a Context does not have, None if it has it."""
    known = [item for item in (*dir(Context), *Context.__slots__) if not item.startswith("_")]
    if name in known or name.startswith("__"):
        return None
    return _ELSEWHERE.get(name) or suggest(name, known, "see the guide for what it has")


def find_misuse(error: BaseException) -> str | None:
    """Return how an exception of a tool shows that its code calls the Context wrongly, or None."""
    if isinstance(error, AttributeError) and isinstance(error.obj, Context):
        return str(error)
    if isinstance(error, AttributeError) and isinstance(error.obj, PendingAnswer):
        return NOT_AWAITED
    text = str(error) if isinstance(error, TypeError) else ""
    if PendingAnswer.__name__ in text:
        return NOT_AWAITED
    return f"ctx{text.removeprefix('Context')}" if text.startswith("Context.") else None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
