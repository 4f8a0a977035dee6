"""Clients of a server in the process of a test, and their answers to the questions of tools."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.client import Client, RemotePrompt, RemoteResource, RemoteTemplate, RemoteTool
from toolcrib.client.client import OTHER_ATTRIBUTES
from toolcrib.client.entries import Completion, PromptResult, ResourceContents
from toolcrib.component import is_marked
from toolcrib.content import Result
from toolcrib.context import (
    ANONYMOUS,
    LOCAL,
    Answer,
    Elicitation,
    Principal,
    Sampling,
    SamplingResult,
    URLElicitation,
)
from toolcrib.dispatch.event_loop import is_in_loop
from toolcrib.errors import ToolNotFoundError, missing_attribute, suggest
from toolcrib.options import merge_arguments
from toolcrib.schema.injection import DEPENDENCIES
from toolcrib.server import MCPServer
from toolcrib.validation.validator import Validator

T = TypeVar("T")
Overrides = Mapping[Callable[..., Any], Callable[..., Any]]


Question = Elicitation | URLElicitation | Sampling
Answers = Mapping[str, Any] | Sequence[Any] | Callable[[Any], Any]

DECLINE = Answer("decline")
CANCEL = Answer("cancel")


class Questions:
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

    async def ask(self, question: Elicitation | URLElicitation) -> Answer:
        found = await self._find(question, question.message)
        if isinstance(found, Answer):
            return found
        if found is False or isinstance(question, URLElicitation):
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

    async def sample(self, prompt: Sampling) -> SamplingResult:
        messages = prompt.messages
        given = [] if isinstance(messages, str) else [item.get("content") for item in messages]
        found = await self._find(
            prompt, messages if isinstance(messages, str) else SamplingResult(given).text
        )
        return found if isinstance(found, SamplingResult) else SamplingResult(str(found), model="test")

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


def server_of(target: Any) -> MCPServer:
    if isinstance(target, MCPServer):
        return target
    server = MCPServer("test")
    server.add(target, strict=True)
    return server


def caller_of(principal: Principal | str) -> Principal:
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


@asynccontextmanager
async def connect(
    target: Any,
    *,
    answers: Answers | Questions | None = None,
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

    `overrides` replace functions in `Depends` by others. `principal` is the caller. Other options are
    passed to `Client`, such as `protocol="2025-06-18"`.
    """
    questions = answers if isinstance(answers, Questions | None) else Questions(answers)
    handlers = {} if questions is None else {"on_ask": questions.ask, "on_sample": questions.sample}
    server = server_of(target)
    caller = caller_of(principal)
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

    def __init__(self, runner: asyncio.Runner, made: Client, questions: Questions | None) -> None:
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
    ) -> Completion:
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

    Takes the arguments of `connect`. The server runs during calls, in the thread of the test.
    """
    questions = None if answers is None else Questions(answers)
    with make_runner("testing.client", "use `async with testing.connect(...)`") as runner:
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


def make_runner(name: str, hint: str) -> asyncio.Runner:
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
