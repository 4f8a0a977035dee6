"""The plan of a tool, kept between calls: its slots and its statistics, and nothing of removed
tools."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.definitions.pydantic_models import Left, Right
from toolcrib import Context, MCPServer, ToolNotFoundError
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import limits


class Gate:
    """Counts how many are inside, and lets them out together."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self._lock = threading.Lock()
        self.entered = threading.Semaphore(0)
        self.release = threading.Event()

    def pass_through(self) -> str:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.entered.release()
        self.release.wait(10)
        with self._lock:
            self.inside -= 1
        return "through"


async def test_all_spellings_of_a_tool_share_its_threads() -> None:
    server = MCPServer()
    gate = Gate()
    server.add(gate.pass_through, name="Gate", aliases=["door"], version="2", max_threads=2)
    spellings = ["gate", "GATE", "door", "DOOR", "gate@2", "Gate@2", "Gate"]
    calls = [asyncio.create_task(server.call(name)) for name in spellings]
    for _ in range(2):
        await asyncio.to_thread(gate.entered.acquire)
    for _ in range(50):
        await asyncio.sleep(0)
    gate.release.set()
    assert {(await call).text for call in calls} == {"through"}
    assert gate.most == 2
    assert server.dispatcher.stats["Gate"].calls == len(spellings)


async def test_versions_have_slots_of_their_own_and_keep_them() -> None:
    server = MCPServer()
    gates = {"1": Gate(), "2": Gate()}
    for version, gate in gates.items():
        server.add(gate.pass_through, name="gate", version=version, max_threads=1)
    calls = [asyncio.create_task(server.call(name)) for name in ("gate@1", "gate@1", "gate", "gate@2")]
    for gate in gates.values():
        await asyncio.to_thread(gate.entered.acquire)
    for _ in range(50):
        await asyncio.sleep(0)
    for gate in gates.values():
        gate.release.set()
    await asyncio.gather(*calls)
    assert [gate.most for gate in gates.values()] == [1, 1]


async def test_a_thousand_spellings_leave_no_trace() -> None:
    server = MCPServer()
    server.add(lambda: 1, name="abcdefghij")
    for number in range(1_000):
        name = "".join(c.upper() if number >> i & 1 else c for i, c in enumerate("abcdefghij"))
        assert (await server.call(name)).structured_content == 1
    assert len(server.dispatcher._plans) + len(server.dispatcher._plan_of) <= 2


async def test_abandoned_calls_still_count_after_other_tools_changed() -> None:
    server = MCPServer()
    gate = Gate()
    server.add(gate.pass_through, name="gate", max_threads=1, timeout_s=0.02)
    assert (await server.call("gate")).error.code == "timeout"
    server.add(lambda: 1, name="other")
    server.registry.disable("gate")
    server.registry.enable("gate")
    assert (await server.call("gate")).error.code == "busy"
    gate.release.set()


class Meddling:
    """A default value that does something while its tool is built."""

    def __init__(self) -> None:
        self.action: Any = None

    def model_dump(self, **options: Any) -> int:
        action, self.action = self.action, None
        if action is not None:
            action()
        return 5


async def test_a_tool_that_is_removed_while_it_is_built_does_not_come_back() -> None:
    server = MCPServer()
    meddling = Meddling()

    def made(a: Any = meddling) -> str:
        return "made"

    server.add(made)
    server.add(lambda: 1, name="other")

    def remove() -> None:
        server.registry.remove("made")
        thread = threading.Thread(target=lambda: asyncio.run(server.call("other")))
        thread.start()
        thread.join()

    meddling.action = remove
    assert (await server.call("made")).text == "made"  # it was there when the call began
    assert meddling.action is None
    with pytest.raises(ToolNotFoundError):
        await server.call("made")
    assert [tool.name for tool in server.dispatcher.view()] == ["other"]


async def test_anything_that_cannot_be_built_is_unknown_and_the_reason_is_at_hand() -> None:
    server = MCPServer()
    server.add(lambda: 1, name="broken", input_schema={"type": "array"})
    for _ in range(2):
        with pytest.raises(ToolNotFoundError) as refused:
            await server.call("broken")
        assert isinstance(refused.value.__cause__, InvalidSchemaError)
    assert server.dispatcher.view() == ()
    assert server.dispatcher.stats == {}


