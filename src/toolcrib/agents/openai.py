"""The provider `openai`: chat completions, of OpenAI and of many services and local servers with that API.

Local servers differ from OpenAI in details of a stream (calls without an index, arguments as an object), so
the chunks are assembled here and not by the SDK.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.agents.hosted import CUT_OFF, HostedModel, Json, ModelCall, Turn, argument_problem
from toolcrib.validation import codec

_REASONS = {"length": "length", "content_filter": "refused"}


class OpenAIModel(HostedModel):
    """OpenAI, or any service with `/chat/completions`: give its address as `base_url`."""

    name = "openai"
    package = "openai"
    default_url = "https://api.openai.com/v1"
    url_variable = "OPENAI_BASE_URL"
    key_variables = ("OPENAI_API_KEY",)

    def connect(self, http_client: Any) -> tuple[Any, type[Exception]]:
        import openai  # delayed: it takes a second

        client = openai.AsyncOpenAI(
            api_key="set by the transport", base_url=self.base_url, http_client=http_client, max_retries=0
        )
        return client, openai.APIError

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

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
            async for chunk in answer:
                yield turn.add(chunk.to_dict(warnings=False))
        else:
            yield turn.add(answer.to_dict(warnings=False))
        yield turn.finish()


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class _OpenAITurn:
    """Assembles the chunks of a streamed answer; an answer that is not streamed is one chunk."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._reason = ""
        self._is_refusal = False
        self._usage: Json | None = None

    def add(self, chunk: Json) -> str:
        """Take a chunk and return the text in it."""
        self._usage = chunk.get("usage") or self._usage
        added = ""
        for choice in chunk.get("choices") or ():
            if choice.get("index"):
                continue  # another answer to the same question
            piece = choice.get("delta") or choice.get("message") or {}
            refusal = piece.get("refusal") or ""
            self._is_refusal = self._is_refusal or bool(refusal)
            added += _join(piece.get("content")) + refusal
            for call in piece.get("tool_calls") or ():
                self._add_call(call)
            self._reason = choice.get("finish_reason") or self._reason
        self._text.append(added)
        return added

    def _add_call(self, piece: Json) -> None:
        """Add to a call, whose pieces share an index. Some servers leave it out, or give it to two calls."""
        given, index, function = piece.get("id") or "", piece.get("index"), piece.get("function") or {}
        known = self._by_index.get(index) if isinstance(index, int) else None
        if index is None and not given and not function.get("name") and self._calls:
            known = self._calls[-1]
        if known is None or (given and known.id not in ("", given)):
            known = _Call()
            self._calls.append(known)
            if isinstance(index, int):
                self._by_index[index] = known
        known.id = known.id or given
        known.name = known.name or function.get("name") or ""
        arguments = function.get("arguments") or ""
        known.arguments.append(arguments if isinstance(arguments, str) else codec.encode_text(arguments))

    def finish(self) -> Turn:
        calls: list[ModelCall] = []
        for number, call in enumerate(self._calls, 1):
            is_free = call.id and call.id not in {made.id for made in calls}
            given = call.id if is_free else f"call_{number}"
            arguments = "".join(call.arguments)
            problem = argument_problem(arguments) or (None if call.name else "The call has no name")
            if self._reason == "length" and number == len(self._calls) and not arguments.strip():
                problem = problem or CUT_OFF
            function = {"name": call.name or "unnamed", "arguments": "{}" if problem else arguments or "{}"}
            native = {"id": given, "type": "function", "function": function}
            calls.append(ModelCall(given, call.name, native, problem, given))
        text = "".join(self._text)
        message: Json = {"role": "assistant", "content": text or None if calls else text}
        if calls:
            message["tool_calls"] = [call.native for call in calls]
        reason = "refused" if self._is_refusal else _REASONS.get(self._reason, "stop")
        return Turn(message, text, calls, self._reason and reason, self._usage)


def _join(content: Any) -> str:
    """Return the text of a message, which some servers send in parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""
