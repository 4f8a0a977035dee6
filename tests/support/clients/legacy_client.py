"""A legacy client over HTTP, driven step by step: it initializes when told to, reads streams event by event,
and can disconnect in the middle of one.

It uses only the standard library, not toolcrib's own client.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Event:
    """One server-sent event as received."""

    kind: str = "message"
    id: str | None = None
    retry: int | None = None
    data: str = ""

    @property
    def message(self) -> Any:
        return json.loads(self.data)


class Answer:
    """An answer; a stream is read event by event."""

    opened: ClassVar[list[Answer]] = []

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self._body = b""
        if self.is_stream:
            self.opened.append(self)
        else:
            self._body = response.read()
            self.leave()

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def json(self) -> Any:
        """The message of an answer that is not a stream."""
        assert not self.is_stream
        return json.loads(self._body)

    @property
    def result(self) -> Any:
        """The result, which is the last message of the answer."""
        return self.messages()[-1]["result"]

    @property
    def code(self) -> int:
        """The code of the error."""
        found: int = self.messages()[-1]["error"]["code"]
        return found

    def messages(self) -> list[Any]:
        """All messages until the end of the stream."""
        if not self.is_stream:
            return [self.json]
        return [event.message for event in self.events() if event.data]

    def events(self) -> Iterator[Event]:
        """All events until the end of the stream, without comments."""
        while (event := self.event()) is not None:
            yield event

    def event(self) -> Event | None:
        """The next event; None at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self._response.readline():
            text = line.decode().rstrip("\n")
            if not text:
                if fields:
                    break
                continue
            name, _, value = text.partition(": ")
            if name:
                fields[name] = value
        if not fields:
            self.leave()
            return None
        retry = fields.get("retry")
        kind = fields.get("event", "message")
        return Event(kind, fields.get("id"), int(retry) if retry else None, fields.get("data", ""))

    def leave(self) -> None:
        """Disconnect without reading the rest."""
        self._response.close()
        self._connection.close()
        if self in self.opened:
            self.opened.remove(self)

    @classmethod
    def leave_all(cls) -> None:
        """Disconnect every open stream."""
        for answer in list(cls.opened):
            answer.leave()


class Older:
    """One legacy client. Every request uses a new connection."""

    def __init__(self, port: int, version: str = "2025-11-25", *, path: str = "/mcp", **capabilities: Any):
        self.port = port
        self.version = version
        self.path = path
        self.capabilities = capabilities
        self.session: str | None = None
        self._number = 0

    def initialize(self) -> Any:
        """Initialize a session and return the result; later requests send its id."""
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "older", "version": "1"},
        }
        answer = self.ask("initialize", **params)
        assert answer.status == 200
        self.session = answer.headers.get("mcp-session-id")
        result = answer.json["result"]
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return result

    def ask(self, method: str, /, *, id_: Any = None, **params: Any) -> Answer:
        self._number += 1
        id_ = self._number if id_ is None else id_
        return self.post({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})

    def call(self, name: str, arguments: Any = None, *, token: Any = None, id_: Any = None) -> Answer:
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return self.ask("tools/call", id_=id_, name=name, arguments=arguments or {}, **meta)

    def cancel(self, id_: Any) -> None:
        params = {"requestId": id_}
        answer = self.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        assert answer.status == 202

    def reply(self, id_: Any, result: Any) -> Answer:
        """Answer a request of the server."""
        return self.post({"jsonrpc": "2.0", "id": id_, "result": result})

    def post(self, message: Any, **headers: str) -> Answer:
        own = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        return self.send("POST", json.dumps(message).encode(), **(own | headers))

    def listen(self, last: str | None = None) -> Answer:
        """Open the session's stream, or resume the one an event belongs to."""
        more = {} if last is None else {"Last-Event-ID": last}
        return self.send("GET", Accept="text/event-stream", **more)

    def end(self) -> int:
        """End the session and return the status."""
        return self.send("DELETE").status

    def send(self, method: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send any request, with the headers of the session and the negotiated version unless `headers`
        overrides them; an empty value omits a header."""
        fields = {}
        if self.session is not None:
            fields["Mcp-Session-Id"] = self.session
            if self.version >= "2025-06-18":
                fields["MCP-Protocol-Version"] = self.version
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        connection.request(method, self.path, body, {name: value for name, value in fields.items() if value})
        return Answer(connection, connection.getresponse())
