"""A source file: its scopes and the names that they bind, and the statements in it that may register tools.

One pass over the statements collects them, each with the conditions and loops around it, which are not
interpreted.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FunctionNode | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_SHOWN = 60
_REGISTERING = re.compile(
    r"(?:tool|Tool|[pP]rompt|resource|mount|import_server|remove|disable|\badd(?:_\w+)?|_all_tools|_handler)\b|"
    r"\b(?:tools|on_list_\w+)[ \t]*="
)
"""What a line has that may register something, or change what is registered."""
_CHANGED = re.compile(
    r"^[ \t]*(\w+)\.(__(?:annotations|defaults|doc|kwdefaults|name|signature)__)(?:\[[^]\n]*\])?[ \t]*=",
    re.MULTILINE,
)


def words_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


def show(node: ast.AST) -> str:
    """Return an expression as it is written, shortened."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError, AttributeError):
        return "this expression"
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def first_line(node: Definition) -> int:
    """Return the line of a definition as Python counts: that of its first decorator."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


def docstring_in(node: Definition) -> str | None:
    """Return the docstring of a definition as it is written; `ast.get_docstring` takes much longer."""
    first = node.body[0]
    value = first.value if type(first) is ast.Expr else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


# --- scopes ------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Binding:
    """One way in which a name gets its meaning. `module` and `level` are those of an import, `value` is what
    an assignment assigns."""

    kind: Literal["import", "from", "class", "function", "value", "unknown"]
    node: ast.AST
    line: int
    value: ast.expr | None = None
    module: str = ""
    level: int = 0
    name: str = ""
    is_conditional: bool = False


@dataclass(eq=False)
class Scope:
    """A module, a function or a class body. `spots` are the statements that are reached, and where they
    stand. Type parameters in brackets are not names of it: annotations that use them are announced."""

    kind: Literal["module", "function", "class"]
    node: Any
    file: SourceFile
    parent: Scope | None = None
    spots: list[tuple[ast.stmt, Spot]] = field(default_factory=list)
    stars: list[Binding] = field(default_factory=list)

    @property
    def statements(self) -> Iterator[ast.stmt]:
        return (statement for statement, _ in self.spots)

    @property
    def returned(self) -> list[ast.expr]:
        """The values that a function returns."""
        returns = (item for item in self.statements if isinstance(item, ast.Return))
        return [item.value for item in returns if item.value is not None]

    @cached_property
    def names(self) -> dict[str, list[Binding]]:
        """The bindings of each name, in the order of their lines."""
        names: dict[str, list[Binding]] = {}
        for item in arguments_of(self.node.args) if self.kind == "function" else ():
            names[item.arg] = [Binding("unknown", self.node, self.node.lineno, name=item.arg)]
        for statement, spot in self.spots:
            for name, binding in _bindings(statement):
                binding.is_conditional = bool(spot.guards) or spot.is_tried
                if name != "*":
                    names.setdefault(name, []).append(binding)
        return names

    @cached_property
    def function(self) -> Scope | None:
        """The function whose call runs what stands here; None for what importing runs."""
        return self if self.kind == "function" else self.parent and self.parent.function

    def name_of(self, value: ast.expr) -> str | None:
        """Return the name that an expression is assigned to."""
        bindings = ((name, item) for name, several in self.names.items() for item in several)
        return next((name for name, item in bindings if item.value is value), None)

    def visible(self) -> Iterator[Scope]:
        """Yield the scopes in which a name that is used here is looked for, in order."""
        yield self
        outer = self.parent
        while outer is not None:
            if outer.kind != "class":
                yield outer
            outer = outer.parent


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
    """Yield the names that one statement binds itself, with the values where they are written."""
    line = statement.lineno
    if isinstance(statement, Definition):
        kind: Any = "class" if isinstance(statement, ast.ClassDef) else "function"
        yield statement.name, Binding(kind, statement, line, name=statement.name)
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            shown = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else shown
            yield shown, Binding("import", statement, line, module=module)
    elif isinstance(statement, ast.ImportFrom):
        module, level = statement.module or "", statement.level
        for alias in statement.names:
            made = Binding("from", statement, line, None, module, level, alias.name)
            yield alias.asname or alias.name, made
    elif not isinstance(statement, ast.AnnAssign) or statement.value is not None:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        targets = [getattr(statement, "target", None), *getattr(statement, "targets", ())]
        targets += [item.optional_vars for item in getattr(statement, "items", ())]
        targets += [getattr(statement, "name", None)]  # `type` of Python 3.12, which is not read
        for target in targets:
            for name, part in _assigned(target, value):
                yield name, Binding("unknown" if part is None else "value", statement, line, part, name=name)


def _assigned(target: Any, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        values: Sequence[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            values = value.elts
        for inner, given in zip(target.elts, values, strict=True):
            yield from _assigned(inner, given)


def arguments_of(arguments: ast.arguments) -> list[ast.arg]:
    """Return all parameters: those by position, those by name, `*args` and `**kwargs`."""
    found = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    return found + [item for item in (arguments.vararg, arguments.kwarg) if item is not None]


def defaults_of(arguments: ast.arguments) -> list[tuple[str, ast.expr]]:
    """Return the parameters that have a default, with it."""
    places, last = arguments.posonlyargs + arguments.args, arguments.defaults
    found = [(item.arg, value) for item, value in zip(places[len(places) - len(last) :], last, strict=True)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found + [(item.arg, value) for item, value in keywords if value is not None]


# --- files -------------------------------------------------------------------------------------------


class Guard(NamedTuple):
    """A condition or loop around statements: what stands below it may be missing when the code runs."""

    line: int
    words: str
    test: ast.expr | None = None


class Spot(NamedTuple):
    """Where a statement stands: its scope, and the conditions and loops around it in that function."""

    scope: Scope
    guards: tuple[Guard, ...] = ()
    is_tried: bool = False

    def meets(self, other: Spot) -> bool:
        """Return whether both certainly run, so that one name is refused the second time."""
        return not self.guards and not other.guards and self.scope is other.scope

    def guarded(self, line: int, words: str, test: ast.expr | None = None) -> Spot:
        return self._replace(guards=(*self.guards, Guard(line, words, test)))


@dataclass(eq=False)
class SourceFile:
    """One file. `name` is the dotted name that importing it gives, `base` the folder it is imported from.

    `calls` are those whose name may register something. `spots` and `scopes` are those in which each
    definition stands and which its body makes, by the id of the node.
    """

    path: Path
    name: str
    base: Path
    tree: ast.Module
    text: str = ""
    decorated: list[tuple[Definition, Spot]] = field(default_factory=list)
    calls: list[tuple[ast.Call, Spot]] = field(default_factory=list)
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    spots: dict[int, Spot] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scope = Scope("module", self.tree, self)
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.text.split("\n")
        self._marked = [
            number for number, line in enumerate(self.lines, start=1) if _REGISTERING.search(line)
        ]
        for statement in self.tree.body:  # whatever one of them raises
            self._read_block([statement], Spot(self.scope))

    def _read_block(self, body: Sequence[ast.stmt], spot: Spot) -> None:
        """Collect the statements of a block. Conditions and loops are not interpreted."""
        for statement in body:
            spot.scope.spots.append((statement, spot))
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self.spots[id(statement)] = spot
                    if statement.decorator_list:
                        self.decorated.append((statement, spot))
                    is_class = isinstance(statement, ast.ClassDef)
                    scope = Scope("class" if is_class else "function", statement, self, spot.scope)
                    self.scopes[id(statement)] = scope
                    self._read_block(statement.body, Spot(scope, spot.guards if is_class else ()))
                case ast.Import() | ast.ImportFrom():
                    self.imports.append(statement)
                    if statement.names[0].name == "*":
                        spot.scope.stars += [binding for _, binding in _bindings(statement)]
                case ast.If() | ast.While() | ast.For() | ast.AsyncFor():
                    test = getattr(statement, "test", None)
                    self._read_calls(test or statement.iter, spot)  # type: ignore[union-attr]
                    words = "depends on" if isinstance(statement, ast.If) else "stands in a loop"
                    inner = spot.guarded(statement.lineno, words, test)
                    self._read_block(statement.body, inner)
                    self._read_block(statement.orelse, inner)
                case ast.With() | ast.AsyncWith():
                    for item in statement.items:
                        self._read_calls(item.context_expr, spot)
                    self._read_block(statement.body, spot)
                case ast.Match():
                    for case in statement.cases:
                        self._read_block(
                            case.body, spot.guarded(statement.lineno, "depends on", statement.subject)
                        )
                case ast.Try() | ast.TryStar():
                    tried = spot._replace(is_tried=spot.is_tried or bool(statement.handlers))
                    self._read_block([*statement.body, *statement.orelse], tried)
                    for handler in statement.handlers:
                        words = "is registered if something fails"
                        self._read_block(handler.body, spot.guarded(handler.lineno, words))
                    self._read_block(statement.finalbody, spot)
                case _:
                    self._read_calls(statement, spot)
            if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
                return

    def _read_calls(self, node: ast.stmt | ast.expr, spot: Spot) -> None:
        position = bisect_left(self._marked, node.lineno)
        if self._marked[position : position + 1] and self._marked[position] <= (node.end_lineno or 0):
            self.calls += [(item, spot) for item in ast.walk(node) if isinstance(item, ast.Call)]

    @cached_property
    def is_lazy(self) -> bool:
        """Whether its annotations are text at run time: `from __future__ import annotations`."""
        imports = [item for item in self.imports if getattr(item, "module", "") == "__future__"]
        return any(alias.name == "annotations" for item in imports for alias in item.names)

    @cached_property
    def packages(self) -> set[str]:
        """The packages that its imports name."""
        named = [
            item.module or "" for item in self.imports if isinstance(item, ast.ImportFrom) and not item.level
        ]
        named += [alias.name for item in self.imports if isinstance(item, ast.Import) for alias in item.names]
        return {name.partition(".")[0] for name in named}

    @cached_property
    def public_names(self) -> frozenset[str]:
        """The names that `from module import *` gives, of those that the module itself binds."""
        listed = self.scope.names.get("__all__", [])
        if len(listed) == 1 and isinstance(listed[0].value, ast.List | ast.Tuple):
            return frozenset(str(getattr(item, "value", "")) for item in listed[0].value.elts)
        return frozenset(name for name in self.scope.names if not name.startswith("_"))

    @cached_property
    def changed_functions(self) -> dict[str, tuple[int, str]]:
        """The line and the part of `function.__doc__ = ...` and the like, by the name of the function."""
        found = _CHANGED.finditer(self.text) if ".__" in self.text else ()
        return {item[1]: (self.text.count("\n", 0, item.start(1)) + 1, item[2]) for item in found}

    def changes(self, name: str) -> bool:
        """Return whether the object of a name is changed somewhere in the file."""
        method = "add|append|clear|extend|insert|pop|popitem|remove|reverse|setdefault|sort|update"
        part = r"(?:\[[^\]\n]*\]|\.\w+)"
        changed = (
            rf"\b{name}(?:{part}+[ \t]*[-+|]?=(?!=)|[ \t]*[-+|]=|{part}*\.(?:{method})\(|\[.*\][ \t]*=(?!=))"
        )
        return re.search(rf"{changed}|\b(?:global[ \t].*|del[ \t]+|attr\(){name}\b", self.text) is not None


def qualname_in(scope: Scope, name: str) -> str:
    """Return the `__qualname__` of something of this name in a scope."""
    if scope.parent is None:
        return name
    inner = f"<locals>.{name}" if scope.kind == "function" else name
    return qualname_in(scope.parent, f"{scope.node.name}.{inner}")
