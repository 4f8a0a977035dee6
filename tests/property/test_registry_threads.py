"""Writers and readers at once: no reader sees half of a change, and no caller waits for ever."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.definitions.small_tools import named
from toolcrib import ToolAlreadyExistsError, ToolRegistry
from toolcrib.registry.registry import Change

WRITERS, READERS, ROUNDS, SIZE = 4, 4, 60, 5


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(*jobs: Callable[[], Any]) -> None:
    """Run jobs on threads, started at once; what one of them raises is raised here."""
    barrier, errors = threading.Barrier(len(jobs)), []

    def work(job: Callable[[], Any]) -> None:
        try:
            barrier.wait(30)
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def check_whole(names: list[str]) -> None:
    """Tools are called `w{writer}_{round}_{number}`; those of a round come and go together, in order."""
    rounds = Counter(name.rpartition("_")[0] for name in names)
    assert set(rounds.values()) <= {SIZE}
    for position in range(0, len(names), SIZE):
        batch = names[position : position + SIZE]
        assert batch == [f"{batch[0].rpartition('_')[0]}_{number}" for number in range(SIZE)]


def test_batches_come_whole_and_readers_see_one_state() -> None:
    registry = ToolRegistry()
    done = threading.Event()
    heard: list[Change] = []
    registry.subscribe(heard.append)

    def write(writer: int) -> None:
        for turn in range(ROUNDS):
            batch = [named(f"w{writer}_{turn}_{number}") for number in range(SIZE)]
            registry.add_all(iter(batch), strict=turn % 2 == 0)

    def write_all() -> None:
        run_together(*(lambda writer=writer: write(writer) for writer in range(WRITERS)))
        done.set()

    def read() -> None:
        last = 0
        while not done.is_set():
            snapshot = registry.snapshot
            names = [tool.name for tool in snapshot.tools]
            check_whole(names)
            assert snapshot.revision >= last
            assert len(names) == snapshot.revision * SIZE
            last = snapshot.revision
            assert all(snapshot.find(tool.name.upper()) is tool for tool in snapshot.tools[-SIZE:])
            assert len(registry) % SIZE == 0
            assert len(registry) >= len(names)
            for tool in snapshot.tools[-1:]:
                assert registry.get(tool.name) is tool

    run_together(write_all, *[read] * READERS)
    assert len(registry) == WRITERS * ROUNDS * SIZE
    assert sorted(change.revision for change in heard) == list(range(1, WRITERS * ROUNDS + 1))
    for writer in range(WRITERS):
        own = [tool.name for tool in registry if tool.name.startswith(f"w{writer}_")]
        assert own == [f"w{writer}_{turn}_{number}" for turn in range(ROUNDS) for number in range(SIZE)]


def test_of_many_who_want_one_name_one_gets_it() -> None:
    registry = ToolRegistry()
    winners: list[int] = []
    losers: list[int] = []

    def take(thread: int) -> None:
        for turn in range(ROUNDS):
            try:
                registry.add(named(f"prize_{turn}"))
                winners.append(turn)
            except ToolAlreadyExistsError:
                losers.append(turn)

    run_together(*(lambda thread=thread: take(thread) for thread in range(WRITERS)))
    assert sorted(winners) == list(range(ROUNDS))
    assert len(losers) == ROUNDS * (WRITERS - 1)
    assert registry.revision == ROUNDS


def test_switching_and_replacing_while_others_look() -> None:
    registry = ToolRegistry()
    registry.add_all([named("steady"), named("flicker"), named("last")])
    done = threading.Event()

    def change() -> None:
        for _ in range(ROUNDS * 4):
            registry.disable("flicker")
            registry.enable("flicker")
            registry.replace(named("steady"))
        done.set()

    def read() -> None:
        while not done.is_set():
            names = [tool.name for tool in registry]
            assert names in (["steady", "flicker", "last"], ["steady", "last"])
            assert registry.get("STEADY").name == "steady"
            assert len(registry) in (2, 3)
            assert [entry.tool.name for entry in registry.entries()] == ["steady", "flicker", "last"]

    run_together(change, *[read] * READERS)
    assert registry.revision == 1 + ROUNDS * 4 * 3