async def test_a_tool_whose_schema_does_not_compile_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = MCPServer()

    def choose(side: Left | Right) -> str:
        return "never"

    server.add(choose)
    monkeypatch.setattr(limits, "MAX_CHECKS_PER_VALUE", 1)
    for count in (1, 2):
        result = await server.call("choose", {"side": {"a": 1}})
        assert result.is_error
        assert result.error.code == "crashed"
        assert result.text.startswith(
            "Tool 'choose' cannot run as it is defined: flatten allOf, anyOf, oneOf"
        )
        assert server.dispatcher.stats["choose"].errors == count
    assert [tool.name for tool in server.dispatcher.view()] == ["choose"]


@dataclass
class Sealed:
    a: int

    def __reduce__(self) -> Any:
        raise ValueError("secret")


def open_sealed(sealed: Sealed) -> int:
    return sealed.a


async def test_an_argument_that_cannot_go_to_a_process_gives_nothing_away() -> None:
    server = MCPServer()
    server.add(open_sealed, run="process")
    result = await server.call("open_sealed", {"sealed": {"a": 1}})
    assert result.is_error
    assert "secret" not in result.text
    assert "take plain values" in result.text
    server.dispatcher.close()


def test_figures_are_exact_whatever_calls_at_once() -> None:
    server = MCPServer()

    @server.tool
    async def double(a: int) -> int:
        await asyncio.sleep(0)
        return a * 2

    async def many() -> None:
        for number in range(200):
            await server.call("double", {"a": number if number % 4 else "x"})

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = server.dispatcher.stats["double"]
    assert (stats.calls, stats.errors) == (1_600, 400)
    assert stats.total_s > 0


async def test_a_cancelled_call_counts_as_an_error_and_tells_its_tool() -> None:
    server = MCPServer()
    contexts: list[Context] = []
    began = asyncio.Event()

    @server.tool
    async def wait(ctx: Context) -> None:
        contexts.append(ctx)
        began.set()
        await asyncio.Event().wait()

    call = asyncio.create_task(server.call("wait"))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert contexts[0].cancelled
    assert server.dispatcher.stats["wait"].errors == 1


async def test_a_deadline_tells_async_code_too_and_so_does_a_good_end() -> None:
    server = MCPServer()
    contexts: list[Context] = []

    @server.tool
    async def wait(ctx: Context, long: bool) -> None:
        contexts.append(ctx)
        if long:
            await asyncio.Event().wait()

    assert (await server.call("wait", {"long": True}, timeout_s=0.02)).is_error
    assert not (await server.call("wait", {"long": False})).is_error
    assert [context.cancelled for context in contexts] == [True, True]


async def test_a_wrapper_around_a_stream_is_awaited_as_what_it_is() -> None:
    server = MCPServer()

    async def count(to: int) -> Any:
        for number in range(to):
            yield number

    @functools.wraps(count)
    async def gathered(*args: Any, **values: Any) -> Any:
        return [number async for number in count(*args, **values)]

    server.add(gathered, name="gathered")
    server.add(functools.partial(count, to=2), name="part")
    assert (await server.call("gathered", {"to": 3})).structured_content == [0, 1, 2]
    assert (await server.call("part")).structured_content == [0, 1]


async def test_nothing_of_a_tool_that_was_removed_is_kept() -> None:
    server = MCPServer(dynamic=True)
    server.add(lambda: 1, name="other")

    def goes() -> str:
        return "here"

    server.add(goes)
    assert (await server.call("GOES")).text == "here"
    server.registry.remove("goes")
    await server.call("other")
    kept = weakref.ref(goes)
    del goes
    gc.collect()
    assert kept() is None


async def test_anything_that_is_left_to_be_awaited_has_all_the_time_that_is_left() -> None:
    server = MCPServer()

    async def later() -> str:
        await asyncio.to_thread(lambda: None)
        return "done"

    server.add(lambda: later(), name="both", timeout_s=10)
    assert (await server.call("both")).text == "done"
