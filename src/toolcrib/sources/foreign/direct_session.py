"""Sessions with servers of `mcp` 2.x and `fastmcp` 4: requests are handed to the SDK's runner.

There are no streams, messages or tasks in between: a call runs in the task of its caller, and everything
that the server sends during it (progress, log messages, questions) comes to the object that stands for the
request.

The SDK's own servers get requests of 2026-07-28 with the right to ask in the older way too, so that a
function may do both: return questions, and ask through its Context. `fastmcp` forbids the second there, so
its servers get a session with a handshake, and requests of 2026-07-28 only for tools that return questions.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from toolcrib.context import Context, InputNeeded
from toolcrib.errors import CannotAskError, ToolError
from toolcrib.sources.foreign.questions import Asker

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
CAPABILITIES: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
CLIENT = {"name": "toolcrib", "version": "0"}
NOBODY = "There is nobody to ask"
MAX_ROUNDS = 16
"""How often a function may return questions instead of a result."""
_INVALID_PARAMS = -32602
_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603
_PREFIX = "io.modelcontextprotocol/"
_ENVELOPE = {
    f"{_PREFIX}protocolVersion": MODERN,
    f"{_PREFIX}clientInfo": CLIENT,
    f"{_PREFIX}clientCapabilities": CAPABILITIES,
    f"{_PREFIX}logLevel": "debug",
}
_CURRENT: ContextVar[_Request | None] = ContextVar("toolcrib_bridged_request", default=None)
"""The request that a server works on, for messages that name none."""
_numbers = itertools.count(1)


def is_direct(low_level: Any) -> bool:
    """Return whether a low-level server is one of `mcp` 2.x."""
    return hasattr(low_level, "get_request_handler") and "mcp.server.runner" in sys.modules


class DirectSession:
    """One session with a server."""

    def __init__(self, low_level: Any, state: Any, *, is_modern: bool) -> None:
        self.uses = 0
        self.has_stopped = False
        self._low_level = low_level
        self._state = state
        self._is_modern = is_modern
        self._id = f"toolcrib-{next(_numbers)}"
        self._runner = self._make_runner(is_modern=is_modern)
        self._asks_by_returning: set[str] = set()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        found = self._low_level.get_capabilities(protocol_version=MODERN)
        dumped: dict[str, Any] = found.model_dump(by_alias=True, mode="json", exclude_none=True)
        return dumped

    def _make_runner(self, *, is_modern: bool) -> Any:
        made = sys.modules["mcp.server.connection"].Connection
        if is_modern:
            connection = made.from_envelope(MODERN, CLIENT, CAPABILITIES, outbound=_OUTBOUND)
            connection.session_id = self._id
        else:
            connection = made.for_loop(_OUTBOUND, session_id=self._id)
        return sys.modules["mcp.server.runner"].ServerRunner(self._low_level, connection, self._state)

    async def open(self) -> None:
        if self._is_modern:
            return
        params = {"protocolVersion": HANDSHAKE, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
        await self.request("initialize", params)
        await self._runner.on_notify(_Request(None, is_notice=True), "notifications/initialized", None)

    async def close(self) -> None:
        await sys.modules["mcp.server.runner"].aclose_shielded(self._runner.connection)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request, or raise ToolError with the server's message."""
        return await self._send(method, params, None, is_modern=self._is_modern)

    async def call(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        """Return the result of a tool call. Questions that the tool returns are asked, and it is called
        again."""
        name = params["name"]
        is_modern = self._is_modern or name in self._asks_by_returning
        asker = Asker(context)
        for _ in range(MAX_ROUNDS):
            try:
                reply = await self._send("tools/call", params, (context, asker), is_modern=is_modern)
            except ToolError as error:
                if is_modern or not _is_about_questions(error):
                    raise
                is_modern = True
                self._asks_by_returning.add(name)
                continue
            if reply.get("resultType") != "input_required":
                return reply
            answers = await asker.ask_all(reply.get("inputRequests") or {})
            params = {**params, "inputResponses": answers, "requestState": reply.get("requestState")}
            params = {key: value for key, value in params.items() if value is not None and value != {}}
        raise ToolError(f"This tool asked {MAX_ROUNDS} times without coming to a result.")

    async def _send(
        self, method: str, params: dict[str, Any], caller: tuple[Context, Asker] | None, *, is_modern: bool
    ) -> dict[str, Any]:
        runner = self._runner if is_modern == self._is_modern else self._make_runner(is_modern=is_modern)
        request = _Request(caller)
        meta = {**params.get("_meta", {}), "progressToken": request.request_id}
        if is_modern:
            meta |= _ENVELOPE
        token = _CURRENT.set(request)
        try:
            reply: dict[str, Any] = await runner.on_request(request, method, {**params, "_meta": meta})
        except Exception as error:
            if request.needed is not None:
                raise request.needed from None
            raise _explain(error) from error
        finally:
            request.caller = None
            try:
                _CURRENT.reset(token)
            except ValueError:
                pass  # the call was let go and ends in a task of its own
        if request.needed is not None:  # the tool has caught it
            raise request.needed
        return reply


def _explain(error: Exception) -> Exception:
    """Return what the SDK sends for an exception: its code and message, and of other exceptions nothing."""
    found = sys.modules["mcp.shared.jsonrpc_dispatcher"].handler_exception_to_error_data(error)
    return error if found is None else ToolError(found.message, details={"code": found.code})


def _is_about_questions(error: ToolError) -> bool:
    """Return whether a server of fastmcp refuses returned questions, because the session had a handshake."""
    code = (error.details or {}).get("code")
    return code == _INVALID_PARAMS and "InputRequiredResult" in str(error)


class _Request:
    """A request of ours, as the SDK sees it: its `DispatchContext`. `caller` is None when it has ended."""

    message_metadata = None

    def __init__(self, caller: tuple[Context, Asker] | None, *, is_notice: bool = False) -> None:
        self.caller = caller
        self.request_id = None if is_notice else f"toolcrib-{next(_numbers)}"
        self.needed: InputNeeded | None = None

    @property
    def transport(self) -> Any:
        made = sys.modules["mcp.shared.transport_context"].TransportContext
        return made(kind="toolcrib", can_send_request=True)

    @property
    def can_send_request(self) -> bool:
        return True

    @property
    def cancel_requested(self) -> Any:
        return sys.modules["anyio"].Event()  # a call that is cancelled is cancelled with its task

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self.caller is not None:
            self.caller[0].progress(progress, total, message)

    async def notify(self, method: str, params: Mapping[str, Any] | None, _: Any = None) -> None:
        if self.caller is not None and params is not None:
            tell(self.caller[0], method, params)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, _: Any = None
    ) -> dict[str, Any]:
        if method == "ping":
            return {}
        if self.caller is None:
            raise _refusal(_INTERNAL_ERROR, NOBODY)
        try:
            return await self.caller[1].ask(method, params or {})
        except InputNeeded as needed:
            self.needed = needed  # the whole call is repeated with the answers
            raise
        except CannotAskError as error:
            raise _refusal(_METHOD_NOT_FOUND, str(error)) from None
        except ToolError as error:
            raise _refusal(_INTERNAL_ERROR, str(error)) from None


class _Outbound:
    """Messages that a server sends beside its requests. They belong to the request of the sending task."""

    async def notify(self, method: str, params: Mapping[str, Any] | None, _: Any = None) -> None:
        request = _CURRENT.get()
        if request is not None:
            await request.notify(method, params)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, _: Any = None
    ) -> dict[str, Any]:
        request = _CURRENT.get()
        if request is None:
            raise _refusal(_INTERNAL_ERROR, NOBODY)
        return await request.send_raw_request(method, params)


_OUTBOUND = _Outbound()


def tell(context: Context, method: str, params: Mapping[str, Any]) -> None:
    """Pass a notification of a server to the caller of a tool, if it is for callers."""
    if method == "notifications/progress":
        context.progress(params["progress"], params.get("total"), params.get("message"))
    elif method == "notifications/message":
        context.log(params["level"], params.get("data"))


def _refusal(code: int, message: str) -> Exception:
    made: Exception = sys.modules["mcp.shared.exceptions"].MCPError(code=code, message=message)
    return made
