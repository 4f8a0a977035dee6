"""A fuzzer: valid and invalid arguments for every tool, made from its schema."""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from toolcrib.catalog.schema_expansion import ExpansionError, ValueGenerator, expand
from toolcrib.component import Component
from toolcrib.content import Result
from toolcrib.context import LOCAL, NO_CHANNEL, NullChannel, Principal, Prompt
from toolcrib.dispatch.crash_log import CrashReporter
from toolcrib.errors import InvalidArgumentsError, InvalidResultError, PolicyError, ToolTimeoutError
from toolcrib.logs import describe_error
from toolcrib.registry.selection import select
from toolcrib.schema.arguments import Repairer
from toolcrib.server import MCPServer
from toolcrib.testing.answers import Questions
from toolcrib.testing.clients import Overrides, caller_of, connect, make_runner, server_of
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

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
    server = server_of(target)
    caller = caller_of(principal)
    channel = NO_CHANNEL if answers is None else _AnsweringChannel(Questions(answers))
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
    with make_runner("testing.fuzz", "call it in a test that is not `async`") as runner, _unlimited(server):
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

    def __init__(self, questions: Questions) -> None:
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

    tool: Component
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
