"""One call on its way through a policy, and what is said of it: on the record, in figures, in the log.

Knows what those who keep record want to know; refuses to know how anything was decided.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib import codec
from toolcrib.admission import Attempt, Convert, Parting
from toolcrib.content import Result
from toolcrib.errors import AuditUnavailableError
from toolcrib.policies.outcome import outcome_of
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.policies.audit import AuditLog
    from toolcrib.policies.telemetry import Watch

logger = logging.getLogger("toolcrib")

_UNHEARD = (asyncio.CancelledError, GeneratorExit)
"""Who ends like this waits for nothing any more."""


class Case:
    """One call on its way, and what will be said of it."""

    __slots__ = (
        "_attempt",
        "_audit",
        "_digest",
        "_size",
        "_started",
        "_tool",
        "_watch",
        "decision",
        "id",
        "ran",
        "rule",
        "span",
    )

    def __init__(
        self, audit: AuditLog | None, watch: Watch | None, id_: str, attempt: Attempt, tool: Tool | None
    ) -> None:
        self._audit = audit
        self._watch = watch
        self._started = time.perf_counter()
        self._attempt = attempt
        self._tool = tool
        self._digest: str | None = None
        self._size: int | None = None
        self.id = id_
        self.decision = "allowed"
        self.rule: str | None = None
        self.ran = False
        self.span: Any = None
        if watch is not None:
            self.span = watch.begin(None if tool is None else tool.name, attempt.channel, id_)
        if audit is not None:
            self._digest, self._size = audit.digest(attempt.arguments)

    def measure(self) -> int:
        """The size of the arguments."""
        if self._size is None:
            self._size = len(codec.encode(self._attempt.arguments or {}))
        return self._size

    async def begin(self, tool: Tool) -> None:
        """Before a call that may only happen where it can be recorded. Raises AuditUnavailableError."""
        audit = self._audit
        if audit is None:
            return
        if tool.options.audit == "required":
            is_there = await audit.commit({"kind": "intent", **self._facts()})
        else:
            is_there = await audit.prove()
        if not is_there:
            words = f"Tool '{tool.name}' cannot run now: its calls must be recorded, and cannot be."
            raise AuditUnavailableError(words)

    def admit(self, _: dict[str, Any], _convert: Convert | None) -> None:
        """Nothing about its arguments keeps the tool from running."""
        self.ran = True

    def end(self, ended: Result | BaseException) -> Awaitable[Any] | None:
        """The call is over. Gives what to wait for before it is answered, where somebody waits."""
        entry = self._sum_up(ended)
        if self._audit is None or entry is None:
            return None
        if isinstance(ended, _UNHEARD):
            self._audit.note(entry)
            return None
        # Of a call that somebody makes amid another one, more than the reply comes behind the record.
        is_last = entry["request"] is not None
        return self._audit.commit(entry, Parting if is_last else asyncio.Future)

    def drop(self, error: BaseException) -> None:
        """The call is over before it began, and nobody waits for the record."""
        entry = self._sum_up(error)
        if self._audit is not None and entry is not None:
            self._audit.note(entry)

    def _sum_up(self, ended: Result | BaseException) -> dict[str, Any] | None:
        """Tell everybody who watches; gives what is to be recorded, where there is a record."""
        duration_s = time.perf_counter() - self._started
        outcome, code = outcome_of(ended, is_gone=self._attempt.channel.is_gone)
        result_bytes = size_of(ended) if isinstance(ended, Result) else None
        if self._watch is not None:
            self._watch.end(
                self.span,
                tool=None if self._tool is None else self._tool.name,
                outcome=outcome,
                code=code,
                duration_s=duration_s,
                arguments_bytes=self._size,
                result_bytes=result_bytes,
            )
        if logger.isEnabledFor(logging.INFO):
            self._log(outcome, code, duration_s)
        if self._audit is None:
            return None
        entry = self._facts()
        entry["rule"] = self.rule
        entry["decision"] = self.decision
        entry["outcome"] = outcome
        entry["code"] = code
        entry["duration_ms"] = int(duration_s * 1_000_000) / 1000
        entry["result_bytes"] = result_bytes
        return entry

    def _facts(self) -> dict[str, Any]:
        audit, attempt, tool = self._audit, self._attempt, self._tool
        facts: dict[str, Any] = {
            "id": self.id,
            "request": attempt.channel.request,
            "principal": attempt.principal.name,
            "tool": attempt.name if tool is None else tool.name,
            "version": None if tool is None else tool.version,
            "definition": None if tool is None else tool.definition.fingerprint,
            "arguments_bytes": self._size,
            "arguments_digest": self._digest,
        }
        if audit is not None and audit.keeps_values:
            values = audit.values_of(attempt.arguments)
            if values is not None:
                facts["values"] = values
        return facts

    def _log(self, outcome: str, code: str | None, duration_s: float) -> None:
        fields = {
            "call_id": self.id,
            "tool_name": self._attempt.name if self._tool is None else self._tool.name,
            "principal": self._attempt.principal.name,
            "outcome": outcome,
            "error_code": code,
            "duration_ms": round(duration_s * 1000, 3),
        }
        logger.info("call ended: %s", outcome, extra=fields)


def is_longer(result: Result, most: int) -> bool:
    """Whether a result is more than so many bytes, as content or as structured content: one alone may be."""
    if size_of(result) > most:
        return True
    structured = result.structured_content
    return structured is not None and len(codec.write(structured)) > most


def size_of(result: Result) -> int:
    """The bytes of what a result's content holds, near enough: what stands around it is not counted."""
    return sum(map(_size_of, result.content))


def _size_of(block: Mapping[str, Any]) -> int:
    held = block.get("resource") or block  # an embedded file
    text: str | None = held.get("text") or held.get("data") or held.get("blob")
    if text is None:
        return len(codec.write(block))  # a link, with whatever it says of itself
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
