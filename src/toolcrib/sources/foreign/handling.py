"""Handlers for adopted functions, and the conversion of their results and exceptions.

Images, content blocks and result objects of both libraries become a Result; other values are data.
Exceptions meant for the caller become ToolError. Classes are recognised by name, including subclasses.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolcrib.content import Block, Result, text_block
from toolcrib.context import Context, Question
from toolcrib.errors import ToolError
from toolcrib.schema.parameters import is_async_callable
from toolcrib.sources.foreign.context import Lending, answer_of, give_answers, question_of, to_wire
from toolcrib.sources.foreign.offer import Offer
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
    from toolcrib.schema import pydantic_types
    from toolcrib.validation import codec

    return codec.encode_text(pydantic_types.to_plain(value))


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


CONTEXT = "toolcrib_context"
"""The parameter through which our Context comes in."""
MAX_ROUNDS = 16
"""How often a function may return questions instead of a result."""

Handler = Callable[..., Any]


def handler_of(offer: Offer, lender: Lending) -> tuple[Handler, bool]:
    """What runs the function of an offer, and whether it takes our Context."""
    function = offer.function
    assert function is not None  # nosec B101  # offers without one are run by `runner_of`
    if offer.injected:
        return _injecting(offer, lender), True
    if inspect.isasyncgenfunction(function):
        function = _gathering(function)
    is_async = is_async_callable(function)
    if not offer.contexts and not lender.is_ambient:
        return (_plain_async if is_async else _plain)(function), False
    return (_lending_async if is_async else _lending)(function, offer.contexts, lender), True


def runner_of(offer: Offer, lender: Lending) -> Handler:
    """What runs an offer in its own library's way, on JSON arguments."""

    async def run_theirs(arguments: dict[str, Any], toolcrib_context: Context) -> Any:
        with lender.lend(toolcrib_context) as theirs:
            value = await _until_answered(
                lambda: offer.run(dict(arguments), theirs), theirs, toolcrib_context
            )
            return offer.unwrap(value)

    return run_theirs


# --- functions ---------------------------------------------------------------------------------------


def _plain(function: Handler) -> Handler:
    def call(*args: Any, **values: Any) -> Any:
        try:
            value = function(*args, **values)
        except Exception as error:
            raise explain(error)
        return _finish_later(value) if inspect.isawaitable(value) else to_own(value)

    return call


async def _finish_later(value: Any) -> Any:
    """A plain function may hand back something to await."""
    try:
        return to_own(await value)
    except Exception as error:
        raise explain(error)


def _plain_async(function: Handler) -> Handler:
    async def call(*args: Any, **values: Any) -> Any:
        try:
            value = await function(*args, **values)
        except Exception as error:
            raise explain(error)
        return to_own(value)

    return call


def _gathering(function: Handler) -> Handler:
    async def call(*args: Any, **values: Any) -> list[Any]:
        return [item async for item in function(*args, **values)]

    return call


def _lending(function: Handler, contexts: tuple[str, ...], lender: Lending) -> Handler:
    def call(*args: Any, toolcrib_context: Context, **values: Any) -> Any:
        with lender.lend(toolcrib_context) as theirs:
            values.update(dict.fromkeys(contexts, theirs))
            for number in range(MAX_ROUNDS):
                try:
                    value = function(*args, **values)
                except Exception as error:
                    raise explain(error)
                if inspect.isawaitable(value):
                    return _finish_later(value)
                needed = input_required_of(value)
                if needed is None:
                    return to_own(value)
                questions = _questions_in(needed, number)
                replies = toolcrib_context.ask_all(questions) if questions else {}
                _hand_over(theirs, needed, questions, replies)
        raise _too_many_rounds()

    return call


def _lending_async(function: Handler, contexts: tuple[str, ...], lender: Lending) -> Handler:
    async def call(*args: Any, toolcrib_context: Context, **values: Any) -> Any:
        with lender.lend(toolcrib_context) as theirs:
            values.update(dict.fromkeys(contexts, theirs))
            return await _until_answered(lambda: function(*args, **values), theirs, toolcrib_context)

    return call


def converts_again(offer: Offer, lender: Lending) -> bool:
    """Whether the function gets arguments that their library converts once more."""
    return bool(offer.injected) and _find_resolver(lender) is None


def _find_resolver(lender: Lending) -> Any:
    """The function of their library that fills parameters without converting the others."""
    dependencies = sys.modules.get("fastmcp.server.dependencies")
    return getattr(dependencies, "resolve_dependencies", None) if lender.is_ambient else None


def _injecting(offer: Offer, lender: Lending) -> Handler:
    """For functions with parameters that only their library can fill: it does, and calls."""
    resolve = _find_resolver(lender)
    if resolve is not None:
        return _injecting_fast(offer.function, resolve, lender)
    run = runner_of(offer, lender)

    async def call(*_: Any, toolcrib_context: Context, **__: Any) -> Any:
        # Their resolvers want the arguments as their own validation makes them.
        return await run(dict(toolcrib_context.arguments), toolcrib_context)

    return call


def _injecting_fast(function: Any, resolve: Any, lender: Lending) -> Handler:
    is_async = is_async_callable(function) and not inspect.isasyncgenfunction(function)

    async def call(*_: Any, toolcrib_context: Context, **values: Any) -> Any:
        async def once() -> Any:
            async with theirs, resolve(function, values) as filled:
                if inspect.isasyncgenfunction(function):
                    return [item async for item in function(**filled)]
                # In a thread of asyncio's, because what was injected has to be closed on this loop after it.
                value = await (function(**filled) if is_async else asyncio.to_thread(function, **filled))
                return list(value) if inspect.isgenerator(value) else value

        with lender.lend(toolcrib_context) as theirs:
            return await _until_answered(once, theirs, toolcrib_context)

    return call


# --- asking by returning questions -------------------------------------------------------------------


async def _until_answered(call: Callable[[], Any], theirs: Any, context: Context) -> Any:
    """Call until there is a result. A function may return questions, and finds the answers in its Context
    when it is called again."""
    for number in range(MAX_ROUNDS):
        try:
            value = await call()
        except Exception as error:
            raise explain(error)
        needed = input_required_of(value)
        if needed is None:
            return to_own(value)
        questions = _questions_in(needed, number)
        replies = await context.ask_all(questions) if questions else {}
        _hand_over(theirs, needed, questions, replies)
    raise _too_many_rounds()


def _questions_in(needed: Any, number: int) -> dict[str, Question]:
    """The questions that were returned. Keys of later rounds are made different from those of the first."""
    asked = {key: to_wire(request) for key, request in (needed.input_requests or {}).items()}
    prefix = "" if number == 0 else f"{number + 1}:"
    return {
        f"{prefix}{key}": question_of(request["method"], request.get("params") or {})
        for key, request in asked.items()
    }


def _hand_over(
    theirs: Any, needed: Any, questions: Mapping[str, Question], replies: Mapping[str, Any]
) -> None:
    keys = list(needed.input_requests or ())
    answers = {
        key: answer_of(question, replies[own])
        for key, (own, question) in zip(keys, questions.items(), strict=True)
    }
    give_answers(theirs, answers or None, needed.request_state)


def _too_many_rounds() -> ToolError:
    return ToolError(f"This tool asked {MAX_ROUNDS} times without coming to a result.")
