"""A tool: a definition with the code behind it.

Making a Tool is cheap: name, kind and parameter kinds are looked at, nothing more. Schemas and words are
built when the definition is first wanted, validators when the tool is first called; building is pure and
published by one assignment, so threads need no lock. Refuses to know registries and how code runs.

`@tool`, which marks a function, a method or a tool class and returns it unchanged; and how a mark is read.

Knows options as what is said of a tool. Refuses to know what becomes of a marked thing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload, runtime_checkable

from toolcrib.definition import (
    MAX_DESCRIPTION_BYTES,
    NO_OPTIONS,
    OptionFields,
    ToolDefinition,
    ToolOptions,
    check_schema_words,
    check_words,
)
from toolcrib.errors import DefinitionError, Finding, InvalidToolError, Location
from toolcrib.schema.parameters import Callee, check_parameters, inspect_callable, name_of
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.schema.arguments import ArgumentCheck
    from toolcrib.schema.function import Blueprint
    from toolcrib.schema.result import ResultPlan

MARK = "__toolcrib__"
F = TypeVar("F", bound=Callable[..., Any])


def marked_options(thing: Any) -> ToolOptions:
    """What `@tool` said about a function or a class; nothing said gives the defaults."""
    options = getattr(thing, MARK, None)
    while options is None and hasattr(thing, "func"):  # a partial of a marked function
        thing = thing.func
        options = getattr(thing, MARK, None)
    return options if isinstance(options, ToolOptions) else NO_OPTIONS


def is_marked(thing: Any) -> bool:
    return isinstance(getattr(thing, MARK, None), ToolOptions)


def options_of(first: Any, description: str | None, schema: Any, given: OptionFields) -> OptionFields:
    """The keywords behind `@tool("name", "description", {...}, ...)`."""
    merged = given.copy()
    if first is not None:
        merged["name"] = first
    if description is not None:
        merged["description"] = description
    if schema is not None:
        merged["input_schema"] = schema
    return merged


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    /,
    **options: Unpack[OptionFields],
) -> Callable[[F], F]: ...
def tool(
    first: Any = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    /,
    **options: Unpack[OptionFields],
) -> Any:
    """Mark a function, a method or a tool class to be found and registered later; it stays what it is.

    Works bare (`@tool`), with options (`@tool(read_only=True)`), with a name, and with a name, a
    description and an explicit schema.
    """
    if callable(first) or isinstance(first, classmethod):
        return _mark(first, NO_OPTIONS)
    if first is not None and not isinstance(first, str):
        raise InvalidToolError(f"@tool takes a name first, got {type(first).__name__}")
    chosen = NO_OPTIONS.over(options_of(first, description, schema, options))
    return lambda function: _mark(function, chosen)


def _mark(function: Any, options: ToolOptions) -> Any:
    target = function.__func__ if isinstance(function, staticmethod | classmethod) else function
    try:
        setattr(target, MARK, options)
    except (AttributeError, TypeError):
        raise InvalidToolError(
            f"@tool cannot mark a {type(target).__name__}", hint="give the options where it is added"
        ) from None
    return function


Build = Callable[[Callee, str, ToolOptions], "Blueprint"]


@runtime_checkable
class MCPTool(Protocol):
    """A tool object: what `MCPServer.register_tool` takes."""

    name: str
    description: str
    input_schema: dict[str, Any]

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the tool on checked arguments."""
        ...


