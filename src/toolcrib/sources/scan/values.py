"""Evaluate literals and constants, with limits on size and depth.

Literals, arithmetic on them, constants, enum members and the constructors of known.py are evaluated; anything
else is Unresolved, with the reason.
"""

from __future__ import annotations

import ast
import enum
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import Finding
from toolcrib.sources.scan import known
from toolcrib.sources.scan.names import Names, Outside, Place, Site, Whole
from toolcrib.sources.scan.source_file import Binding, Scope, show

HINT = "unresolved-hint"
DEFAULT = "unresolved-default"
CLASS = "approximate-class"

MAX_STEPS = 20_000
"""How many parts the annotations and defaults of one parameter may have, aliases written out."""
MAX_DEPTH = 60
_WRITE_LITERAL = "write a literal, or register the tool at run time"


class Unresolved(Exception):  # noqa: N818 - a state of things, which most callers go on from
    """The meaning of code cannot be known by reading it. `line` is where it is written."""

    is_whole = False
    """Whether nothing can stand for a part of it: then the whole of it is unresolved."""

    def __init__(self, message: str, line: int | None = None, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


class Excessive(Unresolved):
    """An expression is longer than anybody writes by hand."""

    is_whole = True


class NotYet(Exception):  # noqa: N818 - it is no error: the hint waits
    """A class is met again while it is being made."""


@dataclass(eq=False)
class Trail:
    """What was met on the way to one hint or value: findings, and classes with findings of their own.

    Also counts steps, so that aliases that double at each turn come to an end.
    """

    findings: list[Finding] = field(default_factory=list)
    uses: dict[int, Trail] = field(default_factory=dict)
    steps: int = 0
    depth: int = 0
    active: set[int] = field(default_factory=set)

    def step(self, node: ast.AST) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or self.depth > MAX_DEPTH:
            size = "has too many parts" if self.steps > MAX_STEPS else "is nested too deeply"
            line = getattr(node, "lineno", None)
            raise Excessive(f"what is written here {size}", line, hint="write something simpler")

    def note(self, code: str, words: str, path: str, line: int | None, hint: str) -> None:
        self.findings.append(Finding(code, "warning", words, file=path, line=line, hint=hint))

    @contextmanager
    def following(self, binding: Binding, node: ast.expr) -> Iterator[None]:
        """Raise Unresolved where a name is followed within itself."""
        if id(binding) in self.active:
            raise Unresolved(f"'{show(node)}' refers to itself", node.lineno)
        self.active.add(id(binding))
        try:
            yield
        finally:
            self.active.discard(id(binding))

    def gather(self) -> list[Finding]:
        """Return all findings, those of the classes met included, however far away."""
        found = dict.fromkeys(self.findings)
        waiting, seen = list(self.uses.values()), set(self.uses)
        while waiting:
            trail = waiting.pop()
            found.update(dict.fromkeys(trail.findings))
            waiting += [inner for key, inner in trail.uses.items() if key not in seen]
            seen |= trail.uses.keys()
        return list(found)


def inert() -> None:
    """Stands for a factory of defaults: that there is one counts, not what it makes."""


def inert_check(value: Any) -> Any:
    """Stands for a validator."""
    return value


MakeClass = Callable[[ast.ClassDef, Scope, Trail], Any]
MakeHint = Callable[[ast.expr, Site, Trail], Any]

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
}
_TEXT_METHODS = frozenset({"join", "lower", "strip", "title", "upper"})
_CONTAINERS: dict[str, Any] = {
    f"builtins.{kind.__name__}": kind for kind in (list, dict, set, frozenset, tuple)
}
_MUTABLE = (list, dict, set, bytearray)
_FIELDS = frozenset({"pydantic.Field", "dataclasses.field"})
_GENERATORS = "pydantic.alias_generators."


