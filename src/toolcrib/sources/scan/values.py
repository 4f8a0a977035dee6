"""Evaluate literals and constants, with limits on size and depth.

Arithmetic on literals, enum members and the constructors of known.py are supported; anything else is
Unresolved, with the reason.

A shell is an empty function of ours whose code object gets other parameters, so no foreign code is
compiled.
"""

from __future__ import annotations

import ast
import copy
import enum
import inspect
import operator
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from toolcrib.errors import Finding
from toolcrib.sources.scan import known
from toolcrib.sources.scan.names import Found, Names, Outside, Place, Site, Whole, site_of
from toolcrib.sources.scan.scopes import Scope

HINT = "unresolved-hint"
DEFAULT = "unresolved-default"
CLASS = "approximate-class"

MAX_STEPS = 20_000
"""How many parts the annotations and defaults of one parameter may have, aliases written out."""
MAX_DEPTH = 60

_LONGEST = 60


class Unresolved(Exception):  # noqa: N818 - a state of things, which most callers go on from
    """Something in a file means what cannot be known by reading. `line` is where it is written."""

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
        """All remarks, those of the classes met included, however far away."""
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
    """An expression as it is written, shortened."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError, AttributeError):
        return "this expression"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def _nothing() -> None:
    return None


def _something() -> Any:
    return 0


def _items() -> Any:
    return
    yield


async def _later_nothing() -> None:
    return None


async def _later_something() -> Any:
    return 0


async def _later_items() -> Any:
    return
    yield


_CODES: dict[tuple[bool, str], CodeType] = {
    (False, "nothing"): _nothing.__code__,
    (False, "something"): _something.__code__,
    (False, "items"): _items.__code__,
    (True, "nothing"): _later_nothing.__code__,
    (True, "something"): _later_something.__code__,
    (True, "items"): _later_items.__code__,
}


_NAMES: dict[str, Any] = {"__builtins__": {}, "__name__": ""}
"""What shells see around them: nothing. They run nothing either, so one for all will do."""


class Outline(NamedTuple):
    """The parameters of a function by kind."""

    by_place: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    by_keyword: tuple[str, ...] = ()
    rest: str | None = None
    more: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        if self[0] == self[2] == () and self.rest is self.more is None:
            return self.by_name  # as of most
        known = self.by_place + self.by_name + self.by_keyword
        if self.rest is not None:
            known += (self.rest,)
        return known if self.more is None else (*known, self.more)

    def without(self, names: Collection[str]) -> Outline:
        return Outline(
            tuple(name for name in self.by_place if name not in names),
            tuple(name for name in self.by_name if name not in names),
            tuple(name for name in self.by_keyword if name not in names),
            self.rest if self.rest not in names else None,
            self.more if self.more not in names else None,
        )


def outline_of(arguments: ast.arguments, owner: str = "") -> Outline:
    """The parameters as they are written; names that are private to a class are changed as Python does it."""
    others = arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
    if not others and not owner:
        return Outline((), tuple([item.arg for item in arguments.args]))
    return Outline(
        names_of(arguments.posonlyargs, owner),
        names_of(arguments.args, owner),
        names_of(arguments.kwonlyargs, owner),
        None if arguments.vararg is None else mangle(arguments.vararg.arg, owner),
        None if arguments.kwarg is None else mangle(arguments.kwarg.arg, owner),
    )


def names_of(arguments: list[ast.arg], owner: str) -> tuple[str, ...]:
    names = [item.arg for item in arguments]
    return tuple([mangle(name, owner) for name in names] if owner else names)


def mangle(name: str, owner: str) -> str:
    if not owner or not name.startswith("__") or name.endswith("__"):
        return name
    owner = owner.rpartition(".")[2].lstrip("_")
    return f"_{owner}{name}" if owner else name


def make_shell(
    name: str,
    outline: Outline,
    *,
    is_async: bool = False,
    gives: str = "nothing",
    file: str = "",
    line: int = 1,
) -> FunctionType:
    """An empty function. It gives "nothing", "something" or "items", as far as its code shows."""
    code = _CODES[is_async, gives]
    names = outline.names
    flags = code.co_flags
    flags |= inspect.CO_VARARGS if outline.rest is not None else 0
    flags |= inspect.CO_VARKEYWORDS if outline.more is not None else 0
    code = code.replace(
        co_name=name,
        co_filename=file,
        co_firstlineno=line,
        co_argcount=len(outline.by_place) + len(outline.by_name),
        co_posonlyargcount=len(outline.by_place),
        co_kwonlyargcount=len(outline.by_keyword),
        co_nlocals=len(names),
        co_varnames=names,
        co_flags=flags,
    )
    return FunctionType(code, _NAMES, name)


def words_in(node: _Function) -> str | None:
    """The docstring as it is written: what `ast.get_docstring` gives, for a third of its price."""
    first = node.body[0] if node.body else None
    value = first.value if type(first) is ast.Expr else None
    return value.value if type(value) is ast.Constant and type(value.value) is str else None


def inert() -> None:
    """Stands for a factory of defaults: that there is one counts, not what it makes."""


def inert_check(value: Any) -> Any:
    """Stands for a validator."""
    return value


def what_it_gives(node: _Function) -> tuple[str, str | None]:
    """Whether a function returns anything, as its code would show; and what is wrong where Python refuses it.

    The function is compiled for this and thrown away.
    """
    bare = copy.copy(node)
    bare.args, bare.decorator_list, bare.returns = _bare_arguments(node.args), [], None
    if "type_params" in node._fields:  # of Python 3.12
        bare.type_params = []  # type: ignore[union-attr,unused-ignore]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = compile(ast.Module([bare], []), "<scanned>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return "nothing", str(getattr(error, "msg", None) or error)
    except (RecursionError, MemoryError, TypeError):
        return "nothing", "it is nested too deeply"
    code = next(item for item in module.co_consts if isinstance(item, CodeType))
    if code.co_flags & _GENERATOR:
        return "items", None
    return ("something" if _returns_something(node) else "nothing"), None


def _bare_arguments(arguments: ast.arguments) -> ast.arguments:
    """The parameters without annotations and defaults; a place in the source is all the compiler asks for."""

    def bare(item: ast.arg) -> ast.arg:
        return ast.arg(item.arg, lineno=item.lineno, col_offset=item.col_offset)

    return ast.arguments(
        posonlyargs=[bare(item) for item in arguments.posonlyargs],
        args=[bare(item) for item in arguments.args],
        vararg=None if arguments.vararg is None else bare(arguments.vararg),
        kwonlyargs=[bare(item) for item in arguments.kwonlyargs],
        kw_defaults=[None] * len(arguments.kwonlyargs),
        kwarg=None if arguments.kwarg is None else bare(arguments.kwarg),
        defaults=[],
    )


def _returns_something(node: _Function) -> bool:
    """Whether some `return` of the function itself gives more than None."""
    waiting: list[ast.stmt] = list(node.body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.Return):
            if statement.value is not None and not _is_none(statement.value):
                return True
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                waiting += getattr(statement, field, ())
            for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                waiting += part.body
    return False


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


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
        if isinstance(method, ast.Attribute) and method.attr == "model_json_schema" and not node.args:
            model = self.make_hint(method.value, site, trail)
            if isinstance(model, type) and hasattr(model, "model_json_schema") and not node.keywords:
                return model.model_json_schema()
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
