"""Tools, resources and prompts as components: a definition with its handler; and the `@tool` decorator.

Making one is cheap: it looks at the name and the kinds of the parameters. Schemas and descriptions are
built when the definition is first needed, validators at the first call. Building has no side effects and
its outcome is stored by one assignment, so that threads need no lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    overload,
    runtime_checkable,
)

from toolcrib.definition import ToolDefinition
from toolcrib.errors import (
    CallError,
    DefinitionError,
    Finding,
    InvalidSignatureError,
    InvalidToolError,
    Location,
)
from toolcrib.names import MAX_DESCRIPTION_BYTES, check_schema_text, check_text
from toolcrib.options import NO_OPTIONS, GivenOptions, OptionFields, ToolOptions
from toolcrib.schema.parameters import VARIABLE_KINDS, HandlerInfo, check_parameters, inspect_handler, name_of
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.schema.arguments import ToolArguments
    from toolcrib.schema.function import ToolParts
    from toolcrib.schema.result import ToolResults

MARK = "__toolcrib__"
F = TypeVar("F", bound=Callable[..., Any])
Build = Callable[[HandlerInfo, str, ToolOptions], "ToolParts"]


# --- the decorator -----------------------------------------------------------------------------------


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    /,
    **options: Unpack[GivenOptions],
) -> Callable[[F], F]: ...
def tool(
    first: Any = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    /,
    **options: Unpack[GivenOptions],
) -> Any:
    """Mark a function, a method or a tool class to be found and registered later, and return it unchanged.

    Works bare (`@tool`), with options (`@tool(read_only=True)`), with a name, and with a name, a
    description and an explicit schema.
    """
    if callable(first) or isinstance(first, classmethod):
        return _mark(first, NO_OPTIONS)
    if first is not None and not isinstance(first, str):
        raise InvalidToolError(f"@tool takes a name first, got {type(first).__name__}")
    merged = NO_OPTIONS.override(merge_options(first, description, schema, options))
    return lambda function: _mark(function, merged)


def _mark(function: Any, options: ToolOptions) -> Any:
    target = function.__func__ if isinstance(function, staticmethod | classmethod) else function
    try:
        setattr(target, MARK, options)
    except (AttributeError, TypeError):
        raise InvalidToolError(
            f"@tool cannot mark a {type(target).__name__}", hint="give the options where it is added"
        ) from None
    return function


def merge_options(name: Any, description: str | None, schema: Any, options: OptionFields) -> OptionFields:
    """Return the options of `@tool("name", "description", {...}, ...)`."""
    merged = options.copy()
    if name is not None:
        merged["name"] = name
    if description is not None:
        merged["description"] = description
    if schema is not None:
        merged["input_schema"] = schema
    return merged


def marked_options(thing: Any) -> ToolOptions:
    """Return the options that `@tool` gave a function or a class, or the defaults."""
    options = getattr(thing, MARK, None)
    while options is None and hasattr(thing, "func"):  # a partial of a marked function
        thing = thing.func
        options = getattr(thing, MARK, None)
    return options if isinstance(options, ToolOptions) else NO_OPTIONS


def is_marked(thing: Any) -> bool:
    return isinstance(getattr(thing, MARK, None), ToolOptions)


# --- components --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Adoption:
    """How a tool of another library's server is run: as a function ("native"), or through the handlers of
    that server ("handlers"), and the reason. `explain` returns what that library tells callers of an
    exception of the function. `needs_server`: the server has to run for a call. `refuses_http`: its
    middleware may look at HTTP headers, which it would not get."""

    library: str
    way: Literal["native", "handlers"]
    reason: str
    explain: Callable[[BaseException], CallError]
    needs_server: bool = True
    refuses_http: bool = False

    def to_json(self) -> dict[str, str]:
        return {"library": self.library, "way": self.way, "reason": self.reason}


Kind = Literal["tool", "resource", "prompt"]


class FolderFile(NamedTuple):
    """Which file of a folder a resource is: the template of the folder, and the values of its variables."""

    template: Component
    values: Mapping[str, Any]


class Component:
    """A definition with its handler: a tool, a resource or a prompt, as `kind` says.

    `origin` is the object that was registered, `owner` the application it belongs to. `long_name` is the
    full form of a name that had to be shortened; both can be called. `namespace` is the prefix that the
    source asks for. `adoption` is set for those of other libraries' servers. `extension` is the MCP
    extension that it belongs to.
    """

    kind: ClassVar[Kind]
    extension: ClassVar[str | None] = None
    member_of: FolderFile | None = None
    """The folder of a file that is published with it. Only resources have one."""
    __slots__ = (
        "_build",
        "_built",
        "_error",
        "_results",
        "adoption",
        "info",
        "long_name",
        "name",
        "namespace",
        "options",
        "origin",
        "owner",
    )

    def __init__(
        self, info: HandlerInfo, name: str, options: ToolOptions, build: Build | str, origin: Any
    ) -> None:
        """`build` makes the parts: a function, or "function", "handler", "object" or "open"."""
        self.info = info
        self.name = name
        self.options = options
        self.origin = origin
        self.owner: Any = None
        self.adoption: Adoption | None = None
        self.namespace: str | None = None
        self.long_name: str | None = None
        self._build = build
        self._built: tuple[ToolDefinition, ToolParts] | None = None
        self._results: ToolResults | None = None
        self._error: DefinitionError | None = None

    @property
    def source(self) -> Location:
        return self.info.source

    @property
    def version(self) -> str | None:
        return self.options.version

    @property
    def label(self) -> str:
        """The kind and the name, for messages."""
        return f"{self.kind.capitalize()} '{self.name}'"

    @property
    def reference(self) -> str:
        """The name in records and counts: `prompt:NAME` and `resource:URI`, but plain names of tools."""
        return self.name if self.kind == "tool" else f"{self.kind}:{self.name}"

    @property
    def is_folder(self) -> bool:
        """Whether this is the template of a folder's files."""
        return False

    def file_at(self, arguments: Mapping[str, Any] | None) -> Component | None:  # noqa: ARG002
        """Return the file that the template of a folder is read with; None for everything else."""
        return None

    @property
    def is_async(self) -> bool:
        return self.info.is_async

    @property
    def definition(self) -> ToolDefinition:
        """The definition that clients see, built at first use. Raises DefinitionError where it cannot be."""
        return (self._built or self._build_once())[0]

    def to_wire(self) -> dict[str, Any]:
        """Return the entry in a list, as the newest revision has it."""
        raise NotImplementedError

    @property
    def handler(self) -> Callable[..., Any]:
        """The callable that a call runs."""
        return self.info.handler if self._built is None else self._built[1].handler

    @property
    def arguments(self) -> ToolArguments:
        """Checks and converts the arguments of calls."""
        return (self._built or self._build_once())[1].arguments

    @property
    def results(self) -> ToolResults:
        """Checks and converts the results of calls."""
        if self._results is None:
            self._results = self._make_results((self._built or self._build_once())[1])
        return self._results

    def _make_results(self, parts: ToolParts) -> ToolResults:
        raise NotImplementedError

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What building found that is worth mentioning."""
        return (self._built or self._build_once())[1].findings

    def check(self) -> Self:
        """Build everything, validators included, and raise DefinitionError where something is wrong."""
        try:
            _ = self.arguments.validator, self.results.validator
        except DefinitionError as error:
            raise self._attribute(error)
        return self

    def check_definition(self) -> Self:
        """Do the same as `check`, but compile only explicit schemas: those made from hints are valid."""
        return self if self.arguments.trusted else self.check()

    def renamed(self, name: str, *, long_name: str | None = None) -> Self:
        """Return the same under another name."""
        return self._changed(name=name, long_name=long_name)

    def with_options(self, **options: Unpack[GivenOptions]) -> Self:
        """Return the same with other options; an `input_schema` replaces the one made from hints."""
        merged = self.options.override(options)
        if merged.name is not None and "name" in options:
            other = self._changed(options=merged, name=merged.name, long_name=None)
        else:
            other = self._changed(options=merged)
        if "input_schema" in options and self._build != "object":
            if merged.input_schema is None:
                check_parameters(self.info, other.name)
            other._build = "function" if merged.input_schema is None else "handler"
        return other

    def _changed(self, **changes: Any) -> Self:
        other = copy(self)
        for key, value in changes.items():
            setattr(other, key, value)
        other._built = other._results = other._error = None
        return other

    def _build_once(self) -> tuple[ToolDefinition, ToolParts]:
        if self._error is not None:
            raise self._error
        try:
            build = _builders()[self._build] if isinstance(self._build, str) else self._build
            parts = build(self.info, self.name, self.options)
            if self.options.changes_arguments:
                from toolcrib.schema.injection import bind_arguments  # few tools need it

                parts = replace(parts, arguments=bind_arguments(parts.arguments, self.options))
            definition = self._define(parts)
            _check_texts(definition, self.kind)
        except DefinitionError as error:
            self._error = self._attribute(error)
            raise
        self._built = (definition, parts)
        return self._built

    def _define(self, parts: ToolParts) -> ToolDefinition:
        options = self.options
        annotations = dict(parts.annotations)
        if options is not NO_OPTIONS:  # computing them takes time
            annotations.update(options.annotations)
        metadata: dict[str, Any] = dict(options.metadata)
        if parts.raises:
            metadata.setdefault("raises", dict(parts.raises))
        return ToolDefinition(
            name=self.name,
            description=parts.description,
            input_schema=parts.arguments.schema,
            output_schema=parts.output_schema,
            title=options.title,
            annotations=annotations,
            tags=tuple(dict.fromkeys((*options.tags, *parts.tags))),
            version=options.version,
            metadata=metadata,
            source=self.source,
            returns=parts.returns,
            raises=parts.raises,
            icons=options.icons,
            meta=options.published_meta,
        )

    def _attribute(self, error: DefinitionError) -> DefinitionError:
        """Return the error with the name and the location of this component."""
        error.tool = error.tool or self.name
        if error.source.file is None:
            error.source = self.source
        return error

    def __repr__(self) -> str:
        version = f"@{self.version}" if self.version else ""
        return f"<{self.kind.capitalize()} {self.name}{version} from {self.source}>"


class Tool(Component):
    """A tool. Made by `from_function`, `from_handler` or `from_object`."""

    kind = "tool"
    __slots__ = ()

    @classmethod
    def from_function(cls, fn: Callable[..., Any], **options: Unpack[GivenOptions]) -> Self:
        """Make a tool of anything callable; options given here win over those of `@tool`."""
        if not callable(fn):
            raise InvalidToolError(f"A tool must be callable, got {type(fn).__name__}")
        merged = marked_options(fn).override(options)
        name = merged.name if merged.name is not None else name_of(fn)
        info = inspect_handler(fn, name or "lambda")
        if not name and merged.name is None:
            raise InvalidToolError("A lambda needs a name", source=info.source, hint="give one: name=...")
        if merged.input_schema is not None:
            return cls(info, name, merged, "handler", fn)
        try:
            check_parameters(info, name)
        except InvalidSignatureError as error:
            raise error.add(_find_further(info, name, merged)) from None
        return cls(info, name, merged, "function", fn)

    @classmethod
    def from_handler(
        cls,
        handler: Callable[..., Any],
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        /,
        **options: Unpack[GivenOptions],
    ) -> Self:
        """Make a tool of a handler and an explicit schema, which is enforced as written."""
        return cls.from_function(handler, **merge_options(name, description, input_schema, options))

    @classmethod
    def from_object(cls, thing: Any, **options: Unpack[GivenOptions]) -> Self:
        """Make a tool of an object with `name`, `description`, `input_schema` and `execute`."""
        parts = read_tool_object(thing)
        execute = parts.pop("execute")
        merged = marked_options(type(thing)).override(parts).override(options)
        name = merged.name or ""
        return cls(inspect_handler(execute, name), name, merged, "object", thing)

    def to_wire(self) -> dict[str, Any]:
        """Return the tool as the newest revision lists it."""
        return self.definition.to_wire()

    def _make_results(self, parts: ToolParts) -> ToolResults:
        from toolcrib.schema.result import ToolResults  # delayed: most tools of a catalog are not called

        return ToolResults(self.name, parts.output_schema, parts.dump, trusted=parts.arguments.trusted)


_UNUSUAL_ESCAPE = re.compile(rb'\\[^"\\nt]')


def _check_texts(made: ToolDefinition, kind: str) -> None:
    """Raise DefinitionError where a text has hidden characters or is too long, or a header mark is wrong."""
    name, owner = made.name, f"{kind} '{made.name}'"
    try:
        texts = (made.description, made.title or "", made.input_schema, made.output_schema or {})
        encoded = codec.write(texts)
    except (ValueError, TypeError, RecursionError):
        encoded = b""
    if not encoded or b'"x-mcp-header"' in encoded:
        _ = made.mirrored
    # JSON escapes all control characters but this one.
    if encoded.isascii() and b"\x7f" not in encoded and 0 < len(encoded) <= MAX_DESCRIPTION_BYTES:
        is_plain = encoded.count(b"\\") == encoded.count(b"\\n")
        if is_plain or _UNUSUAL_ESCAPE.search(encoded) is None:
            return  # every character is visible, as nearly always
    check_text(made.description, f"The description of {owner}", name)
    if made.title is not None:
        check_text(made.title, f"The title of {owner}", name)
    check_schema_text(made.input_schema, f"The input schema of {owner}", name)
    if made.output_schema is not None:
        check_schema_text(made.output_schema, f"The output schema of {owner}", name)


def _find_further(info: HandlerInfo, name: str, options: ToolOptions) -> list[DefinitionError]:
    """Return what else is wrong with a function whose kinds of parameters are refused."""
    named = copy(info)
    named._parameters = [item for item in info.parameters if item.kind not in VARIABLE_KINDS]
    try:
        _builders()["function"](named, name, options)
    except DefinitionError as error:
        return [error]
    except Exception:  # the signature may be more than odd
        return []
    return []


@cache
def _builders() -> dict[str, Build]:
    """Load what builds tools, which takes half of the start-up time, when the first definition is needed."""
    from toolcrib.schema.function import build_function, build_handler, build_object, build_open

    return {"function": build_function, "handler": build_handler, "object": build_object, "open": build_open}


# --- tool objects ------------------------------------------------------------------------------------


@runtime_checkable
class MCPTool(Protocol):
    """A tool object, as `MCPServer.register_tool` takes it."""

    name: str
    description: str
    input_schema: dict[str, Any]

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the tool with checked arguments."""
        ...


SPELLINGS = {
    "name": ("name", "Name"),
    "description": ("description", "Description"),
    "input_schema": ("input_schema", "InputSchema", "inputSchema"),
    "execute": ("execute", "ExecuteAsync", "execute_async"),
}


def is_tool_object(thing: Any) -> bool:
    """Whether this is an instance with all attributes of a tool object, in either spelling."""
    return not isinstance(thing, type) and all(
        any(hasattr(thing, spelling) for spelling in spellings) for spellings in SPELLINGS.values()
    )


def read_tool_object(thing: Any) -> Any:
    """Return the attributes of a tool object under one spelling. Raise InvalidToolError for a missing one."""
    parts: dict[str, Any] = {}
    for part, spellings in SPELLINGS.items():
        spelling = next((spelling for spelling in spellings if hasattr(thing, spelling)), None)
        if spelling is None:
            raise InvalidToolError(f"Tool must have '{part}': {type(thing).__name__} has none")
        parts[part] = getattr(thing, spelling)
    if not callable(parts["execute"]):
        raise InvalidToolError("Tool must have callable 'execute' method")
    parts["output_schema"] = getattr(thing, "output_schema", None) or getattr(thing, "OutputSchema", None)
    return parts
