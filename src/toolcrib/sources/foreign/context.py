"""The other library's server, Context and session, backed by ours.

The context is also set as the current one, so `get_context()`, injected parameters and calls of other tools
of the same server work as usual.

Their Context delegates to these two objects. An unsupported session method raises an error that says so.
Result classes are looked up among the modules already loaded.

One task enters and leaves the lifespan, since task groups and clients opened there must be closed by the
task that opened them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar, Token
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol

from toolcrib.context import Answer, Completion, Context, Folder, Folders, Form, Prompt, Question, Visit
from toolcrib.errors import ToolError
from toolcrib.sources.foreign.recognition import Library

SPOKEN = "2025-11-25"
"""The revision their code is told of: the newest in which a server asks, as all their asking methods do."""


class NotLentError(ToolError, AttributeError):
    """Their code reaches for something that toolcrib cannot give it. An AttributeError too, so that
    `hasattr` and `getattr` with a default are right."""

    code = "not-lent"


def refuse(name: str) -> NoReturn:
    raise NotLentError(f"This tool uses {name}, which is not there when toolcrib serves it.")


class Meta(dict[str, Any]):
    """The `_meta` of a request: a mapping to some of their code, an object to other."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class Request:
    """What their code calls the request context."""

    method = "tools/call"
    protocol_version = SPOKEN
    params = None
    request = None
    close_standalone_sse_stream = None
    experimental = None

    def __init__(self, context: Context, lifespan_context: Any) -> None:
        self.lifespan_context = lifespan_context
        self._context = context
        self._session: Session | None = None
        self._id: str | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            self._session = Session(self._context)
        return self._session

    @property
    def request_id(self) -> str:
        if self._id is None:
            self._id = secrets.token_hex(8)
        return self._id

    @property
    def meta(self) -> Meta:
        token = self.request_id
        return Meta(progress_token=token, progressToken=token)

    @property
    def _srctx(self) -> Request:
        return self

    async def close_sse_stream(self) -> None:
        self._context.close_stream()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"ctx.request_context.{name}")


class Session:
    """What their code calls the session: progress, log lines and questions go through our Context."""

    protocol_version = SPOKEN
    client_params = None
    client_capabilities = None
    can_send_request = False  # else resolvers look into the capabilities first, which only the channel knows
    _connection = None

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asked = 0

    # --- telling ---

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        self._context.progress(progress, total, message)

    async def send_progress_notification(
        self,
        progress_token: Any,  # noqa: ARG002 - the call knows its own
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: Any = None,  # noqa: ARG002
    ) -> None:
        self._context.progress(progress, total, message)

    async def send_log_message(
        self,
        level: str,
        data: Any,
        logger: str | None = None,  # noqa: ARG002 - ours is the tool's name
        related_request_id: Any = None,  # noqa: ARG002
    ) -> None:
        if dataclasses.is_dataclass(data) and not isinstance(data, type):  # fastmcp's LogData
            data = {key: value for key, value in dataclasses.asdict(data).items() if value is not None}
        self._context.log(level, data)

    # --- asking ---

    async def elicit_form(
        self,
        message: str,
        requested_schema: Mapping[str, Any] | None = None,
        related_request_id: Any = None,  # noqa: ARG002
        **older: Any,
    ) -> Any:
        schema = requested_schema if requested_schema is not None else older.get("requestedSchema")
        return await self._ask(Form(message) if schema is None else Form(message, schema))

    elicit = elicit_form

    async def elicit_url(
        self,
        message: str,
        url: str,
        elicitation_id: str,  # noqa: ARG002 - gone from the protocol
        related_request_id: Any = None,  # noqa: ARG002
    ) -> Any:
        return await self._ask(Visit(message, url))

    async def create_message(self, messages: Any, *, max_tokens: int, **options: Any) -> Any:
        options.pop("related_request_id", None)
        params = {"messages": to_wire(messages), "maxTokens": max_tokens}
        for name, value in options.items():
            if value is not None:
                first, *rest = name.split("_")
                params[first + "".join(word.capitalize() for word in rest)] = to_wire(value)
        return await self._ask(question_of("sampling/createMessage", params))

    async def list_roots(self) -> Any:
        return await self._ask(Folders())

    async def send_request(self, request: Any, result_type: Any = None, *_: Any, **__: Any) -> Any:
        root = getattr(request, "root", request)  # the SDK before 2.0 wraps it
        dumped = to_wire(root)
        return await self._ask(question_of(dumped["method"], dumped.get("params") or {}), result_type)

    def check_client_capability(self, capability: Any) -> bool:  # noqa: ARG002
        return False

    async def _ask(self, question: Question, result_type: Any = None) -> Any:
        # Numbered in the order of asking: a client of 2026-07-28 makes the call again, and the same
        # questions come up in the same order.
        self._asked += 1
        kind = type(question).__name__.lower()
        key = kind if self._asked == 1 else f"{kind}-{self._asked}"
        replies = await self._context.ask_all({key: question})
        return answer_of(question, replies[key], result_type)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(f"ctx.session.{name}")


