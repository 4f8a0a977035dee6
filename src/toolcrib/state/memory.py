"""State in the memory of one process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("toolcrib")


class MemoryBus:
    """ChangeBus for one process. Notices are delivered on the thread that publishes them."""

    def __init__(self, process: str) -> None:
        self.process = process
        self._subscribers: dict[str, list[Callable[[bytes | None], None]]] = {}
        self._lock = threading.Lock()

    def publish(self, topic: str, data: bytes = b"") -> None:
        self.deliver(topic, data)

    def deliver(self, topic: str, data: bytes | None) -> bool:
        """Call the subscribers of a topic in this process. Return whether there are any."""
        subscribers = self._subscribers.get(topic, ())
        for changed in tuple(subscribers):
            try:
                changed(data)
            except Exception:
                logger.exception("a subscriber of '%s' failed", topic)
        return bool(subscribers)

    @property
    def topics(self) -> list[str]:
        return list(self._subscribers)

    def subscribe(self, topic: str, changed: Callable[[bytes | None], None]) -> Callable[[], None]:
        with self._lock:
            self._subscribers[topic] = [*self._subscribers.get(topic, ()), changed]

        def end() -> None:
            with self._lock:
                rest = [each for each in self._subscribers.get(topic, ()) if each is not changed]
                if rest:
                    self._subscribers[topic] = rest
                else:
                    self._subscribers.pop(topic, None)

        return end

    async def send(self, process: str, data: bytes, timeout_s: float = 0.1) -> bool:  # noqa: ARG002
        return process == self.process and self.deliver(process, data)
