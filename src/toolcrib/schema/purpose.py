"""What a hint is there for: to ask for the Context, to promise data, or to send media and text.

Knows the classes of this library that functions name in their hints. Refuses to know shapes and schemas.
"""

from __future__ import annotations

import typing
from typing import Any

from toolcrib.content import MEDIA, Result
from toolcrib.context import Context
from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.annotations import origin_of
from toolcrib.schema.hints import ARRAYS, split_optional
from toolcrib.schema.parameters import EMPTY, Callee

_UNSAID = (EMPTY, Any, object, typing.NoReturn, typing.Never, None, type(None), str, typing.LiteralString)
"""Result hints that tell of no data."""


def is_context(hint: Any, callee: Callee, name: str, parameter: str) -> bool:
    """Whether a parameter asks for the Context. One that asks for another library's is refused."""
    bare = hint.__origin__ if origin_of(hint) is typing.Annotated else hint
    cls = origin_of(bare) or bare
    if not isinstance(cls, type):
        return False
    if cls.__name__ == "Context" and cls.__module__.partition(".")[0] in ("mcp", "fastmcp"):
        raise InvalidSignatureError(
            f"Parameter '{parameter}' of tool '{name}' asks for the Context of {cls.__module__}, "
            "which is not there in a call by toolcrib",
            tool=name,
            parameter=parameter,
            source=callee.source,
            hint="annotate it with toolcrib.Context",
        )
    return issubclass(cls, Context)


def is_structured(hint: Any) -> bool:
    """Whether a result of this hint is data. Text, nothing, media and whole results are not."""
    bare, _ = split_optional(hint)
    origin = origin_of(bare)
    if origin is typing.Annotated:
        return is_structured(bare.__origin__)
    if isinstance(bare, typing.NewType):
        return is_structured(bare.__supertype__)
    if origin in ARRAYS:
        return not any(_is_content(item) for item in typing.get_args(bare))
    return not (bare in _UNSAID or _is_content(bare))


def _is_content(hint: Any) -> bool:
    members = typing.get_args(hint) if origin_of(hint) else (hint,)
    return any(isinstance(item, type) and issubclass(item, (*MEDIA, Result)) for item in members)
