"""What a check has to say about a definition: a code, where, what and how to mend it.

Knows nothing of tools or schemas; everything that inspects something speaks in findings.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["error", "warning", "advice"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was written."""

    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.file is None:
            return "<unknown>"
        return f"{self.file}:{self.line}" if self.line else self.file


NOWHERE = Source()


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark about one definition. `code` is stable; the words may change."""

    code: str
    level: Level
    message: str
    tool: str | None = None
    parameter: str | None = None
    file: str | None = None
    line: int | None = None
    hint: str | None = None

    @property
    def where(self) -> Source:
        return Source(self.file, self.line)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.file else ""
        hint = f" (hint: {self.hint})" if self.hint else ""
        return f"{place}{self.level}[{self.code}] {self.message}{hint}"
