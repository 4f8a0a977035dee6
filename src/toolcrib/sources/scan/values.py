"""Evaluate the values and the annotations in source files, with limits on size and depth.

Values are literals, arithmetic on them, constants, enum members and calls of the constructors of known.py;
anything else is Unresolved, with the reason. Annotations become run-time hints; a part that cannot be
resolved becomes Any, with a finding.
"""

from __future__ import annotations

import ast
import enum
import operator
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import Annotated, Any, Literal

from toolcrib.context import Depends
from toolcrib.errors import Finding
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.scan import known
from toolcrib.sources.scan.resolve import UNKNOWN, Arguments, Class, Data, Function, Known, Resolver
from toolcrib.sources.scan.source_file import Scope, show
from toolcrib.sources.source_text import parse_annotation

HINT = "unresolved-hint"
DEFAULT = "unresolved-default"

MAX_STEPS = 20_000
"""How many parts the annotations and defaults of one parameter may have, aliases written out."""
MAX_DEPTH = 60
MAX_MEMBERS = 500
"""Members of a union: typing compares each with each."""
_SCAN_TOO = "scan the package too, or register the tool at run time"
_ONE_WAY = "define it in one way"
_WRITE_LITERAL = "write a literal, or register the tool at run time"


@dataclass(eq=False, slots=True)
class Site:
    """Where an expression stands, and when it would be evaluated.

    `lazy`: as text, when the module is complete. `is_hint`: as an annotation. `is_field`: in the body of a
    class. `is_table`: in a table, whose functions become stubs.
    """

    scope: Scope
    lazy: bool = False
    is_hint: bool = False
    is_field: bool = False
    is_table: bool = False

    @property
    def path(self) -> str:
        return str(self.scope.file.path)


class Unresolved(Exception):  # noqa: N818 - a state of things, which most callers go on from
    """The meaning of code cannot be known by reading it. `line` is where it is written."""

    def __init__(self, message: str, line: int | None = None, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


class Excessive(Unresolved):
    """An expression is longer than anybody writes by hand: the whole of it is unresolved."""


@dataclass(eq=False)
class Trail:
    """The findings on the way to one hint or value, those of classes included, each once.

    Also counts steps, so that aliases that double at each turn, or lead to themselves, come to an end.
    """

    findings: dict[Finding, None] = field(default_factory=dict)
    steps: int = 0
    depth: int = 0

    def step(self, node: ast.AST) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or self.depth > MAX_DEPTH:
            is_long = self.steps > MAX_STEPS
            size = "has too many parts" if is_long else "is nested too deeply or refers to itself"
            line = getattr(node, "lineno", None)
            raise Excessive(f"what is written here {size}", line, hint="write something simpler")

    def note(self, code: str, words: str, path: str, line: int | None, hint: str) -> None:
        self.findings[Finding(code, "warning", words, file=path, line=line, hint=hint)] = None


def inert(value: Any = None) -> Any:
    """Stands for a factory of defaults, a validator, or the function of a `Depends`."""
    return value


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.BitOr: operator.or_,
}
_VARIABLES = frozenset({"typing.NewType", "typing.TypeVar", "typing_extensions.TypeVar"})
_FIELDS = frozenset({"pydantic.Field", "dataclasses.field"})
_RECORDS = frozenset({"Annotations", "Icon", "PromptArgument", "Tool", "ToolAnnotations"})
SPELLINGS = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
    "mime_type": "mimeType",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
}
"""The names that mcp gives to the fields of its records in Python, and those in the protocol."""


