"""What tools and properties are called at a provider, and how to find back.

A name that fits stays as it is, whatever else is exported. One that does not is written with the letters that
fit; where that could be another tool, or is too long, it ends in a digest of the whole name, which is never
cut off. Knows names; refuses to know what they name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from toolcrib import codec
from toolcrib.definition import shorten_name

LONGEST = 64
TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""What every provider takes: Gemini wants a letter or an underscore first, the others up to 64 of these."""

_MARK = 8


def map_names(names: Iterable[str]) -> dict[str, str]:
    """Each name, and what it is called at a provider; no two are called the same."""
    wanted = list(dict.fromkeys(names))
    found = {name: name for name in wanted if TOOL_NAME.fullmatch(name)}
    taken = set(found.values())
    rest = [name for name in wanted if name not in found]
    drafts = {name: _draft(name) for name in rest}
    uses = Counter(drafts.values())
    for name in sorted(rest):
        draft = drafts[name]
        if draft in taken or uses[draft] > 1:
            draft = _marked(_spell(name), name, taken)
        found[name] = draft
        taken.add(draft)
    return {name: found[name] for name in wanted}


def _draft(name: str) -> str:
    """The name as it would be called if no other were there."""
    spelt = _spell(name)
    if spelt == name:
        return shorten_name(name, LONGEST)
    if not any(sign.isalnum() for sign in spelt) or len(spelt) > LONGEST:
        return _marked(spelt, name, ())
    return spelt


def _spell(name: str) -> str:
    spelt = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    return spelt if TOOL_NAME.match(spelt) else f"_{spelt}"


def _marked(spelt: str, name: str, taken: Iterable[str]) -> str:
    """Letters that fit, and a digest behind them: a longer one where somebody took pains to have the same."""
    digest = codec.digest(name)
    stem = spelt if any(sign.isalnum() for sign in spelt) else "tool"
    for length in range(_MARK, LONGEST // 2):
        marked = f"{stem[: LONGEST - length - 1]}_{digest[:length]}"
        if marked not in taken:
            return marked
    raise AssertionError("a digest has more digits than names can clash in")  # pragma: no cover


# --- properties --------------------------------------------------------------------------------------


def map_properties(names: Iterable[str], rule: re.Pattern[str] | None, *, marked: bool) -> dict[str, str]:
    """Each property, and its name at a provider. With `marked` every changed name has a digest, so that it
    can be known for what it is wherever it stands."""
    wanted = list(names)
    if rule is None:
        return {name: name for name in wanted}
    found = {name: name for name in wanted if rule.fullmatch(name)}
    taken = set(found)
    for name in wanted:
        if name in found:
            continue
        spelt = re.sub(r"[^a-zA-Z0-9_]", "_", name)
        if not re.match(r"[a-zA-Z_]", spelt):
            spelt = f"_{spelt}"
        if marked or spelt in taken or not rule.fullmatch(spelt) or not any(map(str.isalnum, spelt)):
            stem = spelt if any(map(str.isalnum, spelt)) else "name"
            spelt = _marked(stem, f"property {name}", taken)
        found[name] = spelt
        taken.add(spelt)
    return {name: found[name] for name in wanted}
