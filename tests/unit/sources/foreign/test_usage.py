"""What a function does with its Context, read off its source."""

from __future__ import annotations

from typing import Any

from toolcrib.sources.foreign.usage import find_gaps, find_refusals, uses_of


async def plain(ctx: Any) -> None:
    await ctx.info("x")
    await ctx.session.create_message([], max_tokens=1)
    ctx.request_context.lifespan_context["db"].query("ctx.session.send_ping")


async def aliased(ctx: Any) -> None:
    session = ctx.session
    await session.send_ping()
    session = object()
    session.other  # noqa: B018


async def detour(ctx: Any) -> None:
    await ctx.request_context.session.send_resource_updated("a://b")
    print(ctx.request_context.experimental, ctx.request_context.nothing)


async def nested(ctx: Any) -> None:
    async def inside() -> None:
        await ctx.notify_tools_changed()

    await inside()


async def web(context: Any) -> None:
    print(context.headers, context.request_context.request, context.fastmcp.add_tool)


def decorate(function: Any) -> Any:
    return function


@decorate
@decorate
async def decorated(ctx: Any) -> None:
    await ctx.enable_components(names={"a"})


def test_attributes_are_found_in_order_and_words_in_texts_are_not() -> None:
    assert uses_of(plain, "ctx") == [
        ("info",),
        ("session", "create_message"),
        ("request_context", "lifespan_context"),
    ]


def test_what_can_be_given_is_not_refused() -> None:
    assert list(find_refusals(plain, "ctx")) == []


def test_a_variable_that_holds_the_session_is_followed_until_it_holds_something_else() -> None:
    assert [written for written, _ in find_refusals(aliased, "ctx")] == ["ctx.session.send_ping"]


def test_the_way_through_the_request_context_is_the_same_session() -> None:
    assert [written for written, _ in find_refusals(detour, "ctx")] == [
        "ctx.request_context.session.send_resource_updated",
        "ctx.request_context.nothing",
    ]


def test_functions_inside_the_function_count() -> None:
    assert [written for written, _ in find_refusals(nested, "ctx")] == ["ctx.notify_tools_changed"]


def test_decorators_do_not_hide_a_function() -> None:
    assert [written for written, _ in find_refusals(decorated, "ctx")] == ["ctx.enable_components"]


def test_what_comes_empty_or_without_effect_is_told() -> None:
    assert [written for written, _ in find_gaps(web, "context")] == [
        "context.headers",
        "context.request_context.request",
        "context.fastmcp.add_tool",
    ]


def test_a_function_without_source_is_not_looked_at() -> None:
    scope: dict[str, Any] = {}
    exec("async def f(ctx): await ctx.session.send_ping()", scope)

    assert uses_of(scope["f"], "ctx") == []
    assert uses_of(len, "ctx") == []
