"""Lines, paragraphs and sentences: the layout of a docstring, whatever its dialect.

Knows indentation, bullets, fences, wrapped prose and where a sentence ends. Refuses to know sections: it is
told which lines belong together and never decides it. A cleaned line is plain spaces, then words, and
nothing after them; an empty one is "".
"""

from __future__ import annotations

import re

# Quantifiers are possessive where they may meet a long run: a docstring is a stranger's text, and the time
# spent on it must grow no faster than its length.
_STRUCTURE = re.compile(r"[-*+•] |---|===|#{1,6} |\d{1,3}[.)] |>>> |\.\.\. |```|~~~|\|")
_LABEL = re.compile(r"\w[\w ]{0,30}:(?:\s|$)")
_EXAMPLE = re.compile(r" *+(?:[Ee]xamples?|[Ee]jemplos?)::?(?!:)\s*+(.*)")
_SENTENCE_END = re.compile(r"[.!?][\"')\]`*]*+\s++[\"'(\[`*]*+(\S)")
_DOTTED_LETTERS = re.compile(r"(?<!\w)\w\.(?:\w\.){1,4}$")
_MANY_BREAKS = re.compile(r"\n{3,}")
_SHOWN = bytes(range(0x20, 0x7F)) + b"\n"
_SECOND_MARGIN = re.compile(r"\n( *+)[^ \n]")

_NEVER_LAST = frozenset(("e.g", "i.e", "vs", "cf", "approx", "dr", "mr", "mrs", "ms", "prof", "fig", "eq"))


def clean_lines(text: str) -> list[str]:
    """Split into lines without the indentation that all but the first have in common."""
    if (lines := _clean_tidy(text)) is not None:
        return lines
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    first, *others = text.split("\n")
    measured: list[tuple[int, str]] = []
    margin = None
    for line in others:
        body = line.lstrip()
        indent = len(line) - len(body)
        if body and indent and "\t" in line:
            indent = len(line[:indent].expandtabs())
        if body and (margin is None or indent < margin):
            margin = indent
        measured.append((indent, body.rstrip()))
    margin = margin or 0
    return [first.strip(), *[" " * (indent - margin) + body if body else "" for indent, body in measured]]


def _clean_tidy(text: str) -> list[str] | None:
    """The short way for most texts: visible ASCII, every line but the first at the margin or deeper, or
    empty, and nothing behind the words. None for all others."""
    margin = _SECOND_MARGIN.search(text)
    if margin is None or text[0] == " " or not is_plainly_shown(text):
        return None
    edge = f"\n{margin[1]}"
    empty = text.count("\n\n") + text.endswith("\n") if len(edge) > 1 else 0
    if text.count(edge) + empty != text.count("\n"):
        return None
    text = text.replace(edge, "\n")
    return None if " \n" in text or text[-1] == " " else text.split("\n")


def is_plainly_shown(text: str) -> bool:
    """Whether a text is ASCII that a reader sees, on lines. Its bytes tell it quicker than its characters."""
    return text.isascii() and not text.encode().translate(None, _SHOWN)


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def trim(block: list[str]) -> list[str]:
    """Take the empty lines off both ends."""
    start, end = 0, len(block)
    while start < end and not block[start]:
        start += 1
    while end > start and not block[end - 1]:
        end -= 1
    return block[start:end]


def find_block_end(lines: list[str], start: int, level: int) -> int:
    """Find where the lines that are empty or deeper than `level` end."""
    deeper = " " * (level + 1)
    end = start
    while end < len(lines) and (not lines[end] or lines[end].startswith(deeper)):
        end += 1
    return end


def flow(first: str, rest: list[str]) -> str:
    """Join a text and its continuation: wrapped prose becomes one line, what has a shape keeps it."""
    filled = [indent_of(line) for line in rest if line]
    if not filled:
        return first
    margin = min(filled)
    # The first continuation line sets the indent of its paragraph, wherever its author aligned it.
    level = filled[0] if rest[0] else margin
    pieces = [first]
    shaped = fenced = after_blank = False
    for line in rest:
        if not line:
            after_blank = True
            continue
        body = line.lstrip(" ")
        if after_blank:
            shaped, level = fenced, margin
        shaped = shaped or len(line) - len(body) > level or _STRUCTURE.match(body) is not None
        if body.startswith(("```", "~~~")):
            fenced = not fenced
        pieces.append("\n\n" if after_blank else "\n" if shaped else " ")
        pieces.append(line[margin:] if shaped else body)
        after_blank = False
    return "".join(pieces).strip()


def join_prose(lines: list[str]) -> str:
    """Put the lines of a description together, never more than one empty line in a row."""
    prose = "\n".join(lines)
    return (_MANY_BREAKS.sub("\n\n", prose) if "\n\n\n" in prose else prose).strip()


def join_first_paragraph(prose: str) -> str:
    first = prose.partition("\n\n")[0]
    return " ".join(map(str.strip, first.split("\n"))) if "\n" in first else first


def finish_sentence(prose: str) -> str:
    """Write a lone sentence on one line without its full stop; leave anything longer as it is."""
    sentence = prose
    if "\n\n" in prose:
        return prose
    if "\n" in prose:
        lines = prose.split("\n")
        if any(map(_stands_alone, lines)):
            return prose
        sentence = " ".join(lines)
    if _has_more_sentences(sentence):
        return prose
    if (
        not sentence.endswith(".")
        or sentence.endswith(("..", " etc."))
        or _DOTTED_LETTERS.search(sentence[-12:])
    ):
        return sentence
    return sentence[:-1].rstrip() or sentence


def _stands_alone(line: str) -> bool:
    """Tell whether a line would lose its meaning inside a paragraph."""
    if not line or line[0] == " " or _STRUCTURE.match(line):
        return True
    return line[0].isupper() and _LABEL.match(line) is not None


def _has_more_sentences(text: str) -> bool:
    for end in _SENTENCE_END.finditer(text):
        if end[1].isupper():
            before = text[max(0, end.start() - 8) : end.start()].split()
            if not before or before[-1].lower().lstrip("(\"'") not in _NEVER_LAST:
                return True
    return False


def find_examples(lines: list[str]) -> list[str]:
    """Collect what follows `Example:` on its line and, deeper, below it."""
    found: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if match := _EXAMPLE.match(line):
            end = find_block_end(lines, number, indent_of(line))
            below = trim(lines[number:end])
            margin = min((indent_of(deeper) for deeper in below if deeper), default=0)
            text = "\n".join([match[1], *[deeper[margin:] for deeper in below]]).strip("\n")
            found += [text] if text else []
            number = end
    return found
