"""What differs between models spoken to over HTTP, as pure functions of data.

A dialect writes requests and reads answers; a turn's reader takes one decoded object of the answer after the
other. Knows no sockets, no keys but the one it is handed, and trusts nothing that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib import codec
from toolcrib.errors import AgentError

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
