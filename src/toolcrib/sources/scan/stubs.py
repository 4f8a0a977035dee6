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
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from toolcrib.errors import Finding
from toolcrib.schema.converters import UNKNOWN_DEFAULT
from toolcrib.schema.hints import is_typeddict
from toolcrib.sources.scan import known
from toolcrib.sources.scan.resolve import Data, Resolver, Thing
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
    CLASS,
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


class Stubs:
    """Makes stubs of the functions of one library."""

    def __init__(self, resolver: Resolver) -> None:
        self.classes = Classes(resolver)

    def value(self, node: ast.expr, site: Site) -> Any:
        """Return the value of an expression. Raise Unresolved where it is not known for certain."""
        trail = Trail()
        made = self.classes.evaluator.value(node, site, trail)
        for finding in trail.findings:
            raise Unresolved(finding.message, finding.line, hint=finding.hint)
        return made

    def data_of(self, thing: Thing) -> Any:
        """Return the value of a thing that is data. Raise Unresolved where only running would tell."""
        if isinstance(thing, Data) and not thing.is_open:
            return self.value(thing.node, Site(thing.scope))
        raise Unresolved("it is no data")

    def make(
        self, node: FunctionNode, file: SourceFile, drops: Iterable[str] = (), *, keeps_contexts: bool = False
    ) -> Stub:
        """Return the stub of a function, without the parameters that are to be dropped, and the Context of
        mcp and fastmcp. With `keeps_contexts` the latter stays, so that building the tool refuses it, as
        registering it with toolcrib's own decorator does."""
        self.classes.turn_to(file)
        scope, path = file.spots[id(node)].scope, str(file.path)
        dropped = set(drops)
        findings: list[Finding] = []
        for words in _unread(node, scope):
            hint = "write it in another way, or register the tool at run time"
            findings.append(Finding(HINT, "warning", words, node.name, None, path, node.lineno, hint))
        if node.name in file.changed_functions:
            line, part = file.changed_functions[node.name]
            words, hint = f"{part} of '{node.name}' is changed after it is made", "write it in the definition"
            findings.append(Finding("guessed-change", "advice", words, node.name, None, path, line, hint))
        hints: dict[str, Any] = {}
        site = Site(scope, lazy=file.is_lazy)
        written = [(item.arg, item.annotation) for item in arguments_of(node.args)]
        for name, annotation in (*written, ("return", node.returns)):
            if annotation is None or name in dropped:
                continue
            trail = Trail()
            hint = self.classes.evaluator.permit(annotation, site, trail)
            if not is_foreign_context(hint):
                findings += [replace(item, tool=node.name, parameter=name) for item in trail.findings]
            elif name != "return" and not keeps_contexts:
                dropped.add(name)
                continue
            hints[name] = hint
        function = _make_function(node, dropped, path)
        made: dict[str, Any] = {}
        for name, value in defaults_of(node.args):
            if type(value) is ast.Constant and name not in dropped:  # as most are
                made[name] = value.value
            elif name not in dropped:
                trail = Trail()
                made[name] = self.classes.evaluator.default(name, value, Site(scope), trail, UNKNOWN_DEFAULT)
                findings += [replace(item, tool=node.name, parameter=name) for item in trail.findings]
        by_name = [item.arg for item in node.args.kwonlyargs if item.arg in made]
        function.__kwdefaults__ = {name: made.pop(name) for name in by_name} or None
        function.__defaults__ = tuple(made.values()) or None
        function.__annotations__ = hints
        function.__doc__ = docstring_in(node)
        function.__module__ = file.name
        function.__qualname__ = qualname_in(scope, node.name)
        return Stub(function, findings)


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


# --- classes ---

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


@dataclass(eq=False)
class Entry:
    """A class, or the reason why it could not be created. `trail` has its uncertainties."""

    node: ast.ClassDef
    scope: Scope
    trail: Trail = field(default_factory=Trail)
    cls: Any = None
    error: Unresolved | None = None

    def doubt(self, words: str, line: int | None = None, hint: str = "register it at run time") -> None:
        """Report that the class may differ from the real one."""
        text = f"Class '{self.node.name}' is read only approximately: {words}"
        self.trail.note(CLASS, text, str(self.scope.file.path), line or self.node.lineno, hint)

    def describe(self) -> dict[str, Any]:
        """Return what every class has: its module, its full name, its docstring."""
        made: dict[str, Any] = {
            "__module__": self.scope.file.name,
            "__qualname__": qualname_in(self.scope, self.node.name),
        }
        words = docstring_in(self.node)
        return made if words is None else {**made, "__doc__": words}


