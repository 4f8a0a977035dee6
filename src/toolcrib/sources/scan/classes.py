"""Recreate the classes of source files, with the same fields and docstrings and none of their code.

A class is created once, when a hint first needs it, after the classes it refers to. A class met again
during its own creation is completed afterwards.
"""

from __future__ import annotations

import ast
import contextlib
import typing
import warnings
from collections.abc import Iterator
from typing import Any, ForwardRef

from toolcrib.sources.scan import kinds
from toolcrib.sources.scan.entry import Entry
from toolcrib.sources.scan.hints import Hints
from toolcrib.sources.scan.library import Library, SourceFile
from toolcrib.sources.scan.made import Maker
from toolcrib.sources.scan.names import Names, Place, Site
from toolcrib.sources.scan.remarks import NotYet, Trail, Unresolved, show
from toolcrib.sources.scan.scopes import Scope
from toolcrib.sources.scan.values import Values

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
        return kinds.make(self, entry, bases, keywords)

    def _base(self, item: ast.expr, site: Site, entry: Entry) -> Iterator[Any]:
        try:
            base = self.hints.evaluate(item, site, entry.trail)
            found = self.names.find(item.value if isinstance(item, ast.Subscript) else item, site)
            if found.is_open or found.doubts:
                entry.doubt(f"its base '{show(item)}' is not certain", item.lineno)
            if not kinds.can_be_base(base):
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
                    if problem := kinds.complete(entry.cls, references):
                        entry.doubt(problem)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Warnings about a class were its author's when it was written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
