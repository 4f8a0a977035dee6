"""A person has to agree before a tool runs: asked through the call's own channel, for these very arguments.

On 2026-07-28 the answer comes back with a sealed state that is bound to the caller, the tool and the exact
arguments; its mark is burned when it is used, so that one yes is one call. Older clients are asked while the
call waits, which leaves nothing to use twice. Knows questions and marks; refuses to know which tools need
this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib import codec
from toolcrib.context import CONFIRMATION, Channel
from toolcrib.errors import CannotAskError, NotConfirmedError
from toolcrib.question import Answer, Form, InputNeeded
from toolcrib.wording import find_hidden

MAX_SHOWN = 200
MAX_NAMED = 20
STATE_S = 900.0
"""How long a burned mark is remembered: longer than any state lives."""

Burn = Callable[[str, float], Awaitable[bool]]


async def confirm(
    tool: str,
    arguments: dict[str, Any],
    words: str | None,
    channel: Channel,
    burn: Burn,
    *,
    sent: dict[str, Any] | None = None,
) -> None:
    """Have a person agree to arguments as the tool gets them. Raises NotConfirmedError, or InputNeeded where
    the client has to come again.

    It comes again with a state that is bound to the arguments as they were `sent`. Where others are shown,
    the key of the question holds a digest of them: a yes counts only for the values that were shown.
    """
    key = CONFIRMATION
    if sent is not None and sent is not arguments:
        shown = codec.digest(arguments)
        key = key if shown == codec.digest(sent) else f"{key}.{shown}"
    question = Form(_message(tool, arguments, words))
    try:
        replies = await channel.ask({key: question})
    except CannotAskError as error:
        message = f"Tool '{tool}' runs only when a person agrees, and none can be asked here: {error}"
        raise NotConfirmedError(message, details=error.details) from None
    mark = channel.resumes
    if mark is not None and not await burn(mark, STATE_S):
        raise InputNeeded({key: question})  # this yes was for a call that was made already
    answer = replies[key]
    if not isinstance(answer, Answer) or not answer:
        raise NotConfirmedError(f"Tool '{tool}' was not run: the person did not agree.")


def _message(tool: str, arguments: dict[str, Any], words: str | None) -> str:
    """What is asked, with the arguments as they will be used, so that it is clear what a yes means."""
    lines = [f"Run '{tool}'" + (" with these arguments?" if arguments else "?")]
    lines += [f"  {_shown(name)}: {_shown(value)}" for name, value in list(arguments.items())[:MAX_NAMED]]
    if len(arguments) > MAX_NAMED:
        lines.append(f"  and {len(arguments) - MAX_NAMED} more")
    return "\n".join(([words] if words else []) + lines)


def _shown(value: Any) -> str:
    """A value as it can be shown to a person: nothing in it hides, or passes for something else."""
    text = value if isinstance(value, str) else codec.encode(value).decode()
    if find_hidden(text) is not None or "\n" in text:
        text = text.encode("unicode_escape").decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
