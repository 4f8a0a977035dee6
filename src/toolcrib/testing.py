"""Test your tools: a client for plain tests, fakes for questions, golden definitions, and a fuzzer.

    from toolcrib import testing

    def test_taking_returns_what_is_left():
        with testing.client("tools.py") as client:
            assert client.call("take", article="tea").structured_content == 2

Everything takes a server, or whatever `server.add` takes. Nothing here needs a test framework.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.catalog.diff import GRADES, Grade
from toolcrib.catalog.diff.compare import Comparison, compare
from toolcrib.catalog.lock import Lock
from toolcrib.catalog.schema_expansion import ExpansionError, ValueGenerator, expand
from toolcrib.client import Client, RemotePrompt, RemoteResource, RemoteTemplate, RemoteTool
from toolcrib.client.client import OTHER_ATTRIBUTES
from toolcrib.client.resources import PromptResult, ResourceContents, Suggestions
from toolcrib.component import Tool, is_marked
from toolcrib.content import Result
from toolcrib.context import (
    ANONYMOUS,
    LOCAL,
    NO_CHANNEL,
    Answer,
    Completion,
    Form,
    NullChannel,
    Principal,
    Prompt,
    Visit,
)
from toolcrib.dispatch.crash_log import CrashReporter
from toolcrib.dispatch.event_loop import is_in_loop
from toolcrib.errors import (
    InvalidArgumentsError,
    InvalidResultError,
    PolicyError,
    ToolNotFoundError,
    ToolTimeoutError,
    missing_attribute,
    suggest,
)
from toolcrib.logs import describe_error
from toolcrib.options import merge_arguments
from toolcrib.registry.selection import select
from toolcrib.schema.arguments import Repairer
from toolcrib.schema.injection import DEPENDENCIES
from toolcrib.server import MCPServer
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

__all__ = [
    "CANCEL",
    "DECLINE",
    "FuzzReport",
    "SyncClient",
    "assert_definitions",
    "client",
    "connect",
    "fixture",
    "fuzz",
]

T = TypeVar("T")
Question = Form | Visit | Prompt
Overrides = Mapping[Callable[..., Any], Callable[..., Any]]
Answers = Mapping[str, Any] | Sequence[Any] | Callable[[Any], Any]

DECLINE = Answer("decline")
CANCEL = Answer("cancel")
UPDATE = "TOOLCRIB_UPDATE"
"""The environment variable with which `assert_definitions` writes the golden file."""


def _server_of(target: Any) -> MCPServer:
    if isinstance(target, MCPServer):
        return target
    server = MCPServer("test")
    server.add(target, strict=True)
    return server


def _caller_of(principal: Principal | str) -> Principal:
    if isinstance(principal, Principal):
        return principal
    if ":" not in principal and principal not in (LOCAL.name, ANONYMOUS.name):
        raise ValueError(f"No caller can be named {principal!r}: use 'key:{principal}', or a Principal")
    return Principal(principal)


def _check_overrides(server: MCPServer, overrides: Overrides) -> None:
    """Raise ValueError for a function that no tool depends on: the tools would use the real one."""
    registries = (server.registry, server.resources, server.prompts)
    tools = [entry.tool for registry in registries for entry in registry.entries()]
    known = {item for tool in tools for item in getattr(tool.handler, DEPENDENCIES, ())}
    if any(getattr(getattr(other, "__code__", None), "co_argcount", 0) for other in overrides.values()):
        return  # it may have dependencies of its own
    for function in overrides.keys() - known:
        names = sorted({getattr(item, "__name__", repr(item)) for item in known})
        name = getattr(function, "__name__", repr(function))
        raise ValueError(f"No tool depends on '{name}'; tools depend on: {', '.join(names) or 'nothing'}")


# --- clients ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def connect(
    target: Any,
    *,
    answers: Answers | _Questions | None = None,
    overrides: Overrides | None = None,
    principal: Principal | str = LOCAL,
    **options: Any,
) -> AsyncIterator[Client]:
    """Yield a client in `async` tests: `async with testing.connect(server) as client`.

    `answers` are for questions of tools: a mapping from a text in the question to its answer, a list of
    answers in their order, or a function of the question. An answer is a mapping with the fields of a form,
    the value of its only field, True to accept, `DECLINE` or False, `CANCEL`, or the text of the client's
    model. Questions without an answer and answers without a question raise AssertionError; without `answers`,
    the client cannot be asked.

    `overrides` replace functions in `Depends` by others. Calls are those of `principal`. Other options are
    those of `Client`, such as `protocol="2025-06-18"`.
    """
    questions = answers if isinstance(answers, _Questions | None) else _Questions(answers)
    handlers = {} if questions is None else {"on_ask": questions.ask, "on_sample": questions.sample}
    server = _server_of(target)
    caller = _caller_of(principal)
    with ExitStack() as stack:
        for function, other in (overrides or {}).items():
            stack.enter_context(server.override(function, other))
        async with server.connect(principal=caller, **handlers, **options) as made:
            _check_overrides(server, overrides or {})
            yield made
    if questions is not None:
        questions.check()


class SyncClient:
    """A client for tests without `async`. `testing.client` makes one.

    `asked` are the questions of tools so far, `progress` and `logs` what they have reported. `client` is the
    client behind it, for `run`.
    """

    def __init__(self, runner: asyncio.Runner, made: Client, questions: _Questions | None) -> None:
        self.client = made
        self.asked: list[Question] = [] if questions is None else questions.asked
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.logs: list[tuple[str, Any]] = []
        self._runner = runner
        self._questions = questions

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute("SyncClient", name, OTHER_ATTRIBUTES.get(name), self)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the client: `client.run(client.client.ping())`."""
        return self._runner.run(work)

    def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        **keywords: Any,
    ) -> Result:
        """Call a tool, with arguments as in `Client.call`. An error of the tool is a result."""
        given = merge_arguments(arguments, keywords, ["timeout_s"]) if keywords else arguments
        calling = self.client.call(
            name,
            given,
            timeout_s=timeout_s,
            on_progress=lambda *report: self.progress.append(report),
            on_log=lambda level, data: self.logs.append((level, data)),
        )
        try:
            result = self.run(calling)
        except ToolNotFoundError as error:
            if hint := suggest(name, [tool.name for tool in self.list_tools()]):
                error.hint = hint
            raise
        return self._check(result)

    def list_tools(self) -> list[RemoteTool]:
        """Return the tools that the principal sees."""
        return self.run(self.client.list_tools())

    def list_resources(self) -> list[RemoteResource]:
        """Return the resources that the principal sees."""
        return self.run(self.client.list_resources())

    def list_resource_templates(self) -> list[RemoteTemplate]:
        """Return the templates of resources that the principal sees."""
        return self.run(self.client.list_resource_templates())

    def list_prompts(self) -> list[RemotePrompt]:
        """Return the prompts that the principal sees."""
        return self.run(self.client.list_prompts())

    def complete(
        self,
        ref: str | RemotePrompt | RemoteTemplate | Mapping[str, Any],
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
    ) -> Suggestions:
        """Return values for an argument of a prompt or a template, as `Client.complete` does."""
        return self.run(self.client.complete(ref, argument, value, context))

    def read(self, uri: str) -> list[ResourceContents]:
        """Return the contents of a resource. An error is raised."""
        return self._check(self.run(self.client.read(uri)))

    def get_prompt(
        self, name: str, /, arguments: Mapping[str, Any] | None = None, **keywords: Any
    ) -> PromptResult:
        """Return the messages of a prompt, with arguments as keywords or as a dict. An error is raised."""
        given = merge_arguments(arguments, keywords) if keywords else arguments
        return self._check(self.run(self.client.get_prompt(name, given)))

    def _check(self, result: T) -> T:
        if self._questions is not None:
            self._questions.check_answered()
        return result


