"""Which words of a docstring a tool's definition has lost.

A docstring is words plus markup: headings, field names, types that repeat the annotations. The markup is
taken off here, in the three styles that the samples use; every word that remains must be somewhere in the
definition, as often as it was written.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

_WORD = re.compile(r"[^\W_]+")

_GOOGLE_HEADING = re.compile(r"^(Args|Returns|Raises|Tags):$")
_GOOGLE_TYPED = re.compile(r"^(    \w+) \([^)]*\):")
_GOOGLE_RETURN_TYPE = re.compile(r"^    (?:str|int|float|bool|list|dict): ")
_NUMPY_RULE = re.compile(r"^-{3,}$")
_NUMPY_TYPED = re.compile(r"^(\w+(?:, \w+)*) : .+$")
_REST_TYPE = re.compile(r"^:(type \w+|rtype):.*$")
_REST_FIELD = re.compile(r"^:(?:param(?: \w+)?|raises)\s+(\w+):|^:returns?:|^\.\. \w+::")

# Where a schema holds words of people, as opposed to its own keywords.
_VALUES = ("description", "title", "const", "default", "enum", "examples")


def words_of(text: str) -> Counter[str]:
    return Counter(word.casefold() for word in _WORD.findall(text))


def lost_words(docstring: str, texts: list[str]) -> Counter[str]:
    """The words of `docstring` that `texts` have not, or have too rarely."""
    return words_of(without_markup(docstring)) - words_of("\n".join(texts))


def without_markup(docstring: str) -> str:
    lines = inspect.cleandoc(docstring).splitlines()
    if any(_NUMPY_RULE.match(line) for line in lines):
        return "\n".join(_numpy(lines))
    if any(_REST_FIELD.match(line) for line in lines):
        return "\n".join(_rest(lines))
    return "\n".join(_google(lines))


def texts_of(entry: dict[str, Any]) -> list[str]:
    """What an entry of a tool list says in words: its name, descriptions, names and values in schemas."""
    texts = [entry["name"], entry.get("title") or "", entry.get("description") or ""]
    for key in ("inputSchema", "outputSchema"):
        texts.extend(_schema_texts(entry.get(key) or {}))
    return texts


def _schema_texts(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _schema_texts(part)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                yield from value
                yield from _schema_texts(list(value.values()))
            elif key in _VALUES:
                yield str(value)
            else:
                yield from _schema_texts(value)


def _google(lines: list[str]) -> Iterator[str]:
    section = ""
    for line in lines:
        if line and not line.startswith(" "):
            # "Note:" and the like are words a reader may want; only these four are structure.
            heading = _GOOGLE_HEADING.match(line)
            section = heading[1] if heading else ""
            if heading:
                continue
        if section == "Args":
            yield _GOOGLE_TYPED.sub(r"\1", line)
        elif section == "Returns":
            yield _GOOGLE_RETURN_TYPE.sub("", line)
        else:
            yield line


def _numpy(lines: list[str]) -> Iterator[str]:
    section = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _NUMPY_RULE.match(following):
            section = line
            yield line if section not in ("Parameters", "Returns", "Raises") else ""
        elif section == "Returns" and not line.startswith(" "):
            continue  # the type
        else:
            yield _NUMPY_TYPED.sub(r"\1", line) if section == "Parameters" else line


def _rest(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not _REST_TYPE.match(line):
            yield _REST_FIELD.sub(_rest_words, line)


def _rest_words(field: re.Match[str]) -> str:
    if field[0].startswith(".."):
        return field[0]  # ".. warning::" is a word a reader may want
    return field[1] or ""
