"""Recreate pydantic models and types created by calls, with their settings and validators.

Validators are replaced by empty functions: their presence changes the schema. pydantic is loaded only if a
file has such a class.
"""

from __future__ import annotations

import ast
import importlib
import types
import typing
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from toolcrib.sources.scan import known
from toolcrib.sources.scan.hints import Hints
from toolcrib.sources.scan.names import Names, Place, Site, qualname_in
from toolcrib.sources.scan.scopes import Scope
from toolcrib.sources.scan.values import (
    CLASS,
    DEFAULT,
    NotYet,
    Remark,
    Trail,
    Unresolved,
    Values,
    inert,
    make_shell,
    outline_of,
    show,
)


@dataclass(eq=False)
class Entry:
    """A class, or the reason why it could not be created. `trail` has its uncertainties."""

    node: ast.ClassDef
    scope: Scope
    trail: Trail = field(default_factory=Trail)
    cls: Any = None
    error: Unresolved | None = None
    is_ready: bool = False
    is_plain: bool = True
    """Whether making an instance runs nothing that the file has written."""
    waiting: list[tuple[str, str, ast.expr, Site]] = field(default_factory=list)
    """Fields whose hints wait for a class: name, reference, annotation, where it stands."""

    @property
    def file(self) -> str:
        return str(self.scope.file.path)

    def doubt(self, words: str, line: int | None = None, hint: str = "register it at run time") -> None:
        """Remark that the class is not quite what it will be at run time."""
        text = f"Class '{self.node.name}' is read only approximately: {words}"
        self.trail.note(Remark(CLASS, text, self.file, line or self.node.lineno, hint))

    def lack_default(self, name: str, node: ast.expr, error: Unresolved) -> None:
        """Remark that a field has a default that is not known."""
        text = (
            f"The default of '{self.node.name}.{name}' is not known, so it is not shown: "
            f"{show(node)} ({error.message})"
        )
        hint = error.hint or "write a literal"
        self.trail.note(Remark(DEFAULT, text, self.file, error.line or node.lineno, hint))
        self.is_plain = False

    def site(self) -> Site:
        """Where the statements of its body stand."""
        file = self.scope.file
        return Site(file.scope_in(self.node), lazy=False, is_field=True)

    def describe(self) -> dict[str, Any]:
        """What every class has: its module, its full name, its words."""
        made: dict[str, Any] = {
            "__module__": self.scope.file.name,
            "__qualname__": qualname_in(self.scope, self.node.name),
        }
        words = ast.get_docstring(self.node, clean=False)
        if words is not None:
            made["__doc__"] = words
        return made


_MAX_MEMBERS = 5_000


