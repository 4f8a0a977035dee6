"""A traceback as plain text of bounded size that cannot be mistaken for something else.

Error messages are foreign text: what could end a line or move a terminal's cursor is written out instead.
Knows exceptions and frames; refuses to know logs and tools.
"""

from __future__ import annotations

import linecache
import os
from itertools import islice
from types import TracebackType

MAX_FRAMES = 50
MAX_WORDS = 500
MAX_ERRORS = 4

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def escape(text: str, limit: int = MAX_WORDS) -> str:
    """The text on one line, without anything that a terminal or a log reader could take for its own."""
    cut = text if len(text) <= limit else text[:limit] + "..."
    if cut.isprintable():
        return cut
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in cut
    )


def describe(error: BaseException) -> str:
    """Type and words of an error on one line, whatever its `__str__` does."""
    try:
        kind, words = type(error).__name__, str(error)
    except BaseException:
        return f"{type(error).__name__} (its text cannot be had)"
    return escape(f"{kind}: {words}" if words else kind)


def format_trace(error: BaseException, max_bytes: int) -> str:
    """Where it was raised, causes first, each line indented; `MAX_FRAMES` frames at most in all."""
    chain = _list_causes(error)
    share = MAX_FRAMES // len(chain)
    lines: list[str] = []
    for relation, cause in chain:
        lines += _format_frames(cause.__traceback__, share)
        lines.append(f"  {describe(cause)}")
        lines += _format_notes(cause)
        if relation:
            lines.append(f"  ... {relation}:")
    return _fit("\n".join(lines), max_bytes)


def _list_causes(error: BaseException) -> list[tuple[str, BaseException]]:
    """The error and what led to it, the earliest first, each with how it relates to the next."""
    found: list[tuple[str, BaseException]] = [("", error)]
    seen = {id(error)}
    while len(found) < MAX_ERRORS:
        relation, cause = _find_cause(found[-1][1])
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        found.append((relation, cause))
    return found[::-1]


def _find_cause(error: BaseException) -> tuple[str, BaseException | None]:
    if error.__cause__ is not None:
        return "which caused", error.__cause__
    if error.__context__ is not None and not error.__suppress_context__:
        return "and while that was handled", error.__context__
    if isinstance(error, BaseExceptionGroup):
        return f"the first of {len(error.exceptions)} in", error.exceptions[0]
    return "", None


def _format_frames(trace: TracebackType | None, share: int) -> list[str]:
    places: list[tuple[str, int | None, str]] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    own = next((i for i, place in enumerate(places) if not place[0].startswith(_OWN_FOLDER)), 0)
    places = places[own:]  # how a call gets to a tool is no news
    left_out = len(places) - share
    if left_out <= 0:
        return [line for place in places for line in _format_place(*place)]
    first = share // 2
    return [
        *(line for place in places[:first] for line in _format_place(*place)),
        f"  ... {left_out} frames left out ...",
        *(line for place in places[first + left_out :] for line in _format_place(*place)),
    ]


def _format_place(file: str, line: int | None, function: str) -> list[str]:
    place = f'  File "{escape(file)}", line {line}, in {escape(function)}'
    source = linecache.getline(file, line).strip() if line else ""
    return [place, f"    {escape(source, 120)}"] if source else [place]


def _format_notes(error: BaseException) -> list[str]:
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list):
        return []
    lines = (line for note in notes if isinstance(note, str) for line in note.splitlines())
    return [f"  | {escape(line)}" for line in islice(lines, 2 * MAX_FRAMES)]


def _fit(text: str, max_bytes: int) -> str:
    """Cut out the middle: the beginning says who called, the end says what happened."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= max_bytes:
        return text
    mark = b"\n  ... cut ...\n"
    half = (max_bytes - len(mark)) // 2
    return (data[:half] + mark + data[-half:]).decode("utf-8", "ignore")
