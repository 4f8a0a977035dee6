"""Reload: the effects of changed files."""

from __future__ import annotations

import asyncio
import builtins
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.reload_folder import Workshop, complaints, source, workshop
from toolcrib import Finding, collect
from toolcrib.registry.registry import Change
from toolcrib.sources.reload import reloader as reloading
from toolcrib.sources.targets import parse_target


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    (tmp_path / "crib_tools.py").write_text(source("one"))
    with workshop(tmp_path) as made:
        yield made


# --- what is taken ------------------------------------------------------------------------------------


async def test_a_change_is_taken_and_told_once(shop: Workshop) -> None:
    revision = shop.server.registry.revision
    assert not await shop.reloader.check_now()
    shop.write(crib_tools=source("two"))
    assert await shop.reloader.check_now()
    assert await shop.say() == "two"
    assert shop.changes == [Change("replaced", ("say",), revision + 1)]
    assert not await shop.reloader.check_now()
    assert len(shop.loads) == 2


async def test_the_log_says_what_has_changed(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    shop.write(crib_tools=source("one") + source("more", "more"))
    assert await shop.reloader.check_now()
    assert complaints(caplog.records, logging.INFO) == ["Reloaded 2 tools, changed: more"]


async def test_saves_in_one_second_and_of_one_length_are_all_noticed(shop: Workshop) -> None:
    """Compiled files know seconds and lengths only, and clocks tick."""
    path = shop.folder / "crib_tools.py"
    times = path.stat().st_mtime_ns
    for number in range(20):
        shop.write(crib_tools=source(f"{number:03d}"))
        os.utime(path, ns=(times, times))
        assert await shop.reloader.check_now()
        assert await shop.say() == f"{number:03d}"


async def test_saving_the_same_again_loads_nothing(shop: Workshop) -> None:
    shop.write(crib_tools=source("one"))
    assert not await shop.reloader.check_now()
    assert len(shop.loads) == 1


async def test_a_comment_is_no_change_for_anybody(shop: Workshop) -> None:
    revision = shop.server.registry.revision
    shop.write(crib_tools="# a comment that moves all lines\n\n" + source("one"))
    assert await shop.reloader.check_now()
    assert (shop.changes, shop.server.registry.revision) == ([], revision)


async def test_tools_that_come_and_go_are_one_change(shop: Workshop) -> None:
    shop.write(crib_tools=source("new", "new") + source("two"))
    assert await shop.reloader.check_now()
    shop.write(crib_tools=source("newer", "newer") + source("two"))
    assert await shop.reloader.check_now()
    assert shop.names == ["say", "newer"]
    assert [(change.kind, sorted(change.names)) for change in shop.changes] == [
        ("changed", ["new", "say"]),
        ("changed", ["new", "newer"]),
    ]


async def test_a_helper_beside_the_file_is_loaded_afresh_with_it(tmp_path: Path) -> None:
    (tmp_path / "crib_helper.py").write_text("word = 'one'")
    text = source("", extra="import crib_helper").replace("''", "crib_helper.word")
    (tmp_path / "crib_tools.py").write_text(text)
    with workshop(tmp_path) as shop:
        shop.write(crib_helper="word = 'two'")
        assert await shop.reloader.check_now()
        assert await shop.say() == "two"
        assert shop.changes == []  # the tool itself says and does what it did


async def test_a_package_is_loaded_afresh_as_a_whole(tmp_path: Path) -> None:
    files = {
        "crib_pack/__init__.py": "from .words import word",
        "crib_pack/words.py": "word = 'one'",
        "crib_pack/deep/__init__.py": "",
        "crib_pack/deep/tools.py": source(
            "", extra="from .. import word\nfrom crib_pack import words"
        ).replace("''", "word + words.word"),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    with workshop(tmp_path, "crib_pack/deep/tools.py") as shop:
        assert await shop.say() == "oneone"
        shop.write(crib_pack__words="word = 'two'")
        assert await shop.reloader.check_now()
        assert await shop.say() == "twotwo"


async def test_a_file_whose_name_is_taken_is_reloaded_too(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(source("one"))
    with workshop(tmp_path, "json.py") as shop:
        for word in ("two", "six"):
            shop.write(json=source(word))
            assert await shop.reloader.check_now()
            assert await shop.say() == word


async def test_files_may_come_and_go_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "GRACE_S", 0.0)
    (tmp_path / "crib_one.py").write_text(source("one", "one"))
    with workshop(tmp_path, ".") as shop:
        shop.write(crib_below__crib_two=source("two", "two"))
        assert await shop.reloader.check_now()
        assert shop.names == ["one", "two"]
        (tmp_path / "crib_one.py").unlink()
        assert await shop.reloader.check_now()
        assert shop.names == ["two"]
        assert "crib_one" not in sys.modules


async def test_a_module_that_a_call_imports_is_watched_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "crib_tools.py").write_text(
        source("").replace("return ''", "from crib_late import word\n    return word")
    )
    (tmp_path / "crib_late.py").write_text("word = 'one'")
    with workshop(tmp_path) as shop:
        await shop.reloader.check_now()
        assert await shop.say() == "one"
        shop.write(crib_late="word = 'two'")
        assert await shop.reloader.check_now()
        assert await shop.say() == "two"


async def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    for number, word in enumerate(("one", "two")):
        release = tmp_path / f"release{number}"
        release.mkdir()
        (release / "crib_word.py").write_text(f"word = {word!r}")
        text = source("", extra="import crib_word").replace("''", "crib_word.word")
        (release / "crib_tools.py").write_text(text)
    link = tmp_path / "current"
    link.symlink_to("release0")
    with workshop(tmp_path, "current/crib_tools.py") as shop:
        assert await shop.say() == "one"
        link.unlink()
        link.symlink_to("release1")
        assert await shop.reloader.check_now()
        assert await shop.say() == "two"
        assert str(tmp_path / "release0") not in sys.path


# --- what stays ---------------------------------------------------------------------------------------


async def test_what_was_switched_by_hand_stays_so(shop: Workshop) -> None:
    shop.server.registry.disable("say")
    shop.write(crib_tools=source("two"))
    assert await shop.reloader.check_now()
    assert shop.names == []
    shop.server.registry.enable("say")
    assert await shop.say() == "two"


async def test_tools_from_elsewhere_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "crib_tools.py").write_text(source("one"))
    with workshop(tmp_path) as shop:

        @shop.server.tool
        def other() -> str:
            return "other"

        shop.write(crib_tools=source("two"))
        assert await shop.reloader.check_now()
        assert shop.names == ["say", "other"]
        shop.write(crib_tools=source("mine", "other"))
        assert not await shop.reloader.check_now()
        assert (await shop.say(), await shop.say("other")) == ("two", "other")


