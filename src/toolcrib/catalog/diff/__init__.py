"""Compare two catalogs: what changed in each tool, and how much it matters.

Grades: cosmetic (nobody notices), compatible (callers need not change), breaking (some callers will fail),
suspicious (somebody should look before a model does).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from toolcrib.errors import NO_LOCATION, Location
from toolcrib.validation import codec

Grade = Literal["cosmetic", "compatible", "breaking", "suspicious"]
GRADES: tuple[Grade, ...] = ("cosmetic", "compatible", "breaking", "suspicious")
"""From the least to the worst."""
_MAX_VALUE = 100
_MAX_NAME = 120
_CONTEXT = 30
"""Characters that are shown before the first difference of two long values."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one tool. `message` is `template` with the quoted `names`, which come from definitions.

    `old` and `new` are shortened JSON. `tool` and `source`, where it is written now, or was, are empty until
    the tool is known.
    """

    code: str
    grade: Grade
    pointer: str
    template: str
    names: tuple[str, ...] = ()
    old: str | None = None
    new: str | None = None
    tool: str = ""
    source: Location = NO_LOCATION

    @property
    def message(self) -> str:
        return self.template.format(*(f"`{name}`" for name in self.names))

    def to_json(self) -> dict[str, Any]:
        return {
            "grade": self.grade,
            "code": self.code,
            "tool": self.tool,
            "message": self.message,
            "pointer": self.pointer or None,
            "old": self.old,
            "new": self.new,
            "file": self.source.file,
            "line": self.source.line,
        }


def make_change(
    code: str,
    grade: Grade,
    pointer: str,
    template: str,
    names: tuple[str, ...] = (),
    old: Any = None,
    new: Any = None,
) -> Change:
    """Make a change of two JSON values, of which long ones are shown from where they differ."""
    before, now = (None if value is None else codec.canonical(value).decode() for value in (old, new))
    if before is not None and now is not None and max(len(before), len(now)) > _MAX_VALUE:
        same = next(
            (i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b),
            min(len(before), len(now)),
        )
        start = max(0, same - _CONTEXT)
        before, now = (f"...{text[start:]}" if start else text for text in (before, now))
    names = tuple(_shorten(name, _MAX_NAME) for name in names)
    before, now = (None if text is None else _shorten(text, _MAX_VALUE) for text in (before, now))
    return Change(code, grade, pointer, template, names, before, now)


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
