"""Stubs: functions and classes with the parameters, fields, hints and docstrings of real ones, and no code.

An unknown part of a stub is permissive, and a finding of the tool. A stub of a function is made from the
names of its parameters. Of classes, dataclasses, TypedDicts, NamedTuples, enums and pydantic models are read;
whatever else may change the schema of a class is a finding. A class is created once, when a hint first needs
it, after the classes it refers to. One that refers to itself cannot be: the hint that does is Any.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import re
import types
import typing
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from toolcrib.errors import Finding
from toolcrib.schema.converters import UNKNOWN_DEFAULT
from toolcrib.schema.hints import is_typeddict
from toolcrib.sources.scan import known
from toolcrib.sources.scan.resolve import Resolver
from toolcrib.sources.scan.source_file import (
    Definition,
    FunctionNode,
    Scope,
    SourceFile,
    arguments_of,
    defaults_of,
    docstring_in,
    first_line,
    qualname_in,
    show,
    words_in,
)
from toolcrib.sources.scan.values import (
    HINT,
    Evaluator,
    Site,
    Trail,
    Unresolved,
    inert,
    is_foreign_context,
)

_ITERATORS = ("Generator", "Iterable", "Iterator")
_BODIES = {"nothing": "return None", "something": "return 0", "items": "return\n yield"}
_GLOBALS: dict[str, Any] = {"__builtins__": {}, "__name__": ""}
"""The globals of stubs: there are none."""


def _make_function(node: FunctionNode, dropped: Collection[str], file: str) -> FunctionType:
    """Return an empty function with the parameters of a definition, except those that are dropped."""

    def names(*items: ast.arg | None, mark: str = "") -> list[str]:
        return [mark + item.arg for item in items if item is not None and item.arg not in dropped]

    by_place, by_keyword = names(*node.args.posonlyargs), names(*node.args.kwonlyargs)
    rest = names(node.args.vararg, mark="*") or ["*"] * bool(by_keyword)
    slash = ["/"] * bool(by_place)
    more = names(node.args.kwarg, mark="**")
    parameters = ", ".join([*by_place, *slash, *names(*node.args.args), *rest, *by_keyword, *more])
    is_async = isinstance(node, ast.AsyncFunctionDef)
    gives = "something" if node.returns is not None and not _may_be_iterator(node.returns) else _gives(node)
    text = f"{'async ' * is_async}def {node.name}({parameters}):\n {_BODIES[gives]}"
    code: CodeType = compile(text, file, "exec").co_consts[0]
    return FunctionType(code.replace(co_firstlineno=first_line(node)), _GLOBALS, node.name)


def _gives(node: FunctionNode) -> str:
    """Return "items" for a generator, "something" for a function that returns more than None."""
    gives = "nothing"
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.Yield | ast.YieldFrom):
            return "items"
        if isinstance(item, ast.Return) and getattr(item.value, "value", item.value) is not None:
            gives = "something"
        if not isinstance(item, Definition | ast.Lambda):
            waiting += ast.iter_child_nodes(item)
    return gives


# --- stubs -------------------------------------------------------------------------------------------


class Stub(NamedTuple):
    """A stub and its findings."""

    function: FunctionType
    findings: list[Finding]


MAX_STATEMENTS = 1_000
MAX_NESTING = 40
"""Classes that may be in the making at once, each because the one before needs it."""
_HARMLESS = words_in("enum.unique functools.total_ordering typing.final typing_extensions.final")
_DESCRIBING = re.compile(
    r"def[ \t]+(__(?:class_getitem|get_validators|init_subclass|modify_schema)__|__\w*pydantic\w+__)|"
    r"@(?:\w+\.)*(computed_field|(?:field|model)_serializer|(?:root_)?validator)\b|"
    r"class[ \t]+(Config)\b|\b(mode=[\"']plain|json_schema_input_type|use_attribute_docstrings)"
)
"""What may change the schema of a class, and is not applied. Other validators do not."""
_ENUM_CODE = re.compile(r"def[ \t]+(__new__|__init__|_generate_next_value_|_missing_)\b")
_COMPOUND = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match | ast.Delete


@contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings about the scanned code, which are its author's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass(eq=False)
class Entry:
    """A class, or the reason why it cannot be made. `trail` has what is uncertain about its fields."""

    node: ast.ClassDef
    scope: Scope
    trail: Trail = field(default_factory=Trail)
    cls: Any = None
    error: Unresolved | None = None

    def refuse(self, words: str, line: int | None = None) -> Unresolved:
        hint = "register the tool at run time"
        return Unresolved(f"class '{self.node.name}' {words}", line or self.node.lineno, hint=hint)


class Stubs:
    """Makes stubs of the functions and classes of one library, classes when they are first needed."""

    def __init__(self, resolver: Resolver) -> None:
        self.evaluator = Evaluator(resolver, self.build)
        self._file: SourceFile | None = None
        self._entries: dict[int, Entry] = {}
        self._nesting = 0

    def value(self, node: ast.expr, site: Site) -> Any:
        """Return the value of an expression. Raise Unresolved where it is not known for certain."""
        trail = Trail()
        with quiet():
            made = self.evaluator.evaluate(node, site, trail)
        for finding in trail.findings:
            raise Unresolved(finding.message, finding.line, hint=finding.hint)
        return made

    def make(
        self, node: FunctionNode, file: SourceFile, drops: Iterable[str] = (), *, keeps_contexts: bool = False
    ) -> Stub:
        """Return the stub of a function, without the parameters that are to be dropped, and the Context of
        mcp and fastmcp. With `keeps_contexts` the latter stays, so that building the tool refuses it, as
        registering it with toolcrib's own decorator does."""
        if file is not self._file:
            # `typing` takes `Literal["a", "b"]` and `Literal["b", "a"]` for one: of two files that have a
            # list of these, the second would get the order of the first.
            self._file = file
            for forget in getattr(typing, "_cleanups", ()):
                forget()
        with quiet():
            return self._make(node, file, set(drops), keeps_contexts=keeps_contexts)

    def _make(self, node: FunctionNode, file: SourceFile, dropped: set[str], *, keeps_contexts: bool) -> Stub:
        scope, path = file.spots[id(node)].scope, str(file.path)
        findings: list[Finding] = []
        for words in _unread(node, scope):
            hint = "write it in another way, or register the tool at run time"
            findings.append(Finding(HINT, "warning", words, node.name, None, path, node.lineno, hint))
        if node.name in file.changed_functions:
            line, part = file.changed_functions[node.name]
            words, hint = f"{part} of '{node.name}' is changed after it is made", "write it in the definition"
            findings.append(Finding("guessed-change", "advice", words, node.name, None, path, line, hint))
        hints: dict[str, Any] = {}
        site = Site(scope, lazy=file.is_lazy, is_hint=True)
        written = [(item.arg, item.annotation) for item in arguments_of(node.args)]
        for name, annotation in (*written, ("return", node.returns)):
            if annotation is None or name in dropped:
                continue
            trail = Trail()
            hint = self.evaluator.permit(annotation, site, trail)
            if not is_foreign_context(hint):
                findings += [replace(item, tool=node.name, parameter=name) for item in trail.findings]
            elif name != "return" and not keeps_contexts:
                dropped.add(name)
                continue
            hints[name] = hint
        function = _make_function(node, dropped, path)
        made: dict[str, Any] = {}
        for name, value in defaults_of(node.args):
            if name not in dropped:
                trail = Trail()
                made[name] = self.evaluator.default(name, value, Site(scope), trail, UNKNOWN_DEFAULT)
                findings += [replace(item, tool=node.name, parameter=name) for item in trail.findings]
        by_name = [item.arg for item in node.args.kwonlyargs if item.arg in made]
        function.__kwdefaults__ = {name: made.pop(name) for name in by_name} or None
        function.__defaults__ = tuple(made.values()) or None
        function.__annotations__ = hints
        function.__doc__ = docstring_in(node)
        function.__module__ = file.name
        function.__qualname__ = qualname_in(scope, node.name)
        return Stub(function, findings)

    # --- classes ---

    def build(self, node: ast.ClassDef, scope: Scope, trail: Trail) -> Any:
        """Return the class of a definition; the trail gets what is uncertain about it. Raise Unresolved where
        it cannot be made, or is being made."""
        entry = self._entries.get(id(node))
        if entry is None:
            entry = self._entries[id(node)] = Entry(node, scope)
            entry.error = entry.refuse("refers to itself")  # as long as it is being made
            entry.error.line = None
            self._nesting += 1
            try:
                if self._nesting > MAX_NESTING:
                    raise entry.refuse("is reached through too many others")
                entry.cls, entry.error = self._assemble(entry), None
            except Unresolved as error:
                entry.error = error
            except Exception as error:  # dataclasses, typing and pydantic refuse classes in many ways
                words = str(error).partition("\n")[0] or type(error).__name__
                entry.error = entry.refuse(f"is refused at run time: {words}")
            finally:
                self._nesting -= 1
        trail.findings |= entry.trail.findings
        if entry.error is not None:
            raise Unresolved(entry.error.message, entry.error.line, hint=entry.error.hint)
        return entry.cls

    def _assemble(self, entry: Entry) -> Any:
        node, scope, trail = entry.node, entry.scope, entry.trail
        evaluate, site = self.evaluator.evaluate, Site(scope)
        if len(node.body) > MAX_STATEMENTS:
            raise entry.refuse("has too many members")
        if any(item.arg in (None, "metaclass") for item in node.keywords):
            raise entry.refuse("has a metaclass")
        bases = tuple(evaluate(item, replace(site, is_hint=True), trail) for item in node.bases)
        is_enum = any(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases)
        is_dict, is_model = any(map(_is_typed_dict, bases)), any(map(_is_model, bases))
        is_tuple = any(getattr(base, "__name__", "") == "NamedTuple" for base in bases)
        _check_code(entry, _ENUM_CODE if is_enum else _DESCRIBING)
        keywords = {str(item.arg): evaluate(item.value, site, trail) for item in node.keywords}
        options: dict[str, Any] | None = None  # of the decorator that makes a dataclass of it
        for item in node.decorator_list:
            called = item.func if isinstance(item, ast.Call) else item
            dotted = self.evaluator.resolver.full_name(called, scope)
            if dotted == "dataclasses.dataclass":
                given = item.keywords if isinstance(item, ast.Call) else ()
                options = {str(each.arg): evaluate(each.value, site, trail) for each in given}
            elif dotted not in _HARMLESS:
                raise entry.refuse(f"has the decorator '@{show(called)}', which is not applied", item.lineno)
        namespace: dict[str, Any] = {
            "__module__": scope.file.name,
            "__qualname__": qualname_in(scope, node.name),
            "__doc__": docstring_in(node),
        }
        if is_enum or is_dict or is_tuple or is_model or options is not None:
            self._add_members(entry, namespace, is_enum=is_enum, is_model=is_model, is_tuple=is_tuple)
        elif keywords:
            raise entry.refuse(f"is given {', '.join(keywords)}")
        mixins = [item for base in bases if isinstance(base, type) for item in base.__mro__]
        if is_model and any(item.__module__ == scope.file.name and not _is_model(item) for item in mixins):
            raise entry.refuse("has a base that is no model")  # pydantic may take its annotations for fields

        def fill(body: dict[str, Any]) -> None:
            for name, value in namespace.items():
                body[name] = value  # noqa: PERF403 - that of an enum looks at each

        made = types.new_class(node.name, bases, keywords, fill)
        if options is None or is_dict or is_model:
            return made
        for name in ("slots", "weakref_slot"):  # they make another class, with the same fields
            options.pop(name, None)
        return dataclasses.dataclass(made, **options)

    def _add_members(
        self, entry: Entry, namespace: dict[str, Any], *, is_enum: bool, is_model: bool, is_tuple: bool
    ) -> None:
        """Add the annotated names of a class body, with their defaults; of a model also its settings."""
        trail, hints = entry.trail, dict[str, Any]()
        make_field = known.find("pydantic.Field") if is_model else dataclasses.field
        site = Site(entry.scope.file.scopes[id(entry.node)], is_field=True)
        hint_site = replace(site, lazy=entry.scope.file.is_lazy)
        for statement in entry.node.body:
            trail.steps = 0
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id="model_config")], value=ast.expr() as value)
                    | ast.AnnAssign(target=ast.Name(id="model_config"), value=ast.expr() as value)
                ) if is_model:
                    namespace["model_config"] = self.evaluator.evaluate(value, site, trail)
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_enum and name[:2] != "__":
                    if name in namespace:
                        raise entry.refuse(f"is refused at run time: it has two members '{name}'")
                    namespace[name] = self.evaluator.evaluate(value, site, trail)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                    if not is_enum and (not is_model or not name.startswith("_")):
                        hints[name] = self.evaluator.permit(annotation, hint_site, trail)
                        if value is not None:
                            trail.steps = 0
                            unknown = None if is_tuple else make_field(default_factory=inert)  # no default
                            full = f"{entry.node.name}.{name}"
                            namespace[name] = self.evaluator.default(full, value, site, trail, unknown)
        if not is_enum:
            namespace["__annotations__"] = hints