class Maker:
    """Makes what the calls of the files of one library make."""

    def __init__(self, hints: Hints, values: Values) -> None:
        self.hints = hints
        self.values = values

    def make(self, place: Place, trail: Trail) -> Any:
        """What a binding is bound to. Raises Unresolved."""
        binding, site = place.binding, Site(place.scope)
        if binding.kind == "variable":
            return self._variable(binding.node, site, trail)
        if binding.kind == "alias":
            return self._alias(binding.name, binding.node, site, trail)
        call = binding.value
        assert isinstance(call, ast.Call)  # nosec B101  # nothing else comes here
        dotted = self.hints.names.qualify(call.func, site) or ""
        make = getattr(self, f"_make_{dotted.rpartition('.')[2].lower()}", None)
        try:
            if make is None or any(isinstance(item, ast.Starred) for item in call.args):
                raise Unresolved(f"'{show(call)}' is made when the code runs", call.lineno)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = make(_Call(call, dotted, place, site, trail))
        except Unresolved:
            raise
        except Exception as error:  # each of them refuses in its own way
            words = f"'{show(call)}' is refused at run time: {str(error).partition(chr(10))[0]}"
            raise Unresolved(words, call.lineno) from None
        if isinstance(made, type):
            made.__module__ = place.file.name
        return made

    # --- variables and aliases -------------------------------------------------------------------

    def _make_typevar(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "name"), call.site, call.trail)
        constraints = [self.hints.permit(item, call.site.lazily(), call.trail) for item in call.node.args[1:]]
        options: dict[str, Any] = {}
        for key, value in call.keywords.items():
            if key in ("bound", "default"):
                options[key] = self.hints.permit(value, call.site.lazily(), call.trail)
            elif key != "name":
                options[key] = self.values.evaluate(value, call.site, call.trail)
        if "default" in options or call.dotted.startswith("typing_extensions"):
            return known.find("typing_extensions.TypeVar")(name, *constraints, **options)
        return TypeVar(name, *constraints, **options)

    def _make_paramspec(self, call: _Call) -> Any:
        return typing.ParamSpec(self.values.evaluate(call.argument(0, "name"), call.site, call.trail))

    def _make_newtype(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "name"), call.site, call.trail)
        meant = self.hints.permit(call.argument(1, "tp"), call.site.lazily(), call.trail)
        made: Any = known.find("typing.NewType")(name, meant)
        made.__module__ = call.place.file.name
        return made

    def _make_typealiastype(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "name"), call.site, call.trail)
        if "type_params" in call.keywords:
            raise Unresolved("an alias with parameters is not read", call.node.lineno)
        value = self.hints.permit(call.argument(1, "value"), call.site.lazily(), call.trail)
        return known.find("typing_extensions.TypeAliasType")(name, value)

    def _variable(self, node: Any, site: Site, trail: Trail) -> Any:
        """A type parameter in brackets, of Python 3.12."""
        if type(node).__name__ != "TypeVar":
            raise Unresolved(f"'{node.name}' stands for several types", node.lineno)
        bound = getattr(node, "bound", None)
        if isinstance(bound, ast.Tuple):
            return TypeVar(node.name, *[self.hints.permit(item, site.lazily(), trail) for item in bound.elts])
        return TypeVar(
            node.name, bound=None if bound is None else self.hints.permit(bound, site.lazily(), trail)
        )

    def _alias(self, name: str, node: Any, site: Site, trail: Trail) -> Any:
        """A `type` statement, of Python 3.12."""
        if node.type_params:
            raise Unresolved(f"'{name}' is an alias with parameters, which is not read", node.lineno)
        value = self.hints.permit(node.value, site.lazily(), trail)
        return typing.TypeAliasType(name, value)  # type: ignore[attr-defined,unused-ignore]

    # --- classes ---------------------------------------------------------------------------------

    def _make_typeddict(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "typename"), call.site, call.trail)
        fields = call.argument(1, "fields")
        if not isinstance(fields, ast.Dict):
            raise Unresolved(f"the fields of '{name}' are not written where it is made", call.node.lineno)
        hints = {
            self.values.evaluate(key, call.site, call.trail): self.hints.permit(value, call.site, call.trail)
            for key, value in zip(fields.keys, fields.values, strict=True)
            if key is not None
        }
        total = call.keywords.get("total")
        options = {} if total is None else {"total": self.values.evaluate(total, call.site, call.trail)}
        return known.find(call.dotted)(name, hints, **options)

    def _make_namedtuple(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "typename"), call.site, call.trail)
        if call.dotted == "collections.namedtuple":
            fields = self.values.evaluate(call.argument(1, "field_names"), call.site, call.trail)
            options = {
                key: self.values.evaluate(value, call.site, call.trail)
                for key, value in call.keywords.items()
                if key in ("defaults", "rename")
            }
            return known.find(call.dotted)(name, fields, **options)
        items = call.argument(1, "fields")
        if not isinstance(items, ast.List | ast.Tuple):
            raise Unresolved(f"the fields of '{name}' are not written where it is made", call.node.lineno)
        pairs: list[tuple[str, Any]] = []
        for item in items.elts:
            if not isinstance(item, ast.Tuple) or len(item.elts) != 2:
                raise Unresolved(f"a field of '{name}' is not a pair", call.node.lineno)
            key = self.values.evaluate(item.elts[0], call.site, call.trail)
            pairs.append((key, self.hints.permit(item.elts[1], call.site, call.trail)))
        return known.find(call.dotted)(name, pairs)

    def _make_enum(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "value"), call.site, call.trail)
        members = self.values.evaluate(call.argument(1, "names"), call.site, call.trail)
        if len(members) > _MAX_MEMBERS:
            raise Unresolved(f"enum '{name}' has too many members", call.node.lineno)
        options: dict[str, Any] = {}
        for key, value in call.keywords.items():
            if key == "type":
                options[key] = self.hints.evaluate(value, call.site, call.trail)
            elif key == "start":
                options[key] = self.values.evaluate(value, call.site, call.trail)
        return known.find(call.dotted)(name, members, module=call.place.file.name, **options)

    _make_intenum = _make_strenum = _make_flag = _make_intflag = _make_enum


class _Call:
    """One call, taken apart."""

    def __init__(self, node: ast.Call, dotted: str, place: Place, site: Site, trail: Trail) -> None:
        self.node = node
        self.dotted = dotted
        self.place = place
        self.site = site
        self.trail = trail
        self.keywords = {item.arg: item.value for item in node.keywords if item.arg is not None}
        if len(self.keywords) != len(node.keywords):
            raise Unresolved(f"'{show(node)}' is given what is not written there", node.lineno)

    def argument(self, index: int, name: str) -> ast.expr:
        if index < len(self.node.args):
            return self.node.args[index]
        if name in self.keywords:
            return self.keywords[name]
        raise Unresolved(f"'{show(self.node)}' lacks its {name}", self.node.lineno)


