"""The dialect of chat completions, which most services and local servers of models speak."""

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
from toolcrib.validation import codec

_REASONS = {"length": "length", "content_filter": "refused"}


class OpenAI:
    name = "openai"
    form = "openai"
    base_url = "https://api.openai.com/v1"
    base_url_variable = "OPENAI_BASE_URL"
    key_variables: Sequence[str] = ("OPENAI_API_KEY",)

    def path(self, model: str, streams: bool) -> str:  # noqa: ARG002
        return "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, ask: Ask) -> Json:
        before = [self.say("system", ask.instructions)] if ask.instructions else []
        body: Json = {"model": ask.model, "messages": [*before, *ask.messages], "stream": ask.streams}
        if ask.tools:
            body["tools"] = list(ask.tools)
        if ask.max_tokens is not None:
            body["max_completion_tokens"] = ask.max_tokens
        if ask.temperature is not None:
            body["temperature"] = ask.temperature
        return body

    def say(self, role: str, text: str) -> Json:
        return {"role": "assistant" if role == "model" else role, "content": text}

    def bring_back(self, results: Sequence[Json]) -> list[Json]:
        return list(results)

    def read_turn(self) -> OpenAITurn:
        return OpenAITurn()


class OpenAITurn:
    """Reads the chunks of a stream, and a whole answer as if it were one chunk."""

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._calls: list[dict[str, str]] = []
        self._by_index: dict[object, int] = {}
        self._reason = ""
        self._is_refusal = False
        self._usage: Json | None = None

    def feed(self, item: Json) -> Iterator[str]:
        if error := service_error(item):
            raise error
        self._usage = mapping_in(item, "usage") or self._usage
        for choice in items_in(item, "choices"):
            if choice.get("index", 0) not in (0, None):
                continue
            piece = mapping_in(choice, "delta") or mapping_in(choice, "message")
            for key in ("content", "refusal"):
                text = text_in(piece, key) or "".join(text_in(part, "text") for part in items_in(piece, key))
                if text:
                    self._is_refusal = self._is_refusal or key == "refusal"
                    self._pieces.add("text", text)
                    yield text
            for call in items_in(piece, "tool_calls"):
                self._take_call(call)
            self._reason = text_in(choice, "finish_reason") or self._reason

    def _take_call(self, call: Json) -> None:
        """A call comes in pieces that share an index. Servers leave it out, or give it to two calls."""
        given, index = text_in(call, "id"), call.get("index")
        function = mapping_in(call, "function")
        number = self._by_index.get(index) if isinstance(index, int) else None
        if not isinstance(index, int) and not given and not text_in(function, "name") and self._calls:
            number = len(self._calls) - 1  # more of the last one
        if number is None or (given and self._calls[number]["id"] not in ("", given)):
            number = len(self._calls)
            self._calls.append({"id": "", "name": ""})
            self._pieces.add("calls", "")
            if isinstance(index, int):
                self._by_index[index] = number
        known = self._calls[number]
        known["id"] = known["id"] or given
        known["name"] = known["name"] or text_in(function, "name")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = codec.encode_text(arguments)
        if isinstance(arguments, str):
            self._pieces.add(number, arguments)

    def finish(self) -> Turn:
        if not self._reason:
            raise broken_off()
        calls = []
        used: set[str] = set()
        for number, call in enumerate(self._calls):
            given = call["id"] if call["id"] and call["id"] not in used else f"call_{number + 1}"
            used.add(given)
            arguments = self._pieces.get(number)
            flaw = read_object(arguments)[1] or (None if call["name"] else "The call has no name")
            if self._reason == "length" and call is self._calls[-1] and not arguments.strip():
                flaw = flaw or CUT_OFF
            function = {"name": call["name"] or "unnamed", "arguments": "{}" if flaw else arguments or "{}"}
            native = {"id": given, "type": "function", "function": function}
            calls.append(Asked(given, call["name"], native, flaw, given))
        text = self._pieces.get("text")
        message: Json = {"role": "assistant", "content": text or None if calls else text}
        if calls:
            message["tool_calls"] = [call.native for call in calls]
        reason = "refused" if self._is_refusal else _REASONS.get(self._reason, "stop")
        return Turn(message, text, calls, reason, self._usage)
