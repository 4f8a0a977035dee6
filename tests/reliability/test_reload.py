"""Whatever happens to the files, calls continue, and running calls finish on their old code."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.reload_folder import Workshop, complaints, until, workshop

pytestmark = pytest.mark.row("G7")

TOOLS = '''\
import asyncio
import crib_signals
from toolcrib import Application, tool
import crib_words

WORD = {word!r}

@tool
def on_a_thread() -> str:
    """Say the word."""
    return WORD

@tool
async def on_the_loop() -> str:
    """Say the word, after a while."""
    await asyncio.sleep(0)
    return WORD

@tool
def lazily() -> str:
    """Say the word of another module, which is imported now."""
    from crib_words import WORD as word
    return word

@tool
async def held() -> list[str]:
    """Wait, and then say all the words."""
    await crib_signals.go_on.wait()
    import crib_words
    return [WORD, crib_words.WORD]

class App(Application):
    def __init__(self) -> None:
        super().__init__("app")
        self.is_open = False
    async def open(self) -> None:
        self.is_open = True
    async def close(self) -> None:
        self.is_open = False
    @tool
    async def of_an_application(self) -> str:
        """Say the word, if all is well."""
        assert self.is_open
        return WORD
'''
CALLED = ("on_a_thread", "on_the_loop", "lazily", "of_an_application")


class Traffic:
    """Calls without end, everything that was answered, and how long the slowest took."""

    def __init__(self, shop: Workshop) -> None:
        self.shop = shop
        self.calls = 0
        self.failed: list[str] = []
        self.slowest_s = 0.0
        self.latest: dict[str, str] = {}

    async def go_on(self, name: str) -> None:
        while True:
            started = time.monotonic()
            try:
                result = await self.shop.server.call(name)
            except Exception as error:
                self.failed.append(f"{name}: {error!r}")
            else:
                if result.is_error:
                    self.failed.append(f"{name}: {result.text}")
                self.latest[name] = result.text
            self.slowest_s = max(self.slowest_s, time.monotonic() - started)
            self.calls += 1
            await asyncio.sleep(0.002)

    async def reach(self, word: str) -> None:
        """Wait until every tool says this."""
        await until(lambda: set(self.latest.values()) == {word})


def write(folder: Path, word: str) -> None:
    (folder / "crib_words.py").write_text(f"WORD = {word!r}")
    (folder / "crib_tools.py").write_text(TOOLS.format(word=word))


@asynccontextmanager
async def busy_workshop(folder: Path, *targets: str) -> AsyncIterator[tuple[Workshop, Traffic]]:
    """A server that is called all the time, and must not fail once."""
    with workshop(folder, *targets, pause_s=0.2) as shop:
        traffic = Traffic(shop)
        async with shop.server, shop.reloader:
            tasks = [asyncio.create_task(traffic.go_on(name)) for name in CALLED]
            await traffic.reach("old")
            held = asyncio.create_task(shop.server.call("held"))
            try:
                yield shop, traffic
                vars(sys.modules["crib_signals"])["go_on"].set()
                assert (await held).structured_content == ["old", "old"]
            finally:
                for task in [*tasks, held]:
                    task.cancel()
                await asyncio.wait([*tasks, held])
        assert traffic.failed == []
        assert traffic.calls > 50


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> None:
    signals = ModuleType("crib_signals")
    signals.__dict__["go_on"] = asyncio.Event()
    monkeypatch.setitem(sys.modules, "crib_signals", signals)


def spoil_tools(text: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "crib_words.py").write_text("WORD = 'spoilt'")
        (folder / "crib_tools.py").write_text(text)

    return spoil


def delete(folder: Path) -> None:
    (folder / "crib_tools.py").unlink()


def spoil_helper(folder: Path) -> None:
    (folder / "crib_words.py").write_text("WORD = ")


def swap_to_nowhere(folder: Path) -> None:
    (folder / "new").symlink_to("nowhere.py")
    (folder / "new").rename(folder / "crib_tools.py")


def swap_to_broken(folder: Path) -> None:
    (folder / "crib_broken.py").write_text("def broken(:")
    (folder / "new").symlink_to("crib_broken.py")
    (folder / "new").rename(folder / "crib_tools.py")


DUPLICATE = (
    TOOLS.format(word="spoilt")
    .replace("async def on_the_loop", "async def twin")
    .replace("@tool\nasync def twin", "@tool('on_a_thread')\nasync def twin")
)
SPOILT: dict[str, tuple[Callable[[Path], None], str]] = {
    "syntax_error": (spoil_tools("def broken(:\n"), "crib_tools.py:1: error[unreadable-source]"),
    "syntax_error_in_a_helper": (spoil_helper, "crib_words.py:1: error[unreadable-source]"),
    "import_error": (spoil_tools("\nimport crib_nowhere\n"), "crib_tools.py:2: error[unreadable-source]"),
    "duplicate_name": (spoil_tools(DUPLICATE), "error[duplicate-name]"),
    "unbuildable": (
        spoil_tools(TOOLS.format(word="spoilt").replace("lazily()", "lazily(x: 'Nothing')")),
        "crib_tools.py:19: error[invalid-signature]",
    ),
    "deleted_file": (delete, "crib_tools.py: error[missing-file]"),
    "link_to_nowhere": (swap_to_nowhere, "crib_tools.py: error[missing-file]"),
    "link_to_what_does_not_load": (swap_to_broken, "crib_broken.py:1: error[unreadable-source]"),
    "slow_import_that_fails": (
        spoil_tools("import time; time.sleep(2)\n1 / 0\n"),
        "crib_tools.py:2: error[unreadable-source]",
    ),
}


@pytest.mark.parametrize("kind", SPOILT)
async def test_g7_what_does_not_load_fails_no_call_and_is_one_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    spoil, words = SPOILT[kind]
    write(tmp_path, "old")
    async with busy_workshop(tmp_path) as (shop, traffic):
        before = traffic.calls
        spoil(tmp_path)
        await until(lambda: shop.reloader.failures == 1)
        await until(lambda: traffic.calls > before + 50)
        assert set(traffic.latest.values()) == {"old"}
        (message,) = complaints(caplog.records)
        assert words in message
        (tmp_path / "crib_tools.py").unlink(missing_ok=True)
        write(tmp_path, "new")
        await traffic.reach("new")
        assert len(complaints(caplog.records)) == 1


async def test_g7_a_slow_import_holds_up_nobody(tmp_path: Path) -> None:
    write(tmp_path, "old")
    async with busy_workshop(tmp_path) as (shop, traffic):
        slow = TOOLS.format(word="new").replace("WORD =", "import time; time.sleep(2)\nWORD =")
        (tmp_path / "crib_words.py").write_text("WORD = 'new'")
        (tmp_path / "crib_tools.py").write_text(slow)
        await until(lambda: len(shop.loads) > 1)
        traffic.slowest_s, before = 0.0, traffic.calls
        await traffic.reach("new")
        assert time.monotonic() - shop.loads[-1] > 2.0
        assert traffic.calls - before > 100
        assert traffic.slowest_s < 0.5


async def test_g7_links_are_swapped_under_load(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for word in ("old", "mid", "new"):
        (tmp_path / word).mkdir()
        write(tmp_path / word, word)
    link = tmp_path / "current"
    link.symlink_to("old")
    async with busy_workshop(tmp_path, "current/crib_tools.py") as (_, traffic):
        for word in ("mid", "new"):
            (tmp_path / "next").symlink_to(word)
            (tmp_path / "next").rename(link)
            await traffic.reach(word)
    assert not complaints(caplog.records)


async def test_g7_a_thousand_rapid_saves_end_in_the_newest_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In a folder with other tools: a file that is read while it is empty would take its tools away."""
    write(tmp_path, "old")
    async with busy_workshop(tmp_path, ".") as (shop, traffic):
        for number in range(1000):
            write(tmp_path, "new" if number == 999 else f"{number:03d}")
            await asyncio.sleep(0.001)
        await traffic.reach("new")
    gaps = [later - earlier for earlier, later in zip(shop.loads[1:], shop.loads[2:], strict=False)]
    assert min(gaps, default=1.0) >= 0.2
    assert not complaints(caplog.records)
