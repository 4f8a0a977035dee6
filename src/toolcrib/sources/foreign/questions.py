"""Questions that servers of other libraries ask, from their form on the wire to ours and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.context import Answer, Completion, Context, Folder, Folders, Form, Prompt, Question, Visit
from toolcrib.errors import ToolError


class Asker:
    """Asks the caller of one tool call.

    Questions are numbered in the order of asking: a client of 2026-07-28 repeats the call with the answers,
    and the same questions come up in the same order.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asked = 0

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to one request of a server."""
        (answer,) = (await self.ask_all({"": {"method": method, "params": params}})).values()
        return answer

    async def ask_all(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the answers to several requests, by the same keys."""
        questions: dict[str, Question] = {}
        for request in requests.values():
            question = question_of(request["method"], request.get("params") or {})
            self._asked += 1
            kind = type(question).__name__.lower()
            questions[kind if self._asked == 1 else f"{kind}-{self._asked}"] = question
        replies = await self._context.ask_all(questions) if questions else {}
        return {
            key: answer_of(question, replies[own])
            for key, (own, question) in zip(requests, questions.items(), strict=True)
        }


def question_of(method: str, params: Mapping[str, Any]) -> Question:
    """Return a request of a server as a question. Raise ToolError where it is none."""
    given = {key: value for key, value in params.items() if key != "_meta"}
    if method == "roots/list":
        return Folders()
    if method == "elicitation/create":
        if given.get("mode") == "url":
            return Visit(given["message"], given["url"])
        return Form(given["message"], given["requestedSchema"])
    if method == "sampling/createMessage":
        messages, limit = given.pop("messages"), given.pop("maxTokens", 1024)
        return Prompt(messages, limit, given.pop("systemPrompt", None), given)
    raise ToolError(f"The client does not answer {method} requests.")


def answer_of(question: Question, reply: Any) -> dict[str, Any]:
    """Return a reply as the server gets it."""
    match question, reply:
        case Form() | Visit(), Answer(action, content):
            is_filled = isinstance(question, Form) and action == "accept"
            return {"action": action, "content": dict(content)} if is_filled else {"action": action}
        case Prompt(), Completion(content, role, model, stop):
            # The SDK refuses a result that names no model; some clients name none.
            answer = {"role": role, "content": content, "model": model or "unknown"}
            return answer if stop is None else {**answer, "stopReason": stop}
        case Folders(), list():
            return {"roots": [_root_of(folder) for folder in reply]}
    raise TypeError(f"{type(reply).__name__} is no answer to {type(question).__name__}")


def _root_of(folder: Folder) -> dict[str, Any]:
    return {"uri": folder.uri} if folder.name is None else {"uri": folder.uri, "name": folder.name}
