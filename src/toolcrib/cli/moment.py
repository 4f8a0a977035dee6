"""Times as people write them: `30d`, `1h`, `2027-01-01`, `2027-01-01T12:00`.

What names no zone is UTC, as everything that is printed is. Knows words for times; refuses to know what
happens then.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from toolcrib.cli.frame import Failure
from toolcrib.cli.words import count

DAY_S = 86_400.0
_UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": DAY_S, "w": 7 * DAY_S, "y": 365 * DAY_S}
_SPAN = re.compile(r"(\d{1,9})\s*([a-z]+)")
_LAST_S = 253_402_300_799.0  # the end of the year 9999, as far as dates go


def read_ahead(option: str, text: str, now_s: float) -> float:
    """A moment that comes: so long from now, or a date."""
    return _read(option, text, now_s, 1)


def read_back(option: str, text: str, now_s: float) -> float:
    """A moment that has been: so long ago, or a date."""
    return _read(option, text, now_s, -1)


def _read(option: str, text: str, now_s: float, sign: int) -> float:
    word = text.strip()
    span = _SPAN.fullmatch(word.lower())
    try:
        if span is not None and span[2] in _UNITS_S:
            moment_s = now_s + sign * int(span[1]) * _UNITS_S[span[2]]
        else:
            moment = datetime.fromisoformat(word)
            moment_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        hint = "write a time such as 30d, 12h, 2027-01-01 or 2027-01-01T12:00 (UTC)"
        raise Failure(f"{option} {text!r} is no time", hint) from None
    if not 0 <= moment_s <= _LAST_S:
        raise Failure(f"{option} {text!r} is out of reach", "write a time between 1970 and 9999")
    return moment_s


def show_day(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d")


def show_moment(wall_s: float, now_s: float) -> str:
    """The day, and the time of day where the day alone would not say enough."""
    if abs(wall_s - now_s) >= 2 * DAY_S:
        return show_day(wall_s)
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M")


def show_span(seconds: float) -> str:
    """A length of time in its largest unit: `90 days`, `3 hours`."""
    for noun, size_s in (("day", DAY_S), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 2 * size_s:
            return f"{round(seconds / size_s)} {noun}s"
    return count(round(seconds), "second")
