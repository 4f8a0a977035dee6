"""What changed in what a tool says of its effects, and in what it asks of its callers.

Clients run a tool without asking where it says that it only reads. So a hint that got worse breaks their
policy, and one that got better while the rest changed too deserves a look. Knows MCP's annotations and their
defaults; refuses to know schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.catalog.compare_difference import Difference, Grade


@dataclass(frozen=True, slots=True)
class _Hint:
    """One annotation: what is taken where nothing is said, which value is harmless, and both in words."""

    default: bool
    harmless: bool
    safe: str
    harmful: str


_HINTS = {
    "readOnlyHint": _Hint(False, True, "only reads", "may change things"),
    "destructiveHint": _Hint(True, False, "destroys nothing", "may destroy things"),
    "idempotentHint": _Hint(False, True, "may be repeated without further effect", "acts anew at each call"),
    "openWorldHint": _Hint(True, False, "reaches no further than its own data", "reaches the world outside"),
}


def compare_hints(
    old: Mapping[str, Any], new: Mapping[str, Any], *, changed_otherwise: bool
) -> Iterator[Difference]:
    """`changed_otherwise`: its words or schemas are not what they were."""
    for key in sorted(old.keys() | new.keys()):
        before, now = old.get(key), new.get(key)
        if before == now:
            continue
        pointer = f"/annotations/{key}"
        hint = _HINTS.get(key)
        if hint is None:
            template = "its title changed" if key == "title" else "the annotation {0} changed"
            yield Difference("annotation-changed", "cosmetic", pointer, template, (key,), before, now)
            continue
        if key == "destructiveHint" and old.get("readOnlyHint") is True and new.get("readOnlyHint") is True:
            template = "the annotation {0} changed, which says nothing beside readOnlyHint"
            yield Difference("annotation-changed", "cosmetic", pointer, template, (key,), before, now)
            continue
        yield _weigh(hint, pointer, before, now, changed_otherwise)


def _weigh(hint: _Hint, pointer: str, before: Any, now: Any, changed_otherwise: bool) -> Difference:
    was_safe = (hint.default if before is None else before) is hint.harmless
    is_safe = (hint.default if now is None else now) is hint.harmless
    grade: Grade
    if was_safe == is_safe:
        template, grade = (
            f"it now says that it {hint.safe if is_safe else hint.harmful}, as was taken anyway",
            "cosmetic",
        )
        if now is None:
            template = (
                f"it no longer says that it {hint.safe if was_safe else hint.harmful}, which is still taken"
            )
    elif was_safe:
        template = (
            f"it no longer {hint.safe}: it {hint.harmful}, and clients that let it run unasked must not"
        )
        grade = "breaking"
    elif before is not None and changed_otherwise:
        template = f"it said that it {hint.harmful}; now that it changed, it says that it {hint.safe}"
        grade = "suspicious"
    else:
        template, grade = f"it now says that it {hint.safe}: clients may let it run unasked", "compatible"
    code = {"cosmetic": "hint-spelled", "breaking": "hint-worse"}.get(grade, "hint-better")
    return Difference(code, grade, pointer, template, (), before, now)


def compare_scopes(old: Sequence[str], new: Sequence[str]) -> Iterator[Difference]:
    """What callers must be allowed to: asking for less lets strangers in, asking for more shuts some out."""
    gone, come = sorted({*old} - {*new}), sorted({*new} - {*old})
    if gone:
        template = "it no longer asks for the scope {0}: more callers may use it"
        yield Difference("scopes-dropped", "suspicious", "", template, (", ".join(gone),), [*old], [*new])
    if come:
        template = "it now asks for the scope {0}: callers without it will be refused"
        yield Difference("scopes-added", "breaking", "", template, (", ".join(come),), [*old], [*new])
