"""The audit log cannot be written: what must be recorded does not run, all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.guarded import Bench, open_bench, until
from toolcrib.policy import Audit, Limit
from toolcrib.policy.audit import log
from toolcrib.policy.quota.memory_store import MemoryStore


def break_store(bench: Bench) -> None:
    """Have the store fail from now on, as a disk does that is gone: its place is a folder."""
    scribe = bench.enforcer.audit._scribe
    scribe.abandon()
    scribe.path = bench.file.parent / "gone" / "audit.db"
    (bench.file.parent / "gone").write_text("not a folder")


async def test_a_destructive_tool_does_not_run_before_an_outage_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(tmp_path, audit=Audit(tmp_path / "audit.db", wait_s=0.05)) as bench:
        break_store(bench)
        result = await bench.server.call("wipe", {"what": "disk"})  # the first of all
        assert (result.meta or {}).get("toolcrib/refusal") == {"code": "audit-unavailable"}
        (bench.file.parent / "gone").unlink()
        bench.enforcer.audit._scribe.path = bench.file
        await until(lambda: not bench.enforcer.audit.is_failing)
        assert not (await bench.server.call("wipe", {"what": "disk"})).is_error
        monkeypatch.setattr(log, "FRESH_S", 0.0)  # a while later
        break_store(bench)
        assert (await bench.server.call("wipe", {"what": "disk"})).is_error
        assert bench.runs["wipe"] == 1
        (bench.file.parent / "gone").unlink()
        bench.enforcer.audit._scribe.path = bench.file


async def test_whether_it_can_be_recorded_is_tried_only_where_it_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FRESH_S", 3600.0)
    async with open_bench(tmp_path) as bench:
        for _ in range(5):
            assert not (await bench.server.call("wipe", {"what": "disk"})).is_error
    assert len(bench.records("probe")) == 1
    assert len(bench.records()) == 5


async def test_where_nothing_can_be_recorded_what_must_be_does_not_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_bench(tmp_path, audit=Audit(tmp_path / "audit.db", wait_s=0.05)) as bench:
        assert not (await bench.server.call("add", {"a": 1})).is_error
        break_store(bench)
        assert not (await bench.server.call("add", {"a": 1})).is_error  # others go on
        await until(lambda: bench.enforcer.audit.is_failing)
        for tool, arguments in (("pay", {"amount": 5}), ("wipe", {"what": "disk"})):
            result = await bench.server.call(tool, arguments)
            assert result.is_error
            assert (result.meta or {}).get("toolcrib/refusal") == {"code": "audit-unavailable"}
            assert result.content[0]["text"] == (
                f"Tool '{tool}' cannot run now: its calls must be recorded, and the audit log is unavailable."
            )
        assert not bench.runs["pay"]
        assert not bench.runs["wipe"]
        assert not (await bench.server.call("add", {"a": 1})).is_error
        assert bench.runs["add"] == 3
        assert bench.enforcer.audit.gaps >= 3
        (bench.file.parent / "gone").unlink()
        bench.enforcer.audit._scribe.path = bench.file
        await until(lambda: not bench.enforcer.audit.is_failing)
        assert not (await bench.server.call("wipe", {"what": "disk"})).is_error
    assert any("audit" in record.message for record in caplog.records)
    outcomes = [(item["tool"], item["outcome"]) for item in bench.records()]
    assert outcomes == [
        ("add", "ok"),
        ("add", "ok"),
        ("pay", "error"),
        ("wipe", "error"),
        ("add", "ok"),
        ("wipe", "ok"),
    ]
    assert [item["kind"] for item in bench.records("gap")] != []


async def test_a_call_whose_place_cannot_be_left_is_on_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    async with open_bench(tmp_path, limits=[Limit(concurrency=2)]) as bench:
        monkeypatch.setattr(MemoryStore, "release", fail)
        with pytest.raises(RuntimeError):
            await bench.server.call("add", {"a": 1})
    assert [record["outcome"] for record in bench.records()] == ["crashed"]
