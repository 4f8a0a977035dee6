"""Counting the running calls of one tool."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolcrib.dispatch.concurrency import Stage, Ticket, ToolSlots
from toolcrib.errors import ToolBusyError


def test_a_lane_shows_its_counts():
    slots = ToolSlots("narrow", max_threads=1)
    first, second = Ticket(), Ticket()
    assert slots.admit(first)
    assert not slots.admit(second)
    assert slots.abandon(first) is Stage.RUNNING
    assert repr(slots) == "<ToolSlots 'narrow': 1 running, 1 waiting, 1 abandoned>"


def test_a_slot_is_handed_on_without_being_free_in_between():
    slots = ToolSlots("narrow", max_threads=1)
    first, second, third = Ticket(), Ticket(), Ticket()
    slots.admit(first)
    slots.admit(second)
    assert slots.finish(first) == (True, second)
    assert not slots.admit(third)
    assert slots.finish(second) == (True, third)
    assert slots.finish(third) == (True, None)
    assert (slots.running, slots.waiting) == (0, 0)


def test_giving_up_what_has_ended_changes_nothing():
    slots = ToolSlots("narrow", max_threads=1)
    ticket = Ticket()
    slots.admit(ticket)
    slots.finish(ticket)
    assert slots.abandon(ticket) is Stage.ENDED
    assert (slots.running, slots.abandoned) == (0, 0)


def test_calls_still_queue_behind_a_lane_of_which_only_a_part_is_abandoned():
    slots = ToolSlots("narrow", max_threads=2)
    first, second = Ticket(), Ticket()
    slots.admit(first)
    slots.admit(second)
    slots.abandon(first)
    assert not slots.admit(Ticket())
    slots.abandon(second)
    with pytest.raises(ToolBusyError):
        slots.admit(Ticket())


def test_importing_the_package_loads_none_of_what_processes_need():
    program = """
import sys
import toolcrib.dispatch.runners
late = {"toolcrib.dispatch.processes", "toolcrib.dispatch.process_worker", "multiprocessing"}
print(sorted(late & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"
