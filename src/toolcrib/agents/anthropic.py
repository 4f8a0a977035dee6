"""The provider `anthropic`: Anthropic's messages API, whose answers are lists of blocks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from toolcrib.agents.hosted import CUT_OFF, HostedModel, Json, ModelCall, Turn, argument_problem
from toolcrib.validation import codec

_MAX_TOKENS = 8192
"""The API requires a number; every model accepts this one."""
_REASONS = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refused"}
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_DELTAS |= {"input_json_delta": "partial_json"}


class AnthropicModel(HostedModel):
    """Anthropic's messages API."""

    name = "anthropic"
    package = "anthropic"
    default_url = "https://api.anthropic.com"
    url_variable = "ANTHROPIC_BASE_URL"
    key_variables = ("ANTHROPIC_API_KEY",)

    def connect(self, http_client: Any) -> tuple[Any, type[Exception]]:
        import anthropic  # delayed: it takes a second

        client = anthropic.AsyncAnthropic(
            api_key="set by the transport", base_url=self.base_url, http_client=http_client, max_retries=0
        )
        return client, anthropic.APIError

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def make_message(self, role: str, text: str) -> Json:
        return {"role": "assistant" if role == "model" else "user", "content": text or "(nothing)"}

    def make_result_messages(self, results: Sequence[Json]) -> list[Any]:
        return [{"role": "user", "content": list(results)}]  # all results of a turn are in one message

    async def read_turn(
        self, client: Any, messages: list[Any], tools: Sequence[Any]
    ) -> AsyncGenerator[str | Turn, None]:
        request: Json = {"model": self.model, "messages": messages, "stream": self.streams}
        request["max_tokens"] = self.max_tokens or _MAX_TOKENS
        if self.instructions:
            request["system"] = self.instructions
        if tools:
            request["tools"] = list(tools)
        # The SDK no longer has a parameter for the temperature; the API still takes one.
        extra = {"temperature": self.temperature} if self.temperature is not None else {}
        answer = await client.messages.create(**request, extra_body={**extra, **self.extra})
        turn = _AnthropicTurn()
        if self.streams:
            async for event in answer:
                yield turn.add(event.to_dict(warnings=False))
        else:
            yield turn.add_message(answer.to_dict(warnings=False))
        yield turn.finish()


class _AnthropicTurn:
    """Assembles the blocks of a streamed answer.

    The SDK's own accumulator is not used: it parses the arguments of a call again with every piece.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, Json] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._reason = ""
        self._usage: Json = {}

    def add(self, event: Json) -> str:
        """Take an event of the stream and return the text in it."""
        match event["type"]:
            case "message_start":
                self._usage |= event["message"].get("usage") or {}
            case "content_block_start":
                self._blocks[event["index"]] = block = event["content_block"]
                return block.get("text") or "" if block["type"] == "text" else ""
            case "content_block_delta" if key := _DELTAS.get(event["delta"]["type"]):
                piece = event["delta"][key]
                self._pieces.setdefault((event["index"], key), []).append(piece)
                return piece if key == "text" else ""
            case "message_delta":
                self._reason = event["delta"].get("stop_reason") or self._reason
                self._usage |= event.get("usage") or {}
        return ""

    def add_message(self, message: Json) -> str:
        """Take a whole answer and return its text."""
        self._blocks = dict(enumerate(message["content"]))
        self._reason, self._usage = message["stop_reason"] or "", message.get("usage") or {}
        return "".join(block["text"] for block in self._blocks.values() if block["type"] == "text")

    def finish(self) -> Turn:
        content: list[Json] = []
        calls: list[ModelCall] = []
        text = ""
        for index, block in sorted(self._blocks.items()):
            grown = {key: (block.get(key) or "") + self._get(index, key) for key in ("text", "thinking")}
            match block["type"]:
                case "text":
                    text += grown["text"]
                    if grown["text"]:  # the API refuses an empty one
                        content.append({"type": "text", "text": grown["text"]})
                case "thinking":
                    signature = (block.get("signature") or "") + self._get(index, "signature")
                    content.append(
                        {"type": "thinking", "thinking": grown["thinking"], "signature": signature}
                    )
                case "tool_use":
                    calls.append(self._read_call(index, block, calls))
                    content.append(calls[-1].native)
                case _:
                    content.append(block)
        message = {"role": "assistant", "content": content or "(nothing)"}
        reason = self._reason and _REASONS.get(self._reason, "stop")
        return Turn(message, text, calls, reason, self._usage or None)

    def _get(self, index: int, key: str) -> str:
        return "".join(self._pieces.get((index, key), ()))

    def _read_call(self, index: int, block: Json, before: Sequence[ModelCall]) -> ModelCall:
        given, name = block.get("id") or "", block.get("name") or ""
        if not given or given in {call.id for call in before}:
            given = f"toolu_{index}"
        text, arguments = self._get(index, "partial_json"), block.get("input") or {}
        problem = argument_problem(text) or (None if name else "The call has no name")
        if _REASONS.get(self._reason) == "length" and index == max(self._blocks):
            problem = CUT_OFF
        if text:
            arguments = {} if problem else codec.parse(text.encode())
        native = {"type": "tool_use", "id": given, "name": name or "unnamed", "input": arguments}
        return ModelCall(given, name, native, problem, given)
