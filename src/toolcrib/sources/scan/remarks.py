"""Uncertainties of the evaluator, attached to every tool that depends on them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import Finding

HINT = "unresolved-hint"
DEFAULT = "unresolved-default"
CLASS = "approximate-class"

MAX_STEPS = 20_000
"""How many parts the annotations and defaults of one parameter may have, aliases written out."""
MAX_DEPTH = 60

_LONGEST = 60


class Unresolved(Exception):  # noqa: N818 - a state of things, which most callers go on from
    """Something in a file means what cannot be known by reading. `line` is where it is written."""

    is_whole = False
    """Whether nothing can stand for a part of it: then the whole of it is unresolved."""

    def __init__(self, message: str, line: int | None = None, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


class Excessive(Unresolved):
    """There is more of it than anybody writes by hand."""

    is_whole = True


class NotYet(Exception):  # noqa: N818 - it is no error: the hint waits
    """A class is met again while it is being made."""


@dataclass(frozen=True, slots=True)
class Remark:
    code: str
    message: str
    file: str
    line: int | None
    hint: str

    def to_finding(self, tool: str, parameter: str | None) -> Finding:
        return Finding(
            self.code, "warning", self.message, tool, parameter, self.file, self.line, hint=self.hint
        )


@dataclass(eq=False)
class Trail:
    """What was met on the way to one hint or value: remarks, and the classes that have remarks of their own.

    Also counts steps, so that aliases that double at each turn come to an end.
    """

    remarks: list[Remark] = field(default_factory=list)
    uses: dict[int, Any] = field(default_factory=dict)
    steps: int = 0
    depth: int = 0
    active: set[int] = field(default_factory=set)

    def step(self, node: ast.AST) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or self.depth > MAX_DEPTH:
            size = "has too many parts" if self.steps > MAX_STEPS else "is nested too deeply"
            line = getattr(node, "lineno", None)
            raise Excessive(f"what is written here {size}", line, hint="write something simpler")

    def note(self, remark: Remark) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)

    def gather(self) -> list[Remark]:
        """All remarks, those of the classes met included, however far away."""
        if not self.uses:
            return list(self.remarks)
        found = dict.fromkeys(self.remarks)
        waiting, seen = list(self.uses.values()), set(self.uses)
        while waiting:
            trail: Trail = waiting.pop().trail
            found.update(dict.fromkeys(trail.remarks))
            waiting += [entry for key, entry in trail.uses.items() if key not in seen]
            seen |= trail.uses.keys()
        return list(found)


def show(node: ast.AST) -> str:
    """An expression as it is written, shortened."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError, AttributeError):
        return "this expression"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
