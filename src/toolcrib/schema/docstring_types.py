"""Types as docstrings write them: trimming their text, telling them from prose, turning the simple ones real.

Knows the spellings people use ("str, optional", "list of int", "{'a', 'b'}") and the handful of builtin hints
they stand for. Refuses to evaluate anything, to import what a name may refer to, and to guess: a text it is
not sure of is not a hint.
"""

from __future__ import annotations

import operator
import re
from functools import reduce
from types import GenericAlias, NoneType
from typing import Any, Literal

_DEEPEST = 8  # no honest type nests deeper, and a stranger's text must not exhaust the stack

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
    """Take off a type what is not type: optional, required, a default (the signature has the real one)."""
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
    """Tell a type from the beginning of a sentence; in doubt it is a sentence."""
    if text in _TYPE_WORDS:
        return True
    if len(text) > 200 or _is_sentence(text):
        return False
    return _BRACKETED.fullmatch(text) is not None or all(map(_is_type_word, _JOINT.split(text)))


def _is_sentence(text: str) -> bool:
    """Tell by its first two words, where that is enough: a type has a space only where two are joined."""
    first, space, rest = text.partition(" ")
    if not space or first[-1:] in ("", ",", "|") or "[" in text or "{" in text:
        return False
    return not rest.startswith(("|", "or ", "of "))


def _is_type_word(word: str) -> bool:
    if word in _TYPE_WORDS or _BRACKETED.fullmatch(word):
        return True
    # A plain word proves nothing, nor does the capital of a sentence; CamelCase and dotted.paths do.
    if word.isidentifier():
        return word[0].isupper() and not word.isupper() and any(char.isupper() for char in word[1:])
    return "." in word and all(part.isidentifier() for part in word.split("."))


def _split_outside(text: str, *separators: str) -> list[str]:
    """Split at separators that stand outside brackets and quotes."""
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
    """Turn the text of a simple type into the builtin hint it stands for; None where that is not certain."""
    hint = _read_hint(clean_type(text) or "", 0)
    return None if hint is NoneType else hint


def _read_hint(text: str, depth: int) -> Any:
    if depth > _DEEPEST:
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
