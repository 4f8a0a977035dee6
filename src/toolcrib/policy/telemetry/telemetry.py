"""In view: what others may watch of a server's calls, as figures for Prometheus and spans for OpenTelemetry.

    telemetry = TelemetryMiddleware(Telemetry(prometheus=True), server="shop", version="1.4")
    running = telemetry.begin("refund", channel, call_id)
    try:
        result = await telemetry.within(running, perform())
    finally:
        telemetry.end(running, tool="refund", outcome="ok", code=None, duration_s=0.02, ...)

Knows tools by name, outcomes, durations and sizes; refuses to know arguments, results and who called. What is
not asked for is not loaded. Nothing here makes a call fail.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib import __version__
from toolcrib.config.settings import Telemetry
from toolcrib.content import Result
from toolcrib.context import Channel
from toolcrib.dispatch.middleware import Call, Next
from toolcrib.errors import ConfigurationError
from toolcrib.policy.telemetry.metrics import CONTENT_TYPE, NAME, PREFIX, Figures, Sheet, write

if TYPE_CHECKING:
    from toolcrib.policy.telemetry.metrics import Pool
    from toolcrib.policy.telemetry.tracing import Tracing

__all__ = ["TelemetryMiddleware"]

logger = logging.getLogger("toolcrib")

T = TypeVar("T")

_BEGUN = object()
"""What a call has in hand that was begun and has no span."""


class TelemetryMiddleware:
    """What is watched of one server. Takes calls from any thread."""

    def __init__(self, options: Telemetry, *, server: str, version: str) -> None:
        self._info = {"server": server, "version": version, "toolcrib": __version__}
        self._figures = Figures() if options.prometheus else None
        self._gauges: dict[str, Callable[[], float]] = {}
        self._tracing: Tracing | None = None
        self._pool: Pool | None = None
        if self._figures is not None:
            figures = self._figures
            self._gauges["calls_running"] = lambda: figures.running
        if options.opentelemetry:
            self._trace_calls()

    async def __call__(self, call: Call, next: Next) -> Result:
        tool = None if call.tool is None else call.tool.name
        running = self.begin(tool, call.channel, call.id)
        try:
            return await self.within(running, next(call))
        finally:
            self.end(
                running,
                tool=tool,
                outcome=call.outcome,
                code=call.code,
                duration_s=call.duration_s,
                arguments_bytes=call.arguments_bytes,
                result_bytes=call.result_bytes,
            )

    def begin(self, tool: str | None, channel: Channel, call_id: str | None = None) -> Any:
        """A call comes in. None for a tool that is not there: its name is the caller's text, and not told.
        What this gives belongs to `within` and `end`."""
        if self._figures is not None:
            self._figures.begin()
        if self._tracing is None:
            return _BEGUN
        return self._tracing.begin(tool, channel, call_id) or _BEGUN

    def within(self, running: Any, work: Awaitable[T]) -> Awaitable[T]:
        """The work, with the call's span as the current one, so that spans of the tool are below it."""
        if self._tracing is None or running is _BEGUN or running is None:
            return work
        return self._run_within(running, work)

    def end(
        self,
        running: Any,
        *,
        tool: str | None,
        outcome: str,
        code: str | None,
        duration_s: float,
        arguments_bytes: int | None = None,
        result_bytes: int | None = None,
    ) -> None:
        """A call is over. None for `running`: it was never begun. None for `tool`: there is no such tool."""
        if self._figures is not None:
            self._figures.end(tool, outcome, code, duration_s, was_begun=running is not None)
        if self._tracing is not None:
            self._tracing.end(
                None if running is _BEGUN else running,
                tool=tool,
                outcome=outcome,
                code=code,
                duration_s=duration_s,
                arguments_bytes=arguments_bytes,
                result_bytes=result_bytes,
            )

    def count_refusal(self, kind: str) -> None:
        """A request was turned away at the door: "401", "403", "429"."""
        if self._figures is not None:
            self._figures.refuse(kind)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """A figure that is read when somebody looks. Names that end in `_total` only ever grow.

        `read` is asked in the thread of whoever looks. Where it fails, the figure is not there that time.
        """
        name = name.removeprefix(PREFIX)
        if not NAME.fullmatch(name):
            raise ValueError(f"must be lower-case letters, digits and underscores, got {name!r}")
        self._gauges[name] = read

    def exposition(self) -> tuple[bytes, bytes]:
        """Content type and body of the page for Prometheus. Raises ConfigurationError where there is none."""
        sheet = self._look() if self._pool is None else self._pool.sum()
        return CONTENT_TYPE, write(sheet, self._info)

    def share(self, folder: Path) -> None:
        """Show the figures of all processes that share this folder, whichever of them is asked."""
        if self._figures is not None and self._pool is None:
            from toolcrib.policy.telemetry.metrics import Pool  # delayed: few serve with several processes

            self._pool = Pool(folder, self._look)

    def close(self) -> None:
        """The server ends. What was counted stays with those that share it."""
        if self._pool is not None:
            self._pool.close()

    def _look(self) -> Sheet:
        if self._figures is None:
            raise ConfigurationError(
                "no figures are kept", key="telemetry.prometheus", hint="set prometheus = true"
            )
        sheet = self._figures.take()
        for name, read in self._gauges.items():
            try:
                sheet.gauges[name] = float(read())
            except Exception as error:
                logger.debug("the figure '%s' cannot be had: %s", name, type(error).__name__)
        return sheet

    def _trace_calls(self) -> None:
        try:
            # The engine of this part: only those who report to it pay for it.
            from toolcrib.policy.telemetry.tracing import Tracing, run_within
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "opentelemetry":
                raise
            raise ConfigurationError(
                "opentelemetry-api is not installed",
                key="telemetry.opentelemetry",
                hint="pip install 'toolcrib[otel]'",
            ) from None
        self._tracing = Tracing(__version__)
        self._run_within = run_within
