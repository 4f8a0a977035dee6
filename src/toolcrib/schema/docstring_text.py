"""The text of docstrings: lines, paragraphs, sentences, and types as people write them.

A cleaned line is plain spaces, then text without trailing space; an empty one is "". Nothing is evaluated
or imported: a type that is not certain is no type.
"""

from __future__ import annotations

import operator
import re
from functools import reduce
from types import GenericAlias, NoneType
from typing import Any, Literal

# Quantifiers are possessive where they may meet a long run: docstrings may be hostile, and the time spent
# on them must not grow faster than their length.
_STRUCTURE = re.compile(r"[-*+•] |---|===|#{1,6} |\d{1,3}[.)] |>>> |\.\.\. |```|~~~|\|")
_LABEL = re.compile(r"\w[\w ]{0,30}:(?:\s|$)")
_SENTENCE_END = re.compile(r"[.!?][\"')\]`*]*+\s++[\"'(\[`*]*+(\S)")
_DOTTED_LETTERS = re.compile(r"(?<!\w)\w\.(?:\w\.){1,4}$")
_MANY_BREAKS = re.compile(r"\n{3,}")
_PRINTABLE = bytes(range(0x20, 0x7F)) + b"\n"

_NEVER_LAST = frozenset(("e.g", "i.e", "vs", "cf", "approx", "dr", "mr", "mrs", "ms", "prof", "fig", "eq"))


def clean_lines(text: str) -> list[str]:
    """Split a docstring into lines without the indentation that all but the first share."""
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


def is_printable_ascii(text: str) -> bool:
    """Whether a text consists of printable ASCII characters and newlines."""
    return text.isascii() and not text.encode().translate(None, _PRINTABLE)


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def trim(block: list[str]) -> list[str]:
    """Remove empty lines at both ends."""
    start, end = 0, len(block)
    while start < end and not block[start]:
        start += 1
    while end > start and not block[end - 1]:
        end -= 1
    return block[start:end]


def find_block_end(lines: list[str], start: int, level: int) -> int:
    """Return the index after the lines that are empty or deeper than `level`."""
    deeper = " " * (level + 1)
    end = start
    while end < len(lines) and (not lines[end] or lines[end].startswith(deeper)):
        end += 1
    return end


def flow(first: str, rest: list[str]) -> str:
    """Join a text and its continuation lines: wrapped prose becomes one line, lists and code keep their
    form."""
    filled = [indent_of(line) for line in rest if line]
    if not filled:
        return first
    margin = min(filled)
    # The first continuation line sets the indent of its paragraph.
    level = filled[0] if rest[0] else margin
    pieces = [first]
    is_formatted = is_fenced = after_blank = False
    for line in rest:
        if not line:
            after_blank = True
            continue
        body = line.lstrip(" ")
        if after_blank:
            is_formatted, level = is_fenced, margin
        is_deeper = len(line) - len(body) > level
        is_formatted = is_formatted or is_deeper or _STRUCTURE.match(body) is not None
        if body.startswith(("```", "~~~")):
            is_fenced = not is_fenced
        pieces.append("\n\n" if after_blank else "\n" if is_formatted else " ")
        pieces.append(line[margin:] if is_formatted else body)
        after_blank = False
    return "".join(pieces).strip()


def join_prose(lines: list[str]) -> str:
    """Join the lines of a description, with at most one empty line in a row."""
    prose = "\n".join(lines)
    return (_MANY_BREAKS.sub("\n\n", prose) if "\n\n\n" in prose else prose).strip()


def finish_sentence(prose: str) -> str:
    """Return a single sentence on one line without its full stop, anything longer as it is."""
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
    """Whether a line would lose its meaning inside a paragraph."""
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


_MAX_TYPE_DEPTH = 8

_ROLE = re.compile(r":(?:[a-z]{1,12}:){1,2}(?=`)")
_QUALIFIER = re.compile(
    r"\*?(?:optional|required|keyword[- ]only|positional[- ]only)\*?(?: *+\(?defaults?\b.*)?|defaults?\b.*",
    re.I,
)
_TRAILING_DEFAULT = re.compile(r"\((?:optional|defaults?\b[^()]*+)\)$", re.I)
_TOKEN = re.compile(r"'[^']*+'|\"[^\"]*+\"|[\[({\])}]|,|\|| or ")
_JOINT = re.compile(r" ?\| ?|, ?| or | of ")
_BRACKETED = re.compile(r"[^\W\d][\w.]*+\[.*\](?:(?: ?\| ?| or )[\w.]++)?|\{.*\}")
_SUBSCRIPT = re.compile(r"([\w.]++)\[(.*)\]")
_INTEGER = re.compile(r"-?[0-9]{1,18}")

