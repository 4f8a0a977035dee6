"""What a row of the benchmark yields: lines of figures, the goals they are held to, and panels for the chart.

Ratios say how many times better we are: more spent by the peer, or less done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OURS = "toolcrib"
PEERS = ("mcp", "fastmcp")

Unit = Literal["time", "bytes", "count", "factor", "rate"]
COMPARED: tuple[Unit, ...] = ("time", "bytes", "rate")


@dataclass(frozen=True)
class AtLeast:
    """We must be so many times better than a peer; `aim` is what we would like beyond the goal."""

    peer: str
    times: float
    aim: float | None = None

    def __str__(self) -> str:
        aim = f" (aim {self.aim:g}x)" if self.aim else ""
        return f"{self.peer} >= {self.times:g}x{aim}"


@dataclass(frozen=True)
class AtMost:
    """Our own figure must not exceed this."""

    figure: float

    def __str__(self) -> str:
        return f"ours <= {self.figure:g}"


@dataclass(frozen=True)
class NoLess:
    """Our own figure must not fall short of this."""

    figure: float

    def __str__(self) -> str:
        return f"ours >= {self.figure:,g}"


Goal = AtLeast | AtMost | NoLess


@dataclass(frozen=True)
class Line:
    """One line of the table; a line without goals is there for information."""

    row: str
    label: str
    unit: Unit
    figures: dict[str, float | None]
    goals: tuple[Goal, ...] = ()

    def ratio(self, peer: str) -> float | None:
        """How many times better than the peer's our figure is; of a rate, more is better."""
        ours, theirs = self.figures.get(OURS), self.figures.get(peer)
        return quotient(ours, theirs) if self.unit == "rate" else quotient(theirs, ours)

    def met(self) -> bool | None:
        """Whether all goals are met; None where there is none or a figure is missing."""
        verdicts = [self._verdict(goal) for goal in self.goals]
        return None if not verdicts or None in verdicts else all(verdicts)

    def _verdict(self, goal: Goal) -> bool | None:
        if isinstance(goal, AtMost | NoLess):
            ours = self.figures.get(OURS)
            if ours is None:
                return None
            return ours <= goal.figure if isinstance(goal, AtMost) else ours >= goal.figure
        ratio = self.ratio(goal.peer)
        return None if ratio is None else ratio >= goal.times


@dataclass(frozen=True)
class Bar:
    """One contender in a panel; no value where it could not be measured."""

    name: str
    value: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Panel:
    """Contenders side by side. Of a rate more is better, of everything else less."""

    title: str
    unit: Unit
    measure: str
    bars: tuple[Bar, ...]
    notes: tuple[str, ...] = ()
    """The headings of the bars' notes."""


def quotient(larger: float | None, smaller: float | None) -> float | None:
    return larger / smaller if larger is not None and smaller else None


def show(value: float | None, unit: Unit) -> str:
    """A figure for people."""
    if value is None:
        return "-"
    if unit == "factor":
        return f"{value:.2f}x"
    if unit == "count":
        return f"{value:,.0f}"
    if unit == "rate":
        return f"{value:,.0f}/s"
    if unit == "bytes":
        return f"{value / 1e6:,.1f} MB" if value >= 1e6 else f"{value:,.0f}"
    for scale, suffix in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if value * scale >= 1:
            return f"{three_digits(value * scale)} {suffix}"
    return f"{value * 1e6:.2f} us"


def three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
