"""What dispatch asks of a policy, and what it tells it of a call.

Dispatch sits below the policies that wrap it, so the contract between them is here: one attempt to call a
tool goes in, its result comes out, and in between the policy lets it run or does not. Knows the shape of
that; refuses to know any policy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.content import Result, text_block
from toolcrib.context import Channel, Principal
from toolcrib.dispatch.concurrency import Outlive
from toolcrib.errors import PolicyError
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.schema.received import Received

REFUSAL = "toolcrib/refusal"
"""The key of a result's `_meta` that says to machines why a call was refused."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt to call a tool. `name` is as the caller spelt it, and may be that of no tool."""

    name: str
    arguments: Mapping[str, Any] | None
    principal: Principal
    channel: Channel


class Parting(asyncio.Future[bool]):
    """What a call waits for that has run, be it well or not: its record. Nothing of the tool goes on after
    it, so whoever sends the reply may wait without a task."""


Convert = Callable[[], Awaitable["Received"]]
"""Converts the arguments of a call and gives them as the tool gets them. The tool is called with these."""

Admit = Callable[[dict[str, Any], Convert | None], Awaitable[None] | None]
"""Looks at checked arguments before the tool runs, and has them converted where it asked for that.
Raises CallError to refuse, InputNeeded to ask first; what it gives, if anything, is waited for and does the
same."""


class Perform(Protocol):
    """Checks the arguments, has them admitted, runs the tool. Failures are in the Result; only InputNeeded
    and CancelledError come out. `call_id` is what a crash is told by, to the caller and in the log;
    `timeout_s` is for less time than the tool has. `converts` lets `admit` see what the tool gets."""

    def __call__(
        self,
        channel: Channel,
        admit: Admit | None = None,
        timeout_s: float | None = None,
        outlive: Outlive | None = None,
        call_id: str | None = None,
        converts: bool = False,
    ) -> Awaitable[Result]: ...


class Policy(Protocol):
    """What stands around every call."""

    @property
    def depends_on_principal(self) -> bool:
        """Whether two callers may see different tools."""
        ...

    def view(self, principal: Principal, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Those of the tools that a principal may see: one object as long as neither changes."""
        ...

    def is_visible(self, principal: Principal, tool: Tool) -> bool:
        """Whether a tool is among those."""
        ...

    async def conduct(
        self, attempt: Attempt, tool: Tool, perform: Perform, *, is_front: bool = False
    ) -> Result:
        """See a call through. `is_front` says that the tool only finds and calls others, and shows nobody
        what they may not see. Raises ToolNotFoundError for a tool that is not for this caller."""
        ...

    def drop(self, attempt: Attempt, error: BaseException) -> None:
        """Take note of a call that ended before anybody looked for its tool: there was no room for it."""
        ...

    async def miss(self, attempt: Attempt) -> None:
        """Take note of a call of a tool that is not there."""
        ...


def refused(error: PolicyError) -> Result:
    """A call that a policy refused, for people and for machines."""
    error.__traceback__ = None  # it knows the whole call, arguments included, and would keep it
    meta = {REFUSAL: {"code": error.code, **(error.details or {})}}
    return Result([text_block(str(error))], is_error=True, error=error, meta=meta)
