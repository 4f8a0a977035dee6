"""A clock that stands until it is told to go on."""

from __future__ import annotations


class Clock:
    """Give it where a function that tells seconds is wanted."""

    def __init__(self, at_s: float = 0.0) -> None:
        self.at_s = at_s

    def __call__(self) -> float:
        return self.at_s

    def pass_s(self, seconds: float) -> None:
        self.at_s += seconds