class Bus:
    """Where their code announces changes. Those who listen to their server are not there."""

    async def publish(self, event: Any) -> None:
        refuse(f"ctx.notify_*() ({type(event).__name__})")

    def subscribe(self, listener: Callable[[Any], None]) -> NoReturn:  # noqa: ARG002
        refuse("subscriptions")


# --- questions, from their spelling and back ---------------------------------------------------------


def to_wire(value: Any) -> Any:
    """Their models as they are spelt on the wire."""
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def question_of(method: str, params: Mapping[str, Any]) -> Question:
    """A request of theirs to a client, as a question of ours."""
    given = dict(params)
    given.pop("_meta", None)
    if method == "roots/list":
        return Folders()
    if method == "elicitation/create":
        if given.get("mode") == "url":
            return Visit(given["message"], given["url"])
        return Form(given["message"], given["requestedSchema"])
    if method == "sampling/createMessage":
        messages, limit = given.pop("messages"), given.pop("maxTokens", 1024)
        return Prompt(messages, limit, given.pop("systemPrompt", None), given)
    refuse(f"the request {method}")


def answer_of(question: Question, reply: Any, result_type: Any = None) -> Any:
    """A reply of ours as the class of theirs that stands for it."""
    types = sys.modules.get("mcp_types") or sys.modules["mcp.types"]
    match question, reply:
        case Form() | Visit(), Answer(action, content):
            accepted = isinstance(question, Form) and action == "accept"
            raw: dict[str, Any] = {"action": action, "content": dict(content) if accepted else None}
            made = result_type or types.ElicitResult
        case Prompt(), Completion(content, role, model, stop):
            # The SDK refuses a result that names no model; some clients name none.
            raw = {"role": role, "content": content, "model": model or "unknown", "stopReason": stop}
            usual = types.CreateMessageResult
            several = getattr(types, "CreateMessageResultWithTools", usual)
            made = result_type or (several if isinstance(content, list) else usual)
        case Folders(), list():
            raw = {"roots": [_root(folder) for folder in reply]}
            made = result_type or types.ListRootsResult
        case _:
            raise TypeError(f"{type(reply).__name__} answers no {type(question).__name__}")
    return made.model_validate({key: value for key, value in raw.items() if value is not None})


def _root(folder: Folder) -> dict[str, Any]:
    return {"uri": folder.uri} if folder.name is None else {"uri": folder.uri, "name": folder.name}