class Values:
    """Evaluates expressions of the files of one library."""

    def __init__(self, names: Names, make_class: MakeClass, make_hint: MakeHint) -> None:
        self.names = names
        self.make_class = make_class
        self.make_hint = make_hint

    def evaluate(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        """Return the value of an expression. Raises Unresolved."""
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

    def _unary(self, node: ast.UnaryOp, site: Site, trail: Trail) -> Any:
        return _OPERATORS[type(node.op)](self.evaluate(node.operand, site, trail))

    def _binary(self, node: ast.BinOp, site: Site, trail: Trail) -> Any:
        left, right = self.evaluate(node.left, site, trail), self.evaluate(node.right, site, trail)
        if type(node.op) not in _OPERATORS or not _is_cheap(node.op, left, right):
            raise _computed(node)
        return _OPERATORS[type(node.op)](left, right)

    def _items(self, node: ast.List | ast.Tuple | ast.Set, site: Site, trail: Trail) -> Any:
        made: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                made += self.evaluate(item.value, site, trail)
            else:
                made.append(self.evaluate(item, site, trail))
        trail.steps += len(made)
        return made if isinstance(node, ast.List) else (tuple if isinstance(node, ast.Tuple) else set)(made)

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
        if isinstance(meaning, Outside):
            dotted = known.canonical(meaning.dotted)
            thing = known.find(dotted)
            is_code = callable(thing) and not isinstance(thing, type) and not dotted.startswith(_GENERATORS)
            if thing is known.MISSING or is_code:
                words = f"'{show(node)}' is {meaning.dotted}, which is not known without importing it"
                raise Unresolved(words, node.lineno)
            return thing
        if isinstance(meaning, Whole) or meaning.binding.kind != "value":
            raise _computed(node)
        binding, scope = meaning.binding, meaning.scope
        value: Any = binding.value
        if scope.kind == "class" and scope is not site.scope:
            return self._of_class(scope, binding.name, value, node, trail)
        with trail.following(binding, node):
            made = self.evaluate(value, meaning.site, trail)
        if isinstance(made, _MUTABLE) and scope.file.is_changed(binding.name):
            raise Unresolved(f"'{show(node)}' is changed after it is made", node.lineno)
        return made

    def _of_class(self, scope: Scope, name: str, value: ast.expr, node: ast.expr, trail: Trail) -> Any:
        """Return a member of an enum, or a constant of a plain class."""
        cls = self.make_class(scope.node, scope.parent or scope, trail)
        if isinstance(cls, enum.EnumMeta):
            if name in cls.__members__:
                return cls.__members__[name]
        elif type(cls) is type and len(scope.names[name]) == 1 and not isinstance(value, ast.Call):
            return self.evaluate(value, Site(scope), trail)
        raise _computed(node)

    def _member(self, node: ast.Name | ast.Attribute, site: Site, trail: Trail) -> Any:
        """Return the value or the name of an enum's member."""
        if isinstance(node, ast.Attribute) and node.attr in ("value", "name"):
            member = self.evaluate(node.value, site, trail)
            if isinstance(member, enum.Enum):
                return getattr(member, node.attr)
        raise Unresolved(f"'{show(node)}' is not defined where it can be read", node.lineno)

    def _call(self, node: ast.Call, site: Site, trail: Trail) -> Any:
        dotted = self.names.qualify(node.func, site) or ""
        if dotted in known.CALLS:
            return self._construct(node, dotted, site, trail)
        if dotted in known.TAKES_CODE and len(node.args) == 1 and not node.keywords:
            return known.find(dotted)(inert_check)
        method = node.func
        if isinstance(method, ast.Attribute) and not node.keywords:
            if method.attr in _TEXT_METHODS:
                owner = self.evaluate(method.value, site, trail)
                if isinstance(owner, str):
                    return getattr(owner, method.attr)(
                        *[self.evaluate(item, site, trail) for item in node.args]
                    )
            elif method.attr == "model_json_schema" and not node.args:
                model = self.make_hint(method.value, site, trail)
                if isinstance(model, type) and hasattr(model, "model_json_schema"):
                    return model.model_json_schema()
        raise _computed(node)

    def _construct(self, node: ast.Call, dotted: str, site: Site, trail: Trail) -> Any:
        """Call one of the constructors that are known."""
        places: list[Any] = []
        keywords: dict[str, Any] = {}
        given = [("", item) for item in node.args] + [
            (item.arg or "**", item.value) for item in node.keywords
        ]
        for name, item in given:
            is_code = dotted == "pydantic.Discriminator" and not isinstance(item, ast.Constant)
            if is_code or isinstance(item, ast.Starred):
                raise _computed(node)
            if name == "**":
                keywords |= self.evaluate(item, site, trail)
            elif dotted in _FIELDS:
                self._take(name or "default", item, site, trail, keywords)
            else:
                is_hint = dotted in known.TAKES_HINT and (name == "item_type" or not (name or places))
                value = (self.make_hint if is_hint else self.evaluate)(item, site, trail)
                if name:
                    keywords[name] = value
                else:
                    places.append(value)
        return known.call(dotted, places, keywords)

    def _take(self, name: str, node: ast.expr, site: Site, trail: Trail, keywords: dict[str, Any]) -> None:
        """Take an argument of `Field(...)`; one that cannot be known is left out, with a remark."""
        if name == "default_factory":
            keywords[name] = _CONTAINERS.get(self.names.qualify(node, site) or "", inert)
            return
        try:
            keywords[name] = self.evaluate(node, site, trail)
        except Unresolved as error:
            if name == "default":
                keywords["default_factory"] = inert
            code = DEFAULT if name == "default" else HINT
            words = f"{name}={show(node)} cannot be known: {error.message}"
            trail.note(code, words, site.path, error.line, error.hint or _WRITE_LITERAL)


_EVALUATORS: dict[type[ast.expr], Callable[[Values, Any, Site, Trail], Any]] = {
    ast.UnaryOp: Values._unary,
    ast.BinOp: Values._binary,
    ast.List: Values._items,
    ast.Tuple: Values._items,
    ast.Set: Values._items,
    ast.Dict: Values._dict,
    ast.JoinedStr: Values._text,
    ast.Name: Values._named,
    ast.Attribute: Values._named,
    ast.Call: Values._call,
}


def _computed(node: ast.expr) -> Unresolved:
    return Unresolved(f"'{show(node)}' is computed when the code runs", node.lineno, hint=_WRITE_LITERAL)


def _is_cheap(sign: ast.operator, left: Any, right: Any) -> bool:
    """Whether an operation cannot make something out of proportion to what is written."""
    if isinstance(sign, ast.Mod) and isinstance(left, str | bytes):
        return False  # formatting, with any width
    if isinstance(sign, ast.Mult):
        sizes = [len(item) for item in (left, right) if isinstance(item, str | bytes | list | tuple)]
        counts = [item for item in (left, right) if isinstance(item, int)]
        return not sizes or sizes[0] * max([abs(count) for count in counts] or [1]) <= known.MAX_TEXT
    if isinstance(sign, ast.Pow | ast.LShift):
        return isinstance(right, int) and abs(right) <= 256 and known.is_modest(left)
    return True
