"""Resolve names in a source file to a definition in a readable file, or to something of another package.

Handles relative imports, re-exports, star imports, aliases, and attributes of modules and classes. Of the
meanings that conditions choose from, the first is taken, with a doubt.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolcrib.sources.scan import known
from toolcrib.sources.scan.files import KNOWN_BY_NAME, Library
from toolcrib.sources.scan.source_file import Binding, Scope, SourceFile
from toolcrib.sources.scan.things import Known, Module

_MAX_FOLLOWED = 40
_UNCERTAIN = ("attempt", "fallback", "maybe")
_AT_TOP = "import it at the top of the module, at run time"


@dataclass(frozen=True, slots=True)
class BoundName:
    """Something written in a file: how it is bound, and in which scope."""

    binding: Binding
    scope: Scope


Meaning = Known | BoundName | Module


@dataclass(eq=False, slots=True)
class Site:
    """Where an expression stands, and when it would be evaluated.

    `lazy`: as text, when the module is complete and only its own names are seen. `is_field`: in the body of a
    class, whose own names are then seen as well. `made` are names whose values are known already.
    """

    scope: Scope
    lazy: bool = False
    is_field: bool = False
    made: Mapping[str, object] | None = None

    @property
    def path(self) -> str:
        return str(self.scope.file.path)


@dataclass(slots=True)
class Found:
    """The meaning of a name; None where it cannot be told. `doubts` are reasons why it is not certain, each
    with what would make it so."""

    meaning: Meaning | None = None
    doubts: list[tuple[str, str]] = field(default_factory=list)


class Names:
    """Follows names through the files of one library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._following: set[tuple[int, str]] = set()
        self._kept: dict[tuple[int, str, bool, bool], tuple[int, Found]] = {}

    def find(self, node: ast.expr, site: Site) -> Found:
        """Return the meaning of a name, or of an attribute of one."""
        if isinstance(node, ast.Name):
            return self._name(node.id, node.lineno, site)
        owner = self.find(node.value, site) if isinstance(node, ast.Attribute) else Found()
        if owner.meaning is None:
            return owner
        inner = self.member(owner.meaning, node.attr)  # type: ignore[attr-defined]
        return Found(inner.meaning, [*owner.doubts, *inner.doubts])

    def qualify(self, node: ast.expr, site: Site, depth: int = 0) -> str:
        """Return the full name of something of another package, also behind aliases; "" for anything else."""
        meaning = self.find(node, site).meaning
        if isinstance(meaning, Known):
            return known.canonical(meaning.name)
        value = meaning.binding.value if isinstance(meaning, BoundName) else None
        if isinstance(value, ast.Name | ast.Attribute) and depth < _MAX_FOLLOWED:
            return self.qualify(value, Site(meaning.scope), depth + 1)  # type: ignore[union-attr]
        return ""

    # --- names -----------------------------------------------------------------------------------

    def _name(self, name: str, line: int, site: Site) -> Found:
        """Return the meaning of a name in a line; the same for all lines below everything that binds it."""
        key = (id(site.scope), name, site.lazy, site.is_field)
        kept = self._kept.get(key)
        if kept is not None and line >= kept[0]:
            return kept[1]
        found = self._look_up(name, line, site)
        last = 0 if site.lazy else last_binding([name], site.scope)
        if line >= last:
            self._kept[key] = (last, found)
        return found

    def _look_up(self, name: str, line: int, site: Site) -> Found:
        for scope in site.scope.visible():
            if bindings := scope.names.get(name):
                found = self._choose(name, bindings, scope, line, site)
                if found is None:
                    continue
                if site.lazy and scope.kind != "module" and not site.is_field:
                    words = f"'{name}' is local to a {scope.kind} and not seen by annotations that are text"
                    hint = "define it in the module itself"
                    found.doubts.append((f"{words}, so registering fails", hint))
                return found
            if scope.stars and (found := self._starred(name, scope)).meaning is not None:
                return found
        is_built_in = known.find(f"builtins.{name}") is not known.MISSING
        return Found(Known(f"builtins.{name}") if is_built_in else None)

    def _choose(self, name: str, several: list[Binding], scope: Scope, line: int, site: Site) -> Found | None:
        """Return the meaning that the bindings of one scope give; None where none of them is made yet."""
        doubts: list[tuple[str, str]] = []
        live = [item for item in several if item.situation.isdisjoint(("checking", "main"))]
        live = live or [item for item in several if "main" in item.situation]
        if not live:
            live = several
            doubts.append((f"'{name}' is there for type checkers only, so registering fails", _AT_TOP))
        runs_at_once = scope.function is site.scope.function  # while the names of the scope are made
        if not site.lazy and scope.file is site.scope.file and runs_at_once:
            made = [binding for binding in live if binding.line <= line]
            if not made and scope.kind == "class":
                return None
            if not made:
                words = f"'{name}' is defined below its use, in line {live[0].line}, so importing fails"
                doubts.append((words, "define it above, or put the annotation into quotes"))
            live = made or live
        sure = [index for index, binding in enumerate(live) if binding.situation.isdisjoint(_UNCERTAIN)]
        live = live[sure[-1] :] if sure else live
        if len(live) > 1:
            live.sort(key=lambda item: ("attempt" not in item.situation, "fallback" in item.situation))
        found = self._meaning(live[0], scope)
        is_tried = "attempt" in live[0].situation and _is_there(found.meaning)
        if len(live) > 1 and not is_tried:  # else it does not come to the fallback
            words = f"'{name}' is defined in several ways, depending on conditions; the first was taken"
            doubts.append((words, "define it in one way"))
        return Found(found.meaning, [*doubts, *found.doubts])

    def _meaning(self, binding: Binding, scope: Scope) -> Found:
        if binding.kind == "import":
            return Found(self._module(binding.module, scope.file))
        if binding.kind != "from":
            return Found(BoundName(binding, scope))
        origin = self._imported_from(binding, scope.file)
        if binding.level and not isinstance(origin, Module):
            inner = ".".join(filter(None, (binding.module, binding.name)))
            below = self.library.beside(scope.file, binding.level, inner)
            if below is not None:
                return Found(Module(below))
        return Found() if origin is None else self.member(origin, binding.name, scope.file)

    def _imported_from(self, binding: Binding, file: SourceFile) -> Meaning | None:
        """Return the module of `from module import ...`; a relative one by the folders of its file."""
        if not binding.level:
            return self._module(binding.module, file)
        near = self.library.beside(file, binding.level, binding.module)
        if near is not None:
            return Module(near)
        parts = file.name.split(".")
        kept = parts[: len(parts) - binding.level + (file.path.name == "__init__.py")]
        return Known(".".join(filter(None, [*kept, binding.module]))) if kept else None

    def _module(self, dotted: str, near: SourceFile | None) -> Meaning:
        file = self.library.module(dotted, near)
        return Known(dotted) if file is None else Module(file)

    def _starred(self, name: str, scope: Scope) -> Found:
        """Return the meaning that a name has by `from module import *`."""
        for star in reversed(scope.stars):
            origin = self._imported_from(star, scope.file)
            if isinstance(origin, Known):
                outside = Known(f"{origin.name}.{name}")
                if _is_there(outside):
                    return Found(outside)
            elif isinstance(origin, Module):
                file = origin.file
                if name in public_names(file) or (not name.startswith("_") and file.scope.stars):
                    found = self.member(origin, name)
                    if found.meaning is not None:
                        return found
        return Found()

    # --- members ---------------------------------------------------------------------------------

    def member(self, owner: Meaning, name: str, near: SourceFile | None = None) -> Found:
        """Return the meaning of an attribute of a module or a class."""
        if isinstance(owner, Known):
            dotted = f"{owner.name}.{name}"
            if owner.name.partition(".")[0] not in KNOWN_BY_NAME:
                return Found(self._module(dotted, near))  # of a package without an __init__.py
            return Found(Known(dotted))
        key = (id(owner.file if isinstance(owner, Module) else owner.binding), name)
        if key in self._following or len(self._following) > _MAX_FOLLOWED:
            return Found()
        self._following.add(key)
        try:
            is_module = isinstance(owner, Module)
            return self._member_of_module(owner.file, name) if is_module else self._member_of(owner, name)  # type: ignore[union-attr,arg-type]
        finally:
            self._following.discard(key)

    def _member_of_module(self, file: SourceFile, name: str) -> Found:
        found: Found | None = None
        if bindings := file.scope.names.get(name):
            found = self._choose(name, bindings, file.scope, 0, Site(file.scope, lazy=True))
        if (found is None or found.meaning is None) and file.scope.stars:
            found = self._starred(name, file.scope)
        if found is None or found.meaning is None:
            below = self.library.module(f"{file.name}.{name}", file)
            return Found(None if below is None else Module(below))
        return found

    def _member_of(self, owner: BoundName, name: str) -> Found:
        node, value = owner.binding.node, owner.binding.value
        if isinstance(node, ast.ClassDef):
            scope = owner.scope.file.scope_in(node)
            if bindings := scope.names.get(name):
                return self._choose(name, bindings, scope, 0, Site(scope, lazy=True)) or Found()
            bases = [self.find(base, Site(owner.scope)).meaning for base in node.bases]
            found = (self.member(base, name) for base in bases if isinstance(base, BoundName))
            return next((each for each in found if each.meaning is not None), Found())
        meaning = None
        if isinstance(value, ast.Name | ast.Attribute):
            meaning = self.find(value, Site(owner.scope)).meaning
        return Found() if meaning is None else self.member(meaning, name)


def _is_there(meaning: Meaning | None) -> bool:
    if isinstance(meaning, Known):
        return known.find(known.canonical(meaning.name)) is not known.MISSING
    return isinstance(meaning, Module)


def last_binding(names: list[str], scope: Scope) -> int:
    """Return the last line that binds one of these names, as far as they are visible in a scope."""
    visible = list(scope.visible())
    lines = (item.line for name in names for place in visible for item in place.names.get(name, ()))
    return max(lines, default=0)


def qualname_in(scope: Scope, name: str) -> str:
    """Return the `__qualname__` of something of this name in a scope."""
    if scope.parent is None:
        return name
    inner = f"<locals>.{name}" if scope.kind == "function" else name
    return qualname_in(scope.parent, f"{scope.node.name}.{inner}")


def public_names(file: SourceFile) -> frozenset[str]:
    """Return the names that `from module import *` gives, of those that the module itself binds."""
    listed = file.scope.names.get("__all__", [])
    if len(listed) == 1 and isinstance(listed[0].value, ast.List | ast.Tuple):
        return frozenset(item.value for item in listed[0].value.elts if isinstance(item, ast.Constant))  # type: ignore[misc]
    return frozenset(name for name in file.scope.names if not name.startswith("_"))
