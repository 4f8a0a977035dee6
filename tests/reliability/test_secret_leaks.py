"""Secrets from any input appear nowhere but in the result of the tool itself."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.raw_http_client import Response, request
from tests.support.records.key_files import Keys
from tests.support.records.otel_recorder import Traces, open_traces
from tests.support.servers.http_servers import Served, serving
from toolcrib import MCPServer, ToolError
from toolcrib.logs import LineHandler, make_formatter
from toolcrib.policy import Audit, Auth, Limit, Policy, Rule, Telemetry

pytestmark = pytest.mark.row("H3")

PLACES = [("own", "audit.db"), ("asgi", "audit-asgi.db")]
IN_ARGUMENT = "canary-argument-61c0ffee"
IN_NESTED = "canary-nested-61c0ffee"
IN_RESULT = "canary-result-61c0ffee"
IN_VARIABLE = "canary-variable-61c0ffee"
IN_ERROR = "canary-error-61c0ffee"
IN_HEADER = "canary-header-61c0ffee"
IN_QUERY = "canary-query-61c0ffee"
SIGNED = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.Y2FuYXJ5LXNpZ25hdHVyZQ"
WRONG_KEY = "tck_canaryKEY61c0ffee" + "A" * 32


def make_server(policy: Policy) -> MCPServer:
    server = MCPServer("canaries", policy=policy)

    @server.tool
    def keep(secret: str, more: dict[str, Any] | None = None) -> str:
        """Take a secret and say nothing of it."""
        return "kept"

    @server.tool
    async def reveal() -> str:
        """Give a secret away: that is its job."""
        return IN_RESULT

    @server.tool
    def connect(secret: str) -> str:
        """Fail, and say too much about it."""
        raise ConnectionError(
            f"postgres://shop:{IN_ERROR}@db refused password={IN_ERROR!r} "
            f"Authorization: Bearer {IN_ERROR} and ${os.environ['SHOP_DB_PASSWORD']}"
        )

    @server.tool
    def refuse(secret: str) -> str:
        """Fail in words that are meant for the caller."""
        raise ToolError(f"No luck: {IN_RESULT}")

    @server.tool(timeout_s=0.05)
    async def stall(secret: str) -> str:
        """Never end."""
        import asyncio

        await asyncio.sleep(60)
        return secret

    @server.tool
    def hidden(secret: str) -> str:
        """Not for this caller."""
        return secret

    @server.tool
    def rare(secret: str) -> str:
        """Once a day."""
        return "ran"

    return server


@dataclass
class Scene:
    served: Served
    key: str
    folder: Path
    traces: Traces
    lines: io.StringIO
    words: io.StringIO
    replies: list[bytes] = field(default_factory=list)
    own: list[bytes] = field(default_factory=list)

    def call(self, name: str, *, key: str | None = None, is_own: bool = False, **arguments: Any) -> Response:
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        }
        headers = {
            "Authorization": f"Bearer {key or self.key}",
            "X-Secret": IN_HEADER,
            "Cookie": f"s={IN_HEADER}",
        }
        with self.served.connect() as peer:
            peer.send(request(json.dumps(body).encode(), headers, path=f"/mcp?token={IN_QUERY}"))
            answer = peer.read()
        (self.own if is_own else self.replies).append(answer.body + repr(answer.headers).encode())
        return answer

    def look(self) -> dict[str, str]:
        """Everything that anybody may see of it, by where."""
        with self.served.connect() as peer:
            peer.send(
                b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n\r\n"
                % (self.served.port, self.key.encode())
            )
            page = peer.read()
        assert page.status == 200
        files = [path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()]
        return {
            "replies": b"\n".join(self.replies).decode(),
            "log as JSON": self.lines.getvalue(),
            "log as text": self.words.getvalue(),
            "audit": b"\n".join(files).decode("latin-1"),
            "traces": self.traces.everything(),
            "figures": page.body.decode(),
        }


@pytest.fixture(params=PLACES, ids=lambda place: "-".join(place))
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    http_stack, file = request.param
    monkeypatch.setenv("SHOP_DB_PASSWORD", IN_VARIABLE)
    key = Keys(tmp_path / "keys.json").create("ana", ["metrics:read"])[0]
    policy = Policy(
        rules=[Rule(deny=["hidden"])],
        limits=[Limit(tools=["rare"], daily=1)],
        auth=Auth(keys=tmp_path / "keys.json"),
        audit=Audit(tmp_path / file),
        telemetry=Telemetry(prometheus=True, opentelemetry=True),
    )
    traces = open_traces()
    traces.clear()
    lines, words = io.StringIO(), io.StringIO()
    handlers = [LineHandler(lines, make_formatter("json"), "debug")]
    handlers.append(LineHandler(words, make_formatter("text", show_traces=True), "debug"))
    logger = logging.getLogger("toolcrib")
    before = logger.level
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with serving(http_stack, make_server(policy)) as served:
            yield Scene(served, key, tmp_path, traces, lines, words)
    finally:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)


def test_no_secret_turns_up_outside_of_the_tool_s_own_result(scene: Scene) -> None:
    secret = {"secret": IN_ARGUMENT}
    assert scene.call("keep", **secret, more={"password": IN_NESTED, "deep": [IN_NESTED]}).status == 200
    assert IN_RESULT in scene.call("reveal", is_own=True).body.decode()
    assert IN_RESULT in scene.call("refuse", **secret, is_own=True).body.decode()
    assert scene.call("connect", **secret).result["isError"]
    assert scene.call("stall", **secret).result["isError"]
    assert "error" in scene.call("hidden", **secret).json
    assert "error" in scene.call("missing", **secret).json
    assert not scene.call("rare", **secret).result.get("isError")
    assert scene.call("rare", **secret).result["isError"]
    for wrong in (WRONG_KEY, SIGNED, IN_HEADER):
        assert scene.call("keep", key=wrong, **secret).status == 401
    scene.served.server.dispatcher.crashes.flush()

    everything = scene.look()
    for place, text in everything.items():
        assert text, place
        for canary in (
            "61c0ffee",
            "canaryKEY",
            SIGNED,
            SIGNED.split(".")[2],
            scene.key,
            scene.key.removeprefix("tck_")[8:30],
        ):
            assert canary not in text, f"{canary} in {place}"
    # They have been looked for where something was said:
    assert "ConnectionError: postgres://shop:[redacted]@db refused" in everything["log as JSON"]
    assert "ConnectionError: postgres://shop:[redacted]@db refused" in everything["log as text"]
    assert "tools/call connect" in everything["traces"]
    assert 'toolcrib_calls_total{tool="connect",outcome="crashed",code="crashed"} 1' in everything["figures"]
    assert 'toolcrib_refusals_total{kind="401"} 3' in everything["figures"]
    assert "connect" in everything["audit"]


def test_one_id_leads_from_the_log_to_the_span_and_to_the_record(scene: Scene) -> None:
    scene.call("keep", secret="x")
    ended = [json.loads(line) for line in scene.lines.getvalue().splitlines() if "call ended" in line]
    [call_id] = [found["call_id"] for found in ended]
    [span] = scene.traces.spans
    assert (span.attributes or {})["toolcrib.call_id"] == call_id
    files = b"".join(path.read_bytes() for path in scene.folder.glob("audit*"))
    assert call_id.encode() in files
    [found] = ended
    assert (found["tool_name"], found["principal"], found["outcome"]) == ("keep", "key:ana", "ok")
    assert found["duration_ms"] >= 0
