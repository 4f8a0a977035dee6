"""A Redis server as one process uses it: a pipe for each event loop, and a thread for the rest.

The thread has an event loop of its own. It renews what this process holds and listens to notices, also while
a tool blocks the event loop that serves calls.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from toolcrib.errors import ConfigurationError
from toolcrib.state.base import StateUnavailable
from toolcrib.state.breaker import Breaker
from toolcrib.state.redis.pipe import Pipe, parse_address

OPEN_S = 5.0
"""How long a replica that starts waits for Redis."""
PING_S = 1.0
"""How often the thread sees whether Redis is there, and how long it waits for that."""
RENEW_S = 3.0
CLOSE_S = 2.0


class Redis:
    """`prefix` begins all keys and channels, `process` names this process."""

    def __init__(self, url: str, name: str, process: str, *, timeout_s: float = 0.05) -> None:
        self.address = parse_address(url)
        self.prefix = f"{name}:"
        self.process = process
        self.breaker = Breaker("Redis")
        self.on_renew: list[Callable[[Pipe, bool], None]] = []
        """Called in the thread every three seconds, and with True for the last time when it ends."""
        self.pushed: Callable[[list[Any]], None] = lambda _: None
        self.connected: Callable[[Pipe], None] = lambda _: None
        self._timeout_s = timeout_s
        self._pipes: dict[asyncio.AbstractEventLoop, Pipe] = {}
        self._lock = threading.Lock()
        self._background: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end = asyncio.Event()
        self._listening: Pipe | None = None

    async def open(self) -> None:
        """Connect. Raise StateUnavailable, or ConfigurationError if Redis may forget counts."""
        pipe = Pipe(self.address, self.breaker, timeout_s=OPEN_S)
        try:
            found = await pipe.ask("CONFIG", "GET", "maxmemory-policy")
        except StateUnavailable as error:
            if "NOPERM" not in str(error) and "unknown command" not in str(error):
                raise
            return  # hosted servers do not tell
        finally:
            pipe.close()
            await asyncio.sleep(0)  # the event loop closes sockets in its next turn
        policy = found.get(b"maxmemory-policy", b"noeviction").decode()
        if policy != "noeviction":
            hint = "CONFIG SET maxmemory-policy noeviction"
            raise ConfigurationError(
                f"Redis evicts counts: its policy is {policy}", key="fleet.redis", hint=hint
            )

    def pipe(self) -> Pipe:
        """Return the pipe of the running event loop."""
        loop = asyncio.get_running_loop()
        pipe = self._pipes.get(loop)
        if pipe is None:
            with self._lock:
                self._pipes = {each: pipe for each, pipe in self._pipes.items() if not each.is_closed()}
                pipe = self._pipes[loop] = Pipe(self.address, self.breaker, timeout_s=self._timeout_s)
            self.start()
        return pipe

    def probe(self) -> None:
        """Try a server that is not available, if that is due, and let nobody wait for it."""
        if self.breaker.is_probe_due():
            self.pipe().probe()

    def post(self, act: Callable[[Pipe], None]) -> None:
        """Call a function with the pipe of the thread, in the thread. Without one, nothing needs it."""
        if self._background is not None:
            with suppress(RuntimeError):  # it has ended
                self._background.call_soon_threadsafe(lambda: act(self._listen()))

    async def close(self) -> None:
        """Give up what this process holds, and end the thread."""
        with self._lock:
            thread, loop, self._thread, self._background = self._thread, self._background, None, None
        if thread is not None and loop is not None:
            loop.call_soon_threadsafe(self._end.set)
            await asyncio.to_thread(thread.join, CLOSE_S)
        for each, pipe in self._pipes.items():
            if each is asyncio.get_running_loop():
                pipe.close()
            elif not each.is_closed():
                each.call_soon_threadsafe(pipe.close)
        self._pipes = {}
        await asyncio.sleep(0)  # the event loop closes sockets in its next turn

    # --- the thread ---

    def start(self) -> None:
        """Start the thread, if that was not done."""
        with self._lock:
            if self._thread is None:
                self._background, self._end, self._listening = asyncio.new_event_loop(), asyncio.Event(), None
                self._thread = threading.Thread(
                    target=self._work, args=[self._background], name="toolcrib-redis", daemon=True
                )
                self._thread.start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_until_complete(self._serve())
        loop.close()

    def _listen(self) -> Pipe:
        if self._listening is None:
            self._listening = Pipe(
                self.address,
                self.breaker,
                timeout_s=PING_S,
                pushed=lambda notice: self.pushed(notice),
                connected=lambda pipe: self.connected(pipe),
            )
        return self._listening

    async def _serve(self) -> None:
        pipe, renew_at = self._listen(), 0.0
        while not self._end.is_set():
            now = time.monotonic()
            if now >= renew_at:
                renew_at = now + RENEW_S
                self._renew(pipe, False)
            pipe.probe()
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_S):
                    await self._end.wait()
        self._renew(pipe, True)
        with suppress(StateUnavailable):
            await pipe.ask("PING")
        pipe.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:  # such as one that restores budgets
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0)

    def _renew(self, pipe: Pipe, is_last: bool) -> None:
        for renew in self.on_renew:
            renew(pipe, is_last)
