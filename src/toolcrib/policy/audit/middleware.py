"""Audit around a call: one record when it has ended, written before the reply is sent.

Where a record is required, `RequiredRecord` makes sure before the tool runs that records can be written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from toolcrib.config.settings import Policy
from toolcrib.content import Result
from toolcrib.dispatch.middleware import Call, Next, RecordWritten
from toolcrib.errors import AuditUnavailableError, ConfigurationError
from toolcrib.policy.audit.log import AuditLog
from toolcrib.tool import Tool

_NOBODY_WAITS = (asyncio.CancelledError, GeneratorExit)


class AuditMiddleware:
    """Writes one record per call. The outermost middleware: nothing runs between the record and the reply."""

    def __init__(self, log: AuditLog, policy: Policy) -> None:
        self._log = log
        self._policy = policy

    async def open(self) -> None:
        try:
            await self._log.open()
        except ConfigurationError as error:
            raise self._policy.error_from("audit.file", error) from None

    async def close(self) -> None:
        await self._log.close()

    async def __call__(self, call: Call, next: Next) -> Result:
        arguments = call.arguments  # as they were received, whatever other middleware makes of them
        call.arguments_digest, call.arguments_bytes = self._log.digest(arguments)
        try:
            result = await next(call)
        except BaseException as error:
            if (recording := self._record(call, arguments, error)) is not None:
                await recording
            raise
        if (recording := self._record(call, arguments, None)) is not None:
            await recording
        return result

    def _record(self, call: Call, arguments: Any, error: BaseException | None) -> Awaitable[bool] | None:
        """Write the record of a call that has ended. Return what to wait for, where somebody waits for
        the reply."""
        log = self._log
        entry = call_facts(log, call, arguments)
        entry["rule"] = call.rule
        entry["decision"] = call.decision
        entry["outcome"] = call.outcome
        entry["code"] = call.code
        entry["duration_ms"] = int(call.duration_s * 1_000_000) / 1000
        entry["result_bytes"] = call.result_bytes
        if isinstance(error, _NOBODY_WAITS) or call.decision == "unheard":
            log.note(entry)
            return None
        # A call that a tool makes has no request, and more than a reply follows its record.
        return log.commit(entry, asyncio.Future if entry["request"] is None else RecordWritten)


class RequiredRecord:
    """Refuses calls that may only happen where they can be recorded, while records cannot be written."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def applies_to(self, tool: Tool) -> bool:
        return bool(tool.options.destructive or tool.options.audit == "required")

    async def __call__(self, call: Call, next: Next) -> Result:
        tool = call.tool
        if tool is not None and tool.options.audit == "required":
            facts = call_facts(self._log, call, call.arguments)
            is_recorded = await self._log.commit({"kind": "intent", **facts})
        else:
            is_recorded = await self._log.prove()
        if not is_recorded:
            name = call.name if tool is None else tool.name
            raise AuditUnavailableError(
                f"Tool '{name}' cannot run now: its calls must be recorded, and the audit log is unavailable."
            )
        return await next(call)


def call_facts(log: AuditLog, call: Call, arguments: Any) -> dict[str, Any]:
    """Return what is known of a call when it begins."""
    tool = call.tool
    facts: dict[str, Any] = {
        "id": call.id,
        "request": call.channel.request,
        "principal": call.principal.name,
        "tool": call.name if tool is None else tool.name,
        "version": None if tool is None else tool.version,
        "definition": None if tool is None else tool.definition.fingerprint,
        "arguments_bytes": call.arguments_bytes,
        "arguments_digest": call.arguments_digest,
    }
    if log.keeps_values:
        values = log.values_of(arguments)
        if values is not None:
            facts["values"] = values
    return facts
