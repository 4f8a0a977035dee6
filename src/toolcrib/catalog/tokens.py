"""Estimate the number of tokens of a text or a tool definition.

No tokenizer and no vocabulary: a text is split into words, numbers, signs and runs of other scripts, and
each piece costs what pieces of its kind and length cost on average in o200k, the vocabulary of current OpenAI
models (docs/searching.md has the errors). Other providers count differently, but rank texts the same way.
"""

from __future__ import annotations

import re

from toolcrib.definition import ToolDefinition
from toolcrib.validation import codec

_UPPER, _LOWER = "A-ZÀ-Þ", "a-zß-\u024f\u1e00-\u1eff"
_PIECES = re.compile(
    rf"[{_UPPER}]?[{_LOWER}]+|[{_UPPER}]+|[0-9]{{1,3}}|[^\x00-\u024f\u1e00-\u1eff]+"
    r"|[^\w\s]+|_+|\s*\n\s*|\s{2,}|[^\W_]"
)
_SCRIPTS = (
    # last code point, and cost of each character
    ("\u03ff", 0.37),  # Greek
    ("\u058f", 0.24),  # Cyrillic, Armenian
    ("\u08ff", 0.33),  # Hebrew, Arabic
    ("\u0dff", 0.34),  # Indic scripts
    ("\u0fff", 0.42),  # Thai, Lao, Tibetan
    ("\u1fff", 0.5),
    ("\u2fff", 1.0),  # punctuation and symbols
    ("\u30ff", 0.61),  # kana, and the Japanese around it
    ("\u9fff", 0.78),  # Han
    ("\uffff", 0.56),  # Hangul
    ("\U0010ffff", 1.5),  # emoji and rare scripts
)


def estimate(text: str) -> int:
    """Return about how many tokens a text has."""
    return max(1, round(sum(map(_cost_of_piece, _PIECES.findall(text))))) if text else 0


def cost_of(definition: ToolDefinition) -> int:
    """Return about how many tokens a tool costs in every request: name, description and input schema.

    Output schemas, hints and icons do not reach the model. The part that a provider adds differs by about a
    dozen tokens.
    """
    shown = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.input_schema,
    }
    return estimate(codec.write(shown).decode())


def _cost_of_piece(piece: str) -> float:
    first, length, last = piece[0], len(piece), max(piece[:8])
    if last > "\u1eff" or "\u024f" < last < "\u1e00":
        return 0.3 + next(cost for end, cost in _SCRIPTS if last <= end) * length
    if first.isalpha():
        if piece.isascii():
            return 1 + (0.25 * max(0, length - 2) if piece.isupper() else 0.17 * max(0, length - 8))
        accents = 0.18 if last < "\u0100" else 0.4 if last < "\u1e00" else 0.1  # the last is Vietnamese
        return 1 + accents * max(0, length - 2)
    if first == "_":
        return 0.3 + length // 16
    if first.isspace():
        return 1 + length // 80
    if first.isdigit():
        return 1.0
    return 1 + length // 16 if len(set(piece)) == 1 else 1 + 0.4 * max(0, length - 4)  # ----, or other signs