@contextmanager
def client(target: Any, *, answers: Answers | None = None, **options: Any) -> Iterator[SyncClient]:
    """Yield a client in tests without `async`: `with testing.client(server) as client`.

    The arguments are those of `connect`. The server runs during calls, in the thread of the test.
    """
    questions = None if answers is None else _Questions(answers)
    with _make_runner("testing.client", "use `async with testing.connect(...)`") as runner:
        ready: asyncio.Future[Client] = runner.get_loop().create_future()
        done: asyncio.Future[None] = runner.get_loop().create_future()

        async def hold() -> None:
            """Keep the connection in one task: a task group must be left where it was entered."""
            async with connect(target, answers=questions, **options) as made:
                ready.set_result(made)
                await done

        async def start() -> asyncio.Task[None]:
            task = asyncio.ensure_future(hold())
            task.add_done_callback(lambda _: ready.cancel())  # it could not connect
            await asyncio.wait([ready])
            return task

        async def end(task: asyncio.Task[None]) -> None:
            await task

        holding = runner.run(start())
        try:
            if not ready.cancelled():
                yield SyncClient(runner, ready.result(), questions)
        except BaseException:
            if questions is not None:
                questions.is_checked = False  # the test has failed already
            raise
        finally:
            done.set_result(None)
            runner.run(end(holding))