class Guest:
    """A server of theirs. `open` enters its lifespan, `close` leaves it."""

    def __init__(self, server: Any, library: Library) -> None:
        self.server = server
        self.library = library
        self.name: str = server.name
        self._value: Any = None
        self._life: Lifespan | None = None

    @property
    def lifespan_context(self) -> Any:
        """What the lifespan gave; an empty dict where there is none."""
        life = self._life
        if life is not None and life.task.done():
            raise ToolError(f"The lifespan of {self.name} ended before this call.")
        return {} if life is None else life.value

    async def open(self) -> None:
        manager = self._lifespan()
        if manager is None:
            return
        self._life = life = Lifespan(manager)
        try:
            await life.begin()
        except BaseException:
            self._life = None
            raise

    async def close(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            await life.end()

    def _lifespan(self) -> AbstractAsyncContextManager[Any] | None:
        if self.library == "fastmcp":
            # Enters the lifespans of mounted servers and providers too.
            entered = getattr(self.server, "_lifespan_manager", None)
            return _entered(self.server) if entered is not None else self.server._lifespan(self.server)
        lifespan = self.server.settings.lifespan
        return None if lifespan is None else lifespan(self.server)


@contextlib.asynccontextmanager
async def _entered(server: Any) -> AsyncIterator[Any]:
    async with server._lifespan_manager():
        value = getattr(server, "_lifespan_result", None)
        yield {} if value is None else value


class Lifespan:
    """A context manager that is entered and left in one task."""

    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self.value: Any = None
        self._manager = manager
        self.loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self.task = self.loop.create_task(self._live(), name="lifespan of a foreign server")

    async def _live(self) -> None:
        async with self._manager as value:
            self.value = value
            self._ready.set()
            await self._over.wait()

    async def begin(self) -> None:
        """Wait until it is entered. Raises what entering raises; who stops waiting stops it."""
        ready = self.loop.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self.task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        finally:
            ready.cancel()
        if self.task.done():
            await self.task
            raise RuntimeError("the lifespan ended at once")

    async def end(self) -> None:
        """Leave it, on the loop it lives on. Raises what leaving raises."""
        if self.loop is asyncio.get_running_loop():
            self._over.set()
            await self.task
        elif not self.loop.is_closed():
            ended = asyncio.run_coroutine_threadsafe(self.end(), self.loop)
            await asyncio.wrap_future(ended)
        # Where its loop is closed, the task was cancelled with it, and has left already.


_BUS = Bus()


class Lending(Protocol):
    """Makes the Context that a call of another library's server gets."""

    @property
    def is_ambient(self) -> bool:
        """Whether code may look for the current Context without asking for it in a parameter."""
        ...

    def lend(self, context: Context) -> AbstractContextManager[Any]: ...


class Lender:
    """Makes the Context of one server. `guest` is the server that was handed over; `server` is that one, or
    one that is mounted in it."""

    def __init__(self, guest: Guest, server: Any) -> None:
        self._guest = guest
        self._server = server
        self._make = _maker(guest, server)
        self._places = _Places(guest, server) if guest.library == "fastmcp" else None

    @property
    def is_ambient(self) -> bool:
        """Whether code may look for the current Context without asking for it in a parameter."""
        return self._places is not None

    def lend(self, context: Context) -> Loan:
        """Their Context of this call, for a `with` statement."""
        request = Request(context, self._guest.lifespan_context)
        return Loan(self._make(request), request, self._places)


class Loan:
    """Their Context, and the current one as long as it is lent."""

    __slots__ = ("_places", "_request", "_theirs", "_tokens")

    def __init__(self, theirs: Any, request: Request, places: _Places | None) -> None:
        self._theirs = theirs
        self._request = request
        self._places = places
        self._tokens: list[tuple[ContextVar[Any], Token[Any]]] = []

    def __enter__(self) -> Any:
        if self._places is not None:
            self._tokens = self._places.fill(self._theirs, self._request)
        return self._theirs

    def __exit__(self, *_: object) -> None:
        for variable, token in reversed(self._tokens):
            try:
                variable.reset(token)
            except ValueError:
                pass  # the call was let go and ends in a task of its own, whose variables nobody else sees


def give_answers(theirs: Any, answers: Any, state: str | None) -> None:
    """What a function finds in its Context that asked by returning questions."""
    if hasattr(type(theirs), "_task_input_responses") or hasattr(theirs, "_task_input_responses"):
        theirs._task_input_responses, theirs._task_request_state = answers, state
    else:
        theirs._input_params = SimpleNamespace(input_responses=answers, request_state=state)


def _maker(guest: Guest, server: Any) -> Any:
    """What makes a Context of theirs out of a request."""
    if guest.library == "fastmcp":
        fast = sys.modules["fastmcp.server.context"].Context
        return lambda _: fast(fastmcp=server)
    home = next(cls for cls in type(server).__mro__ if cls.__name__ in ("MCPServer", "FastMCP"))
    made = vars(sys.modules[home.__module__])["Context"]
    if home.__name__ == "FastMCP":
        return lambda request: made(request_context=request, fastmcp=server)
    return lambda request: made(request_context=request, mcp_server=server, subscriptions=_BUS)


class _Places:
    """Where fastmcp looks for the current Context, server and request."""

    def __init__(self, guest: Guest, server: Any) -> None:
        self._root = guest.server
        self._home = weakref.ref(server)
        self._context: ContextVar[Any] = sys.modules["fastmcp.server.context"]._current_context
        found = sys.modules.get("fastmcp.server.dependencies")
        self._current: ContextVar[Any] | None = getattr(found, "_current_server", None)
        request = getattr(found, "fastmcp_request_ctx", None)
        if request is None:  # of fastmcp before 4, which has the SDK's
            request = getattr(sys.modules.get("mcp.server.lowlevel.server"), "request_ctx", None)
        self._request: ContextVar[Any] | None = request

    def fill(self, theirs: Any, request: Request) -> list[tuple[ContextVar[Any], Token[Any]]]:
        tokens = [(self._context, self._context.set(theirs))]
        if self._request is not None:
            tokens.append((self._request, self._request.set(request)))
        if self._current is not None:
            tokens.append((self._current, self._current.set(self._home)))
        shared = getattr(self._root, "_shared_context_snapshot", None)  # what the lifespan opened for all
        for variable, value in (shared or {}).items():
            tokens.append((variable, variable.set(value)))
        return tokens
