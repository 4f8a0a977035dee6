"""Turn annotations into run-time hints, and recreate the classes they refer to.

A part of an annotation that cannot be resolved becomes Any, with a finding. Dataclasses, TypedDicts,
NamedTuples, enums and pydantic models are recreated with the same fields and docstrings and none of their
code; whatever else may change the schema of a class is a finding. A class is created once, when a hint first
needs it, after the classes it refers to; a class met again during its own creation is completed afterwards.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import importlib
import operator
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import Annotated, Any, ForwardRef, Literal

from toolcrib.schema.hints import is_typeddict
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.scan import known
from toolcrib.sources.scan.files import Library
from toolcrib.sources.scan.names import Names, Outside, Place, Site, qualname_in
from toolcrib.sources.scan.source_file import Scope, SourceFile, show, words_in
from toolcrib.sources.scan.values import (
    CLASS,
    DEFAULT,
    HINT,
    MakeClass,
    NotYet,
    Trail,
    Unresolved,
    Values,
    inert,
)
from toolcrib.sources.source_text import parse_annotation

MAX_MEMBERS = 500
"""Members of a union: typing compares each with each."""
MAX_VALUES = 10_000
MAX_FIELDS = 1_000
MAX_STATEMENTS = 5_000
MAX_NESTING = 40
"""Classes that may be in the making at once, each because the one before needs it."""
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
        """Return the hint. Raise Unresolved where it cannot be known, or where a part is too large; any other
        part that cannot be known is Any."""
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
        """Return the hint, or Any with a finding."""
        try:
            return self.evaluate(node, site, trail)
        except Unresolved as error:
            if error.is_whole and trail.depth:
                raise
            self.report(error, node, site, trail)
            return Any

    def report(self, error: Unresolved, node: ast.expr, site: Site, trail: Trail) -> None:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        shown = show(node).strip("'\"") if is_text else show(node)
        why = error.message if f"'{shown}'" in error.message else f"'{shown}': {error.message}"
        words = f"The annotation cannot be resolved, so anything is accepted: {why}"
        trail.note(HINT, words, site.path, error.line or node.lineno, error.hint or _HINT)

    # --- kinds of expressions ---

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
            trail.note(HINT, doubt.words, site.path, node.lineno, doubt.hint)
        made: list[Any] = []
        error: Unresolved | None = None
        for meaning in found.meanings if found.is_open else found.meanings[:1]:
            try:
                made.append(self._meant(meaning, node, site, trail))
            except Unresolved as failure:
                error = error or failure
        if error is not None and not made:
            raise error
        if error is not None or any(other != made[0] for other in made[1:]):
            words = f"'{show(node)}' is defined in several ways, depending on conditions; the first was taken"
            trail.note(HINT, words, site.path, node.lineno, "define it in one way")
        return made[0]

    def _meant(self, meaning: Any, node: ast.expr, site: Site, trail: Trail) -> Any:
        if isinstance(meaning, Outside):
            return self._outside(known.canonical(meaning.dotted), node, site, trail)
        if not isinstance(meaning, Place) or meaning.binding.kind in ("function", "unknown"):
            raise Unresolved(f"'{show(node)}' is no type", node.lineno)
        binding = meaning.binding
        if isinstance(binding.node, ast.ClassDef):
            return self.make_class(binding.node, meaning.scope, trail)
        with trail.following(binding, node):
            if binding.kind == "variable" or isinstance(binding.value, ast.Call):
                return self._variable(meaning, trail)
            made = self.evaluate(binding.value, meaning.site, trail)  # type: ignore[arg-type]
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
            call: Any = binding.value
            dotted = self.names.qualify(call.func, site)
            if dotted not in ("typing.TypeVar", "typing_extensions.TypeVar", "typing.NewType"):
                return self.evaluate(call, place.site, trail)
            name, *parts = call.args
            hints = [self.permit(part, site.lazily(), trail) for part in parts]
            options = {
                str(item.arg): self.permit(item.value, site.lazily(), trail)
                if item.arg == "bound"
                else self.values.evaluate(item.value, site, trail)
                for item in call.keywords
            }
            made = known.find(dotted)(self.values.evaluate(name, site, trail), *hints, **options)
            made.__module__ = place.scope.file.name
        self._variables[id(binding)] = made
        return made

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

    def _union(self, node: ast.BinOp, site: Site, trail: Trail) -> Any:
        if not isinstance(node.op, ast.BitOr):
            raise Unresolved(f"'{show(node)}' is no annotation", node.lineno)
        members = list(_members(node))
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

    def _list(self, node: ast.List, site: Site, trail: Trail) -> Any:
        return [self.permit(item, site, trail) for item in node.elts]  # the parameters of a Callable

    def _call(self, node: ast.Call, site: Site, trail: Trail) -> Any:
        return self.values.evaluate(node, site, trail)

    # --- subscripts ---

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
        argument = arguments if isinstance(node.slice, ast.Tuple) else arguments[0]
        try:
            if getattr(base, "__module__", "") in _QUIET:
                return base[argument]
            with _quiet():  # pydantic's classes warn about some arguments
                return base[argument]
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
        inner = self.permit(parts[0], site, trail)
        metadata: list[Any] = []
        for part in parts[1:]:
            try:
                metadata.append(self.values.evaluate(part, site, trail))
            except Unresolved as error:
                words = f"Metadata of the type is left out: {error.message}"
                trail.note(HINT, words, site.path, error.line, error.hint or _HINT)
        return Annotated[(inner, *metadata)] if metadata else inner


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


# --- classes -----------------------------------------------------------------------------------------

_DATACLASS, _PYDANTIC_DATACLASS = "dataclasses.dataclass", "pydantic.dataclasses.dataclass"
_CONFIG = "model_config"
_HARMLESS = frozenset({"enum.unique", "functools.total_ordering"}) | {
    f"{module}.{name}"
    for module in ("typing", "typing_extensions")
    for name in ("final", "runtime_checkable", "dataclass_transform")
}
_DESCRIBING = words_in(
    """
    __class_getitem__ __get_pydantic_core_schema__ __get_pydantic_json_schema__ __get_validators__
    __init_subclass__ __modify_schema__ __pydantic_init_subclass__
    """
)
"""Methods that may change the schema of a class."""
_ENUM_CODE = ("__new__", "__init__", "_generate_next_value_", "_missing_")
_VALIDATORS = frozenset({"pydantic.field_validator", "pydantic.model_validator"})
"""They do not change a schema, except in the mode "plain"."""
_COMPOUND = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match | ast.Delete


@dataclass(eq=False)
class Entry:
    """A class, or the reason why it could not be created. `trail` has its uncertainties."""

    node: ast.ClassDef
    scope: Scope
    trail: Trail = field(default_factory=Trail)
    cls: Any = None
    error: Unresolved | None = None
    is_ready: bool = False
    waiting: list[tuple[str, str, ast.expr, Site]] = field(default_factory=list)
    """Fields whose hints wait for a class: name, reference, annotation, where it stands."""

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
        words = ast.get_docstring(self.node, clean=False)
        return made if words is None else {**made, "__doc__": words}


class Classes:
    """The classes of one library, made when first needed."""

    def __init__(self, library: Library) -> None:
        self.names = Names(library)
        self.values = Values(self.names, self.build, self._hint)
        self.hints = Hints(self.names, self.values, self.build)
        self._file: SourceFile | None = None
        self._entries: dict[int, Entry] = {}
        self._making: list[Entry] = []
        self._fresh: list[Entry] = []

    def build(self, node: ast.ClassDef, scope: Scope, trail: Trail) -> Any:
        """Return the class of a definition; the trail gets what is uncertain about it.

        Raise Unresolved where it cannot be made, NotYet where it is being made.
        """
        entry = self._entries.get(id(node))
        if entry is None:
            entry = self._entries[id(node)] = Entry(node, scope)
            self._make(entry)
        trail.uses[id(entry)] = entry.trail
        if entry.error is not None:
            raise Unresolved(entry.error.message, entry.error.line, hint=entry.error.hint)
        if not entry.is_ready:
            raise NotYet(node.name)
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

    def _hint(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        return self.hints.permit(node, site, trail)

    def _make(self, entry: Entry) -> None:
        name, line = entry.node.name, entry.node.lineno
        too_many = Unresolved(f"class '{name}' is reached through too many others", line)
        if len(self._making) >= MAX_NESTING:
            entry.error = too_many
            return
        self._making.append(entry)
        try:
            with _quiet():
                entry.cls = self._assemble(entry)
            entry.is_ready = True
            self._fresh.append(entry)
        except Unresolved as error:
            entry.error = error
        except NotYet:
            if len(self._making) > 1:  # it inherits from one that is being made: its turn comes later
                del self._entries[id(entry.node)]
                raise
            entry.error = Unresolved(f"class '{name}' depends on itself", line)
        except RecursionError:
            entry.error = too_many
        except Exception as error:  # dataclasses, typing and pydantic refuse classes in many ways
            words = str(error).partition("\n")[0] or type(error).__name__
            entry.error = Unresolved(f"class '{name}' is refused at run time: {words}", line)
        finally:
            self._making.pop()
        if not self._making:
            self._fill_in()

    def _assemble(self, entry: Entry) -> Any:
        node, site = entry.node, Site(entry.scope)
        if len(node.body) > MAX_STATEMENTS:
            raise Unresolved(f"class '{node.name}' has too many members", node.lineno)
        bases = tuple(base for item in node.bases for base in self._base(item, site, entry))
        keywords = self._options(node.keywords, site, entry)
        if entry.scope.kind == "module" and entry.scope.file.is_changed(node.name):
            entry.doubt("attributes of it are set from outside")
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name in _DESCRIBING:
                entry.doubt(f"its {statement.name}() is code that is not run", statement.lineno)
        decorator, options = self._decorators(entry)
        if any(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases):
            return self._enum(entry, bases, keywords)
        is_dict = any(map(_is_typed_dict, bases))
        is_tuple = any(getattr(base, "__name__", "") == "NamedTuple" for base in bases)
        is_model = any(map(_is_model, bases))
        namespace = entry.describe()
        if is_dict or is_tuple or is_model or decorator:
            self._add_fields(entry, namespace, is_model=is_model, is_tuple=is_tuple)
        elif keywords:
            entry.doubt(f"it is given {', '.join(keywords)}")
            keywords = {}
        own = entry.scope.file.name
        mixins = [item for base in bases if isinstance(base, type) for item in base.__mro__]
        if is_model and any(item.__module__ == own and not _is_model(item) for item in mixins):
            entry.doubt("one of its bases is no model")  # pydantic may take its annotations for fields
        made = types.new_class(node.name, bases, keywords, lambda body: body.update(namespace))
        if decorator == _DATACLASS and not is_dict and not is_model:
            return dataclasses.dataclass(made, **options)
        return known.find(decorator)(made, **options) if decorator == _PYDANTIC_DATACLASS else made

    def _base(self, item: ast.expr, site: Site, entry: Entry) -> Iterator[Any]:
        try:
            base = self.hints.evaluate(item, site, entry.trail)
            if not isinstance(base, type) and not hasattr(base, "__mro_entries__"):
                raise Unresolved(f"'{show(item)}' cannot be inherited from here", item.lineno)
            yield base
        except Unresolved as error:
            entry.doubt(f"its base '{show(item)}' is not known ({error.message})", item.lineno, "scan it too")

    def _options(self, keywords: Sequence[ast.keyword], site: Site, entry: Entry) -> dict[str, Any]:
        """Return the keywords of a class, or of the decorator that makes a dataclass of it."""
        made: dict[str, Any] = {}
        for item in keywords:
            if item.arg == "metaclass" and self.names.qualify(item.value, site) == "abc.ABCMeta":
                continue
            try:
                if item.arg in (None, "metaclass"):
                    raise Unresolved(f"'{show(item.value)}' is code", item.value.lineno)
                made[str(item.arg)] = self.values.evaluate(item.value, site, entry.trail)
            except Unresolved as error:
                entry.doubt(f"{item.arg or '**'}={show(item.value)} is left out: {error.message}")
        return made

    def _decorators(self, entry: Entry) -> tuple[str, dict[str, Any]]:
        """Return which kind of dataclass the decorators make, and its options; "" for none."""
        chosen, options = "", dict[str, Any]()
        site = Site(entry.scope)
        for item in entry.node.decorator_list:
            called = item.func if isinstance(item, ast.Call) else item
            dotted = self.names.qualify(called, site) or ""
            if dotted in (_DATACLASS, _PYDANTIC_DATACLASS):
                chosen = dotted
                options = self._options(item.keywords if isinstance(item, ast.Call) else (), site, entry)
            elif dotted not in _HARMLESS:
                entry.doubt(f"its decorator '@{show(called)}' is not applied", item.lineno)
        for name in ("slots", "weakref_slot"):  # they make another class, with the same fields
            options.pop(name, None)
        return chosen, options

    # --- members ---

    def _add_fields(self, entry: Entry, namespace: dict[str, Any], *, is_model: bool, is_tuple: bool) -> None:
        """Add the annotated names of a class body, with their defaults; of a model also its settings."""
        hints = namespace["__annotations__"] = dict[str, Any]()
        site = Site(entry.scope.file.scope_in(entry.node), is_field=True)
        hint_site = site.lazily() if entry.scope.file.is_lazy else site
        for statement in entry.node.body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id="model_config")], value=ast.expr() as value)
                    | ast.AnnAssign(target=ast.Name(id="model_config"), value=ast.expr() as value)
                ) if is_model:
                    namespace[_CONFIG] = self._settings(entry, value, site)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                    if not is_model or not name.startswith("_"):
                        hints[name] = self._field_hint(entry, name, annotation, hint_site)
                        if value is not None:
                            namespace[name] = self._default(entry, name, value, site, is_model, is_tuple)
                case ast.Assign(targets=[ast.Name(id=name)]) if is_model and not name.startswith("_"):
                    entry.doubt(f"'{name}' has no annotation, which pydantic refuses", statement.lineno)
                case ast.FunctionDef() if is_model:
                    self._look_at_hook(entry, statement, site)
                case ast.ClassDef(name="Config") if is_model:
                    entry.doubt("its Config is left out", statement.lineno)
                case _ if isinstance(statement, _COMPOUND):
                    entry.doubt("statements of its body make names", statement.lineno)
            if len(hints) > MAX_FIELDS:
                raise Unresolved(f"class '{entry.node.name}' has too many fields", entry.node.lineno)

    def _field_hint(self, entry: Entry, name: str, node: ast.expr, site: Site) -> Any:
        """Return the hint of a field; a reference to fill in, where it needs a class that is being made."""
        before = list(entry.trail.findings)
        entry.trail.steps = 0
        try:
            return self.hints.permit(node, site, entry.trail)
        except NotYet:
            entry.trail.findings[:] = before
            reference = f"toolcrib_reference_{id(entry)}_{len(entry.waiting)}"
            entry.waiting.append((name, reference, node, site))
            return ForwardRef(reference)

    def _default(
        self, entry: Entry, name: str, node: ast.expr, site: Site, is_model: bool, is_tuple: bool
    ) -> Any:
        """Return the default of a field; something that shows no default, where it is not known."""
        entry.trail.steps = 0
        try:
            return self.values.evaluate(node, site, entry.trail)
        except (Unresolved, NotYet) as failure:
            error = failure if isinstance(failure, Unresolved) else Unresolved("it needs the class itself")
            text = f"The default of '{entry.node.name}.{name}' is not known, so it is not shown: "
            text += f"{show(node)} ({error.message})"
            line, hint = error.line or node.lineno, error.hint or "write a literal"
            entry.trail.note(DEFAULT, text, site.path, line, hint)
        if is_tuple:
            return None
        return (known.find("pydantic.Field") if is_model else dataclasses.field)(default_factory=inert)

    def _settings(self, entry: Entry, node: ast.expr, site: Site) -> Any:
        """Return the settings of a model; none of them, where one is code."""
        try:
            settings = self.values.evaluate(node, site, entry.trail)
        except Unresolved as error:
            entry.doubt(f"its settings are left out: {error.message}", node.lineno)
            return {}
        if settings.get("use_attribute_docstrings"):
            entry.doubt("the strings below its fields are not read")
        return settings

    def _look_at_hook(self, entry: Entry, node: ast.FunctionDef, site: Site) -> None:
        """Report validators and serializers that change the schema."""
        for item in node.decorator_list:
            called = item.func if isinstance(item, ast.Call) else item
            dotted = known.canonical(self.names.qualify(called, site) or "")
            given = {each.arg: getattr(each.value, "value", None) for each in getattr(item, "keywords", ())}
            is_plain = given.get("mode") != "plain" and "json_schema_input_type" not in given
            if dotted.startswith("pydantic.") and not (dotted in _VALIDATORS and is_plain):
                entry.doubt(f"{node.name}() is left out: '@{show(called)}'", node.lineno)

    def _enum(self, entry: Entry, bases: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        members: list[tuple[str, ast.expr]] = []
        for statement in entry.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("__"):
                    members.append((name, value))
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    members.append((name, value))
                case ast.FunctionDef(name=name) if name in _ENUM_CODE:
                    entry.doubt(f"its {name}() is code that is not run", statement.lineno)
                case ast.Assign(targets=[ast.Name()]):
                    pass
                case _ if isinstance(statement, ast.Assign | ast.ClassDef | _COMPOUND):
                    entry.doubt("a part of its body may make members", statement.lineno)
        made: dict[str, Any] = {}
        site = Site(entry.scope.file.scope_in(entry.node), is_field=True, made=made)

        def fill(namespace: dict[str, Any]) -> None:
            namespace.update(entry.describe())
            for name, value in members:
                entry.trail.steps = 0
                namespace[name] = self.values.evaluate(value, site, entry.trail)
                made[name] = namespace[name]

        return types.new_class(entry.node.name, bases, keywords, fill)

    # --- completion ---

    def _fill_in(self) -> None:
        """Give the fields that were waiting their hints, now that all classes are there."""
        fresh, self._fresh = self._fresh, []
        references: dict[str, Any] = {}
        for entry in fresh:
            for name, reference, node, site in entry.waiting:
                entry.trail.steps = 0
                try:
                    references[reference] = self.hints.permit(node, site, entry.trail)
                except NotYet:
                    references[reference] = Any
                    entry.doubt(f"the hint of '{name}' goes round in a circle", node.lineno)
        with _quiet():
            for _ in range(2 if references else 1):  # a model may need another that is completed after it
                for entry in fresh:
                    _complete(entry.cls, references)


def _complete(cls: Any, references: dict[str, Any]) -> None:
    """Replace references to hints with the hints."""
    own = vars(cls).get("__annotations__", {})
    for hints in (own, getattr(getattr(cls, "__new__", None), "__annotations__", {})) if references else ():
        for name, hint in hints.items():
            if isinstance(hint, ForwardRef) and hint.__forward_arg__ in references:
                hints[name] = references[hint.__forward_arg__]
    for item in getattr(cls, "__dataclass_fields__", {}).values() if references else ():
        if isinstance(item.type, ForwardRef) and item.type.__forward_arg__ in references:
            item.type = references[item.type.__forward_arg__]
    if getattr(cls, "__pydantic_complete__", True):
        return
    if _is_model(cls):
        cls.model_rebuild(force=True, raise_errors=False, _types_namespace=references)
    elif "__pydantic_fields__" in vars(cls):
        rebuild = importlib.import_module("pydantic.dataclasses").rebuild_dataclass
        rebuild(cls, force=True, raise_errors=False, _types_namespace=references)


def _is_model(base: Any) -> bool:
    return isinstance(base, type) and hasattr(base, "model_rebuild")


def _is_typed_dict(base: Any) -> bool:
    if isinstance(base, type):
        return is_typeddict(base)
    origin = typing.get_origin(base)
    return getattr(base, "__name__", "") == "TypedDict" or (isinstance(origin, type) and is_typeddict(origin))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings about a class, which are its author's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