MAX_FIELDS = 1_000
_CONFIG = "model_config"
_HOOKS = frozenset(
    f"pydantic.{name}"
    for name in (
        "computed_field",
        "field_serializer",
        "field_validator",
        "model_serializer",
        "model_validator",
    )
)
_CODE_SETTINGS = frozenset(
    {"alias_generator", "field_title_generator", "json_encoders", "model_title_generator"}
)
_CONTAINERS = (list, dict, set, frozenset, tuple, None)
_WRAPPERS: dict[str, Any] = {
    "builtins.classmethod": classmethod,
    "builtins.staticmethod": staticmethod,
    "builtins.property": property,
    "functools.cached_property": property,
}


class Workshop(Protocol):
    """What classes.py lends."""

    names: Names
    values: Values
    hints: Hints

    def field_hint(self, entry: Entry, name: str, node: ast.expr, site: Site) -> Any: ...


def is_model(base: Any) -> bool:
    return isinstance(base, type) and hasattr(base, "model_rebuild")


def make_dataclass(cls: type, options: dict[str, Any]) -> Any:
    """A dataclass of pydantic's."""
    return known.find("pydantic.dataclasses.dataclass")(cls, **options)


def complete(cls: Any, references: dict[str, Any]) -> str | None:
    """Let pydantic read hints that had to wait for other classes; says what is missing where it cannot."""
    if cls.__pydantic_complete__:
        return None
    if is_model(cls):
        cls.model_rebuild(force=True, raise_errors=False, _types_namespace=references)
    elif "__pydantic_fields__" in vars(cls):
        rebuild = importlib.import_module("pydantic.dataclasses").rebuild_dataclass
        rebuild(cls, force=True, raise_errors=False, _types_namespace=references)
    return None


