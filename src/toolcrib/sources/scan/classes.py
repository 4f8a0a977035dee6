"""Recreate the classes of source files, with the same fields and docstrings and none of their code.

Dataclasses, TypedDicts, NamedTuples, enums and pydantic models are read; whatever else may change the schema
of a class is a finding. A class is created once, when a hint first needs it, after the classes it refers to;
a class met again during its own creation is completed afterwards.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ForwardRef

from toolcrib.schema.hints import is_typeddict
from toolcrib.sources.scan import known
from toolcrib.sources.scan.files import Library
from toolcrib.sources.scan.names import Names, Site, qualname_in
from toolcrib.sources.scan.source_file import Scope, SourceFile, show, words_in
from toolcrib.sources.scan.values import CLASS, DEFAULT, Evaluator, NotYet, Trail, Unresolved, inert, quiet

MAX_FIELDS = 1_000
MAX_STATEMENTS = 5_000
MAX_NESTING = 40
"""Classes that may be in the making at once, each because the one before needs it."""
_DATACLASS = "dataclasses.dataclass"
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
        self.evaluator = Evaluator(self.names, self.build)
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

    def _make(self, entry: Entry) -> None:
        name, line = entry.node.name, entry.node.lineno
        too_many = Unresolved(f"class '{name}' is reached through too many others", line)
        if len(self._making) >= MAX_NESTING:
            entry.error = too_many
            return
        self._making.append(entry)
        try:
            with quiet():
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
        is_dataclass, options = self._decorators(entry)
        if any(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases):
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
            if item.arg == "metaclass" and self.names.qualify(item.value, site) == "abc.ABCMeta":
                continue
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
            dotted = self.names.qualify(called, site) or ""
            if dotted == _DATACLASS:
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
            return self.evaluator.permit(node, site, entry.trail)
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
            return self.evaluator.value(node, site, entry.trail)
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
            settings = self.evaluator.value(node, site, entry.trail)
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
                namespace[name] = self.evaluator.value(value, site, entry.trail)
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
                    references[reference] = self.evaluator.permit(node, site, entry.trail)
                except NotYet:
                    references[reference] = Any
                    entry.doubt(f"the hint of '{name}' goes round in a circle", node.lineno)
        with quiet():
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
