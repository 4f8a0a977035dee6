"""Doors of other kinds, on both stacks: how often, anonymous, tokens, open figures; and no door at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Keyed, Ring, ask_modern, call_modern, fill, make_shop
from toolcrib import MCPServer
from toolcrib.config import load_config
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit, Limit, Policy, Rule
from toolcrib.policy.audit import open_log
from toolcrib.transports.serving import HTTPOptions


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    ring = Ring(tmp_path)
    ring.make("ana")
    ring.make("ben", "orders:write")
    return ring


@contextmanager
def shop_of(http_stack: str, ring: Ring, **demands: Any) -> Iterator[Served]:
    with serving(http_stack, make_shop(ring, **demands)) as served:
        yield served
        assert not served.complaints


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_anyone_who_calls_too_often_gets_a_result_that_says_when(
    http_stack: str, ring: Ring, tmp_path: Path
) -> None:
    limits = [Limit(rate="2/h", tools=["whoami"], name="slow down")]
    with shop_of(http_stack, ring, limits=limits, audit=Audit(tmp_path / "a.db")) as shop:
        answers = [call_modern(shop, ring["ana"], "whoami") for _ in range(2)]
        answers += [call_modern(shop, ring["ana"], name) for name in ("WHOAMI", "whoami")]
        assert [answer.status for answer in answers] == [200] * 4
        refused = answers[-1].result
        assert refused["isError"] is True
        told = refused["_meta"]["toolcrib/refusal"]
        assert (told["code"], told["limit"]) == ("throttled", "slow down")
        assert 0 < told["retryAfterS"] <= 1800
        client = Keyed(shop.port, ring["ana"])  # a session more is not a caller more
        client.initialize()
        assert client.call("whoami").result["_meta"]["toolcrib/refusal"]["code"] == "throttled"
        client.end()
        assert call_modern(shop, ring["ben"], "whoami").result["isError"] is False
    outcomes = [item["outcome"] for item in open_log(tmp_path / "a.db").records(tool="whoami")]
    assert outcomes.count("ok") == 3
    assert outcomes.count("throttled") >= 2


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_a_list_that_is_the_same_for_all_may_be_cached_by_all(http_stack: str, ring: Ring) -> None:
    with shop_of(http_stack, ring, rules=[Rule(deny=["steps"])]) as shop:
        result = ask_modern(shop, ring["ana"], "tools/list").result
        assert result["cacheScope"] == "public"
        assert "steps" not in [tool["name"] for tool in result["tools"]]


# --- reached from elsewhere --------------------------------------------------------------------------


async def test_no_server_listens_beyond_this_machine_for_everybody_unless_they_say_so(ring: Ring) -> None:
    for policy in (None, Policy(), Policy(rules=[Rule(deny=["steps"])])):
        server = MCPServer("bare", policy=policy)
        fill(server)
        for host in ("0.0.0.0", "::", "192.0.2.1"):
            with pytest.raises(ConfigurationError, match="callers are not authenticated") as caught:
                await server.run("http", host=host, port=0)
            assert caught.value.key == "host"
            assert caught.value.hint is not None
            assert "--insecure" in caught.value.hint
        server.transports._check_host("0.0.0.0", HTTPOptions(insecure=True))
        server.transports._check_host("127.0.0.1", HTTPOptions())
    shop = make_shop(ring)
    shop.transports._check_host("0.0.0.0", HTTPOptions())


def test_an_application_for_other_machines_asks_who_they_are_unless_told_otherwise(ring: Ring) -> None:
    for policy in (None, Policy(rules=[Rule(deny=["steps"])])):
        server = MCPServer("bare", policy=policy)
        fill(server)
        for host in ("0.0.0.0", "::", "192.0.2.1", "tools.example.com"):
            with pytest.raises(ConfigurationError, match="callers are not authenticated") as caught:
                server.asgi(host=host)
            assert caught.value.hint is not None
            assert "insecure=True" in caught.value.hint
        server.asgi(host="0.0.0.0", insecure=True)
        server.asgi(host="::1")
    make_shop(ring).asgi(host="0.0.0.0")


async def ask_at(app: Any, local: tuple[str, int] | None) -> int:
    """The status of a request that came to this address of the machine, and says otherwise."""
    sent: list[Any] = []
    body = {"type": "http.request", "body": b'{"jsonrpc":"2.0","id":1,"method":"ping"}'}
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "server": local}

    async def receive() -> Any:
        return body

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


async def test_an_application_that_its_host_opens_to_others_is_closed_to_them(
    ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    home: list[Any] = [("127.0.0.1", 80), ("::1", 80), ("::ffff:127.0.0.1", 80), ("testserver", 80), None]
    away: list[Any] = [("192.0.2.1", 80), ("fe80::1%eth0", 80), ("::ffff:192.0.2.1", 80)]
    server = MCPServer("bare")
    fill(server)
    app = server.asgi(allowed_hosts=["*"])
    assert [await ask_at(app, local) for local in home + away] == [200] * 5 + [403] * 3
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "asgi(insecure=True)" in told[0]
    meant = server.asgi(insecure=True)
    assert [await ask_at(meant, local) for local in home + away] == [200] * 8
    await server.stop()
    shop = make_shop(ring)
    app = shop.asgi()
    assert {await ask_at(app, local) for local in home + away} == {401}
    await shop.stop()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file"),
        ("nothing", "not JSON"),
        ("{}", "not a keys file"),
        ("open", "accessible to other users"),
    ],
)
async def test_anything_that_is_wrong_with_a_file_of_keys_is_said_where_it_is_named(
    tmp_path: Path, text: str | None, words: str
) -> None:
    keys = tmp_path / "none.json"
    if text is not None:
        keys.write_text(text)
        keys.chmod(0o644 if text == "open" else 0o600)
    file = tmp_path / "toolcrib.toml"
    file.write_text('[server]\nname = "shop"\n\n[auth]\noptional = true\nkeys = "none.json"\n')
    server = MCPServer("shop", policy=load_config(file).policy)
    fill(server)
    for begin in (lambda: server.run("http", port=0), start_application(server)):
        with pytest.raises(ConfigurationError, match=words) as caught:
            await begin()
        assert (caught.value.file, caught.value.line, caught.value.key) == (str(file), 6, "auth.keys")
        assert str(keys) in caught.value.message
        await server.stop()


def start_application(server: MCPServer) -> Any:
    async def start() -> None:
        await ask_at(server.asgi(), ("127.0.0.1", 80))

    return start


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_anything_that_was_confirmed_by_one_key_is_nothing_to_another(http_stack: str, ring: Ring) -> None:
    with shop_of(http_stack, ring, rules=[Rule(confirm=["whoami"])]) as shop:
        arguments: dict[str, Any] = {"name": "whoami", "arguments": {}}
        asked = ask_modern(shop, ring["ana"], "tools/call", arguments).result
        assert list(asked["inputRequests"]) == ["toolcrib.confirm"]
        yes = {
            **arguments,
            "requestState": asked["requestState"],
            "inputResponses": {"toolcrib.confirm": {"action": "accept", "content": {}}},
        }
        stolen = ask_modern(shop, ring["ben"], "tools/call", yes)
        assert "requestState" in stolen.json["error"]["message"]
        for expected in ("complete", "input_required"):
            result = ask_modern(shop, ring["ana"], "tools/call", yes).result
            assert result["resultType"] == expected
        assert json.dumps(result).count("toolcrib.confirm") == 1