def _check_code(entry: Entry, code: re.Pattern[str]) -> None:
    """Raise Unresolved where something may change a class that is not read."""
    node, file = entry.node, entry.scope.file
    first, last = node.lineno, node.end_lineno or node.lineno
    for number, line in enumerate(file.lines[first:last], start=first + 1):
        if found := code.search(line):
            raise entry.refuse(f"has {found[found.lastindex or 0]}, code that is not run", number)
    for statement in node.body:
        if isinstance(statement, _COMPOUND):
            raise entry.refuse("has statements that make names", statement.lineno)
    if entry.scope.kind == "module" and file.changes(node.name):
        raise entry.refuse("gets attributes from outside")


def _unread(node: FunctionNode, scope: Scope) -> Iterator[str]:
    """Yield what is not read of a signature."""
    if getattr(node, "type_params", ()):  # of Python 3.12
        yield "Type parameters in brackets are not read"
    for item in arguments_of(node.args) if scope.kind == "class" else ():
        if item.arg.startswith("__") and not item.arg.endswith("__"):
            yield f"Python gives the parameter '{item.arg}' another name, because it is private to the class"


def _may_be_iterator(node: ast.expr) -> bool:
    base = node.value if isinstance(node, ast.Subscript) else node
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return name.endswith(_ITERATORS) or isinstance(base, ast.Constant)


def _is_model(base: Any) -> bool:
    return isinstance(base, type) and hasattr(base, "model_rebuild")


def _is_typed_dict(base: Any) -> bool:
    if isinstance(base, type):
        return is_typeddict(base)
    origin = typing.get_origin(base)
    return getattr(base, "__name__", "") == "TypedDict" or (isinstance(origin, type) and is_typeddict(origin))
