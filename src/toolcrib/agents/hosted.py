"""Models behind an HTTP address: the provider that is the same for every dialect.

Keeps the conversation in the dialect's own form, has tools exported and calls routed back by
`catalog.export`, and makes events of turns. Knows that order of things; the dialect knows the words, the
service the wire.

What differs between models spoken to over HTTP, as pure functions of data.

A dialect writes requests and reads answers; a turn's reader takes one decoded object of the answer after the
other. Knows no sockets, no keys but the one it is handed, and trusts nothing that it reads.

One address of a service of models: requests out, decoded objects in, trouble in words.

Sends the key and never shows it; waits and asks again where a service says that it is busy; reads streams of
events and whole answers alike, up to a size. Knows HTTP as far as `outbound` leaves any of it; refuses to
know what requests and answers say.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlsplit

from toolcrib.agents.events import Event, Final, Token, ToolAnswer, ToolCall
from toolcrib.agents.provider import Status
from toolcrib.agents.session import SessionCtx
from toolcrib.catalog.export import Export, export
from toolcrib.catalog.export import ToolCall as RoutedCall
from toolcrib.client.http import EventReader, TooLongError
from toolcrib.errors import AgentError, APIError, ConfigurationError
from toolcrib.http_client import HTTPClient, Stream, is_loopback
from toolcrib.tool import Tool
from toolcrib.validation import codec

Json = dict[str, Any]
MAX_TURN_CHARS = 16 * 1024 * 1024
"""What one turn may say in all, arguments included; beyond it nobody counts any more."""


CUT_OFF = (
    "This call was cut off where the answer reached its greatest length: it was not run. Ask for less at once"
)


@dataclass(frozen=True, slots=True)
class Ask:
    """Everything that one request says."""

    model: str
    messages: Sequence[Json]
    tools: Sequence[Any]
    instructions: str | None
    streams: bool
    max_tokens: int | None
    temperature: float | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool call in the provider's own form; `flaw` says why it cannot be read. `wire_id` is what it goes by
    at the provider, where that gives any."""

    id: str
    name: str
    native: Json
    flaw: str | None = None
    wire_id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model has said in one turn. `message` is what it must be reminded of in the next."""

    message: Json
    text: str
    calls: Sequence[Asked] = ()
    reason: str = "stop"
    usage: Mapping[str, Any] | None = None


class TurnReader(Protocol):
    def feed(self, item: Json) -> Iterator[str]:
        """Take one object of the answer; the words in it come out. Raises AgentError."""
        ...

    def finish(self) -> Turn:
        """All there is. Raises AgentError where the answer broke off before its end."""
        ...


class Dialect(Protocol):
    name: str
    form: str
    """The name that `catalog.export` has for its tools."""
    base_url: str
    base_url_variable: str
    key_variables: Sequence[str]

    def path(self, model: str, streams: bool) -> str: ...

    def headers(self, key: str | None) -> dict[str, str]: ...

    def body(self, ask: Ask) -> Json: ...

    def say(self, role: str, text: str) -> Json:
        """A message of the user or of the model."""
        ...

    def bring_back(self, results: Sequence[Json]) -> list[Json]:
        """The messages that hold the results of a turn, which are in the provider's form already."""
        ...

    def read_turn(self) -> TurnReader: ...


# --- reading with caution ------------------------------------------------------------------------------


def mapping_in(item: Any, key: str) -> Json:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, dict) else {}


def items_in(item: Any, key: str) -> list[Json]:
    value = item.get(key) if isinstance(item, dict) else None
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def text_in(item: Any, key: str) -> str:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def read_object(text: str) -> tuple[Json, str | None]:
    """The arguments of a call that came as text, and what is wrong with them."""
    if not text.strip():
        return {}, None
    try:
        value = codec.parse(text.encode("utf-8", "replace"))
    except ValueError as error:
        return {}, f"The arguments are not JSON: {error}"
    if not isinstance(value, dict):
        return {}, "The arguments must be a JSON object"
    return value, None


@dataclass(slots=True)
class Pieces:
    """Texts that grow by pieces, all together bounded."""

    chars: int = 0
    parts: dict[Any, list[str]] = field(default_factory=dict)

    def add(self, key: Any, piece: str) -> None:
        self.chars += len(piece) + 1  # one more, so that pieces of nothing come to an end too
        if self.chars > MAX_TURN_CHARS:
            raise AgentError("the model says more than anybody could read", kind="limit")
        self.parts.setdefault(key, []).append(piece)

    def get(self, key: Any) -> str:
        return "".join(self.parts.get(key, ()))


