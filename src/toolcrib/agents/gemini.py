"""The provider `gemini`: Google's generateContent, whose answers are lists of parts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from toolcrib.agents.hosted import HostedModel, Json, ModelCall, Turn
from toolcrib.errors import AgentError

_REASONS = {"MAX_TOKENS": "length"} | dict.fromkeys(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"), "refused"
)
_BAD_CALLS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")


class GeminiModel(HostedModel):
    """Google's generateContent."""

    name = "gemini"
    package = "google-genai"
    default_url = "https://generativelanguage.googleapis.com"
    url_variable = "GOOGLE_GEMINI_BASE_URL"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    def connect(self, http_client: Any) -> tuple[Any, type[Exception]]:
        from google import genai  # delayed: it takes a second
        from google.genai import errors

        options: Any = {
            "base_url": self.base_url,
            "httpx_async_client": http_client,
            "extra_body": self.extra,
        }
        return genai.Client(
            api_key="set by the transport", vertexai=False, http_options=options
        ), errors.APIError

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

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


class _GeminiTurn:
    """Collects the parts of an answer. They are sent back as they came, with their signatures."""

    def __init__(self) -> None:
        self._parts: list[Json] = []
        self._text: list[str] = []
        self._reason = ""
        self._usage: Json | None = None

    def add(self, chunk: Any) -> str:
        """Take a chunk and return the text in it."""
        answer: Json = chunk.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
        self._usage = answer.get("usageMetadata") or self._usage
        if blocked := answer.get("promptFeedback", {}).get("blockReason"):
            raise AgentError(f"the service refused the question ({blocked})", kind="refused")
        added = ""
        for candidate in answer.get("candidates", ())[:1]:
            for part in candidate.get("content", {}).get("parts") or ():
                added += "" if part.get("thought") else part.get("text", "")
                if part.keys() == {"text"} and self._parts and self._parts[-1].keys() == {"text"}:
                    self._parts[-1] = {"text": self._parts[-1]["text"] + part["text"]}
                else:
                    self._parts.append(part)
            self._reason = candidate.get("finishReason") or self._reason
        self._text.append(added)
        return added

    def finish(self) -> Turn:
        calls: list[ModelCall] = []
        for part in self._parts:
            if call := part.get("functionCall"):
                name = call.get("name") or ""
                problem = None if name else "The call has no name"
                calls.append(ModelCall(f"call_{len(calls) + 1}", name, part, problem, call.get("id") or ""))
        if self._reason in _BAD_CALLS and not calls:
            raise AgentError(
                f"the model sent a malformed tool call ({self._reason})",
                kind="garbled",
                hint="ask again, or ask a simpler question",
            )
        message: Json = {"role": "model", "parts": self._parts or [{"text": ""}]}
        reason = self._reason and _REASONS.get(self._reason, "stop")
        return Turn(message, "".join(self._text), calls, reason, self._usage)
