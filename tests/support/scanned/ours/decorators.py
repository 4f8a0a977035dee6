# doubts: guessed-decorator
"""Decorators beside @tool, known and unknown."""

import functools

from toolcrib import MCPServer, tool

server = MCPServer("decorated")


def logged(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


def retried(times: int):
    def decorate(function):
        @functools.wraps(function)
        async def inner(*args, **kwargs):
            return await function(*args, **kwargs)

        return inner

    return decorate


def same(function):
    function.seen = True
    return function


def offered(function):
    return server.tool(name=None)(function)


@tool
@logged
def below(a: int) -> int:
    """With a wrapper below."""
    return a


@logged
@tool(title="Above")
def above(a: int) -> int:
    """With a wrapper above."""
    return a


@server.tool
@retried(3)
async def factory(a: int) -> int:
    """With a factory of wrappers."""
    return a


@tool
@same
@functools.lru_cache(maxsize=10)
def cached(a: int) -> int:
    """With a cache."""
    return a


@offered
def through_own(a: str) -> str:
    """Registered by a decorator of one's own."""
    return a


class Counting:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


@tool
@Counting
def counted(a: int) -> int:
    """With an object around it."""
    return a
