"""A channel that gives its call's place free while a person is asked, and takes one again after.

Knows channels and slots; refuses to know what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.context import Channel
from toolcrib.errors import CannotAskError
from toolcrib.policies.quota import Slot
from toolcrib.question import Question, Reply


class Resting:
    """Another channel, with a slot that rests while it asks."""

    __slots__ = ("_channel", "_slot")

    def __init__(self, channel: Channel, slot: Slot) -> None:
        self._channel = channel
        self._slot = slot

    @property
    def resumes(self) -> str | None:
        return self._channel.resumes

    @property
    def is_prompted(self) -> bool:
        return self._channel.is_prompted

    @property
    def is_gone(self) -> bool:
        return self._channel.is_gone

    @property
    def request(self) -> str | int | None:
        return self._channel.request

    @property
    def trace(self) -> str | None:
        return self._channel.trace

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._channel.progress(progress, total, message)

    def log(self, level: str, data: Any) -> None:
        self._channel.log(level, data)

    def close_stream(self) -> None:
        self._channel.close_stream()

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        self._slot.pause()
        try:
            replies = await self._channel.ask(questions)
        except CannotAskError:
            await self._slot.resume()  # the tool may go on without an answer; after all else it does not
            raise
        await self._slot.resume()
        return replies
