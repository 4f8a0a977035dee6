"""Evaluate literals and constants, with limits on size and depth.

Literals, arithmetic on them, constants, enum members and the constructors of known.py are evaluated; anything
else is Unresolved, with the reason.
"""

from __future__ import annotations

import ast
import enum
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import Finding
from toolcrib.sources.scan import known
from toolcrib.sources.scan.names import Names, Outside, Place, Site, Whole, site_of
from toolcrib.sources.scan.scopes import Scope

HINT = "unresolved-hint"
DEFAULT = "unresolved-default"
CLASS = "approximate-class"

MAX_STEPS = 20_000
"""How many parts the annotations and defaults of one parameter may have, aliases written out."""
MAX_DEPTH = 60
_LONGEST = 60
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
    """There is more of it than anybody writes by hand."""

    is_whole = True


class NotYet(Exception):  # noqa: N818 - it is no error: the hint waits
    """A class is met again while it is being made."""


@dataclass(frozen=True, slots=True)
class Remark:
    code: str
    message: str
    file: str
    line: int | None
    hint: str

    def to_finding(self, tool: str, parameter: str | None) -> Finding:
        return Finding(
            self.code, "warning", self.message, tool, parameter, self.file, self.line, hint=self.hint
        )


@dataclass(eq=False)
class Trail:
    """What was met on the way to one hint or value: remarks, and the classes that have remarks of their own.

    Also counts steps, so that aliases that double at each turn come to an end.
    """

    remarks: list[Remark] = field(default_factory=list)
    uses: dict[int, Any] = field(default_factory=dict)
    steps: int = 0
    depth: int = 0
    active: set[int] = field(default_factory=set)

    def step(self, node: ast.AST) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or self.depth > MAX_DEPTH:
            size = "has too many parts" if self.steps > MAX_STEPS else "is nested too deeply"
            line = getattr(node, "lineno", None)
            raise Excessive(f"what is written here {size}", line, hint="write something simpler")

    def note(self, remark: Remark) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)

    def gather(self) -> list[Remark]:
        """Return all remarks, those of the classes met included, however far away."""
        if not self.uses:
            return list(self.remarks)
        found = dict.fromkeys(self.remarks)
        waiting, seen = list(self.uses.values()), set(self.uses)
        while waiting:
            trail: Trail = waiting.pop().trail
            found.update(dict.fromkeys(trail.remarks))
            waiting += [entry for key, entry in trail.uses.items() if key not in seen]
            seen |= trail.uses.keys()
        return list(found)


def show(node: ast.AST) -> str:
    """Return an expression as it is written, shortened."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError, AttributeError):
        return "this expression"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def inert() -> None:
    """Stands for a factory of defaults: that there is one counts, not what it makes."""


def inert_check(value: Any = None) -> Any:
    """Stands for a validator, or for the function of a `Depends`."""
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

    # --- literals --------------------------------------------------------------------------------

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
        if isinstance(meaning, Outside):
            thing = known.find(known.canonical(meaning.dotted))
            if thing is known.MISSING or (callable(thing) and not isinstance(thing, type)):
                words = f"'{show(node)}' is {meaning.dotted}, which is not known without importing it"
                raise Unresolved(words, node.lineno)
            return thing
        if isinstance(meaning, Whole) or meaning.binding.kind != "value" or meaning.binding.value is None:
            raise _computed(node)
        binding, scope = meaning.binding, meaning.scope
        assert binding.value is not None  # said above
        if scope.kind == "class" and scope is not site.scope:
            return self._of_class(scope, binding.name, binding.value, node, trail)
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

    def _of_class(self, scope: Scope, name: str, value: ast.expr, node: ast.expr, trail: Trail) -> Any:
        """Return a member of an enum, or a constant of a plain class."""
        assert scope.parent is not None  # it is a class's
        cls = self.make_class(scope.node, scope.parent, trail)
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

    # --- calls -----------------------------------------------------------------------------------

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
        for item in node.args:
            if isinstance(item, ast.Starred):
                raise _computed(node)
            if not places and dotted in known.TAKES_HINT:
                places.append(self.make_hint(item, site, trail))
            elif dotted in _FIELDS:
                self._take("default", item, site, trail, keywords)
            elif dotted == "pydantic.Discriminator" and not isinstance(item, ast.Constant):
                raise _computed(node)
            else:
                places.append(self.evaluate(item, site, trail))
        for keyword in node.keywords:
            if keyword.arg is None:
                keywords |= self.evaluate(keyword.value, site, trail)
            elif dotted in known.TAKES_HINT and keyword.arg == "item_type":
                keywords[keyword.arg] = self.make_hint(keyword.value, site, trail)
            elif dotted in _FIELDS:
                self._take(keyword.arg, keyword.value, site, trail, keywords)
            else:
                keywords[keyword.arg] = self.evaluate(keyword.value, site, trail)
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
            trail.note(Remark(code, words, str(site.file.path), error.line, error.hint or _WRITE_LITERAL))


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
