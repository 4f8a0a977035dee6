"""The dialect of generateContent: an answer is a list of parts, a stream one such answer after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from toolcrib.agents.hosted import (
    Ask,
    Asked,
    Json,
    Pieces,
    Turn,
    broken_off,
    items_in,
    mapping_in,
    service_error,
    text_in,
)
from toolcrib.errors import AgentError

_REASONS = {"MAX_TOKENS": "length"} | dict.fromkeys(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"), "refused"
)
_GARBLED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")


class Gemini:
    name = "gemini"
    form = "gemini"
    base_url = "https://generativelanguage.googleapis.com"
    base_url_variable = "GOOGLE_GEMINI_BASE_URL"
    key_variables: Sequence[str] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    def path(self, model: str, streams: bool) -> str:
        name = quote(model if "/" in model else f"models/{model}", safe="/")
        method = "streamGenerateContent?alt=sse" if streams else "generateContent"
        return f"/v1beta/{name}:{method}"

    def headers(self, key: str | None) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def body(self, ask: Ask) -> Json:
        body: Json = {"contents": list(ask.messages)}
        if ask.instructions:
            body["systemInstruction"] = {"parts": [{"text": ask.instructions}]}
        if ask.tools:
            body["tools"] = [{"functionDeclarations": list(ask.tools)}]
        settings: Json = {}
        if ask.max_tokens is not None:
            settings["maxOutputTokens"] = ask.max_tokens
        if ask.temperature is not None:
            settings["temperature"] = ask.temperature
        if settings:
            body["generationConfig"] = settings
        return body

    def say(self, role: str, text: str) -> Json:
        return {"role": role, "parts": [{"text": text}]}

    def bring_back(self, results: Sequence[Json]) -> list[Json]:
        return [{"role": "user", "parts": list(results)}]

    def read_turn(self) -> GeminiTurn:
        return GeminiTurn()


class GeminiTurn:
    """Parts are kept as they came, signatures included: the model wants to see them again."""

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._parts: list[Json] = []
        self._reason = ""
        self._usage: Json | None = None

    def feed(self, item: Json) -> Iterator[str]:
        if error := service_error(item):
            raise error
        self._usage = mapping_in(item, "usageMetadata") or self._usage
        if blocked := text_in(mapping_in(item, "promptFeedback"), "blockReason"):
            raise AgentError(f"the service will not answer this ({blocked})", kind="refused")
        for candidate in items_in(item, "candidates")[:1]:
            for part in items_in(mapping_in(candidate, "content"), "parts"):
                self._pieces.add("parts", "")
                yield from self._take(part)
            self._reason = text_in(candidate, "finishReason") or self._reason

    def _take(self, part: Json) -> Iterator[str]:
        text = text_in(part, "text")
        if text and not part.get("thought"):
            self._pieces.add("text", text)
            yield text
        if set(part) == {"text"} and self._parts and set(self._parts[-1]) == {"text"}:
            self._pieces.add(("part", len(self._parts) - 1), text)
            return
        if set(part) == {"text"}:
            self._pieces.add(("part", len(self._parts)), text)
        self._parts.append(dict(part))

    def finish(self) -> Turn:
        if not self._reason:
            raise broken_off()
        calls: list[Asked] = []
        parts: list[Json] = []
        for number, part in enumerate(self._parts):
            if isinstance(part.get("functionCall"), dict):
                calls.append(self._read_call(part, len(calls)))
            elif set(part) == {"text"}:
                part = {"text": self._pieces.get(("part", number))}
            parts.append(part)
        if self._reason in _GARBLED and not calls:
            raise AgentError(
                f"the model made a call that its service could not read ({self._reason})",
                kind="garbled",
                hint="ask again, or ask for less at once",
            )
        message: Json = {"role": "model", "parts": parts or [{"text": ""}]}
        return Turn(message, self._pieces.get("text"), calls, _REASONS.get(self._reason, "stop"), self._usage)

    def _read_call(self, part: Json, number: int) -> Asked:
        call = part["functionCall"]
        name, arguments = text_in(call, "name"), call.get("args")
        flaw = None if name else "The call has no name"
        if arguments is not None and not isinstance(arguments, dict):
            flaw = "The arguments must be an object"
        given = text_in(call, "id")
        return Asked(f"call_{number + 1}", name, part, flaw, given)