async def test_an_error_that_existed_at_the_start_does_not_prevent_a_reload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "crib_bad.py").write_text("def broken(:\n")
    (tmp_path / "crib_good.py").write_text(source("one"))
    with workshop(tmp_path, ".") as shop:
        shop.write(crib_good=source("two"))
        assert await shop.reloader.check_now()
        assert await shop.say() == "two"
        assert not complaints(caplog.records)
        shop.write(crib_bad="\n1 / 0\n")
        assert not await shop.reloader.check_now()
        assert len(complaints(caplog.records)) == 1
        shop.write(crib_bad=source("mended", "mended"))
        assert await shop.reloader.check_now()
        assert shop.names == ["say", "mended"]


async def test_new_warnings_are_told_and_old_ones_are_not_repeated(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    warning = Finding("odd", "warning", "Something is odd")

    def load_oddly() -> Any:
        tools, _, paths = shop.load_targets()
        return tools, [warning], paths

    shop.load = load_oddly
    for word in ("two", "six"):
        shop.write(crib_tools=source(word))
        assert await shop.reloader.check_now()
    assert complaints(caplog.records, logging.WARNING) == [str(warning)]


# --- the end ------------------------------------------------------------------------------------------


async def test_closing_leaves_the_import_system_as_it_was(shop: Workshop) -> None:
    before = (builtins.__import__, list(sys.meta_path))
    await shop.reloader.check_now()
    assert builtins.__import__ is not before[0]
    shop.reloader.close()
    shop.reloader.close()
    assert (builtins.__import__, list(sys.meta_path)) == before
    shop.write(crib_tools=source("two"))
    assert not await shop.reloader.check_now()


async def test_a_closed_registry_ends_it(shop: Workshop) -> None:
    shop.server.registry.close("No more")
    old = sys.modules["crib_tools"]
    shop.write(crib_tools=source("two"))
    assert not await shop.reloader.check_now()
    assert sys.modules["crib_tools"] is old
    await asyncio.wait_for(shop.reloader.run(), 5.0)


async def test_a_load_whose_caller_was_cancelled_is_undone(shop: Workshop) -> None:
    old = sys.modules["crib_tools"]
    shop.write(crib_tools=source("two", extra="import time; time.sleep(0.3)"))
    checking = asyncio.create_task(shop.reloader.check_now())
    while "crib_tools" in sys.modules and sys.modules["crib_tools"] is old:
        await asyncio.sleep(0.001)
    checking.cancel()
    await asyncio.wait({checking})
    assert checking.cancelled()
    assert await shop.say() == "one"
    while sys.modules.get("crib_tools") is not old:
        await asyncio.sleep(0.01)
    assert await shop.reloader.check_now()  # the next one finds the import system free
    assert await shop.say() == "two"


async def test_the_samples_are_a_target_beside_a_file_that_is_reloaded(shop: Workshop) -> None:
    def load_with_samples() -> Any:
        tools, findings, paths = shop.load_targets()
        samples = collect("toolcrib.samples")
        found = parse_target("toolcrib.samples").find_paths()
        return [*tools, *samples.tools], [*findings, *samples.findings], [*paths, *found]

    shop.load = load_with_samples
    for answer in ("two", "three"):
        shop.write(crib_tools=source(answer))
        assert await shop.reloader.check_now()
        assert await shop.say() == answer
        assert await shop.say("echo", message="x") == "Echo: x"
    assert sys.modules["toolcrib.samples"] is sys.modules["toolcrib.sources.samples"]
