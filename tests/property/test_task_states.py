"""Tasks against a model: several processes, of which some die, and clients of all of them."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from toolcrib.state.base import NewTask
from toolcrib.state.sqlite.file import LEASE_NS, NS
from toolcrib.state.sqlite.state import SQLiteState

TTL_MS = 60_000
LEASE_S = LEASE_NS // NS
PROCESSES = ("one", "two", "three")
PEOPLE = ("ana", "ben")


@dataclass
class Model:
    """What a task must be."""

    owner: str
    principal: str
    created_s: float
    status: str = "working"
    outcome: bytes | None = None
    is_known: bool = False
    """Whether its process has learned of its end."""
    keys: int = 0
    open: set[str] = field(default_factory=set)
    answers: dict[str, bytes] = field(default_factory=dict)


class TasksMachine(RuleBasedStateMachine):
    @initialize()
    def make(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.run = self.runner.run
        self.now_s = 1_000.0
        self.states = {
            name: SQLiteState(
                Path(self.folder.name) / "state.db",
                now_ns=lambda: int(self.now_s * NS),
                wall=lambda: self.now_s + 10**9,
            )
            for name in PROCESSES
        }
        for state in self.states.values():
            state.file.is_in_use.clear()  # leases are renewed by this test alone
        self.alive = set(PROCESSES)
        self.renewed_s = dict.fromkeys(PROCESSES, -1e9)
        self.tasks: dict[str, Model] = {}

    def teardown(self) -> None:
        for state in getattr(self, "states", {}).values():
            self.run(state.close())
        if hasattr(self, "folder"):
            self.runner.close()
            self.folder.cleanup()

    def pick(self, number: int) -> tuple[str, Model]:
        ids = sorted(self.tasks, key=lambda id_: self.tasks[id_].created_s)
        id_ = ids[number % len(ids)]
        return id_, self.tasks[id_]

    def running(self, number: int) -> tuple[str, Model] | None:
        """Return a task whose process lives."""
        id_, task = self.pick(number)
        return (id_, task) if task.owner in self.alive else None

    @rule(process=st.sampled_from(PROCESSES), principal=st.sampled_from(PEOPLE))
    def create(self, process: str, principal: str) -> None:
        if process not in self.alive:
            return
        new = NewTask(token_hex(8), principal, "work", "", "", TTL_MS, None)
        creating = self.states[process].tasks.create(new, queue=None, most=10_000, most_own=None)
        assert self.run(creating) is not None
        self.renewed_s[process] = self.now_s
        self.tasks[new.id] = Model(process, principal, self.now_s)
        self.lose()

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 50), outcome=st.sampled_from([b"1", b"2"]))
    def finish(self, number: int, outcome: bytes) -> None:
        found = self.running(number)
        if found is not None:
            id_, task = found
            finishing = self.states[task.owner].tasks.finish(id_, "completed", outcome, max_kept_bytes=2**30)
            was_working = task.status == "working" and not self.is_expired(task)
            assert self.run(finishing) == was_working or self.is_expired(task)
            self.end(task, "completed", outcome)
            task.is_known = True

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 50))
    def ask(self, number: int) -> None:
        found = self.running(number)
        if found is not None and found[1].status == "working" and not self.is_expired(found[1]):
            id_, task = found
            task.keys += 1
            assert self.run(self.states[task.owner].tasks.ask(id_, {f"k{task.keys}": b"?"}))
            task.open.add(f"k{task.keys}")

    @precondition(lambda self: self.tasks)
    @rule(
        number=st.integers(0, 50),
        process=st.sampled_from(PROCESSES),
        who=st.sampled_from(PEOPLE),
        key=st.integers(1, 3),
    )
    def answer(self, number: int, process: str, who: str, key: int) -> None:
        id_, task = self.pick(number)
        self.run(self.states[process].tasks.answer(id_, who, {f"k{key}": b"yes"}))
        if who == task.principal and task.status == "working" and f"k{key}" in task.open:
            task.open.discard(f"k{key}")
            task.answers[f"k{key}"] = b"yes"

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 50), process=st.sampled_from(PROCESSES), who=st.sampled_from(PEOPLE))
    def cancel(self, number: int, process: str, who: str) -> None:
        id_, task = self.pick(number)
        self.run(self.states[process].tasks.cancel(id_, who))
        if who == task.principal:
            self.end(task, "cancelled", None)

    @rule(process=st.sampled_from(PROCESSES))
    def collect(self, process: str) -> None:
        """A process hears of each answer once, and of each of its tasks that was ended from outside."""
        if process not in self.alive:
            return
        changes = self.run(self.states[process].tasks.changes(0, list(self.tasks)))
        for id_, task in self.tasks.items():
            if self.is_expired(task):
                continue
            if task.owner == process:
                assert (id_ in changes.ended) == (task.status != "working" and not task.is_known)
                expected = task.answers if task.status == "working" else {}
                assert changes.answers.get(id_, {}) == expected
                task.answers = {}
            [seen] = [each for each in changes.seen if each.new.id == id_]
            assert (seen.status, seen.outcome) == (task.status, seen.outcome)

    @rule(process=st.sampled_from(PROCESSES))
    def renew(self, process: str) -> None:
        if process in self.alive:
            self.run(self.states[process].tasks.renew())
            self.renewed_s[process] = self.now_s
            self.lose()

    @rule(process=st.sampled_from(PROCESSES))
    def kill(self, process: str) -> None:
        if len(self.alive) > 1:
            self.alive.discard(process)

    @rule(seconds=st.sampled_from([0.5, 3.0, LEASE_S + 1.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        """Processes that live renew their leases often enough."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + LEASE_S / 2)
            for process in sorted(self.alive):
                self.run(self.states[process].tasks.renew())
                self.renewed_s[process] = self.now_s
            self.lose()

    def lose(self) -> None:
        for task in self.tasks.values():
            if task.owner not in self.alive and self.now_s - self.renewed_s[task.owner] >= LEASE_S:
                self.end(task, "failed", None)

    def end(self, task: Model, status: str, outcome: bytes | None) -> None:
        if task.status == "working" and not self.is_expired(task):
            task.status, task.outcome, task.open = status, outcome, set()

    def is_expired(self, task: Model) -> bool:
        return self.now_s - task.created_s >= TTL_MS / 1000

    @invariant()
    def every_process_shows_every_client_the_same(self) -> None:
        if not hasattr(self, "tasks"):
            return
        for number, (id_, task) in enumerate(self.tasks.items()):
            for process in sorted(self.alive)[number % len(self.alive) :][:1]:
                for who in PEOPLE:
                    found = self.run(self.states[process].tasks.find(id_, who))
                    if who != task.principal or self.is_expired(task):
                        assert found is None
                        continue
                    assert found is not None
                    assert found.status == task.status
                    assert set(found.questions) == task.open
                    if task.status == "completed":
                        assert found.outcome == task.outcome


TestTasks = TasksMachine.TestCase
TestTasks.settings = settings(max_examples=settings().max_examples // 5, stateful_step_count=25)
