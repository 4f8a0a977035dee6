"""What became of a tool on its way to a provider: exact, lossy or refused, and every change on the way.

Knows places in schemas and words about them. Refuses to know providers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Effect = Literal["same", "wider", "narrower"]
"""What a change does to the values that fit: nothing, more of them, or fewer."""
Status = Literal["exact", "lossy", "refused"]
Path = tuple[str, ...]

MOST_CHANGES = 100


class RefusedError(Exception):
    """A tool that a provider cannot be given; the text says why."""


class NotStrictError(Exception):
    """A schema that has no strict form; the text says why."""


class NothingFitsError(Exception):
    """A part of a schema that no value fits."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was written otherwise. `pointer` leads to it, in the input schema of the tool with its
    references followed."""

    pointer: str
    words: str
    effect: Effect = "same"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.words}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one tool. `exported` is its name at the provider, None where it was refused."""

    name: str
    exported: str | None
    status: Status
    changes: tuple[Change, ...] = ()
    reason: str | None = None
    tokens: int = 0
    strict: bool | None = None

    @property
    def losses(self) -> tuple[Change, ...]:
        """The changes that make it lossy."""
        return tuple(change for change in self.changes if change.effect != "same")

    def to_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"name": self.name, "exported": self.exported, "verdict": self.status}
        if self.reason is not None:
            said["reason"] = self.reason
        said["changes"] = [change.to_json() for change in self.changes]
        said["tokens"] = self.tokens
        if self.strict is not None:
            said["strict"] = self.strict
        return said


@dataclass(slots=True)
class Journal:
    """Changes, in the order they were made."""

    changes: dict[Change, None] = field(default_factory=dict)

    def note(self, path: Path, words: str, effect: Effect = "same") -> None:
        self.changes[Change(point(path), words, effect)] = None

    def lose(self, path: Path, said: str, words: list[str]) -> None:
        """A rule that a provider does not take: told among the `words` of a description instead."""
        words.append(said)
        self.note(path, f"{said}: only told, not enforced", "wider")

    def say(self, path: Path, said: str, words: list[str]) -> None:
        """Something that refuses nothing, told in words."""
        words.append(said)
        self.note(path, f"{said}: told in the description")

    def adopt(self, changes: Iterable[Change]) -> None:
        self.changes.update(dict.fromkeys(changes))

    def close(self) -> tuple[Change, ...]:
        """All of them, or the first hundred; then those that lose something come first."""
        found = list(self.changes)
        if len(found) <= MOST_CHANGES:
            return tuple(found)
        found.sort(key=lambda change: change.effect == "same")
        rest = found[MOST_CHANGES - 1 :]
        effect: Effect = next((change.effect for change in rest if change.effect != "same"), "same")
        return (*found[: MOST_CHANGES - 1], Change("", f"and {len(rest)} more changes", effect))


def point(path: Path) -> str:
    """A JSON pointer."""
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)


def judge(changes: Iterable[Change]) -> Status:
    return "exact" if all(change.effect == "same" for change in changes) else "lossy"
