"""Evaluate literals and constants, with limits on size and depth.

Arithmetic on literals, enum members and the constructors of known.py are supported; anything else is
Unresolved, with the reason.
"""

from __future__ import annotations

import ast
import enum
import operator
from collections.abc import Callable
from typing import Any

from toolcrib.sources.scan import known
from toolcrib.sources.scan.names import Found, Names, Outside, Place, Site, Whole, site_of
from toolcrib.sources.scan.remarks import DEFAULT, HINT, NotYet, Remark, Trail, Unresolved, show
from toolcrib.sources.scan.scopes import Scope
from toolcrib.sources.scan.shells import inert, inert_check, make_shell, outline_of

MakeClass = Callable[[ast.ClassDef, Scope, Trail], Any]
MakeHint = Callable[[ast.expr, Site, Trail], Any]
IsPlain = Callable[[Any], bool]

_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
_TEXT_METHODS = frozenset(
    {"capitalize", "casefold", "join", "lower", "lstrip", "removeprefix", "removesuffix", "rstrip"}
    | {"split", "strip", "title", "upper"}
)
_CONTAINERS: dict[str, Any] = {
    f"builtins.{kind.__name__}": kind for kind in (list, dict, set, frozenset, tuple)
}
_MUTABLE = (list, dict, set, bytearray)
_HINT = "write a literal, or register the tool at run time"


