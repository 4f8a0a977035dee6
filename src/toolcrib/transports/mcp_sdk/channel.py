"""One call through the official SDK: progress, log messages and questions go back through its session.

On 2026-07-28 a question ends the call, and the answer arrives with the next one; earlier answers travel in
the request state, which the SDK seals.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from toolcrib.context import InputNeeded, Question, Reply
from toolcrib.errors import CannotAskError
from toolcrib.protocol.questions import check_capability, from_wire, to_wire
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

_REQUESTS: Mapping[str, tuple[Any, Any]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}


class SessionChannel:
    """The channel of one call. `finish` has to be awaited before the reply goes out."""

    def __init__(self, context: ServerRequestContext[Any, Any], revision: Revision, tool: str) -> None:
        self._context = context
        self._session = context.session
        self._revision = revision
        self._tool = tool
        self._waiting: list[Callable[[], Awaitable[None]]] = []
        self._pump: asyncio.Task[None] | None = None
        declared = self._session.client_capabilities
        self._capabilities: dict[str, Any] = {} if declared is None else _dump(declared)
        self._answers = _answers_in(context.params or {}) if revision.modern else {}
        self.needed: Mapping[str, Question] | None = None
        self.resumes: str | None = None  # the state is the official server's, and proves nothing to us
        self.is_prompted = False
        self.is_gone = False
        self.request = context.request_id
        self.trace: str | None = None

    # --- telling: in order, and without keeping the tool waiting ---

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._later(lambda: self._session.report_progress(progress, total, message))

    def log(self, level: str, data: Any) -> None:
        self._later(lambda: self._send_log(level, data))

    def close_stream(self) -> None:
        close = self._context.close_sse_stream
        if close is not None:
            self._later(close)

    async def finish(self) -> None:
        """Wait until everything that was told is on its way."""
        if self._pump is not None:
            await self._pump

    def _later(self, tell: Callable[[], Awaitable[None]]) -> None:
        self._waiting.append(tell)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while self._waiting:
            tell = self._waiting.pop(0)
            try:
                await tell()
            except Exception as error:  # the peer is gone, or takes no such message
                logger.debug(
                    "tool '%s' could not send a message to its caller: %s", self._tool, type(error).__name__
                )

    async def _send_log(self, level: Any, data: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # log messages are deprecated in the protocol; tools still use them
            sending = self._session.send_log_message(  # type: ignore[deprecated,unused-ignore]
                level, data, logger=self._tool, related_request_id=self._context.request_id
            )
        await sending

    # --- asking ---

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        for question in questions.values():
            check_capability(question, self._capabilities, self._revision)
        if self._revision.modern:
            return self._recall(questions)
        return {key: await self._send(question) for key, question in questions.items()}

    def _recall(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        """The answers that came with this call; those that did not are asked for by ending it."""
        replies: dict[str, Reply] = {}
        missing: dict[str, Question] = {}
        for key, question in questions.items():
            reply = from_wire(question, self._answers.get(key))
            if reply is None:
                missing[key] = question
            else:
                replies[key] = reply
        if missing:
            self.needed = missing
            raise InputNeeded(missing)
        return replies

    async def _send(self, question: Question) -> Reply:
        method, params = to_wire(question)
        request, result = _REQUESTS[method]
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        try:
            answer = await self._session.send_request(
                request.model_validate({"method": method, "params": params}), result, metadata=related
            )
        except MCPError as error:
            raise CannotAskError(f"The client did not answer: {error.message}") from None
        reply = from_wire(question, _dump(answer))
        if reply is None:
            raise CannotAskError("The client's answer does not fit what was asked.")
        return reply

    def to_questions(self, needed: Mapping[str, Question]) -> dict[str, Any]:
        """The result that ends a call which needs answers."""
        asked = {}
        for key, question in needed.items():
            method, params = to_wire(question)
            asked[key] = {"method": method, "params": params} if params else {"method": method}
        given = {key: value for key, value in self._answers.items() if key not in needed}
        state = codec.encode_text({"answers": given})
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}


def _answers_in(params: Mapping[str, Any]) -> dict[str, Any]:
    """The answers of this round and, out of the state, those of rounds before."""
    answers: dict[str, Any] = {}
    state = params.get("requestState")
    if state is not None:
        try:
            answers.update(codec.decode(state)["answers"])
        except (ValueError, KeyError, TypeError):
            raise MCPError(types.INVALID_PARAMS, "Invalid requestState") from None
    given = params.get("inputResponses")
    answers.update(given if isinstance(given, Mapping) else {})
    return answers


def _dump(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped
