"""Recreate the classes of source files, with the same fields and docstrings and none of their code.

Dataclasses, TypedDicts, NamedTuples, enums and pydantic models are read; whatever else may change the schema
of a class is a finding. A class is created once, when a hint first needs it, after the classes it refers to.
One that refers to itself cannot be: the hint that does is Any, with a finding.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.schema.hints import is_typeddict
from toolcrib.sources.scan import known
from toolcrib.sources.scan.files import Library
from toolcrib.sources.scan.names import Names, Site, qualname_in
from toolcrib.sources.scan.source_file import Scope, SourceFile, docstring_in, show, words_in
from toolcrib.sources.scan.values import CLASS, Evaluator, Trail, Unresolved, inert

MAX_STATEMENTS = 1_000
MAX_NESTING = 40
"""Classes that may be in the making at once, each because the one before needs it."""
_HARMLESS = words_in("enum.unique functools.total_ordering typing.final typing_extensions.final")
_DESCRIBING = words_in(
    """
    __class_getitem__ __get_pydantic_core_schema__ __get_pydantic_json_schema__ __get_validators__
    __init_subclass__ __modify_schema__ __pydantic_init_subclass__
    """
)
"""Methods that may change the schema of a class."""
_ENUM_CODE = words_in("__new__ __init__ _generate_next_value_ _missing_")
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

    def __init__(self, library: Library) -> None:
        self.names = Names(library)
        self.evaluator = Evaluator(self.names, self.build)
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
        for statement in node.body:
            name = statement.name if isinstance(statement, ast.FunctionDef) else ""
            if name in _DESCRIBING or (is_enum and name in _ENUM_CODE):
                entry.doubt(f"its {name}() is code that is not run", statement.lineno)
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
            dotted = self.names.qualify(called, site)
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
        site = Site(entry.scope.file.scope_in(entry.node), is_field=True)
        hint_site = dataclasses.replace(site, lazy=entry.scope.file.is_lazy)
        for statement in entry.node.body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id="model_config")], value=ast.expr() as value)
                    | ast.AnnAssign(target=ast.Name(id="model_config"), value=ast.expr() as value)
                ) if is_model:
                    namespace["model_config"] = self._settings(entry, value, site)
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
                case ast.FunctionDef() if is_model:
                    self._look_at_hook(entry, statement, site)
                case ast.ClassDef(name="Config") if is_model:
                    entry.doubt("its Config is left out", statement.lineno)
                case _ if isinstance(statement, _COMPOUND):
                    entry.doubt("statements of its body make names", statement.lineno)

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
            dotted = self.names.qualify(called, site)
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
                case ast.Assign(targets=[ast.Name()]):
                    pass
                case _ if isinstance(statement, ast.Assign | ast.AnnAssign | ast.ClassDef | _COMPOUND):
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


def _is_model(base: Any) -> bool:
    return isinstance(base, type) and hasattr(base, "model_rebuild")


def _is_typed_dict(base: Any) -> bool:
    if isinstance(base, type):
        return is_typeddict(base)
    origin = typing.get_origin(base)
    return getattr(base, "__name__", "") == "TypedDict" or (isinstance(origin, type) and is_typeddict(origin))
