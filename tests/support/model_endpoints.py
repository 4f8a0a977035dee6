"""Scripted model services on the loopback: they give valid or faulty answers in order.

An `Endpoint` is a real HTTP server; what it answers is a list of `Reply`. A `Voice` writes the
format of one service: the same texts and calls in three formats, streamed or whole.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Call = tuple[str, Mapping[str, Any]]


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    """`then` is what follows the last chunk: the end, silence, or a lost connection."""

    chunks: Sequence[bytes] = ()
    status: int = 200
    kind: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    then: Literal["end", "stall", "cut", "repeat"] = "end"


def whole(value: Any, status: int = 200, **headers: str) -> Reply:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply([data], status, "application/json", named)


class Endpoint:
    """`async with Endpoint(reply, reply) as endpoint`: the last reply is repeated."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[Request] = []
        self.gone = asyncio.Event()
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
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.gone.set()
            writer.transport.abort()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(Request(first.split()[1], headers, json.loads(body) if body else None))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        await self._write(writer, reply)
        if reply.then == "stall":
            await reader.read()  # until the other side goes away
        return reply.then == "end"

    async def _write(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        headers = {"Content-Type": reply.kind, "Transfer-Encoding": "chunked", **reply.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Status\r\n{lines}\r\n".encode())
        while True:
            for chunk in reply.chunks:
                writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                await writer.drain()
            if reply.then != "repeat":
                break
        if reply.then == "end":
            writer.write(b"0\r\n\r\n")
        await writer.drain()


# --- what services say ---------------------------------------------------------------------------------


def event(value: Any, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


class OpenAIVoice:
    name = "openai"
    base = "/v1"

    def stream(self, text: str = "", calls: Sequence[Call] = (), reason: str | None = None) -> Reply:
        return Reply([*self._chunks(text, calls, reason), event("[DONE]")])

    def _chunks(self, text: str, calls: Sequence[Call], reason: str | None) -> Iterator[bytes]:
        def chunk(delta: Any, finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            return event({**head, "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        for piece in _pieces(text):
            yield chunk({"content": piece})
        for index, (name, arguments) in enumerate(calls):
            begun = {"index": index, "id": f"call_{name}_{index}", "type": "function"}
            yield chunk({"tool_calls": [{**begun, "function": {"name": name, "arguments": ""}}]})
            for piece in _pieces(json.dumps(arguments)):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, reason or ("tool_calls" if calls else "stop"))

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

    def refuse(self, status: int, words: str, **headers: str) -> Reply:
        error = {"message": words, "type": "invalid_request_error", "param": None, "code": None}
        return whole({"error": error}, status, **headers)

    def results(self, body: Any) -> list[str]:
        """The results in a request, as text."""
        return [item["content"] for item in body["messages"] if item["role"] == "tool"]


class AnthropicVoice:
    name = "anthropic"
    base = ""

    def stream(self, text: str = "", calls: Sequence[Call] = (), reason: str | None = None) -> Reply:
        return Reply([event(item, item["type"]) for item in self._events(text, calls, reason)])

    def _events(self, text: str, calls: Sequence[Call], reason: str | None) -> Iterator[Any]:
        yield {"type": "message_start", "message": {**self._head(), "content": [], "stop_reason": None}}
        yield {"type": "ping"}
        index = 0
        if text:
            yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
            for piece in _pieces(text):
                delta = {"type": "text_delta", "text": piece}
                yield {"type": "content_block_delta", "index": 0, "delta": delta}
            yield {"type": "content_block_stop", "index": 0}
            index = 1
        for number, (name, arguments) in enumerate(calls, index):
            block = {"type": "tool_use", "id": f"toolu_{name}_{number}", "name": name, "input": {}}
            yield {"type": "content_block_start", "index": number, "content_block": block}
            for piece in _pieces(json.dumps(arguments)) if arguments else ():
                delta = {"type": "input_json_delta", "partial_json": piece}
                yield {"type": "content_block_delta", "index": number, "delta": delta}
            yield {"type": "content_block_stop", "index": number}
        end = {"stop_reason": reason or ("tool_use" if calls else "end_turn"), "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 2}}
        yield {"type": "message_stop"}

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

    def refuse(self, status: int, words: str, **headers: str) -> Reply:
        return whole({"type": "error", "error": {"type": "some_error", "message": words}}, status, **headers)

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

    def stream(self, text: str = "", calls: Sequence[Call] = (), reason: str | None = None) -> Reply:
        pieces = [[{"text": piece}] for piece in _pieces(text)]
        pieces += [[{"functionCall": {"name": name, "args": dict(args)}}] for name, args in calls]
        values = [self._answer(parts, None) for parts in pieces[:-1]]
        values.append(self._answer(pieces[-1] if pieces else [], reason or "STOP"))
        return Reply([event(value) for value in values])

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

    def refuse(self, status: int, words: str, **headers: str) -> Reply:
        return whole({"error": {"code": status, "message": words, "status": "SOME_ERROR"}}, status, **headers)

    def results(self, body: Any) -> list[str]:
        return [
            str(response.get("output", response.get("error")))
            for item in body["contents"]
            for part in item["parts"]
            if (response := part.get("functionResponse", {}).get("response")) is not None
        ]


Voice = OpenAIVoice | AnthropicVoice | GeminiVoice
VOICES: list[Voice] = [OpenAIVoice(), AnthropicVoice(), GeminiVoice()]


def _pieces(text: str) -> list[str]:
    """Split into pieces of three, so that everything is cut somewhere."""
    return [text[start : start + 3] for start in range(0, len(text), 3)]
