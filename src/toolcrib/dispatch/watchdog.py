"""Report tools that block an event loop, while they block it.

Code that enters a tool on an event loop sets a marker: which tool is on this thread, and a number that
changes with every step. One daemon thread per process checks the markers ten times a second; a step that
takes longer than a quarter of a second is reported once. The marker is all that calls pay for: it reads no
clock.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import weakref

from toolcrib.dispatch.concurrency import ToolSlots

logger = logging.getLogger("toolcrib")

SAMPLE_S = 0.1
BLOCKED_S = 0.25
REST_AFTER_S = 5.0


class Marker:
    """The tool that runs on one thread now. Written by that thread alone, read by the watchdog."""

    __slots__ = ("__weakref__", "slots", "step", "thread_id", "watched")

    def __init__(self) -> None:
        self.thread_id = threading.get_ident()
        self.slots: ToolSlots | None = None
        self.step = 0
        self.watched = False

    def enter(self, slots: ToolSlots) -> ToolSlots | None:
        """Mark a tool as running. Returns what `leave` must be given."""
        before = self.slots
        self.slots = slots
        if before is None:
            # Only the outermost step has a number: a tool that calls others in a row blocks the loop too.
            self.step += 1
        if not self.watched:
            WATCHDOG.watch(self)
        return before

    def leave(self, before: ToolSlots | None) -> None:
        self.slots = before


class _Here(threading.local):
    marker: Marker

    def __init__(self) -> None:
        self.marker = Marker()


HERE = _Here()
"""`HERE.marker` is the marker of the current thread."""


class _Observation:
    """One step as the watchdog has seen it so far."""

    __slots__ = ("is_reported", "since", "slots_seen", "step")

    def __init__(self, step: int, since: float) -> None:
        self.step = step
        self.since = since
        self.slots_seen: list[ToolSlots] = []
        self.is_reported = False


_Observations = weakref.WeakKeyDictionary[Marker, _Observation]


class Watchdog:
    """The thread that checks the markers. It starts with the first step and ends when none was seen for
    a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._markers: weakref.WeakSet[Marker] = weakref.WeakSet()
        self.is_running = False
        if hasattr(os, "register_at_fork"):
            # A forked child inherits the flags but not the thread, and perhaps a lock that is held.
            os.register_at_fork(after_in_child=self._reset)

    def watch(self, marker: Marker) -> None:
        with self._lock:
            self._markers.add(marker)
            marker.watched = True
            if self.is_running:
                return
            self.is_running = True
        try:
            threading.Thread(target=self._run, name="toolcrib-watchdog", daemon=True).start()
        except RuntimeError:
            # No thread available: the call goes on unwatched, and the next step tries again.
            with self._lock:
                self.is_running = False
                marker.watched = False

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self.is_running = False
        for marker in list(self._markers):
            marker.watched = False

    def _run(self) -> None:
        observations: _Observations = weakref.WeakKeyDictionary()
        active_at = time.monotonic()
        while True:
            time.sleep(SAMPLE_S)
            now = time.monotonic()
            with self._lock:
                markers = list(self._markers)
            for marker in markers:
                if self._check(marker, observations, now):
                    active_at = now
            del markers
            if now - active_at > REST_AFTER_S and self._rest(observations):
                return

    def _check(self, marker: Marker, observations: _Observations, now: float) -> bool:
        """Return whether anything runs on this thread."""
        slots, step = marker.slots, marker.step
        observation = observations.get(marker)
        if observation is None or observation.step != step:
            observation = observations[marker] = _Observation(step, now)
            if slots is not None:
                observation.slots_seen.append(slots)
            return True
        if slots is None:
            return False
        if not observation.is_reported:
            observation.slots_seen.append(slots)
            if now - observation.since >= BLOCKED_S:
                observation.is_reported = True
                # A tool may call others: the one that was seen most often is reported.
                culprit = max(set(observation.slots_seen), key=observation.slots_seen.count)
                _report(culprit, now - observation.since, _location(marker.thread_id))
                observation.slots_seen.clear()
        return True

    def _rest(self, observations: _Observations) -> bool:
        """End the thread, unless a step begins at this moment."""
        with self._lock:
            markers = list(self._markers)
            for marker in markers:
                marker.watched = False
            for marker in markers:
                observation = observations.get(marker)
                if marker.slots is not None or observation is None or observation.step != marker.step:
                    for other in markers:
                        other.watched = True
                    return False
            self._markers.clear()
            self.is_running = False
            return True


def _location(thread_id: int) -> str:
    """Return the file and line that a thread executes."""
    frame = sys._current_frames().get(thread_id)
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _report(slots: ToolSlots, blocked_s: float, location: str) -> None:
    with slots.lock:
        if not slots.blocked.take(time.monotonic()):
            return
        more = slots.blocked.take_missed()
    try:
        logger.warning(
            "tool '%s' blocks the event loop (for %.1f s, at %s); run it on a thread: "
            'def instead of async def, or run="thread"%s',
            slots.name,
            blocked_s,
            location,
            more,
            extra={"tool_name": slots.name, "blocked_s": blocked_s, "blocked_at": location},
        )
    except Exception:  # nosec B110  # a log handler that raises must not end the watchdog
        pass


WATCHDOG = Watchdog()
