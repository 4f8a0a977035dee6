"""The runner with providers and toolboxes of a user's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from tests.support.models.agent_tools import Bench, collect
from toolcrib import Result, ToolRegistry, tool
from toolcrib.agents import (
    AgentError,
    AgentRunner,
    Event,
    Failure,
    Final,
    Limits,
    SessionCtx,
    Token,
    ToolAnswer,
    ToolCall,
    ToolResult,
    providers,
)
from toolcrib.client import Client
from toolcrib.content import text_block
from toolcrib.errors import ConfigurationError, TransportError


class Parrot:
    """A provider that says what it was given to say, turn by turn."""

    name = "parrot"

    def __init__(self, *turns: Sequence[Event | BaseException]) -> None:
        self.turns = list(turns)
        self.session: SessionCtx | None = None
        self.heard: list[Any] = []
        self.stops = 0

    @property
    def status(self) -> Any:
        return "stopped" if self.session is None else "ready"

    async def start(self, session: SessionCtx) -> None:
        self.session = session

    async def send(self, text: str) -> None:
        self.heard.append(text)

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        self.heard.append([item.result.text for item in answers])

    async def events(self) -> AsyncGenerator[Event, None]:
        for item in self.turns.pop(0):
            if isinstance(item, BaseException):
                raise item
            yield item

    async def stop(self) -> None:
        self.session = None
        self.stops += 1


def call(tool: str, /, **arguments: Any) -> ToolCall:
    return ToolCall("1", tool, arguments)


async def test_a_custom_provider_is_called_as_the_contract_says() -> None:
    parrot = Parrot([Token("Hm."), call("add", a=1, b=2)], [Final("Three.")], [Final("Yes.")])
    async with AgentRunner(Bench().server, parrot) as runner:
        assert await runner.ask("One and two?") == "Three."
        assert parrot.stops == 0
        assert await runner.ask("Sure?") == "Yes."
        assert parrot.session is runner.session
        assert runner.session.provider == "parrot"
    assert parrot.heard == ["One and two?", ["3"], "Sure?"]
    assert parrot.stops == 1


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        ([Failure("busy", "later")], "busy"),
        ([AgentError("gone", kind="died")], "died"),
        ([RuntimeError("a mistake")], "crashed"),
        ([TimeoutError("of its own")], "crashed"),
        ([Token("and")], "garbled"),
        ([], "garbled"),
    ],
)
async def test_every_failure_of_a_provider_is_an_event_and_stops_it(turn: list[Any], kind: str) -> None:
    parrot = Parrot(turn)
    async with AgentRunner([], parrot) as runner:
        async with aclosing(runner.send("Well?")) as events:
            async for event in events:
                if isinstance(event, Failure):
                    assert (event.kind, parrot.stops) == (kind, 1)
                    break
            else:
                pytest.fail("no failure came")
        assert runner.session.messages == []


@pytest.mark.usefixtures("_own_providers")
async def test_a_provider_may_come_from_the_registry() -> None:
    @providers.register("echo")
    class Echo(Parrot):
        def __init__(self, *, word: str = "echo") -> None:
            super().__init__([Final(word)])

    async with AgentRunner([], provider="echo", word="cuckoo") as runner:
        assert await runner.ask("Well?") == "cuckoo"
    assert "echo" in providers
    with pytest.raises(ConfigurationError, match="unexpected keyword argument 'wrod'") as error:
        AgentRunner([], provider="echo", wrod="x")
    assert error.value.hint == "echo takes: word"


def test_an_unknown_provider_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigurationError, match="unknown provider 'gemini-cly'") as error:
        AgentRunner([], provider="gemini-cly")
    assert error.value.hint == "did you mean 'gemini_cli'?"
    with pytest.raises(ConfigurationError) as error:
        _ = providers["zzz"]
    assert str(error.value.hint).startswith("available: gemini_cli")


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini"])
def test_the_providers_of_hosted_models_are_answered_with_the_example(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"unknown provider '{name}'") as error:
        AgentRunner([], provider=name)
    assert "examples/hosted_models.py" in str(error.value.hint)


def test_an_object_that_is_not_a_provider_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no start"):
        AgentRunner([], provider=object())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="give an instance"):
        AgentRunner([], provider=Parrot)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="model"):
        AgentRunner([], provider=Parrot(), model="m")


async def test_without_a_provider_there_is_only_a_session() -> None:
    async with AgentRunner(Bench().server) as runner:
        assert runner.session.toolCatalog is None
        assert len(runner.session.tools) == 6
        with pytest.raises(ConfigurationError, match="no provider was given"):
            await runner.ask("Anybody?")


async def test_one_question_at_a_time() -> None:
    bench = Bench()
    parrot = Parrot([call("wait")], [Final("Later.")])
    async with AgentRunner(bench.server, parrot) as runner:
        first = asyncio.ensure_future(runner.ask("Wait"))
        await bench.begun.wait()
        with pytest.raises(AgentError, match="still being answered"):
            await runner.ask("Meanwhile?")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_a_new_question_ends_an_abandoned_answer() -> None:
    parrot = Parrot([Token("One"), Token("Two")], [Final("Three.")])
    async with AgentRunner([], parrot) as runner:
        events = runner.send("Count")
        assert await anext(events) == Token("One")
        assert await runner.ask("Go on") == "Three."  # the first is still open, and is ended by this
        assert [event async for event in events] == [Failure("cut", "the answer was stopped")]
        assert parrot.stops == 1


async def test_stopping_ends_running_tools() -> None:
    bench = Bench()
    runner = AgentRunner(bench.server, Parrot([call("wait"), call("add", a=1)], []))
    await runner.start()
    asking = asyncio.ensure_future(collect(runner))
    await bench.begun.wait()
    await runner.stop()
    async with asyncio.timeout(5):
        events = await asking
    assert events[-1] == Failure("cut", "the answer was stopped")
    assert bench.ended == ["wait"]


async def test_a_slow_reader_of_events_costs_no_time() -> None:
    parrot = Parrot([Token("a"), call("add", a=1)], [Token("b"), Final("b")])
    async with AgentRunner(Bench().server, parrot, limits=Limits(turn_s=0.2, answer_s=0.2)) as runner:
        seen = []
        async for event in runner.send("Slowly"):
            seen.append(event)
            await asyncio.get_running_loop().run_in_executor(None, asyncio.run, asyncio.sleep(0.1))
    assert seen[-1] == Final("b")


async def test_an_answer_that_takes_too_long_is_ended() -> None:
    bench = Bench()
    parrot = Parrot([call("wait")], [])
    async with AgentRunner(bench.server, parrot, limits=Limits(answer_s=0.1)) as runner:
        events = await collect(runner)
    assert events[-1] == Failure("limit", "no answer after 0.1 s", "raise the limit answer_s")
    assert bench.ended == ["wait"]


async def test_functions_and_registries_are_accepted_as_tools() -> None:
    @tool
    def double(number: int) -> int:
        """Twice as much."""
        return number * 2

    registry = ToolRegistry()
    registry.add(double)
    for tools in ([double], double, registry):
        parrot = Parrot([call("double", number=4)], [Final("Eight.")])
        async with AgentRunner(tools, parrot) as runner:
            assert await runner.ask("Twice four?") == "Eight."
        assert parrot.heard[1] == ["8"]
    with pytest.raises(ConfigurationError, match="Cannot read tools from int"):
        AgentRunner([7], Parrot())


async def test_a_client_of_another_server_is_accepted_as_tools() -> None:
    async with Bench().server.connect() as client:
        parrot = Parrot([call("add", a=1, b=2), call("fail")], [Final("Done.")])
        async with AgentRunner(client, parrot) as runner:
            assert await runner.ask("Add") == "Done."
            assert runner.session.toolCatalog is not None
            assert runner.session.toolCatalog["count"] == 6
        assert parrot.heard[1] == ["3", "not today"]
        assert await client.list_tools()  # the code that connected it closes it
    with pytest.raises(TransportError):
        await AgentRunner(Client(["no-such-server-anywhere"]), Parrot()).start()


def test_limits_are_checked() -> None:
    for wrong in ({"turns": 0}, {"turn_s": -1}, {"calls_per_turn": 1.5}, {"tool_s": 4000.0}, {"turns": True}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Limits(**wrong)  # type: ignore[arg-type]


async def test_run_is_refused_inside_an_event_loop() -> None:
    with pytest.raises(ConfigurationError, match="inside an event loop"):
        AgentRunner([], Parrot()).run("Hello?")
    with pytest.raises(ConfigurationError, match="non-empty"):
        await AgentRunner([], Parrot()).ask("  ")


async def test_a_result_with_images_is_cut_to_the_limit() -> None:
    def album() -> Result:
        picture = {"type": "image", "mimeType": "image/png", "data": "A" * 500}
        return Result([text_block("look"), picture, text_block("z" * 90), text_block("more")])

    def data() -> dict[str, str]:
        return {"letters": "y" * 500}

    parrot = Parrot([ToolCall("1", "album"), ToolCall("2", "data")], [Final("Nice.")])
    async with AgentRunner([album, data], parrot, limits=Limits(result_chars=80)) as runner:
        results = [event for event in await collect(runner) if isinstance(event, ToolResult)]
    assert results[0].is_cut
    assert results[0].text.startswith("look\n[image image/png, not shown]\nzzz")
    assert "characters left out]" in results[0].text
    assert results[1].text.startswith('{"letters":"yyy')
    assert results[1].text.endswith("characters left out]")


async def test_a_server_with_tool_search_offers_the_search_tools() -> None:
    server = Bench().server
    server.publish_search("always")
    parrot = Parrot([call("call_tool", name="add", arguments={"a": 1, "b": 2})], [Final("Three.")])
    async with AgentRunner(server, parrot) as runner:
        assert [tool.name for tool in runner.session.tools] == ["search_tools", "call_tool"]
        assert await runner.ask("Add") == "Three."
    assert parrot.heard[1] == ["3"]