def make_model(
    shop: Workshop, entry: Entry, bases: list[Any], keywords: dict[str, Any], body: Iterator[ast.stmt]
) -> Any:
    site, hints = entry.site(), dict[str, Any]()
    namespace = {**entry.describe(), "__annotations__": hints}
    for statement in body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                if name == _CONFIG and value is not None:
                    namespace[_CONFIG] = _settings(shop, entry, value, site)
                elif not name.startswith("_"):
                    _add_field(shop, entry, namespace, name, annotation, value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name == _CONFIG:
                    namespace[_CONFIG] = _settings(shop, entry, value, site)
                elif not name.startswith("_"):
                    entry.doubt(f"'{name}' has no annotation, which pydantic refuses", statement.lineno)
            case ast.FunctionDef(name=name) if statement.decorator_list:
                _add_hook(shop, entry, namespace, statement, site)
            case ast.ClassDef(name="Config"):
                namespace["Config"] = _older_settings(shop, entry, statement)
    if len(hints) > MAX_FIELDS:
        raise Unresolved(f"class '{entry.node.name}' has too many fields", entry.node.lineno)
    _look_at_mixins(entry, bases)
    made: Any = types.new_class(
        entry.node.name, tuple(bases), keywords, lambda space: space.update(namespace)
    )
    if any(info.default_factory not in _CONTAINERS for info in made.__pydantic_fields__.values()):
        entry.is_plain = False  # an instance would run the factory
    return made


def _add_field(
    shop: Workshop,
    entry: Entry,
    namespace: dict[str, Any],
    name: str,
    annotation: ast.expr,
    value: ast.expr | None,
) -> None:
    site = entry.site()
    lazy = entry.scope.file.is_lazy
    namespace["__annotations__"][name] = shop.field_hint(
        entry, name, annotation, site.lazily() if lazy else site
    )
    if value is None:
        return
    entry.trail.steps = 0
    try:
        namespace[name] = shop.values.evaluate(value, site, entry.trail)
    except (Unresolved, NotYet) as error:
        failure = error if isinstance(error, Unresolved) else Unresolved("it needs the class itself")
        entry.lack_default(name, value, failure)
        namespace[name] = known.find("pydantic.Field")(default_factory=inert)


def _settings(shop: Workshop, entry: Entry, value: ast.expr, site: Site) -> dict[str, Any]:
    """`model_config`, without what is code."""
    pairs: list[tuple[str | None, ast.expr]] = []
    if isinstance(value, ast.Dict):
        pairs = [
            (str(key.value) if isinstance(key, ast.Constant) else None, item)
            for key, item in zip(value.keys, value.values, strict=True)
        ]
    elif (
        isinstance(value, ast.Call)
        and not value.args
        and shop.names.qualify(value.func, site) in ("pydantic.ConfigDict", "builtins.dict")
    ):
        pairs = [(item.arg, item.value) for item in value.keywords]
    else:
        pairs = [(None, value)]
    settings: dict[str, Any] = {}
    for name, item in pairs:
        try:
            if name is None:
                settings |= shop.values.evaluate(item, site, entry.trail)
            elif name in _CODE_SETTINGS:
                settings[name] = _known_code(shop, item, site)
            else:
                settings[name] = shop.values.evaluate(item, site, entry.trail)
        except (Unresolved, TypeError) as error:
            entry.doubt(f"its setting {name or show(item)} is left out: {error}", item.lineno)
    if settings.get("use_attribute_docstrings"):
        entry.doubt("the strings below its fields are not read")
    return settings


def _known_code(shop: Workshop, item: ast.expr, site: Site) -> Any:
    dotted = shop.names.qualify(item, site) or ""
    if dotted.startswith("pydantic.alias_generators.") and not isinstance(item, ast.Call):
        found = known.find(dotted)
        if found is not known.MISSING:
            return found
    if isinstance(item, ast.Constant) and item.value is None:
        return None
    raise Unresolved(f"'{show(item)}' is code", item.lineno)


def _older_settings(shop: Workshop, entry: Entry, node: ast.ClassDef) -> type:
    """`class Config`, as models had it before."""
    settings: dict[str, Any] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            pair = ast.Dict([ast.Constant(name)], [statement.value])
            settings |= _settings(shop, entry, ast.copy_location(pair, statement), Site(entry.scope))
        elif not isinstance(statement, ast.Pass | ast.Expr):
            entry.doubt("a part of its Config is left out", statement.lineno)
    return type("Config", (), settings)


def _add_hook(
    shop: Workshop, entry: Entry, namespace: dict[str, Any], node: ast.FunctionDef, site: Site
) -> None:
    """A validator, a serializer or a computed field, with a function that does nothing."""
    made: Any = make_shell(node.name, outline_of(node.args, entry.node.name))
    made.__doc__ = ast.get_docstring(node, clean=False)
    is_hook = False
    for item in reversed(node.decorator_list):
        called = item.func if isinstance(item, ast.Call) else item
        dotted = known.canonical(shop.names.qualify(called, site) or "")
        dotted = dotted.replace("pydantic.functional_serializers.", "pydantic.")
        try:
            if dotted in _WRAPPERS:
                made = _WRAPPERS[dotted](made)
            elif dotted in _HOOKS:
                is_hook = True
                entry.is_plain = False
                _set_result(shop, entry, made, node, site)
                made = _apply(shop, entry, known.find(dotted), item, made, site)
            elif dotted.startswith("pydantic."):
                raise Unresolved(f"'@{show(called)}' is not known")
            else:
                return  # an ordinary method
        except Unresolved as error:
            entry.is_plain = False
            entry.doubt(f"{node.name}() is left out: {error.message}", node.lineno)
            return
    if is_hook:
        namespace[node.name] = made


def _set_result(shop: Workshop, entry: Entry, made: Any, node: ast.FunctionDef, site: Site) -> None:
    """The hint of the result, which tells what a computed or a serialized field looks like."""
    function = getattr(made, "__func__", None) or getattr(made, "fget", None) or made
    if node.returns is not None and not function.__annotations__:
        before = list(entry.trail.remarks)
        try:
            function.__annotations__ = {"return": shop.hints.permit(node.returns, site.lazily(), entry.trail)}
        except NotYet:
            entry.trail.remarks[:] = before
            entry.doubt(f"the result of {node.name}() refers to the class itself", node.lineno)


def _apply(shop: Workshop, entry: Entry, decorator: Any, item: ast.expr, made: Any, site: Site) -> Any:
    if not isinstance(item, ast.Call):
        return decorator(made)
    places = [shop.values.evaluate(argument, site, entry.trail) for argument in item.args]
    keywords: dict[str, Any] = {}
    for keyword in item.keywords:
        if keyword.arg in ("return_type", "json_schema_input_type"):
            keywords[keyword.arg] = shop.hints.permit(keyword.value, site, entry.trail)
        elif keyword.arg is None:
            raise Unresolved("its decorator is given what is not written there", item.lineno)
        else:
            keywords[keyword.arg] = shop.values.evaluate(keyword.value, site, entry.trail)
    return decorator(*places, **keywords)(made)


def _look_at_mixins(entry: Entry, bases: list[Any]) -> None:
    """Annotations of a base that is no model may be fields, by pydantic's rules."""
    for base in bases:
        if isinstance(base, type) and not is_model(base):
            for item in base.__mro__:
                if item.__module__ == entry.scope.file.name and not is_model(item):
                    entry.doubt(f"its base '{item.__name__}' is no model")
                    return
