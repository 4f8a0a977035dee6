"""The words of the wire: names, codes, and the bytes of replies, errors and notifications.

The only module that spells camelCase envelopes. Knows JSON-RPC and MCP's vocabulary; refuses to know what a
message means.
"""

from __future__ import annotations

from collections.abc import Mapping
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


class Fault(Exception):  # noqa: N818 - an error of the peer's, answered with a JSON-RPC error
    """A message that cannot be served. `status` is what HTTP says of it."""

    def __init__(
        self, code: int, message: str, *, data: Mapping[str, Any] | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status


class Reply:
    """What goes back at once. No body: nothing is to be said (a notification was taken). `fields` are headers
    that HTTP adds."""

    __slots__ = ("body", "fields", "session", "status")

    def __init__(self, body: bytes | None, status: int = 200, session: str | None = None) -> None:
        self.body = body
        self.status = status
        self.session = session
        self.fields: tuple[tuple[bytes, bytes], ...] = ()


ACCEPTED = Reply(None, 202)


def check_id(value: Any) -> Id:
    """The id of a request. Raises Fault for what none can be."""
    if type(value) is int:
        number: int = value
        return number
    if type(value) is str:
        text: str = value
        if len(text) <= MAX_ID and len(text.encode()) <= MAX_ID:
            return text
        raise Fault(INVALID_REQUEST, f"Invalid request: the id is longer than {MAX_ID} bytes")
    raise Fault(INVALID_REQUEST, "Invalid request: the id must be a string or an integer")


def encode_id(value: Id) -> bytes:
    return b"%d" % value if type(value) is int else codec.write(value)


def result_bytes(id_: Id, result: bytes) -> bytes:
    """A reply around a result that is encoded already."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode_id(id_), result)


def error_bytes(id_: Id | None, fault: Fault) -> bytes:
    """An error; where no id could be read, it has none."""
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    head = (
        b'{"jsonrpc":"2.0","error":' if id_ is None else b'{"jsonrpc":"2.0","id":%b,"error":' % encode_id(id_)
    )
    return head + codec.write(error) + b"}"


def refusal(id_: Id | None, fault: Fault, *, status: int | None = None) -> Reply:
    return Reply(error_bytes(id_, fault), fault.status if status is None else status)


def notification_bytes(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return codec.write(message)


def request_bytes(id_: Id, method: str, params: Mapping[str, Any]) -> bytes:
    return codec.write({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
