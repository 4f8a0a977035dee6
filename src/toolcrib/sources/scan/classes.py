"""Recreate the classes of source files, with the same fields and docstrings and none of their code.

A class is created once, when a hint first needs it, after the classes it refers to. A class met again
during its own creation is completed afterwards.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import types
import typing
import warnings
from collections.abc import Iterator
from typing import Any, ForwardRef, Protocol

from toolcrib.schema.hints import is_typeddict
from toolcrib.sources.scan import models
from toolcrib.sources.scan.files import Library, SourceFile
from toolcrib.sources.scan.hints import Hints
from toolcrib.sources.scan.models import Entry, Maker
from toolcrib.sources.scan.names import Names, Place, Site
from toolcrib.sources.scan.scopes import Scope, decide
from toolcrib.sources.scan.values import NotYet, Trail, Unresolved, Values, inert, show

MAX_FIELDS = 1_000
MAX_STATEMENTS = 5_000
_DATACLASS, _PYDANTIC_DATACLASS = "dataclasses.dataclass", "pydantic.dataclasses.dataclass"
_HARMLESS = frozenset(
    {
        "enum.unique",
        "functools.total_ordering",
        *(f"{module}.final" for module in ("typing", "typing_extensions")),
        *(f"{module}.runtime_checkable" for module in ("typing", "typing_extensions")),
        *(f"{module}.dataclass_transform" for module in ("typing", "typing_extensions")),
    }
)
_CONSTRUCTING = frozenset({"__init__", "__new__", "__post_init__", "model_post_init", "__call__"})
_DESCRIBING = frozenset(
    {
        "__get_pydantic_core_schema__",
        "__get_pydantic_json_schema__",
        "__get_validators__",
        "__init_subclass__",
        "__modify_schema__",
        "__pydantic_init_subclass__",
        "__class_getitem__",
    }
)
_CONTAINERS = (list, dict, set, frozenset, tuple, dataclasses.MISSING, None)


class Workshop(Protocol):
    """What classes.py lends."""

    names: Names
    values: Values
    hints: Hints

    def field_hint(self, entry: Entry, name: str, node: ast.expr, site: Site) -> Any: ...


def can_be_base(base: Any) -> bool:
    return isinstance(base, type) or hasattr(base, "__mro_entries__")


def make(shop: Workshop, entry: Entry, bases: list[Any], keywords: dict[str, Any]) -> Any:
    """The class. Raises Unresolved, or whatever Python raises for such a class."""
    if len(entry.node.body) > MAX_STATEMENTS:
        raise Unresolved(f"class '{entry.node.name}' has too many members", entry.node.lineno)
    _look_at_functions(entry)
    decorator, options = _read_decorators(shop, entry)
    if any(_is_typed_dict(base) for base in bases):
        return _typed_dict(shop, entry, bases, keywords)
    if any(getattr(base, "__name__", "") == "NamedTuple" for base in bases):
        return _named_tuple(shop, entry, bases)
    if any(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases):
        return _enum(shop, entry, bases, keywords)
    if any(models.is_model(base) for base in bases):
        return models.make_model(shop, entry, bases, keywords, statements(entry.node.body, entry))
    if decorator:
        return _dataclass(shop, entry, bases, decorator, options)
    if keywords:
        entry.doubt(f"it is given {', '.join(keywords)}")
    return _new(entry, bases, {}, entry.describe())


def complete(cls: Any, references: dict[str, Any]) -> str | None:
    """Put hints in the place of references to them; says what is wrong where that does not do."""
    kept = [
        vars(cls).get("__annotations__", {}),
        getattr(getattr(cls, "__new__", None), "__annotations__", {}),
    ]
    for hints in kept if references else ():
        for name, hint in hints.items():
            if isinstance(hint, ForwardRef) and hint.__forward_arg__ in references:
                hints[name] = references[hint.__forward_arg__]
    for item in getattr(cls, "__dataclass_fields__", {}).values() if references else ():
        if isinstance(item.type, ForwardRef) and item.type.__forward_arg__ in references:
            item.type = references[item.type.__forward_arg__]
    return models.complete(cls, references) if hasattr(cls, "__pydantic_complete__") else None


def statements(body: list[ast.stmt], entry: Entry) -> Iterator[ast.stmt]:
    """The statements of a class body that run, conditions decided."""
    for statement in body:
        if isinstance(statement, ast.If):
            truth = decide(statement.test)
            if truth is None:
                entry.doubt(f"its body depends on '{show(statement.test)}'", statement.lineno)
            chosen = statement.body if truth in (True, "running") else statement.orelse
            yield from statements(chosen, entry)
        elif isinstance(statement, ast.For | ast.While | ast.With | ast.Try | ast.Match | ast.Delete):
            entry.doubt("statements of its body make names", statement.lineno)
        else:
            yield statement


def _fields(entry: Entry) -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
    """The annotated names of a class body."""
    count = 0
    for statement in statements(entry.node.body, entry):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            count += 1
            if count > MAX_FIELDS:
                raise Unresolved(f"class '{entry.node.name}' has too many fields", entry.node.lineno)
            yield statement.target.id, statement.annotation, statement.value


def _look_at_functions(entry: Entry) -> None:
    for statement in entry.node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name in _CONSTRUCTING:
                entry.is_plain = False
            if statement.name in _DESCRIBING:
                entry.is_plain = False
                entry.doubt(f"its {statement.name}() is code that is not run", statement.lineno)


def _read_decorators(shop: Workshop, entry: Entry) -> tuple[str, dict[str, Any]]:
    """Which kind of dataclass the decorators make, with what options; "" for none."""
    chosen, options = "", {}
    for item in entry.node.decorator_list:
        called = item.func if isinstance(item, ast.Call) else item
        dotted = shop.names.qualify(called, Site(entry.scope)) or ""
        if dotted in (_DATACLASS, _PYDANTIC_DATACLASS):
            chosen = dotted
            for option in item.keywords if isinstance(item, ast.Call) else ():
                try:
                    options[str(option.arg)] = shop.values.evaluate(
                        option.value, Site(entry.scope), entry.trail
                    )
                except Unresolved as error:
                    entry.doubt(f"{option.arg}={show(option.value)} is left out: {error.message}")
        elif dotted not in _HARMLESS:
            entry.is_plain = False
            entry.doubt(f"its decorator '@{show(called)}' is not applied", item.lineno)
    return chosen, options


def _new(entry: Entry, bases: list[Any], keywords: dict[str, Any], namespace: dict[str, Any]) -> Any:
    return types.new_class(entry.node.name, tuple(bases), keywords, lambda body: body.update(namespace))


def _hint(shop: Workshop, entry: Entry, name: str, node: ast.expr, site: Site) -> Any:
    lazy = entry.scope.file.is_lazy
    return shop.field_hint(entry, name, node, site.lazily() if lazy else site)


def default_of(shop: Workshop, entry: Entry, name: str, node: ast.expr, site: Site) -> Any:
    """The default of a field. Raises Unresolved, after remarking on it."""
    entry.trail.steps = 0
    try:
        return shop.values.evaluate(node, site, entry.trail)
    except NotYet:
        error = Unresolved("it needs the class itself", node.lineno)
    except Unresolved as failure:
        error = failure
    entry.lack_default(name, node, error)
    raise error


# --- the kinds ---------------------------------------------------------------------------------------


def _is_typed_dict(base: Any) -> bool:
    if isinstance(base, type):
        return is_typeddict(base)
    origin = typing.get_origin(base)
    return getattr(base, "__name__", "") == "TypedDict" or (isinstance(origin, type) and is_typeddict(origin))


def _typed_dict(shop: Workshop, entry: Entry, bases: list[Any], keywords: dict[str, Any]) -> Any:
    site = entry.site()
    hints = {name: _hint(shop, entry, name, annotation, site) for name, annotation, _ in _fields(entry)}
    return _new(entry, bases, keywords, {**entry.describe(), "__annotations__": hints})


def _named_tuple(shop: Workshop, entry: Entry, bases: list[Any]) -> Any:
    site, hints, defaults = entry.site(), {}, {}
    for name, annotation, value in _fields(entry):
        hints[name] = _hint(shop, entry, name, annotation, site)
        if value is not None:
            try:
                defaults[name] = default_of(shop, entry, name, value, site)
            except Unresolved:
                defaults[name] = None
    return _new(entry, bases, {}, {**entry.describe(), "__annotations__": hints, **defaults})


def _dataclass(
    shop: Workshop, entry: Entry, bases: list[Any], decorator: str, options: dict[str, Any]
) -> Any:
    site, hints, defaults = entry.site(), {}, {}
    for name, annotation, value in _fields(entry):
        hints[name] = _hint(shop, entry, name, annotation, site)
        if value is not None:
            try:
                defaults[name] = default_of(shop, entry, name, value, site)
            except Unresolved:
                defaults[name] = dataclasses.field(default_factory=inert)
    for name in ("slots", "weakref_slot"):  # they make another class, and change nothing that is told
        options.pop(name, None)
    cls = _new(entry, bases, {}, {**entry.describe(), "__annotations__": hints, **defaults})
    if decorator == _PYDANTIC_DATACLASS:
        return models.make_dataclass(cls, options)
    made = dataclasses.dataclass(cls, **options)
    if any(item.default_factory not in _CONTAINERS for item in dataclasses.fields(made)):
        entry.is_plain = False  # an instance would run the factory
    return made


def _enum(shop: Workshop, entry: Entry, bases: list[Any], keywords: dict[str, Any]) -> Any:
    members = list(_members(entry))
    made: dict[str, Any] = {}
    site = Site(entry.site().scope, made=made)

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(entry.describe())
        for name, value in members:
            entry.trail.steps = 0
            namespace[name] = shop.values.evaluate(value, site, entry.trail)
            made[name] = namespace[name]

    return types.new_class(entry.node.name, tuple(bases), keywords, fill)


def _members(entry: Entry) -> Iterator[tuple[str, ast.expr]]:
    for statement in statements(entry.node.body, entry):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    if not target.id.startswith("__"):
                        yield target.id, statement.value
                else:
                    entry.doubt("several of its members are made at once", statement.lineno)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if statement.value is not None:
                yield statement.target.id, statement.value
        elif isinstance(statement, ast.ClassDef):
            entry.doubt(f"its class '{statement.name}' may be a member", statement.lineno)
        elif isinstance(statement, ast.FunctionDef) and statement.name in (
            *("__new__", "__init__", "_generate_next_value_", "_missing_"),
        ):
            entry.doubt(f"its {statement.name}() is code that is not run", statement.lineno)


MAX_NESTING = 40
"""How many classes may be in the making at once, each for the sake of the one before."""


class Classes:
    """The classes of one library, made when first needed."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.names = Names(library)
        self.values = Values(self.names, self.build, self._hint, self.is_plain)
        self.hints = Hints(self.names, self.values, self.build, self._object)
        self.maker = Maker(self.hints, self.values)
        self._file: SourceFile | None = None
        self._making: list[Entry] = []
        self._fresh: list[Entry] = []
        self._by_class: dict[int, Entry] = {}

    @classmethod
    def of(cls, library: Library) -> Classes:
        """Those of a library: one and the same for all who read its files."""
        found: Classes | None = library.made.get(cls)
        if found is None:
            found = library.made[cls] = cls(library)
        return found

    def build(self, node: ast.ClassDef, scope: Scope, trail: Trail) -> Any:
        """The class of a definition; the trail learns what is uncertain about it.

        Raises Unresolved where nothing can be made of it, NotYet where it is being made.
        """
        entry: Entry | None = self.library.made.get(id(node))
        if entry is None:
            entry = self.library.made[id(node)] = Entry(node, scope)
            self._make(entry)
        trail.uses[id(entry)] = entry
        if entry.error is not None:
            raise Unresolved(entry.error.message, entry.error.line, hint=entry.error.hint)
        if not entry.is_ready:
            raise NotYet(node.name)
        return entry.cls

    def turn_to(self, file: SourceFile) -> None:
        """Begin with another file, as if it were the first: what it says must not depend on others.

        `typing` remembers what it made, and takes `Literal["a", "b"]` and `Literal["b", "a"]` for one: of two
        files that have a list of these, the second would get the order of the first.
        """
        if file is not self._file:
            self._file = file
            for forget in getattr(typing, "_cleanups", ()):
                forget()

    def is_plain(self, cls: Any) -> bool:
        entries = [self._by_class.get(id(base)) for base in cls.__mro__]
        return all(entry.is_plain for entry in entries if entry is not None)

    def _hint(self, node: ast.expr, site: Site, trail: Trail) -> Any:
        return self.hints.permit(node, site, trail)

    def _object(self, place: Place, trail: Trail) -> Any:
        """What a call such as `TypeVar("T")` makes: once, since who uses it means the same one."""
        key = id(place.binding)
        if key not in self.library.made:
            self.library.made[key] = None
            own = Trail()
            try:
                made: Any = self.maker.make(place, own)
            except Unresolved as error:
                made = error
            self.library.made[key] = (made, own)
        found = self.library.made[key]
        if found is None:
            raise NotYet(place.binding.name)
        made, own = found
        for remark in own.remarks:
            trail.note(remark)
        trail.uses |= own.uses
        if isinstance(made, Unresolved):
            raise Unresolved(made.message, made.line, hint=made.hint)
        return made

    # --- making ----------------------------------------------------------------------------------

    def _make(self, entry: Entry) -> None:
        name, line = entry.node.name, entry.node.lineno
        if len(self._making) >= MAX_NESTING:
            entry.error = Unresolved(f"class '{name}' is reached through too many others", line)
            return
        self._making.append(entry)
        try:
            with _quiet():
                entry.cls = self._assemble(entry)
            entry.is_ready = True
            self._by_class[id(entry.cls)] = entry
            self._fresh.append(entry)
        except Unresolved as error:
            entry.error = error
        except NotYet:
            if len(self._making) > 1:  # it inherits from one that is being made: its turn comes later
                del self.library.made[id(entry.node)]
                raise
            entry.error = Unresolved(f"class '{name}' depends on itself", line)
        except RecursionError:
            entry.error = Unresolved(f"class '{name}' is reached through too many others", line)
        except Exception as error:  # dataclasses, typing and pydantic refuse classes in many ways
            words = " ".join(str(error).split("\n")[:1]) or type(error).__name__
            entry.error = Unresolved(f"class '{name}' is refused at run time: {words}", line)
        finally:
            self._making.pop()
        if not self._making:
            self._fill_in()

    def _assemble(self, entry: Entry) -> Any:
        node, trail = entry.node, entry.trail
        site = Site(entry.scope)
        bases = [base for item in node.bases for base in self._base(item, site, entry)]
        keywords: dict[str, Any] = {}
        for item in node.keywords:
            if item.arg == "metaclass" and self.names.qualify(item.value, site) == "abc.ABCMeta":
                continue
            try:
                if item.arg in (None, "metaclass"):
                    raise Unresolved(f"'{show(item.value)}' is code", node.lineno)
                keywords[str(item.arg)] = self.values.evaluate(item.value, site, trail)
            except Unresolved as error:
                entry.doubt(f"{item.arg or '**'}={show(item.value)} is left out: {error.message}")
        if entry.scope.kind == "module" and entry.scope.file.is_changed(node.name):
            entry.doubt("attributes of it are set from outside")
        return make(self, entry, bases, keywords)

    def _base(self, item: ast.expr, site: Site, entry: Entry) -> Iterator[Any]:
        try:
            base = self.hints.evaluate(item, site, entry.trail)
            found = self.names.find(item.value if isinstance(item, ast.Subscript) else item, site)
            if found.is_open or found.doubts:
                entry.doubt(f"its base '{show(item)}' is not certain", item.lineno)
            if not can_be_base(base):
                raise Unresolved(f"'{show(item)}' cannot be inherited from here", item.lineno)
            yield base
        except Unresolved as error:
            entry.is_plain = False
            entry.doubt(f"its base '{show(item)}' is not known ({error.message})", item.lineno, "scan it too")

    def field_hint(self, entry: Entry, name: str, node: ast.expr, site: Site) -> Any:
        """The hint of a field; a reference to be filled in where it needs a class that is being made."""
        before = list(entry.trail.remarks)
        entry.trail.steps = 0
        try:
            return self.hints.permit(node, site, entry.trail)
        except NotYet:
            entry.trail.remarks[:] = before
            reference = f"toolcrib_reference_{id(entry)}_{len(entry.waiting)}"
            entry.waiting.append((name, reference, node, site))
            return ForwardRef(reference)

    def _fill_in(self) -> None:
        """Give the fields that were waiting their hints, now that all classes are there."""
        fresh, self._fresh = self._fresh, []
        references: dict[str, Any] = {}
        for entry in fresh:
            for name, reference, node, site in entry.waiting:
                entry.trail.steps = 0
                try:
                    hint = self.hints.permit(node, site, entry.trail)
                except NotYet:
                    hint = Any
                    entry.doubt(f"the hint of '{name}' goes round in a circle", node.lineno)
                references[reference] = hint
        with _quiet():
            for _ in range(2 if references else 1):  # a model may need another that is completed after it
                for entry in fresh:
                    if problem := complete(entry.cls, references):
                        entry.doubt(problem)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Warnings about a class were its author's when it was written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
