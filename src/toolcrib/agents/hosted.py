"""Models behind an HTTP API: the providers `openai`, `anthropic` and `gemini`, on the providers' own SDKs.

The SDK sends requests, retries them when the service is busy, and decodes answers. A provider here is
a subclass of `HostedModel` that translates between our events and the types of its SDK.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, ClassVar

from toolcrib.agents.provider import Event, Final, SessionCtx, Status, Token, ToolAnswer, ToolCall
from toolcrib.catalog.export import Export, export
from toolcrib.catalog.export import ToolCall as ExportedCall
from toolcrib.catalog.export.base import read_arguments
from toolcrib.errors import AgentError, ConfigurationError
from toolcrib.http_client import Address, RefusedError, engine_client, is_loopback
from toolcrib.tool import Tool
from toolcrib.validation import codec

Json = dict[str, Any]
_RETRIES = 3
_NO_KEY = "no-key"
"""SDKs need a key; a local server ignores this one."""
_CUT_OFF = "This call was cut off at the maximum length of an answer and was not run. Ask for less at once"
_MAX_SHOWN = 300
_BUSY_ERRORS = ("overloaded", "rate_limit", "UNAVAILABLE", "EXHAUSTED")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the model. `message` is sent back to it with the next request, `calls` are as it made them.

    `reason` is that of `Final`, or empty if the answer ended before it was complete.
    """

    message: Any
    text: str
    calls: Sequence[Json] = ()
    reason: str = "stop"
    usage: Mapping[str, Any] | None = None


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
    ) -> None:
        if not model or not isinstance(model, str):
            hint = "give the name that the service uses"
            raise ConfigurationError(f"{self.name} needs a model", key="model", hint=hint)
        self.model = model
        self.base_url = (base_url or os.environ.get(self.url_variable) or self.default_url).rstrip("/")
        try:
            address = Address.parse(self.base_url)
        except RefusedError as error:
            raise ConfigurationError(f"invalid URL: {error}", key="base_url") from None
        self.label = address.authority
        self.streams, self.max_tokens, self.temperature = stream, max_tokens, temperature
        self.headers, self.extra = dict(headers or {}), dict(extra or {})
        self.is_private = address.scheme == "https" or is_loopback(address.host.strip("[]"))
        found = [api_key, *(os.environ.get(name) for name in self.key_variables if self.is_private)]
        self.key = next((key.strip() for key in found if key and key.strip()), None)
        if self.key and not (self.key.isascii() and self.key.isprintable()):
            raise ConfigurationError(f"the key of {self.name} has invalid characters", key="api_key")
        variables = " or ".join(self.key_variables)
        self._key_hint = f"check the key from {'api_key' if api_key else variables}"
        if not self.key:
            self._key_hint = f"set {variables}"
        self._session = SessionCtx()
        self._http_client: Any = None
        self._client: Any = None
        self._messages: list[Any] = []
        self._exported: tuple[Sequence[Tool], Export] | None = None
        self._calls: list[ExportedCall] = []
        self._is_working = False

    def __repr__(self) -> str:
        return f"<{self.name} {self.model} at {self.label}>"  # without the key

    @property
    def status(self) -> Status:
        if self._client is None:
            return "stopped"
        return "working" if self._is_working else "ready"

    # --- for subclasses ---

    @abstractmethod
    def connect(self, options: Json) -> Any:
        """Import the SDK and return its client. `options` are what most SDKs take."""

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
        return self._session.instructions

    # --- the provider contract ---

    async def start(self, session: SessionCtx) -> None:
        if self.base_url == self.default_url and not self.key:
            raise AgentError(f"there is no API key for {self.name}", kind="access", hint=self._key_hint)
        self._http_client = engine_client()
        options = {
            "api_key": self.key or _NO_KEY,
            "base_url": self.base_url,
            "http_client": self._http_client,
            "max_retries": _RETRIES,
            "default_headers": self.headers,
        }
        try:  # in a thread, because importing an SDK takes a second
            self._client = await asyncio.to_thread(self.connect, options)
        except ImportError as error:
            message = f"provider '{self.name}' needs the package '{self.package}': {error}"
            hint = f"pip install 'toolcrib[{self.name}]'"
            raise AgentError(message, kind="missing", hint=hint) from None
        except Exception as error:
            problem = f"{type(error).__name__}: {self._error_text(error)}"
            message = f"the package '{self.package}' cannot be used: {problem}"
            hint = f"pip install -U 'toolcrib[{self.name}]'"
            raise AgentError(message, kind="missing", hint=hint) from None
        if not self.is_private:
            # SDKs add headers from variables such as ANTHROPIC_CUSTOM_HEADERS and OPENAI_ORG_ID.
            self._client.organization = self._client.project = None
            self._client._custom_headers = self.headers
        self._session, self._exported = session, None
        self._messages = [self.make_message(item.role, item.text) for item in session.messages]

    async def send(self, text: str) -> None:
        self._is_working = True
        self._messages.append(self.make_message("user", text))

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        exported = self._export()
        results = [
            exported.result_for(call, item.result) for call, item in zip(self._calls, answers, strict=True)
        ]
        self._messages += self.make_result_messages(results)

    async def events(self) -> AsyncGenerator[Event, None]:
        turn: Turn | None = None
        try:
            reading = self.read_turn(self._client, self._messages, self._export().tools)
            async with aclosing(reading) as items:
                async for item in items:
                    if isinstance(item, Turn):
                        turn = item
                    elif item:
                        yield Token(item)
            if turn is not None and turn.reason:
                self._calls = self._read_calls(turn)
        except Exception as error:
            raise self._explain(error) from None
        if turn is None or not turn.reason:
            has_begun = turn is not None and (turn.text or turn.calls)
            hint = "ask again" if has_begun else "check base_url, or set stream=False if it cannot stream"
            raise AgentError("the answer ended before it was complete", kind="cut", hint=hint)
        self._messages.append(turn.message)
        for number, call in enumerate(self._calls, 1):
            yield ToolCall(call.id or f"call_{number}", call.name, call.arguments, call.error)
        if not self._calls:
            self._is_working = False
            yield Final(turn.text, turn.reason, turn.usage)

    async def stop(self) -> None:
        http_client, self._http_client = self._http_client, None
        self._client, self._is_working, self._messages = None, False, []
        if http_client is not None:
            await http_client.aclose()

    # --- details ---

    def _read_calls(self, turn: Turn) -> list[ExportedCall]:
        """Return the calls under the tools' own names, with arguments as the tools take them."""
        calls = self._export().read_call(list(turn.calls))
        if calls and turn.reason == "length":
            calls[-1] = replace(calls[-1], error=calls[-1].error or _CUT_OFF)
        return calls

    def _export(self) -> Export:
        tools = self._session.tools
        if self._exported is None or self._exported[0] is not tools:
            # Other services with the same API do not know strict mode.
            strict = self.base_url == self.default_url
            self._exported = tools, export(tools, to=self.name, strict=strict)
        return self._exported[1]

    def _explain(self, error: Exception) -> AgentError:
        """Return an AgentError for an exception of an SDK."""
        if isinstance(error, AgentError):
            return error
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        if isinstance(status, int) and status != 200:
            return self._explain_status(status, self._error_text(error))
        kinds = {kind.__name__ for item in (error, error.__cause__) for kind in type(item).__mro__}
        if kinds & {"ConnectError", "ConnectTimeout"}:
            hint = "check that the service is running; check base_url"
            return AgentError(f"cannot connect to {self.label}", kind="unreachable", hint=hint)
        if kinds & {"TransportError", "APIConnectionError"}:
            return AgentError(f"{self.label} closed the connection", kind="cut", hint="ask again")
        if "APIError" in kinds and "APIResponseValidationError" not in kinds:
            details = f"{error!r} {getattr(error, 'body', '')}"
            kind = "busy" if any(word in details for word in _BUSY_ERRORS) else "failed"
            return AgentError(f"the service reports an error: {self._error_text(error)}", kind=kind)
        message = (
            f"cannot read the answer of {self.label} ({type(error).__name__}: {self._error_text(error)})"
        )
        return AgentError(message, kind="garbled", hint="check base_url")

    def _explain_status(self, status: int, reason: str) -> AgentError:
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        hint: str | None
        match status:
            case 401 | 403:
                kind, problem, hint = "access", "denies access", self._key_hint
            case 404 | 405:
                kind, problem = "refused", f"has no model '{self.model}'"
                hint = "check the name of the model and base_url"
            case 429 | 503 | 529:
                kind, problem, hint = "busy", "is busy", "ask again later"
            case _ if status >= 500:
                kind, problem, hint = "failed", "failed", "ask again later"
            case _ if status >= 400:
                kind, problem, hint = "refused", "refuses the request", None
            case _:
                kind, problem, hint = "garbled", "gives an unexpected answer", "check base_url"
        message = f"{self.label} {problem} ({f'{status} {phrase}'.strip()}): {reason}"
        return AgentError(message, kind=kind, hint=hint)

    def _error_text(self, error: Exception) -> str:
        """Return the message of an error on one line, without the key, which some services repeat."""
        body = getattr(error, "body", None)
        inner = body.get("error", body) if isinstance(body, dict) else None
        text = inner.get("message") if isinstance(inner, dict) else None
        text = str(text or getattr(error, "message", None) or error)
        return " ".join((text.replace(self.key, "***") if self.key else text).split())[:_MAX_SHOWN]