class Classes:
    """The classes of one library, made when first needed."""

    def __init__(self, resolver: Resolver) -> None:
        self.evaluator = Evaluator(resolver, self.build)
        self._file: SourceFile | None = None
        self._entries: dict[int, Entry] = {}
        self._nesting = 0

    def build(self, node: ast.ClassDef, scope: Scope, trail: Trail) -> Any:
        """Return the class of a definition; the trail gets what is uncertain about it. Raise Unresolved where
        it cannot be made, or is being made."""
        entry = self._entries.get(id(node))
        if entry is None:
            entry = self._entries[id(node)] = Entry(node, scope)
            words, hint = f"class '{node.name}' refers to itself", "register the tool at run time"
            entry.error = Unresolved(words, hint=hint)  # as long as it is being made
            entry.error = self._make(entry)
        trail.findings |= entry.trail.findings
        if entry.error is not None:
            raise Unresolved(entry.error.message, entry.error.line, hint=entry.error.hint)
        return entry.cls

    def turn_to(self, file: SourceFile) -> None:
        """Begin with another file, as if it were the first: its hints must not depend on others.

        `typing` takes `Literal["a", "b"]` and `Literal["b", "a"]` for one: of two files that have a list of
        these, the second would get the order of the first.
        """
        if file is not self._file:
            self._file = file
            for forget in getattr(typing, "_cleanups", ()):
                forget()

    def _make(self, entry: Entry) -> Unresolved | None:
        """Create a class; return the reason where that fails."""
        name, line = entry.node.name, entry.node.lineno
        self._nesting += 1
        try:
            if self._nesting > MAX_NESTING:
                raise RecursionError
            with known.quiet():
                entry.cls = self._assemble(entry)
            return None
        except Unresolved as error:
            return error
        except RecursionError:
            return Unresolved(f"class '{name}' is reached through too many others", line)
        except Exception as error:  # dataclasses, typing and pydantic refuse classes in many ways
            words = str(error).partition("\n")[0] or type(error).__name__
            return Unresolved(f"class '{name}' is refused at run time: {words}", line)
        finally:
            self._nesting -= 1

    def _assemble(self, entry: Entry) -> Any:
        node, site = entry.node, Site(entry.scope)
        if len(node.body) > MAX_STATEMENTS:
            raise Unresolved(f"class '{node.name}' has too many members", node.lineno)
        bases = tuple(base for item in node.bases for base in self._base(item, site, entry))
        keywords = self._options(node.keywords, site, entry)
        if entry.scope.kind == "module" and entry.scope.file.changes(node.name):
            entry.doubt("attributes of it are set from outside")
        is_enum = any(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases)
        self._look_for(_ENUM_CODE if is_enum else _DESCRIBING, entry)
        is_dataclass, options = self._decorators(entry)
        if is_enum:
            return self._enum(entry, bases, keywords)
        is_dict = any(map(_is_typed_dict, bases))
        is_tuple = any(getattr(base, "__name__", "") == "NamedTuple" for base in bases)
        is_model = any(map(_is_model, bases))
        namespace = entry.describe()
        if is_dict or is_tuple or is_model or is_dataclass:
            self._add_fields(entry, namespace, is_model=is_model, is_tuple=is_tuple)
        elif keywords:
            entry.doubt(f"it is given {', '.join(keywords)}")
            keywords = {}
        own = entry.scope.file.name
        mixins = [item for base in bases if isinstance(base, type) for item in base.__mro__]
        if is_model and any(item.__module__ == own and not _is_model(item) for item in mixins):
            entry.doubt("one of its bases is no model")  # pydantic may take its annotations for fields
        made = types.new_class(node.name, bases, keywords, lambda body: body.update(namespace))
        is_plain = not is_dict and not is_model
        return dataclasses.dataclass(made, **options) if is_dataclass and is_plain else made

    def _look_for(self, code: re.Pattern[str], entry: Entry) -> None:
        """Report what stands in the body of a class, or between its statements, and is not read."""
        first, last = entry.node.lineno, entry.node.end_lineno or entry.node.lineno
        for number, line in enumerate(entry.scope.file.lines[first:last], start=first + 1):
            if found := code.search(line):
                entry.doubt(f"{found[found.lastindex or 0]} is code that is not run", number)
        for statement in entry.node.body:
            if isinstance(statement, _COMPOUND):
                entry.doubt("statements of its body make names", statement.lineno)

    def _base(self, item: ast.expr, site: Site, entry: Entry) -> Iterator[Any]:
        try:
            base = self.evaluator.hint(item, site, entry.trail)
            if not isinstance(base, type) and not hasattr(base, "__mro_entries__"):
                raise Unresolved(f"'{show(item)}' cannot be inherited from here", item.lineno)
            yield base
        except Unresolved as error:
            entry.doubt(f"its base '{show(item)}' is not known ({error.message})", item.lineno, "scan it too")

    def _options(self, keywords: Sequence[ast.keyword], site: Site, entry: Entry) -> dict[str, Any]:
        """Return the keywords of a class, or of the decorator that makes a dataclass of it."""
        made: dict[str, Any] = {}
        for item in keywords:
            try:
                if item.arg in (None, "metaclass"):
                    raise Unresolved(f"'{show(item.value)}' is code", item.value.lineno)
                made[str(item.arg)] = self.evaluator.value(item.value, site, entry.trail)
            except Unresolved as error:
                entry.doubt(f"{item.arg or '**'}={show(item.value)} is left out: {error.message}")
        return made

    def _decorators(self, entry: Entry) -> tuple[bool, dict[str, Any]]:
        """Return whether the decorators make a dataclass of a class, and its options."""
        is_dataclass, options = False, dict[str, Any]()
        site = Site(entry.scope)
        for item in entry.node.decorator_list:
            called = item.func if isinstance(item, ast.Call) else item
            dotted = self.evaluator.resolver.full_name(called, entry.scope)
            if dotted == "dataclasses.dataclass":
                is_dataclass = True
                options = self._options(item.keywords if isinstance(item, ast.Call) else (), site, entry)
            elif dotted not in _HARMLESS:
                entry.doubt(f"its decorator '@{show(called)}' is not applied", item.lineno)
        for name in ("slots", "weakref_slot"):  # they make another class, with the same fields
            options.pop(name, None)
        return is_dataclass, options

    # --- members ---

    def _add_fields(self, entry: Entry, namespace: dict[str, Any], *, is_model: bool, is_tuple: bool) -> None:
        """Add the annotated names of a class body, with their defaults; of a model also its settings."""
        hints = namespace["__annotations__"] = dict[str, Any]()
        make_field = known.find("pydantic.Field") if is_model else dataclasses.field
        site = Site(entry.scope.file.scopes[id(entry.node)], is_field=True)
        hint_site = dataclasses.replace(site, lazy=entry.scope.file.is_lazy)
        for statement in entry.node.body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id="model_config")], value=ast.expr() as value)
                    | ast.AnnAssign(target=ast.Name(id="model_config"), value=ast.expr() as value)
                ) if is_model:
                    try:
                        namespace["model_config"] = self.evaluator.value(value, site, entry.trail)
                    except Unresolved as error:
                        entry.doubt(f"its settings are left out: {error.message}", value.lineno)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                    if not is_model or not name.startswith("_"):
                        entry.trail.steps = 0
                        hints[name] = self.evaluator.permit(annotation, hint_site, entry.trail)
                        if value is not None:
                            entry.trail.steps = 0
                            unknown = None if is_tuple else make_field(default_factory=inert)  # no default
                            full = f"{entry.node.name}.{name}"
                            namespace[name] = self.evaluator.default(full, value, site, entry.trail, unknown)
                case ast.Assign(targets=[ast.Name(id=name)]) if is_model and not name.startswith("_"):
                    entry.doubt(f"'{name}' has no annotation, which pydantic refuses", statement.lineno)

    def _enum(self, entry: Entry, bases: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        members = [
            (item.targets[0].id, item.value)
            for item in entry.node.body
            if isinstance(item, ast.Assign)
            and isinstance(item.targets[0], ast.Name)
            and not item.targets[0].id.startswith("__")
        ]
        made: dict[str, Any] = {}
        site = Site(entry.scope.file.scopes[id(entry.node)], is_field=True, made=made)

        def fill(namespace: dict[str, Any]) -> None:
            namespace.update(entry.describe())
            for name, value in members:
                entry.trail.steps = 0
                namespace[name] = self.evaluator.value(value, site, entry.trail)
                made[name] = namespace[name]

        return types.new_class(entry.node.name, bases, keywords, fill)


def _is_model(base: Any) -> bool:
    return isinstance(base, type) and hasattr(base, "model_rebuild")


def _is_typed_dict(base: Any) -> bool:
    if isinstance(base, type):
        return is_typeddict(base)
    origin = typing.get_origin(base)
    return getattr(base, "__name__", "") == "TypedDict" or (isinstance(origin, type) and is_typeddict(origin))
