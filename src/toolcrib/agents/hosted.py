"""Models behind an HTTP address: the provider that is the same for every dialect.

Keeps the conversation in the dialect's own form, has tools exported and calls routed back by
`catalog.export`, and makes events of turns. Knows that order of things; the dialect knows the words, the
service the wire.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from toolcrib.address import is_loopback
from toolcrib.agents.dialect import Ask, Asked, Dialect, Json, Turn
from toolcrib.agents.event import Event, Final, Token, ToolAnswer, ToolCall
from toolcrib.agents.provider import Status
from toolcrib.agents.service import PAUSE_S, Service
from toolcrib.agents.session import SessionCtx
from toolcrib.catalog.export import Export, export
from toolcrib.catalog.export import ToolCall as RoutedCall
from toolcrib.errors import AgentError, ConfigurationError
from toolcrib.tool import Tool


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
