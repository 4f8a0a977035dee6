"""Create dataclasses, TypedDicts, NamedTuples, enums and plain classes as Python would.

Only hints and literals are used, never the functions of the class body. pydantic classes are in models.py.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import types
import typing
from collections.abc import Iterator
from typing import Any, ForwardRef, Protocol

from toolcrib.schema.records import is_typeddict
from toolcrib.sources.scan import models
from toolcrib.sources.scan.entry import Entry
from toolcrib.sources.scan.hints import Hints
from toolcrib.sources.scan.names import Names, Site
from toolcrib.sources.scan.remarks import NotYet, Unresolved, show
from toolcrib.sources.scan.scopes import decide
from toolcrib.sources.scan.shells import inert
from toolcrib.sources.scan.values import Values

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
