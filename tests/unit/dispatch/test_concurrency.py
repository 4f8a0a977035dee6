"""Counting the running calls of one tool."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolcrib.dispatch.concurrency import Lane, Stage, Ticket
from toolcrib.errors import ToolBusyError


def test_a_lane_shows_its_counts():
    lane = Lane("narrow", max_threads=1)
    first, second = Ticket(), Ticket()
    assert lane.admit(first)
    assert not lane.admit(second)
    assert lane.abandon(first) is Stage.RUNNING
    assert repr(lane) == "<Lane 'narrow': 1 running, 1 waiting, 1 abandoned>"


def test_a_slot_is_handed_on_without_being_free_in_between():
    lane = Lane("narrow", max_threads=1)
    first, second, third = Ticket(), Ticket(), Ticket()
    lane.admit(first)
    lane.admit(second)
    assert lane.finish(first) == (True, second)
    assert not lane.admit(third)
    assert lane.finish(second) == (True, third)
    assert lane.finish(third) == (True, None)
    assert (lane.running, lane.waiting) == (0, 0)


def test_giving_up_what_has_ended_changes_nothing():
    lane = Lane("narrow", max_threads=1)
    ticket = Ticket()
    lane.admit(ticket)
    lane.finish(ticket)
    assert lane.abandon(ticket) is Stage.ENDED
    assert (lane.running, lane.abandoned) == (0, 0)


def test_calls_still_queue_behind_a_lane_of_which_only_a_part_is_abandoned():
    lane = Lane("narrow", max_threads=2)
    first, second = Ticket(), Ticket()
    lane.admit(first)
    lane.admit(second)
    lane.abandon(first)
    assert not lane.admit(Ticket())
    lane.abandon(second)
    with pytest.raises(ToolBusyError):
        lane.admit(Ticket())


def test_importing_the_package_loads_none_of_what_processes_need():
    program = """
import sys
import toolcrib.dispatch.runners
late = {"toolcrib.dispatch.processes", "toolcrib.dispatch.process_worker", "multiprocessing"}
print(sorted(late & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"
