"""Parameters that clients do not send: those with `Annotated[T, Depends(function)]`, and bound arguments.

The dependencies of a tool are read when it is built, as a list of steps in the order they run, and its
handler is wrapped. Calls of tools without dependencies are not affected; those of others run with their
dependencies and clean-up as one piece of code, under one deadline.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from contextvars import copy_context
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NoReturn

from toolcrib.context import Context, Depends
from toolcrib.errors import InvalidArgumentsError, InvalidToolError, suggest
from toolcrib.options import ToolOptions
from toolcrib.schema.annotations import origin_of, resolve_hints
from toolcrib.schema.arguments import ToolArguments
from toolcrib.schema.parameters import (
    EMPTY,
    POSITIONAL_ONLY,
    VARIABLE_KINDS,
    HandlerInfo,
    find_function,
    inspect_handler,
    is_async_callable,
    name_of,
)
from toolcrib.validation.schema_tree import walk

CONTEXT = "$context"
"""The name under which a wrapped handler gets the Context, if the tool has no parameter for it."""
DEPENDENCIES = "$dependencies"
"""The attribute of a wrapped handler with the functions that it depends on, nested ones included."""
_OTHERS = ("docket", "fastapi", "fastmcp", "uncalled_for")
Overrides = Mapping[Callable[..., Any], Callable[..., Any]]


def find_depends(hint: Any, default: Any) -> Depends | None:
    """Return the `Depends` in the hint or the default of a parameter, or None. Raise TypeError for one of
    another library."""
    for item in (default, *(hint.__metadata__[::-1] if origin_of(hint) is Annotated else ())):
        kind = type(item)
        if isinstance(item, Depends):
            return item
        if kind.__name__ in ("Depends", "_Depends", "Security"):
            module = kind.__module__.partition(".")[0]
            if module in _OTHERS:
                raise TypeError(f"has a Depends of {module}, which toolcrib does not run")
    return None


@dataclass(frozen=True, slots=True)
class _Step:
    """One dependency. `needs` are its parameters with the functions whose values they get."""

    key: Callable[..., Any]
    factory: Callable[..., Any]
    context: str | None
    needs: Mapping[str, Callable[..., Any]]
    is_async: bool
    is_generator: bool

    def start(self, values: Mapping[Any, Any], context: Context) -> Any:
        """Call the function. Return its value, a coroutine, or a context manager if it is a generator."""
        given = {name: values[key] for name, key in self.needs.items()}
        if self.context is not None:
            given[self.context] = context
        made = self.factory(**given)
        if not self.is_generator or hasattr(made, "__enter__") or hasattr(made, "__aenter__"):
            return made
        return (asynccontextmanager if self.is_async else contextmanager)(lambda: made)()


@dataclass(slots=True, eq=False)
class Injector:
    """The dependencies of one tool, resource or prompt (its `kind`): `functions` by parameter."""

    tool: str
    kind: str
    run: str
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    own_context: str | None = None
    """The parameter of the tool that gets the Context, if it has one."""
    _context_index: int | None = None
    """Its position, if it is positional-only."""
    _steps: tuple[_Step, ...] = ()

    @property
    def context(self) -> str | None:
        """The name under which the handler gets the Context: dependencies may need one that it does not."""
        return self.own_context or (CONTEXT if self.functions else None)

    def add(self, info: HandlerInfo, parameter: str, kind: Any, depends: Depends) -> None:
        """Add a parameter. Raise InvalidSignatureError where it or its dependency cannot be used."""
        if self.run == "process":
            hint = "make the value inside the tool, or use run='thread'"
            self._refuse(info, parameter, "is injected, but the tool runs in another process", hint)
        if kind is POSITIONAL_ONLY:
            self._refuse(info, parameter, "is injected and positional-only", "drop the `/`")
        self.functions[parameter] = depends.function
        self._read(info, parameter, {}, {}, ())

    def wrap(self, info: HandlerInfo, positional: Sequence[tuple[str, Any]]) -> Callable[..., Any]:
        """Return the handler with its dependencies around it, if it has any. `positional` are its
        positional-only parameters."""
        handler = info.handler
        if not self.functions:
            return handler
        names = [name for name, _ in positional]
        self._context_index = names.index(self.own_context) if self.own_context in names else None
        self._steps = self._plan({})
        if inspect.isasyncgenfunction(handler):
            wrapper = self._wrap_async_generator(handler)
        elif info.is_async:
            wrapper = self._wrap_async(handler)
        elif inspect.isgeneratorfunction(handler):
            wrapper = self._wrap_generator(handler)
        else:
            wrapper = self._wrap_sync(handler)
        wrapped = functools.wraps(handler)(wrapper)
        wrapped.__dict__[DEPENDENCIES] = frozenset(step.key for step in self._steps)
        return wrapped

    # --- reading ---

    def _plan(self, overrides: Overrides) -> tuple[_Step, ...]:
        steps: dict[Any, _Step] = {}
        for parameter in self.functions:
            self._read(None, parameter, overrides, steps, ())
        return tuple(steps.values())

    def _read(
        self,
        info: HandlerInfo | None,
        parameter: str,
        overrides: Overrides,
        steps: dict[Any, _Step],
        path: tuple[Any, ...],
    ) -> None:
        """Add the steps for a parameter, those that it needs first. `path` leads to a nested dependency."""
        key = path[-1] if path else self.functions[parameter]
        if key in steps:
            return
        factory = overrides.get(key, key)
        name = name_of(factory) or "lambda"
        callee = inspect_handler(factory, name)
        place = info if info is not None and info.source.file is not None else callee
        if key in path[:-1]:
            self._refuse(place, parameter, f"depends on '{name}', which depends on itself", None)
        function = find_function(factory)
        is_async = is_async_callable(factory) or inspect.isasyncgenfunction(function)
        if is_async and self.run == "inline":
            hint = f"make the {self.kind} `async def`, or use run='thread'"
            problem = f"depends on '{name}', which is async, but the {self.kind} runs inline"
            self._refuse(place, parameter, problem, hint)
        context, needs = None, {}
        hints = resolve_hints(callee, name)
        for item in callee.parameters:
            hint = hints.get(item.name, item.annotation)
            try:
                nested = find_depends(hint, item.default)
            except TypeError as error:
                self._refuse(callee, parameter, f"depends on '{name}', which {error}", _IMPORT)
            if nested is not None:
                needs[item.name] = nested.function
                self._read(callee, parameter, overrides, steps, (*(path or (key,)), nested.function))
            elif _is_context(hint):
                context = item.name
            elif item.default is EMPTY and item.kind not in VARIABLE_KINDS:
                problem = f"depends on '{name}', which takes '{item.name}': nothing provides it"
                hint = "give it a default, or annotate it with Context or Annotated[..., Depends(...)]"
                self._refuse(callee, parameter, problem, hint)
        is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        steps[key] = _Step(key, factory, context, needs, is_async, is_generator)

    def _refuse(self, info: HandlerInfo, parameter: str, problem: str, hint: str | None) -> NoReturn:
        text = f"Parameter '{parameter}' of {self.kind} '{self.tool}' {problem}"
        raise info.refusal(self.tool, parameter, text, hint) from None

    # --- running ---

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Context, tuple[_Step, ...]]:
        """Return the Context of a call and the steps before it, with the overrides of its server."""
        context: Context
        if self.own_context is None:
            context = kwargs.pop(CONTEXT)
        elif self._context_index is None:
            context = kwargs[self.own_context]
        else:
            context = args[self._context_index]
        overrides = getattr(context.server, "dependency_overrides", None)
        return context, self._plan(overrides) if overrides else self._steps

    def _finish(self, values: Mapping[Any, Any], kwargs: dict[str, Any]) -> None:
        for parameter, key in self.functions.items():
            kwargs[parameter] = values[key]

    async def _enter(self, stack: AsyncExitStack, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run the steps before an async tool, and add their values to its arguments."""
        context, steps = self._begin(args, kwargs)
        values: dict[Any, Any] = {}
        for step in steps:
            made = step.start(values, context)
            if not step.is_generator:
                values[step.key] = await made if isinstance(made, Coroutine) else made
            elif step.is_async:
                values[step.key] = await stack.enter_async_context(made)
            else:
                values[step.key] = await stack.enter_async_context(_LeftOnThread(made))
        self._finish(values, kwargs)

    def _enter_sync(self, stack: ExitStack, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Context:
        """Run the steps before a sync tool. Async ones run on the event loop while this thread waits."""
        context, steps = self._begin(args, kwargs)
        values: dict[Any, Any] = {}
        for step in steps:
            made = step.start(values, context)
            if step.is_generator:
                values[step.key] = stack.enter_context(_OnLoop(made, context) if step.is_async else made)
            else:
                values[step.key] = context.wait_for(made) if inspect.iscoroutine(made) else made
        self._finish(values, kwargs)
        return context

    def _wrap_async(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with _AsyncStack() as stack:
                await self._enter(stack, args, kwargs)
                return await handler(*args, **kwargs)

        return call

    def _wrap_async_generator(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with _AsyncStack() as stack:
                await self._enter(stack, args, kwargs)
                async for item in handler(*args, **kwargs):
                    yield item

        return call

    def _wrap_sync(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with _Stack() as stack:
                context = self._enter_sync(stack, args, kwargs)
                value = handler(*args, **kwargs)
                return context.wait_for(value) if inspect.iscoroutine(value) else value

        return call

    def _wrap_generator(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with _Stack() as stack:
                self._enter_sync(stack, args, kwargs)
                yield from handler(*args, **kwargs)

        return call


_IMPORT = "import Depends from toolcrib"


def _is_context(hint: Any) -> bool:
    bare = hint.__origin__ if origin_of(hint) is Annotated else hint
    return isinstance(bare, type) and issubclass(bare, Context)


class _Stack(ExitStack):
    """Closes dependencies after a sync tool. One that suppresses the exception of the tool cannot hide it."""

    def __exit__(self, *error: Any) -> Literal[False]:
        super().__exit__(*error)
        return False


class _AsyncStack(AsyncExitStack):
    """Does the same for an async tool."""

    async def __aexit__(self, *error: Any) -> Literal[False]:
        await super().__aexit__(*error)
        return False


class _LeftOnThread:
    """A sync context manager for async code: its clean-up may block, and runs on a thread of its own."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def __aenter__(self) -> Any:
        return self._manager.__enter__()

    async def __aexit__(self, *error: Any) -> Any:
        done, context = Future[Any](), copy_context()
        done.set_running_or_notify_cancel()  # a call that ends early does not stop it

        def leave() -> None:
            try:
                done.set_result(context.run(self._manager.__exit__, *error))
            except BaseException as raised:
                done.set_exception(raised)

        threading.Thread(target=leave, name="toolcrib-cleanup", daemon=True).start()
        return await asyncio.wrap_future(done)


class _OnLoop:
    """An async context manager for code on a thread: entered and left on the event loop of the call."""

    def __init__(self, manager: Any, context: Context) -> None:
        self._manager = manager
        self._context = context

    def __enter__(self) -> Any:
        return self._context.wait_for(self._manager.__aenter__())

    def __exit__(self, *error: Any) -> Any:
        return self._context.wait_for(self._manager.__aexit__(*error), is_cleanup=True)


# --- bound, hidden and renamed arguments -------------------------------------------------------------

_PLAIN_KEYWORDS = frozenset(
    {"$defs", "$schema", "additionalProperties", "definitions", "description", "properties", "required"}
    | {"title", "type"}
)
"""Keywords of an input schema beside which an argument can be removed or renamed."""
_JSON = (str, int, float, bool, list, dict, type(None))


def bind_arguments(arguments: ToolArguments, options: ToolOptions) -> ToolArguments:
    """Return the arguments of a tool after `bind`, `rename` and `hide`. Raise InvalidToolError."""
    tool, schema = arguments.name, arguments.schema
    properties, required = schema.get("properties", {}), schema.get("required", ())
    _check_changes(tool, schema, options)
    gone = {*options.bind, *options.hide}
    names = {name: options.rename.get(name, name) for name in properties if name not in gone}
    parameters = {new: arguments.parameters.get(old, old) for old, new in names.items()}
    published = {**schema, "properties": {names[name]: properties[name] for name in names}}
    if "required" in schema:
        published["required"] = [names[name] for name in required if name in names]
    values = _BoundValues(arguments)
    for name, value in options.bind.items():
        values.add(name, value)
    return replace(
        arguments,
        schema=_without_unused(published),
        parameters={new: parameter for new, parameter in parameters.items() if new != parameter},
        shapes={names[name]: shape for name, shape in arguments.shapes.items() if name in names},
        nullable=frozenset(names[name] for name in arguments.nullable if name in names),
        optional=frozenset(names[name] for name in arguments.optional if name in names),
        reconverted=frozenset(names[name] for name in arguments.reconverted if name in names),
        bound=values.members,
        field_defaults=values.defaults,
        factories=values.factories,
        withheld=frozenset({*gone, *options.rename} - {*names.values()}),
    )


def _check_changes(tool: str, schema: Mapping[str, Any], options: ToolOptions) -> None:
    properties = schema.get("properties", {})
    given = {"bind": options.bind, "rename": options.rename, "hide": options.hide}
    seen: dict[str, str] = {}
    for option, named in given.items():
        for name in named:
            if name not in properties:
                hint = suggest(str(name), properties, f"arguments: {', '.join(properties) or 'none'}")
                _refuse_change(tool, option, name, f"names '{name}', which is not an argument", hint)
            if name in seen:
                _refuse_change(
                    tool, option, name, f"names '{name}', as '{seen[name]}' does", "use one of them"
                )
            seen[name] = option
    for name in options.hide:
        if name in schema.get("required", ()):
            hint = f"give its value: bind={{'{name}': ...}}"
            _refuse_change(tool, "hide", name, f"names '{name}', which has no default", hint)
    taken = {name for name in properties if name not in seen}
    new: Any
    for name, new in options.rename.items():
        if not isinstance(new, str) or not new:
            _refuse_change(tool, "rename", name, f"gives '{name}' the name {new!r}", "use a string")
        if new in taken:
            _refuse_change(tool, "rename", name, f"gives '{name}' the name '{new}', which is taken", None)
        taken.add(new)
    references = [str(node["$ref"]) for _, node in walk(schema) if "$ref" in node]
    complex_ = sorted(schema.keys() - _PLAIN_KEYWORDS) + [
        item for item in references if not item.startswith(("#/$defs/", "#/definitions/"))
    ]
    if complex_:
        problem = f"cannot be used: the schema has '{complex_[0]}', which may refer to arguments"
        _refuse_change(tool, next(iter(seen.values())), None, problem, "give the tool another input_schema")


def _refuse_change(tool: str, option: str, name: Any, problem: str, hint: str | None) -> NoReturn:
    text = f"Option '{option}' of tool '{tool}' {problem}"
    raise InvalidToolError(text, tool=tool, parameter=name, hint=hint) from None


class _BoundValues:
    """The values of fixed arguments: `members` of the dict that gets all arguments, else the `defaults` of
    parameters, or `factories` that make a new value for each call, which the function may change."""

    def __init__(self, arguments: ToolArguments) -> None:
        self._arguments = arguments
        self.members: dict[str, Any] = {}
        self.defaults = dict(arguments.field_defaults)
        self.factories = dict(arguments.factories)

    def add(self, name: str, value: Any) -> None:
        """Fix an argument. A JSON value is checked and converted as one that a client sends; any other value
        is passed to the function as it is."""
        arguments = self._arguments
        parameter = arguments.parameters.get(name, name)
        checked = converted = value
        make: Callable[[], Any] | None = None
        if isinstance(value, _JSON):
            properties = {name: arguments.schema["properties"][name]}
            alone = replace(
                arguments,
                schema={**arguments.schema, "properties": properties, "required": [name]},
                shapes={key: shape for key, shape in arguments.shapes.items() if key == name},
                field_defaults={},
                factories={},
                whole=None,
            )
            try:
                checked = alone.check({name: deepcopy(value)})[name]
                bound = alone.bind({name: checked})
            except InvalidArgumentsError as error:
                problem = f"has a value that does not fit: {str(error).partition(': ')[2]}"
                _refuse_change(arguments.name, "bind", name, problem, "change the value")
            if parameter not in bound:  # an explicit null that means the default
                return
            converted = bound[parameter]
            if isinstance(value, list | dict):
                make = functools.partial(_convert_again, alone, name, parameter, checked)
        if arguments.whole is not None:
            self.members[name] = checked
            return
        self.factories.pop(parameter, None)
        if make is None:
            self.defaults[parameter] = converted
        else:
            self.factories[parameter] = make


def _convert_again(alone: ToolArguments, name: str, parameter: str, value: Any) -> Any:
    return alone.bind({name: deepcopy(value)})[parameter]


def _without_unused(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without definitions that nothing refers to any more."""
    for key in ("$defs", "definitions"):
        if key not in schema:
            continue
        left = dict(schema[key])
        while True:
            rest = {**schema, key: left}
            used = {str(node.get("$ref")).rpartition("/")[2] for _, node in walk(rest)}
            if left.keys() <= used:
                break
            left = {name: item for name, item in left.items() if name in used}
        schema = {**schema, key: left} if left else {k: v for k, v in schema.items() if k != key}
    return dict(schema)