# --- OpenAI -------------------------------------------------------------------------------------------

_OPENAI_REASONS = {"length": "length", "content_filter": "refused"}


class OpenAIModel(HostedModel):
    """Chat completions: OpenAI, or any service with `/chat/completions` at `base_url`."""

    name = "openai"
    package = "openai"
    default_url = "https://api.openai.com/v1"
    url_variable = "OPENAI_BASE_URL"
    key_variables = ("OPENAI_API_KEY",)

    def connect(self, options: Json) -> Any:
        import openai  # delayed: it takes a second

        return openai.AsyncOpenAI(**options)

    def make_message(self, role: str, text: str) -> Json:
        return {"role": "assistant" if role == "model" else role, "content": text}

    def make_result_messages(self, results: Sequence[Json]) -> list[Any]:
        return list(results)

    async def read_turn(
        self, client: Any, messages: list[Any], tools: Sequence[Any]
    ) -> AsyncGenerator[str | Turn, None]:
        system = [self.make_message("system", self.instructions)] if self.instructions else []
        request: Json = {"model": self.model, "messages": [*system, *messages], "stream": self.streams}
        if tools:
            request["tools"] = list(tools)
        if self.max_tokens is not None:
            request["max_completion_tokens"] = self.max_tokens
        if self.temperature is not None:
            request["temperature"] = self.temperature
        answer = await client.chat.completions.create(**request, extra_body=self.extra)
        turn = _OpenAITurn()
        if self.streams:
            async with answer:
                async for chunk in answer:
                    yield turn.add(chunk.to_dict(warnings=False))
        else:
            yield turn.add(answer.to_dict(warnings=False))
        yield turn.finish()


