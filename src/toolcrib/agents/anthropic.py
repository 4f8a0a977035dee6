"""The dialect of the messages API: an answer is a list of blocks, and a stream tells how each one grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolcrib.agents.hosted import (
    CUT_OFF,
    Ask,
    Asked,
    Json,
    Pieces,
    Turn,
    broken_off,
    items_in,
    mapping_in,
    read_object,
    service_error,
    text_in,
)

_VERSION = "2023-06-01"
_MAX_TOKENS = 8192
"""The API wants a number; this one every model takes."""
_REASONS = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refused"}
_CUT = ("max_tokens", "model_context_window_exceeded")
_GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class Anthropic:
    name = "anthropic"
    form = "anthropic"
    base_url = "https://api.anthropic.com"
    base_url_variable = "ANTHROPIC_BASE_URL"
    key_variables: Sequence[str] = ("ANTHROPIC_API_KEY",)

    def path(self, model: str, streams: bool) -> str:  # noqa: ARG002
        return "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": _VERSION} | ({"x-api-key": key} if key else {})

    def body(self, ask: Ask) -> Json:
        body: Json = {
            "model": ask.model,
            "max_tokens": ask.max_tokens or _MAX_TOKENS,
            "messages": list(ask.messages),
            "stream": ask.streams,
        }
        if ask.instructions:
            body["system"] = ask.instructions
        if ask.tools:
            body["tools"] = list(ask.tools)
        if ask.temperature is not None:
            body["temperature"] = ask.temperature
        return body

    def say(self, role: str, text: str) -> Json:
        return {"role": "assistant" if role == "model" else "user", "content": text or "(nothing)"}

    def bring_back(self, results: Sequence[Json]) -> list[Json]:
        return [{"role": "user", "content": list(results)}]  # all results of a turn stand in one message

    def read_turn(self) -> AnthropicTurn:
        return AnthropicTurn()


class AnthropicTurn:
    """Reads the events of a stream, and a whole message."""

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._blocks: dict[int, Json] = {}
        self._reason = ""
        self._usage: Json = {}

    def feed(self, item: Json) -> Iterator[str]:
        match item.get("type"):
            case "error":
                raise service_error(item) or broken_off()
            case "message":
                for index, block in enumerate(items_in(item, "content")):
                    yield from self._begin(index, block)
                self._note(item, item)
            case "message_start":
                self._note({}, mapping_in(item, "message"))
            case "content_block_start" if isinstance(at := item.get("index"), int):
                yield from self._begin(at, mapping_in(item, "content_block"))
            case "content_block_delta" if isinstance(at := item.get("index"), int):
                yield from self._grow(at, mapping_in(item, "delta"))
            case "message_delta":
                self._note(mapping_in(item, "delta"), item)
            case _ if error := service_error(item):
                raise error

    def _note(self, reasons: Json, item: Json) -> None:
        self._reason = text_in(reasons, "stop_reason") or self._reason
        self._usage |= mapping_in(item, "usage")

    def _begin(self, index: int, block: Json) -> Iterator[str]:
        self._blocks[index] = dict(block)
        for key in ("text", "thinking", "signature"):
            self._pieces.add((index, key), text_in(block, key))
        if block.get("type") == "text" and text_in(block, "text"):
            yield text_in(block, "text")

    def _grow(self, index: int, delta: Json) -> Iterator[str]:
        kind = text_in(delta, "type") if index in self._blocks else ""
        if kind == "input_json_delta":
            self._pieces.add((index, "input"), text_in(delta, "partial_json"))
        elif key := _GROWING.get(kind):
            self._pieces.add((index, key), text_in(delta, key))
            if key == "text" and text_in(delta, key):
                yield text_in(delta, key)

    def finish(self) -> Turn:
        if not self._reason:
            raise broken_off()
        content: list[Json] = []
        calls: list[Asked] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            match block.get("type"):
                case "text":
                    if text := self._pieces.get((index, "text")):  # an empty one would be refused
                        content.append({"type": "text", "text": text})
                case "thinking":
                    own = {key: self._pieces.get((index, key)) for key in ("thinking", "signature")}
                    content.append({"type": "thinking", **own})
                case "tool_use":
                    calls.append(self._read_call(index, block, {call.id for call in calls}))
                    content.append(calls[-1].native)
                case _:
                    content.append(block)
        text = "".join(self._pieces.get((index, "text")) for index in sorted(self._blocks))
        message = {"role": "assistant", "content": content or "(nothing)"}
        return Turn(message, text, calls, _REASONS.get(self._reason, "stop"), self._usage or None)

    def _read_call(self, index: int, block: Json, used: set[str]) -> Asked:
        given, name = text_in(block, "id"), text_in(block, "name")
        if not given or given in used:
            given = f"toolu_{index}"
        written, flaw = self._pieces.get((index, "input")), None
        arguments = block.get("input")
        if written or not isinstance(arguments, dict):
            arguments, flaw = read_object(written)
        if self._reason in _CUT and index == max(self._blocks):
            arguments, flaw = {}, CUT_OFF
        flaw = flaw or (None if name else "The call has no name")
        native = {"type": "tool_use", "id": given, "name": name or "unnamed", "input": arguments}
        return Asked(given, name, native, flaw, given)
