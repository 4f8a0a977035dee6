"""Recreate the classes of source files, with the same fields and docstrings and none of their code.

Dataclasses, TypedDicts, NamedTuples, enums and pydantic models are read; whatever else may change the schema
of a class is remarked. A class is created once, when a hint first needs it, after the classes it refers to;
a class met again during its own creation is completed afterwards. pydantic is loaded only where a file has a
model.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import importlib
import types
import typing
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ForwardRef

from toolcrib.schema.hints import is_typeddict
from toolcrib.sources.scan import known
from toolcrib.sources.scan.files import Library, SourceFile
from toolcrib.sources.scan.hints import Hints
from toolcrib.sources.scan.names import Names, Site, qualname_in
from toolcrib.sources.scan.scopes import Scope, decide
from toolcrib.sources.scan.values import (
    CLASS,
    DEFAULT,
    NotYet,
    Remark,
    Trail,
    Unresolved,
    Values,
    inert,
    show,
)

MAX_FIELDS = 1_000
MAX_STATEMENTS = 5_000
MAX_NESTING = 40
"""How many classes may be in the making at once, each for the sake of the one before."""
_DATACLASS, _PYDANTIC_DATACLASS = "dataclasses.dataclass", "pydantic.dataclasses.dataclass"
_CONFIG = "model_config"
_HARMLESS = frozenset(
    {
        "enum.unique",
        "functools.total_ordering",
        *(f"{module}.final" for module in ("typing", "typing_extensions")),
        *(f"{module}.runtime_checkable" for module in ("typing", "typing_extensions")),
        *(f"{module}.dataclass_transform" for module in ("typing", "typing_extensions")),
    }
)
_DESCRIBING = frozenset(
    {
        "__class_getitem__",
        "__get_pydantic_core_schema__",
        "__get_pydantic_json_schema__",
        "__get_validators__",
        "__init_subclass__",
        "__modify_schema__",
        "__pydantic_init_subclass__",
    }
)
_ENUM_CODE = ("__new__", "__init__", "_generate_next_value_", "_missing_")
_VALIDATORS = frozenset({"pydantic.field_validator", "pydantic.model_validator"})
"""They do not change a schema, except in the mode "plain"."""
_CODE_SETTINGS = frozenset(
    {"alias_generator", "field_title_generator", "json_encoders", "model_title_generator"}
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
    waiting: list[tuple[str, str, ast.expr, Site]] = field(default_factory=list)
    """Fields whose hints wait for a class: name, reference, annotation, where it stands."""

    def doubt(self, words: str, line: int | None = None, hint: str = "register it at run time") -> None:
        """Remark that the class may differ from the real one."""
        text = f"Class '{self.node.name}' is read only approximately: {words}"
        self.trail.note(Remark(CLASS, text, str(self.scope.file.path), line or self.node.lineno, hint))

    def statements(self, body: list[ast.stmt]) -> Iterator[ast.stmt]:
        """Yield the statements of the class body that run, conditions decided."""
        for statement in body:
            if isinstance(statement, ast.If):
                truth = decide(statement.test)
                if truth is None:
                    self.doubt(f"its body depends on '{show(statement.test)}'", statement.lineno)
                chosen = statement.body if truth in (True, "running") else statement.orelse
                yield from self.statements(chosen)
            elif isinstance(statement, ast.For | ast.While | ast.With | ast.Try | ast.Match | ast.Delete):
                self.doubt("statements of its body make names", statement.lineno)
            else:
                yield statement

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
        self.library = library
        self.names = Names(library)
        self.values = Values(self.names, self.build, self._hint)
        self.hints = Hints(self.names, self.values, self.build)
        self._file: SourceFile | None = None
        self._making: list[Entry] = []
        self._fresh: list[Entry] = []

    @classmethod
    def of(cls, library: Library) -> Classes:
        """Return the classes of a library: the same for all who read its files."""
        found: Classes | None = library.made.get(cls)
        if found is None:
            found = library.made[cls] = cls(library)
        return found

    def build(self, node: ast.ClassDef, scope: Scope, trail: Trail) -> Any:
        """Return the class of a definition; the trail gets what is uncertain about it.

        Raises Unresolved where it cannot be made, NotYet where it is being made.
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
                del self.library.made[id(entry.node)]
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
        keywords: dict[str, Any] = {}
        for item in node.keywords:
            if item.arg == "metaclass" and self.names.qualify(item.value, site) == "abc.ABCMeta":
                continue
            try:
                if item.arg in (None, "metaclass"):
                    raise Unresolved(f"'{show(item.value)}' is code", node.lineno)
                keywords[str(item.arg)] = self.values.evaluate(item.value, site, entry.trail)
            except Unresolved as error:
                entry.doubt(f"{item.arg or '**'}={show(item.value)} is left out: {error.message}")
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
        if is_model:
            _look_at_mixins(entry, bases)
        made = types.new_class(node.name, bases, keywords, lambda body: body.update(namespace))
        if decorator == _DATACLASS and not is_dict and not is_model:
            return dataclasses.dataclass(made, **options)
        return known.find(decorator)(made, **options) if decorator == _PYDANTIC_DATACLASS else made

    def _base(self, item: ast.expr, site: Site, entry: Entry) -> Iterator[Any]:
        try:
            base = self.hints.evaluate(item, site, entry.trail)
            found = self.names.find(item.value if isinstance(item, ast.Subscript) else item, site)
            if found.is_open or found.doubts:
                entry.doubt(f"its base '{show(item)}' is not certain", item.lineno)
            if not isinstance(base, type) and not hasattr(base, "__mro_entries__"):
                raise Unresolved(f"'{show(item)}' cannot be inherited from here", item.lineno)
            yield base
        except Unresolved as error:
            entry.doubt(f"its base '{show(item)}' is not known ({error.message})", item.lineno, "scan it too")

    def _decorators(self, entry: Entry) -> tuple[str, dict[str, Any]]:
        """Return which kind of dataclass the decorators make, and its options; "" for none."""
        chosen, options = "", dict[str, Any]()
        site = Site(entry.scope)
        for item in entry.node.decorator_list:
            called = item.func if isinstance(item, ast.Call) else item
            dotted = self.names.qualify(called, site) or ""
            if dotted in (_DATACLASS, _PYDANTIC_DATACLASS):
                chosen = dotted
                for option in item.keywords if isinstance(item, ast.Call) else ():
                    try:
                        options[str(option.arg)] = self.values.evaluate(option.value, site, entry.trail)
                    except Unresolved as error:
                        entry.doubt(f"{option.arg}={show(option.value)} is left out: {error.message}")
            elif dotted not in _HARMLESS:
                entry.doubt(f"its decorator '@{show(called)}' is not applied", item.lineno)
        for name in ("slots", "weakref_slot"):  # they make another class, with the same fields
            options.pop(name, None)
        return chosen, options

    # --- members ---------------------------------------------------------------------------------

    def _add_fields(self, entry: Entry, namespace: dict[str, Any], *, is_model: bool, is_tuple: bool) -> None:
        """Add the annotated names of a class body, with their defaults; of a model also its settings."""
        hints = namespace["__annotations__"] = dict[str, Any]()
        site = Site(entry.scope.file.scope_in(entry.node), is_field=True)
        for statement in entry.statements(entry.node.body):
            match statement:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                    if is_model and name == _CONFIG and value is not None:
                        namespace[_CONFIG] = self._settings(entry, value, site)
                    elif not is_model or not name.startswith("_"):
                        lazy = entry.scope.file.is_lazy
                        hints[name] = self._field_hint(
                            entry, name, annotation, site.lazily() if lazy else site
                        )
                        if value is not None:
                            namespace[name] = self._default(entry, name, value, site, is_model, is_tuple)
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_model:
                    if name == _CONFIG:
                        namespace[_CONFIG] = self._settings(entry, value, site)
                    elif not name.startswith("_"):
                        entry.doubt(f"'{name}' has no annotation, which pydantic refuses", statement.lineno)
                case ast.FunctionDef() if is_model:
                    self._look_at_hook(entry, statement, site)
                case ast.ClassDef(name="Config") if is_model:
                    entry.doubt("its Config is left out", statement.lineno)
            if len(hints) > MAX_FIELDS:
                raise Unresolved(f"class '{entry.node.name}' has too many fields", entry.node.lineno)

    def _field_hint(self, entry: Entry, name: str, node: ast.expr, site: Site) -> Any:
        """Return the hint of a field; a reference to fill in, where it needs a class that is being made."""
        before = list(entry.trail.remarks)
        entry.trail.steps = 0
        try:
            return self.hints.permit(node, site, entry.trail)
        except NotYet:
            entry.trail.remarks[:] = before
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
            entry.trail.note(Remark(DEFAULT, text, str(entry.scope.file.path), line, hint))
        if is_tuple:
            return None
        return (known.find("pydantic.Field") if is_model else dataclasses.field)(default_factory=inert)

    def _settings(self, entry: Entry, value: ast.expr, site: Site) -> dict[str, Any]:
        """Return the settings of a model, without those that are code."""
        pairs: list[tuple[Any, ast.expr]] = [(None, value)]
        if isinstance(value, ast.Dict):
            keys = [getattr(key, "value", None) for key in value.keys]
            pairs = list(zip(keys, value.values, strict=True))
        elif isinstance(value, ast.Call) and not value.args and self._is_dict(value.func, site):
            pairs = [(item.arg, item.value) for item in value.keywords]
        settings: dict[str, Any] = {}
        for name, item in pairs:
            try:
                if name in _CODE_SETTINGS:
                    settings[name] = self._alias_generator(item, site)
                elif name is None:
                    settings |= self.values.evaluate(item, site, entry.trail)
                else:
                    settings[name] = self.values.evaluate(item, site, entry.trail)
            except (Unresolved, TypeError) as error:
                entry.doubt(f"its setting {name or show(item)} is left out: {error}", item.lineno)
        if settings.get("use_attribute_docstrings"):
            entry.doubt("the strings below its fields are not read")
        return settings

    def _is_dict(self, function: ast.expr, site: Site) -> bool:
        return self.names.qualify(function, site) in ("pydantic.ConfigDict", "builtins.dict")

    def _alias_generator(self, item: ast.expr, site: Site) -> Any:
        dotted = self.names.qualify(item, site) or ""
        found = known.find(dotted) if dotted.startswith("pydantic.alias_generators.") else known.MISSING
        if found is known.MISSING:
            raise Unresolved(f"'{show(item)}' is code", item.lineno)
        return found

    def _look_at_hook(self, entry: Entry, node: ast.FunctionDef, site: Site) -> None:
        """Remark on validators and serializers that change the schema."""
        for item in node.decorator_list:
            called = item.func if isinstance(item, ast.Call) else item
            dotted = known.canonical(self.names.qualify(called, site) or "")
            given = {each.arg: getattr(each.value, "value", None) for each in getattr(item, "keywords", ())}
            is_plain = given.get("mode") != "plain" and "json_schema_input_type" not in given
            if dotted.startswith("pydantic.") and not (dotted in _VALIDATORS and is_plain):
                entry.doubt(f"{node.name}() is left out: '@{show(called)}'", node.lineno)

    def _enum(self, entry: Entry, bases: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        members: list[tuple[str, ast.expr]] = []
        for statement in entry.statements(entry.node.body):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("__"):
                    members.append((name, value))
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    members.append((name, value))
                case ast.Assign(targets=[ast.Name()]):
                    pass
                case ast.Assign() | ast.ClassDef():
                    entry.doubt("a part of its body may make members", statement.lineno)
                case ast.FunctionDef(name=name) if name in _ENUM_CODE:
                    entry.doubt(f"its {name}() is code that is not run", statement.lineno)
        made: dict[str, Any] = {}
        site = Site(entry.scope.file.scope_in(entry.node), is_field=True, made=made)

        def fill(namespace: dict[str, Any]) -> None:
            namespace.update(entry.describe())
            for name, value in members:
                entry.trail.steps = 0
                namespace[name] = self.values.evaluate(value, site, entry.trail)
                made[name] = namespace[name]

        return types.new_class(entry.node.name, bases, keywords, fill)

    # --- completion ------------------------------------------------------------------------------

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
    """Put hints in the place of references to them."""
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


def _look_at_mixins(entry: Entry, bases: tuple[Any, ...]) -> None:
    """Remark on annotations of a base that is no model: pydantic may take them for fields."""
    for base in bases:
        for item in base.__mro__ if isinstance(base, type) and not _is_model(base) else ():
            if item.__module__ == entry.scope.file.name and not _is_model(item):
                entry.doubt(f"its base '{item.__name__}' is no model")
                return


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings about a class, which are its author's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
