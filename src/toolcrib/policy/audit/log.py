"""The audit log of a server: what the guard of calls asks of it.

Knows what may be said of arguments and who waits for what; refuses to know calls, rules and results.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from toolcrib.config.settings import Audit
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.key import Secret
from toolcrib.policy.audit.record import Redaction, encode, plain
from toolcrib.policy.audit.store import BrokenError, find_other, is_lines, name_unusable
from toolcrib.policy.audit.writer import Desk, Item, Scribe, Writer
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

OPEN_S = 5.0
CLOSE_S = 10.0
FRESH_S = 1.0
"""What was written so long ago says that the next record can be written, too."""


class AuditLog:
    """One for each server. May be used from several loops, and opened again when it was closed."""

    def __init__(
        self,
        options: Audit,
        *,
        server: str,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.keeps_values = bool(options.values)
        self._options = options
        self._wall = wall
        self._redaction = Redaction(options.values, options.redact)
        self._scribe = Scribe(options, server=server, wall=wall, now=now)
        self._writer = Writer(self._scribe)
        self._desk: Desk | None = None
        self._desks: dict[asyncio.AbstractEventLoop, Desk] = {}
        self._lock = threading.Lock()
        self._secret: Secret | None = None

    # --- living ---

    async def open(self) -> None:
        """Look at what is there, put right what a crash has left. Raises ConfigurationError for damage that
        no crash does, and for a file that cannot be used. A disk that is full now keeps nobody from starting,
        nor does a file that somebody else has locked: records are then written as soon as it is not."""
        opened = asyncio.wrap_future(self._writer.order("open"))
        await asyncio.wait([opened], timeout=OPEN_S)
        if not opened.done():
            self._writer.stall([])
            opened.add_done_callback(_look_at)
            return
        try:
            opened.result()
        except BrokenError as error:
            raise self._broken(error) from None
        except OSError as error:
            raise name_unusable(error, self._options) from None

    def _broken(self, error: BrokenError) -> ConfigurationError:
        path = Path(self._options.file)
        if not is_lines(path) and (other := find_other(path)) is not None:
            return other
        file = str(path)
        hint = (
            f"somebody or something has changed it: look with `toolcrib audit verify --file {file}`; "
            "accept_gap = true under [audit] goes on behind the damage, and says so on the record"
        )
        words = f"the audit log is damaged: {error}"
        return ConfigurationError(words, file=file, key="audit.file", hint=hint)

    async def close(self) -> None:
        """Write what is waiting, the last word and a checkpoint. A store that does not come back is left."""
        desk = self._desks.get(asyncio.get_running_loop())
        if desk is not None:
            desk.hand_over()  # those of other loops are theirs to touch
        if not self._writer.is_running:
            return
        done = asyncio.wrap_future(self._writer.order("close"))
        await asyncio.wait([done], timeout=CLOSE_S)
        if not done.done():
            logger.error(
                "audit: %d records are not written, and are lost unless %s comes back before this ends",
                len(self._writer),
                self._options.file,
            )

    # --- of arguments ---

    def digest(self, arguments: Mapping[str, Any] | None) -> tuple[str, int]:
        """A digest that only the holder of the key can make again, and how many bytes of JSON they are."""
        try:
            data = codec.canonical(arguments or {})
        except Exception:  # not JSON, or not JSON that ends
            data = codec.canonical(plain(arguments))
        return (self._secret or self._find_secret()).digest(data), len(data)

    def _find_secret(self) -> Secret:
        try:
            self._secret = self._scribe.find_secret()
        except (OSError, ConfigurationError):
            return Secret(os.urandom(32))  # opening says what is wrong; this digest is nobody's then
        return self._secret

    def values_of(self, arguments: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The values that may be recorded, without those that look secret. None: there are none."""
        return self._redaction.pick(arguments) if arguments else None

    # --- of calls ---

    def commit(
        self, entry: dict[str, Any], kind: type[asyncio.Future[bool]] = asyncio.Future
    ) -> Awaitable[bool]:
        """Have an entry recorded, and know whether it is: False where that takes too long or fails.

        `kind` is what is given to be waited for."""
        loop = asyncio.get_running_loop()
        future = kind(loop=loop)
        desk = self._desk
        if desk is None or desk.loop is not loop:
            desk = self._desk_of(loop)
        item = Item(encode(self._wall(), entry), desk, future)
        if self._writer.is_failing:
            future.set_result(False)
            self._writer.put(item, are_late=True)
        else:
            desk.take(item)
        return future

    async def prove(self) -> bool:
        """Whether records can be written now. Where none was for a while it is tried, which is one more."""
        if self._writer.is_failing or time.monotonic() - self._writer.written_at < FRESH_S:
            return not self._writer.is_failing
        return await self.commit({"kind": "probe"})

    def note(self, entry: dict[str, Any]) -> None:
        """Have an entry recorded that nobody waits for."""
        self._writer.put(Item(encode(self._wall(), entry), None, None))

    def _desk_of(self, loop: asyncio.AbstractEventLoop) -> Desk:
        with self._lock:
            desk = self._desks.get(loop)
            if desk is None:
                self._desks = {each: its for each, its in self._desks.items() if not each.is_closed()}
                desk = self._desks[loop] = Desk(loop, self._options.wait_s, self._writer)
            self._desk = desk
            return desk

    # --- in view ---

    @property
    def is_failing(self) -> bool:
        """Whether records cannot be written now."""
        return self._writer.is_failing

    @property
    def gaps(self) -> int:
        """Records that replies did not wait for, and those that were lost."""
        return self._scribe.gap.late + self._scribe.gap.lost

    @property
    def lost(self) -> int:
        """Those of the gaps that will never be written."""
        return self._scribe.gap.lost

    @property
    def records(self) -> int:
        """Records that this process has written."""
        return self._scribe.records

    @property
    def waiting(self) -> int:
        """Records that are not yet written."""
        return len(self._writer)


def _look_at(opened: asyncio.Future[None]) -> None:
    """Whatever came of it: the next record to be written finds the same, and says so."""
    if not opened.cancelled():
        opened.exception()
