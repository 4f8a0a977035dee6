"""Whatever is recorded, by however many, whatever comes between: the chain holds, and everything is there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.records.audit_logs import NOON, ManualClocks, make_writer, verify
from toolcrib.policy.audit import open_log
from toolcrib.policy.audit.record import (
    NO_RECORD,
    REDACTED,
    Entry,
    Redaction,
    chain_entries,
    encode_entry,
    follows,
    has_time,
    read_head,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs", "L"]))
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
NAMES = st.text().filter(lambda name: name not in ("seq", "stream", "hash", "at", "kind"))
FACTS = st.dictionaries(NAMES, VALUES, max_size=6)


@given(st.lists(FACTS, max_size=8))
def test_any_entry_becomes_one_line_that_any_reader_of_json_can_read(facts: list[dict[str, Any]]) -> None:
    records = chain_entries("one", NO_RECORD, [encode_entry(NOON, each) for each in facts])
    before = NO_RECORD
    for stored, each in zip(records, facts, strict=True):
        assert b"\n" not in stored.line
        assert follows(stored.line, "one", before)
        assert has_time(stored)
        found = read_head(stored.line)
        assert found == stored.head
        before = stored.head
        record = json.loads(stored.line)
        assert (record["seq"], record["stream"]) == (before.seq, "one")
        assert len(record) == len(each) + 5 or any(
            "\ud800" <= sign <= "\udfff" for name in each for sign in name
        )


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=6))
def test_a_secret_never_gets_through_wherever_it_is(arguments: dict[str, Any]) -> None:
    canary = "ghp_" + "c4n4ry" * 6
    hidden = {
        **arguments,
        "x": [{"deep": [canary, {canary: 1}]}],
        "password": "c4n4ry",
        "n": f"see {canary}!",
    }
    picked = Redaction(["*"], []).pick(hidden)
    assert "c4n4ry" not in repr(picked)
    assert picked is not None
    assert REDACTED in repr(picked)


class Logs(RuleBasedStateMachine):
    """Several writers of one log, some of which go without a word."""

    @initialize(keep=st.sampled_from([None, 1000]))
    def begin(self, keep: int | None) -> None:
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "audit.db"
        self.clocks = ManualClocks()
        self.options: dict[str, Any] = {"keep_records": keep}
        self.writers = [make_writer(self.path, self.clocks, **self.options) for _ in range(3)]
        self.written: list[str] = []
        self.waiting: list[list[Entry]] = [[], [], []]

    @rule(which=st.integers(0, 2), count=st.sampled_from([0, 1, 2, 9, 70, 1500]))
    def write(self, which: int, count: int) -> None:
        for _ in range(count):
            self.clocks.advance(0.001)
            self.written.append(f"c{len(self.written)}")
            self.waiting[which].append(encode_entry(self.clocks.wall_s, {"id": self.written[-1]}))
        waiting, self.waiting[which] = self.waiting[which], []
        self.writers[which].write(waiting)

    @rule(seconds=st.sampled_from([0, 1, 61, 4000]), jump=st.sampled_from([0, 0, 1, -1]))
    def tend(self, seconds: int, jump: int) -> None:
        self.clocks.advance(seconds)
        self.clocks.wall_s += jump * 365 * 86_400
        for writer in self.writers:
            writer.run_maintenance()

    @rule(which=st.integers(0, 2))
    def close(self, which: int) -> None:
        self.writers[which].close()

    @rule(which=st.integers(0, 2))
    def crash(self, which: int) -> None:
        self.writers[which].release()
        self.writers[which] = make_writer(self.path, self.clocks, **self.options)

    @rule(left=st.binary(min_size=1, max_size=40).filter(lambda left: b"\n" not in left))
    def tear_checkpoints(self, left: bytes) -> None:
        checkpoints = self.path.with_name("audit.db.checkpoints")
        if checkpoints.exists():
            with checkpoints.open("ab") as file:
                file.write(left)
            self.writers[0].write([])

    @invariant()
    def everything_is_there(self) -> None:
        if not self.path.exists():
            return
        verdict = verify(self.path)
        assert verdict.problems == []
        found = [record["id"] for record in open_log(self.path).records() if record["kind"] == "call"]
        assert len(found) == len(set(found))
        assert set(found) <= set(self.written)
        if self.options["keep_records"] is None:
            assert set(found) == set(self.written)
        else:
            assert len(found) >= min(len(self.written), 900)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            for writer in self.writers:
                writer.release()
            self.folder.cleanup()


IS_LONG = os.environ.get("TOOLCRIB_PROPERTY") == "long"
TestLogs = Logs.TestCase
TestLogs.settings = settings(
    max_examples=500 if IS_LONG else 8, stateful_step_count=30 if IS_LONG else 12, deadline=None
)