@dataclass(slots=True)
class _StreamedCall:
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _OpenAITurn:
    """Assembles the chunks of a streamed answer; an answer that is not streamed is one chunk.

    The SDK's own accumulator is not used: local servers leave out the index of a call, or send arguments
    as an object.
    """

    texts: list[str] = field(default_factory=list)
    reason: str = ""
    is_refusal: bool = False
    usage: Json | None = None
    calls: list[_StreamedCall] = field(default_factory=list)
    by_index: dict[Any, _StreamedCall] = field(default_factory=dict)

    def add(self, chunk: Json) -> str:
        """Take a chunk and return the text in it."""
        self.usage = chunk.get("usage") or self.usage
        added = ""
        for choice in (chunk.get("choices") or ())[:1]:
            piece = choice.get("delta") or choice.get("message") or {}
            refusal = piece.get("refusal") or ""
            self.is_refusal = self.is_refusal or bool(refusal)
            content = piece.get("content") or ""
            if isinstance(content, list):  # some servers send it in parts
                content = "".join(part.get("text") or "" for part in content)
            added += content + refusal
            for call in piece.get("tool_calls") or ():
                self._add_call(call)
            self.reason = choice.get("finish_reason") or self.reason
        self.texts.append(added)
        return added

    def _add_call(self, piece: Json) -> None:
        """Add to a call, whose pieces share an index. Some servers leave it out, or give it to two calls."""
        given, function = piece.get("id") or "", piece.get("function") or {}
        call = self.by_index.get(piece.get("index"))
        is_new = bool(given and call and call.id not in ("", given))
        if call is None or is_new or (piece.get("index") is None and function.get("name")):
            call = self.by_index[piece.get("index")] = _StreamedCall()
            self.calls.append(call)
        call.id = call.id or given
        call.name = call.name or function.get("name") or ""
        arguments = function.get("arguments") or ""
        call.pieces.append(arguments if isinstance(arguments, str) else codec.encode_text(arguments))

    def finish(self) -> Turn:
        calls: list[Json] = []
        sent_back: list[Json] = []
        for number, call in enumerate(self.calls, 1):
            is_taken = any(call.id == other["id"] for other in calls)
            given = f"call_{number}" if is_taken or not call.id else call.id
            arguments = "".join(call.pieces)
            function = {"name": call.name, "arguments": arguments or "{}"}
            calls.append({"id": given, "type": "function", "function": function})
            try:
                read_arguments(arguments)
            except ValueError:  # the service would refuse it
                function = {**function, "arguments": "{}"}
            sent_back.append({**calls[-1], "function": {**function, "name": call.name or "unnamed"}})
        text = "".join(self.texts)
        message: Json = {"role": "assistant", "content": text or (None if calls else "")}
        if calls:
            message["tool_calls"] = sent_back
        reason = "refused" if self.is_refusal else _OPENAI_REASONS.get(self.reason, "stop")
        return Turn(message, text, calls, self.reason and reason, self.usage)