_USUAL_TYPES = """
    str string int integer float number bool boolean list dict tuple set frozenset bytes object array ndarray
    array_like callable iterator generator None Any List Dict Tuple Set Optional Union Iterator Generator
    AsyncIterator AsyncGenerator Iterable Sequence Mapping Callable Path datetime date Decimal UUID
"""
_TYPE_WORDS = frozenset(_USUAL_TYPES.split())
_BUILTINS: dict[str, Any] = {
    "str": str,
    "string": str,
    "int": int,
    "integer": int,
    "float": float,
    "number": float,
    "bool": bool,
    "boolean": bool,
    "list": list,
    "dict": dict,
    "object": dict,
    "none": NoneType,
}
_CONSTANTS = {"True": True, "False": False, "None": None}


def clean_type(text: str) -> str | None:
    """Return a type without `optional`, `required` and defaults, which the signature has."""
    if "`" in text:
        text = _ROLE.sub("", text).replace("`~", "").replace("`", "")
    text = text.strip()
    if text.endswith(")"):
        text = _TRAILING_DEFAULT.sub("", text).rstrip()
    if "," in text:
        parts = _split_outside(text, ",")
        kept = [part for part in parts if not _QUALIFIER.fullmatch(part)]
        text = text if len(kept) == len(parts) else ", ".join(kept)
    elif _QUALIFIER.fullmatch(text):
        return None
    return text or None


def looks_like_type(text: str) -> bool:
    """Whether a text is a type and not the beginning of a sentence; in doubt, no."""
    if text in _TYPE_WORDS:
        return True
    if len(text) > 200 or _is_sentence(text):
        return False
    return _BRACKETED.fullmatch(text) is not None or all(map(_is_type_word, _JOINT.split(text)))


def _is_sentence(text: str) -> bool:
    """Whether the first two words show a sentence: a type has spaces only where two are joined."""
    first, space, rest = text.partition(" ")
    if not space or first[-1:] in ("", ",", "|") or "[" in text or "{" in text:
        return False
    return not rest.startswith(("|", "or ", "of "))


def _is_type_word(word: str) -> bool:
    if word in _TYPE_WORDS or _BRACKETED.fullmatch(word):
        return True
    # Plain and capitalised words prove nothing; CamelCase and dotted.paths do.
    if word.isidentifier():
        return word[0].isupper() and not word.isupper() and any(char.isupper() for char in word[1:])
    return "." in word and all(part.isidentifier() for part in word.split("."))


def _split_outside(text: str, *separators: str) -> list[str]:
    """Split at separators outside of brackets and quotes."""
    parts, start, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif depth <= 0 and mark in separators:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    parts.append(text[start:].strip())
    return parts


def type_hint_of(text: str) -> object | None:
    """Return the builtin hint for the text of a simple type, None where it is not certain."""
    hint = _read_hint(clean_type(text) or "", 0)
    return None if hint is NoneType else hint


def _read_hint(text: str, depth: int) -> Any:
    if depth > _MAX_TYPE_DEPTH:
        return None
    known = _BUILTINS.get(text.removeprefix("typing.").lower())
    if known is not None:
        return known
    alternatives = _split_outside(text, "|", " or ")
    if len(alternatives) > 1:
        return _unite([_read_hint(part, depth + 1) for part in alternatives])
    if text.startswith("{") and text.endswith("}"):
        return _read_literal(text[1:-1])
    if text[:8].lower() == "list of ":
        return _read_list(_to_singular(text[8:].strip()), depth)
    subscript = _SUBSCRIPT.fullmatch(text)
    if subscript is None:
        return None
    return _read_subscript(subscript[1].removeprefix("typing.").lower(), subscript[2], depth)


def _read_subscript(name: str, inner: str, depth: int) -> Any:
    if name == "literal":
        return _read_literal(inner)
    if name == "list":
        return _read_list(inner, depth)
    parts = _split_outside(inner, ",")
    if name == "dict" and len(parts) == 2 and _read_hint(parts[0], depth + 1) is str:
        value = Any if parts[1] == "Any" else _read_hint(parts[1], depth + 1)
        return None if value is None else GenericAlias(dict, (str, value))
    if name in ("optional", "union"):
        hints = [_read_hint(part, depth + 1) for part in parts]
        return _unite([*hints, NoneType] if name == "optional" else hints)
    return None


def _read_list(inner: str, depth: int) -> Any:
    item = Any if inner == "Any" else _read_hint(inner.strip(), depth + 1)
    return None if item is None else GenericAlias(list, (item,))


def _to_singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and name[:-1].lower() in _BUILTINS else name


def _unite(hints: list[Any]) -> Any:
    return None if None in hints else reduce(operator.or_, hints)


def _read_literal(inner: str) -> Any:
    values: list[Any] = []
    for part in _split_outside(inner, ","):
        if len(part) > 1 and part[0] == part[-1] and part[0] in "'\"" and "\\" not in part:
            values.append(part[1:-1])
        elif _INTEGER.fullmatch(part):
            values.append(int(part))
        elif part in _CONSTANTS:
            values.append(_CONSTANTS[part])
        else:
            return None
    return Literal[tuple(values)]