def broken_off() -> AgentError:
    return AgentError("the answer broke off before its end", kind="cut", hint="ask again")


def service_error(item: Json) -> AgentError | None:
    """The error that a provider puts in the middle of an answer; all three write it alike."""
    error = item.get("error")
    if not error:
        return None
    words = text_in(error, "message") or (error if isinstance(error, str) else "it did not say why")
    kind = text_in(error, "type") or text_in(error, "status")
    is_busy = any(word in kind for word in ("overloaded", "rate_limit", "UNAVAILABLE", "EXHAUSTED"))
    return AgentError(f"the service broke off: {words[:500]}", kind="busy" if is_busy else "failed")


CONNECT_S = 15.0
RETRIES = 3
PAUSE_S = 0.5
"""Before the first repetition, where the service does not say how long; then twice as long each time."""
_MAX_ANSWER_BYTES = 32 * 1024 * 1024
_MAX_EVENT_BYTES = 16 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_SHOWN_CHARS = 300
_LATER = "ask again later"
_BUSY = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses that may be other ones a moment later."""


class Service:
    """`key_hint` says where the key comes from, `about` what the address is asked for: both for texts."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        key: str | None,
        key_hint: str,
        about: str,
        pause_s: float = PAUSE_S,
    ) -> None:
        own = {"accept-encoding": "identity"}  # what is compressed comes late
        self._outbound = HTTPClient(base_url, headers={**own, **headers})
        self._key = key
        self._key_hint = key_hint
        self._about = about
        self._pause_s = pause_s
        self.place = base_url.partition("://")[2].rpartition("@")[2].partition("/")[0]

    async def post(self, path: str, body: Json, deadline: float) -> AsyncGenerator[Json, None]:
        """The objects of the answer, as they come. Raises AgentError."""
        try:
            async with self._open(path, body, deadline) as answer, aclosing(self._read(answer)) as items:
                async for item in items:
                    yield item
        except APIError as error:
            raise self._explain(error) from None

    async def close(self) -> None:
        await self._outbound.aclose()

    # --- asking, and asking again ---

    @asynccontextmanager
    async def _open(self, path: str, body: Json, deadline: float) -> AsyncGenerator[Stream, None]:
        for attempt in range(RETRIES + 1):
            try:
                async with self._outbound.stream("POST", path, json=body, timeout_s=CONNECT_S) as answer:
                    if answer.status_code == 200:
                        yield answer
                        return
                    error = await self._refusal(answer)
                    may_repeat = answer.status_code in _BUSY
                    asked_s = _retry_after_s(answer.headers)
            except APIError as failure:
                if failure.reached:
                    raise
                error, may_repeat, asked_s = self._explain(failure), attempt == 0, None
            pause_s = self._pause_s * 2**attempt if asked_s is None else asked_s
            if not may_repeat or attempt == RETRIES:
                raise error
            if time.monotonic() + pause_s >= deadline:
                if asked_s is not None:
                    error.hint = f"it asks to wait {asked_s:g} s, which is longer than this answer may take"
                raise error
            await asyncio.sleep(pause_s)

    # --- reading ---

    async def _read(self, answer: Stream) -> AsyncGenerator[Json, None]:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html":
            raise self._garbled("answers with a web page", "is the address (base_url) right?")
        if kind.endswith("json"):
            for item in self._decode_all(await self._read_all(answer, _MAX_ANSWER_BYTES)):
                yield item
            return
        events = EventReader(_MAX_EVENT_BYTES)
        size = 0
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                if size > _MAX_ANSWER_BYTES:
                    raise self._too_long()
                for found in self._decode_events(events, chunk):
                    if found is None:
                        return
                    yield found
        for found in self._decode_events(events, b"\n\n"):  # the last one may lack its end
            if found is not None:
                yield found

    def _decode_events(self, events: EventReader, chunk: bytes) -> list[Json | None]:
        try:
            return [self._decode(event.data) for event in events.feed(chunk) if event.data.strip()]
        except TooLongError:
            raise self._too_long() from None

    def _decode(self, data: bytes) -> Json | None:
        """One event's object; None for the mark that nothing follows."""
        if data.strip() == b"[DONE]":
            return None
        try:
            value = codec.parse(data)
        except ValueError as error:
            raise self._garbled(f"sends what is not JSON ({error})", shown=data) from None
        if not isinstance(value, dict):
            raise self._garbled("sends what is no object", shown=data)
        return value

    def _decode_all(self, data: bytes) -> list[Json]:
        """A whole answer: one object, or a list of what a stream would have had."""
        try:
            value = codec.parse(data)
        except ValueError as error:
            raise self._garbled(f"answers with what is not JSON ({error})", shown=data) from None
        found = value if isinstance(value, list) else [value]
        if not found or not all(isinstance(item, dict) for item in found):
            raise self._garbled("answers with what is no object", shown=data)
        return found

    async def _read_all(self, answer: Stream, limit: int) -> bytes:
        body = bytearray()
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > limit:
                    raise self._too_long()
        return bytes(body)

    # --- trouble in words ---

    async def _refusal(self, answer: Stream) -> AgentError:
        status = answer.status_code
        try:
            said = self._words_in(await self._read_all(answer, _MAX_ERROR_BYTES))
        except (APIError, AgentError):
            said = ""
        try:
            phrase = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            phrase = str(status)
        told = f": {said}" if said else ""
        match status:
            case 401 | 403:
                words = f"{self.place} refuses access ({phrase}){told}"
                return AgentError(words, kind="access", hint=self._key_hint)
            case 404 | 405:
                hint = "are the model's name and the address (base_url) right?"
                words = f"{self.place} has no {self._about} ({phrase}){told}"
                return AgentError(words, kind="refused", hint=hint)
            case 429 | 503 | 529:
                return AgentError(f"{self.place} is busy ({phrase}){told}", kind="busy", hint=_LATER)
            case _ if status >= 500:
                return AgentError(f"{self.place} failed ({phrase}){told}", kind="failed", hint=_LATER)
            case _ if status >= 400:
                return AgentError(f"{self.place} refuses the request ({phrase}){told}", kind="refused")
            case _:
                return self._garbled(f"answers {phrase}", "is the address (base_url) right?")

    def _words_in(self, body: bytes) -> str:
        """What a service says about an error, in a line; a web page says nothing."""
        try:
            value: Any = codec.decode(body)
        except ValueError:
            text = body.decode("utf-8", "replace").strip()
            return "" if text.startswith("<") else self._scrub(text)
        value = value[0] if isinstance(value, list) and value else value
        error = value.get("error") if isinstance(value, dict) else None
        words = error if isinstance(error, str) else text_in(error, "message")
        return self._scrub(words or text_in(value, "message"))

    def _scrub(self, text: str) -> str:
        """In one line, short, and without the key, which some services repeat."""
        if self._key:
            text = text.replace(self._key, "***")
        return " ".join(text.split())[:_SHOWN_CHARS]

    def _garbled(self, words: str, hint: str | None = None, shown: bytes = b"") -> AgentError:
        excerpt = self._scrub(shown[:100].decode("utf-8", "replace"))
        return AgentError(
            f"{self.place} {words}" + (f": {excerpt}" if excerpt else ""), kind="garbled", hint=hint
        )

    def _too_long(self) -> AgentError:
        return AgentError(f"{self.place} answers with more than {_MAX_ANSWER_BYTES >> 20} MiB", kind="limit")

    def _explain(self, error: APIError) -> AgentError:
        words = str(error).partition(": ")[2] or str(error)
        if not error.reached:
            hint = "does the service run, and is the address (base_url) right?"
            return AgentError(words, kind="unreachable", hint=hint)
        return AgentError(words, kind="cut", hint="ask again")


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the service asks to wait: in seconds, in milliseconds, or until a date."""
    try:
        if text := headers.get("retry-after-ms"):
            return max(0.0, float(text) / 1000)
        text = headers.get("retry-after") or ""
        if text.replace(".", "", 1).isdigit():
            return float(text)
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else None
    except (ValueError, OverflowError):
        return None


class HostedModel:
    """A model at an address. `api_key` and `base_url` come from the environment where they are not given.

    `stream=False` asks for whole answers; `extra` is added to every request, in the service's own terms. A
    key from the environment is not sent over plain http to another machine.
    """

    dialect: Dialect

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
        pause_s: float = PAUSE_S,
    ) -> None:
        dialect = self._dialect = self.dialect
        self.name = dialect.name
        if not model or not isinstance(model, str):
            hint = "name one, as the service spells it"
            raise ConfigurationError(f"which model of {self.name}?", key="model", hint=hint)
        self.model = model
        self._base_url = (base_url or os.environ.get(dialect.base_url_variable) or dialect.base_url).rstrip(
            "/"
        )
        self._api_key = api_key
        self._streams = stream
        self._max_tokens, self._temperature = max_tokens, temperature
        self._headers, self._extra = dict(headers or {}), dict(extra or {})
        self._pause_s = pause_s
        self._session: SessionCtx | None = None
        self._service = self._make_service()  # a wrong address is said at once
        self._messages: list[Json] = []
        self._offer: tuple[Sequence[Tool], Export] | None = None
        self._asked: dict[str, RoutedCall] = {}
        self._is_working = False

    def __repr__(self) -> str:
        return f"<{self.name} {self.model} at {self._service.place}>"  # without the key

    @property
    def place(self) -> str:
        return self._service.place

    @property
    def status(self) -> Status:
        if self._session is None:
            return "stopped"
        return "working" if self._is_working else "ready"

    def _make_service(self) -> Service:
        dialect = self._dialect
        key = self._api_key or self._key_in_environment()
        named = " or ".join(dialect.key_variables)
        whence = "api_key" if self._api_key else named
        hint = f"is the key right? It is from {whence}" if key else f"set {named}"
        return Service(
            self._base_url,
            headers={**dialect.headers(key), **self._headers},
            key=key,
            key_hint=hint,
            about=f"model '{self.model}' there",
            pause_s=self._pause_s,
        )

    def _key_in_environment(self) -> str | None:
        parts = urlsplit(self._base_url)
        host = parts.hostname or ""
        if parts.scheme != "https" and not is_loopback(host):
            return None
        return next((os.environ[name] for name in self._dialect.key_variables if os.environ.get(name)), None)

    # --- the conversation ---

    async def start(self, session: SessionCtx) -> None:
        self._service = self._make_service()
        if self._base_url == self._dialect.base_url and not (self._api_key or self._key_in_environment()):
            names = " or ".join(self._dialect.key_variables)
            raise AgentError(f"there is no key for {self.name}", kind="access", hint=f"set {names}")
        self._session, self._offer = session, None
        self._messages = [self._dialect.say(item.role, item.text) for item in session.messages]

    async def send(self, text: str) -> None:
        self._is_working = True
        self._messages.append(self._dialect.say("user", text))

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        offer = self._exported()
        told = [offer.result_for(self._asked[item.call.id], item.result) for item in answers]
        self._messages += self._dialect.bring_back(told)

    async def stop(self) -> None:
        self._session, self._is_working, self._messages = None, False, []
        await self._service.close()

    async def events(self) -> AsyncGenerator[Event, None]:
        if self._session is None:
            raise AgentError(f"{self.name} was not started", kind="died")
        ask = Ask(
            self.model,
            self._messages,
            self._exported().tools,
            self._session.instructions,
            self._streams,
            self._max_tokens,
            self._temperature,
        )
        body = {**self._dialect.body(ask), **self._extra}
        reader = self._dialect.read_turn()
        path = self._dialect.path(self.model, self._streams)
        deadline = time.monotonic() + self._session.limits.turn_s
        async with aclosing(self._service.post(path, body, deadline)) as items:
            async for item in items:
                for text in reader.feed(item):
                    yield Token(text)
        for event in self._conclude(reader.finish()):
            yield event

    def _conclude(self, turn: Turn) -> list[Event]:
        self._messages.append(turn.message)
        if turn.calls:
            self._asked = {call.id: self._route(call) for call in turn.calls}
            return [_to_event(given, call) for given, call in self._asked.items()]
        self._is_working = False
        return [Final(turn.text, turn.reason, turn.usage)]

    # --- tools, in and out of the provider's form ---

    def _exported(self) -> Export:
        if self._session is None:
            raise AgentError(f"{self.name} was not started", kind="died")
        if self._offer is None or self._offer[0] is not self._session.tools:
            # Other servers that speak the same dialect know no strict mode.
            strict = self._base_url == self._dialect.base_url
            tools = self._session.tools
            self._offer = tools, export(tools, to=self._dialect.form, strict=strict)
        return self._offer[1]

    def _route(self, asked: Asked) -> RoutedCall:
        """The call under the tool's own name, with arguments as the tool takes them."""
        if asked.flaw is None and (found := self._exported().read_call(asked.native)):
            return found[0]
        flaw = asked.flaw or "This call cannot be read"
        return RoutedCall(asked.wire_id, asked.name, {}, asked.name or "unnamed", flaw)


def _to_event(given: str, call: RoutedCall) -> ToolCall:
    return ToolCall(given, call.name, call.arguments, call.error)
