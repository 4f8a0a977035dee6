"""What changing a registry came to: the change that is told, and the report of a batch.

Knows findings and tools as results. Refuses to know how anything is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.errors import DefinitionError, InvalidToolError
from toolcrib.finding import Finding
from toolcrib.tool import Tool

ChangeKind = Literal["added", "removed", "replaced", "enabled", "disabled", "changed"]


@dataclass(frozen=True, slots=True)
class Change:
    """One effective change, told to subscribers after it happened. A batch that both added and replaced
    tools is "changed"."""

    kind: ChangeKind
    names: tuple[str, ...]
    revision: int


@dataclass(slots=True)
class Report:
    """What a batch came to: what was registered, what was refused and why, what is remarkable."""

    registered: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def ok(self) -> bool:
        return not self.errors

    def __str__(self) -> str:
        lines = [f"{len(self.registered)} registered, {len(self.errors)} refused"]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])


def refusal(thing: Any, error: Exception) -> Finding:
    """What a report says of a thing that could not become a tool."""
    if isinstance(error, DefinitionError):
        return error.finding
    words = f"{type(thing).__name__} cannot be read as a tool: {type(error).__name__}: {error}"
    return InvalidToolError(words).finding
