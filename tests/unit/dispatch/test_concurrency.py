"""Counting the running calls of one tool."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolcrib.dispatch.runners import Job, Stage, ToolSlots
from toolcrib.errors import ToolBusyError


async def test_a_slot_is_handed_on_without_being_free_in_between():
    slots = ToolSlots("narrow", max_threads=1)
    first, second, third = Job(slots, int), Job(slots, int), Job(slots, int)
    slots.admit(first)
    slots.admit(second)
    assert slots.finish(first) == (True, second)
    assert not slots.admit(third)
    assert slots.finish(second) == (True, third)
    assert slots.finish(third) == (True, None)
    assert (slots.running, slots.waiting) == (0, 0)


async def test_giving_up_what_has_ended_changes_nothing():
    slots = ToolSlots("narrow", max_threads=1)
    job = Job(slots, int)
    slots.admit(job)
    slots.finish(job)
    assert slots.abandon(job) is Stage.ENDED
    assert (slots.running, slots.abandoned) == (0, 0)


async def test_calls_still_queue_behind_slots_of_which_only_a_part_is_abandoned():
    slots = ToolSlots("narrow", max_threads=2)
    first, second = Job(slots, int), Job(slots, int)
    slots.admit(first)
    slots.admit(second)
    slots.abandon(first)
    assert not slots.admit(Job(slots, int))
    slots.abandon(second)
    with pytest.raises(ToolBusyError):
        slots.admit(Job(slots, int))


def test_importing_the_package_loads_none_of_what_processes_need():
    program = """
import sys
import toolcrib.dispatch.runners
late = {"toolcrib.dispatch.processes", "toolcrib.dispatch.process_worker", "multiprocessing"}
print(sorted(late & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"