class Built:
    """What building a tool comes to; made once, read by every call. What only calls need is made for the
    first who asks: catalogs have thousands of tools that nobody calls."""

    __slots__ = ("_arguments", "_blueprint", "_options", "_results", "definition", "findings", "handler")

    def __init__(self, tool: Tool, blueprint: Blueprint) -> None:
        options = tool.options
        self._blueprint = blueprint
        self._options = options
        self._arguments: ArgumentCheck | None = None
        self._results: ResultPlan | None = None
        self.handler = blueprint.handler
        annotations = dict(blueprint.annotations)
        if options is not NO_OPTIONS:  # most authors say nothing more
            annotations.update(options.annotations)
        metadata: dict[str, Any] = dict(options.metadata)
        if blueprint.raises:
            metadata.setdefault("raises", dict(blueprint.raises))
        self.definition = ToolDefinition(
            name=tool.name,
            description=blueprint.description,
            input_schema=blueprint.input_schema,
            output_schema=blueprint.output_schema,
            title=options.title,
            annotations=annotations,
            tags=tuple(dict.fromkeys((*options.tags, *blueprint.tags))),
            version=options.version,
            metadata=metadata,
            source=tool.source,
            returns=blueprint.returns,
            raises=blueprint.raises,
            icons=options.icons,
            meta=options.meta,
        )
        self.findings: tuple[Finding, ...] = tuple(blueprint.findings)

    @property
    def arguments(self) -> ArgumentCheck:
        if self._arguments is None:
            from toolcrib.schema.arguments import ArgumentCheck  # see above: not before it is wanted

            self._arguments = ArgumentCheck(
                self.definition.name,
                self._blueprint.input_schema,
                self._blueprint.binder,
                trusted=self._blueprint.trusted,
                repairs=self._options.repair,
                ignores_extra=self._options.extra == "ignore",
                max_convert_ms=self._options.max_convert_ms,
            )
        return self._arguments

    @property
    def results(self) -> ResultPlan:
        if self._results is None:
            from toolcrib.schema.result import ResultPlan  # as above

            self._results = ResultPlan(
                self.definition.name,
                self._blueprint.output_schema,
                self._blueprint.dump,
                trusted=self._blueprint.trusted,
            )
        return self._results

    @property
    def is_sure(self) -> bool:
        """Whether nothing can be wrong with its schemas and words, as they were made of plain types."""
        return self._blueprint.is_plain and self._blueprint.trusted


