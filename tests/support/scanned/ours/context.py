"""What a call fills in."""

from toolcrib import Context, tool
from toolcrib.context import Context as Ctx


@tool
async def told(message: str, ctx: Context) -> str:
    """Is told about its call."""
    return message


@tool
async def told_perhaps(message: str, *, info: Ctx | None = None) -> str:
    """Is told, if there is something to tell."""
    return message