class Values:
    """Evaluates expressions of the files of one library."""

    def __init__(self, names: Names, make_class: MakeClass, make_hint: MakeHint, is_plain: IsPlain) -> None:
        self.names = names
        self.make_class = make_class
        self.make_hint = make_hint
        self.is_plain = is_plain

    def evaluate(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        """The value of an expression. Raises Unresolved."""
        if isinstance(node, ast.Constant):
            return node.value
        evaluate = _EVALUATORS.get(type(node))
        if evaluate is None:
            raise _computed(node)
        trail.step(node)
        trail.depth += 1
        try:
            made = evaluate(self, node, site, trail)
        except (Unresolved, NotYet):
            raise
        except Exception as error:  # constructors refuse in many ways, `re.error` among them
            raise Unresolved(f"'{show(node)}' cannot be evaluated: {error}", node.lineno) from None
        finally:
            trail.depth -= 1
        if not known.is_modest(made):
            raise Unresolved(f"'{show(node)}' is too large", node.lineno)
        return made

    # --- what is built of literals ---------------------------------------------------------------

    def _unary(self, node: ast.UnaryOp, site: Site, trail: Trail) -> Any:
        return _UNARY[type(node.op)](self.evaluate(node.operand, site, trail))

    def _binary(self, node: ast.BinOp, site: Site, trail: Trail) -> Any:
        apply = _BINARY.get(type(node.op))
        left, right = self.evaluate(node.left, site, trail), self.evaluate(node.right, site, trail)
        if apply is None or not _is_cheap(node.op, left, right):
            raise _computed(node)
        return apply(left, right)

    def _choice(self, node: ast.BoolOp, site: Site, trail: Trail) -> Any:
        stops = isinstance(node.op, ast.Or)
        made: Any = None
        for part in node.values:
            made = self.evaluate(part, site, trail)
            if bool(made) is stops:
                break
        return made

    def _items(self, node: ast.List | ast.Tuple | ast.Set, site: Site, trail: Trail) -> list[Any]:
        made: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                made += self.evaluate(item.value, site, trail)
            else:
                made.append(self.evaluate(item, site, trail))
        trail.steps += len(made)
        return made

    def _tuple(self, node: ast.Tuple, site: Site, trail: Trail) -> Any:
        return tuple(self._items(node, site, trail))

    def _set(self, node: ast.Set, site: Site, trail: Trail) -> Any:
        return set(self._items(node, site, trail))

    def _dict(self, node: ast.Dict, site: Site, trail: Trail) -> Any:
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                made |= self.evaluate(value, site, trail)
            else:
                made[self.evaluate(key, site, trail)] = self.evaluate(value, site, trail)
        return made

    def _text(self, node: ast.JoinedStr, site: Site, trail: Trail) -> Any:
        parts: list[str] = []
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                parts.append(str(self.evaluate(part, site, trail)))
                continue
            value = self.evaluate(part.value, site, trail)
            if part.format_spec is not None or not isinstance(value, str | int | float | None):
                raise _computed(node)
            parts.append(repr(value) if part.conversion == ord("r") else format(value))
        return "".join(parts)

    def _element(self, node: ast.Subscript, site: Site, trail: Trail) -> Any:
        owner = self.evaluate(node.value, site, trail)
        index = self.evaluate(node.slice, site, trail)
        if isinstance(owner, dict | list | tuple | str) or _is_enum(owner):
            return owner[index]
        raise _computed(node)

    # --- names -----------------------------------------------------------------------------------

    def _named(self, node: ast.Name | ast.Attribute, site: Site, trail: Trail) -> Any:
        if isinstance(node, ast.Name) and node.id in site.made:
            return site.made[node.id]
        found = self.names.find(node, site)
        if found.doubts:
            raise Unresolved(found.doubts[0].words, node.lineno, hint=found.doubts[0].hint)
        if not found.meanings:
            return self._member(node, site, trail)
        made = [self._meant(meaning, node, site, trail) for meaning in found.meanings]
        if any(type(other) is not type(made[0]) or other != made[0] for other in made[1:]):
            raise Unresolved(f"'{show(node)}' has several values, depending on conditions", node.lineno)
        return made[0]

    def _meant(self, meaning: Outside | Place | Whole, node: ast.expr, site: Site, trail: Trail) -> Any:
        if isinstance(meaning, Whole):
            raise _computed(node)
        if isinstance(meaning, Outside):
            thing = known.find(known.canonical(meaning.dotted))
            if thing is known.MISSING or (callable(thing) and not isinstance(thing, type)):
                words = f"'{show(node)}' is {meaning.dotted}, which is not known without importing it"
                raise Unresolved(words, node.lineno)
            return thing
        binding, scope = meaning.binding, meaning.scope
        if isinstance(binding.node, ast.ClassDef):
            return self.make_class(binding.node, scope, trail)
        if binding.kind != "value" or binding.value is None:
            raise _computed(node)
        if scope.kind == "class" and scope is not site.scope:
            return self._of_class(scope, binding.name, node, trail)
        if id(binding) in trail.active:
            raise Unresolved(f"'{show(node)}' refers to itself", node.lineno)
        trail.active.add(id(binding))
        try:
            made = self.evaluate(binding.value, site_of(meaning), trail)
        finally:
            trail.active.discard(id(binding))
        if isinstance(made, _MUTABLE) and meaning.file.is_changed(binding.name):
            raise Unresolved(f"'{show(node)}' is changed after it is made", node.lineno)
        return made

    def _of_class(self, scope: Scope, name: str, node: ast.expr, trail: Trail) -> Any:
        """An attribute of a class: a member of an enum, or a constant of a class that is nothing special."""
        assert scope.parent is not None  # nosec B101  # it is a class's
        cls = self.make_class(scope.node, scope.parent, trail)
        if _is_enum(cls):
            member = cls.__members__.get(name)
            if member is not None:
                return member
        elif type(cls) is type and not hasattr(cls, "__pydantic_fields__") and len(scope.names[name]) == 1:
            value = scope.names[name][0].value
            if value is not None and not isinstance(value, ast.Call):
                return self.evaluate(value, Site(scope), trail)
        raise _computed(node)

    def _member(self, node: ast.Name | ast.Attribute, site: Site, trail: Trail) -> Any:
        """What is left when a name leads nowhere: the value or the name of an enum's member."""
        if isinstance(node, ast.Attribute) and node.attr in ("value", "name"):
            member = self.evaluate(node.value, site, trail)
            if isinstance(member, enum.Enum):
                return getattr(member, node.attr)
        raise Unresolved(f"'{show(node)}' is not defined where it can be read", node.lineno)

    # --- calls -----------------------------------------------------------------------------------

    def _call(self, node: ast.Call, site: Site, trail: Trail) -> Any:
        dotted = self.names.qualify(node.func, site) or ""
        if dotted in known.CALLS:
            arguments, keywords = self._arguments(node, dotted, site, trail)
            return known.call(dotted, arguments, keywords)
        if dotted in known.TAKES_CODE and len(node.args) == 1 and not node.keywords:
            code = self.code(node.args[0], site)
            return known.find(dotted)(inert_check if code is inert else code)
        method = node.func
        if isinstance(method, ast.Attribute) and method.attr in _TEXT_METHODS:
            owner = self.evaluate(method.value, site, trail)
            if isinstance(owner, str) and not node.keywords:
                return getattr(owner, method.attr)(*[self.evaluate(item, site, trail) for item in node.args])
        for meaning in self.names.find(node.func, site).meanings:
            if isinstance(meaning, Place) and isinstance(meaning.binding.node, ast.ClassDef):
                return self._instance(meaning, node, site, trail)
        raise _computed(node)

    def _arguments(
        self, node: ast.Call, dotted: str, site: Site, trail: Trail
    ) -> tuple[list[Any], dict[str, Any]]:
        places: list[Any] = []
        for item in node.args:
            if isinstance(item, ast.Starred):
                raise _computed(node)
            if not places and dotted in known.TAKES_HINT:
                places.append(self.make_hint(item, site, trail))
            elif dotted in _FIELDS:
                given: dict[str, Any] = {}
                self._take("default", item, site, trail, given)
                return [], {**given, **self._keywords(node, dotted, site, trail)}
            elif dotted == "pydantic.Discriminator" and not isinstance(item, ast.Constant):
                places.append(self.code(item, site))
            else:
                places.append(self.evaluate(item, site, trail))
        return places, self._keywords(node, dotted, site, trail)

    def _keywords(self, node: ast.Call, dotted: str, site: Site, trail: Trail) -> dict[str, Any]:
        keywords: dict[str, Any] = {}
        for item in node.keywords:
            if item.arg is None:
                keywords |= self.evaluate(item.value, site, trail)
            elif dotted in known.TAKES_HINT and item.arg == "item_type":
                keywords[item.arg] = self.make_hint(item.value, site, trail)
            elif dotted in _FIELDS:
                self._take(item.arg, item.value, site, trail, keywords)
            else:
                keywords[item.arg] = self.evaluate(item.value, site, trail)
        return keywords

    def _take(self, name: str, node: ast.expr, site: Site, trail: Trail, keywords: dict[str, Any]) -> None:
        """One thing that `Field(...)` says; one that cannot be known is left out, and told."""
        if name == "default_factory":
            keywords[name] = self.code(node, site)
            return
        try:
            if name == "default" and isinstance(node, ast.Name | ast.Attribute):
                _refuse_functions(self.names.find(node, site), node)
            keywords[name] = self.evaluate(node, site, trail)
        except Unresolved as error:
            if name == "default":
                keywords["default_factory"] = inert
            code = DEFAULT if name == "default" else HINT
            words = f"{name}={show(node)} cannot be known: {error.message}"
            trail.note(Remark(code, words, str(site.file.path), error.line, error.hint or _HINT))

    def _instance(self, place: Place, node: ast.Call, site: Site, trail: Trail) -> Any:
        binding = place.binding
        assert isinstance(binding.node, ast.ClassDef)  # nosec B101  # the caller looked
        cls = self.make_class(binding.node, place.scope, trail)
        if not self.is_plain(cls):
            raise _computed(node)
        places = [self.evaluate(item, site, trail) for item in node.args]
        keywords = {item.arg: self.evaluate(item.value, site, trail) for item in node.keywords if item.arg}
        if len(keywords) != len(node.keywords):
            raise _computed(node)
        try:
            return cls(*places, **keywords)
        except Exception as error:  # pydantic's and our own classes may refuse in any way
            first = str(error).partition("\n")[0]
            raise Unresolved(f"'{show(node)}' fails: {first}", node.lineno) from None

    def code(self, node: ast.expr, site: Site) -> Any:
        """Something to call in the place of a function that a definition never runs."""
        if isinstance(node, ast.Lambda):
            return make_shell("shell", outline_of(node.args))
        dotted = self.names.qualify(node, site)
        if dotted in _CONTAINERS:
            return _CONTAINERS[dotted]
        for meaning in self.names.find(node, site).meanings:
            if isinstance(meaning, Place) and isinstance(
                meaning.binding.node, ast.FunctionDef | ast.AsyncFunctionDef
            ):
                return make_shell("shell", outline_of(meaning.binding.node.args))
        return inert


_FIELDS = frozenset({"pydantic.Field", "dataclasses.field"})
_EVALUATORS: dict[type[ast.expr], Callable[[Values, Any, Site, Trail], Any]] = {
    ast.UnaryOp: Values._unary,
    ast.BinOp: Values._binary,
    ast.BoolOp: Values._choice,
    ast.List: Values._items,
    ast.Tuple: Values._tuple,
    ast.Set: Values._set,
    ast.Dict: Values._dict,
    ast.JoinedStr: Values._text,
    ast.Subscript: Values._element,
    ast.Name: Values._named,
    ast.Attribute: Values._named,
    ast.Call: Values._call,
}


def _computed(node: ast.expr) -> Unresolved:
    return Unresolved(f"'{show(node)}' is computed when the code runs", node.lineno, hint=_HINT)


def _refuse_functions(found: Found, node: ast.expr) -> None:
    for meaning in found.meanings:
        if isinstance(meaning, Place) and meaning.binding.kind == "function":
            raise _computed(node)


def _is_enum(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, enum.Enum)


def _is_cheap(sign: ast.operator, left: Any, right: Any) -> bool:
    """Whether an operation cannot make something out of proportion to what is written."""
    if isinstance(sign, ast.Mod) and isinstance(left, str | bytes):
        return False  # formatting, with widths as one likes
    if isinstance(sign, ast.Mult):
        sizes = [len(item) for item in (left, right) if isinstance(item, str | bytes | list | tuple)]
        counts = [item for item in (left, right) if isinstance(item, int)]
        return not sizes or sizes[0] * max([abs(count) for count in counts] or [1]) <= known.MAX_TEXT
    if isinstance(sign, ast.Pow | ast.LShift):
        return isinstance(right, int) and abs(right) <= 256 and known.is_modest(left)
    return True
