"""Docstrings as data: what a function, its parameters and its result are said to be.

Knows that a text is Google, NumPy or reST by what it contains, and that no word of it may get lost: what
describes a parameter, a result, an error or a tag moves there, all else stays in the description, in its
place. Refuses to know signatures (whether a documented parameter exists is for others to say) and schemas.
Imports nothing outside the standard library: it is read at start-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolcrib.schema.docstring_fields import is_field, read_rest
from toolcrib.schema.docstring_layout import (
    clean_lines,
    find_examples,
    finish_sentence,
    join_first_paragraph,
    join_prose,
    trim,
)
from toolcrib.schema.docstring_sections import (
    HEADERS,
    Documented,
    Draft,
    opens_google,
    opens_numpy,
    read_google,
    read_numpy,
)
from toolcrib.schema.docstring_types import type_hint_of

__all__ = ["Docstring", "Documented", "Style", "parse_docstring", "type_hint_of"]

Style = Literal["google", "numpy", "rest", "plain"]

_READERS = {"google": read_google, "numpy": read_numpy, "rest": read_rest}


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring taken apart.

    `description` is all that did not move elsewhere; a lone sentence has lost its full stop there, and only
    there. `examples` are copies: they stay in the description too. `returns` keeps the words of its type
    where they are part of a sentence (`dict: the user`), so that it can be shown alone.
    """

    style: Style = "plain"
    description: str = ""
    summary: str = ""
    first_line: str = ""
    params: tuple[Documented, ...] = ()
    attributes: tuple[Documented, ...] = ()
    returns: str = ""
    returns_type: str | None = None
    raises: tuple[Documented, ...] = ()
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


_NOTHING = Docstring()


def parse_docstring(text: str | None) -> Docstring:
    """Take a docstring apart. Any text will do: what is in no known form is description."""
    if not text or text.isspace():
        return _NOTHING
    lines = trim(clean_lines(text))
    if lines[0] in HEADERS:
        _indent_first_block(lines)
    style, draft = _read(lines)
    prose = join_prose(draft.prose)
    examples = find_examples(draft.prose) if "xample" in prose or "jemplo" in prose else []
    return Docstring(
        style,
        finish_sentence(prose),
        join_first_paragraph(prose),
        lines[0].lstrip(" "),
        tuple(draft.params),
        tuple(draft.attributes),
        "\n\n".join(draft.returns),
        draft.returns_type,
        tuple(draft.raises),
        tuple(draft.tags),
        (*examples, *draft.examples),
    )


def _read(lines: list[str]) -> tuple[Style, Draft]:
    """Read the lines in the dialect they are in; of several, in the one that finds most parameters."""
    styles = _find_styles(lines)
    if len(styles) == 1:
        return styles[0], _READERS[styles[0]](lines)
    if not styles:
        draft = Draft()
        draft.prose = lines
        return "plain", draft
    drafts = [(style, _READERS[style](lines)) for style in styles]
    return max(drafts, key=lambda found: len(found[1].params))


def _find_styles(lines: list[str]) -> list[Style]:
    """List the dialects a text shows signs of, the least ambiguous sign first."""
    text = "\n".join(lines)
    google = any(opens_google(lines, number) for number, line in enumerate(lines) if line in HEADERS)
    # The signs of the others are rare, and their absence is seen at a glance.
    numpy = "-" in text and "\n--" in text and any(opens_numpy(lines, number) for number in range(len(lines)))
    rest = ("@" in text or " :" in text or "\n:" in text or text[:1] == ":") and any(map(is_field, lines))
    found: list[tuple[bool, Style]] = [(numpy, "numpy"), (google, "google"), (rest, "rest")]
    return [style for present, style in found if present]


def _indent_first_block(lines: list[str]) -> None:
    """Give back the indentation of a block whose header is the first line of all.

    No line is left above it to measure the margin by, so cleaning took the block's own indentation for it.
    """
    for number, line in enumerate(lines[1:], start=1):
        if not line or line in HEADERS or (number == 1 and line[0] == " "):
            return
        lines[number] = f"    {line}"
