"""Models behind an HTTP API, reached through the provider's own SDK.

The SDK builds requests and decodes answers. Its requests go through `ModelTransport`, which adds the key,
retries when the service is busy, limits the size of answers and raises AgentError for failures. So every
provider behaves the same, and no SDK has a key that it could log.

A provider is a subclass of `HostedModel` that translates between our events and the SDK's types.
"""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import urlsplit

from toolcrib.agents.provider import Event, Final, SessionCtx, Status, Token, ToolAnswer, ToolCall
from toolcrib.catalog.export import Export, export
from toolcrib.catalog.export import ToolCall as ExportedCall
from toolcrib.errors import AgentError, APIError, ConfigurationError
from toolcrib.http_client import (
    HTTPClient,
    Stream,
    engine_client,
    engine_response,
    is_loopback,
    parse_retry_after,
)
from toolcrib.tool import Tool
from toolcrib.validation import codec

Json = dict[str, Any]
CUT_OFF = "This call was cut off at the maximum length of an answer and was not run. Ask for less at once"
_CHECK_URL = "check base_url"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call in the provider's format. `problem` says why it cannot be run."""

    id: str
    name: str
    native: Json
    problem: str | None = None
    native_id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the model. `message` is sent back to it with the next request.

    `reason` is that of `Final`, or empty if the answer ended before it was complete.
    """

    message: Any
    text: str
    calls: Sequence[ModelCall] = ()
    reason: str = "stop"
    usage: Mapping[str, Any] | None = None


def argument_problem(text: str) -> str | None:
    """Return the problem with the arguments of a call, given as JSON text, or None."""
    if not text.strip():
        return None
    try:
        value = codec.parse(text.encode("utf-8", "replace"))
    except ValueError as error:
        return f"The arguments are not JSON: {error}"
    return None if isinstance(value, dict) else "The arguments must be a JSON object"


# --- HTTP ---------------------------------------------------------------------------------------------

_CONNECT_S = 15.0
_RETRIES = 3
_RETRY_PAUSE_S = 0.5
"""The pause before the first retry, unless the service names one; it doubles with each retry."""
_MAX_ANSWER_BYTES = 32 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_MAX_SHOWN = 300
_BUSY = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Status codes after which a request is retried."""
_BUSY_ERRORS = ("overloaded", "rate_limit", "UNAVAILABLE", "EXHAUSTED")
# Set here or by the HTTP engine. An SDK would take them from environment variables.
_REPLACED_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "accept-encoding", "cookie", "authorization"}
    | {"x-api-key", "x-goog-api-key", "openai-organization", "openai-project"}
)


