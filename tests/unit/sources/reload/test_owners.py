"""Applications that lose their tools are closed, when their last call has ended."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from toolcrib import Application, ToolRegistry, collect, tool
from toolcrib.dispatch.crash_log import CrashReporter
from toolcrib.dispatch.lifespan import Owners


class Diary(Application):
    """Writes down what happens to it."""

    def __init__(self, name: str, lines: list[str]) -> None:
        super().__init__(name)
        self.lines = lines

    async def open(self) -> None:
        self.lines.append(f"{self.name} opened")

    async def close(self) -> None:
        self.lines.append(f"{self.name} closed")

    @tool
    async def note(self) -> str:
        """Note."""
        return "noted"


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
def owners(registry: ToolRegistry) -> Owners:
    return Owners(registry, CrashReporter())


async def opened(owners: Owners, registry: ToolRegistry, app: Application) -> Application:
    registry.add_all(collect(app, namespace=True).tools)
    await owners.open_all()
    return app


def drop(registry: ToolRegistry, app: Application) -> None:
    registry.replace_all([entry.tool for entry in registry.entries() if entry.tool.owner is app], [])


async def test_an_application_without_tools_is_closed_and_the_others_are_not(
    owners: Owners, registry: ToolRegistry
) -> None:
    lines: list[str] = []
    one = await opened(owners, registry, Diary("one", lines))
    two = await opened(owners, registry, Diary("two", lines))
    drop(registry, one)
    await owners.close_unused()
    await owners.close_unused()
    assert lines == ["one opened", "two opened", "one closed"]
    assert (owners.is_open(one), owners.is_open(two)) == (False, True)
    await owners.close_all()
    assert lines[3:] == ["two closed"]


async def test_it_is_closed_when_the_last_call_has_ended(owners: Owners, registry: ToolRegistry) -> None:
    lines: list[str] = []
    app = await opened(owners, registry, Diary("one", lines))
    for _ in range(2):
        owners.enter(app)
    drop(registry, app)
    closing = [asyncio.create_task(owners.close_unused()) for _ in range(2)]
    await asyncio.sleep(0.01)
    owners.leave(app)
    await asyncio.sleep(0.01)
    assert lines == ["one opened"]
    owners.leave(app)
    await asyncio.gather(*closing)
    assert lines == ["one opened", "one closed"]


async def test_one_that_gets_tools_again_meanwhile_stays_open(owners: Owners, registry: ToolRegistry) -> None:
    lines: list[str] = []
    app = await opened(owners, registry, Diary("one", lines))
    owners.enter(app)
    drop(registry, app)
    closing = asyncio.create_task(owners.close_unused())
    await asyncio.sleep(0.01)
    registry.add_all(collect(app, namespace=True).tools)
    owners.leave(app)
    await closing
    assert lines == ["one opened"]
    assert owners.is_open(app)


async def test_one_that_is_just_being_opened_is_closed_afterwards(
    owners: Owners, registry: ToolRegistry
) -> None:
    lines: list[str] = []
    go_on = asyncio.Event()

    class Slow(Diary):
        async def open(self) -> None:
            await go_on.wait()
            await super().open()

    app = Slow("slow", lines)
    registry.add_all(collect(app, namespace=True).tools)
    opening = asyncio.create_task(owners.open_all())
    await asyncio.sleep(0.01)
    drop(registry, app)
    closing = asyncio.create_task(owners.close_unused())
    await asyncio.sleep(0.01)
    go_on.set()
    await asyncio.gather(opening, closing)
    assert lines == ["slow opened", "slow closed"]


async def test_a_tool_that_is_called_like_a_hook_is_never_one(owners: Owners, registry: ToolRegistry) -> None:
    lines: list[str] = []
    app = await opened(owners, registry, Door("door", lines))
    drop(registry, app)
    await owners.close_unused()
    assert lines == []


async def test_trouble_with_closing_is_reported_and_in_nobodys_way(
    owners: Owners, registry: ToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(Diary):
        async def close(self) -> None:
            raise RuntimeError("stuck")

    lines: list[str] = []
    for app in (Stuck("one", lines), Diary("two", lines)):
        drop(registry, await opened(owners, registry, app))
    await owners.close_unused()
    assert lines[-1] == "two closed"
    assert "closing Stuck failed" in caplog.text


async def test_what_was_closed_is_forgotten(owners: Owners, registry: ToolRegistry) -> None:
    app: Application | None = await opened(owners, registry, Diary("one", []))
    seen = weakref.ref(app)  # type: ignore[arg-type]
    assert app is not None
    drop(registry, app)
    await owners.close_unused()
    _ = registry.snapshot
    del app
    gc.collect()
    assert seen() is None
