"""Convert results and exceptions of adopted functions.

Images, content blocks and result objects of both libraries become a Result; other values are data.
Exceptions meant for the caller become ToolError. Classes are recognised by name, including subclasses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from toolcrib.content import Block, Result, text_block
from toolcrib.errors import ToolError
from toolcrib.sources.foreign.recognition import PACKAGES, package_of

_PLAIN = frozenset({bool, bytes, float, int, str, type(None), dict})
_TOLD = frozenset(
    {"AuthorizationError", "MCPError", "McpError", "ResourceError", "ToolError", "ValidationError"}
)
"""Errors whose words their author, or the library, meant to be read."""
_WRAPPING = "Error executing tool "


def to_own(value: Any) -> Any:
    """A returned value with everything that is theirs made ours."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return Result(list(_blocks_of(value))) if _has_content(value) else value
    convert = _converter_of(kind)
    return value if convert is None else convert(value)


def input_required_of(value: Any) -> Any:
    """What a function returns that wants to be called again with answers; None for a result."""
    if type(value) in _PLAIN:
        return None
    for cls in type(value).__mro__:
        if package_of(cls) in PACKAGES and cls.__name__ == "InputRequiredResult":
            return value
    return getattr(value, "input_required", None) if _is_theirs(type(value)) else None


def explain(error: BaseException) -> BaseException:
    """Their error as ours, if its words were meant to be read; any other as it is."""
    cause = error.__cause__
    if cause is not None and _is_wrapping(error, cause):
        return explain(cause)
    for cls in type(error).__mro__:
        if cls.__name__ in _TOLD and package_of(cls) in PACKAGES:
            code = getattr(getattr(error, "error", None), "code", None)
            return ToolError(str(error), details=None if code is None else {"code": code})
    return error


def _is_wrapping(error: BaseException, cause: BaseException) -> bool:
    """Whether the SDK's own `run` has put this error around the one that the tool raised. What it makes of
    wrong arguments has no other words than its own."""
    about_arguments = any(cls.__name__ == "ValidationError" for cls in type(cause).__mro__)
    return _is_theirs(type(error)) and str(error).startswith(_WRAPPING) and not about_arguments


# --- content -----------------------------------------------------------------------------------------


def _is_theirs(kind: type) -> bool:
    return any(package_of(cls) in PACKAGES for cls in kind.__mro__)


def _has_content(values: Iterable[Any]) -> bool:
    return any(
        _has_content(item) if isinstance(item, list | tuple) else _is_content(item)
        for item in values
        if type(item) not in _PLAIN
    )


def _is_content(value: Any) -> bool:
    kind: Any = type(value)
    return _converter_of(kind) is not None


def _blocks_of(values: Iterable[Any]) -> Iterable[Any]:
    """One block for each item; what is no content is text."""
    for item in values:
        if isinstance(item, list | tuple):
            yield from _blocks_of(item)
            continue
        own = to_own(item)
        if isinstance(own, Result):
            yield from own.content
        else:
            yield text_block(own) if isinstance(own, str) else text_block(_as_text(own))


def _as_text(value: Any) -> str:
    # Loaded late: nearly no result has data between pictures, and pydantic takes long to load.
    from toolcrib.schema import pydantic as rich
    from toolcrib.validation import codec

    return codec.encode_text(rich.to_plain(value))


@functools.lru_cache(maxsize=1024)
def _converter_of(kind: Any) -> Callable[[Any], Result] | None:
    for cls in kind.__mro__:
        if package_of(cls) in PACKAGES and cls.__name__ in _CONVERTERS:
            return _CONVERTERS[cls.__name__]
    return None


def _from_whole(value: Any) -> Result:
    structured = _field(value, "structured_content", "structuredContent")
    failed = _field(value, "is_error", "isError")
    meta = _field(value, "meta", "meta")
    if isinstance(meta, dict):
        meta = {key: item for key, item in meta.items() if key != "fastmcp"} or None  # its own bookkeeping
    blocks = [_dump(block) for block in value.content]
    return Result(blocks, structured, bool(failed), structured is not None, meta)


def _field(value: Any, name: str, older: str) -> Any:
    """A field under the name it has since 2.0, or under the one before; asking for a wrong one may warn."""
    fields = type(value).model_fields
    return getattr(value, name if name in fields else older) if name in fields or older in fields else None


def _dump(block: Any) -> Block:
    dumped: Block = block.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


_CONVERTERS: dict[str, Callable[[Any], Result]] = {
    "CallToolResult": _from_whole,
    "ToolResult": _from_whole,
    "Image": lambda value: Result([_dump(value.to_image_content())]),
    "Audio": lambda value: Result([_dump(value.to_audio_content())]),
    "File": lambda value: Result([_dump(value.to_resource_content())]),
    **dict.fromkeys(
        ("TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "ResourceLink"),
        lambda value: Result([_dump(value)]),
    ),
}
