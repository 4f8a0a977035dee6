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


@dataclass(frozen=True, slots=True)
class BoundName:
    """Something written in a file: how it is bound, and in which scope."""

    binding: Binding
    scope: Scope


Meaning = Known | BoundName | Module


@dataclass(eq=False, slots=True)
class Site:
    """Where an expression stands, and when it would be evaluated.

    `lazy`: as text, when the module is complete. `is_field`: in the body of a class. `made` are names whose
    values are known already.
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
        for scope in site.scope.visible():
            if bindings := scope.names.get(name):
                at_once = not site.lazy and scope.function is site.scope.function
                made = [item for item in bindings if item.line <= line] if at_once else bindings
                if made or scope.kind != "class":
                    return self._choose(name, made or bindings, scope)
            if scope.stars and (found := self._starred(name, scope)).meaning is not None:
                return found
        is_built_in = known.find(f"builtins.{name}") is not known.MISSING
        return Found(Known(f"builtins.{name}") if is_built_in else None)

    def _choose(self, name: str, several: list[Binding], scope: Scope) -> Found:
        """Return the meaning that the bindings of one scope give."""
        if len(several) == 1:
            return self._meaning(several[0], scope)
        live = [item for item in several if item.situation.isdisjoint(("checking", "main"))] or several
        sure = [index for index, binding in enumerate(live) if binding.situation.isdisjoint(_UNCERTAIN)]
        live = live[sure[-1] :] if sure else live
        live.sort(key=lambda item: ("attempt" not in item.situation, "fallback" in item.situation))
        found = self._meaning(live[0], scope)
        is_tried = "attempt" in live[0].situation and _is_there(found.meaning)
        if len(live) > 1 and not is_tried:  # else it does not come to the fallback
            words = f"'{name}' is defined in several ways, depending on conditions; the first was taken"
            found.doubts.append((words, "define it in one way"))
        return found

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
            if isinstance(origin, Known) and _is_there(outside := Known(f"{origin.name}.{name}")):
                return Found(outside)
            if isinstance(origin, Module):
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
            return (
                self._member_of_module(owner.file, name)
                if isinstance(owner, Module)
                else self._inner(owner, name)
            )
        finally:
            self._following.discard(key)

    def _member_of_module(self, file: SourceFile, name: str) -> Found:
        bindings = file.scope.names.get(name)
        found = self._choose(name, bindings, file.scope) if bindings else Found()
        if found.meaning is None and file.scope.stars:
            found = self._starred(name, file.scope)
        if found.meaning is None:
            below = self.library.module(f"{file.name}.{name}", file)
            return Found(None if below is None else Module(below))
        return found

    def _inner(self, owner: BoundName, name: str) -> Found:
        node, value = owner.binding.node, owner.binding.value
        if isinstance(node, ast.ClassDef):
            scope = owner.scope.file.scope_in(node)
            if bindings := scope.names.get(name):
                return self._choose(name, bindings, scope)
            bases = [self.find(base, Site(owner.scope)).meaning for base in node.bases]
            found = (self.member(base, name) for base in bases if isinstance(base, BoundName))
            return next((each for each in found if each.meaning is not None), Found())
        is_alias = isinstance(value, ast.Name | ast.Attribute)
        meaning = self.find(value, Site(owner.scope)).meaning if is_alias else None  # type: ignore[arg-type]
        return Found() if meaning is None else self.member(meaning, name)


def _is_there(meaning: Meaning | None) -> bool:
    if isinstance(meaning, Known):
        return known.find(known.canonical(meaning.name)) is not known.MISSING
    return isinstance(meaning, Module)


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
