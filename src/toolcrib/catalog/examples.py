"""The examples in a docstring: what follows `Ejemplo:` or `Example:`, on its line and indented below it.

One heading in the singular is one example, however many lines it has; `Examples:` and `Ejemplos:` may hold
several. Knows lines; refuses to know whether an example is right.
"""

from __future__ import annotations

import re

from toolcrib.schema.docstring_layout import clean_lines, find_block_end, indent_of, trim

_HEADING = re.compile(r" *+(?:[Ee]xample|[Ee]jemplo)(s?)::?(?!:)\s*+(.*)")
_TITLE = re.compile(r" *+(?:[Ee]xample|[Ee]jemplo)(s?):?")
_UNDERLINE = re.compile(r" *+--+")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,3}[.)]) +")
_PROMPT = ">>>"
_CLOSING = (")", "]", "}", '"""', "'''", "```", "~~~")


def examples_in(text: str | None) -> list[str]:
    """Every example in a text, in order."""
    if not text or ("xample" not in text and "jemplo" not in text):
        return []
    lines = clean_lines(text)
    found: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if match := _HEADING.fullmatch(line):
            end = find_block_end(lines, number, indent_of(line))
        elif (
            (match := _TITLE.fullmatch(line)) and number < len(lines) and _UNDERLINE.fullmatch(lines[number])
        ):
            number += 1
            end = _find_title(lines, number)
        else:
            continue
        first = match[2] if match.re is _HEADING else ""
        below = _dedent(trim(lines[number:end]))
        if match[1]:
            found += [first] if first else []
            found += _split(below)
        elif first or below:
            found.append("\n".join([first, *below] if first else below))
        number = end
    return found


def _find_title(lines: list[str], start: int) -> int:
    """Where the next underlined title begins, or the text ends."""
    for number in range(start, len(lines) - 1):
        if lines[number] and _UNDERLINE.fullmatch(lines[number + 1]):
            return number
    return len(lines)


def _dedent(block: list[str]) -> list[str]:
    margin = min((indent_of(line) for line in block if line), default=0)
    return [line[margin:] for line in block]


def _split(block: list[str]) -> list[str]:
    """The examples in a block: by bullets, by prompts, by empty lines, or one for each line."""
    if any(_BULLET.match(line) for line in block):
        begins = [_BULLET.match(line) is not None for line in block]
        block = [
            _BULLET.sub("", line, count=1) if new else line for line, new in zip(block, begins, strict=True)
        ]
    elif any(line.startswith(_PROMPT) for line in block):
        begins = _find_prompts(block)
    elif "" in block:
        begins = _find_paragraphs(block)
    elif any(line.startswith(("```", "~~~")) for line in block):
        begins = [False] * len(block)
    else:
        begins = [indent_of(line) == 0 and not line.startswith(_CLOSING) for line in block]
    found: list[list[str]] = []
    for line, begins_here in zip(block, begins, strict=True):
        if begins_here or not found:
            found.append([])
        found[-1].append(line)
    return [text for part in found if (text := "\n".join(_dedent_rest(trim(part))))]


def _find_prompts(block: list[str]) -> list[bool]:
    """A prompt begins an example where what was before it is an answer, or nothing."""
    begins = []
    for number, line in enumerate(block):
        before = block[number - 1] if number else ""
        begins.append(line.startswith(_PROMPT) and not before.startswith((_PROMPT, "...")))
    return begins


def _find_paragraphs(block: list[str]) -> list[bool]:
    """A paragraph begins after an empty line; what stands between fences is one, empty lines and all."""
    begins, fenced = [], False
    for number, line in enumerate(block):
        begins.append(
            number > 0 and not block[number - 1] and not fenced and indent_of(line) == 0 and bool(line)
        )
        if line.startswith(("```", "~~~")):
            fenced = not fenced
    return begins


def _dedent_rest(part: list[str]) -> list[str]:
    """The lines of an example, without what those below the first have in common where a bullet stood."""
    return (
        [*part[:1], *_dedent(part[1:])]
        if len(part) > 1 and all(line[:1] in ("", " ") for line in part[1:])
        else part
    )
