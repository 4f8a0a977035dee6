"""Notices between replicas: pub/sub of Redis, a channel for each topic.

A notice begins with its sender and a number. Nothing is kept: after a connection was lost, subscribers are
told to read everything again. Notices of others are delivered on the thread of the connection.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from toolcrib.state.memory import MemoryBus
from toolcrib.state.redis.pipe import Pipe
from toolcrib.state.redis.server import Redis

_ACK = b"ack"


class RedisBus:
    """ChangeBus over Redis. Subscribers of a topic that is the name of this process get what other processes
    send to it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._local = MemoryBus(redis.process)
        self._channels: set[str] = set()
        """What is subscribed to, in the thread."""
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Callable[[bool], object]] = {}
        """Who waits for the acknowledgement of a notice, by its number."""
        self._was_connected = False
        redis.pushed = self._receive
        redis.connected = self._connect

    def publish(self, topic: str, data: bytes = b"") -> None:
        self._local.deliver(topic, data)
        self._post(topic, b"0", data)

    def subscribe(self, topic: str, changed: Callable[[bytes | None], None]) -> Callable[[], None]:
        end = self._local.subscribe(topic, changed)
        self._redis.start()
        self._redis.post(lambda pipe: self._listen(pipe, topic))
        return end

    async def send(self, process: str, data: bytes, timeout_s: float = 0.1) -> bool:
        if process == self._redis.process:
            return await self._local.send(process, data)
        loop, answer = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        number = next(self._numbers)

        def settle(is_received: bool) -> None:
            def end() -> None:
                if not answer.done():
                    answer.set_result(is_received)

            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end)

        self._waiting[number] = settle
        self._redis.start()
        self._redis.post(lambda pipe: self._listen(pipe, self._redis.process))
        self._post(process, b"%d" % number, data, lambda receivers: None if receivers else settle(False))
        try:
            async with asyncio.timeout(timeout_s):
                return bool(await answer)
        except TimeoutError:
            return False
        finally:
            del self._waiting[number]

    def _post(
        self, topic: str, number: bytes, data: bytes, published: Callable[[Any], object] = lambda _: None
    ) -> None:
        notice = b"%s %s %s" % (self._redis.process.encode(), number, data)
        channel = self._channel(topic)

        def answered(reply: Any) -> None:
            published(reply if isinstance(reply, int) else 0)

        self._redis.start()
        self._redis.post(lambda pipe: pipe.send(("PUBLISH", channel, notice), answered))

    def _channel(self, topic: str) -> str:
        return f"{self._redis.prefix}notice:{topic}"

    # --- in the thread ---

    def _listen(self, pipe: Pipe, topic: str) -> None:
        if topic not in self._channels:
            self._channels.add(topic)
            pipe.send(("SUBSCRIBE", self._channel(topic)), pipe.note)

    def _connect(self, pipe: Pipe) -> None:
        """Subscribe again after a connection was lost, during which notices were missed."""
        if self._was_connected:
            for topic in self._channels:
                pipe.send(("SUBSCRIBE", self._channel(topic)), pipe.note)
            for topic in self._local.topics:
                self._local.deliver(topic, None)
        self._was_connected = True

    def _receive(self, notice: list[Any]) -> None:
        topic = notice[1].decode().removeprefix(f"{self._redis.prefix}notice:")
        sender, number, data = notice[2].split(b" ", 2)
        if sender == self._redis.process.encode():
            return
        if number == _ACK:
            if (settle := self._waiting.get(int(data))) is not None:
                settle(True)
        elif self._local.deliver(topic, data) and topic == self._redis.process and number != b"0":
            self._post(sender.decode(), _ACK, number)
