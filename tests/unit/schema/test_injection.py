"""Injection: `Annotated[T, Depends(function)]`."""

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from toolcrib import Context, Depends, InvalidArgumentsError, MCPServer, Principal, ToolError
from toolcrib.context import Answer
from toolcrib.errors import DefinitionError, InvalidSignatureError, InvalidToolError, ToolTimeoutError

EVENTS: list[Any] = []


@pytest.fixture(autouse=True)
def no_events() -> None:
    EVENTS.clear()


class Db:
    def __init__(self, name: str = "real") -> None:
        self.name = name


def get_db() -> Db:
    EVENTS.append("made")
    return Db()


async def get_db_async() -> Db:
    await asyncio.sleep(0)
    return get_db()


def open_db() -> Iterator[Db]:
    EVENTS.append("open")
    try:
        yield Db()
    except BaseException as error:
        EVENTS.append(type(error).__name__)
        raise
    finally:
        EVENTS.append("close")


async def open_db_async() -> AsyncIterator[Db]:
    await asyncio.sleep(0)
    EVENTS.append("open")
    try:
        yield Db()
    except BaseException as error:
        EVENTS.append(type(error).__name__)
        raise
    finally:
        await asyncio.sleep(0)
        EVENTS.append("close")


FACTORIES = [get_db, get_db_async, open_db, open_db_async, Db]
CLEANING = [open_db, open_db_async]


def make_tools(factory: Callable[..., Any]) -> MCPServer:
    server = MCPServer(timeout_s=5)

    def sync_tool(query: str, db: Any) -> str:
        if query == "fail":
            raise KeyError("no such row")
        EVENTS.append("run")
        return f"{query} in {db.name}"

    async def async_tool(query: str, db: Any) -> str:
        await asyncio.sleep(0)
        return sync_tool(query, db)

    for function in (sync_tool, async_tool):
        function.__annotations__["db"] = Annotated[Db, Depends(factory)]
        server.add(function)
    return server


both_tools = pytest.mark.parametrize("name", ["sync_tool", "async_tool"])


@both_tools
@pytest.mark.parametrize("factory", FACTORIES)
async def test_every_kind_of_function_provides_a_value(name: str, factory: Callable[..., Any]) -> None:
    assert (await make_tools(factory).call(name, {"query": "x"})).text == "x in real"


@both_tools
@pytest.mark.parametrize("factory", CLEANING)
async def test_clean_up_runs_after_the_tool(name: str, factory: Callable[..., Any]) -> None:
    await make_tools(factory).call(name, {"query": "x"})
    assert EVENTS == ["open", "run", "close"]


@both_tools
@pytest.mark.parametrize("factory", CLEANING)
async def test_clean_up_sees_the_exception_of_the_tool(name: str, factory: Callable[..., Any]) -> None:
    result = await make_tools(factory).call(name, {"query": "fail"})
    assert "failed unexpectedly" in result.text
    assert EVENTS == ["open", "KeyError", "close"]


@both_tools
async def test_an_injected_parameter_is_not_published_and_cannot_be_sent(name: str) -> None:
    server = make_tools(get_db)
    schema = server.registry.get(name).definition.input_schema
    assert list(schema["properties"]) == ["query"]
    assert schema["required"] == ["query"]
    result = await server.call(name, {"query": "x", "db": "theirs"})
    assert isinstance(result.error, InvalidArgumentsError)
    assert EVENTS == []


async def test_a_context_manager_function_is_entered() -> None:
    server = make_tools(contextlib.asynccontextmanager(open_db_async))
    assert (await server.call("async_tool", {"query": "x"})).text == "x in real"
    server = make_tools(contextlib.contextmanager(open_db))
    assert (await server.call("sync_tool", {"query": "x"})).text == "x in real"
    assert EVENTS == ["open", "run", "close"] * 2


def get_user(ctx: Context, db: Annotated[Db, Depends(open_db)]) -> str:
    EVENTS.append("user")
    return f"{ctx.principal.name} of {db.name}"


async def get_rights(user: Annotated[str, Depends(get_user)], limit: int = 3) -> str:
    return f"{user}, {limit} rights"


Rights = Annotated[str, Depends(get_rights)]


