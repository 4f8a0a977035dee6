"""One address of a service of models: requests out, decoded objects in, trouble in words.

Sends the key and never shows it; waits and asks again where a service says that it is busy; reads streams of
events and whole answers alike, up to a size. Knows HTTP as far as `outbound` leaves any of it; refuses to
know what requests and answers say.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from toolcrib import codec
from toolcrib.agents.dialect import Json, text_in
from toolcrib.client.lines import Events, TooLongError
from toolcrib.errors import AgentError, APIError
from toolcrib.outbound import Outbound, Stream

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
        self._outbound = Outbound(base_url, headers={**own, **headers})
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
        events = Events(_MAX_EVENT_BYTES)
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

    def _decode_events(self, events: Events, chunk: bytes) -> list[Json | None]:
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
