"""Hints that name plain types and nothing else, as most do: each is read once, and then remembered.

Knows text, numbers and truth values; lists, dicts and unions of them; and literals of visible text. It asks
hints.py what they mean, so both always say the same, and leaves every other hint to it. What is remembered is
shared by all tools: shapes are not changed once they are made, and conversions keep nothing.
"""

from __future__ import annotations

import typing
from types import GenericAlias, NoneType, UnionType
from typing import Any, Final, NamedTuple

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.conversion import Convert
from toolcrib.schema.dumper import dumper
from toolcrib.schema.hints import HintReader, split_optional
from toolcrib.schema.loader import loader
from toolcrib.schema.shapes import Shape

_MOST: Final = 2_000
"""How many hints are remembered: a program has some dozens, one that makes them up must not fill memory."""

_LONGEST: Final = 5_000
"""How much text a literal may hold."""

_TYPES = frozenset({str, int, float, bool})
_MEMBERS = _TYPES | {NoneType}
_CONTAINERS = frozenset({list, dict})
_TEXT = frozenset({str})
_LITERAL = type(typing.Literal["a"])
_UNIONS = frozenset({UnionType, type(typing.Optional[int])})  # noqa: UP045 - the older way to write it


class PlainHint(NamedTuple):
    """All that building a tool asks of a hint. `bare` is its shape without None, `load_bare` the loader of
    that; `is_data` tells whether a result of this hint is more than text. Simple defaults of the type
    `fitting`, or among the `choices`, need no further look."""

    shape: Shape
    load: Convert | None
    bare: Shape
    load_bare: Convert | None
    accepts_none: bool
    is_data: bool
    dump: Convert | None
    fitting: type | None
    choices: tuple[str, ...]


def find_plain(hint: Any) -> PlainHint | None:
    """What a plain hint comes to; None for every other hint."""
    kind = type(hint)
    if kind is type:
        return _KNOWN.get(hint)
    # By their parts in order, and not by themselves: `int | str` equals `str | int`, and says another thing.
    if kind is GenericAlias:
        key = (hint.__origin__, hint.__args__)
    elif kind in _UNIONS:
        key = (UnionType, hint.__args__)
    elif kind is _LITERAL and _TEXT.issuperset(map(type, hint.__args__)):
        key = (_LITERAL, hint.__args__)
    else:
        return None
    try:
        found = _KNOWN.get(key)
    except TypeError:  # metadata within that has no hash
        return None
    if found is None and _is_plain(hint) and len(_KNOWN) < _MOST:
        try:
            found = _KNOWN[key] = _read(hint)
        except InvalidSignatureError:  # keys that JSON cannot have: whoever builds the tool is told
            return None
    return found


def _is_plain(hint: Any) -> bool:
    if type(hint) in _UNIONS:
        return all(item in _MEMBERS or _is_container(item) for item in hint.__args__)
    if type(hint) is _LITERAL:
        values = "".join(typing.get_args(hint))
        return len(values) <= _LONGEST and values.isascii() and values.isprintable()
    return _is_container(hint)


def _is_container(hint: Any) -> bool:
    """Whether this is a list or a dict of plain types, or of such lists and dicts; no union is in it."""
    return (
        type(hint) is GenericAlias
        and hint.__origin__ in _CONTAINERS
        and all(item in _TYPES or _is_container(item) for item in hint.__args__)
    )


def _read(hint: Any) -> PlainHint:
    reader = HintReader()
    shape = reader.shape(hint)
    bare_hint, accepts_none = split_optional(hint)
    bare = reader.shape(bare_hint) if accepts_none else shape
    return PlainHint(
        shape,
        loader(shape),
        bare,
        loader(bare),
        accepts_none,
        bare_hint is not str,
        dumper(shape),
        bare_hint if bare_hint in _TYPES else None,
        typing.get_args(hint) if type(hint) is _LITERAL else (),
    )


_KNOWN: dict[Any, PlainHint] = {hint: _read(hint) for hint in (*_TYPES, *_CONTAINERS)}
