"""Blocking code on threads: deadlines, abandoned threads, queues, and tools that do not hinder each other."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from tests.unit.dispatch.running import SOON_S, run_async, wait_until
from toolcrib.dispatch import runners
from toolcrib.dispatch.event_loop import CallbackWaker, EventfdWaker, waker_of
from toolcrib.dispatch.failures import Raised
from toolcrib.dispatch.runners import Job, Runner, ToolSlots
from toolcrib.errors import ToolBusyError, ToolTimeoutError


class Blocker:
    """Work that blocks until it is released, and says when it has begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.release = threading.Event()

    def __call__(self) -> str:
        self.begun += 1
        assert self.release.wait(30)
        self.ended += 1
        return "released"


@pytest.fixture
def blocker():
    made = Blocker()
    yield made
    made.release.set()


# --- results and errors ---


async def test_work_runs_on_a_daemon_thread_and_its_value_comes_back(runner, slots):
    thread = await runner.run_thread(slots, threading.current_thread, 5.0)
    assert thread is not threading.current_thread()
    assert thread.daemon
    assert slots.running == 0


async def test_an_idle_thread_is_used_again(runner, slots):
    seen = {await runner.run_thread(slots, threading.get_ident, None) for _ in range(20)}
    assert len(seen) <= 2  # a thread may not be idle yet in the moment its answer arrives


async def test_a_burst_of_quick_calls_is_done_by_few_threads(runner, slots):
    await runner.run_thread(slots, threading.get_ident, 5.0)
    seen = await asyncio.gather(*(runner.run_thread(slots, threading.get_ident, 5.0) for _ in range(30)))
    assert len(set(seen)) <= 4  # more only if the machine is so busy that a thread seems to be blocked


async def test_a_call_does_not_wait_behind_one_that_blocks(runner, blocker):
    blocking, quick = ToolSlots("blocking"), ToolSlots("quick")
    blocked = [asyncio.create_task(runner.run_thread(blocking, blocker, None)) for _ in range(5)]
    found = [runner.run_thread(quick, lambda: "done", 5.0) for _ in range(5)]
    assert await asyncio.wait_for(asyncio.gather(*found), SOON_S) == ["done"] * 5
    await wait_until(lambda: blocker.begun == 5)
    blocker.release.set()
    assert await asyncio.gather(*blocked) == ["released"] * 5


async def test_a_tool_that_is_known_to_block_gets_a_thread_at_once(runner, slots, blocker, monkeypatch):
    def take_long():
        time.sleep(0.02)
        return threading.get_ident()

    await runner.run_thread(slots, take_long, 5.0)
    assert slots.takes_long
    monkeypatch.setattr(runners, "LOOK_AFTER_S", 60.0)  # nothing looks after the jobs
    seen = await asyncio.gather(*(runner.run_thread(slots, take_long, 5.0) for _ in range(4)))
    assert len(set(seen)) == 4
    assert slots.takes_long is False  # less than a minute each


async def test_context_variables_are_carried_over_and_not_back(runner, slots):
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("mine")

    def work():
        found = variable.get()
        variable.set("changed")
        return found

    assert await runner.run_thread(slots, work, 5.0) == "mine"
    assert variable.get() == "mine"


@pytest.mark.parametrize(
    "kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError]
)
async def test_whatever_work_raises_comes_out_wrapped_with_its_traceback(runner, slots, kind):
    def work():
        raise kind("oh")

    with pytest.raises(Raised) as caught:
        await runner.run_thread(slots, work, 5.0)
    assert type(caught.value.error) is kind
    trace = caught.value.error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_name == "work"
    assert await runner.run_thread(slots, lambda: "alive", 5.0) == "alive"


async def test_neither_value_nor_frames_are_kept_by_an_idle_thread(runner, slots):
    class Witness:
        pass

    def returns():
        return Witness()

    def raises():
        witness = Witness()
        raise ValueError(witness)

    reference = weakref.ref(await runner.run_thread(slots, returns, 5.0))
    await wait_until(lambda: reference() is None)
    try:
        await runner.run_thread(slots, raises, 5.0)
    except Raised as raised:
        reference = weakref.ref(raised.error.args[0])
    await wait_until(lambda: gc.collect() >= 0 and reference() is None)


# --- deadlines and cancellation ---


