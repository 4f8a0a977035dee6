"""The requirements about the protocol: messages as bytes, in and out of a server."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.support.servers.stdio_program import Program
from tests.wire.cases import call, encode, legacy, message, modern
from toolcrib import MCPServer, ToolError, ToolNotFoundError
from toolcrib.transports.pipe import Pipe

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
EVERY = (*LEGACY, "2026-07-28")
ECHO_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "要回显的内容"}},
    "required": ["text"],
}


class Wire:
    """A client that sends messages as a program would, one after the other."""

    def __init__(self, server: MCPServer, version: str) -> None:
        self._replies: list[Any] = []
        self._pipe = Pipe(server.transports.engine, lambda data: self._replies.append(json.loads(data)))
        self.version = version
        if version != "2026-07-28":
            self._pipe.feed(encode(legacy("initialize", protocolVersion=version, capabilities={})))
            self.opened = self._replies.pop()["result"]

    async def ask(self, method: str, *, id_: Any = 7, **params: Any) -> Any:
        build = modern if self.version == "2026-07-28" else legacy
        return await self.send(build(method, id_=id_, **params))

    async def call(self, name: str, arguments: Any) -> Any:
        return await self.ask("tools/call", name=name, arguments=arguments)

    async def send(self, what: Any) -> Any:
        self._pipe.feed(encode(what))
        await self._pipe.drain(5.0)
        return self._replies.pop() if self._replies else None


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("documents", version="1.2", **options)

    @server.tool("echo", "回显输入文本", ECHO_SCHEMA)
    async def echo(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": arguments["text"]}]}

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def fail() -> str:
        """Fail in a way nobody thought of."""
        raise RuntimeError("the password is hunter2")

    @server.tool
    def refuse() -> str:
        """Refuse in the author's words."""
        raise ToolError("not on Sundays")

    return server


@pytest.mark.requirement("A-07")
async def test_initialize_tools_list_and_tools_call_are_routed() -> None:
    async with make_server() as server:
        wire = Wire(server, "2024-11-05")
        assert wire.opened["serverInfo"] == {"name": "documents", "version": "1.2"}
        assert len((await wire.ask("tools/list"))["result"]["tools"]) == 4
        assert (await wire.call("echo", {"text": "x"}))["result"]["content"][0]["text"] == "x"


@pytest.mark.requirement("A-08")
@pytest.mark.parametrize("version", LEGACY)
async def test_initialize_answers_with_version_and_tools_capability(version: str) -> None:
    async with make_server() as server:
        opened = Wire(server, version).opened
        assert opened["protocolVersion"] == version
        assert "tools" in opened["capabilities"]


@pytest.mark.requirement("A-09")
async def test_tools_list_gives_name_description_and_schema_of_every_tool() -> None:
    async with make_server() as server:
        wire = Wire(server, "2024-11-05")
        reply = await wire.send(message("tools/list", {}, id_="list"))
        assert reply["id"] == "list"
        assert [tool["name"] for tool in reply["result"]["tools"]] == ["echo", "add", "fail", "refuse"]
        echo = {"name": "echo", "description": "回显输入文本", "inputSchema": ECHO_SCHEMA}
        assert reply["result"]["tools"][0] == echo


@pytest.mark.requirement("A-11")
@pytest.mark.requirement("A-10")
@pytest.mark.parametrize("version", EVERY)
async def test_tools_call_parses_name_and_arguments_and_returns_the_result(version: str) -> None:
    async with make_server() as server:
        result = (await Wire(server, version).call("add", {"a": 2, "b": 3}))["result"]
        assert (result["content"], result["isError"]) == ([{"type": "text", "text": "5"}], False)


@pytest.mark.requirement("A-12")
@pytest.mark.parametrize("version", EVERY)
async def test_an_unknown_method_is_minus_32601(version: str) -> None:
    async with make_server() as server:
        assert (await Wire(server, version).ask("tools/nothing"))["error"]["code"] == -32601


@pytest.mark.requirement("A-12", "X-05")
@pytest.mark.parametrize("version", EVERY)
async def test_an_unknown_tool_is_minus_32602_or_what_the_setting_says(version: str) -> None:
    async with make_server() as server:
        error = (await Wire(server, version).call("nothing", {}))["error"]
        assert error == {"code": -32602, "message": "Unknown tool: nothing"}
        with pytest.raises(ToolNotFoundError, match=r"^Unknown tool: nothing$") as raised:
            await server.call("nothing")
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, LookupError)
    async with make_server(unknown_tool_code=-32601) as server:
        assert (await Wire(server, version).call("nothing", {}))["error"]["code"] == -32601


