"""Estimate the number of tokens of a text or a tool definition.

No tokenizer and no vocabulary: a text is split the way tokenizers split it before they look anything up, and
each piece costs what pieces of its kind and length cost on average. The averages were measured against
o200k, the vocabulary of current OpenAI models (docs/searching.md has the errors). Other providers count
differently, but rank texts the same way.
"""

from __future__ import annotations

import re
from typing import Final

from toolcrib.definition import ToolDefinition
from toolcrib.validation import codec

# --- splitting ---------------------------------------------------------------------------------------

_LOWER = "a-zß-öø-ÿ\u0100-\u024f\u1e00-\u1eff"
_UPPER = "A-ZÀ-ÖØ-Þ"
_OTHER_SCRIPTS = "\u0370-\u1dff\u1f00-\u1fff\u2c00-\u2dff\u2e80-\U0010ffff"


def _splitter(lower: str, upper: str, other: str) -> re.Pattern[str]:
    """Return a pattern for words with the character before them, digits, signs, other scripts and space."""
    return re.compile(
        rf"[^\r\n{upper}{lower}0-9{other}]?(?:[{upper}]*[{lower}]+|[{upper}]+)(?:'(?:s|t|re|ve|m|ll|d)\b)?"
        r"|[0-9]{1,3}"
        rf"| ?[^\s{upper}{lower}0-9{other}]+[\r\n/]*"
        r"|\s*[\r\n]+|\s+(?=\s)" + (rf"|[ \"]?[{other}]+" if other else "") + r"|\s+"
    )


_ASCII_PIECES = _splitter("a-z", "A-Z", "")  # four times as fast
_PIECES = _splitter(_LOWER, _UPPER, _OTHER_SCRIPTS)
_OTHER_SCRIPT = re.compile(f"[{_OTHER_SCRIPTS}]")
_ACCENTED = re.compile("[À-ÖØ-öø-ÿ\u0100-\u024f\u1e00-\u1eff]")
_EASTERN = re.compile("[\u0100-\u024f]")

# --- the cost of pieces by length; each letter beyond a table costs _STEP more ------------------------

_STEP = 0.27
_PLAIN = (0, 1.0, 1.0, 1.01, 1.02, 1.03, 1.03, 1.05, 1.06, 1.09, 1.11, 1.12, 1.18, 1.2, 1.4, 1.6, 2.0)
_AFTER_SIGN = (0, 1.01, 1.17, 1.25, 1.27, 1.35, 1.4, 1.55, 1.7, 1.88, 2.1, 2.4, 2.5, 2.6, 2.9, 3.1, 3.3)
_CAPITALS = (0, 1.0, 1.02, 1.2, 1.45, 1.65, 1.68, 1.75, 2.1, 2.4, 2.6, 3.0, 3.3)
_MIXED = (0, 1.0, 1.0, 1.4, 1.95, 2.2, 2.3, 2.3, 2.35, 2.4, 2.5, 2.7)
_ROMANCE = (0, 1.0, 1.0, 1.05, 1.1, 1.17, 1.27, 1.4, 1.5, 1.65, 1.85, 2.0, 2.2, 2.3, 2.6, 3.0, 3.3)
_AGGLUTINATING = (0, 1.0, 1.05, 1.3, 1.6, 1.95, 2.15, 2.45, 2.75, 3.0, 3.2, 3.5, 3.7, 4.1, 4.4, 4.6, 4.9)
_SIGNS = (0, 1.0, 1.01, 1.07, 1.26, 2.1, 2.9, 3.4, 4.1, 4.7, 5.0, 5.5, 6.1)

_SCRIPTS: Final = (
    # last code point, cost of a run, and cost of each character in it
    (0x03FF, 0.21, 0.361),  # Greek
    (0x052F, 0.65, 0.195),  # Cyrillic
    (0x058F, 0.5, 0.4),  # Armenian
    (0x05FF, 0.48, 0.393),  # Hebrew
    (0x08FF, 0.35, 0.31),  # Arabic
    (0x0DFF, 0.4, 0.33),  # Indic scripts
    (0x0EFF, 0.31, 0.412),  # Thai, Lao
    (0x0FFF, 0.5, 0.8),  # Tibetan
    (0x10FF, 0.59, 0.3),  # Burmese, Georgian
    (0x1FFF, 0.5, 0.8),  # Cherokee, Ethiopic, Khmer, ...; old Greek
    (0x2E7F, 0.5, 1.0),
    (0x30FF, 0.39, 0.673),  # kana, and the Japanese around it
    (0x9FFF, 0.36, 0.76),  # Han
    (0xABFF, 0.5, 1.0),
    (0xD7FF, 0.59, 0.504),  # Hangul
    (0x10FFFF, 0.0, 1.6),  # emoji and rare scripts
)

_MAX_CACHED = 50_000
_MAX_CACHED_LENGTH = 24


class _Costs(dict[str, float]):
    """Costs by piece. Words recur, so most of the work is a look-up."""

    def __init__(self, words: tuple[float, ...]) -> None:
        super().__init__()
        self.words = words

    def __missing__(self, piece: str) -> float:
        cost = _cost_of_piece(piece, self.words)
        if len(piece) <= _MAX_CACHED_LENGTH and len(self) < _MAX_CACHED:
            self[piece] = cost
        return cost


_ENGLISH_COSTS = _Costs(_PLAIN)
_WESTERN_COSTS = _Costs(_ROMANCE)
_EASTERN_COSTS = _Costs(_AGGLUTINATING)


def estimate(text: str) -> int:
    """Return about how many tokens a text has."""
    if text.isascii():
        return round(sum(map(_ENGLISH_COSTS.__getitem__, _ASCII_PIECES.findall(text))))
    costs, accents = _ENGLISH_COSTS, len(_ACCENTED.findall(text))  # accented letters tell the language
    if accents * 100 >= len(text):
        costs = _EASTERN_COSTS if len(_EASTERN.findall(text)) * 12 > accents else _WESTERN_COSTS
    return round(sum(map(costs.__getitem__, _PIECES.findall(text))))


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


def _cost_of_piece(piece: str, words: tuple[float, ...]) -> float:
    first = piece[0]
    if first.isalpha() and first.isascii():
        return _cost_of_word(piece, words)
    if first.isspace() and piece.isspace():
        return 1 + len(piece) // 80
    if first.isdecimal() and first.isascii():
        return 1.0
    has_sign = len(piece) > 1 and not first.isalpha() and not _OTHER_SCRIPT.match(first)
    core = piece[1:] if has_sign else piece
    if _OTHER_SCRIPT.match(core):
        point = max(map(ord, core[:8]))  # of the beginning of a run
        start, each = next(costs for last, *costs in _SCRIPTS if point <= last)
        return start + each * len(core)
    if core[0].isalpha():
        return _cost_of_word(core, words if first == " " or not has_sign else _AFTER_SIGN)
    signs = piece.strip()
    is_line = len(set(signs)) == 1  # ----, ....
    cost = 1.0 + len(signs) // 16 if is_line else _look_up(_SIGNS, len(signs), 0.5)
    return cost if signs.isascii() else max(cost, 0.7 * len(signs))


def _cost_of_word(word: str, words: tuple[float, ...]) -> float:
    if word.islower() or word[1:].islower():
        table = words
    elif word.isupper():
        table = _CAPITALS
    else:
        table = _MIXED
    return _look_up(table, len(word))


def _look_up(table: tuple[float, ...], length: int, step: float = _STEP) -> float:
    over = length - len(table) + 1
    return table[length] if over <= 0 else table[-1] + step * over
