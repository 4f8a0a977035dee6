"""A log that was changed while it is written, and the seal that shall say what we wrote ourselves."""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path

import pytest

from tests.support.audited import STORES, Hands, entries, make_scribe, read_lines, replace_lines, seals
from toolcrib.policy.audit.log import _look_at
from toolcrib.policy.audit.store import BrokenError

BOTH = pytest.mark.parametrize("name", STORES)


@BOTH
def test_what_is_sealed_already_is_not_sealed_again(tmp_path: Path, name: str) -> None:
    path, hands = tmp_path / name, Hands()
    scribe = make_scribe(path, hands)
    scribe.write(entries(3))
    hands.pass_by(3600)
    scribe.tend()
    before = seals(path).read_bytes()
    replace_lines(path, read_lines(path)[:-1])
    with pytest.raises(BrokenError, match="gone"):
        scribe.write(entries(1, 4))
    assert seals(path).read_bytes() == before != b""


@BOTH
def test_where_no_seal_can_be_written_that_is_said_and_the_damage_too(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / name
    scribe = make_scribe(path)
    scribe.write(entries(3))
    seals(path).unlink(missing_ok=True)
    seals(path).mkdir()
    replace_lines(path, read_lines(path)[:-1])
    with caplog.at_level(logging.WARNING, "toolcrib"), pytest.raises(BrokenError):
        scribe.write(entries(1, 4))
    words = f"audit: no checkpoint can be written to {seals(path)}: "
    assert [said.startswith(words) for said in caplog.messages] == [True]


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_an_opening_that_nobody_waits_for_any_more_may_end_as_it_will(is_cancelled: bool) -> None:
    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
    opened: asyncio.Future[None] = loop.create_future()
    opened.add_done_callback(_look_at)
    if is_cancelled:
        opened.cancel()
    else:
        opened.set_exception(BrokenError("it is damaged"))
    await asyncio.sleep(0)
    del opened  # a failure that nobody has looked at is told now
    gc.collect()
    assert complaints == []