class Evaluator:
    """Evaluates the values and the annotations in the files of one library. Classes, and the functions in
    tables, are made by `make_class` and `make_function`."""

    def __init__(self, resolver: Resolver, make_class: Callable[[ast.ClassDef, Scope, Trail], Any]) -> None:
        self.resolver = resolver
        self.make_class = make_class
        self.make_function: Callable[[Function], Any] | None = None
        self._made: dict[int, Any] = {}

    def evaluate(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        """Return the value of an expression, or the hint that it is; unknown parts of a hint are Any. Raise
        Unresolved where it is not known, or is too large."""
        if isinstance(node, ast.Constant) and not (site.is_hint and isinstance(node.value, str)):
            return node.value
        trail.step(node)
        trail.depth += 1
        try:
            made = (self._read_hint if site.is_hint else self._read_value)(node, site, trail)
        except Unresolved:
            raise
        except Exception as error:  # constructors and classes refuse their arguments in many ways
            words = str(error).partition("\n")[0]
            raise Unresolved(f"'{show(node)}' is refused at run time: {words}", node.lineno) from None
        finally:
            trail.depth -= 1
        if site.is_hint and isinstance(made, str):  # `typing` would evaluate it: no text of a file ever is
            raise Unresolved(f"'{show(node)}' is text that is made when the code runs", node.lineno)
        if not known.is_modest(made):
            raise Unresolved(f"'{show(node)}' is too large", node.lineno)
        return made

    def _read_value(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        match node:
            case ast.Name() | ast.Attribute():
                return self._named(node, site, trail)
            case ast.Call():
                return self._call(node, site, trail)
            case ast.UnaryOp(op=ast.USub()):
                return -self.evaluate(node.operand, site, trail)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                left, right = self.evaluate(node.left, site, trail), self.evaluate(node.right, site, trail)
                is_number = isinstance(left, int | float) and isinstance(right, int | float)
                if is_number or not isinstance(node.op, ast.Mult):
                    return _OPERATORS[type(node.op)](left, right)
            case ast.List() | ast.Tuple() | ast.Set():
                made: list[Any] = []
                for item in node.elts:
                    if isinstance(item, ast.Starred):
                        made += self.evaluate(item.value, site, trail)
                    else:
                        made.append(self.evaluate(item, site, trail))
                trail.steps += len(made)
                return {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)](made)
            case ast.Dict():
                entries: dict[Any, Any] = {}
                for key, value in zip(node.keys, node.values, strict=True):
                    if key is None:
                        entries |= self.evaluate(value, site, trail)
                    else:
                        entries[self.evaluate(key, site, trail)] = self.evaluate(value, site, trail)
                return entries
            case ast.JoinedStr():
                return "".join(self._text(part, site, trail) for part in node.values)
        raise _computed(node)

    def _text(self, part: ast.expr, site: Site, trail: Trail) -> str:
        if not isinstance(part, ast.FormattedValue):
            return str(self.evaluate(part, site, trail))
        value = self.evaluate(part.value, site, trail)
        if part.format_spec is not None or not isinstance(value, str | int | float | None):
            raise _computed(part)
        return repr(value) if part.conversion == ord("r") else format(value)

    def _named(self, node: ast.Name | ast.Attribute, site: Site, trail: Trail) -> Any:
        thing = self.resolver.resolve(node, site.scope, lazy=site.lazy)
        if thing.doubt and not site.is_hint:
            raise Unresolved(thing.doubt, node.lineno, hint=_ONE_WAY)
        if thing.doubt:
            trail.note(HINT, thing.doubt, site.path, node.lineno, _ONE_WAY)
        match thing:
            case Known(call=None):
                return self._outside(known.canonical(thing.name), node, site, trail)
            case Class():
                return self.make_class(thing.node, thing.scope, trail)
            case Function() if site.is_table and self.make_function is not None:
                return self.make_function(thing)
            case Known(call=Arguments(node=written, scope=scope)) | Data(node=written, scope=scope) if (
                written is not node
            ):
                owner = scope.node if scope.kind == "class" and scope is not site.scope else None
                if owner is not None and isinstance(node, ast.Attribute) and not site.is_hint:
                    cls = self.make_class(owner, scope.parent or scope, trail)
                    if isinstance(cls, enum.EnumMeta) and node.attr in cls.__members__:
                        return cls.__members__[node.attr]
                there = Site(scope, is_hint=site.is_hint, is_table=site.is_table)
                made = self.evaluate(written, there, trail)
                name = scope.name_of(written) if isinstance(made, list | dict | set) else None
                if name is not None and scope.file.changes(name):
                    raise Unresolved(f"'{show(node)}' is changed after it is made", node.lineno)
                return made
        if thing is not UNKNOWN:
            raise Unresolved(f"'{show(node)}' is no type", node.lineno) if site.is_hint else _computed(node)
        if isinstance(node, ast.Attribute) and node.attr in ("value", "name") and not site.is_hint:
            member = self.evaluate(node.value, site, trail)
            if isinstance(member, enum.Enum):
                return getattr(member, node.attr)
        raise Unresolved(f"'{show(node)}' is not defined where it can be read", node.lineno)

    def _outside(self, dotted: str, node: ast.expr, site: Site, trail: Trail) -> Any:
        """Return something of a package that is not scanned."""
        found = known.find(dotted)
        is_code = callable(found) and not isinstance(found, type) and not dotted.startswith("pydantic.alias_")
        if found is not known.MISSING and (site.is_hint or not is_code):
            return found
        module, _, name = dotted.rpartition(".")
        unread = Unresolved(
            f"'{show(node)}' comes from {module or 'a module'}, which is not read", node.lineno
        )
        if module.partition(".")[0] not in PACKAGES or site.is_field or not site.is_hint:
            raise unread
        if name != "Context":
            self._report(unread, node, site, trail)
        return foreign_class(module, name)

    def _call(self, node: ast.Call, site: Site, trail: Trail) -> Any:
        dotted = self.resolver.full_name(node.func, site.scope, lazy=site.lazy)
        package, last = dotted.partition(".")[0], dotted.rpartition(".")[2]
        method = node.func
        if dotted in known.TAKES_CODE and len(node.args) == 1 and not node.keywords:
            return known.find(dotted)(inert)
        if isinstance(method, ast.Attribute) and method.attr == "model_json_schema":
            model = self.permit(method.value, site, trail)
            if hasattr(model, "model_json_schema") and not node.args and not node.keywords:
                return model.model_json_schema()
        if dotted in _VARIABLES:
            return self._variable(node, dotted, replace(site, lazy=True), trail)
        is_record = package in PACKAGES and last in _RECORDS and not node.args
        if dotted not in known.CALLS and not is_record:
            raise _computed(node)
        places: list[Any] = []
        keywords: dict[str, Any] = {}
        for name, item in [("", item) for item in node.args] + [
            (item.arg or "**", item.value) for item in node.keywords
        ]:
            if name == "**":
                keywords |= self.evaluate(item, site, trail)
            elif dotted in _FIELDS:
                self._take(name or "default", item, site, trail, keywords)
            elif name:
                keywords[name] = self.evaluate(item, site, trail)
            else:
                places.append(self.evaluate(item, site, trail))
        if is_record:
            return {SPELLINGS.get(key, key): value for key, value in keywords.items() if value is not None}
        return known.call(dotted, places, keywords)

    def _variable(self, node: ast.Call, dotted: str, site: Site, trail: Trail) -> Any:
        """Return a TypeVar or NewType, once for all who use it."""
        if id(node) not in self._made:
            hints = [self.permit(part, site, trail) for part in node.args[1:]]
            options = {str(item.arg): self.permit(item.value, site, trail) for item in node.keywords}
            self._made[id(node)] = known.find(dotted)(
                self.evaluate(node.args[0], site, trail), *hints, **options
            )
        return self._made[id(node)]

    def _take(self, name: str, node: ast.expr, site: Site, trail: Trail, keywords: dict[str, Any]) -> None:
        """Take an argument of `Field(...)`; one that cannot be known is left out, with a finding."""
        if name == "default_factory":
            dotted = self.resolver.full_name(node, site.scope, lazy=site.lazy)
            keywords[name] = known.find(dotted) if dotted in known.GATHERING else inert
            return
        try:
            keywords[name] = self.evaluate(node, site, trail)
        except Unresolved as error:
            if name == "default":
                keywords["default_factory"] = inert
            code = DEFAULT if name == "default" else HINT
            words = f"{name}={show(node)} cannot be known: {error.message}"
            trail.note(code, words, site.path, error.line, error.hint or _WRITE_LITERAL)

    def default(self, name: str, node: ast.expr, site: Site, trail: Trail, unknown: Any) -> Any:
        """Return the value of a default; `unknown`, with a finding, where it cannot be known."""
        try:
            return self.evaluate(node, site, trail)
        except (Unresolved, RecursionError) as error:
            reason = error if isinstance(error, Unresolved) else Unresolved("it is nested too deeply")
            text = f"The default of '{name}' is not known, so it is not shown: {_explain(show(node), reason)}"
            trail.note(DEFAULT, text, site.path, reason.line or node.lineno, reason.hint or _WRITE_LITERAL)
            return unknown

    # --- annotations ---

    def permit(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        """Return the hint, or Any with a finding."""
        site = site if site.is_hint else replace(site, is_hint=True)
        try:
            return self.evaluate(node, site, trail)
        except (Unresolved, RecursionError) as error:
            if trail.depth and type(error) is not Unresolved:
                raise
            reason = error if isinstance(error, Unresolved) else Unresolved("it is nested too deeply")
            self._report(reason, node, site, trail)
            return Any

    def _report(self, error: Unresolved, node: ast.expr, site: Site, trail: Trail) -> None:
        shown = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else show(node)
        words = f"The annotation cannot be resolved, so anything is accepted: {_explain(shown, error)}"
        trail.note(HINT, words, site.path, error.line or node.lineno, error.hint or _SCAN_TOO)

    def _read_hint(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        match node:
            case ast.Constant(value=str(text)):
                inner = parse_annotation(text, node.lineno)
                if inner is None:
                    raise Unresolved(f"{show(node)} is text that is no annotation", node.lineno)
                return self.evaluate(inner, replace(site, lazy=True), trail)
            case ast.Name() | ast.Attribute():
                return self._named(node, site, trail)
            case ast.Subscript():
                return self._subscript(node, site, trail)
            case ast.BinOp(op=ast.BitOr()):
                return _join([self.permit(item, site, trail) for item in _members(node)], node)
            case ast.List():  # the parameters of a Callable
                return [self.permit(item, site, trail) for item in node.elts]
            case ast.Call():
                return self._call(node, replace(site, is_hint=False), trail)
        raise Unresolved(f"'{show(node)}' is no annotation that can be read", node.lineno)

    def _subscript(self, node: ast.Subscript, site: Site, trail: Trail) -> Any:
        base, plain = self.evaluate(node.value, site, trail), replace(site, is_hint=False)
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(part, ast.Starred | ast.Slice) for part in parts):
            raise Unresolved(f"'{show(node)}' cannot be read", node.lineno)
        if _is(base, "Literal"):
            return Literal[tuple(self.evaluate(part, plain, trail) for part in parts)]
        if _is(base, "ClassVar"):
            return typing.ClassVar
        if _is(base, "Annotated") and len(parts) > 1:
            metadata: list[Any] = []
            for part in parts[1:]:
                try:
                    metadata.append(self.evaluate(part, plain, trail))
                except Unresolved as error:
                    words = f"Metadata of the type is left out: {error.message}"
                    trail.note(HINT, words, site.path, error.line, error.hint or _SCAN_TOO)
            if any(isinstance(item, Depends) for item in metadata):
                return Annotated[(Any, *metadata)]  # not published, so its type need not be known
            inner = self.permit(parts[0], site, trail)
            return Annotated[(inner, *metadata)] if metadata else inner
        arguments = tuple(self.permit(part, site, trail) for part in parts)
        if base is typing.Union:
            return _join(list(arguments), node, is_written_out=True)
        if base in (Any, typing.NoReturn):
            return base  # something unknown, of whatever kind
        return base[arguments if isinstance(node.slice, ast.Tuple) else arguments[0]]


def _computed(node: ast.expr) -> Unresolved:
    return Unresolved(f"'{show(node)}' is computed when the code runs", node.lineno, hint=_WRITE_LITERAL)


def _explain(shown: str, error: Unresolved) -> str:
    return error.message if f"'{shown}'" in error.message else f"'{shown}': {error.message}"


def _members(node: ast.expr) -> list[ast.expr]:
    """Return the members of `a | b | c`, which nests to the left, without recursion."""
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _join(members: list[Any], node: ast.expr, *, is_written_out: bool = False) -> Any:
    if len(members) > MAX_MEMBERS:
        raise Unresolved("the union has too many members", node.lineno)
    try:
        return typing.Union[tuple(members)] if is_written_out else reduce(operator.or_, members)  # noqa: UP007
    except TypeError:
        return typing.Union[tuple(members)]  # noqa: UP007 - built from a tuple


def _is(thing: Any, name: str) -> bool:
    """Return whether this is a special form, of typing or of typing_extensions."""
    return thing is getattr(typing, name) or (
        getattr(thing, "__module__", "") == "typing_extensions" and getattr(thing, "_name", "") == name
    )


@cache
def foreign_class(module: str, name: str) -> type:
    """Return a class in place of one of mcp or fastmcp."""
    return type(name, (), {"__module__": module, "__class_getitem__": classmethod(types.GenericAlias)})


def is_foreign_context(hint: Any) -> bool:
    """Return whether a parameter of this hint gets the Context of mcp or fastmcp."""
    origin = typing.get_origin(hint)
    if origin is Annotated or origin is typing.Union or origin is types.UnionType:
        members = [item for item in typing.get_args(hint) if item is not type(None)]
        return bool(members) and is_foreign_context(members[0])
    cls = origin or hint
    is_context = isinstance(cls, type) and cls.__name__ == "Context"
    return is_context and cls is foreign_class(cls.__module__, "Context")
