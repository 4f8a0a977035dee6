# doubts: unresolved-option, unresolved-default, unresolved-hint
"""What only running can tell."""

import email.message
import os

from toolcrib import tool


def compute() -> str:
    return "computed"


@tool(description=compute())
def described(a: int) -> int:
    """Words that are computed."""
    return a


@tool
def defaulted(a: str = os.sep.join(["a", "b"])) -> str:
    """Has a default that is computed."""
    return a


@tool
def hinted(a: email.message.Message) -> str:
    """Has a hint of a package that is not read."""
    return ""