def _make_runner(name: str, hint: str) -> asyncio.Runner:
    if is_in_loop():
        raise RuntimeError(f"{name} cannot be used while an event loop runs in this thread: {hint}")
    return asyncio.Runner(loop_factory=asyncio.new_event_loop)  # leaves the loop of this thread alone


def fixture(target: Any, **options: Any) -> Any:
    """Return a pytest fixture with a client for each test: `client = testing.fixture("tools.py")`.

    The target may also be a function that makes a server, which is then called for each test.
    """
    import pytest  # only here, and only for those who have it

    is_factory = inspect.isroutine(target) and not is_marked(target)

    @pytest.fixture
    def made() -> Iterator[SyncClient]:
        with client(target() if is_factory else target, **options) as found:
            yield found

    return made


class _Questions:
    """The answers of a test, and the questions that were asked."""

    def __init__(self, answers: Answers) -> None:
        if isinstance(answers, str):
            raise TypeError("answers must be a mapping, a list or a function, not a string")
        self.asked: list[Question] = []
        self.is_checked = True
        self._answers = answers
        self._left = None if callable(answers) or isinstance(answers, Mapping) else list(answers)
        self._used: set[str] = set()
        self._unanswered: list[str] = []

    async def ask(self, question: Form | Visit) -> Answer:
        found = await self._find(question, question.message)
        if isinstance(found, Answer):
            return found
        if found is False or isinstance(question, Visit):
            return Answer("accept") if found else DECLINE
        fields = question.schema.get("properties", {})
        if found is not True and not isinstance(found, Mapping):
            found = {next(iter(question.schema.get("required") or fields), "?"): found}
        content = {} if found is True else dict(found)
        defaults = {name: item["default"] for name, item in fields.items() if "default" in item}
        validator = Validator({"additionalProperties": False, **question.schema})
        if problems := validator.problems({**defaults, **content}):
            raise self._fail(f"The answer to {question.message!r} does not fit: {problems[0]}")
        return Answer("accept", content)

    async def sample(self, prompt: Prompt) -> Completion:
        messages = prompt.messages
        given = [] if isinstance(messages, str) else [item.get("content") for item in messages]
        found = await self._find(prompt, messages if isinstance(messages, str) else Completion(given).text)
        return found if isinstance(found, Completion) else Completion(str(found), model="test")

    async def _find(self, question: Question, text: str) -> Any:
        self.asked.append(question)
        answers = self._answers
        if callable(answers):
            found = answers(question)
            return await found if inspect.isawaitable(found) else found
        if isinstance(answers, Mapping):
            for part, answer in answers.items():
                if part in text:
                    self._used.add(part)
                    return answer
        elif self._left:
            return self._left.pop(0)
        raise self._fail(f"No answer was given for the question {text!r}")

    def _fail(self, problem: str) -> AssertionError:
        self._unanswered.append(problem)
        return AssertionError(problem)

    def check_answered(self) -> None:
        """Raise AssertionError for a question without an answer; a client of older versions cannot."""
        if self._unanswered:
            raise AssertionError(self._unanswered.pop(0))

    def check(self) -> None:
        """Raise AssertionError for a question without an answer, or an answer without a question."""
        if not self.is_checked:
            return
        self.check_answered()
        unused = [] if self._left is None else [repr(answer) for answer in self._left]
        if isinstance(self._answers, Mapping):
            unused = [repr(part) for part in self._answers if part not in self._used]
        if unused:
            asked = ", ".join(repr(getattr(each, "message", "a prompt")) for each in self.asked) or "none"
            raise AssertionError(f"No question used these answers: {', '.join(unused)}; questions: {asked}")


