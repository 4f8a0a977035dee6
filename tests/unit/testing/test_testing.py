"""The testing kit: clients for tests, fakes for questions, golden definitions and the fuzzer."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import enum
import json
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from toolcrib import Context, Depends, MCPServer, Principal, Result, ToolError, ToolNotFoundError, testing
from toolcrib.catalog.lock import Lock
from toolcrib.context import Answer, Elicitation, SamplingResult
from toolcrib.errors import ConfigurationError, InvalidArgumentsError, RemoteError
from toolcrib.policy import Audit, Limit, Policy, Rule
from toolcrib.testing import UPDATE

VERSIONS = ("2026-07-28", "2025-06-18")
"""One protocol version of each era."""


@dataclass
class Seat:
    side: Literal["window", "aisle"]
    meal: bool = False


def get_stock() -> dict[str, int]:
    return {"tea": 3}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("shop")

    @server.tool
    def take(article: str, stock: Annotated[dict[str, int], Depends(get_stock)], quantity: int = 1) -> int:
        """Take packages from the stock."""
        if quantity < 1 or stock.get(article, 0) < quantity:
            raise ToolError(f"Not enough {article}")
        return stock[article] - quantity

    @server.tool
    async def book(flight: str, ctx: Context) -> str:
        """Book a seat."""
        seat = await ctx.ask("seat", f"Which seat on {flight}?", Seat)
        return "nothing" if seat is None else f"{seat.side} {seat.meal}"

    @server.tool
    async def cancel(flight: str, ctx: Context) -> str:
        """Cancel a flight."""
        return (await ctx.ask("sure", f"Cancel {flight}?")).action

    @server.tool
    async def summarise(text: str, ctx: Context) -> str:
        """Summarise a text."""
        return (await ctx.sample("summary", f"Summarise: {text}")).text

    @server.tool
    async def work(ctx: Context) -> str:
        """Report, and tell who calls."""
        ctx.progress(1, 2, "half")
        ctx.info("working")
        return ctx.principal.name

    return server


# --- clients ---------------------------------------------------------------------------------------------


def test_a_plain_test_calls_tools_with_keywords_or_a_mapping(server: MCPServer) -> None:
    with testing.client(server) as client:
        assert client.call("take", article="tea", quantity=2).structured_content == 1
        assert client.call("take", {"article": "tea"}).structured_content == 2
        result = client.call("take", article="milk")
        assert (result.is_error, result.text) == (True, "Not enough milk")
        assert "did you mean 'article'?" in client.call("take", artikel="tea").text
        assert [tool.name for tool in client.list_tools()][:2] == ["take", "book"]
        with pytest.raises(ToolNotFoundError):
            client.call("steal")


def test_arguments_may_have_any_name() -> None:
    server = MCPServer()

    @server.tool
    def same(name: str, arguments: str, self: str = "") -> str:
        """Return all of it."""
        return f"{name} {arguments} {self}"

    with testing.client(server) as client:
        assert client.call("same", {"name": "a", "arguments": "b", "self": "c"}).text == "a b c"


@pytest.mark.parametrize("version", VERSIONS)
def test_version_principal_and_dependencies_are_chosen(server: MCPServer, version: str) -> None:
    ana = Principal("key:ana", roles=frozenset({"clerk"}))
    fake = {get_stock: lambda: {"milk": 9}}
    with testing.client(server, protocol=version, principal=ana, overrides=fake) as client:
        assert client.client.protocol_version == version
        assert client.call("work").text == "key:ana"
        assert client.call("take", article="milk").text == "8"
        assert (client.progress, client.logs) == ([(1, 2, "half")], [("info", "working")])
        client.run(client.client.ping())
    with testing.client(server, principal="key:bo") as client:
        assert client.call("work").text == "key:bo"
        assert client.call("take", article="milk").is_error, "the override ends with the client"


def test_a_policy_sees_the_principal(server: MCPServer) -> None:
    server.enforce(Policy(rules=[Rule(allow=["work"], who=["key:ana"])]))
    with testing.client(server, principal="key:ana") as client:
        assert [tool.name for tool in client.list_tools()] == ["work"]
    with testing.client(server, principal="key:bo") as client:
        assert client.list_tools() == []


def test_a_name_that_no_caller_has_is_refused(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="use 'key:ana'"), testing.client(server, principal="ana"):
        pass
    with testing.client(server, principal="anonymous") as client:
        assert client.call("work").text == "anonymous"


def test_an_override_of_a_function_that_no_tool_depends_on_is_refused(server: MCPServer) -> None:
    unused = {failure_of: dict}
    text = "No tool depends on 'failure_of'; tools depend on: get_stock"
    with pytest.raises(ValueError, match=text), testing.client(server, overrides=unused):
        pass
    nested = Depends(failure_of)
    fake = {get_stock: lambda stock=nested: stock, failure_of: lambda: {"milk": 2}}
    with testing.client(server, overrides=fake) as client:
        assert client.call("take", article="milk").text == "1", "an override may have dependencies"


def test_a_misspelt_tool_has_a_suggestion(server: MCPServer) -> None:
    with testing.client(server) as client, pytest.raises(ToolNotFoundError) as caught:
        client.call("tak")
    assert caught.value.hint == "did you mean 'take'?"
    with pytest.raises(ConfigurationError) as refused:
        testing.fuzz(server, "tak")
    assert refused.value.hint == "did you mean 'take'?"


def test_a_target_is_enough_and_its_problems_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "kit_tools.py"
    file.write_text('from toolcrib import tool\n\n@tool\ndef one() -> int:\n    "One."\n    return 1\n')
    with testing.client(str(file)) as client:
        assert client.call("one").structured_content == 1
    (tmp_path / "kit_bad.py").write_text("from toolcrib import tool\n\n@tool\ndef bad(*words): ...\n")
    with pytest.raises(ValueError, match=r"takes \*words"), testing.client(str(tmp_path / "kit_bad.py")):
        pytest.fail("it must not start")


def test_the_server_starts_and_stops_in_one_task() -> None:
    tasks: list[Any] = []

    @contextlib.asynccontextmanager
    async def lifespan(_: MCPServer) -> AsyncIterator[str]:
        async with asyncio.TaskGroup():
            tasks.append(asyncio.current_task())
            yield "open"
            tasks.append(asyncio.current_task())

    server = MCPServer(lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        """Return the state."""
        return str(ctx.state)

    for _ in range(2):
        with testing.client(server) as client:
            assert client.call("state").text == "open"
    assert len(tasks) == 4
    assert tasks[0] is tasks[1]
    assert tasks[2] is tasks[3]


def test_the_exception_of_a_test_passes_as_it_is(server: MCPServer) -> None:
    with pytest.raises(KeyError, match="mine"), testing.client(server, answers=["unused"]):
        raise KeyError("mine")


async def test_an_async_test_uses_connect(server: MCPServer) -> None:
    async with testing.connect(server, answers=[{"side": "aisle"}], principal="key:ana") as client:
        assert (await client.call("book", {"flight": "X1"})).text == "aisle False"
        assert (await client.call("work")).text == "key:ana"
    with pytest.raises(RuntimeError, match=re.escape("use `async with testing.connect(...)`")):
        testing.client(server).__enter__()
    with pytest.raises(AssertionError, match="No question used these answers: 'x'; questions: none"):
        async with testing.connect(server, answers=["x"]):
            pass


async def test_the_loop_of_an_async_test_is_left_alone(server: MCPServer) -> None:
    """A client in a thread, as in `asyncio.to_thread`, neither uses nor replaces it."""

    def take() -> Any:
        with testing.client(server) as client:
            return client.call("take", article="tea").structured_content

    assert await asyncio.to_thread(take) == 2
    assert asyncio.get_running_loop().is_running()


made = 0


def make_server() -> MCPServer:
    global made
    made += 1
    server = MCPServer("made")
    server.tool(count)
    return server


def count() -> int:
    """Return how many servers were made."""
    return made


client = testing.fixture(make_server)
samples = testing.fixture("toolcrib.samples", protocol="2025-06-18")


seen: set[object] = set()


@pytest.mark.parametrize("_number", [1, 2])
def test_a_fixture_makes_a_server_for_each_test(client: testing.SyncClient, _number: int) -> None:
    servers = client.call("count").structured_content
    assert servers not in seen
    seen.add(servers)


def test_a_fixture_takes_the_same_as_a_client(samples: testing.SyncClient) -> None:
    assert samples.call("math_add", a=1, b=2).text == "1 + 2 = 3"
    assert samples.client.protocol_version == "2025-06-18"


def test_the_kit_needs_neither_pytest_nor_hypothesis(tmp_path: Path) -> None:
    script = """if True:
        import sys
        for name in ("pytest", "_pytest", "hypothesis"):
            sys.modules[name] = None  # importing it fails
        from toolcrib import testing
        assert "math_add" in testing.fuzz("toolcrib.samples", "math_add", calls=3).valid
        with testing.client("toolcrib.samples") as client:
            assert client.call("echo", message="x").text == "Echo: x"
    """
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=60)


# --- questions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_by_a_text_in_the_question(server: MCPServer, version: str) -> None:
    answers = {"Which seat": {"side": "window", "meal": True}, "Cancel": True, "Summarise": "short"}
    with testing.client(server, answers=answers, protocol=version) as client:
        assert client.call("book", flight="X1").text == "window True"
        assert client.call("book", flight="X2").text == "window True"
        assert client.call("cancel", flight="X1").text == "accept"
        assert client.call("summarise", text="long").text == "short"
        asked = [getattr(question, "message", "") for question in client.asked]
        assert asked == ["Which seat on X1?", "Which seat on X2?", "Cancel X1?", ""]


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_in_order(server: MCPServer, version: str) -> None:
    answers = [testing.DECLINE, "aisle", testing.CANCEL, False, SamplingResult("brief")]
    with testing.client(server, answers=answers, protocol=version) as client:
        assert client.call("book", flight="X1").text == "nothing"
        assert client.call("book", flight="X1").text == "aisle False"
        assert client.call("cancel", flight="X1").text == "cancel"
        assert client.call("cancel", flight="X1").text == "decline"
        assert client.call("summarise", text="long").text == "brief"


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_of_a_function(server: MCPServer, version: str) -> None:
    async def later(question: Elicitation) -> Answer:
        return Answer("accept", {"side": "aisle" if "X1" in question.message else "window"})

    with testing.client(server, answers=later, protocol=version) as client:
        assert client.call("book", flight="X1").text == "aisle False"
        assert client.call("book", flight="X2").text == "window False"
    with testing.client(server, answers=lambda _: "window", protocol=version) as client:
        assert client.call("book", flight="X2").text == "window False"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"Cancel": True}, "No answer was given for the question 'Which seat on X1?'"),
        ([], "No answer was given for the question 'Which seat on X1?'"),
        ([True], "The answer to 'Which seat on X1?' does not fit: 'side': required, but missing"),
        ([{"side": "top"}], "does not fit: 'side': expected one of"),
        ([{"side": "aisle", "colour": "red"}], "does not fit: 'colour'"),
    ],
)
def test_a_question_without_a_fitting_answer_fails_the_test(
    server: MCPServer, version: str, answers: Any, problem: str
) -> None:
    failing = pytest.raises(AssertionError, match=re.escape(problem))
    with failing, testing.client(server, answers=answers, protocol=version) as client:
        client.call("book", flight="X1")


@pytest.mark.parametrize(
    ("answers", "unused"),
    [
        ({"Which": "aisle", "Why": "late"}, "'Why'"),
        (["aisle", "window"], "'window'"),
    ],
)
def test_an_answer_without_a_question_fails_the_test(server: MCPServer, answers: Any, unused: str) -> None:
    problem = f"No question used these answers: {unused}; questions: 'Which seat on X1?'"
    failing = pytest.raises(AssertionError, match=re.escape(problem))
    with failing, testing.client(server, answers=answers) as client:
        client.call("book", flight="X1")


def test_without_answers_the_client_cannot_be_asked(server: MCPServer) -> None:
    with testing.client(server) as client, pytest.raises(RemoteError, match="cannot be asked"):
        client.call("cancel", flight="X1")
    with testing.client(server, protocol="2025-06-18") as client:
        assert "cannot be asked" in client.call("cancel", flight="X1").text
    with pytest.raises(TypeError, match="not a string"), testing.client(server, answers="yes"):
        pytest.fail("it must not start")


# --- golden definitions ------------------------------------------------------------------------------------


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CI", UPDATE):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "tools.golden.json"


def shop(description: str = "Take some.", **quantity: Any) -> MCPServer:
    server = MCPServer("shop")
    schema = {"type": "object", "properties": {"quantity": {"type": "integer", **quantity}}}
    server.tool("take", description, schema)(lambda arguments: str(arguments))
    return server


def test_a_golden_file_is_written_once_and_then_compared(golden: Path) -> None:
    testing.assert_definitions(shop(), golden)
    written = golden.read_bytes()
    assert [tool.name for tool in Lock.load(golden).tools] == ["take"]
    testing.assert_definitions(shop(), golden)
    with pytest.raises(AssertionError) as caught:
        testing.assert_definitions(shop(maximum=5), golden)
    shown = str(caught.value)
    assert shown.startswith(f"Definitions differ from {golden}:\n  take\n    breaking")
    assert "maximum" in shown or "5" in shown
    assert "TOOLCRIB_UPDATE=1" in shown
    assert golden.read_bytes() == written


def test_changes_below_a_grade_may_pass(golden: Path) -> None:
    testing.assert_definitions(shop(), golden)
    with pytest.raises(AssertionError, match=r"cosmetic|compatible"):
        testing.assert_definitions(shop("Take a few."), golden)
    testing.assert_definitions(shop("Take a few."), golden, fail_on="breaking")
    with pytest.raises(AssertionError, match="breaking"):
        testing.assert_definitions(shop(maximum=5), golden, fail_on="breaking")


def test_a_tool_that_comes_or_goes_is_a_change(golden: Path) -> None:
    testing.assert_definitions(shop(), golden)
    more = shop()
    more.tool("give", "Give some.", {"type": "object", "properties": {}})(lambda arguments: "")
    with pytest.raises(AssertionError, match=r"give\n +compatible +it is new"):
        testing.assert_definitions(more, golden)
    with pytest.raises(AssertionError, match=r"take\n +breaking +it was removed"):
        testing.assert_definitions(MCPServer(), golden)


def test_an_update_is_asked_for(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    testing.assert_definitions(shop(), golden)
    testing.assert_definitions(shop(maximum=5), golden, update=True)
    testing.assert_definitions(shop(maximum=5), golden)
    monkeypatch.setenv(UPDATE, "1")
    testing.assert_definitions(shop(maximum=6), golden)
    monkeypatch.setenv(UPDATE, "0")
    testing.assert_definitions(shop(maximum=6), golden)


def test_a_missing_file_fails_in_ci(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="There is no golden file"):
        testing.assert_definitions(shop(), golden)
    assert not golden.exists()


def test_a_relative_path_is_beside_the_file_of_the_test(golden: Path) -> None:
    caller = golden.with_name("kit_caller.py")
    caller.write_text("def check(server): testing.assert_definitions(server, 'tools.golden.json')\n")
    names: dict[str, Any] = {"testing": testing}
    exec(compile(caller.read_text(), str(caller), "exec"), names)
    names["check"](shop())
    assert golden.exists()


# --- the fuzzer --------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    age: Annotated[int, Field(ge=0, le=40)] = 1


@dataclass
class Node:
    number: int
    next: Node | None = None


def test_valid_and_invalid_arguments_are_found_for_all_kinds_of_parameters() -> None:
    server = MCPServer()
    seen: list[dict[str, Any]] = []

    @server.tool
    def many(
        whole: int,
        number: float,
        flag: bool,
        numbers: list[int],
        scores: dict[str, float],
        pet: Pet,
        node: Node,
        colour: Colour,
        moment: dt.datetime,
        day: dt.date,
        hour: dt.time,
        pause: dt.timedelta,
        key: uuid.UUID,
        price: Decimal,
        data: bytes,
        anything: Any,
        either: int | str | list[int],
        pair: tuple[int, str],
        unique: set[int],
        short: Annotated[str, Field(min_length=3, max_length=5)],
        ratio: Annotated[float, Field(gt=0, lt=1)],
        steps: Annotated[int, Field(multiple_of=5)],
        by_number: dict[int, str],
        other: Pet | None = None,
    ) -> None:
        """Take one of each."""
        seen.append(dict(locals()))

    report = testing.fuzz(server, calls=20)
    assert (report.valid["many"], report.invalid["many"], report.errors["many"]) == (20, 20, 0)
    assert len(seen) == 20, "invalid arguments do not reach the function"
    assert {call["colour"] for call in seen} == set(Colour)
    assert {call["other"] is None for call in seen} == {True, False}
    assert any(call["node"].next for call in seen)


def test_the_samples_stand_it() -> None:
    report = testing.fuzz("toolcrib.samples", calls=20)
    assert list(report.valid) == ["hello_world", "echo", "get_time", "math_add", "debug_info"]
    assert report.errors["get_time"] > 0, "an unknown time zone is an error that is meant"
    assert "math_add: 20 valid calls (0 errors), 20 invalid\n" in str(report)


def test_a_run_of_slow_tools_prints_its_progress_and_ends_at_its_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.testing.fuzzer._PROGRESS_S", 0.2)
    server = MCPServer()

    @server.tool
    def slow(number: int) -> int:
        threading.Event().wait(0.15)
        return number

    @server.tool
    def last(number: int) -> int:
        return number

    report = testing.fuzz(server, calls=50, limit_s=0.5)
    assert 3 <= report.valid["slow"] < 50
    assert report.unfinished == ["slow", "last"]
    assert 0.15 <= report.slowest["slow"] < 10
    assert "slow: not finished, the time was up\n" in str(report)
    assert "slow: a call of slow took 0." in str(report)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(re.fullmatch(r"fuzz: \d+ calls of slow, the slowest took \d+\.\d s", line) for line in lines)


def failure_of(server: MCPServer, *names: str, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        testing.fuzz(server, *names, **options)
    return str(caught.value)


def arguments_in(text: str) -> Any:
    found = re.search(r"arguments: (.*)", text)
    assert found is not None, text
    return json.loads(found[1])


@pytest.fixture
def flawed() -> MCPServer:
    server = MCPServer()

    @server.tool
    def divide(number: Annotated[int, Field(ge=0, le=5)]) -> int:
        """Divide ten."""
        return 10 // number

    @server.tool
    def fine(text: str) -> str:
        """Return it."""
        return text

    @server.tool
    def promise(text: str) -> int:
        """Return a number."""
        return text  # type: ignore[return-value]

    return server


def test_a_crash_is_found_and_can_be_repeated(flawed: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AssertionError) as caught:
        testing.fuzz(flawed, "divide", "fine", seed=7)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    text = str(caught.value)
    assert text.startswith("divide: it raised an exception: ZeroDivisionError")
    assert text.endswith("repeat: testing.fuzz(..., 'divide', seed=7)")
    assert arguments_in(text) == {"number": 0}
    assert failure_of(flawed, "divide", seed=7) == text, "not changed by the other tools"
    assert caplog.records == []


def test_a_result_outside_of_the_output_schema_is_found(flawed: MCPServer) -> None:
    text = failure_of(flawed)
    assert "promise: Tool 'promise' returned a result that cannot be sent" in text
    assert "divide: " in text
    assert "fine" not in text
    assert "repeat: testing.fuzz(..., 'divide', 'promise', seed=0)" in text


def test_a_result_that_middleware_has_changed_is_checked_too(flawed: MCPServer) -> None:
    @flawed.middleware
    async def replace(call: Any, following: Any) -> Result:
        await following(call)
        return Result.of("three", "three")

    assert "fuzz" in failure_of(flawed, "promise")
    server = MCPServer(middleware=[replace])
    server.tool("one", "One.", output_schema={"type": "integer"})(lambda: 1)
    assert "one: its output schema does not allow this result: 'three'" in failure_of(server)


def test_a_tool_that_ignores_its_schema_is_found() -> None:
    async def cached(call: Any, following: Any) -> Result:
        result = await following(call)
        return Result.of("from the cache", 1) if result.is_error else result

    server = MCPServer(middleware=[cached])

    @server.tool
    def whole(number: int) -> int:
        """Return it."""
        return number

    text = failure_of(server)
    assert text.startswith("whole: it was called with arguments that its schema does not allow")
    assert type(arguments_in(text).get("number")) is not int


def test_a_function_that_was_reached_by_invalid_arguments_is_found() -> None:
    """It refuses them itself, in the same way as toolcrib, but it has run."""

    async def change_result(call: Any, following: Any) -> Result:
        call.arguments = {"number": 3}
        return await following(call)

    server = MCPServer(middleware=[change_result])
    runs: list[int] = []

    @server.tool
    def whole(number: int) -> int:
        """Return it."""
        runs.append(number)
        if len(runs) > 5:
            raise InvalidArgumentsError("not this one")
        return number

    assert "whole: it was called with arguments" in failure_of(server, calls=5)


class Even(BaseModel):
    number: int

    def model_post_init(self, _: Any) -> None:
        if self.number % 2:
            raise ValueError("must be even")


def test_a_schema_that_allows_more_than_the_tool_takes_is_found() -> None:
    server = MCPServer()

    @server.tool
    def half(even: Even) -> int:
        """Return its half."""
        return even.number // 2

    assert "half: it refused arguments that its schema allows" in failure_of(server)
    testing.fuzz(server, values={"half.even": [{"number": 2}, {"number": 4}]})


def test_a_tool_that_hangs_is_found() -> None:
    server = MCPServer()

    @server.tool
    async def wait(ctx: Context) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    assert "did not finish within 0.05 s" in failure_of(server, timeout_s=0.05)


def test_destructive_tools_are_called_only_when_asked_for() -> None:
    server = MCPServer()
    calls: list[int] = []

    @server.tool(destructive=True)
    def delete(number: int) -> None:
        """Delete it."""
        calls.append(number)

    report = testing.fuzz(server)
    assert (report.skipped, list(report.valid), calls) == (["delete"], [], [])
    assert "delete: skipped, it is destructive" in str(report)
    assert testing.fuzz(server, "del*").skipped == ["delete"]
    assert testing.fuzz(server, "delete", calls=3).valid["delete"] == len(calls) == 3
    assert testing.fuzz(server, destructive=True, calls=3).valid["delete"] == 3


def test_values_and_fakes_lead_deeper(server: MCPServer) -> None:
    report = testing.fuzz(server, "take", calls=10)
    assert report.errors["take"] == 10
    values = {"article": ["milk"], "take.quantity": [1, 2]}
    report = testing.fuzz(server, "take", values=values, overrides={get_stock: lambda: {"milk": 2}}, calls=10)
    assert report.errors["take"] == 0


def test_rules_apply_to_the_fuzzer_and_limits_and_the_audit_log_do_not(
    server: MCPServer, tmp_path: Path
) -> None:
    policy = Policy(
        rules=[Rule(allow=["take", "work"])], limits=[Limit(rate="1/h")], audit=Audit(tmp_path / "audit.db")
    )
    server.enforce(policy)
    overrides = {get_stock: lambda: {"milk": 1}}
    report = testing.fuzz(
        server, values={"take.article": ["milk"], "take.quantity": [1]}, overrides=overrides
    )
    assert (list(report.valid), report.errors.total()) == (["take", "work"], 0)
    assert list(tmp_path.iterdir()) == []
    with testing.client(server) as client:
        assert not client.call("work").is_error
        assert "Too many calls" in client.call("work").text
    assert (tmp_path / "audit.db").exists()


def test_the_fuzzer_answers_questions(server: MCPServer) -> None:
    names = ("book", "cancel", "summarise")
    assert testing.fuzz(server, *names, calls=3).errors.total() == 9, "nobody can be asked"
    answers = {"seat": "aisle", "Cancel": True, "Summarise": "short"}
    assert testing.fuzz(server, *names, calls=3, answers=answers).errors.total() == 0
    server.enforce(Policy(rules=[Rule(confirm=["work"])]))
    assert testing.fuzz(server, "work", answers=lambda _: True).errors.total() == 0
    assert testing.fuzz(server, "work", answers=lambda _: False).errors.total() == 1
    with pytest.raises(AssertionError, match="No answer was given for the question 'Cancel"):
        testing.fuzz(server, "cancel", answers={"seat": "aisle"})


def test_arguments_that_cannot_be_drawn_are_a_failure() -> None:
    server = MCPServer()
    odd = {"type": "object", "properties": {"a": {"type": "string", "not": {"type": "string"}}}}
    server.tool("odd", "Odd.", {**odd, "required": ["a"]})(lambda arguments: "")
    assert failure_of(server).startswith("odd: no valid arguments were found; give values=")


def test_a_run_without_tools_is_a_failure() -> None:
    assert failure_of(MCPServer()) == "There are no tools that local may call"


def test_anything_that_repair_accepts_is_not_taken_for_invalid() -> None:
    server = MCPServer()
    seen: list[Any] = []

    @server.tool
    def add(numbers: list[int]) -> int:
        """Add them."""
        seen.append(numbers)
        return sum(numbers)

    report = testing.fuzz(server, calls=100, seed=3)
    assert report.invalid["add"] > 20
    assert len(seen) == report.valid["add"]


@pytest.fixture(autouse=True)
def _no_loop_is_left() -> Iterator[None]:
    yield
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_resources_and_prompts_are_tested_without_async() -> None:
    server = MCPServer("books")

    @server.resource("books://{number}")
    def book(number: int) -> str:
        return f"Book {number}"

    @server.prompt
    def review(title: str) -> str:
        return f"Review {title}"

    with testing.client(server) as client:
        assert client.read("books://7")[0].text == "Book 7"
        assert client.get_prompt("review", title="Emma").messages[0].text == "Review Emma"


def test_a_client_without_async_lists_and_completes() -> None:
    server = MCPServer("shop")
    server.add_resource("shop://terms", "No refunds")

    @server.resource("shop://orders/{number}")
    def order(number: str) -> str:
        return number

    @server.prompt
    def greet(tone: Literal["kind", "firm"]) -> str:
        return tone

    with testing.client(server) as client:
        assert [item.uri for item in client.list_resources()] == ["shop://terms"]
        assert [item.uri_template for item in client.list_resource_templates()] == ["shop://orders/{number}"]
        (prompt,) = client.list_prompts()
        assert prompt.name == "greet"
        assert client.complete(prompt, "tone", "k").values == ["kind"]
        assert client.complete("greet", "tone", "f", {"other": "x"}).values == ["firm"]
