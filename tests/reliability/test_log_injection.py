"""A record is one line of the log whatever it contains, and cannot control a terminal."""

from __future__ import annotations

import io
import itertools
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.raw_http_client import request
from tests.support.records.key_files import Keys
from tests.support.servers.http_servers import HTTP_STACKS, serving
from toolcrib import Context, MCPServer, ToolNotFoundError
from toolcrib.context import Principal
from toolcrib.logs import LineHandler, make_formatter
from toolcrib.policy import Audit, Auth, Policy

pytestmark = pytest.mark.row("H4")

SIGNS = [
    "\n",
    "\r\n",
    "\r",
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x1b[1A\x1b[2K",
    "\x9b31m",
    "\u202e",
    "\u2066",
    "\x00",
    "\u2028",
    "\u2029",
    "\x85",
    "\x0b",
    "\x0c",
    "\x08\x08\x08",
    "\x7f",
    "\u200b",
    "\ufeff",
    "\U000e0041",
]
FORGERIES = [
    "00:00:00 error: forged",
    '{"ts": "x", "level": "error", "message": "forged"}',
    "  File forged, line 1",
    "%s %d %(name)s {0}",
    '"}, "forged": true, {"',
]
STRINGS = [
    text
    for sign, forgery in itertools.product(SIGNS, FORGERIES)
    for text in (f"a{sign}{forgery}", f"{sign}{forgery}{sign}")
]


def test_there_are_two_hundred_of_them() -> None:
    assert len(set(STRINGS)) == 200


class Tally(logging.Handler):
    """How many records there were, and what they were."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@dataclass
class Log:
    tally: Tally
    lines: io.StringIO
    words: io.StringIO

    def check(self, at_least: int) -> list[dict[str, Any]]:
        """That both logs have as many records as there were, and no sign that is more than a letter."""
        count = len(self.tally.messages)
        assert count >= at_least
        lines = self.lines.getvalue()
        assert lines.count("\n") == count
        found = [json.loads(line) for line in lines.splitlines()]
        assert len(found) == count
        assert not any("forged" in record for record in found)
        words = self.words.getvalue()
        assert sum(not line.startswith("  ") for line in words[:-1].split("\n")) == count
        for text in (lines, words):
            assert all(letter.isprintable() for letter in text.replace("\n", ""))
        assert [record["message"] for record in found] == [
            message.partition("\n")[0] if "error_type" in record else message
            for record, message in zip(found, self.tally.messages, strict=True)
        ]
        return found


@pytest.fixture
def log() -> Iterator[Log]:
    found = Log(Tally(), io.StringIO(), io.StringIO())
    handlers: list[logging.Handler] = [found.tally]
    handlers.append(LineHandler(found.lines, make_formatter("json"), "debug"))
    handlers.append(LineHandler(found.words, make_formatter("text", show_traces=True), "debug"))
    logger = logging.getLogger("toolcrib")
    before = logger.level
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield found
    logger.setLevel(before)
    for handler in handlers:
        logger.removeHandler(handler)


def make_server(policy: Policy, **options: Any) -> MCPServer:
    server = MCPServer("injected", policy=policy, **options)

    @server.tool
    def echo(text: str) -> str:
        """Give it back."""
        return text

    @server.tool
    def fail(text: str) -> str:
        """Say it in an exception, and in what led to it."""
        try:
            raise KeyError(text)
        except KeyError as error:
            raise RuntimeError(text) from error

    @server.tool
    async def tell(text: str, ctx: Context) -> str:
        """Say it in the log."""
        await ctx.log("warning", text)
        return "told"

    return server


async def test_callers_tools_and_their_errors_cannot_forge_a_record(log: Log, tmp_path: Path) -> None:
    server = make_server(Policy(audit=Audit(tmp_path / "audit.db")))
    await server.start()
    try:
        for text in STRINGS:
            who = Principal(f"oauth:{text}")
            await server.dispatcher.call("echo", {"text": text}, principal=who)
            await server.dispatcher.call("echo", {text: text}, principal=who)
            await server.dispatcher.call("tell", {"text": text}, principal=who)
            with pytest.raises(ToolNotFoundError):
                await server.dispatcher.call(text, {"text": text}, principal=who)
            await server.dispatcher.call("fail", {"text": text}, principal=who)
            server.dispatcher.crashes.flush()
    finally:
        await server.stop()
    found = log.check(at_least=6 * len(STRINGS))
    ended = [record for record in found if record["message"].startswith("call ended")]
    assert len(ended) == 5 * len(STRINGS)
    assert {record["principal"] for record in ended} == {f"oauth:{text}" for text in STRINGS}
    assert set(STRINGS) <= {record["tool_name"] for record in ended}
    assert set(STRINGS) <= {record["message"] for record in found}


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_clients_cannot_forge_a_record_over_http(log: Log, tmp_path: Path, http_stack: str) -> None:
    key = Keys(tmp_path / "keys.json").create("ana")[0]
    auth = Auth(keys=tmp_path / "keys.json", max_failures="100000/s")
    server = make_server(Policy(auth=auth), log_arguments=True)
    statuses = set()
    with serving(http_stack, server) as served:
        for text, name in itertools.product(STRINGS, (None, "echo", "fail")):
            params = {"name": name or text, "arguments": {text: text}, "_meta": {"traceparent": text}}
            body = json.dumps(
                {"jsonrpc": "2.0", "id": text, "method": "tools/call", "params": params}
            ).encode()
            # Bytes that would end a header are not one any more; the others reach us, or are refused.
            plain = text.encode("latin-1", "replace").decode("latin-1")
            value = "".join(letter for letter in plain if letter not in "\r\n\x00")
            for shown in (key, value, "nobodys"):
                headers = {"Authorization": f"Bearer {shown}", "User-Agent": value, "X-Request-Id": value}
                statuses.add(served.exchange(request(body, headers)).status)
    assert {200, 400, 401} <= statuses
    found = log.check(at_least=2 * len(STRINGS))
    assert any(record["message"].startswith("Arguments: ") for record in found)
