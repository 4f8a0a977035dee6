"""The file of tasks against a model: several processes, of which some die, and clients of all of them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from toolcrib.dispatch.task_store import LEASE_NS, NS, NewTask, TaskFile

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
    keys: int = 0
    open: set[str] = field(default_factory=set)
    answers: dict[str, bytes] = field(default_factory=dict)


class TasksMachine(RuleBasedStateMachine):
    @initialize()
    def make(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.now_s = 1_000.0
        self.files = {
            name: TaskFile(
                Path(self.folder.name) / "tasks.db",
                name,
                now_ns=lambda: int(self.now_s * NS),
                wall=lambda: self.now_s + 10**9,
            )
            for name in PROCESSES
        }
        self.alive = set(PROCESSES)
        self.renewed_s = dict.fromkeys(PROCESSES, -1e9)
        self.tasks: dict[str, Model] = {}

    def teardown(self) -> None:
        for file in getattr(self, "files", {}).values():
            file.close()
        if hasattr(self, "folder"):
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
        row = self.files[process].create(NewTask(principal, "work", "", TTL_MS), 10_000, None)
        self.renewed_s[process] = self.now_s
        self.tasks[row.id] = Model(process, principal, self.now_s)
        self.lose()

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 50), outcome=st.sampled_from([b"1", b"2"]))
    def finish(self, number: int, outcome: bytes) -> None:
        found = self.running(number)
        if found is not None:
            id_, task = found
            self.files[task.owner].finish(id_, "completed", outcome, 2**30)
            self.end(task, "completed", outcome)

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 50))
    def ask(self, number: int) -> None:
        found = self.running(number)
        if found is not None and found[1].status == "working" and not self.is_expired(found[1]):
            id_, task = found
            task.keys += 1
            self.files[task.owner].ask(id_, {f"k{task.keys}": b"?"})
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
        self.files[process].answer(id_, who, {f"k{key}": b"yes"})
        if who == task.principal and task.status == "working" and f"k{key}" in task.open:
            task.open.discard(f"k{key}")
            task.answers[f"k{key}"] = b"yes"

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 50), process=st.sampled_from(PROCESSES), who=st.sampled_from(PEOPLE))
    def cancel(self, number: int, process: str, who: str) -> None:
        id_, task = self.pick(number)
        self.files[process].cancel(id_, who)
        if who == task.principal:
            self.end(task, "cancelled", None)

    @rule(process=st.sampled_from(PROCESSES))
    def collect(self, process: str) -> None:
        """A process hears of each answer once, and of each of its tasks that was ended from outside."""
        own = {id_: task for id_, task in self.tasks.items() if task.owner == process}
        if process not in self.alive:
            return
        signals = self.files[process].collect(set(own), {})
        for id_, task in own.items():
            if self.is_expired(task):
                continue
            assert (id_ in signals.ended) == (task.status != "working")
            expected = task.answers if task.status == "working" else {}
            assert signals.answers.get(id_, {}) == expected
            task.answers = {}

    @rule(process=st.sampled_from(PROCESSES))
    def renew(self, process: str) -> None:
        if process in self.alive:
            self.files[process].renew()
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
                self.files[process].renew()
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
        for id_, task in self.tasks.items():
            for process in sorted(self.alive):
                for who in PEOPLE:
                    row = self.files[process].find(id_, who)
                    if who != task.principal or self.is_expired(task):
                        assert row is None
                        continue
                    assert row is not None
                    is_waiting = task.status == "working" and task.open
                    assert row.status == ("input_required" if is_waiting else task.status)
                    assert set(row.questions) == (task.open if is_waiting else set())
                    if task.status == "completed":
                        assert row.outcome == task.outcome


TestTasks = TasksMachine.TestCase
TestTasks.settings = settings(max_examples=settings().max_examples // 3, stateful_step_count=25)
