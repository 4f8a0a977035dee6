"""JSON-RPC and MCP vocabulary: names, error codes, and the bytes of replies, errors and notifications.

The only module that writes JSON-RPC envelopes.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.validation import codec

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

MAX_ID = 256
Id = str | int
Headers = tuple[tuple[bytes, bytes], ...]
RETRY_AFTER: Headers = ((b"retry-after", b"1"),)


class RPCError(Exception):
    """A message that cannot be served; becomes a JSON-RPC error. `status` is the HTTP status that goes with
    it."""

    def __init__(
        self, code: int, message: str, *, data: Mapping[str, Any] | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status


@dataclass(slots=True, eq=False)
class Reply:
    """The reply to one message: a JSON body, or none if nothing is sent back (an accepted notification).

    `status` and `headers` are for HTTP; other transports ignore them. `committed` is the audit record of the
    call: the reply must not leave before it is done.
    """

    body: bytes | None
    status: int = 200
    headers: Headers = ()
    committed: Future[bool] | None = None


ACCEPTED = Reply(None, 202)


def invalid_params(problem: str) -> RPCError:
    """Return the error of a request that is understood, but asks for something that cannot be."""
    return RPCError(INVALID_PARAMS, f"Invalid params: {problem}", status=200)


def check_id(value: Any) -> Id:
    """Return the id of a request, or raise RPCError if it cannot be one."""
    if type(value) is int:
        number: int = value
        return number
    if type(value) is str:
        text: str = value
        if len(text) <= MAX_ID and len(text.encode()) <= MAX_ID:
            return text
        raise RPCError(INVALID_REQUEST, f"Invalid request: the id is longer than {MAX_ID} bytes")
    raise RPCError(INVALID_REQUEST, "Invalid request: the id must be a string or an integer")


def encode_id(value: Id) -> bytes:
    return b"%d" % value if type(value) is int else codec.write(value)


def encode_result(id_: Id, result: bytes) -> bytes:
    """Return the response to request `id_` around an encoded result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode_id(id_), result)


def encode_error(id_: Id | None, error: RPCError) -> bytes:
    """Return an error response; it has no id if none could be read."""
    content: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        content["data"] = error.data
    head = (
        b'{"jsonrpc":"2.0","error":' if id_ is None else b'{"jsonrpc":"2.0","id":%b,"error":' % encode_id(id_)
    )
    return head + codec.write(content) + b"}"


def encode_notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return codec.write(message)


def error_reply(id_: Id | None, error: RPCError, *, status: int | None = None) -> Reply:
    status = error.status if status is None else status
    return Reply(encode_error(id_, error), status, RETRY_AFTER if status in (429, 503) else ())
