"""Arguments made to order: for each path, what it is to lead to.

Knows steps and values; refuses to know why somebody wants them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from toolcrib.policies.access.candidates import LEFT_OUT, NO_ITEMS
from toolcrib.policies.access.operators import ABSENT
from toolcrib.policies.access.reach import Reach, Step


def build(chosen: Iterable[tuple[Reach, Any]]) -> dict[str, Any]:
    """Arguments in which each path leads to what was chosen for it."""
    arguments: dict[str, Any] = {}
    for reach, value in chosen:
        place(arguments, reach.steps, value)
    return arguments


def place(arguments: dict[str, Any], steps: Sequence[Step], value: Any) -> None:
    """Put a value where steps lead to, and make what it is in; or leave it out in the way that is asked."""
    inside = arguments
    for step, following in pairwise(steps):
        if value is ABSENT and not step.is_required:
            return
        if value is NO_ITEMS and following.lists:
            inside.setdefault(step.name, [])
            return
        inner = inside.get(step.name)
        for _ in range(following.lists):
            inner = inner[0] if isinstance(inner, list) and inner else None
        if not isinstance(inner, dict):
            inner = {}
            inside[step.name] = _wrap(inner, following.lists)
        inside = inner
    name = steps[-1].name
    is_there_already = value == {} and isinstance(inside.get(name), dict)
    if value is not ABSENT and value is not LEFT_OUT and not is_there_already:
        inside[name] = value


def _wrap(value: Any, lists: int) -> Any:
    for _ in range(lists):
        value = [value]
    return value