# --- Anthropic ----------------------------------------------------------------------------------------

_ANTHROPIC_MAX_TOKENS = 8192
"""The API requires a number; every model accepts this one."""
_ANTHROPIC_REASONS = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refused"}


class AnthropicModel(HostedModel):
    """Anthropic's messages API, whose answers are lists of blocks."""

    name = "anthropic"
    package = "anthropic"
    default_url = "https://api.anthropic.com"
    url_variable = "ANTHROPIC_BASE_URL"
    key_variables = ("ANTHROPIC_API_KEY",)

    def connect(self, options: Json) -> Any:
        import anthropic  # delayed: it takes a second

        return anthropic.AsyncAnthropic(**options)

    def make_message(self, role: str, text: str) -> Json:
        return {"role": "assistant" if role == "model" else "user", "content": text or "(nothing)"}

    def make_result_messages(self, results: Sequence[Json]) -> list[Any]:
        return [{"role": "user", "content": list(results)}]  # all results of a turn are in one message

    async def read_turn(
        self, client: Any, messages: list[Any], tools: Sequence[Any]
    ) -> AsyncGenerator[str | Turn, None]:
        request: Json = {"model": self.model, "messages": messages}
        request["max_tokens"] = self.max_tokens or _ANTHROPIC_MAX_TOKENS
        if self.instructions:
            request["system"] = self.instructions
        if tools:
            request["tools"] = list(tools)
        # The SDK no longer has a parameter for the temperature; the API still takes one.
        extra = {"temperature": self.temperature} if self.temperature is not None else {}
        request["extra_body"] = {**extra, **self.extra}
        if self.streams:
            async with client.messages.stream(**request) as stream:
                async for text in stream.text_stream:
                    yield text
                message = await stream.get_final_message()
        else:
            message = await client.messages.create(**request)
        turn = _read_anthropic(message.to_dict(warnings=False))
        if not self.streams:
            yield turn.text
        yield turn


