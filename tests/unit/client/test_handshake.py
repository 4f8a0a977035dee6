"""The era of a server: newest first, old ones found out, and none taken for old by mistake."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib.client import session as handshake
from toolcrib.errors import ConfigurationError, InvalidResponseError, RemoteError, ResponseTimeoutError

from .scripted_server import (
    DISCOVERED,
    INITIALIZED,
    LEGACY,
    META,
    MODERN,
    ScriptedServer,
    legacy,
    modern,
    silence,
    text,
)


def refuse(code: int, data: Any = None) -> Any:
    return lambda scripted, message: scripted.refuse(message, code, "No", data)


async def test_a_modern_server_is_met_with_one_question() -> None:
    scripted = modern(tools_call=text("well"))
    async with scripted.client(info={"name": "me", "version": "7"}) as client:
        assert client.protocol_version == "2026-07-28"
        assert client.server_info == {"name": "scripted", "version": "1"}
        assert client.capabilities == DISCOVERED["capabilities"]
        assert client.instructions is None
        await client.call("t")
    assert [message["method"] for message in scripted.heard] == ["server/discover", "tools/call"]
    for message in scripted.heard:
        meta = message["params"]["_meta"]
        assert meta[f"{META}protocolVersion"] == "2026-07-28"
        assert meta[f"{META}clientCapabilities"] == {"extensions": {f"{META}tasks": {}}}
        assert meta[f"{META}clientInfo"] == {"name": "me", "version": "7"}


async def test_a_legacy_server_is_greeted_the_old_way() -> None:
    scripted = legacy(tools_call=text("well"))
    async with scripted.client() as client:
        assert client.protocol_version == "2025-11-25"
        assert client.server_info == {"name": "scripted", "version": "1"}
        assert client.instructions == "Be kind."
        await client.call("t")
        await client.ping()
    methods = [message["method"] for message in scripted.heard]
    assert methods == ["server/discover", "initialize", "notifications/initialized", "tools/call", "ping"]
    assert scripted.named("initialize")[0]["params"]["clientInfo"]["name"] == "toolcrib"
    assert "_meta" not in scripted.named("tools/call")[0]["params"]


@pytest.mark.parametrize(
    "reply",
    [
        refuse(-32601),
        refuse(-32600),
        refuse(-32602),
        refuse(-32000),
        refuse(-32022),
        refuse(-32022, {"supported": ["2025-11-25"]}),
        refuse(-32022, {"supported": "nonsense"}),
        {},
        {"supportedVersions": ["2025-11-25"]},
        {"supportedVersions": "2026-07-28"},
        {"content": []},
    ],
)
async def test_whatever_is_not_a_modern_greeting_means_an_old_server(reply: Any) -> None:
    async with ScriptedServer({**LEGACY, "server/discover": reply}).client() as client:
        assert client.protocol_version == "2025-11-25"


async def test_a_server_of_other_modern_versions_only_is_not_taken_for_an_old_one() -> None:
    scripted = ScriptedServer({**LEGACY, "server/discover": refuse(-32022, {"supported": ["2027-01-01"]})})
    with pytest.raises(RemoteError, match=r"^No$"):
        await scripted.client().connect()
    assert not scripted.named("initialize")
    assert not scripted.is_open


async def test_a_server_that_refuses_the_version_it_names_is_asked_once_more() -> None:
    def moody(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        if len(scripted.named("server/discover")) == 1:
            scripted.refuse(message, -32022, "No", {"supported": ["2026-07-28"], "requested": "2026-07-28"})
        else:
            scripted.answer(message, DISCOVERED)

    async with ScriptedServer({"server/discover": moody}).client() as client:
        assert client.protocol_version == "2026-07-28"


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_an_old_version_can_be_insisted_on(version: str) -> None:
    scripted = ScriptedServer({**MODERN, **LEGACY, "initialize": {**INITIALIZED, "protocolVersion": version}})
    async with scripted.client(protocol=version) as client:
        assert client.protocol_version == version
    assert scripted.heard[0]["method"] == "initialize"
    assert scripted.heard[0]["params"]["protocolVersion"] == version


async def test_the_server_may_choose_another_old_version() -> None:
    scripted = ScriptedServer({**LEGACY, "initialize": {**INITIALIZED, "protocolVersion": "2024-11-05"}})
    async with scripted.client() as client:
        assert client.protocol_version == "2024-11-05"


@pytest.mark.parametrize("agreed", ["1999-01-01", "2026-07-28", None, 5, ["x"]])
async def test_an_unknown_version_is_an_error(agreed: Any) -> None:
    scripted = ScriptedServer({"initialize": {**INITIALIZED, "protocolVersion": agreed}})
    with pytest.raises(InvalidResponseError, match=r"scripted negotiated the unknown protocol version"):
        await scripted.client().connect()
    assert not scripted.is_open


async def test_the_newest_version_can_be_insisted_on() -> None:
    scripted = legacy()
    with pytest.raises(RemoteError, match="Method not found"):
        await scripted.client(protocol="2026-07-28").connect()
    assert not scripted.named("initialize")


def test_a_version_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="protocol: unknown protocol version '2026'") as error:
        modern().client(protocol="2026")
    assert error.value.hint is not None
    assert "2025-11-25" in error.value.hint


@pytest.mark.parametrize("capabilities", [None, [], "x", {"tools": 5}, {"tools": {"listChanged": "yes"}}])
async def test_nonsense_about_itself_does_not_keep_a_server_from_being_used(capabilities: Any) -> None:
    greeting = {**DISCOVERED, "capabilities": capabilities, "_meta": 5, "instructions": 7}
    scripted = ScriptedServer({"server/discover": greeting, "tools/call": text("well")})
    async with scripted.client() as client:
        assert client.server_info == {}
        assert client.instructions is None
        assert await client.on_tools_changed(lambda: None) is False
        assert (await client.call("t")).text == "well"


# --- servers that are slow or deaf to what they do not know ---


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "DISCOVER_WAIT_S", 0.05)


@pytest.mark.usefixtures("_impatient")
async def test_a_server_deaf_to_the_new_greeting_is_met_by_the_old_one() -> None:
    scripted = ScriptedServer({**LEGACY, "server/discover": silence, "tools/call": text("well")})
    async with scripted.client() as client:
        assert client.protocol_version == "2025-11-25"
        assert (await client.call("t")).text == "well"
    assert "_meta" not in scripted.named("tools/call")[0]["params"]


@pytest.mark.usefixtures("_impatient")
async def test_a_slow_modern_server_that_then_refuses_the_old_greeting_is_still_met() -> None:
    def slow(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        """Answers both greetings once the second has come, as a server does that was busy starting."""
        scripted.refuse(message, -32022, "No", {"supported": ["2026-07-28"], "requested": "2025-11-25"})
        asyncio.get_running_loop().call_later(0.05, scripted.answer, scripted.heard[0], DISCOVERED)

    scripted = ScriptedServer({"server/discover": silence, "initialize": slow, "tools/call": text("well")})
    async with scripted.client() as client:
        assert client.protocol_version == "2026-07-28"
        assert (await client.call("t")).text == "well"
    assert scripted.named("tools/call")[0]["params"]["_meta"][f"{META}protocolVersion"] == "2026-07-28"


@pytest.mark.usefixtures("_impatient")
async def test_a_slow_legacy_server_that_then_refuses_the_new_greeting_is_still_met() -> None:
    def slow(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.refuse(scripted.heard[0], -32601, "Method not found")
        asyncio.get_running_loop().call_later(0.05, scripted.answer, message, INITIALIZED)

    scripted = ScriptedServer({"server/discover": silence, "initialize": slow, "tools/call": text("well")})
    async with scripted.client() as client:
        assert client.protocol_version == "2025-11-25"
        assert (await client.call("t")).text == "well"


@pytest.mark.usefixtures("_impatient")
async def test_a_server_that_answers_no_greeting_is_an_error_in_time() -> None:
    scripted = ScriptedServer({"server/discover": silence, "initialize": silence})
    with pytest.raises(ResponseTimeoutError, match=r"scripted: no response to .* within 0\.1 s"):
        await scripted.client(timeout_s=0.1).connect()
    assert not scripted.is_open
    assert not scripted.named("notifications/cancelled")


@pytest.mark.parametrize("greeting", ["server/discover", "initialize"])
async def test_a_connect_that_is_cancelled_leaves_nothing_open(greeting: str) -> None:
    replies = {greeting: silence}
    scripted = ScriptedServer({**replies})
    client = scripted.client()
    task = asyncio.create_task(client.connect())
    await scripted.wait_for(greeting)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not scripted.is_open