class ModelTransport:
    """The transport below an SDK's HTTP client, with the interface of an httpx transport.

    Failures are raised as AgentError, which SDKs pass on.
    """

    def __init__(
        self, base_url: str, *, key: str | None, key_hint: str, model: str, pause_s: float = _RETRY_PAUSE_S
    ) -> None:
        self._http = HTTPClient(base_url)
        self._key, self._key_hint, self._model, self._pause_s = key, key_hint, model, pause_s
        self._open_answers: list[AsyncExitStack] = []
        self.headers: dict[str, str] = {}
        self.streams = True
        self.deadline = 0.0
        self.host = base_url.partition("://")[2].rpartition("@")[2].partition("/")[0]

    async def handle_async_request(self, request: Any) -> Any:
        headers = {name: text for name, text in request.headers.items() if name not in _REPLACED_HEADERS}
        headers |= {"accept-encoding": "identity", **self.headers}  # compressed answers arrive late
        content = await request.aread()
        try:
            answer = await self._open(str(request.url), content, headers)
        except APIError as error:
            raise self._explain(error) from None
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html":
            raise self._unreadable("answers with a web page", _CHECK_URL)
        if self.streams and kind.endswith("json"):
            raise self._unreadable("does not stream its answers", "set stream=False")
        return engine_response(request, answer.status_code, {"content-type": kind}, self._read(answer))

    async def aclose(self) -> None:
        await self.close_answers()
        await self._http.aclose()

    async def close_answers(self) -> None:
        """Close the connections of answers that were not read to their end."""
        while self._open_answers:
            await self._open_answers.pop().aclose()

    async def _open(self, url: str, content: bytes, headers: Mapping[str, str]) -> Stream:
        for attempt in range(_RETRIES + 1):
            stack = AsyncExitStack()
            try:
                stream = self._http.stream(
                    "POST", url, content=content, headers=headers, timeout_s=_CONNECT_S
                )
                answer = await stack.enter_async_context(stream)
                if answer.status_code == 200:
                    self._open_answers.append(stack)
                    return answer
                async with stack:
                    error = await self._refusal(answer)
                may_retry, pause_s = answer.status_code in _BUSY, _retry_after_s(answer.headers)
            except APIError as failure:
                if failure.reached:
                    raise
                error, may_retry, pause_s = self._explain(failure), attempt == 0, None
            wait_s = self._pause_s * 2**attempt if pause_s is None else pause_s
            is_late = time.monotonic() + wait_s >= self.deadline
            if is_late and pause_s is not None:
                error.hint = f"the service asks to wait {pause_s:g} s, longer than this answer may take"
            if not may_retry or is_late or attempt == _RETRIES:
                raise error
            await asyncio.sleep(wait_s)
        raise AssertionError  # the last attempt returns or raises

    async def _read(self, answer: Stream, limit: int = _MAX_ANSWER_BYTES) -> AsyncGenerator[bytes, None]:
        size = 0
        try:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > limit:
                        raise AgentError(
                            f"{self.host} answers with more than {limit >> 20} MiB", kind="limit"
                        )
                    yield chunk
        except APIError as error:
            raise self._explain(error) from None

    # --- errors ---

    async def _refusal(self, answer: Stream) -> AgentError:
        status = answer.status_code
        try:
            body = b"".join([chunk async for chunk in self._read(answer, _MAX_ERROR_BYTES)])
            reason = self._error_text(body)
        except AgentError:
            reason = ""
        try:
            phrase = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            phrase = str(status)
        details = f" ({phrase}): {reason}" if reason else f" ({phrase})"
        match status:
            case 401 | 403:
                return AgentError(f"{self.host} denies access{details}", kind="access", hint=self._key_hint)
            case 404 | 405:
                hint = "check the name of the model and base_url"
                message = f"{self.host} has no model '{self._model}'{details}"
                return AgentError(message, kind="refused", hint=hint)
            case 429 | 503 | 529:
                return AgentError(f"{self.host} is busy{details}", kind="busy", hint="ask again later")
            case _ if status >= 500:
                return AgentError(f"{self.host} failed{details}", kind="failed", hint="ask again later")
            case _ if status >= 400:
                return AgentError(f"{self.host} refuses the request{details}", kind="refused")
            case _:
                return self._unreadable(f"answers {phrase}", _CHECK_URL)

    def _error_text(self, body: bytes) -> str:
        """Return the error message of a service on one line; nothing for a web page."""
        try:
            value: Any = codec.decode(body)
        except ValueError:
            text = body.decode("utf-8", "replace").strip()
            return "" if text.startswith("<") else self.redact(text)
        value = value[0] if isinstance(value, list) and value else value
        error = value.get("error", value) if isinstance(value, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        return self.redact(message) if isinstance(message, str) else ""

    def redact(self, text: str) -> str:
        """Return the text shortened, on one line, and without the key, which some services repeat."""
        return " ".join((text.replace(self._key, "***") if self._key else text).split())[:_MAX_SHOWN]

    def _unreadable(self, message: str, hint: str | None = None) -> AgentError:
        return AgentError(f"{self.host} {message}", kind="garbled", hint=hint)

    def _explain(self, error: APIError) -> AgentError:
        message = str(error).partition(": ")[2] or str(error)
        if error.reached:
            return AgentError(message, kind="cut", hint="ask again")
        return AgentError(
            message, kind="unreachable", hint=f"check that the service is running; {_CHECK_URL}"
        )


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long a service asks to wait."""
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)  # not standard, but more precise
    except (KeyError, ValueError):
        return parse_retry_after(headers)


# --- the provider -------------------------------------------------------------------------------------


class HostedModel(ABC):
    """A model behind an HTTP API.

    Args:
        model: The model's name, as the service spells it
        base_url: The service's address; by default from the environment, or the provider's own
        api_key: The key; by default from the environment, except over plain HTTP to another machine
        stream: False to get each answer as a whole
        max_tokens: The longest answer
        temperature: The sampling temperature
        headers: More headers for every request
        extra: More fields for the body of every request
        pause_s: The pause before the first retry
    """

    name: ClassVar[str]
    package: ClassVar[str]
    """The SDK, which is installed by `pip install 'toolcrib[NAME]'`."""
    default_url: ClassVar[str]
    url_variable: ClassVar[str]
    key_variables: ClassVar[Sequence[str]]

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        max_tokens: int | None = None,
        temperature: float | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        pause_s: float = _RETRY_PAUSE_S,
    ) -> None:
        if not model or not isinstance(model, str):
            hint = "give the name that the service uses"
            raise ConfigurationError(f"{self.name} needs a model", key="model", hint=hint)
        self.model = model
        self.base_url = (base_url or os.environ.get(self.url_variable) or self.default_url).rstrip("/")
        self.streams, self.max_tokens, self.temperature = stream, max_tokens, temperature
        self.extra = dict(extra or {})
        self._api_key, self._headers, self._pause_s = api_key, dict(headers or {}), pause_s
        self._session: SessionCtx | None = None
        self._transport = self._make_transport()  # checks the address
        self._client: Any = None
        self._api_error: tuple[type[Exception], ...] = ()
        self._messages: list[Any] = []
        self._exported: tuple[Sequence[Tool], Export] | None = None
        self._calls: dict[str, ExportedCall] = {}
        self._is_working = False

    def __repr__(self) -> str:
        return f"<{self.name} {self.model} at {self.label}>"  # without the key

    @property
    def label(self) -> str:
        return self._transport.host

    @property
    def status(self) -> Status:
        if self._session is None:
            return "stopped"
        return "working" if self._is_working else "ready"

    # --- for subclasses ---

    @abstractmethod
    def connect(self, http_client: Any) -> tuple[Any, type[Exception]]:
        """Import the SDK; return a client on `http_client` without retries, and the SDK's base error."""

    @abstractmethod
    def auth_headers(self, key: str) -> dict[str, str]: ...

    @abstractmethod
    def make_message(self, role: str, text: str) -> Any:
        """Return a message of the user or of the model."""

    @abstractmethod
    def make_result_messages(self, results: Sequence[Json]) -> list[Any]:
        """Return the messages with the results of a turn, which are in the provider's format already."""

    @abstractmethod
    def read_turn(
        self, client: Any, messages: list[Any], tools: Sequence[Any]
    ) -> AsyncGenerator[str | Turn, None]:
        """Request one turn; yield text as it arrives, then the Turn. May raise any exception of the SDK."""

    @property
    def instructions(self) -> str | None:
        return self._started().instructions

    # --- the provider contract ---

    async def start(self, session: SessionCtx) -> None:
        key = self._find_key()
        if self.base_url == self.default_url and not key:
            hint = f"set {' or '.join(self.key_variables)}"
            raise AgentError(f"there is no API key for {self.name}", kind="access", hint=hint)
        self._transport = self._make_transport()
        self._transport.headers = {**(self.auth_headers(key) if key else {}), **self._headers}
        self._transport.streams = self.streams
        http_client = engine_client(self._transport)
        try:
            self._client, error = await asyncio.to_thread(self.connect, http_client)  # imports take a while
        except ImportError as failure:
            message = f"provider '{self.name}' needs the package '{self.package}': {failure}"
            hint = f"pip install 'toolcrib[{self.name}]'"
            raise AgentError(message, kind="missing", hint=hint) from None
        except Exception as failure:
            message = f"the package '{self.package}' cannot be used: {type(failure).__name__}: {failure}"
            raise AgentError(
                message, kind="missing", hint=f"pip install -U 'toolcrib[{self.name}]'"
            ) from None
        self._api_error = (error,)
        self._session, self._exported = session, None
        self._messages = [self.make_message(item.role, item.text) for item in session.messages]

    async def send(self, text: str) -> None:
        self._is_working = True
        self._messages.append(self.make_message("user", text))

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        exported = self._export()
        results = [exported.result_for(self._calls[item.call.id], item.result) for item in answers]
        self._messages += self.make_result_messages(results)

    async def events(self) -> AsyncGenerator[Event, None]:
        self._transport.deadline = time.monotonic() + self._started().limits.turn_s
        turn: Turn | None = None
        try:
            reading = self.read_turn(self._client, self._messages, self._export().tools)
            async with aclosing(reading) as items:
                async for item in items:
                    if isinstance(item, Turn):
                        turn = item
                    elif item:
                        yield Token(item)
        except Exception as error:
            raise self._explain(error) from None
        finally:
            await self._transport.close_answers()
        if turn is None or not turn.reason:
            raise AgentError("the answer ended before it was complete", kind="cut", hint="ask again")
        for event in self._finish(turn):
            yield event

    async def stop(self) -> None:
        self._session, self._client, self._is_working, self._messages = None, None, False, []
        await self._transport.aclose()

    # --- details ---

    def _finish(self, turn: Turn) -> list[Event]:
        self._messages.append(turn.message)
        if turn.calls:
            self._calls = {call.id: self._resolve(call) for call in turn.calls}
            calls = self._calls.items()
            return [ToolCall(given, call.name, call.arguments, call.error) for given, call in calls]
        self._is_working = False
        return [Final(turn.text, turn.reason, turn.usage)]

    def _resolve(self, call: ModelCall) -> ExportedCall:
        """Return the call under the tool's own name, with arguments as the tool takes them."""
        if call.problem is None and (found := self._export().read_call(call.native)):
            return found[0]
        problem = call.problem or "This call cannot be read"
        return ExportedCall(call.native_id, call.name, {}, call.name or "unnamed", problem)

    def _export(self) -> Export:
        tools = self._started().tools
        if self._exported is None or self._exported[0] is not tools:
            # Other services with the same API do not know strict mode.
            strict = self.base_url == self.default_url
            self._exported = tools, export(tools, to=self.name, strict=strict)
        return self._exported[1]

    def _explain(self, error: Exception) -> AgentError:
        """Return an AgentError for an exception of the SDK: a reported error, or an unreadable answer."""
        for known in (error, error.__cause__):  # some SDKs wrap what a transport raises
            if isinstance(known, AgentError):
                return known
        if isinstance(error, self._api_error):
            details = f"{error!r} {getattr(error, 'body', '')} {getattr(error, 'details', '')}"
            kind = "busy" if any(word in details for word in _BUSY_ERRORS) else "failed"
            message = self._transport.redact(str(getattr(error, "message", None) or error))
            return AgentError(f"the service reports an error: {message}", kind=kind)
        message = self._transport.redact(f"{type(error).__name__}: {error}")
        return AgentError(
            f"cannot read the answer of {self.label} ({message})", kind="garbled", hint=_CHECK_URL
        )

    def _make_transport(self) -> ModelTransport:
        key, variables = self._find_key(), " or ".join(self.key_variables)
        origin = "api_key" if self._api_key else variables
        hint = f"check the key from {origin}" if key else f"set {variables}"
        return ModelTransport(self.base_url, key=key, key_hint=hint, model=self.model, pause_s=self._pause_s)

    def _find_key(self) -> str | None:
        if self._api_key:
            return self._api_key
        parts = urlsplit(self.base_url)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            return None
        return next((os.environ[name] for name in self.key_variables if os.environ.get(name)), None)

    def _started(self) -> SessionCtx:
        if self._session is None:
            raise AgentError(f"{self.name} was not started", kind="died")
        return self._session
