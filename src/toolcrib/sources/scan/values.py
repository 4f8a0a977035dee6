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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from pathlib import Path
from typing import Annotated, Any, Literal

from toolcrib.context import Depends
from toolcrib.errors import Finding
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.scan import known
from toolcrib.sources.scan.names import BoundName, Names, Site
from toolcrib.sources.scan.source_file import Scope, show
from toolcrib.sources.scan.things import Known, Module
from toolcrib.sources.source_text import parse_annotation

HINT = "unresolved-hint"
DEFAULT = "unresolved-default"
CLASS = "approximate-class"

MAX_STEPS = 20_000
"""How many parts the annotations and defaults of one parameter may have, aliases written out."""
MAX_DEPTH = 60
MAX_MEMBERS = 500
"""Members of a union: typing compares each with each."""
MAX_VALUES = 10_000
_SCAN_TOO = "scan the package too, or register the tool at run time"
_QUIET = ("builtins", "typing", "collections", "collections.abc")
_WRITE_LITERAL = "write a literal, or register the tool at run time"


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
_MUTABLE = (list, dict, set, bytearray)
_FIELDS = frozenset({"pydantic.Field", "dataclasses.field"})
_GENERATORS = "pydantic.alias_generators."


class Evaluator:
    """Evaluates the values and the annotations in the files of one library."""

    def __init__(self, names: Names, make_class: Callable[[ast.ClassDef, Scope, Trail], Any]) -> None:
        self.names = names
        self.make_class = make_class
        self._variables: dict[int, Any] = {}

    def value(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        """Return the value of an expression. Raises Unresolved."""
        if isinstance(node, ast.Constant):
            return node.value
        evaluate = _VALUES.get(type(node))
        if evaluate is None:
            raise _computed(node)
        trail.step(node)
        trail.depth += 1
        try:
            made = evaluate(self, node, site, trail)
        except Unresolved:
            raise
        except Exception as error:  # constructors refuse in many ways, `re.error` among them
            raise Unresolved(f"'{show(node)}' cannot be evaluated: {error}", node.lineno) from None
        finally:
            trail.depth -= 1
        if not known.is_modest(made):
            raise Unresolved(f"'{show(node)}' is too large", node.lineno)
        return made

    def _unary(self, node: ast.UnaryOp, site: Site, trail: Trail) -> Any:
        if not isinstance(node.op, ast.USub):
            raise _computed(node)
        return -self.value(node.operand, site, trail)

    def _binary(self, node: ast.BinOp, site: Site, trail: Trail) -> Any:
        left, right = self.value(node.left, site, trail), self.value(node.right, site, trail)
        are_numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if type(node.op) not in _OPERATORS or (isinstance(node.op, ast.Mult) and not are_numbers):
            raise _computed(node)
        return _OPERATORS[type(node.op)](left, right)

    def _items(self, node: ast.List | ast.Tuple | ast.Set, site: Site, trail: Trail) -> Any:
        made: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                made += self.value(item.value, site, trail)
            else:
                made.append(self.value(item, site, trail))
        trail.steps += len(made)
        return made if isinstance(node, ast.List) else (tuple if isinstance(node, ast.Tuple) else set)(made)

    def _dict(self, node: ast.Dict, site: Site, trail: Trail) -> Any:
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                made |= self.value(value, site, trail)
            else:
                made[self.value(key, site, trail)] = self.value(value, site, trail)
        return made

    def _text(self, node: ast.JoinedStr, site: Site, trail: Trail) -> Any:
        parts: list[str] = []
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                parts.append(str(self.value(part, site, trail)))
                continue
            value = self.value(part.value, site, trail)
            if part.format_spec is not None or not isinstance(value, str | int | float | None):
                raise _computed(node)
            parts.append(repr(value) if part.conversion == ord("r") else format(value))
        return "".join(parts)

    def _named(self, node: ast.Name | ast.Attribute, site: Site, trail: Trail) -> Any:
        if site.made and isinstance(node, ast.Name) and node.id in site.made:
            return site.made[node.id]
        found = self.names.find(node, site)
        for words, hint in found.doubts:
            raise Unresolved(words, node.lineno, hint=hint)
        meaning = found.meaning
        if meaning is None:
            return self._member(node, site, trail)
        if isinstance(meaning, Known):
            dotted = known.canonical(meaning.name)
            thing = known.find(dotted)
            is_code = callable(thing) and not isinstance(thing, type) and not dotted.startswith(_GENERATORS)
            if thing is known.MISSING or is_code:
                words = f"'{show(node)}' is {meaning.name}, which is not known without importing it"
                raise Unresolved(words, node.lineno)
            return thing
        if isinstance(meaning, Module) or meaning.binding.kind != "value":
            raise _computed(node)
        binding, scope = meaning.binding, meaning.scope
        value: Any = binding.value
        if scope.kind == "class" and scope is not site.scope:
            return self._of_class(scope, binding.name, value, node, trail)
        made = self.value(value, Site(scope), trail)
        if isinstance(made, _MUTABLE) and binding.name in scope.file.changed:
            raise Unresolved(f"'{show(node)}' is changed after it is made", node.lineno)
        return made

    def _of_class(self, scope: Scope, name: str, value: ast.expr, node: ast.expr, trail: Trail) -> Any:
        """Return a member of an enum, or a constant of a plain class."""
        cls = self.make_class(scope.node, scope.parent or scope, trail)
        if isinstance(cls, enum.EnumMeta):
            if name in cls.__members__:
                return cls.__members__[name]
        elif type(cls) is type and len(scope.names[name]) == 1 and not isinstance(value, ast.Call):
            return self.value(value, Site(scope), trail)
        raise _computed(node)

    def _member(self, node: ast.Name | ast.Attribute, site: Site, trail: Trail) -> Any:
        """Return the path of the file, or an attribute of an enum's member or of a path."""
        if isinstance(node, ast.Name) and node.id == "__file__":
            return site.path
        if isinstance(node, ast.Attribute) and node.attr in ("value", "name", "parent"):
            owner = self.value(node.value, site, trail)
            if isinstance(owner, Path if node.attr == "parent" else enum.Enum):
                return getattr(owner, node.attr)
        raise Unresolved(f"'{show(node)}' is not defined where it can be read", node.lineno)

    def _call(self, node: ast.Call, site: Site, trail: Trail) -> Any:
        dotted = self.names.qualify(node.func, site)
        if dotted in known.CALLS:
            return self._construct(node, dotted, site, trail)
        if dotted in _VARIABLES:
            return self._variable(node, dotted, replace(site, lazy=True), trail)
        if dotted in known.TAKES_CODE and len(node.args) == 1 and not node.keywords:
            return known.find(dotted)(inert)
        method = node.func
        if isinstance(method, ast.Attribute) and method.attr == "model_json_schema" and not node.args:
            model = self.permit(method.value, site, trail)
            if isinstance(model, type) and hasattr(model, "model_json_schema") and not node.keywords:
                return model.model_json_schema()
        if isinstance(method, ast.Attribute) and method.attr in ("absolute", "resolve") and not node.args:
            path = self.value(method.value, site, trail)
            if isinstance(path, Path) and path.is_absolute():  # `__file__` has no links in it
                return path
        raise _computed(node)

    def _variable(self, node: ast.Call, dotted: str, site: Site, trail: Trail) -> Any:
        """Return a TypeVar or NewType, once for all who use it."""
        if id(node) not in self._variables:
            hints = [self.permit(part, site, trail) for part in node.args[1:]]
            options = {str(item.arg): self.permit(item.value, site, trail) for item in node.keywords}
            name = self.value(node.args[0], site, trail)
            self._variables[id(node)] = known.find(dotted)(name, *hints, **options)
        return self._variables[id(node)]

    def _construct(self, node: ast.Call, dotted: str, site: Site, trail: Trail) -> Any:
        """Call one of the constructors that are known."""
        places: list[Any] = []
        keywords: dict[str, Any] = {}
        given = [("", item) for item in node.args]
        given += [(item.arg or "**", item.value) for item in node.keywords]
        for name, item in given:
            if name == "**":
                keywords |= self.value(item, site, trail)
            elif dotted in _FIELDS:
                self._take(name or "default", item, site, trail, keywords)
            elif name:
                keywords[name] = self.value(item, site, trail)
            else:
                places.append(self.value(item, site, trail))
        return known.call(dotted, places, keywords)

    def _take(self, name: str, node: ast.expr, site: Site, trail: Trail, keywords: dict[str, Any]) -> None:
        """Take an argument of `Field(...)`; one that cannot be known is left out, with a remark."""
        if name == "default_factory":
            dotted = self.names.qualify(node, site)
            keywords[name] = known.find(dotted) if dotted in known.GATHERING else inert
            return
        try:
            keywords[name] = self.value(node, site, trail)
        except Unresolved as error:
            if name == "default":
                keywords["default_factory"] = inert
            code = DEFAULT if name == "default" else HINT
            words = f"{name}={show(node)} cannot be known: {error.message}"
            trail.note(code, words, site.path, error.line, error.hint or _WRITE_LITERAL)

    def default(self, name: str, node: ast.expr, site: Site, trail: Trail, unknown: Any) -> Any:
        """Return the value of a default; `unknown`, with a finding, where it cannot be known."""
        try:
            return self.value(node, site, trail)
        except (Unresolved, RecursionError) as error:
            reason = error if isinstance(error, Unresolved) else Unresolved("it is nested too deeply")
            shown = f"'{show(node)}'"
            words = reason.message if shown in reason.message else f"{shown}: {reason.message}"
            text = f"The default of '{name}' is not known, so it is not shown: {words}"
            trail.note(DEFAULT, text, site.path, reason.line or node.lineno, reason.hint or _WRITE_LITERAL)
            return unknown

    # --- annotations ---

    def hint(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        """Return the hint. Raise Unresolved where it cannot be known, or where a part is too large; any other
        part that cannot be known is Any."""
        trail.step(node)
        evaluate = _HINTS.get(type(node))
        if evaluate is None:
            raise Unresolved(f"'{show(node)}' is no annotation that can be read", node.lineno)
        trail.depth += 1
        try:
            made = evaluate(self, node, site, trail)
        except TypeError as error:
            words = str(error).partition("\n")[0]
            raise Unresolved(f"'{show(node)}' is refused at run time: {words}", node.lineno) from None
        finally:
            trail.depth -= 1
        if isinstance(made, str):  # `typing` would evaluate it: no text of a file ever is
            raise Unresolved(f"'{show(node)}' is text that is made when the code runs", node.lineno)
        return made

    def permit(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        """Return the hint, or Any with a finding."""
        try:
            return self.hint(node, site, trail)
        except (Unresolved, RecursionError) as error:
            if trail.depth and type(error) is not Unresolved:
                raise
            reason = error if isinstance(error, Unresolved) else Unresolved("it is nested too deeply")
            self.report(reason, node, site, trail)
            return Any

    def report(self, error: Unresolved, node: ast.expr, site: Site, trail: Trail) -> None:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        shown = show(node).strip("'\"") if is_text else show(node)
        why = error.message if f"'{shown}'" in error.message else f"'{shown}': {error.message}"
        words = f"The annotation cannot be resolved, so anything is accepted: {why}"
        trail.note(HINT, words, site.path, error.line or node.lineno, error.hint or _SCAN_TOO)

    def _hint_constant(self, node: ast.Constant, site: Site, trail: Trail) -> Any:
        if isinstance(node.value, str):
            inner = parse_annotation(node.value, node.lineno)
            if inner is None:
                raise Unresolved(f"{show(node)} is text that is no annotation", node.lineno)
            return self.hint(inner, replace(site, lazy=True), trail)
        return node.value  # None, `...`, or what building refuses as it would at run time

    def _hint_named(self, node: ast.Name | ast.Attribute, site: Site, trail: Trail) -> Any:
        found = self.names.find(node, site)
        if found.meaning is None:
            raise Unresolved(f"'{show(node)}' is not defined where it can be read", node.lineno)
        for words, hint in found.doubts:
            trail.note(HINT, words, site.path, node.lineno, hint)
        meaning = found.meaning
        if isinstance(meaning, Known):
            return self._outside(known.canonical(meaning.name), node, site, trail)
        if not isinstance(meaning, BoundName) or meaning.binding.kind in ("function", "unknown"):
            raise Unresolved(f"'{show(node)}' is no type", node.lineno)
        binding = meaning.binding
        if isinstance(binding.node, ast.ClassDef):
            return self.make_class(binding.node, meaning.scope, trail)
        return self.hint(binding.value, Site(meaning.scope), trail)  # type: ignore[arg-type]

    def _outside(self, dotted: str, node: ast.expr, site: Site, trail: Trail) -> Any:
        thing = known.find(dotted)
        if thing is not known.MISSING:
            return thing
        module, _, name = dotted.rpartition(".")
        words = f"'{show(node)}' comes from {module or 'a module'}, which is not read"
        unread = Unresolved(words, node.lineno)
        if module.partition(".")[0] not in PACKAGES or site.is_field:
            raise unread
        if name != "Context":
            self.report(unread, node, site, trail)
        return foreign_class(module, name)

    def _hint_union(self, node: ast.BinOp, site: Site, trail: Trail) -> Any:
        if not isinstance(node.op, ast.BitOr):
            raise Unresolved(f"'{show(node)}' is no annotation", node.lineno)
        members = _members(node)
        first = members[:2]
        if not site.lazy and any(isinstance(item, ast.Constant) and item.value is not None for item in first):
            words = f"'{show(node)}' joins text to a type, which fails at run time in most cases"
            trail.note(HINT, words, site.path, node.lineno, "put the whole of it into quotes")
        hints = [self.permit(item, site, trail) for item in members]
        _check_count(hints, node)
        try:
            return reduce(operator.or_, hints)
        except TypeError:
            return typing.Union[tuple(hints)]  # noqa: UP007 - built from a tuple

    def _hint_subscript(self, node: ast.Subscript, site: Site, trail: Trail) -> Any:
        base = self.hint(node.value, site, trail)
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > MAX_VALUES or any(isinstance(part, ast.Starred | ast.Slice) for part in parts):
            raise Unresolved(f"'{show(node)}' cannot be read", node.lineno)
        if _is(base, "Literal"):
            return Literal[tuple(self.value(part, site, trail) for part in parts)]
        if _is(base, "Annotated"):
            return self._annotated(node, parts, site, trail)
        if _is(base, "ClassVar"):
            return typing.ClassVar
        arguments = tuple(self.permit(part, site, trail) for part in parts)
        if base is typing.Union:
            _check_count(arguments, node)
            return typing.Union[arguments]  # noqa: UP007 - built from a tuple
        if base in (Any, typing.NoReturn):
            return base  # something unknown, of whatever kind
        argument = arguments if isinstance(node.slice, ast.Tuple) else arguments[0]
        try:
            if getattr(base, "__module__", "") in _QUIET:
                return base[argument]
            with known.quiet():  # pydantic's classes warn about some arguments
                return base[argument]
        except Exception as error:  # each kind of class refuses in its own way
            raise TypeError(str(error)) from None

    def _annotated(self, node: ast.Subscript, parts: list[ast.expr], site: Site, trail: Trail) -> Any:
        if len(parts) < 2:
            raise Unresolved(f"'{show(node)}' has no metadata", node.lineno)
        metadata: list[Any] = []
        for part in parts[1:]:
            try:
                metadata.append(self.value(part, site, trail))
            except Unresolved as error:
                words = f"Metadata of the type is left out: {error.message}"
                trail.note(HINT, words, site.path, error.line, error.hint or _SCAN_TOO)
        if any(isinstance(item, Depends) for item in metadata):
            return Annotated[(Any, *metadata)]  # not published, so its type need not be known
        inner = self.permit(parts[0], site, trail)
        return Annotated[(inner, *metadata)] if metadata else inner


_VALUES: dict[type[ast.expr], Callable[[Evaluator, Any, Site, Trail], Any]] = {
    ast.UnaryOp: Evaluator._unary,
    ast.BinOp: Evaluator._binary,
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set), Evaluator._items),
    ast.Dict: Evaluator._dict,
    ast.JoinedStr: Evaluator._text,
    **dict.fromkeys((ast.Name, ast.Attribute), Evaluator._named),
    ast.Call: Evaluator._call,
}
_HINTS: dict[type[ast.expr], Callable[[Evaluator, Any, Site, Trail], Any]] = {
    ast.Constant: Evaluator._hint_constant,
    **dict.fromkeys((ast.Name, ast.Attribute), Evaluator._hint_named),
    ast.Subscript: Evaluator._hint_subscript,
    ast.BinOp: Evaluator._hint_union,
    # The parameters of a Callable:
    ast.List: lambda self, node, site, trail: [self.permit(item, site, trail) for item in node.elts],
    ast.Call: Evaluator.value,
}


def _computed(node: ast.expr) -> Unresolved:
    return Unresolved(f"'{show(node)}' is computed when the code runs", node.lineno, hint=_WRITE_LITERAL)


def _check_count(members: Sequence[Any], node: ast.expr) -> None:
    if len(members) > MAX_MEMBERS:
        raise Unresolved("the union has too many members", node.lineno)


def _members(node: ast.expr) -> list[ast.expr]:
    """Return the members of `a | b | c`, which nests to the left, without recursion."""
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


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
