"""Type variables get their arguments: in generic classes, their bases, and type aliases.

Knows what `typing` keeps on generic objects. Refuses to know what the types mean.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

_LONGEST_ALIAS = 32  # an alias of an alias of ..., but not for ever


def origin_of(hint: Any) -> Any:
    """`typing.get_origin`, with a short cut for plain classes, which have none."""
    return None if type(hint) is type else typing.get_origin(hint)


def substitute(hint: Any, arguments: Mapping[Any, Any]) -> Any:
    """The hint with its type variables replaced; those that no argument is known for stay."""
    if hint in arguments:
        return arguments[hint]
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type) or not any(item in arguments for item in parameters):
        return hint
    return hint[tuple(arguments.get(item, item) for item in parameters)]


def arguments_by_class(hint: Any) -> dict[type, dict[Any, Any]]:
    """For a class and each of its bases, what its type variables stand for, seen from `hint`."""
    found: dict[type, dict[Any, Any]] = {}
    waiting = [hint]
    while waiting:
        item = waiting.pop()
        cls = origin_of(item) or item
        arguments = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(item), strict=False))
        found.setdefault(cls, arguments)
        bases = vars(cls).get("__orig_bases__") or getattr(cls, "__bases__", ())
        waiting.extend(
            substitute(base, arguments)
            for base in bases
            if origin_of(base) not in (typing.Generic, typing.Protocol)
        )
    return found


def is_alias(hint: Any) -> bool:
    """Whether this was made by a `type` statement, or by the class behind it."""
    return type(hint).__name__ == "TypeAliasType"


def unalias(hint: Any) -> Any:
    """What a `type X = ...` stands for, its arguments filled in; any other hint is itself."""
    for _ in range(_LONGEST_ALIAS):
        if is_alias(hint):
            hint = hint.__value__
        elif is_alias(origin := origin_of(hint)):
            arguments = dict(zip(origin.__type_params__, typing.get_args(hint), strict=False))
            hint = substitute(origin.__value__, arguments)
        else:
            break
    return hint
