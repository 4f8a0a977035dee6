"""Reload with the real watcher: which changes are noticed, and that it stops."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.reload_folder import Workshop, complaints, source, until, workshop
from toolcrib.sources.reload import reloader as reloading
from toolcrib.sources.reload.watched_files import wait_for_change


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    (tmp_path / "crib_tools.py").write_text(source("one"))
    with workshop(tmp_path) as made:
        yield made


async def stands(shop: Workshop) -> None:
    """Wait until files are watched, and what was to be noticed before is done with."""
    await until(lambda: shop.reloader.checks > 1)


async def says(shop: Workshop, word: str) -> None:
    async def is_said() -> bool:
        return await shop.say() == word

    await until(is_said)


async def test_a_save_is_noticed(shop: Workshop) -> None:
    async with shop.reloader:
        await stands(shop)
        for word in ("two", "six"):
            shop.write(crib_tools=source(word))
            await says(shop, word)


async def test_a_change_from_before_it_watched_is_noticed(shop: Workshop) -> None:
    shop.write(crib_tools=source("two"))
    async with shop.reloader:
        await says(shop, "two")


async def test_a_file_that_is_exchanged_by_renaming_is_noticed(shop: Workshop) -> None:
    async with shop.reloader:
        await stands(shop)
        for word in ("two", "six"):
            shop.write(new=source(word))
            (shop.folder / "new.py").rename(shop.folder / "crib_tools.py")
            await says(shop, word)


async def test_new_files_in_new_folders_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "crib_tools.py").write_text(source("one"))
    with workshop(tmp_path, ".") as shop:
        async with shop.reloader:
            await stands(shop)
            (tmp_path / "crib_below" / "deeper").mkdir(parents=True)
            await until(lambda: str(tmp_path / "crib_below" / "deeper") in shop.reloader._watched.folders())
            shop.write(crib_below__deeper__crib_more=source("more", "more"))
            await until(lambda: "more" in shop.names)
            shop.write(crib_below__deeper__crib_more=source("most", "most"))
            await until(lambda: "most" in shop.names)


async def test_a_folder_that_is_made_anew_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "crib_folder"
    folder.mkdir()
    (folder / "crib_tools.py").write_text(source("one"))
    with workshop(tmp_path, "crib_folder") as shop:
        async with shop.reloader:
            await stands(shop)
            for word in ("two", "six"):
                shutil.rmtree(folder)
                shop.write(crib_folder__crib_tools=source(word))
                await says(shop, word)


async def test_a_link_on_the_way_to_a_file_is_watched(tmp_path: Path) -> None:
    """The way of mounted settings: the file is a link, which leads through another link that is exchanged."""
    for word in ("one", "two"):
        (tmp_path / word).mkdir()
        (tmp_path / word / "crib_tools.py").write_text(source(word))
    served = tmp_path / "served"
    served.mkdir()
    (served / "..data").symlink_to(tmp_path / "one")
    (served / "crib_tools.py").symlink_to("..data/crib_tools.py")
    with workshop(served) as shop:
        async with shop.reloader:
            await stands(shop)
            assert await shop.say() == "one"
            (served / "..new").symlink_to(tmp_path / "two")
            (served / "..new").rename(served / "..data")
            await says(shop, "two")


async def test_a_module_in_a_folder_that_was_not_watched_is_watched_once_a_call_imports_it(
    tmp_path: Path,
) -> None:
    late = "from crib_late.words import word\n    return word"
    (tmp_path / "crib_tools.py").write_text(source("").replace("return ''", late))
    (tmp_path / "crib_late").mkdir()
    (tmp_path / "crib_late" / "words.py").write_text("word = 'one'")
    with workshop(tmp_path) as shop:
        async with shop.reloader:
            await stands(shop)
            assert await shop.say() == "one"
            await until(lambda: str(tmp_path / "crib_late") in shop.reloader._watched.folders())
            shop.write(crib_late__words="word = 'two'")
            await says(shop, "two")


async def test_it_ends_at_once_and_leaves_no_thread(shop: Workshop) -> None:
    async with shop.reloader:
        shop.write(crib_tools=source("two"))
        await says(shop, "two")
        assert "watched_files.py" in running_files()
        started = time.monotonic()
    assert time.monotonic() - started < 0.5
    await until(lambda: "watched_files.py" not in running_files())


def running_files() -> set[str]:
    """Return the names of the files whose code is running in other threads."""
    frames = [frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()]
    return {
        Path(inner.f_code.co_filename).name for frame in frames for inner, _ in traceback.walk_stack(frame)
    }


async def test_it_ends_at_once_while_an_import_never_returns(shop: Workshop) -> None:
    sys.modules["crib_signals"] = type(sys)("crib_signals")
    go_on = sys.modules["crib_signals"].__dict__["go_on"] = threading.Event()
    old = sys.modules["crib_tools"]
    async with shop.reloader:
        shop.write(crib_tools=source("two", extra="import crib_signals; crib_signals.go_on.wait(60)"))
        await until(lambda: sys.modules.get("crib_tools") is not old)
        started = time.monotonic()
    assert time.monotonic() - started < 0.5
    go_on.set()
    await until(lambda: sys.modules.get("crib_tools") is old)


async def test_files_beside_it_that_are_not_sources_are_ignored(shop: Workshop) -> None:
    begun, stop = threading.Event(), threading.Event()

    def begin() -> bool:
        begun.set()
        return False

    waiting = asyncio.create_task(
        asyncio.to_thread(wait_for_change, {str(shop.folder)}, {"data.json"}, stop, begin)
    )
    try:
        await until(begun.is_set)
        for name in ("server.log", "tools.pyc", ".crib_tools.py.swp"):
            (shop.folder / name).write_text("x")
        await asyncio.sleep(0.5)
        assert not waiting.done()
        (shop.folder / "data.json").write_text("x")
        await asyncio.wait_for(waiting, 5.0)
    finally:
        stop.set()


@pytest.mark.parametrize("reason", ["missing", "refused"])
async def test_where_nothing_can_be_watched_it_looks_by_the_clock(
    shop: Workshop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    monkeypatch.setattr(reloading, "CHECK_EVERY_S", 0.05)
    if reason == "missing":
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    else:
        monkeypatch.setattr("watchfiles.watch", _refuse)
    async with shop.reloader:
        for word in ("two", "six"):
            shop.write(crib_tools=source(word))
            await says(shop, word)
    told = [text for text in complaints(caplog.records, logging.INFO) if "cannot be watched" in text]
    assert len(told) == 1


def _refuse(*paths: str, **options: object) -> None:
    raise OSError(28, "inotify watch limit reached")


async def test_trouble_while_looking_ends_nothing(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    def load_nowhere() -> Any:
        tools, findings, _ = shop.load_targets()
        return tools, findings, [None]

    async with shop.reloader:
        shop.load = load_nowhere
        shop.write(crib_tools=source("two"))
        await until(lambda: "checking for changed files failed" in caplog.text)
        shop.load = shop.load_targets
        shop.write(crib_tools=source("six"))
        await says(shop, "six")


async def test_what_follows_a_reload_may_fail(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise RuntimeError("no")

    shop.reloader._after_reload = fail
    shop.write(crib_tools=source("two"))
    assert await shop.reloader.check_now()
    await until(lambda: "the task after a reload failed" in caplog.text)


async def test_files_that_everybody_can_write_are_told_of_at_the_start(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    (shop.folder / "crib_tools.py").chmod(0o666)
    with workshop(shop.folder) as other:
        async with other.reloader:
            await until(lambda: "Changes will not be loaded" in caplog.text)
    assert len(complaints(caplog.records, logging.WARNING)) == 1