class Tool:
    """A definition with its handler. Make one with `from_function`, `from_handler` or `from_object`.

    `origin` is the object that was registered, `owner` the application it belongs to. `long_name` is the
    full spelling of a name that had to be shortened; both can be called. `namespace` is the prefix that the
    source asks for.
    """

    __slots__ = (
        "_build",
        "_built",
        "_refusal",
        "callee",
        "long_name",
        "name",
        "namespace",
        "options",
        "origin",
        "owner",
    )

    def __init__(self, callee: Callee, name: str, options: ToolOptions, build: Build, origin: Any) -> None:
        self.callee = callee
        self.name = name
        self.options = options
        self.origin = origin
        self.owner: Any = None
        self.namespace: str | None = None
        self.long_name: str | None = None
        self._build = build
        self._built: Built | None = None
        self._refusal: DefinitionError | None = None

    @classmethod
    def from_function(cls, fn: Callable[..., Any], **options: Unpack[OptionFields]) -> Tool:
        """A tool out of anything callable; options given here win over those of `@tool`."""
        if not callable(fn):
            raise InvalidToolError(f"A tool must be callable, got {type(fn).__name__}")
        merged = marked_options(fn).over(options)
        name = merged.name if merged.name is not None else name_of(fn)
        callee = inspect_callable(fn, name or "lambda")
        if not name and merged.name is None:
            raise InvalidToolError(
                "A lambda has no name of its own", source=callee.source, hint="give one: name=..."
            )
        if merged.input_schema is not None:
            return cls(callee, name, merged, _build_handler, fn)
        check_parameters(callee, name)
        return cls(callee, name, merged, _build_function, fn)

    @classmethod
    def from_handler(
        cls,
        handler: Callable[..., Any],
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        /,
        **options: Unpack[OptionFields],
    ) -> Tool:
        """A tool out of a handler and an explicit schema, which is enforced as written."""
        return cls.from_function(handler, **options_of(name, description, input_schema, options))

    @classmethod
    def from_object(cls, thing: Any, **options: Unpack[OptionFields]) -> Tool:
        """A tool out of an object with `name`, `description`, `input_schema` and `execute`."""
        facts = read_tool_object(thing)
        execute = facts.pop("execute")
        merged = marked_options(type(thing)).over(facts).over(options)
        name = merged.name or ""
        return cls(inspect_callable(execute, name), name, merged, _build_object, thing)

    # --- what it is ---

    @property
    def handler(self) -> Callable[..., Any]:
        """What a call runs."""
        return self.callee.handler if self._built is None else self._built.handler

    @property
    def source(self) -> Location:
        return self.callee.source

    @property
    def version(self) -> str | None:
        return self.options.version

    @property
    def is_async(self) -> bool:
        return self.callee.is_async

    @property
    def definition(self) -> ToolDefinition:
        """What clients are told; built at the first look. Raises DefinitionError where it cannot be."""
        return (self._built or self.built).definition

    @property
    def built(self) -> Built:
        if self._built is None:
            self._built = self._build_now()
        return self._built

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What building had to remark; empty for a tool without a flaw."""
        return self.built.findings

    def check(self) -> Built:
        """Build everything, validators included, so that nothing wrong is found later."""
        built = self.built
        try:
            _ = built.arguments.validator, built.results.validator
        except DefinitionError as error:
            raise self._blamed(error)
        return built

    def examine(self) -> Built:
        """Build everything that may be wrong, for who does not call it: no validator that could not be."""
        built = self.built
        return built if built.is_sure else self.check()

    def renamed(self, name: str, *, long_name: str | None = None) -> Tool:
        """The same tool under another name."""
        return self._changed(name=name, long_name=long_name)

    def with_options(self, **options: Unpack[OptionFields]) -> Tool:
        """The same tool with some options changed; an `input_schema` given here replaces the made one."""
        merged = self.options.over(options)
        if merged.name is not None and "name" in options:
            other = self._changed(options=merged, name=merged.name, long_name=None)
        else:
            other = self._changed(options=merged)
        if "input_schema" in options and self._build is not _build_object:
            if merged.input_schema is None:
                check_parameters(self.callee, other.name)
            other._build = _build_function if merged.input_schema is None else _build_handler
        return other

    def _changed(self, **changes: Any) -> Tool:
        other = copy(self)
        for key, value in changes.items():
            setattr(other, key, value)
        other._built = other._refusal = None
        return other

    def _build_now(self) -> Built:
        if self._refusal is not None:
            raise self._refusal
        try:
            built = Built(self, self._build(self.callee, self.name, self.options))
            if not built.is_sure:
                _check_texts(self, built.definition)
                _ = built.definition.mirrored  # raises where a mark is wrong
            return built
        except DefinitionError as error:
            self._refusal = self._blamed(error)
            raise

    def _blamed(self, error: DefinitionError) -> DefinitionError:
        """The error, knowing whose it is."""
        error.tool = error.tool or self.name
        if error.source.file is None:
            error.source = self.source
        return error

    def __repr__(self) -> str:
        version = f"@{self.version}" if self.version else ""
        return f"<Tool {self.name}{version} from {self.source}>"


_UNUSUAL = re.compile(rb'[^\x20-\x7e]|\\[^"\\nt]')


def _check_texts(tool: Tool, made: ToolDefinition) -> None:
    if _is_plain_ascii(made.description, made.title or "", made.input_schema, made.output_schema or {}):
        return
    check_words(made.description, f"The description of tool '{tool.name}'", tool.name)
    if made.title is not None:
        check_words(made.title, f"The title of tool '{tool.name}'", tool.name)
    check_schema_words(made.input_schema, f"The input schema of tool '{tool.name}'", tool.name)
    if made.output_schema is not None:
        check_schema_words(made.output_schema, f"The output schema of tool '{tool.name}'", tool.name)


def _is_plain_ascii(*texts: Any) -> bool:
    """Whether the JSON of all this shows every character as it is: then nothing in it can be hidden."""
    try:
        shown = codec.encode(texts)
    except (ValueError, TypeError, RecursionError):
        return False
    return len(shown) <= MAX_DESCRIPTION_BYTES and _UNUSUAL.search(shown) is None


# The three ways to build, loaded when first used: reading hints and schemas costs start-up time.


@cache
def _pipeline() -> Build:
    from toolcrib.schema.function import build_blueprint  # looked for once, and not for every tool

    return build_blueprint


def _build_function(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    return _pipeline()(callee, name, options)


def _build_handler(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    from toolcrib.schema.function import build_handler

    return build_handler(callee, name, options)


def _build_object(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    from toolcrib.schema.function import build_object

    return build_object(callee, name, options)


# --- tool objects ------------------------------------------------------------------------------------

_SPELLINGS = {
    "name": ("name", "Name"),
    "description": ("description", "Description"),
    "input_schema": ("input_schema", "InputSchema", "inputSchema"),
    "execute": ("execute", "ExecuteAsync", "execute_async"),
}


def is_tool_object(thing: Any) -> bool:
    """Whether this is an instance that has all a tool object has, in either spelling."""
    return not isinstance(thing, type) and all(
        any(hasattr(thing, spelling) for spelling in spellings) for spellings in _SPELLINGS.values()
    )


def read_tool_object(thing: Any) -> Any:
    """The parts of a tool object under one spelling. Raises InvalidToolError for a missing one."""
    facts: dict[str, Any] = {}
    for part, spellings in _SPELLINGS.items():
        found = next((spelling for spelling in spellings if hasattr(thing, spelling)), None)
        if found is None:
            raise InvalidToolError(f"Tool must have '{part}': {type(thing).__name__} has none")
        facts[part] = getattr(thing, found)
    if not callable(facts["execute"]):
        raise InvalidToolError("Tool must have callable 'execute' method")
    facts["output_schema"] = getattr(thing, "output_schema", None) or getattr(thing, "OutputSchema", None)
    return facts