@pytest.mark.parametrize("is_async", [False, True])
async def test_dependencies_are_nested_and_run_once_in_a_call(is_async: bool) -> None:
    server = MCPServer()

    def sync_tool(rights: Rights, user: Annotated[str, Depends(get_user)]) -> str:
        return f"{user}: {rights}"

    async def async_tool(rights: Rights, user: Annotated[str, Depends(get_user)]) -> str:
        return sync_tool(rights, user)

    server.add(async_tool if is_async else sync_tool, name="show")
    for _ in range(2):
        result = await server.call("show", principal=Principal("key:ada"))
        assert result.text == "key:ada of real: key:ada of real, 3 rights"
        assert EVENTS == ["open", "user", "close"]
        EVENTS.clear()


async def test_clean_up_runs_in_reverse_order() -> None:
    def outer() -> Iterator[int]:
        yield 1
        EVENTS.append("outer")

    def inner(value: Annotated[int, Depends(outer)]) -> Iterator[int]:
        yield value
        EVENTS.append("inner")

    server = MCPServer()

    @server.tool
    def show(value: Annotated[int, Depends(inner)]) -> int:
        return value

    await server.call("show")
    assert EVENTS == ["inner", "outer"]


async def test_the_default_style_works_too() -> None:
    server = MCPServer()

    @server.tool
    def show(query: str = "x", name: str = Depends(lambda: "injected")) -> str:  # type: ignore[assignment]
        return query + name

    assert list(server.registry.get("show").definition.input_schema["properties"]) == ["query"]
    assert (await server.call("show")).text == "xinjected"


async def test_a_tool_keeps_its_own_context_and_positional_parameters() -> None:
    server = MCPServer()

    @server.tool
    def show(ctx: Context, query: str, /, *, user: Annotated[str, Depends(get_user)]) -> str:
        return f"{ctx.tool} {query} {user}"

    assert (await server.call("show", {"query": "x"})).text == "show x local of real"


async def test_a_handler_with_an_explicit_schema_is_injected() -> None:
    server = MCPServer()
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}

    @server.tool("whole", "Take everything", schema)
    async def whole(arguments: dict[str, Any], db: Annotated[Db, Depends(open_db)]) -> str:
        return f"{arguments['query']} in {db.name}"

    assert (await server.call("whole", {"query": "x"})).text == "x in real"


async def test_generators_hold_their_dependencies_until_their_last_item() -> None:
    server = MCPServer()

    @server.tool
    def rows(db: Annotated[Db, Depends(open_db)]) -> Iterator[str]:
        yield db.name
        EVENTS.append("last")

    @server.tool
    async def async_rows(db: Annotated[Db, Depends(open_db_async)]) -> AsyncIterator[str]:
        yield db.name
        EVENTS.append("last")

    for name in ("rows", "async_rows"):
        assert (await server.call(name)).structured_content == ["real"]
        assert EVENTS == ["open", "last", "close"]
        EVENTS.clear()


async def test_a_decorated_async_function_runs_before_the_clean_up() -> None:
    async def find(db: Annotated[Db, Depends(open_db_async)]) -> str:
        await asyncio.sleep(0)
        EVENTS.append("run")
        return db.name

    @functools.wraps(find)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return find(*args, **kwargs)

    server = MCPServer()
    server.add(wrapper)
    assert (await server.call("find")).text == "real"
    assert EVENTS == ["open", "run", "close"]


# --- failing -----------------------------------------------------------------------------------------


