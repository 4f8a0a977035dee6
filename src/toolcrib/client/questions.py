"""Answer requests from a server: elicitation, sampling and roots.

They arrive as requests in a legacy session and inside an `input_required` result on 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from toolcrib.context import Answer, Completion, Folder, Form, Prompt, Visit

Ask = Callable[[Form | Visit], Awaitable[Answer]]
Sample = Callable[[Prompt], Awaitable[Completion]]

_UNKNOWN, _INVALID = -32601, -32602


class CannotAnswerError(Exception):
    """An invalid request, or one without a handler; `rpc_code` is the error code to reply with."""

    def __init__(self, message: str, rpc_code: int) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


class InputHandlers:
    """The handlers of one client. Only capabilities with a handler are announced."""

    def __init__(
        self,
        on_ask: Ask | None = None,
        on_sample: Sample | None = None,
        folders: Iterable[str | Path | Folder] | None = None,
    ) -> None:
        self._on_ask = on_ask
        self._on_sample = on_sample
        self._folders = None if folders is None else [_to_folder(item) for item in folders]

    @property
    def can_answer(self) -> bool:
        return bool(self._on_ask or self._on_sample or self._folders is not None)

    def capabilities(self, version: str) -> dict[str, Any]:
        """Return the client capabilities in the form of a protocol version."""
        offered: dict[str, Any] = {}
        if self._on_ask is not None and version >= "2025-06-18":
            offered["elicitation"] = {"form": {}, "url": {}} if version >= "2025-11-25" else {}
        if self._on_sample is not None:
            offered["sampling"] = {}
        if self._folders is not None:
            offered["roots"] = {}
        return offered

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        """Return the answer to one request. Raises CannotAnswerError, or what the handler raises."""
        params = params if isinstance(params, Mapping) else {}
        if method == "elicitation/create" and self._on_ask is not None:
            question = _read_question(params)
            return _write_answer(await self._on_ask(question), question)
        if method == "sampling/createMessage" and self._on_sample is not None:
            return _write_completion(await self._on_sample(_read_prompt(params)))
        if method == "roots/list" and self._folders is not None:
            return {"roots": [_write_root(item) for item in self._folders]}
        raise CannotAnswerError(f"{method} is not supported by this client", _UNKNOWN)


def _read_question(params: Mapping[str, Any]) -> Form | Visit:
    message = params.get("message", "")
    if not isinstance(message, str):
        raise CannotAnswerError("message must be a string", _INVALID)
    if params.get("mode", "form") == "url":
        url = params.get("url")
        if not isinstance(url, str):
            raise CannotAnswerError("url is required", _INVALID)
        return Visit(message, url)
    schema = params.get("requestedSchema")
    if not isinstance(schema, Mapping):
        raise CannotAnswerError("requestedSchema is required", _INVALID)
    return Form(message, schema)


def _write_answer(answer: Answer, question: Form | Visit) -> dict[str, Any]:
    if not answer or isinstance(question, Visit):
        return {"action": answer.action}
    properties = question.schema.get("properties", {})
    properties = properties if isinstance(properties, Mapping) else {}
    # A field that was left out has its default value.
    defaults = {
        name: field["default"]
        for name, field in properties.items()
        if isinstance(field, Mapping) and "default" in field
    }
    return {"action": "accept", "content": {**defaults, **answer.content}}


def _read_prompt(params: Mapping[str, Any]) -> Prompt:
    messages, max_tokens = params.get("messages"), params.get("maxTokens")
    if not isinstance(messages, list):
        raise CannotAnswerError("message must be a strings", _INVALID)
    known = ("messages", "maxTokens", "systemPrompt", "_meta")
    return Prompt(
        messages,
        max_tokens if isinstance(max_tokens, int) else 1024,
        params.get("systemPrompt"),
        {key: value for key, value in params.items() if key not in known},
    )


def _write_completion(completion: Completion) -> dict[str, Any]:
    content = completion.content
    written = {
        "role": completion.role,
        "content": {"type": "text", "text": content} if isinstance(content, str) else content,
        "model": completion.model or "unknown",
    }
    return written if completion.stop_reason is None else {**written, "stopReason": completion.stop_reason}


def _to_folder(item: str | Path | Folder) -> Folder:
    if isinstance(item, Folder):
        return item
    if isinstance(item, str) and "://" in item:
        return Folder(item)
    path = Path(item).resolve()
    return Folder(path.as_uri(), path.name or None)


def _write_root(folder: Folder) -> dict[str, Any]:
    return {"uri": folder.uri} if folder.name is None else {"uri": folder.uri, "name": folder.name}
