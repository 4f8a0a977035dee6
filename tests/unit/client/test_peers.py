"""The client against real servers: the official SDK and fastmcp, over every link, in both eras.

Over HTTP each thing is tried with a client of its own. Over stdio a client is a process, which takes a second
to start: there one does all of it, one thing after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.sdk_servers import ENVIRONMENT, forked_command_of
from toolcrib.client import Client, StdioTransport
from toolcrib.content import Result
from toolcrib.context import Answer, Elicitation, Sampling, SamplingResult, URLElicitation
from toolcrib.errors import RemoteError

pytest.importorskip("mcp", reason="the peers are not installed")

Connect = Callable[..., Client]
ERAS = {"2026-07-28": "auto", "2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18"}


NEWER = ("2026-07-28", "2025-11-25")
"""The eras in which servers tell of what goes on, each in its way."""


@pytest.fixture
def connect(request: pytest.FixtureRequest, address_of: Callable[..., str]) -> Connect:
    """A client of the peer, the link and the era that the test is for."""
    peer, link, era = request.param

    def make(**options: Any) -> Client:
        return Client(address_of(peer, link), protocol=ERAS[era], timeout_s=30, **options)

    return make


def for_each(*peers: str, link: str = "http", eras: tuple[str, ...] = tuple(ERAS)) -> Any:
    cases = [(peer, link, era) for peer in peers for era in eras]
    return pytest.mark.parametrize("connect", cases, ids=["-".join(case) for case in cases], indirect=True)


async def say_ada(question: Elicitation | URLElicitation) -> Answer:
    assert isinstance(question, Elicitation)
    assert question.message == "Who are you?"
    return Answer("accept", {"name": "Ada"})


async def is_refused(call: Awaitable[Result], code: int) -> bool:
    """Whether a call fails: as a result that says so, or as an error with that code."""
    try:
        return (await call).is_error
    except RemoteError as error:
        return error.rpc_code == code


async def decline(question: Elicitation | URLElicitation) -> Answer:
    return Answer("decline")


async def say_paris(prompt: Sampling) -> SamplingResult:
    return SamplingResult("Paris", model="m")


# --- what is tried, of a client that is connected -----------------------------------------------------


async def meet_list_and_call(client: Client, era: str) -> None:
    assert client.protocol_version == era
    assert client.server_info["name"] == "peer"
    assert client.server_info["version"] == "1.2.3"
    assert client.instructions == "Be kind."
    tools = {tool.name: tool for tool in await client.list_tools()}
    assert tools["add"].description.rstrip(".") == "Add two whole numbers"
    assert tools["add"].definition.annotations["readOnlyHint"] is True
    assert tools["add"].input_schema["required"] == ["a"]
    assert tools["echo"].definition.title == "An echo"
    result = await client.call("add", {"a": 2, "b": 40})
    assert (result.text, result.is_error) == ("42", False)
    assert result.structured_content in (42, {"result": 42})
    assert (await client.call("echo", {"text": "żółw\n\u2028"})).text == "żółw\n\u2028"
    assert (await client.call("fail", {"text": "no"})).is_error
    assert await is_refused(client.call("add", {"a": "x"}), -32602)  # the way before 2025-11-25
    await client.ping()


async def hear_progress(client: Client) -> None:
    steps: list[Any] = []
    result = await client.call("count", {"upto": 3}, on_progress=lambda *step: steps.append(step))
    assert result.text == "counted to 3"
    assert steps == [(number, 3, f"at {number}") for number in (1, 2, 3)]


async def hear_log_lines(client: Client) -> None:
    lines: list[Any] = []
    await client.call("count", {"upto": 2}, on_log=lambda *line: lines.append(line))
    assert lines == [("info", "line 1"), ("info", "line 2")]


async def answer_questions(client: Client, folder: Path) -> None:
    assert (await client.call("greet")).text == "Hello, Ada (30)"
    assert (await client.call("quiz")).text == "The model said Paris"
    assert (await client.call("where")).text == folder.as_uri()


async def cancel_a_call(client: Client, mark: str) -> None:
    task = asyncio.create_task(client.call("wait", {"mark": mark}))
    await client.call("echo", {"text": "meanwhile"})
    await asyncio.sleep(0.1)  # the call has to be running before it can be cancelled
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(10):
        while mark not in (await client.call("who_ended")).text:
            await asyncio.sleep(0.02)


async def hear_a_change(client: Client, mark: str) -> None:
    name = "".join(char if char.isalnum() else "_" for char in mark)[-40:].strip("_")
    rung = asyncio.Event()
    await client.on_tools_changed(rung.set)
    assert not (await client.call("grow", {"name": name})).is_error
    async with asyncio.timeout(10):
        await rung.wait()
    assert name in [tool.name for tool in await client.list_tools()]


# --- over HTTP ---------------------------------------------------------------------------------------


@for_each("mcp", "fastmcp")
async def test_a_server_is_met_listed_and_called(connect: Connect, request: pytest.FixtureRequest) -> None:
    async with connect() as client:
        await meet_list_and_call(client, request.node.callspec.params["connect"][2])


@for_each("mcp", "fastmcp", eras=NEWER)
async def test_progress_is_heard_in_order(connect: Connect) -> None:
    async with connect() as client:
        await hear_progress(client)


@for_each("mcp", eras=NEWER)
async def test_log_lines_are_heard(connect: Connect) -> None:
    async with connect() as client:
        await hear_log_lines(client)


@for_each("mcp")
async def test_questions_are_answered(connect: Connect, tmp_path: Path) -> None:
    async with connect(on_ask=say_ada, on_sample=say_paris, roots=[tmp_path]) as client:
        await answer_questions(client, tmp_path)


@for_each("mcp", eras=NEWER)
async def test_a_declined_question_is_the_servers_to_deal_with(connect: Connect) -> None:
    async with connect(on_ask=decline) as client:
        assert "decline" in (await client.call("greet")).text


@for_each("mcp", eras=NEWER)
async def test_a_client_that_answers_nothing_is_asked_nothing(connect: Connect) -> None:
    async with connect() as client:
        assert await is_refused(client.call("greet"), -32021)


@for_each("mcp", eras=NEWER)
async def test_a_call_that_is_cancelled_ends_at_the_server(
    connect: Connect, request: pytest.FixtureRequest
) -> None:
    async with connect() as client:
        await cancel_a_call(client, request.node.name)


@for_each("mcp", eras=NEWER)
async def test_a_change_of_the_tools_is_heard(connect: Connect, request: pytest.FixtureRequest) -> None:
    async with connect(on_ask=say_ada) as client:  # a client that can be asked hears a legacy server's stream
        await hear_a_change(client, request.node.name)


@for_each("mcp", "fastmcp", eras=NEWER)
async def test_many_calls_at_once_come_back_to_whom_they_belong(connect: Connect) -> None:
    async with connect() as client:
        results = await asyncio.gather(*(client.call("add", {"a": number, "b": 0}) for number in range(30)))
    assert [result.text for result in results] == [str(number) for number in range(30)]


@for_each("mcp", link="sse", eras=("2025-11-25",))
async def test_a_server_of_the_oldest_http_is_found_out_and_used(connect: Connect) -> None:
    async with connect(on_ask=say_ada) as client:
        assert (await client.call("add", {"a": 1})).text == "2"
        assert (await client.call("greet")).text == "Hello, Ada (30)"


# --- over stdio --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "era",
    ["2026-07-28", *(pytest.param(era, marks=pytest.mark.long) for era in ("2025-11-25", "2025-06-18"))],
)
@pytest.mark.parametrize("peer", ["mcp", "fastmcp"])
async def test_one_process_does_all_of_it_over_stdio(peer: str, era: str, tmp_path: Path) -> None:
    link = StdioTransport(forked_command_of(peer, "stdio"), env=ENVIRONMENT)
    answers = {"on_ask": say_ada, "on_sample": say_paris, "roots": [tmp_path]}
    async with Client(link, protocol=ERAS[era], timeout_s=30, **answers) as client:
        await meet_list_and_call(client, era)
        if era in NEWER:
            await hear_progress(client)
        if peer == "fastmcp":
            return
        await answer_questions(client, tmp_path)
        if era in NEWER:
            await hear_log_lines(client)
            await cancel_a_call(client, "over stdio")
            await hear_a_change(client, "over stdio")