@both_tools
async def test_a_failing_dependency_is_reported_with_its_line(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def get_broken() -> Db:
        raise ZeroDivisionError("the database is gone")

    server = make_tools(get_broken)
    with caplog.at_level(logging.ERROR, "toolcrib"):
        result = await server.call(name, {"query": "x"})
        server.dispatcher.crashes.flush()
    assert result.text.startswith(f"Tool '{name}' failed unexpectedly (reference ")
    assert "test_injection.py" in caplog.text
    assert 'raise ZeroDivisionError("the database is gone")' in caplog.text


@both_tools
async def test_a_message_for_the_model_may_come_from_a_dependency(name: str) -> None:
    def get_refused() -> Db:
        raise ToolError("Log in first.")

    assert (await make_tools(get_refused).call(name, {"query": "x"})).text == "Log in first."


@both_tools
async def test_anything_that_was_opened_before_a_failing_dependency_is_closed(name: str) -> None:
    def get_broken(db: Annotated[Db, Depends(open_db)]) -> Db:
        raise KeyError("broken")

    assert (await make_tools(get_broken).call(name, {"query": "x"})).is_error
    assert EVENTS == ["open", "KeyError", "close"]


@both_tools
async def test_a_dependency_cannot_hide_the_failure_of_its_tool(name: str) -> None:
    def swallow() -> Iterator[Db]:
        with contextlib.suppress(KeyError):
            yield Db()

    result = await make_tools(swallow).call(name, {"query": "fail"})
    assert result.is_error
    assert "failed unexpectedly" in result.text


async def test_clean_up_runs_when_an_async_tool_times_out_or_is_cancelled() -> None:
    server = MCPServer()
    running = asyncio.Event()

    @server.tool
    async def hang(db: Annotated[Db, Depends(open_db_async)]) -> str:
        running.set()
        await asyncio.Event().wait()
        return db.name

    result = await server.call("hang", timeout_s=0.01)
    assert isinstance(result.error, ToolTimeoutError)
    assert EVENTS == ["open", "CancelledError", "close"]
    EVENTS.clear()
    running.clear()
    call = asyncio.create_task(server.call("hang"))
    await running.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert EVENTS == ["open", "CancelledError", "close"]


async def test_blocking_clean_up_of_an_async_tool_does_not_block_the_event_loop() -> None:
    server = MCPServer()
    release = threading.Event()

    def open_slow() -> Iterator[Db]:
        yield Db()
        EVENTS.append("released" if release.wait(5) else "nobody could release it")

    @server.tool
    async def use(db: Annotated[Db, Depends(open_slow)]) -> str:
        asyncio.get_running_loop().call_later(0.01, release.set)  # runs while the clean-up waits
        return db.name

    assert (await server.call("use")).text == "real"
    assert EVENTS == ["released"]


async def test_a_failing_clean_up_of_an_async_tool_is_its_failure() -> None:
    server = MCPServer()

    def open_failing() -> Iterator[Db]:
        yield Db()
        raise ToolError("the database is gone")

    @server.tool
    async def use(db: Annotated[Db, Depends(open_failing)]) -> str:
        return db.name

    result = await server.call("use")
    assert (result.is_error, result.text) == (True, "the database is gone")


async def test_clean_up_of_a_thread_runs_when_its_code_has_ended() -> None:
    server = MCPServer()
    release, closed = threading.Event(), threading.Event()

    async def open_watched() -> AsyncIterator[Db]:
        async with contextlib.asynccontextmanager(open_db_async)() as db:
            yield db
        closed.set()

    @server.tool
    def block(db: Annotated[Db, Depends(open_watched)]) -> str:
        release.wait(5)
        return db.name

    result = await server.call("block", timeout_s=0.5)
    assert isinstance(result.error, ToolTimeoutError)
    assert EVENTS == ["open"]  # the code still uses it
    release.set()
    assert await asyncio.to_thread(closed.wait, 5)
    assert EVENTS == ["open", "close"]


async def test_a_thread_that_waits_for_an_async_dependency_ends_with_its_call() -> None:
    server = MCPServer()
    ended = threading.Event()

    async def never() -> Db:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Db()

    @server.tool
    def show(db: Annotated[Db, Depends(never)]) -> str:
        return db.name

    result = await server.call("show", timeout_s=0.01)
    assert isinstance(result.error, ToolTimeoutError)
    assert await asyncio.to_thread(ended.wait, 5)


async def test_a_call_that_asks_closes_its_dependencies_and_opens_them_again() -> None:
    server = MCPServer()

    @server.tool
    async def drop(ctx: Context, db: Annotated[Db, Depends(open_db)]) -> str:
        return "dropped" if await ctx.ask("sure", "Drop it?") else db.name

    async def answer(_: Any) -> Answer:
        return Answer("accept")

    async with server.connect(on_ask=answer) as client:
        assert (await client.call("drop")).text == "dropped"
    assert EVENTS[-1] == "close"
    assert EVENTS.count("open") == EVENTS.count("close")


# --- overriding --------------------------------------------------------------------------------------


@both_tools
@pytest.mark.parametrize("factory", CLEANING)
async def test_a_test_replaces_a_dependency(name: str, factory: Callable[..., Any]) -> None:
    server = make_tools(factory)
    with server.override(factory, lambda: Db("fake")):
        assert (await server.call(name, {"query": "x"})).text == "x in fake"
    assert EVENTS == ["run"]
    assert (await server.call(name, {"query": "x"})).text == "x in real"


async def test_a_replacement_may_be_async_nested_and_clean_up() -> None:
    async def fake(user: Annotated[str, Depends(get_user)]) -> AsyncIterator[Db]:
        yield Db(user)
        EVENTS.append("fake closed")

    server = make_tools(get_db)
    server.dependency_overrides[get_db] = fake  # as in FastAPI
    assert (await server.call("sync_tool", {"query": "x"})).text == "x in local of real"
    assert EVENTS == ["open", "user", "run", "fake closed", "close"]


async def test_a_nested_dependency_is_replaced() -> None:
    server = MCPServer()

    @server.tool
    def show(rights: Rights) -> str:
        return rights

    with server.override(open_db, lambda: Db("fake")):
        assert (await server.call("show")).text == "local of fake, 3 rights"
    with server.override(get_user, lambda: "eve"):
        assert (await server.call("show")).text == "eve, 3 rights"


# --- definitions that are refused --------------------------------------------------------------------


def refusal(function: Callable[..., Any], **options: Any) -> DefinitionError:
    server = MCPServer()
    with pytest.raises(InvalidSignatureError) as caught:
        server.add(function, strict=True, **options)
    return caught.value


def test_a_dependency_gets_no_arguments_of_the_client() -> None:
    def get_url(url: str) -> str:
        return url

    def show(url: Annotated[str, Depends(get_url)]) -> str:
        return url

    error = refusal(show)
    text = "Parameter 'url' of tool 'show' depends on 'get_url', which takes 'url': nothing provides it"
    assert error.message == text
    assert error.hint is not None
    assert "Depends" in error.hint
    assert error.source.line == get_url.__code__.co_firstlineno


def test_dependencies_that_need_each_other_are_refused() -> None:
    def first(value: Any) -> int:
        return 1

    def second(value: Annotated[int, Depends(first)]) -> int:
        return value

    first.__annotations__["value"] = Annotated[int, Depends(second)]

    def show(value: Annotated[int, Depends(first)]) -> int:
        return value

    assert "depends on 'first', which depends on itself" in refusal(show).message


def test_a_tool_in_a_process_cannot_be_injected() -> None:
    def show(db: Annotated[Db, Depends(get_db)]) -> str:
        return db.name

    error = refusal(show, run="process")
    assert error.message == "Parameter 'db' of tool 'show' is injected, but the tool runs in another process"
    assert error.hint == "make the value inside the tool, or use run='thread'"


async def test_an_inline_tool_takes_sync_dependencies_only() -> None:
    def show(db: Annotated[Db, Depends(get_db_async)]) -> str:
        return db.name

    error = refusal(show, run="inline")
    assert "'get_db_async', which is async, but the tool runs inline" in error.message

    def show_sync(db: Annotated[Db, Depends(open_db)]) -> str:
        return db.name

    server = MCPServer()
    server.add(show_sync, run="inline")
    assert (await server.call("show_sync")).text == "real"
    with server.override(open_db, get_db_async):
        assert "cannot run as it is defined" in (await server.call("show_sync")).text


def test_a_called_function_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidToolError) as caught:
        Depends(get_db())  # type: ignore[arg-type]
    assert caught.value.hint == "name the function without calling it: Depends(get_db)"


def test_the_depends_of_another_library_is_refused_by_name() -> None:
    fastapi_depends = type("Depends", (), {"__module__": "fastapi.params"})

    def show(db: Annotated[Db, fastapi_depends()]) -> str:
        return db.name

    error = refusal(show)
    assert error.message.endswith("'db' of tool 'show' has a Depends of fastapi, which toolcrib does not run")
    assert error.hint == "import Depends from toolcrib"


def test_other_tools_keep_their_handler() -> None:
    def plain(query: str) -> str:
        return query

    server = MCPServer()
    server.add(plain)
    tool = server.registry.get("plain")
    assert tool.definition.name == "plain"
    assert tool.handler is plain
    assert tool.arguments.context is None
