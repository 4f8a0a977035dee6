"""Compare what only resources and prompts have: types, names, annotations and variables.

Descriptions and the arguments of prompts are compared as those of tools are, see `definitions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.catalog.diff import Change, Grade, make_change


def compare_features(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the changes of a resource, a template or a prompt, given as in a list of MCP."""
    if "uri" not in new and "uriTemplate" not in new:
        return
    before, now = old.get("uriTemplate"), new.get("uriTemplate")
    if before and now and before != now:
        template = "its variables are called differently; it still matches the same URIs"
        yield make_change("variables-renamed", "compatible", "/uriTemplate", template, (), before, now)
    yield from _compare_type(old.get("mimeType"), new.get("mimeType"))
    if old.get("name") != new.get("name"):
        template = "the name that clients show changed"
        yield make_change(
            "label-changed", "cosmetic", "/name", template, (), old.get("name"), new.get("name")
        )
    if old.get("digest") != new.get("digest"):
        template = "its content changed, or that of another file of the skill"
        digests = old.get("digest"), new.get("digest")
        yield make_change("content-changed", "compatible", "/digest", template, (), *digests)
    hints = old.get("annotations", {}), new.get("annotations", {})
    for key in sorted({*hints[0], *hints[1]}):
        if hints[0].get(key) != hints[1].get(key):
            grade: Grade = "compatible" if key == "audience" else "cosmetic"
            values = hints[0].get(key), hints[1].get(key)
            template = "the annotation {0} changed"
            yield make_change("annotation-changed", grade, f"/annotations/{key}", template, (key,), *values)


def _compare_type(old: str | None, new: str | None) -> Iterator[Change]:
    if old == new:
        return
    grade: Grade = "breaking"
    template = "its type was {0} and is now {1}: readers of the old type may fail"
    if old is None:
        grade, template = "compatible", "its type is now known: {1}"
    elif new is None:
        grade, template = "compatible", "its type is no longer given; it was {0}"
    yield make_change("type-changed", grade, "/mimeType", template, (str(old), str(new)), old, new)
