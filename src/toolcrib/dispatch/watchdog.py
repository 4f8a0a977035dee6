"""Names the tool that blocks an event loop, while it blocks it.

Code that enters a tool on a loop leaves a marker: which lane is on this thread, and a number that changes
with every step. One daemon thread per process looks at the markers ten times a second; a step that is
still on after a quarter of a second is reported once. The marker is all the hot path pays for: there is no
clock in it. Knows threads and lanes; refuses to know loops, tasks and calls.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import weakref

from toolcrib.dispatch.concurrency import Lane

logger = logging.getLogger("toolcrib")

SAMPLE_S = 0.1
BLOCKED_S = 0.25
REST_AFTER_S = 5.0


class Marker:
    """Which tool is on one thread now. Written by that thread alone, read by the watchdog."""

    __slots__ = ("__weakref__", "lane", "step", "thread_id", "watched")

    def __init__(self) -> None:
        self.thread_id = threading.get_ident()
        self.lane: Lane | None = None
        self.step = 0
        self.watched = False

    def enter(self, lane: Lane) -> Lane | None:
        """Say that `lane` is on. Returns what `leave` must be given back."""
        before = self.lane
        self.lane = lane
        if before is None:
            # Only the outermost step has a number: a tool that calls others in a row blocks the loop too.
            self.step += 1
        if not self.watched:
            WATCHDOG.watch(self)
        return before

    def leave(self, before: Lane | None) -> None:
        self.lane = before


class _Here(threading.local):
    marker: Marker

    def __init__(self) -> None:
        self.marker = Marker()


HERE = _Here()
"""`HERE.marker` is the marker of the thread that asks."""


class _Sighting:
    """What the watchdog remembers of one marker between two looks."""

    __slots__ = ("is_told", "lanes", "since", "step")

    def __init__(self, step: int, since: float) -> None:
        self.step = step
        self.since = since
        self.lanes: list[Lane] = []
        self.is_told = False


class Watchdog:
    """The thread that looks. It starts with the first step and ends when no step was seen for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._markers: weakref.WeakSet[Marker] = weakref.WeakSet()
        self._is_running = False
        if hasattr(os, "register_at_fork"):
            # A forked child inherits the flags but not the thread, and perhaps the lock in mid-air.
            os.register_at_fork(after_in_child=self._forget)

    def watch(self, marker: Marker) -> None:
        with self._lock:
            self._markers.add(marker)
            marker.watched = True
            if self._is_running:
                return
            self._is_running = True
        try:
            threading.Thread(target=self._look, name="toolcrib-watchdog", daemon=True).start()
        except RuntimeError:
            # No thread to be had: calls matter more than the watch over them. The next step tries again.
            with self._lock:
                self._is_running = False
                marker.watched = False

    @property
    def is_running(self) -> bool:
        return self._is_running

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._is_running = False
        for marker in list(self._markers):
            marker.watched = False

    def _look(self) -> None:
        sightings: weakref.WeakKeyDictionary[Marker, _Sighting] = weakref.WeakKeyDictionary()
        active_at = time.monotonic()
        while True:
            time.sleep(SAMPLE_S)
            now = time.monotonic()
            for marker in self._list():
                if self._look_at(marker, sightings, now):
                    active_at = now
            if now - active_at > REST_AFTER_S and self._rest(sightings):
                return

    def _list(self) -> list[Marker]:
        with self._lock:
            return list(self._markers)

    def _look_at(
        self, marker: Marker, sightings: weakref.WeakKeyDictionary[Marker, _Sighting], now: float
    ) -> bool:
        """Returns whether anything moved or stands on this thread."""
        lane, step = marker.lane, marker.step
        sighting = sightings.get(marker)
        if sighting is None or sighting.step != step:
            sighting = sightings[marker] = _Sighting(step, now)
            if lane is not None:
                sighting.lanes.append(lane)
            return True
        if lane is None:
            return False
        if not sighting.is_told:
            sighting.lanes.append(lane)
            if now - sighting.since >= BLOCKED_S:
                sighting.is_told = True
                # A tool may call others: the one that was seen most is the one to name.
                culprit = max(set(sighting.lanes), key=sighting.lanes.count)
                _tell(culprit, now - sighting.since, _find_place(marker.thread_id))
                sighting.lanes.clear()
        return True

    def _rest(self, sightings: weakref.WeakKeyDictionary[Marker, _Sighting]) -> bool:
        """End the watch, unless a step begins in this very moment: whoever is second sees the first."""
        with self._lock:
            markers = list(self._markers)
            for marker in markers:
                marker.watched = False
            for marker in markers:
                sighting = sightings.get(marker)
                if marker.lane is not None or sighting is None or sighting.step != marker.step:
                    for other in markers:
                        other.watched = True
                    return False
            self._markers.clear()
            self._is_running = False
            return True


def _find_place(thread_id: int) -> str:
    """File and line where the thread stands, for a reader who has to find the blocking call."""
    frame = sys._current_frames().get(thread_id)
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _tell(lane: Lane, blocked_s: float, place: str) -> None:
    with lane.lock:
        if not lane.blocked.take(time.monotonic()):
            return
        more = lane.blocked.take_missed()
    try:
        logger.warning(
            "tool '%s' blocks the event loop (for %.1f s, at %s); run it on a thread: "
            'def instead of async def, or run="thread"%s',
            lane.name,
            blocked_s,
            place,
            more,
            extra={"tool_name": lane.name, "blocked_s": blocked_s, "blocked_at": place},
        )
    except Exception:  # nosec B110  # a handler that raises must not end the watch
        pass


WATCHDOG = Watchdog()
