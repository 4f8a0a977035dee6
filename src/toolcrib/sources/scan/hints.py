"""Turn annotations into run-time hints: `list[int]`, `Literal["a"]`, `Annotated[int, Field(gt=0)]`.

A part that cannot be resolved becomes Any, with a remark.
"""

from __future__ import annotations

import ast
import operator
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from typing import Annotated, Any, ForwardRef, Literal

from toolcrib.context import Depends
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.scan import known
from toolcrib.sources.scan.names import Names, Outside, Place, Site, site_of
from toolcrib.sources.scan.values import HINT, MakeClass, Remark, Trail, Unresolved, Values, show
from toolcrib.sources.source_text import parse_annotation

MAX_MEMBERS = 500
"""How many members a union may have: typing compares each with each."""
MAX_VALUES = 10_000
_HINT = "scan the package too, or register the tool at run time"
_QUIET = ("builtins", "typing", "collections", "collections.abc")


class Hints:
    """Evaluates annotations of the files of one library."""

    def __init__(self, names: Names, values: Values, make_class: MakeClass) -> None:
        self.names = names
        self.values = values
        self.make_class = make_class
        self._variables: dict[int, Any] = {}

    def evaluate(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        """Return the hint. Raises Unresolved where it cannot be known; of its parts only those that nothing
        can stand for do so."""
        trail.step(node)
        evaluate = _EVALUATORS.get(type(node))
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
        """Return the hint, or Any with a remark."""
        try:
            return self.evaluate(node, site, trail)
        except Unresolved as error:
            if error.is_whole and trail.depth:
                raise
            self.remark(error, node, site, trail)
            return Any

    def remark(self, error: Unresolved, node: ast.expr, site: Site, trail: Trail) -> None:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        shown = show(node).strip("'\"") if is_text else show(node)
        why = error.message if f"'{shown}'" in error.message else f"'{shown}': {error.message}"
        line = error.line or getattr(node, "lineno", None)
        words = f"The annotation cannot be resolved, so anything is accepted: {why}"
        self._note(words, line, error.hint or _HINT, site, trail)

    def _note(self, words: str, line: int | None, hint: str, site: Site, trail: Trail) -> None:
        trail.note(Remark(HINT, words, str(site.file.path), line, hint))

    # --- kinds of expressions --------------------------------------------------------------------

    def _constant(self, node: ast.Constant, site: Site, trail: Trail) -> Any:
        if isinstance(node.value, str):
            inner = parse_annotation(node.value, node.lineno)
            if inner is None:
                raise Unresolved(f"{show(node)} is text that is no annotation", node.lineno)
            return self.evaluate(inner, site.lazily(), trail)
        return node.value  # None, `...`, or what building refuses as it would at run time

    def _named(self, node: ast.Name | ast.Attribute, site: Site, trail: Trail) -> Any:
        found = self.names.find(node, site)
        if not found.meanings:
            raise Unresolved(f"'{show(node)}' is not defined where it can be read", node.lineno)
        for doubt in found.doubts:
            self._note(doubt.words, node.lineno, doubt.hint, site, trail)
        made: list[Any] = []
        error: Unresolved | None = None
        for meaning in found.meanings if found.is_open else found.meanings[:1]:
            try:
                made.append(self._meant(meaning, node, site, trail))
            except Unresolved as failure:
                error = error or failure
        if not made:
            raise error or Unresolved(f"'{show(node)}' is not known", node.lineno)
        if error is not None or any(other != made[0] for other in made[1:]):
            words = f"'{show(node)}' is defined in several ways, depending on conditions; the first was taken"
            self._note(words, node.lineno, "define it in one way", site, trail)
        return made[0]

    def _meant(self, meaning: Any, node: ast.expr, site: Site, trail: Trail) -> Any:
        if isinstance(meaning, Outside):
            return self._outside(meaning.dotted, node, site, trail)
        if not isinstance(meaning, Place) or meaning.binding.kind in ("function", "unknown"):
            raise Unresolved(f"'{show(node)}' is no type", node.lineno)
        binding = meaning.binding
        if isinstance(binding.node, ast.ClassDef):
            return self.make_class(binding.node, meaning.scope, trail)
        if id(binding) in trail.active:
            raise Unresolved(f"'{show(node)}' refers to itself", node.lineno)
        trail.active.add(id(binding))
        try:
            if binding.kind == "variable" or isinstance(binding.value, ast.Call):
                return self._variable(meaning, trail)
            assert binding.value is not None  # the kinds without a value are dealt with
            made = self.evaluate(binding.value, site_of(meaning), trail)
        finally:
            trail.active.discard(id(binding))
        if binding.kind == "alias":  # of Python 3.12
            return typing.TypeAliasType(binding.name, made)  # type: ignore[attr-defined,unused-ignore]
        return made

    def _variable(self, place: Place, trail: Trail) -> Any:
        """Return a TypeVar or NewType, once for all who use it; the value of any other call."""
        binding, site = place.binding, Site(place.scope)
        if id(binding) in self._variables:
            return self._variables[id(binding)]
        if binding.kind == "variable":  # in brackets, of Python 3.12
            bound = getattr(binding.node, "bound", None)
            options = {} if bound is None else {"bound": self.permit(bound, site.lazily(), trail)}
            made: Any = known.find("typing.TypeVar")(binding.name, **options)
        else:
            call = binding.value
            assert isinstance(call, ast.Call)  # the caller looked
            dotted = self.names.qualify(call.func, site)
            if dotted not in ("typing.TypeVar", "typing_extensions.TypeVar", "typing.NewType"):
                return self.evaluate(call, site_of(place), trail)
            name, *parts = call.args
            hints = [self.permit(part, site.lazily(), trail) for part in parts]
            options = {
                str(item.arg): self.permit(item.value, site.lazily(), trail)
                if item.arg == "bound"
                else self.values.evaluate(item.value, site, trail)
                for item in call.keywords
            }
            made = known.find(dotted)(self.values.evaluate(name, site, trail), *hints, **options)
            made.__module__ = place.file.name
        self._variables[id(binding)] = made
        return made

    def _outside(self, dotted: str, node: ast.expr, site: Site, trail: Trail) -> Any:
        dotted = known.canonical(dotted)
        thing = known.find(dotted)
        if thing is not known.MISSING:
            return thing
        module, _, name = dotted.rpartition(".")
        unread = Unresolved(
            f"'{show(node)}' comes from {module or 'a module'}, which is not read", node.lineno
        )
        if module.partition(".")[0] not in PACKAGES or site.is_field:
            raise unread
        if name != "Context":
            self.remark(unread, node, site, trail)
        return foreign_class(module, name)

    def _union(self, node: ast.BinOp, site: Site, trail: Trail) -> Any:
        if not isinstance(node.op, ast.BitOr):
            raise Unresolved(f"'{show(node)}' is no annotation", node.lineno)
        members = list(_members(node))
        if not site.lazy and any(
            isinstance(item, ast.Constant) and item.value is not None for item in members[:2]
        ):
            words = f"'{show(node)}' joins text to a type, which fails at run time in most cases"
            self._note(words, node.lineno, "put the whole of it into quotes", site, trail)
        hints = [self.permit(item, site, trail) for item in members]
        _check_count(hints, node)
        try:
            return reduce(operator.or_, hints)
        except TypeError:
            return typing.Union[tuple(hints)]  # noqa: UP007 - built from a tuple

    def _list(self, node: ast.List, site: Site, trail: Trail) -> Any:
        return [self.permit(item, site, trail) for item in node.elts]  # the parameters of a Callable

    def _call(self, node: ast.Call, site: Site, trail: Trail) -> Any:
        return self.values.evaluate(node, site, trail)

    # --- subscripts ------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript, site: Site, trail: Trail) -> Any:
        base = self.evaluate(node.value, site, trail)
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > MAX_VALUES or any(isinstance(part, ast.Starred | ast.Slice) for part in parts):
            raise Unresolved(f"'{show(node)}' cannot be read", node.lineno)
        if _is(base, "Literal"):
            return Literal[tuple(value for part in parts for value in self._literal(part, site, trail))]
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
        try:
            return _apply(base, arguments if isinstance(node.slice, ast.Tuple) else arguments[0])
        except Exception as error:  # each kind of class refuses in its own way
            raise TypeError(str(error)) from None

    def _literal(self, part: ast.expr, site: Site, trail: Trail) -> Iterator[Any]:
        """Yield the values of a part of a Literal, which may be another Literal or an alias of one."""
        if isinstance(part, ast.Constant):
            yield part.value
            return
        meanings = self.names.find(part, site).meanings
        place = meanings[0] if len(meanings) == 1 else None
        is_alias = isinstance(place, Place) and isinstance(place.binding.value, ast.Subscript)
        if is_alias or isinstance(part, ast.Subscript):
            yield from typing.get_args(self.evaluate(part, site, trail))
        else:
            yield self.values.evaluate(part, site, trail)

    def _annotated(self, node: ast.Subscript, parts: list[ast.expr], site: Site, trail: Trail) -> Any:
        if len(parts) < 2:
            raise Unresolved(f"'{show(node)}' has no metadata", node.lineno)
        notes: list[Any] = []
        for part in parts[1:]:
            try:
                notes.append(self.values.evaluate(part, site, trail))
            except Unresolved as error:
                words = f"Metadata of the type is left out: {error.message}"
                self._note(words, error.line, error.hint or _HINT, site, trail)
        if any(isinstance(item, Depends) for item in notes):
            return Annotated[(Any, *notes)]  # not published, so its type need not be known
        inner = self.permit(parts[0], site, trail)
        return Annotated[(inner, *notes)] if notes else inner


_EVALUATORS: dict[type[ast.expr], Callable[[Hints, Any, Site, Trail], Any]] = {
    ast.Constant: Hints._constant,
    ast.Name: Hints._named,
    ast.Attribute: Hints._named,
    ast.Subscript: Hints._subscript,
    ast.BinOp: Hints._union,
    ast.List: Hints._list,
    ast.Call: Hints._call,
}


def _check_count(members: Sequence[Any], node: ast.expr) -> None:
    if len(members) > MAX_MEMBERS:
        raise Unresolved("the union has too many members", node.lineno)


def _members(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the members of `a | b | c`, which nests to the left, without recursion."""
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    yield node
    yield from reversed(found)


def _apply(base: Any, argument: Any) -> Any:
    if getattr(base, "__module__", "") in _QUIET:
        return base[argument]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's classes warn about some arguments
        return base[argument]


def _is(thing: Any, name: str) -> bool:
    """Whether this is a special form, of typing or of typing_extensions."""
    return thing is getattr(typing, name) or (
        getattr(thing, "__module__", "") == "typing_extensions" and getattr(thing, "_name", "") == name
    )


Spelling = str | tuple[Any, ...] | None


def spell(node: ast.expr, depth: int = 8) -> Spelling:
    """Return the same for annotations that are written the same; None where a part is made anew each time, as
    by a call, or is too deep to be worth remembering."""
    parts: Sequence[ast.expr]
    if type(node) is ast.Name:
        return node.id
    if type(node) is ast.Constant:
        return type(node.value), node.value
    if type(node) is ast.Subscript:
        parts = (node.value, node.slice)
    elif type(node) is ast.BinOp and type(node.op) is ast.BitOr:
        parts = (node.left, node.right)
    elif type(node) is ast.Tuple:
        parts = node.elts
    elif type(node) is ast.Attribute:
        parts = (node.value, ast.Constant(node.attr))
    else:
        return None
    spelled = [spell(part, depth - 1) for part in parts] if depth else [None]
    return None if None in spelled else (type(node), *spelled)


def names_in(key: Spelling) -> list[str] | None:
    """Return the names in a spelling; None where a text in it may name more."""
    if key is None or isinstance(key, str):
        return None if key is None else [key]
    head, *rest = key
    if not issubclass(head, ast.AST):
        return None if head is str else []
    found = [names_in(part) for part in rest]
    return None if None in found else [name for names in found if names for name in names]


@cache
def foreign_class(module: str, name: str) -> type:
    """Return a class that stands for one of mcp or fastmcp."""
    return type(name, (), {"__module__": module, "__class_getitem__": classmethod(types.GenericAlias)})


def is_foreign_context(hint: Any) -> bool:
    """Whether a parameter of this hint gets the Context of mcp or fastmcp."""
    if isinstance(hint, ForwardRef):
        return False
    origin = typing.get_origin(hint)
    if origin is Annotated or origin is typing.Union or origin is types.UnionType:
        members = [item for item in typing.get_args(hint) if item is not type(None)]
        return bool(members) and is_foreign_context(members[0])
    cls = origin or hint
    return (
        isinstance(cls, type)
        and cls.__name__ == "Context"
        and cls is foreign_class(cls.__module__, "Context")
    )