async def test_a_blocked_call_is_answered_at_its_deadline_and_stays_counted(runner, slots, blocker):
    told = []
    started = time.monotonic()
    with pytest.raises(ToolTimeoutError, match=r"'probe' did not finish within 0\.2 s"):
        await runner.run_thread(slots, blocker, 0.2, lambda: told.append(threading.current_thread()))
    assert 0.2 <= time.monotonic() - started < 0.2 + SOON_S
    assert told == [threading.current_thread()]
    assert (slots.running, slots.abandoned, runner.abandoned) == (1, 1, 1)
    blocker.release.set()
    await wait_until(lambda: slots.running == 0)
    assert (slots.abandoned, runner.abandoned) == (0, 0)


async def test_a_cancelled_caller_is_free_at_once(runner, slots, blocker):
    told = []
    task = asyncio.create_task(runner.run_thread(slots, blocker, 30.0, lambda: told.append(True)))
    await wait_until(lambda: blocker.begun == 1)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < SOON_S
    assert told == [True]
    assert (slots.running, slots.abandoned) == (1, 1)


async def test_closing_a_call_that_is_under_way_gives_it_up(runner, slots, blocker):
    told = []
    call = runner.run_thread(slots, blocker, None, lambda: told.append(True))
    call.send(None)
    await wait_until(lambda: blocker.begun == 1)
    call.close()
    assert told == [True]
    assert slots.abandoned == 1


async def test_work_that_looks_at_its_flag_ends_after_it_was_given_up(runner, slots):
    flag = threading.Event()

    def work():
        assert flag.wait(30)

    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(slots, work, 0.02, flag.set)
    await wait_until(lambda: slots.running == 0)


async def test_a_failing_flag_does_not_change_the_answer(runner, slots, blocker, caplog):
    def fail():
        raise ValueError("flag")

    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(slots, blocker, 0.02, fail)
    assert "probe" in caplog.text


async def test_work_that_ends_in_time_is_not_told_to_stop(runner, slots):
    told = []
    assert await runner.run_thread(slots, lambda: 1, 0.2, lambda: told.append(True)) == 1
    await asyncio.sleep(0.25)
    assert told == []


async def test_anything_that_an_abandoned_thread_raises_is_dropped(runner, slots):
    release = threading.Event()

    def work():
        assert release.wait(30)
        raise SystemExit(3)

    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(slots, work, 0.02)
    release.set()
    await wait_until(lambda: slots.running == 0)
    assert await runner.run_thread(slots, lambda: "alive", 5.0) == "alive"


def test_an_answer_for_a_loop_that_is_closed_is_dropped(runner, slots, blocker):
    loop = asyncio.new_event_loop()
    task = loop.create_task(runner.run_thread(slots, blocker, None))
    loop.run_until_complete(wait_until(lambda: blocker.begun == 1))
    task._log_destroy_pending = False
    loop.close()
    blocker.release.set()
    asyncio.run(wait_until(lambda: slots.running == 0))
    assert asyncio.run(runner.run_thread(slots, lambda: "alive", 5.0)) == "alive"


# --- limits ---


async def test_calls_beyond_the_slots_queue_in_order_until_one_is_free(runner, blocker):
    slots = ToolSlots("narrow", max_threads=1)
    order = []
    first = asyncio.create_task(runner.run_thread(slots, blocker, None))
    await wait_until(lambda: blocker.begun == 1)
    rest = [
        asyncio.create_task(runner.run_thread(slots, lambda n=n: order.append(n), None)) for n in range(5)
    ]
    await wait_until(lambda: slots.waiting == 5)
    assert slots.running == 1
    blocker.release.set()
    await asyncio.gather(first, *rest)
    assert order == [0, 1, 2, 3, 4]
    assert (slots.running, slots.waiting) == (0, 0)


async def test_a_full_queue_refuses_at_once(runner, blocker):
    slots = ToolSlots("narrow", max_threads=1, max_queue=2)
    tasks = [asyncio.create_task(runner.run_thread(slots, blocker, None)) for _ in range(3)]
    await wait_until(lambda: slots.waiting == 2)
    with pytest.raises(ToolBusyError, match="'narrow' is busy: 2 calls are waiting"):
        await runner.run_thread(slots, lambda: 1, None)
    blocker.release.set()
    await asyncio.gather(*tasks)


async def test_waiting_counts_against_the_deadline(runner, blocker):
    slots = ToolSlots("narrow", max_threads=1)
    ran, told = [], []
    first = asyncio.create_task(runner.run_thread(slots, blocker, None))
    await wait_until(lambda: blocker.begun == 1)
    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(slots, lambda: ran.append(True), 0.05, lambda: told.append(True))
    assert (slots.waiting, slots.running, slots.abandoned) == (0, 1, 0)
    assert told == [True]
    blocker.release.set()
    await first
    await asyncio.sleep(0.02)
    assert ran == []


