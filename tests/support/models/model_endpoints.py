"""Scripted model services on the loopback: they give their answers in order.

An `Endpoint` is a real HTTP server; its answers are a list of `Reply`. A `Voice` writes the format of one
service: the same texts and calls in three formats.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

Call = tuple[str, Mapping[str, Any]]


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    data: bytes
    status: int = 200


def whole(value: Any, status: int = 200) -> Reply:
    return Reply(json.dumps(value).encode(), status)


class Endpoint:
    """`async with Endpoint(reply, reply) as endpoint`: the last reply is repeated."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[Request] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(Request(first.split()[1], headers, json.loads(body) if body else None))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        head = f"HTTP/1.1 {reply.status} Status\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(reply.data)}\r\n\r\n".encode() + reply.data)
        await writer.drain()


# --- what services say ---------------------------------------------------------------------------------


class OpenAIVoice:
    name = "openai"
    base = "/v1"

    def answer(self, text: str = "", calls: Sequence[Call] = ()) -> Reply:
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{n}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(args)},
                }
                for n, (name, args) in enumerate(calls)
            ]
        reason = "tool_calls" if calls else "stop"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
        return whole({**head, "choices": [choice], "usage": usage})

    def refuse(self, status: int, words: str) -> Reply:
        error = {"message": words, "type": "invalid_request_error", "param": None, "code": None}
        return whole({"error": error}, status)

    def results(self, body: Any) -> list[str]:
        """The results in a request, as text."""
        return [item["content"] for item in body["messages"] if item["role"] == "tool"]


class AnthropicVoice:
    name = "anthropic"
    base = ""

    def _head(self) -> dict[str, Any]:
        usage = {"input_tokens": 5, "output_tokens": 1}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_sequence": None,
            "usage": usage,
        }

    def answer(self, text: str = "", calls: Sequence[Call] = ()) -> Reply:
        content: list[Any] = [{"type": "text", "text": text}] if text else []
        content += [
            {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": dict(args)}
            for n, (name, args) in enumerate(calls)
        ]
        reason = "tool_use" if calls else "end_turn"
        return whole({**self._head(), "content": content, "stop_reason": reason})

    def refuse(self, status: int, words: str) -> Reply:
        return whole({"type": "error", "error": {"type": "some_error", "message": words}}, status)

    def results(self, body: Any) -> list[str]:
        return [
            "".join(part["text"] for part in block["content"])
            for item in body["messages"]
            if isinstance(item["content"], list)
            for block in item["content"]
            if block["type"] == "tool_result"
        ]


class GeminiVoice:
    name = "gemini"
    base = ""

    def _answer(self, parts: list[Any], reason: str | None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if reason:
            candidate["finishReason"] = reason
        usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}

    def answer(self, text: str = "", calls: Sequence[Call] = ()) -> Reply:
        parts: list[Any] = [{"text": text}] if text else []
        parts += [{"functionCall": {"name": name, "args": dict(args)}} for name, args in calls]
        return whole(self._answer(parts, "STOP"))

    def refuse(self, status: int, words: str) -> Reply:
        return whole({"error": {"code": status, "message": words, "status": "SOME_ERROR"}}, status)

    def results(self, body: Any) -> list[str]:
        return [
            str(response.get("output", response.get("error")))
            for item in body["contents"]
            for part in item["parts"]
            if (response := part.get("functionResponse", {}).get("response")) is not None
        ]


Voice = OpenAIVoice | AnthropicVoice | GeminiVoice
VOICES: list[Voice] = [OpenAIVoice(), AnthropicVoice(), GeminiVoice()]
