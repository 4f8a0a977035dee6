"""A clock that only advances when told to."""

from __future__ import annotations


class Clock:
    """Pass it in place of a function that returns seconds."""

    def __init__(self, at_s: float = 0.0) -> None:
        self.at_s = at_s

    def __call__(self) -> float:
        return self.at_s

    def pass_s(self, seconds: float) -> None:
        self.at_s += seconds