async def test_a_call_cancelled_while_it_waits_never_runs_and_leaves_the_queue(runner, blocker):
    slots = ToolSlots("narrow", max_threads=1)
    ran = []
    first = asyncio.create_task(runner.run_thread(slots, blocker, None))
    await wait_until(lambda: blocker.begun == 1)
    waiting = [
        asyncio.create_task(runner.run_thread(slots, lambda n=n: ran.append(n), None)) for n in range(3)
    ]
    await wait_until(lambda: slots.waiting == 3)
    waiting[1].cancel()
    await asyncio.wait([waiting[1]])
    assert slots.waiting == 2
    blocker.release.set()
    await asyncio.gather(first, waiting[0], waiting[2])
    assert ran == [0, 2]
    assert slots.abandoned == 0


async def test_slots_full_of_abandoned_calls_refuse_at_once_and_log_it_once(runner, blocker, caplog):
    slots = ToolSlots("hung", max_threads=2)
    for _ in range(2):
        with pytest.raises(ToolTimeoutError):
            await runner.run_thread(slots, blocker, 0.02)
    assert slots.abandoned == 2
    started = time.monotonic()
    for _ in range(5):
        with pytest.raises(ToolBusyError, match="'hung' is busy: 2 earlier calls ran out of time"):
            await runner.run_thread(slots, lambda: 1, 5.0)
    assert time.monotonic() - started < SOON_S
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].tool_name == "hung"
    blocker.release.set()
    await wait_until(lambda: slots.abandoned == 0)
    assert await runner.run_thread(slots, lambda: "free again", 5.0) == "free again"


async def test_a_slot_freed_by_an_abandoned_call_goes_to_the_queue(runner, blocker):
    slots = ToolSlots("narrow", max_threads=1)
    first = asyncio.create_task(runner.run_thread(slots, blocker, 0.1))
    await wait_until(lambda: blocker.begun == 1)
    second = asyncio.create_task(runner.run_thread(slots, lambda: "second", 30.0))
    with pytest.raises(ToolTimeoutError):
        await first
    blocker.release.set()
    assert await second == "second"


async def test_coroutines_of_a_tool_take_none_of_its_threads(runner):
    slots = ToolSlots("mixed", max_threads=1)
    waiting = asyncio.create_task(run_async(runner, slots, asyncio.sleep(0.2), None))
    await asyncio.sleep(0)
    assert await runner.run_thread(slots, lambda: "at once", 0.15) == "at once"
    await waiting


@contextlib.contextmanager
def no_thread_left() -> Iterator[None]:
    before = threading.stack_size(2**46)  # more than there is: starting a thread fails
    try:
        yield
    finally:
        threading.stack_size(before)


async def test_when_no_thread_can_be_started_the_call_is_refused(runner, slots):
    with no_thread_left():
        for _ in range(2):
            with pytest.raises(ToolBusyError, match="no thread can be started"):
                await runner.run_thread(slots, lambda: 1, None)
    assert (slots.running, slots.waiting) == (0, 0)
    assert await runner.run_thread(slots, lambda: 1, 5.0) == 1


async def test_when_no_thread_can_be_started_those_who_wait_for_the_slot_are_refused_too(runner):
    slots = ToolSlots("narrow", max_threads=1)
    holder = Job(slots, lambda: 1)
    assert slots.admit(holder)
    waiting = [asyncio.create_task(runner.run_thread(slots, lambda: 1, None)) for _ in range(3)]
    await wait_until(lambda: slots.waiting == 3)
    with no_thread_left():
        runner._threads.start(holder)
        for task in waiting:
            with pytest.raises(ToolBusyError, match="no thread can be started"):
                await task
    assert (slots.running, slots.waiting) == (0, 0)


# --- the end ---


async def test_close_ends_idle_threads_and_waits_for_none(slots, blocker):
    runner = Runner()
    idle = await runner.run_thread(slots, threading.current_thread, 5.0)
    busy = asyncio.create_task(runner.run_thread(slots, blocker, None))
    await wait_until(lambda: blocker.begun == 1)
    started = time.monotonic()
    runner.close()
    assert time.monotonic() - started < SOON_S
    blocker.release.set()
    assert await busy == "released"
    await wait_until(lambda: not idle.is_alive())


