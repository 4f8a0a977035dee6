"""Legacy clients of a fleet: their requests go around three replicas, on real engines."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.clients.legacy_client import Answer, Older
from tests.support.servers.serve_process import Serving, wait_until
from tests.support.system.engines import Server
from tests.wire.test_worker_sessions import ADA, TOOLS, question, text_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fleet is tested on Linux")

SECRET = "s" * 43


@pytest.fixture(scope="module")
def settings(postgresql_server: Server, redis_server: Server, tmp_path_factory: Any) -> dict[str, Any]:
    """Where three replicas are started, and their variables."""
    from toolcrib.state.postgresql.database import migrate

    folder: Path = tmp_path_factory.mktemp("fleet")
    schema = f"t{token_hex(4)}"
    migrate(postgresql_server.url, schema)
    (folder / "fleet.key").write_text(SECRET)
    (folder / "fleet.key").chmod(0o600)
    (folder / "tools.py").write_text(TOOLS)
    fleet = {
        "postgres": "env:POSTGRES",
        "redis": "env:REDIS",
        "key_file": str(folder / "fleet.key"),
        "name": schema,
        "schema": schema,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in fleet.items()]
    (folder / "toolcrib.toml").write_text('[server]\ntargets = ["tools.py"]\n\n[fleet]\n' + "\n".join(lines))
    return {"cwd": folder, "POSTGRES": postgresql_server.url, "REDIS": redis_server.url}


@pytest.fixture
def replicas(settings: dict[str, Any]) -> Iterator[list[Serving]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Serving(**settings)) for _ in range(3)]
        Answer.leave_all()


class Around(Older):
    """A client behind a round-robin proxy that leaves out replicas that are down."""

    def __init__(self, replicas: list[Serving], **capabilities: Any) -> None:
        self._ports = [urlsplit(each.address).port or 0 for each in replicas]
        self._turn = 0
        super().__init__(self._ports[0], **capabilities)

    def send(self, method: str, body: bytes | None = None, **headers: str) -> Answer:
        for _ in self._ports:
            self._turn += 1
            self.port = self._ports[self._turn % len(self._ports)]
            try:
                return super().send(method, body, **headers)
            except ConnectionRefusedError:
                continue
        raise AssertionError("no replica answers")


def test_session_roams(replicas: list[Serving]) -> None:
    client = Around(replicas, elicitation={}, sampling={}, roots={})
    client.initialize()
    assert len({text_of(client.call("pid")) for _ in range(3)}) == 3
    assert client.ask("logging/setLevel", level="error").result == {}
    wait_until(lambda: not any(client.call("chat", {"level": "info"}).is_stream for _ in range(3)))
    for _ in range(6):
        call = client.call("greet")
        assert client.reply(question(call).message["id"], ADA).status == 202
        assert text_of(call) == "Hello, Ada!"
    said = {"role": "assistant", "content": {"type": "text", "text": "x" * 200_000}, "model": "m"}
    call = client.call("write")
    assert client.reply(question(call).message["id"], said).status == 202
    assert len(text_of(call)) == 200_000
    other = Around(replicas)
    other.initialize()
    assert other.end() == 200
    wait_until(lambda: {other.ask("ping").status for _ in range(3)} == {404})


def test_subscribe_roams(replicas: list[Serving]) -> None:
    client = Around(replicas)
    client.initialize()
    own = client.listen()
    for number in range(6):
        uri = f"shop://{number}"
        assert client.ask("resources/subscribe", uri=uri).result == {}
        assert text_of(client.call("sell", {"item": str(number)})) == "sold"
        found = next(event for event in own.events() if event.data)
        assert found.message["params"]["uri"] == uri


def test_a_cancellation_reaches_the_replica_of_the_call(replicas: list[Serving], tmp_path: Path) -> None:
    client = Around(replicas)
    client.initialize()
    for number in range(3):
        file = tmp_path / str(number)
        call = client.call("wait", {"file": str(file)}, token="t", id_=f"wait {number}")
        assert call.event() is not None
        client.cancel(f"wait {number}")
        assert list(call.events()) == []
        wait_until(file.exists)


def test_sessions_are_opened_and_asked_while_postgresql_hangs(
    replicas: list[Serving], postgresql_server: Server
) -> None:
    client = Around(replicas, elicitation={})
    postgresql_server.pause()
    try:
        began = time.monotonic()
        client.initialize()
        assert [client.ask("ping").status for _ in range(6)] == [200] * 6
        call = client.call("greet")
        assert client.reply(question(call).message["id"], ADA).status == 202
        assert text_of(call) == "Hello, Ada!"
        assert time.monotonic() - began < 3  # a quarter of a second for each replica; its time-out is 5 s
    finally:
        postgresql_server.resume()
    wait_until(lambda: client.ask("logging/setLevel", level="error").status == 200)


def test_a_session_survives_the_replica_that_opened_it(replicas: list[Serving]) -> None:
    client = Around(replicas, elicitation={})
    client.initialize()
    calls = [client.call("greet") for _ in range(3)]
    asked = [question(call).message["id"] for call in calls]
    replicas[1].process.send_signal(signal.SIGKILL)  # the first turn was its own
    replicas[1].process.wait(10)
    statuses = []
    for id_ in asked:
        began = time.monotonic()
        statuses.append(client.reply(id_, ADA).status)
        assert time.monotonic() - began < 0.5  # Redis knows who listens: no time-out
    assert sorted(statuses) == [202, 202, 404]
    texts = [text_of(call) for call, status in zip(calls, statuses, strict=True) if status == 202]
    assert texts == ["Hello, Ada!"] * 2
    for _ in range(12):
        assert client.ask("ping").status == 200
        call = client.call("greet")
        assert client.reply(question(call).message["id"], ADA).status == 202
        assert text_of(call) == "Hello, Ada!"
    assert all("Traceback" not in each.errors for each in replicas)
