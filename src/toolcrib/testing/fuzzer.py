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

from toolcrib.catalog.schemas import TYPES, ExpansionError, expand, types_of
from toolcrib.component import Component
from toolcrib.content import Result
from toolcrib.context import LOCAL, NO_CHANNEL, NullChannel, Principal, Sampling
from toolcrib.dispatch.failures import CrashReporter
from toolcrib.errors import InvalidArgumentsError, InvalidResultError, PolicyError, ToolTimeoutError
from toolcrib.logs import describe_error
from toolcrib.registry.selection import select
from toolcrib.schema.arguments import Repairer
from toolcrib.server import MCPServer
from toolcrib.testing.clients import Overrides, Questions, caller_of, connect, make_runner, server_of
from toolcrib.validation import codec
from toolcrib.validation.validator import DATE_TIME_PATTERN, DURATION_PATTERN, TIME_PATTERN, Validator

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
        """Note how long a call took; print the progress of the run, now and then."""
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
            key: await (asked.sample(item) if isinstance(item, Sampling) else asked.ask(item))
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


# --- values for the fuzzer ---------------------------------------------------------------------------------

_TEXTS = ("a", "", "two words", "line\nbreak", "'\"\\", "0", "ümläut 漢字 🙂", "<b>&amp;</b>", "x" * 60)
_NUMBERS = (0, 1, -1, 2, 7, 100, -1000, 2**31, 2**53 - 1)
_FRACTIONS = (0.5, -0.25, 1e-9, 1e12, 3.14159)
_OPTIONAL_DEPTH, _MAX_VALUE_DEPTH = 3, 12
_FORMATS: Mapping[str, Sequence[str]] = {
    "date": ("2026-11-16", "2000-02-29", "1969-12-31"),
    "date-time": ("2026-11-16T10:00:00Z", "1999-12-31T23:59:59.5+02:00"),
    "duration": ("P1DT2H30M", "PT0S"),
    "email": ("ada@example.com",),
    "hostname": ("example.com",),
    "ipv4": ("192.0.2.1", "127.0.0.1"),
    "ipv6": ("2001:db8::1", "::1"),
    "regex": ("a+",),
    "time": ("10:00:00Z",),
    "uri": ("https://example.com/a?b=c",),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    DATE_TIME_PATTERN: ("2026-11-16T10:00:00Z", "1999-12-31T23:59:59"),
    DURATION_PATTERN: ("P1DT2H30M", "PT0S"),
    TIME_PATTERN: ("10:00:00", "23:59:59.5"),
    "base64": ("", "aGVsbG8=", "AAEC/w=="),
}
_WRONG: Sequence[Any] = (True, -1, 0.5, 10**12, "no", "", [], ["no"], {}, {"unexpected": 1}, [[]], "x" * 5000)


class ValueGenerator:
    """Draws values that are likely to fit an expanded schema, often at its limits, and spoils them.

    A validator has to decide which of them are valid.
    """

    def __init__(self, random: Random, tree: dict[str, Any]) -> None:
        self._random = random
        self._tree = tree

    def arguments(self, size: int, values: Mapping[str, Sequence[Any] | None]) -> Any:
        """Return arguments. With size 0 they are only those that are required, with 1 all."""
        drawn = self.value(self._tree, 0, (0.0, 1.0)[size] if size < 2 else 0.5)
        for name in drawn if isinstance(drawn, dict) else ():
            if options := values.get(name):
                drawn[name] = self._random.choice(options)
        return drawn

    def value(self, schema: Any, depth: int, share: float = 0.5) -> Any:
        """Return a value. `share` is the share of optional properties that are included."""
        pick = self._random
        if not isinstance(schema, dict) or depth > _MAX_VALUE_DEPTH:
            return None
        for keyword in ("anyOf", "oneOf"):
            if options := schema.get(keyword):
                rest = {key: item for key, item in schema.items() if key != keyword}
                schema = {**rest, **pick.choice(options)}
        for part in schema.get("allOf", ()):
            schema = {**part, **schema}
        if "enum" in schema:
            return pick.choice(schema["enum"])
        known = [*schema.get("examples", ()), *([schema["default"]] if "default" in schema else ())]
        if known and pick.random() < 0.2:
            return pick.choice(known)
        match pick.choice(types_of(schema) or (TYPES if depth < _OPTIONAL_DEPTH else TYPES[:4])):
            case "null":
                return None
            case "boolean":
                return pick.random() < 0.5
            case "string":
                return self._string(schema)
            case "array":
                return self._array(schema, depth)
            case "object":
                return self._object(schema, depth, share)
            case kind:
                return self._number(schema, kind == "integer")

    def _number(self, schema: Mapping[str, Any], is_whole: bool) -> float:
        step = schema.get("multipleOf", 1 if is_whole else 0)
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        ends = [end + shift for end in (low, high) if end is not None for shift in (0, step, -step)]
        start = low if low is not None else -1000 if high is None else high - 1000
        between = self._random.uniform(start, start + 1000 if high is None else high)
        drawn = self._random.choice([*_NUMBERS, *([] if is_whole else _FRACTIONS), *ends * 3, *[between] * 9])
        if step:
            drawn = round(drawn / step) * step
        return int(drawn) if is_whole else drawn

    def _string(self, schema: Mapping[str, Any]) -> str:
        known = [schema.get(key) for key in ("format", "pattern", "contentEncoding")]
        if texts := next((_FORMATS[key] for key in known if key is not None and key in _FORMATS), None):
            return self._random.choice(texts)
        low = schema.get("minLength", 0)
        text = self._random.choice(_TEXTS)
        text = text if len(text) >= low else (text or "a") * low
        return text[: self._random.randint(low, max(low, schema.get("maxLength", low + 100)))]

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        first, least = schema.get("prefixItems", []), schema.get("minItems", 0)
        most = max(least, min(schema.get("maxItems", least + 3), least + 3, 0 if depth > 6 else 99))
        rest = schema.get("items", {})
        number = 0 if rest is False else max(0, self._random.randint(least, most) - len(first))
        return [self.value(item, depth + 1) for item in [*first, *[rest] * number]]

    def _object(self, schema: Mapping[str, Any], depth: int, share: float) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        share = share if depth < _OPTIONAL_DEPTH else 0.0
        names = [name for name in properties if name in required or self._random.random() < share]
        names += [name for name in required if name not in properties]
        others = schema.get("additionalProperties")
        other = others if isinstance(others, dict) else {}
        drawn = {name: self.value(properties.get(name, other), depth + 1) for name in names}
        least = schema.get("minProperties", 0)
        if (least > len(drawn) or other) and depth < _OPTIONAL_DEPTH:
            for _ in range(self._random.randint(least, least + 3)):
                key = self._string(schema.get("propertyNames", {})) or "key"
                drawn.setdefault(key, self.value(other, depth + 1))
        return drawn

    def spoil(self, value: Any, ignores_names: bool = False, depth: int = 0) -> Any:
        """Return a copy with one thing changed, which is likely to be invalid."""
        pick = self._random
        if not isinstance(value, dict | list) or (depth and pick.random() < 0.4):
            return pick.choice(_WRONG)
        copy: Any = value.copy()
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        action = pick.random()
        if isinstance(value, dict) and (action < 0.2 or not keys):
            return copy if ignores_names and not depth else {**value, "unexpected": 1}
        if not keys:
            return ["no"]
        key = pick.choice(keys)
        if action < 0.4:
            del copy[key]
        else:
            copy[key] = self.spoil(value[key], depth=depth + 1)
        return copy
