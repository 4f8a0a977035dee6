"""Recreate pydantic models and dataclasses, with their settings and validators.

Validators are replaced by empty functions: their presence changes the schema. pydantic is loaded only if a
file has such a class.
"""

from __future__ import annotations

import ast
import importlib
import types
from collections.abc import Iterator
from typing import Any, Protocol

from toolcrib.sources.scan import known
from toolcrib.sources.scan.entry import Entry
from toolcrib.sources.scan.hints import Hints
from toolcrib.sources.scan.names import Names, Site
from toolcrib.sources.scan.remarks import NotYet, Unresolved, show
from toolcrib.sources.scan.shells import inert, make_shell, outline_of
from toolcrib.sources.scan.values import Values

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
