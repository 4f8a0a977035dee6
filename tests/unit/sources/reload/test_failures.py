"""Reload: a failed load keeps the old tools."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.reload_folder import Workshop, complaints, source, workshop
from toolcrib.errors import ConfigurationError
from toolcrib.sources.reload import reloader as reloading

LAZY = source("", extra="import crib_helper").replace(
    "return ''", "import crib_helper as lazy\n    from crib_helper import word\n    return word + lazy.word"
)
FAILURES = {
    "syntax": ("def broken(:\n", 1, "syntax error"),
    "import": ("\nimport crib_not_there\n", 2, "No module named 'crib_not_there'"),
    "raises": ("import os\n\n1 / 0\n", 3, "ZeroDivisionError"),
    "exits": ("raise SystemExit(3)\n", 1, "SystemExit"),
    "duplicate": (source("a") + source("b", "b").replace("@tool", "@tool('say')"), 11, "already registered"),
    "unbuildable": (source("a").replace("say()", "say(x: 'Unknown')"), 4, "cannot be resolved"),
    "signature": (source("a").replace("say()", "say(*x: int)"), 4, "which no schema can describe"),
    "nothing": ("x = 1\n", None, "has no tools"),
    "server": ("from toolcrib import MCPServer\nMCPServer().run()\n", 2, "run() is called while"),
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    monkeypatch.setattr(reloading, "GRACE_S", 0.0)
    (tmp_path / "crib_tools.py").write_text(LAZY)
    (tmp_path / "crib_helper.py").write_text("word = 'one'")
    with workshop(tmp_path) as made:
        yield made


@pytest.mark.parametrize("kind", FAILURES)
async def test_what_does_not_load_leaves_the_old_set_whole(
    shop: Workshop, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    text, line, words = FAILURES[kind]
    before = {name: sys.modules[name] for name in ("crib_tools", "crib_helper")}
    tools, revision = shop.server.registry.get_all(), shop.server.registry.revision
    shop.write(crib_tools=text, crib_helper="word = 'two'")
    assert not await shop.reloader.check_now()
    assert not await shop.reloader.check_now()
    assert await shop.say() == "oneone"
    assert {name: sys.modules.get(name) for name in before} == before
    assert not any("__toolcrib_old_modules__" in vars(module) for module in before.values())
    assert (shop.server.registry.get_all(), shop.server.registry.revision) == (tools, revision)
    (message,) = complaints(caplog.records)
    place = str(shop.folder / "crib_tools.py") + (f":{line}" if line else "")
    assert f"{place}: error[" in message
    assert words in message
    shop.write(crib_tools=LAZY)
    assert await shop.reloader.check_now()
    assert await shop.say() == "twotwo"
    assert (shop.reloader.failures, shop.reloader.reloads) == (1, 1)


async def test_an_error_in_a_helper_is_named_with_its_place_and_taken_up_when_that_is_mended(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.write(crib_tools=f"import crib_more\n{LAZY}", crib_more="\n1 / 0\n")
    assert not await shop.reloader.check_now()
    assert f"ZeroDivisionError: division by zero (at {shop.folder / 'crib_more.py'}:2)" in caplog.text
    shop.write(crib_more="")
    assert await shop.reloader.check_now()


async def test_a_module_that_was_missing_is_taken_up_when_it_comes(shop: Workshop) -> None:
    shop.write(crib_tools=f"import crib_missing\n{LAZY}")
    assert not await shop.reloader.check_now()
    shop.write(crib_missing="")
    assert await shop.reloader.check_now()
    shop.write(crib_unrelated="")
    assert not await shop.reloader.check_now()
    assert len(shop.loads) == 3


async def test_a_file_that_is_gone_keeps_its_tools_until_it_is_back(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    path = shop.folder / "crib_tools.py"
    path.unlink()
    assert not await shop.reloader.check_now()
    assert not await shop.reloader.check_now()
    assert complaints(caplog.records) == [
        f"Not reloaded, the previous tools stay active: {path}: error[missing-file] crib_tools.py is missing"
    ]
    assert await shop.say() == "oneone"
    path.write_text(source("back"))
    assert await shop.reloader.check_now()
    assert await shop.say() == "back"


async def test_a_file_that_is_gone_for_a_moment_is_waited_for(
    shop: Workshop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "GRACE_S", 10.0)
    path = shop.folder / "crib_tools.py"
    for spoil in (path.unlink, lambda: path.write_text("")):
        spoil()
        checking = asyncio.create_task(shop.reloader.check_now())
        await asyncio.sleep(0.1)
        assert not checking.done()
        path.write_text(source(f"back from {spoil}"))
        assert await checking
    assert not complaints(caplog.records)


async def test_many_errors_are_one_record(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    wrong = source("a").replace("say()", "say(x: 'Unknown')")
    shop.write(crib_tools="".join(wrong.replace("say", f"say_{letter}") for letter in "abcdefg"))
    assert not await shop.reloader.check_now()
    (message,) = complaints(caplog.records)
    assert message.count("error[invalid-signature]") == 5
    assert message.endswith("and 2 more")
    assert (caplog.records[-1].errors, caplog.records[-1].line) == (7, 4)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (ConfigurationError("is odd", file="toolcrib.toml", line=3), "toolcrib.toml:3: error["),
        (RuntimeError("odd"), f"{__file__}:"),
        (ConfigurationError("is odd"), "crib_tools.py: error["),
    ],
)
async def test_an_error_of_the_loading_itself_is_told_with_a_place(
    shop: Workshop, caplog: pytest.LogCaptureFixture, error: Exception, place: str
) -> None:
    def fail() -> Any:
        raise error

    shop.load = fail
    shop.write(crib_helper="word = 'two'")
    assert not await shop.reloader.check_now()
    (message,) = complaints(caplog.records)
    assert place in message
    assert "odd" in message


# --- while it loads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "1 / 0"])
async def test_old_code_imports_old_modules_while_new_code_is_loaded_and_after(
    shop: Workshop, ending: str
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    sys.modules["crib_signals"] = type(sys)("crib_signals")
    sys.modules["crib_signals"].__dict__.update(begun=begun, go_on=go_on)
    old = shop.server.registry.get("say")
    slow = f"import crib_signals as s; s.begun.set(); s.go_on.wait(10)\n{ending}"
    shop.write(crib_helper="word = 'two'", crib_tools=f"{LAZY}\n{slow}")
    checking = asyncio.create_task(shop.reloader.check_now())
    while not begun.is_set():
        assert await shop.say() == "oneone"
        await asyncio.sleep(0.001)
    assert await shop.say() == "oneone"
    go_on.set()
    assert await checking is not bool(ending)
    assert old.handler() == "oneone"  # a call that still runs
    assert await shop.say() == ("oneone" if ending else "twotwo")


async def test_what_changed_while_it_was_loaded_is_loaded_again(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    """A set from files of two states is never taken, nor is an error in it told."""
    path = shop.folder / "crib_helper.py"
    shop.write(crib_tools=f"{LAZY}\nimport crib_more", crib_helper="word = 'two'")
    shop.write(
        crib_more=f"""
        import pathlib
        path = pathlib.Path({str(path)!r})
        if "two" in path.read_text():
            path.write_text("word = 'six'")
            1 / 0
        """
    )
    assert await shop.reloader.check_now()
    assert await shop.say() == "sixsix"
    assert len(shop.loads) == 3
    assert not complaints(caplog.records)


async def test_a_file_that_changes_whenever_it_is_loaded_does_not_go_round_for_ever(shop: Workshop) -> None:
    place = "pathlib.Path(__file__).with_name('crib_made.py')"
    writes = f"import pathlib, time; {place}.write_text(str(time.time_ns()))"
    for word in ("made", "more"):  # the second time it is known which files there are
        shop.write(crib_tools=f"{writes}\nimport crib_made\n{source(word)}")
        assert await shop.reloader.check_now()
        assert await shop.say() == word
    assert len(shop.loads) > 10


async def test_a_load_that_takes_long_is_told_of(
    shop: Workshop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "SLOW_S", 0.05)
    shop.write(crib_tools=source("two", extra="import time; time.sleep(0.3)"))
    assert await shop.reloader.check_now()
    assert "have been loading for 0.05 s" in complaints(caplog.records, logging.WARNING)[0]


async def test_loads_keep_a_distance(shop: Workshop) -> None:
    began: list[float] = []

    def load() -> Any:
        began.append(shop.reloader._last_load)  # a busy machine may come here long after
        return shop.load_targets()

    shop.load = load
    shop.reloader._pause_s = 0.1
    for number in range(4):
        shop.write(crib_tools=source(str(number)))
        assert await shop.reloader.check_now()
    assert len(began) == 4
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(began))


# --- who may write ------------------------------------------------------------------------------------


async def test_files_that_everybody_can_write_are_not_loaded(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    path = shop.folder / "crib_tools.py"
    shop.write(crib_tools=source("two"))
    path.chmod(0o666)
    assert not await shop.reloader.check_now()
    assert len(shop.loads) == 1
    (message,) = complaints(caplog.records, logging.WARNING)
    assert f"{path}: error[world-writable] crib_tools.py can be changed by every user" in message
    path.chmod(0o644)
    assert await shop.reloader.check_now()
    assert await shop.say() == "two"


async def test_a_folder_where_everybody_can_exchange_files_is_no_better(shop: Workshop) -> None:
    shop.folder.chmod(0o777)
    shop.write(crib_tools=source("two"))
    assert not await shop.reloader.check_now()
    shop.folder.chmod(0o1777)  # as /tmp: nobody can exchange what is another's
    assert await shop.reloader.check_now()


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_new_module_that_everybody_can_write_is_not_run(
    shop: Workshop, caplog: pytest.LogCaptureFixture, swallows: bool
) -> None:
    shop.write(crib_open="raise SystemError('it ran')")
    (shop.folder / "crib_open.py").chmod(0o666)
    statement = "import crib_open"
    if swallows:
        statement = f"try:\n    {statement}\nexcept ValueError:\n    pass"
    shop.write(crib_tools=f"{statement}\n{LAZY}")
    assert not await shop.reloader.check_now()
    assert "crib_open.py can be changed by every user" in complaints(caplog.records, logging.WARNING)[0]
    assert "it ran" not in caplog.text
