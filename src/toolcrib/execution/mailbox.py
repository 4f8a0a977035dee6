"""Tells an event loop, from another thread, that something it waits for has happened.

`call_soon_threadsafe` costs the loop a handle, two reads of its own pipe and an exception. Where the system
has event counters, one per loop does the same with one write and one read, and several messages share them.
Knows loops and futures; refuses to know what is waited for.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from typing import Protocol


class Mailbox(Protocol):
    def put(self, future: asyncio.Future[None]) -> bool:
        """Wake whoever waits for `future`, from any thread. False: its loop is closed, nobody waits."""
        ...


class _Counter:
    """One event counter, watched by its loop; it lives as long as the loop does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._futures: deque[asyncio.Future[None]] = deque()
        self._counter = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._loop = weakref.ref(loop)  # or else the table of mailboxes would keep every loop there ever was
        try:
            loop.add_reader(self._counter, self._deliver)
        except BaseException:
            os.close(self._counter)
            raise
        # Not earlier: a thread may write as long as somebody holds the loop.
        weakref.finalize(loop, os.close, self._counter)

    def put(self, future: asyncio.Future[None]) -> bool:
        loop = self._loop()  # held while this writes, so that the counter is not closed meanwhile
        if loop is None or loop.is_closed():
            return False
        self._futures.append(future)
        os.eventfd_write(self._counter, 1)
        return True

    def _deliver(self) -> None:
        try:
            os.eventfd_read(self._counter)
        except BlockingIOError:
            pass  # another round has emptied it already
        while self._futures:
            ring(self._futures.popleft())


class _Calls:
    """The way that every loop knows."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)

    def put(self, future: asyncio.Future[None]) -> bool:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(ring, future)
        except RuntimeError:
            return False
        return loop is not None


class _Here(threading.local):
    """The mailbox of the loop that ran last on this thread: nearly always the one that is asked for."""

    loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
    mailbox: Mailbox | None = None


_here = _Here()
_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = weakref.WeakKeyDictionary()


def mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    """The mailbox of the running loop."""
    if _here.loop is not None and _here.mailbox is not None and _here.loop() is loop:
        return _here.mailbox
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes[loop] = _make(loop)
    _here.loop, _here.mailbox = weakref.ref(loop), mailbox
    return mailbox


def _make(loop: asyncio.AbstractEventLoop) -> Mailbox:
    if hasattr(os, "eventfd"):
        try:
            return _Counter(loop)
        except (NotImplementedError, OSError):
            pass  # a loop that watches no descriptors, or none left to be had
    return _Calls(loop)


def ring(future: asyncio.Future[None]) -> None:
    """Let the one who waits for `future` go on, unless somebody has already."""
    if not future.done():
        future.set_result(None)