def _read_anthropic(message: Json) -> Turn:
    blocks = [block for block in message["content"] if block.get("text") != ""]  # the API refuses empty ones
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [block for block in blocks if block["type"] == "tool_use"]
    stop_reason = message.get("stop_reason") or ""
    reason = stop_reason and _ANTHROPIC_REASONS.get(stop_reason, "stop")
    sent_back = {"role": "assistant", "content": blocks or "(nothing)"}
    return Turn(sent_back, text, calls, reason, message.get("usage"))


# --- Gemini -------------------------------------------------------------------------------------------

_GEMINI_REASONS = {"MAX_TOKENS": "length"} | dict.fromkeys(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"), "refused"
)
_BAD_CALLS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")


class GeminiModel(HostedModel):
    """Google's generateContent, whose answers are lists of parts."""

    name = "gemini"
    package = "google-genai"
    default_url = "https://generativelanguage.googleapis.com"
    url_variable = "GOOGLE_GEMINI_BASE_URL"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    def connect(self, options: Json) -> Any:
        from google import genai  # delayed: it takes a second

        http_options: Any = {
            "base_url": options["base_url"],
            "httpx_async_client": options["http_client"],
            "headers": options["default_headers"],
            "extra_body": self.extra,
            "retry_options": {"attempts": options["max_retries"] + 1, "initial_delay": 0.5},
        }
        return genai.Client(api_key=options["api_key"], vertexai=False, http_options=http_options)

    def make_message(self, role: str, text: str) -> Json:
        return {"role": role, "parts": [{"text": text}]}

    def make_result_messages(self, results: Sequence[Json]) -> list[Any]:
        return [{"role": "user", "parts": list(results)}]

    async def read_turn(
        self, client: Any, messages: list[Any], tools: Sequence[Any]
    ) -> AsyncGenerator[str | Turn, None]:
        config: Json = {
            "system_instruction": self.instructions,
            "max_output_tokens": self.max_tokens,
            "temperature": self.temperature,
            "tools": [{"function_declarations": list(tools)}] if tools else None,
            "automatic_function_calling": {"disable": True},
        }
        request = {"model": self.model, "contents": messages, "config": config}
        turn = _GeminiTurn()
        if self.streams:
            async for chunk in await client.aio.models.generate_content_stream(**request):
                yield turn.add(chunk)
        else:
            yield turn.add(await client.aio.models.generate_content(**request))
        yield turn.finish()


@dataclass(slots=True)
class _GeminiTurn:
    """Collects the parts of an answer. They are sent back as they came, with their signatures."""

    parts: list[Json] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    reason: str = ""
    usage: Json | None = None

    def add(self, chunk: Any) -> str:
        """Take a chunk and return the text in it."""
        answer: Json = chunk.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
        self.usage = answer.get("usageMetadata") or self.usage
        if blocked := answer.get("promptFeedback", {}).get("blockReason"):
            raise AgentError(f"the service refused the question ({blocked})", kind="refused")
        added = ""
        for candidate in answer.get("candidates", ())[:1]:
            for part in candidate.get("content", {}).get("parts") or ():
                added += "" if part.get("thought") else part.get("text", "")
                if part.keys() == {"text"} and self.parts and self.parts[-1].keys() == {"text"}:
                    self.parts[-1] = {"text": self.parts[-1]["text"] + part["text"]}
                else:
                    self.parts.append(part)
            self.reason = candidate.get("finishReason") or self.reason
        self.texts.append(added)
        return added

    def finish(self) -> Turn:
        calls = [part for part in self.parts if "functionCall" in part]
        if self.reason in _BAD_CALLS and not calls:
            message = f"the model sent a malformed tool call ({self.reason})"
            raise AgentError(message, kind="garbled", hint="ask again, or ask a simpler question")
        sent_back = {"role": "model", "parts": self.parts or [{"text": ""}]}
        reason = self.reason and _GEMINI_REASONS.get(self.reason, "stop")
        return Turn(sent_back, "".join(self.texts), calls, reason, self.usage)
