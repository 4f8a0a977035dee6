"""Reload during calls of applications and of process tools."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.reload_folder import source, until, workshop

pytestmark = pytest.mark.row("G7")

APP = '''\
import asyncio
import crib_signals
from toolcrib import Application, tool

class App(Application):
    def __init__(self) -> None:
        super().__init__("app")
    async def open(self) -> None:
        crib_signals.lines.append("{word} opened")
        self.is_open = True
    async def close(self) -> None:
        crib_signals.lines.append("{word} closed")
        self.is_open = False
    @tool
    async def hold(self) -> str:
        """Wait, and say the word if the application is still open."""
        await crib_signals.go_on.wait()
        assert self.is_open
        return "{word}"
'''


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    signals = ModuleType("crib_signals")
    vars(signals).update(go_on=asyncio.Event(), lines=[])
    monkeypatch.setitem(sys.modules, "crib_signals", signals)
    return signals


async def test_g7_an_application_is_closed_when_its_last_call_has_ended(
    tmp_path: Path, signals: ModuleType
) -> None:
    (tmp_path / "crib_tools.py").write_text(APP.format(word="one"))
    with workshop(tmp_path) as shop:
        async with shop.server:
            held = asyncio.create_task(shop.server.call("hold"))
            await asyncio.sleep(0)
            shop.write(crib_tools=APP.format(word="two"))
            assert await shop.reloader.check_now()
            newer = asyncio.create_task(shop.server.call("hold"))
            await until(lambda: signals.lines == ["one opened", "two opened"])
            signals.go_on.set()
            assert ((await held).text, (await newer).text) == ("one", "two")
            await until(lambda: signals.lines == ["one opened", "two opened", "one closed"])


async def test_g7_a_process_runs_the_code_of_today(tmp_path: Path) -> None:
    def text(word: str, extra: str = "") -> str:
        return source(word, extra=extra).replace("@tool", '@tool(run="process")')

    (tmp_path / "crib_tools.py").write_text(text("one"))
    with workshop(tmp_path) as shop:
        assert await shop.say() == "one"
        shop.write(crib_tools=text("two", "import time; time.sleep(1)"))
        checking = asyncio.create_task(shop.reloader.check_now())
        await until(lambda: len(shop.loads) == 2)
        said = []
        while not checking.done():
            said.append(await shop.say())
        assert said[0] == "one"
        assert said == sorted(said)  # the old one, and from the exchange on the new one
        assert await checking
        assert await shop.say() == "two"