def test_a_process_ends_although_a_thread_is_blocked():
    program = """
import asyncio, time
from toolcrib.errors import ToolTimeoutError
from toolcrib.dispatch.runners import ToolSlots
from toolcrib.dispatch.runners import Runner
async def main():
    try:
        await Runner().run_thread(ToolSlots("hung"), lambda: time.sleep(60), 0.05)
    except ToolTimeoutError:
        print("answered")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "answered\n", "")


async def test_an_idle_thread_ends_after_a_while_and_a_picked_one_does_not(runner, slots, monkeypatch):
    monkeypatch.setattr(runners, "IDLE_S", 0.05)
    thread = await runner.run_thread(slots, threading.current_thread, 5.0)
    await wait_until(lambda: not thread.is_alive())
    for pause_s in (0.04, 0.045, 0.05, 0.055, 0.06) * 3:
        await asyncio.sleep(pause_s)
        assert await runner.run_thread(slots, lambda: 1, 5.0) == 1


BOTH = pytest.mark.parametrize("kind", [EventfdWaker, CallbackWaker])


@BOTH
async def test_a_future_is_woken_from_another_thread(kind: type) -> None:
    box = kind(asyncio.get_running_loop())
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    threading.Thread(target=box.wake, args=(future,)).start()
    await asyncio.wait_for(future, 5)


@BOTH
async def test_a_thousand_messages_from_ten_threads_all_arrive(kind: type) -> None:
    loop = asyncio.get_running_loop()
    box = kind(loop)
    futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(1000)]

    def put(part: list[asyncio.Future[None]]) -> None:
        for future in part:
            assert box.wake(future)

    for start in range(10):
        threading.Thread(target=put, args=(futures[start::10],)).start()
    await asyncio.wait_for(asyncio.gather(*futures), 10)


@BOTH
async def test_a_future_that_no_caller_waits_for_any_more_is_left_alone(kind: type) -> None:
    loop = asyncio.get_running_loop()
    box = kind(loop)
    gone: asyncio.Future[None] = loop.create_future()
    gone.cancel()
    awaited: asyncio.Future[None] = loop.create_future()
    box.wake(gone)
    box.wake(awaited)
    await asyncio.wait_for(awaited, 5)
    assert gone.cancelled()


@BOTH
def test_a_closed_loop_cannot_be_woken(kind: type) -> None:
    loop = asyncio.new_event_loop()
    box = kind(loop)
    future: asyncio.Future[None] = loop.create_future()
    loop.close()
    assert box.wake(future) is False


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="this system has no event counters")
def test_the_descriptor_ends_with_its_loop() -> None:
    loop = asyncio.new_event_loop()
    box = EventfdWaker(loop)
    counter, gone = box._counter, weakref.ref(loop)
    loop.close()
    del loop, box
    gc.collect()
    assert gone() is None
    with pytest.raises(OSError):
        os.eventfd_read(counter)


class NoReaders(asyncio.SelectorEventLoop):
    def add_reader(self, *_: object) -> None:
        raise NotImplementedError


def test_a_loop_that_watches_no_descriptors_is_told_in_the_common_way() -> None:
    async def wake() -> None:
        loop = asyncio.get_running_loop()
        box = waker_of(loop)
        assert isinstance(box, CallbackWaker)
        future: asyncio.Future[None] = loop.create_future()
        threading.Thread(target=box.wake, args=(future,)).start()
        await asyncio.wait_for(future, 5)

    # The loop makes a reader of its own before it can be told that there are none.
    loop = asyncio.SelectorEventLoop()
    loop.__class__ = NoReaders
    try:
        loop.run_until_complete(wake())
    finally:
        loop.__class__ = asyncio.SelectorEventLoop
        loop.close()


def test_a_loop_that_has_ended_is_not_kept_by_its_waker():
    async def use() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.get_running_loop()
        waker_of(loop)
        return weakref.ref(loop)

    ended = [asyncio.run(use()) for _ in range(5)]
    gc.collect()
    assert [ref() for ref in ended] == [None] * 5


def test_the_descriptors_of_loops_that_have_ended_do_not_wait_for_the_garbage_collector():
    async def use() -> None:
        waker_of(asyncio.get_running_loop())

    asyncio.run(use())
    gc.disable()
    try:
        before = len(os.listdir("/dev/fd"))
        for _ in range(10):
            asyncio.run(use())
        assert len(os.listdir("/dev/fd")) <= before
    finally:
        gc.enable()


FORKED = """
import asyncio, os, sys
from toolcrib.dispatch.event_loop import waker_of

loop = asyncio.new_event_loop()
counter = waker_of(loop)._counter
if (child := os.fork()) == 0:
    os.close(counter)
    assert os.open(os.devnull, os.O_RDONLY) == counter
    del loop
    os.fstat(counter)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="there are no event counters here")
def test_a_forked_process_closes_no_descriptor_of_its_own_by_mistake() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
