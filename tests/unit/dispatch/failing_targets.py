"""Functions for worker processes that raise errors of toolcrib and of their own."""

from __future__ import annotations

import threading

from toolcrib.errors import APIError, ToolError


def fail_for_the_model(text: str) -> None:
    raise ToolError(text, details={"field": "x"})


class TwoPartError(Exception):
    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left}-{right}")


class TwoPartToolError(ToolError):
    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left}-{right}")


class MuteError(Exception):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __str__(self) -> str:
        raise RuntimeError("no words")


def fail_with(kind: str) -> None:
    if kind == "two parts":
        raise TwoPartError("a", "b")
    if kind == "two parts for the model":
        raise TwoPartToolError("a", "b")
    if kind == "mute":
        raise MuteError
    if kind == "group":
        raise ExceptionGroup("g", [ToolError("in a group \ud800")])
    if kind == "local":
        raise type("LocalError", (Exception,), {})
    if kind == "api":
        raise APIError("refused", status=404, body="not here")
    raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "recursion": RecursionError}[kind](3)
