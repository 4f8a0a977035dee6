"""Opening and closing the applications behind tools."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from toolcrib import Application, MCPServer, ToolError, ToolRegistry, collect, tool
from toolcrib.dispatch import lifespan
from toolcrib.dispatch.failures import CrashReporter
from toolcrib.dispatch.lifespan import Applications
from toolcrib.errors import ToolBusyError, ToolCrashedError, ToolTimeoutError


class Diary(Application):
    """Writes down what happens to it."""

    def __init__(self, name: str = "diary", lines: list[str] | None = None) -> None:
        super().__init__(name)
        self.lines: list[str] = [] if lines is None else lines

    async def open(self) -> None:
        self.lines.append(f"{self.name} opened")

    async def close(self) -> None:
        self.lines.append(f"{self.name} closed")

    @tool
    async def note(self, text: str = "noted") -> str:
        """Write a line."""
        self.lines.append(text)
        return text


class PlainDiary(Diary):
    def open(self) -> None:  # type: ignore[override]
        self.lines.append(f"{self.name} opened")

    def close(self) -> None:  # type: ignore[override]
        self.lines.append(f"{self.name} closed")


def serve(*applications: Application) -> MCPServer:
    server = MCPServer()
    for application in applications:
        server.add(application, namespace=True)
    return server


@pytest.mark.parametrize("kind", [Diary, PlainDiary])
async def test_applications_open_at_the_start_and_close_in_reverse(kind: type[Diary]) -> None:
    lines: list[str] = []
    async with serve(kind("one", lines), kind("two", lines)) as server:
        assert lines == ["one opened", "two opened"]
        await server.call("one_note")
        await server.call("two_note")
    assert lines == ["one opened", "two opened", "noted", "noted", "two closed", "one closed"]


async def test_without_a_start_an_application_opens_before_its_first_call_only() -> None:
    one, two = Diary("one"), Diary("two")
    server = serve(one, two)
    assert (await server.call("one_note")).text == "noted"
    await server.call("one_note", {"text": "again"})
    assert (one.lines, two.lines) == (["one opened", "noted", "again"], [])
    await server.stop()
    assert (one.lines[-1], two.lines) == ("one closed", [])


def test_calls_from_several_threads_and_loops_open_it_once() -> None:
    gate = threading.Event()

    class Slow(Diary):
        async def open(self) -> None:
            self.lines.append("opening")
            await asyncio.get_running_loop().run_in_executor(None, gate.wait, 10)

    app = Slow("slow")
    server = serve(app)
    texts: list[str] = []

    def call() -> None:
        texts.append(asyncio.run(server.call("slow_note")).text)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(20)
    assert texts == ["noted"] * 6
    assert app.lines.count("opening") == 1


async def test_an_application_that_does_not_open_affects_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Diary):
        fails = True

        async def open(self) -> None:
            if self.fails:
                raise OSError("secret connection string")
            await super().open()

    good, broken = Diary("good"), Broken("broken")
    async with serve(broken, good) as server:
        assert "opening Broken failed" in caplog.text
        assert (await server.call("good_note")).text == "noted"
        failed = await server.call("broken_note")
        assert failed.is_error
        assert isinstance(failed.error, ToolCrashedError)
        assert failed.text.startswith("Tool 'broken_note' is not available: its application cannot be opened")
        assert "secret" not in failed.text
        broken.fails = False
        assert (await server.call("broken_note")).text == "noted"
    assert broken.lines == ["broken opened", "noted", "broken closed"]


async def test_the_words_of_a_tool_error_reach_the_caller_and_an_exit_ends_nothing() -> None:
    class Locked(Diary):
        async def open(self) -> None:
            raise ToolError("The vault is locked; ask the operator.")

    class Leaving(Diary):
        async def open(self) -> None:
            raise SystemExit(1)

    server = serve(Locked("locked"), Leaving("leaving"))
    assert (await server.call("locked_note")).text == "The vault is locked; ask the operator."
    assert isinstance((await server.call("leaving_note")).error, ToolCrashedError)
    await server.start()


async def test_a_hook_that_hangs_is_answered_in_time_and_tried_again() -> None:
    class Hanging(Diary):
        tries = 0

        async def open(self) -> None:
            self.tries += 1
            if self.tries == 1:
                await asyncio.Event().wait()

    app = Hanging("hanging")
    server = serve(app)
    late = await server.call("hanging_note", timeout_s=0.01)
    assert isinstance(late.error, ToolTimeoutError)
    assert late.text == "Tool 'hanging_note' was not ready within 0.01 s."
    assert (await server.call("hanging_note", timeout_s=30)).text == "noted"
    assert app.tries == 2


async def test_a_time_that_is_none_is_refused_as_for_every_call() -> None:
    with pytest.raises(ValueError, match="timeout_s must be above 0"):
        await serve(Diary()).call("diary_note", timeout_s=-1)


async def test_a_close_that_fails_or_hangs_does_not_prevent_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Diary):
        async def close(self) -> None:
            raise OSError("gone")

    class Hanging(Diary):
        async def close(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(lifespan, "CLOSE_S", 0.01)
    good = Diary("good")
    async with serve(good, Failing("failing"), Hanging("hanging")):
        pass
    assert good.lines == ["good opened", "good closed"]
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert messages == ["closing Hanging failed", "closing Failing failed"]


async def test_a_method_that_is_a_tool_or_needs_arguments_is_not_a_hook(
    caplog: pytest.LogCaptureFixture,
) -> None:
    opened: list[str] = []

    class Garage:
        name = "garage"

        def list_tools(self) -> list[Callable[..., Any]]:
            return [self.open]

        def open(self) -> str:
            """Open the garage door."""
            opened.append("door")
            return "open"

        def close(self, door: str) -> str:
            return door

    server = MCPServer()
    server.add(Garage())
    async with server:
        assert opened == []
        assert (await server.call("open")).text == "open"
    assert opened == ["door"]
    assert caplog.records == []


async def test_an_object_without_hooks_is_served_all_the_same() -> None:
    class Bare:
        open = 5

        def list_tools(self) -> list[Callable[..., Any]]:
            return [self.ping]

        async def ping(self) -> str:
            return "pong"

    server = MCPServer()
    server.add(Bare())
    async with server:
        assert (await server.call("ping")).text == "pong"


async def test_an_application_that_comes_while_the_server_runs_opens_before_its_first_call() -> None:
    server = MCPServer(dynamic=True)
    app = Diary("late")
    async with server:
        server.add(app)
        assert app.lines == []
        await server.call("note")
        assert app.lines == ["late opened", "noted"]
    assert app.lines[-1] == "late closed"


async def test_a_tool_put_into_the_registry_itself_has_its_application_opened_too() -> None:
    source, target = serve(Diary("one")), MCPServer()
    for entry in source.registry.entries():
        target.registry.add(entry.tool)
    app = source.registry.get_all()[0].owner
    async with target:
        assert app.lines == ["one opened"]


async def test_a_server_that_stopped_answers_that_it_has_and_can_start_again() -> None:
    app = Diary("one")
    server = serve(app)
    async with server:
        pass
    refused = await server.call("one_note")
    assert isinstance(refused.error, ToolBusyError)
    assert app.lines == ["one opened", "one closed"]
    async with server:
        assert (await server.call("one_note")).text == "noted"
    assert app.lines == ["one opened", "one closed", "one opened", "noted", "one closed"]


async def test_a_start_that_is_cancelled_closes_what_it_opened() -> None:
    reached = asyncio.Event()

    class Hanging(Diary):
        async def open(self) -> None:
            reached.set()
            await asyncio.Event().wait()

    good = Diary("good")
    server = serve(good, Hanging("hanging"))
    starting = asyncio.create_task(server.start())
    await reached.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert good.lines == ["good opened", "good closed"]
    assert not server._running


class Door(Application):
    """Has tools that are called like hooks."""

    def __init__(self, name: str, lines: list[str]) -> None:
        super().__init__(name)
        self.lines = lines

    @tool
    def open(self) -> str:
        """Open the door."""
        self.lines.append("open")
        return "open"

    @tool
    def close(self) -> str:
        """Close the door."""
        self.lines.append("close")
        return "close"


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def apps(registry: ToolRegistry) -> Applications:
    return Applications((registry,), CrashReporter())


async def opened(apps: Applications, registry: ToolRegistry, app: Application) -> Application:
    registry.add_all(collect(app, namespace=True).tools)
    await apps.open_all()
    return app


def drop(registry: ToolRegistry, app: Application) -> None:
    registry.remove_tools([entry.tool for entry in registry.entries() if entry.tool.owner is app])


async def test_a_tool_that_is_called_like_a_hook_is_never_one(
    apps: Applications, registry: ToolRegistry
) -> None:
    lines: list[str] = []
    app = await opened(apps, registry, Door("door", lines))
    drop(registry, app)
    await apps.close_all()
    assert lines == []
