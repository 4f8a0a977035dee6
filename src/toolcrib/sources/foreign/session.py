"""Request and session objects that adopt the interface of the other library on top of our Context.

Their Context delegates to these two objects. An unsupported session method raises an error that says so.
Result classes are looked up among the modules already loaded.
"""

from __future__ import annotations

import dataclasses
import secrets
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from toolcrib.context import Answer, Completion, Context, Folder, Folders, Form, Prompt, Question, Visit
from toolcrib.errors import ToolError

SPOKEN = "2025-11-25"
"""The revision their code is told of: the newest in which a server asks, as all their asking methods do."""


class NotLentError(ToolError, AttributeError):
    """Their code reaches for something that toolcrib cannot give it. An AttributeError too, so that
    `hasattr` and `getattr` with a default are right."""

    code = "not-lent"


def refuse(name: str) -> NoReturn:
    raise NotLentError(f"This tool uses {name}, which is not there when toolcrib serves it.")


class Meta(dict[str, Any]):
    """The `_meta` of a request: a mapping to some of their code, an object to other."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class Request:
    """What their code calls the request context."""

    method = "tools/call"
    protocol_version = SPOKEN
    params = None
    request = None
    close_standalone_sse_stream = None
    experimental = None

    def __init__(self, context: Context, lifespan_context: Any) -> None:
        self.lifespan_context = lifespan_context
        self._context = context
        self._session: Session | None = None
        self._id: str | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            self._session = Session(self._context)
        return self._session

    @property
    def request_id(self) -> str:
        if self._id is None:
            self._id = secrets.token_hex(8)
        return self._id

    @property
    def meta(self) -> Meta:
        token = self.request_id
        return Meta(progress_token=token, progressToken=token)

    @property
    def _srctx(self) -> Request:
        return self

    async def close_sse_stream(self) -> None:
        self._context.close_stream()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"ctx.request_context.{name}")


class Session:
    """What their code calls the session: progress, log lines and questions go through our Context."""

    protocol_version = SPOKEN
    client_params = None
    client_capabilities = None
    can_send_request = False  # else resolvers look into the capabilities first, which only the channel knows
    _connection = None

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asked = 0

    # --- telling ---

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        self._context.progress(progress, total, message)

    async def send_progress_notification(
        self,
        progress_token: Any,  # noqa: ARG002 - the call knows its own
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: Any = None,  # noqa: ARG002
    ) -> None:
        self._context.progress(progress, total, message)

    async def send_log_message(
        self,
        level: str,
        data: Any,
        logger: str | None = None,  # noqa: ARG002 - ours is the tool's name
        related_request_id: Any = None,  # noqa: ARG002
    ) -> None:
        if dataclasses.is_dataclass(data) and not isinstance(data, type):  # fastmcp's LogData
            data = {key: value for key, value in dataclasses.asdict(data).items() if value is not None}
        self._context.log(level, data)

    # --- asking ---

    async def elicit_form(
        self,
        message: str,
        requested_schema: Mapping[str, Any] | None = None,
        related_request_id: Any = None,  # noqa: ARG002
        **older: Any,
    ) -> Any:
        schema = requested_schema if requested_schema is not None else older.get("requestedSchema")
        return await self._ask(Form(message) if schema is None else Form(message, schema))

    elicit = elicit_form

    async def elicit_url(
        self,
        message: str,
        url: str,
        elicitation_id: str,  # noqa: ARG002 - gone from the protocol
        related_request_id: Any = None,  # noqa: ARG002
    ) -> Any:
        return await self._ask(Visit(message, url))

    async def create_message(self, messages: Any, *, max_tokens: int, **options: Any) -> Any:
        options.pop("related_request_id", None)
        params = {"messages": to_wire(messages), "maxTokens": max_tokens}
        for name, value in options.items():
            if value is not None:
                first, *rest = name.split("_")
                params[first + "".join(word.capitalize() for word in rest)] = to_wire(value)
        return await self._ask(question_of("sampling/createMessage", params))

    async def list_roots(self) -> Any:
        return await self._ask(Folders())

    async def send_request(self, request: Any, result_type: Any = None, *_: Any, **__: Any) -> Any:
        root = getattr(request, "root", request)  # the SDK before 2.0 wraps it
        dumped = to_wire(root)
        return await self._ask(question_of(dumped["method"], dumped.get("params") or {}), result_type)

    def check_client_capability(self, capability: Any) -> bool:  # noqa: ARG002
        return False

    async def _ask(self, question: Question, result_type: Any = None) -> Any:
        # Numbered in the order of asking: a client of 2026-07-28 makes the call again, and the same
        # questions come up in the same order.
        self._asked += 1
        kind = type(question).__name__.lower()
        key = kind if self._asked == 1 else f"{kind}-{self._asked}"
        replies = await self._context.ask_all({key: question})
        return answer_of(question, replies[key], result_type)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(f"ctx.session.{name}")


class Bus:
    """Where their code announces changes. Those who listen to their server are not there."""

    async def publish(self, event: Any) -> None:
        refuse(f"ctx.notify_*() ({type(event).__name__})")

    def subscribe(self, listener: Callable[[Any], None]) -> NoReturn:  # noqa: ARG002
        refuse("subscriptions")


# --- questions, from their spelling and back ---------------------------------------------------------


def to_wire(value: Any) -> Any:
    """Their models as they are spelt on the wire."""
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def question_of(method: str, params: Mapping[str, Any]) -> Question:
    """A request of theirs to a client, as a question of ours."""
    given = dict(params)
    given.pop("_meta", None)
    if method == "roots/list":
        return Folders()
    if method == "elicitation/create":
        if given.get("mode") == "url":
            return Visit(given["message"], given["url"])
        return Form(given["message"], given["requestedSchema"])
    if method == "sampling/createMessage":
        messages, limit = given.pop("messages"), given.pop("maxTokens", 1024)
        return Prompt(messages, limit, given.pop("systemPrompt", None), given)
    refuse(f"the request {method}")


def answer_of(question: Question, reply: Any, result_type: Any = None) -> Any:
    """A reply of ours as the class of theirs that stands for it."""
    types = sys.modules.get("mcp_types") or sys.modules["mcp.types"]
    match question, reply:
        case Form() | Visit(), Answer(action, content):
            accepted = isinstance(question, Form) and action == "accept"
            raw: dict[str, Any] = {"action": action, "content": dict(content) if accepted else None}
            made = result_type or types.ElicitResult
        case Prompt(), Completion(content, role, model, stop):
            # The SDK refuses a result that names no model; some clients name none.
            raw = {"role": role, "content": content, "model": model or "unknown", "stopReason": stop}
            usual = types.CreateMessageResult
            several = getattr(types, "CreateMessageResultWithTools", usual)
            made = result_type or (several if isinstance(content, list) else usual)
        case Folders(), list():
            raw = {"roots": [_root(folder) for folder in reply]}
            made = result_type or types.ListRootsResult
        case _:
            raise TypeError(f"{type(reply).__name__} answers no {type(question).__name__}")
    return made.model_validate({key: value for key, value in raw.items() if value is not None})


def _root(folder: Folder) -> dict[str, Any]:
    return {"uri": folder.uri} if folder.name is None else {"uri": folder.uri, "name": folder.name}