@pytest.mark.requirement("A-13", "X-06")
@pytest.mark.parametrize("version", EVERY)
async def test_a_malformed_envelope_is_minus_32602(version: str) -> None:
    async with make_server() as server:
        wire = Wire(server, version)
        for params in (
            {},
            {"arguments": {"text": "x"}},
            {"name": 5, "arguments": {}},
            {"name": None, "arguments": {}},
            {"name": "echo", "arguments": "x"},
            {"name": "echo", "arguments": ["x"]},
            {"name": "echo", "arguments": None},
        ):
            assert (await wire.ask("tools/call", **params))["error"]["code"] == -32602


@pytest.mark.requirement("A-13", "X-06")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
@pytest.mark.parametrize("arguments", [{}, {"text": 5}, {"text": None}, {"text": "x", "more": 1, "txet": 2}])
async def test_bad_arguments_are_minus_32602_for_older_clients(version: str, arguments: Any) -> None:
    async with make_server() as server:
        server_error = (await Wire(server, version).call("add", arguments))["error"]
        assert server_error["code"] == -32602
        assert "'a'" in server_error["message"] or "'text'" in server_error["message"]


@pytest.mark.requirement("G-09", "X-06")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("arguments", "word"),
    [({}, "'a'"), ({"a": 1}, "'b'"), ({"a": "x", "b": 1}, "'a'"), ({"a": 1, "b": []}, "'b'")],
)
async def test_bad_arguments_are_a_result_that_names_the_field(
    version: str, arguments: Any, word: str
) -> None:
    async with make_server() as server:
        result = (await Wire(server, version).call("add", arguments))["result"]
        assert result["isError"] is True
        assert word in result["content"][0]["text"]


@pytest.mark.requirement("A-14")
@pytest.mark.parametrize("version", EVERY)
async def test_a_tool_that_throws_is_logged_and_answered(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_server() as server:
        wire = Wire(server, version)
        result = (await wire.call("fail", {}))["result"]
        assert result["isError"] is True
        assert "hunter2" not in json.dumps(result)
        refused = (await wire.call("refuse", {}))["result"]
        assert (refused["isError"], refused["content"][0]["text"]) == (True, "not on Sundays")
        assert (await wire.call("add", {"a": 1, "b": 1}))["result"]["isError"] is False
    failures = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert any(record.name.startswith("toolcrib") and "fail" in record.getMessage() for record in failures)


@pytest.mark.requirement("X-30")
def test_nothing_but_mcp_reaches_standard_output() -> None:
    with Program("stdio") as program:
        reply = program.ask(call("modern", "noisy", {"words": "noise-of-a-tool"}))
        assert reply["result"]["content"][0]["text"] == "quiet"
        assert program.ask(message("ping", id_="after")) == {"jsonrpc": "2.0", "id": "after", "result": {}}
        assert program.errors.count("noise-of-a-tool") >= 6


@pytest.mark.requirement("X-31")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("id_", ["a", "7", "", "日本語", 0, -1, 2**60, 7])
async def test_ids_are_echoed_unchanged(version: str, id_: Any) -> None:
    async with make_server() as server:
        wire = Wire(server, version)
        for method, params in (("tools/list", {}), ("tools/call", {"name": "refuse"}), ("nothing", {})):
            answered = (await wire.ask(method, id_=id_, **params))["id"]
            assert (type(answered), answered) == (type(id_), id_)


@pytest.mark.requirement("X-34")
@pytest.mark.parametrize("version", EVERY)
async def test_every_released_version_lists_and_calls(version: str) -> None:
    async with make_server() as server:
        wire = Wire(server, version)
        listed = (await wire.ask("tools/list"))["result"]
        assert [tool["name"] for tool in listed["tools"]] == ["echo", "add", "fail", "refuse"]
        assert ("resultType" in listed) is (version == "2026-07-28")
        assert (await wire.call("add", {"a": 1, "b": 2}))["result"]["content"][0]["text"] == "3"


@pytest.mark.requirement("X-34")
async def test_an_unknown_version_is_answered_with_the_newest_that_shakes_hands() -> None:
    async with make_server() as server:
        for asked in ("2026-07-28", "1999-01-01", "2099-01-01", "nonsense"):
            pipe_replies: list[Any] = []
            pipe = Pipe(server.transports.engine, lambda data, to=pipe_replies: to.append(json.loads(data)))
            pipe.feed(encode(legacy("initialize", protocolVersion=asked, capabilities={})))
            assert pipe_replies[0]["result"]["protocolVersion"] == "2025-11-25"