# --- golden definitions ------------------------------------------------------------------------------------


def assert_definitions(
    target: Any, file: str | os.PathLike[str], *, fail_on: Grade = "cosmetic", update: bool | None = None
) -> None:
    """Compare the definitions of all tools with a golden file, which is a lock file of toolcrib.

    A relative path is beside the file of the caller. A missing file is written, but not in CI (`CI` is set).
    Raise AssertionError with graded changes where one has the grade `fail_on` or a worse one. Set
    TOOLCRIB_UPDATE=1 to accept them, or `update`.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    path = Path(file)
    if not path.is_absolute():
        caller = Path(sys._getframe(1).f_code.co_filename)
        path = caller.parent / path if caller.is_file() else path
    lock = Lock.of((entry.tool for entry in _server_of(target).registry.entries()), path)
    accept = f"review them, then run the test with {UPDATE}=1 and commit the file"
    if update is None:
        update = os.environ.get(UPDATE, "") not in ("", "0")
    if update or (not path.exists() and not os.environ.get("CI")):
        lock.save()
        return
    if not path.exists():
        raise AssertionError(f"There is no golden file {path}: run the test outside of CI and commit it")
    comparison = compare(Lock.load(path).tools, lock.tools)
    if comparison.at_least(fail_on):
        changes = "\n".join(_format_changes(comparison))
        raise AssertionError(f"Definitions differ from {path}:\n{changes}\nhint: {accept}")


def _format_changes(comparison: Comparison) -> Iterator[str]:
    width = max(map(len, GRADES))
    for tool, changes in groupby(comparison.changes, key=lambda change: change.tool):
        yield f"  {tool}"
        for change in changes:
            yield f"    {change.grade.ljust(width)}  {change.message}"
            for sign, value in (("-", change.old), ("+", change.new)):
                if value is not None:
                    yield f"    {' ' * width}  {sign} {value}"


# --- fuzzing ----------------------------------------------------------------------------------------------

_PROGRESS_S = 2.0
_SLOW_S, _SHOWN_SLOW = 0.1, 3


@dataclass(slots=True)
class FuzzReport:
    """The calls of a run by tool: `valid` ones, of which `errors` ended in an error that the tool meant to
    give, and `invalid` ones, which were refused. `skipped` are destructive tools that were not called.
    `slowest` has the seconds of the slowest call of each tool, `unfinished` the tools for which the time was
    too short."""

    seed: int
    valid: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    invalid: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)
    slowest: dict[str, float] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)
    _printed: float = field(default_factory=time.monotonic, repr=False, compare=False)

    def note(self, name: str, seconds: float) -> None:
        """Note how long a call took; print where the run is, now and then."""
        self.slowest[name] = max(seconds, self.slowest.get(name, 0.0))
        if (now := time.monotonic()) - self._printed >= _PROGRESS_S:
            self._printed = now
            made = self.valid[name] + self.invalid[name] + 1
            sys.stderr.write(f"fuzz: {made} calls of {name}, the slowest took {self.slowest[name]:.1f} s\n")

    def __str__(self) -> str:
        lines = [
            f"{name}: {count} valid calls ({self.errors[name]} errors), {self.invalid[name]} invalid"
            for name, count in self.valid.items()
        ]
        lines += [f"{name}: skipped, it is destructive" for name in self.skipped]
        lines += [f"{name}: not finished, the time was up" for name in self.unfinished]
        slow = sorted((s, name) for name, s in self.slowest.items() if s >= _SLOW_S)[: -_SHOWN_SLOW - 1 : -1]
        lines += [f"slow: a call of {name} took {s:.1f} s" for s, name in slow]
        return "\n".join([*lines, f"seed {self.seed}"])


class _FailedError(Exception):
    """A call that went wrong: the problem and the arguments. Its cause is the exception of the tool."""


class _Crashes(CrashReporter):
    """Keeps the exceptions of tools, which are logged otherwise."""

    def __init__(self, replaced: CrashReporter) -> None:
        super().__init__()
        self.hides_adopted = replaced.hides_adopted
        self.errors: list[BaseException] = []

    def report(self, tool_name: str, error: BaseException, call_id: str, arguments: Any = None) -> None:
        _ = tool_name, call_id, arguments
        self.errors.append(error)


def fuzz(
    target: Any,
    *names: str,
    calls: int = 50,
    seed: int = 0,
    destructive: bool = False,
    values: Mapping[str, Any] | None = None,
    overrides: Overrides | None = None,
    answers: Mapping[str, Any] | Callable[[Any], Any] | None = None,
    principal: Principal | str = LOCAL,
    timeout_s: float = 10.0,
    limit_s: float = 60.0,
) -> FuzzReport:
    """Call every tool, or those that are named, with valid and with invalid arguments from its schema.

    Valid arguments must not be refused or make the tool crash or time out, and results must fit the output
    schema; `ToolError` is a good answer. Invalid arguments must be refused before the function runs. Raise
    AssertionError with the arguments and the seed, by which the calls can be repeated.

    The tools run for real: override what they reach. Destructive ones are called only if they are named, or
    with `destructive`. `calls` is the number of valid calls of each tool, and of invalid ones. `values` has
    lists of values to draw from, by the name of a parameter, or of a tool and a parameter: "take.article".
    `answers` are as in `connect`, a mapping or a function; without them, questions fail. Rules of a policy
    apply; its limits and its audit log do not. After `limit_s` seconds no call is started any more, and the
    report says which tools are unfinished. A run of several seconds prints its progress on stderr.
    """
    __tracebackhide__ = True
    server = _server_of(target)
    caller = _caller_of(principal)
    channel = NO_CHANNEL if answers is None else _AnsweringChannel(_Questions(answers))
    report = FuzzReport(seed)
    failures: dict[str, _FailedError] = {}
    until = time.monotonic() + limit_s

    async def run() -> None:
        async with connect(server, overrides=overrides, principal=caller):
            for tool in select(server.dispatcher.view(caller), names):
                is_destructive = tool.definition.annotations.get("destructiveHint")
                if is_destructive and not destructive and tool.name not in names:
                    report.skipped.append(tool.name)
                    continue
                try:
                    call = partial(
                        server.call, tool.name, principal=caller, timeout_s=timeout_s, channel=channel
                    )
                    validator = Validator(tool.definition.input_schema)
                    await _Fuzzer(tool, call, crashes, report, values or {}, validator, until).run(calls)
                except _FailedError as error:
                    failures[tool.name] = error
                except TimeoutError:
                    report.unfinished.append(tool.name)

    before, crashes = server.dispatcher.crashes, _Crashes(server.dispatcher.crashes)
    with _make_runner("testing.fuzz", "call it in a test that is not `async`") as runner, _unlimited(server):
        server.dispatcher.crashes = crashes
        try:
            runner.run(run())
        finally:
            server.dispatcher.crashes = before
    if not (report.valid or report.skipped or report.unfinished or failures):
        raise AssertionError(f"There are no tools that {caller.name} may call")
    if failures:
        text = "\n".join(f"{name}: {error}" for name, error in failures.items())
        repeat = f"testing.fuzz(..., {', '.join(map(repr, failures))}, seed={seed})"
        cause = next((error.__cause__ for error in failures.values() if error.__cause__), None)
        raise AssertionError(f"{text}\nrepeat: {repeat}") from cause
    return report


@contextmanager
def _unlimited(server: MCPServer) -> Iterator[None]:
    """Leave out the limits and the audit log of a server, which many calls would exhaust and fill."""
    pipeline, enforcer = server.dispatcher.pipeline, server.enforcer
    if enforcer is not None:
        unlimited = type(enforcer)(replace(enforcer.policy, limits=(), audit=None, telemetry=None))
        server.dispatcher.use(unlimited.pipeline(server._middleware))
    try:
        yield
    finally:
        server.dispatcher.use(pipeline)


class _AnsweringChannel(NullChannel):
    """Answers the questions of tools that are fuzzed."""

    def __init__(self, questions: _Questions) -> None:
        self._questions = questions

    async def ask(self, questions: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = self._questions
        return {
            key: await (asked.sample(item) if isinstance(item, Prompt) else asked.ask(item))
            for key, item in questions.items()
        }


@dataclass(slots=True)
class _Fuzzer:
    """The calls of one tool. Its random sequence depends on the seed and its name, not on other tools."""

    tool: Tool
    call: Callable[[Any], Awaitable[Result]]
    crashes: _Crashes
    report: FuzzReport
    values: Mapping[str, Sequence[Any]]
    validator: Validator
    until: float

    async def run(self, calls: int) -> None:
        """Make all calls. Raise _FailedError."""
        name = self.tool.name
        schema = self.tool.definition.input_schema
        names = schema.get("properties", ())
        values = {key: self.values.get(f"{name}.{key}", self.values.get(key)) for key in names}
        try:
            tree = expand(schema).tree
        except ExpansionError as error:
            raise _FailedError(f"its schema cannot be used: {error}") from None
        draw = ValueGenerator(Random(f"{self.report.seed} {name}"), tree)  # noqa: S311 - to be repeated
        valid = self._collect(lambda size: draw.arguments(size, values), self._is_valid, calls)
        if not valid:
            raise _FailedError("no valid arguments were found; give values={'PARAMETER': [...]}")
        for arguments in valid:
            await self._try(arguments, self._judge_valid)
            self.report.valid[name] += 1
        ignores_names = self.tool.options.extra == "ignore"
        spoiled = self._collect(
            lambda size: draw.spoil(valid[size % len(valid)], ignores_names), self._is_invalid, calls
        )
        for arguments in spoiled:
            await self._try(arguments, self._judge_invalid)
            self.report.invalid[name] += 1

    def _collect(
        self, draw: Callable[[int], Any], accepts: Callable[[Any], bool], number: int
    ) -> list[dict[str, Any]]:
        """Return different arguments, as many as are easily found."""
        found: dict[bytes, dict[str, Any]] = {}
        for size in range(number * 20):
            if accepts(arguments := draw(size)):
                found.setdefault(codec.canonical(arguments), arguments)
            if len(found) >= number:
                break
        return list(found.values())

    def _is_valid(self, arguments: Any) -> bool:
        return self.validator.find_excess(arguments) is None and bool(self.validator.is_valid(arguments))

    def _is_invalid(self, arguments: Any) -> bool:
        repairer = Repairer(self.tool.definition.input_schema)
        repaired = repairer.repair(arguments) if self.tool.options.repair else arguments
        return not self._is_valid(arguments) and not self._is_valid(repaired)

    async def _try(self, arguments: dict[str, Any], judge: Callable[[Result], str | None]) -> None:
        self.crashes.errors.clear()
        if (started := time.monotonic()) >= self.until:
            raise TimeoutError
        result = await self.call(codec.decode(codec.encode(arguments)))
        self.report.note(self.tool.name, time.monotonic() - started)
        problem, crash = judge(result), next(iter(self.crashes.errors), None)
        if crash is not None:
            problem = f"{problem or 'it raised an exception'}: {describe_error(crash)}"
        if problem is not None:
            raise _FailedError(f"{problem}\n  arguments: {codec.encode_text(arguments)}") from crash

    def _judge_valid(self, result: Result) -> str | None:
        """Return what is wrong with the result of valid arguments, beside a crash."""
        output = self.tool.definition.output_schema
        if isinstance(result.error, InvalidArgumentsError):
            return f"it refused arguments that its schema allows: {result.error}"
        if isinstance(result.error, InvalidResultError | ToolTimeoutError):
            return str(result.error)
        if result.is_error:
            self.report.errors[self.tool.name] += 1
        elif output is not None and not Validator(output).is_valid(result.structured_content):
            return f"its output schema does not allow this result: {result.structured_content!r:.200}"
        return None

    def _judge_invalid(self, result: Result) -> str | None:
        code = getattr(self.tool.info.function, "__code__", None)
        trace = traceback.walk_tb(None if result.error is None else result.error.__traceback__)
        was_reached = any(frame.f_code is code for frame, _ in trace)
        is_refused = isinstance(result.error, InvalidArgumentsError | PolicyError | None)
        if result.is_error and is_refused and not was_reached:
            return None
        return "it was called with arguments that its schema does not allow"
