"""A log that was changed while it is written, and the seal that shall say what we wrote ourselves."""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path

import pytest

from tests.support.audit_logs import Hands, entries, make_writer, read_lines, replace_lines, seals
from toolcrib.policy.audit.log import _ignore_result
from toolcrib.policy.audit.store import DamagedError


def test_what_is_sealed_already_is_not_sealed_again(tmp_path: Path) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    writer = make_writer(path, hands)
    writer.write(entries(3))
    hands.pass_by(3600)
    writer.run_maintenance()
    before = seals(path).read_bytes()
    replace_lines(path, read_lines(path)[:-1])
    with pytest.raises(DamagedError, match="removed"):
        writer.write(entries(1, 4))
    assert seals(path).read_bytes() == before != b""


def test_where_no_seal_can_be_written_that_is_said_and_the_damage_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.write(entries(3))
    seals(path).unlink(missing_ok=True)
    seals(path).mkdir()
    replace_lines(path, read_lines(path)[:-1])
    with caplog.at_level(logging.WARNING, "toolcrib"), pytest.raises(DamagedError):
        writer.write(entries(1, 4))
    words = f"audit: cannot write a checkpoint to {seals(path)}: "
    assert [said.startswith(words) for said in caplog.messages] == [True]


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_an_opening_that_nobody_waits_for_any_more_may_end_as_it_will(is_cancelled: bool) -> None:
    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
    opened: asyncio.Future[None] = loop.create_future()
    opened.add_done_callback(_ignore_result)
    if is_cancelled:
        opened.cancel()
    else:
        opened.set_exception(DamagedError("it is damaged"))
    await asyncio.sleep(0)
    del opened  # a failure that nobody has looked at is told now
    gc.collect()
    assert complaints == []
