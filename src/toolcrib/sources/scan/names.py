"""Resolve names in a source file to a definition in a readable file, or to something outside.

Handles relative imports, re-exports, star imports, aliases, and attributes of modules and classes. A name
may have several meanings, chosen by conditions.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field, replace

from toolcrib.sources.scan import known
from toolcrib.sources.scan.files import KNOWN_BY_NAME, Library, SourceFile
from toolcrib.sources.scan.scopes import Binding, Scope

_MAX_FOLLOWED = 40
_AT_TOP = "import it at the top of the module, at run time"


@dataclass(frozen=True, slots=True)
class Outside:
    """Something of a package that is not read, or of one that is known by name."""

    dotted: str


@dataclass(frozen=True, slots=True)
class Place:
    """Something written in a file: how it is bound, and in which scope."""

    binding: Binding
    scope: Scope

    @property
    def file(self) -> SourceFile:
        file: SourceFile = self.scope.file
        return file


@dataclass(frozen=True, slots=True)
class Whole:
    """A module that may be read."""

    file: SourceFile


Meaning = Outside | Place | Whole


@dataclass(frozen=True, slots=True)
class Site:
    """Where an expression stands, and when it would be evaluated.

    `lazy`: as text, when the module is complete and only its own names are seen. `is_field`: in the body of a
    class, whose own names are then seen as well. `made` holds what a class body has made so far.
    """

    scope: Scope
    lazy: bool = False
    is_field: bool = False
    made: dict[str, object] = field(default_factory=dict)

    @property
    def file(self) -> SourceFile:
        file: SourceFile = self.scope.file
        return file

    def lazily(self) -> Site:
        return self if self.lazy else replace(self, lazy=True)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a meaning is not certain, and what would make it so."""

    words: str
    hint: str


@dataclass(slots=True)
class Found:
    """The meanings that a name may have, the likeliest first. `doubts` says what is uncertain about them."""

    meanings: list[Meaning] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    is_open: bool = False
    """Whether several are possible, and nothing but a condition at run time tells which."""


def site_of(place: Place) -> Site:
    """Where what is written in this place stands."""
    return Site(place.scope, lazy=place.binding.kind == "alias")


class Names:
    """Follows names through the files of one library.

    `since` is the line from which all that was found since it was last set to 0 means the same for good.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.since: float = 0
        self._following: set[tuple[int, str]] = set()
        self._kept: dict[tuple[int, str, bool, bool], tuple[int, Found]] = {}

    def find(self, node: ast.expr, site: Site) -> Found:
        """What a name, or an attribute of one, may mean; no meaning where that cannot be told."""
        if isinstance(node, ast.Name):
            return self._name(node.id, node.lineno, site)
        if isinstance(node, ast.Attribute):
            owner = self.find(node.value, site)
            found = Found(doubts=[*owner.doubts], is_open=owner.is_open)
            for meaning in owner.meanings:
                inner = self.member(meaning, node.attr)
                found.meanings += inner.meanings
                found.doubts += inner.doubts
                found.is_open |= inner.is_open
            return found
        return Found()

    def qualify(self, node: ast.expr, site: Site) -> str | None:
        """The full dotted name behind an expression; None for what has none."""
        for meaning in self.find(node, site).meanings:
            return self.full_name(meaning)
        if isinstance(node, ast.Attribute):
            owner = self.qualify(node.value, site)
            return None if owner is None else f"{owner}.{node.attr}"
        return None

    def full_name(self, meaning: Meaning, depth: int = 0) -> str:
        if isinstance(meaning, Outside):
            return known.canonical(meaning.dotted)
        if isinstance(meaning, Whole):
            return meaning.file.name
        value = meaning.binding.value
        if isinstance(value, ast.Name | ast.Attribute) and depth < _MAX_FOLLOWED:
            for other in self.find(value, site_of(meaning)).meanings:
                if other != meaning:
                    return self.full_name(other, depth + 1)
        return f"{meaning.file.name}.{qualname_in(meaning.scope, meaning.binding.name)}"

    # --- names -----------------------------------------------------------------------------------

    def _name(self, name: str, line: int, site: Site) -> Found:
        """What a name means in a line; the same for all lines below everything that binds it."""
        key = (id(site.scope), name, site.lazy, site.is_field)
        kept = self._kept.get(key)
        if kept is not None and line >= kept[0]:
            self.since = max(self.since, kept[0])
            return kept[1]
        found = self._look_up(name, line, site)
        last = 0
        if not site.lazy:
            bindings = [item for scope in site.scope.visible() for item in scope.names.get(name, ())]
            last = max((binding.line for binding in bindings), default=0)
        if line >= last:
            self._kept[key] = (last, found)
        self.since = max(self.since, last if line >= last else math.inf)
        return found

    def _look_up(self, name: str, line: int, site: Site) -> Found:
        hidden: Found | None = None
        for scope in site.scope.visible():
            bindings = scope.names.get(name)
            if bindings:
                found = self._choose(name, bindings, scope, line, site)
                if found is None:
                    continue
                if scope.kind == "class" and site.lazy and not site.is_field:
                    hidden = hidden or found
                    continue
                if site.lazy and scope.kind == "function" and not site.is_field:
                    found.doubts.append(_unseen(name, "function"))
                return found
            if scope.stars:
                found = self._starred(name, scope)
                if found.meanings:
                    return found
        if known.find(f"builtins.{name}") is not known.MISSING:
            return Found([Outside(f"builtins.{name}")])
        if hidden is not None:
            hidden.doubts.append(_unseen(name, "class"))
            return hidden
        return Found()

    def _choose(
        self, name: str, bindings: list[Binding], scope: Scope, line: int, site: Site
    ) -> Found | None:
        """What the bindings of one scope come to; None where none of them is made yet."""
        doubts: list[Doubt] = []
        live = [item for item in bindings if not item.situation.checking and not item.situation.main]
        if not live:
            live = [item for item in bindings if item.situation.main]
        if not live:
            live = bindings
            doubts.append(Doubt(f"'{name}' is there for type checkers only, so registering fails", _AT_TOP))
        if not site.lazy and scope.module is site.scope.module and _runs_at_once(site.scope, scope):
            made = [binding for binding in live if binding.line <= line]
            if not made and scope.kind == "class":
                return None
            if not made:
                words = f"'{name}' is defined below its use, in line {live[0].line}, so importing fails"
                doubts.append(Doubt(words, "define it above, or put the annotation into quotes"))
            live = made or live
        sure = [index for index, binding in enumerate(live) if binding.situation.is_certain]
        live = live[sure[-1] :] if sure else live
        if len(live) > 1:
            live.sort(key=lambda binding: (not binding.situation.attempt, binding.situation.fallback))
        found = Found(doubts=doubts, is_open=len(live) > 1)
        for binding in live:
            found.meanings += self._meaning(binding, scope, found.doubts)
        if live[0].situation.attempt and found.meanings and self._is_there(found.meanings[0]):
            found.meanings, found.is_open = found.meanings[:1], False  # it does not come to the fallback
        return found

    def _is_there(self, meaning: Meaning) -> bool:
        if isinstance(meaning, Outside):
            return known.find(known.canonical(meaning.dotted)) is not known.MISSING
        return isinstance(meaning, Whole)

    def _meaning(self, binding: Binding, scope: Scope, doubts: list[Doubt]) -> list[Meaning]:
        if binding.kind == "import":
            return [self._module(binding.module, scope.file)]
        if binding.kind == "from":
            if binding.level and (near := self._relative(binding, scope.file, doubts)):
                return near
            module = self._absolute(binding, scope.file)
            if module is None:
                return []
            found = self._imported(module, binding.name, scope.file)
            doubts += found.doubts
            return found.meanings
        return [Place(binding, scope)]

    def _relative(self, binding: Binding, file: SourceFile, doubts: list[Doubt]) -> list[Meaning]:
        """What a relative import means by the folders of its file."""
        module = self.library.beside(file, binding.level, binding.module)
        found = Found() if module is None else self.member(Whole(module), binding.name, file)
        doubts += found.doubts
        if found.meanings:
            return found.meanings
        inner = ".".join(filter(None, (binding.module, binding.name)))
        below = self.library.beside(file, binding.level, inner)
        return [] if below is None else [Whole(below)]

    def _absolute(self, binding: Binding, file: SourceFile) -> str | None:
        if not binding.level:
            return binding.module
        parts = file.package.split(".") if file.package else []
        keep = len(parts) - (binding.level - 1)
        if keep < 1:
            return None
        return ".".join([*parts[:keep], *([binding.module] if binding.module else [])])

    def _module(self, dotted: str, near: SourceFile) -> Meaning:
        file = self.library.module(dotted, near)
        return Outside(dotted) if file is None else Whole(file)

    def _imported(self, module: str, name: str, near: SourceFile) -> Found:
        whole = self._module(module, near)
        return self.member(whole, name, near)

    def _starred(self, name: str, scope: Scope) -> Found:
        for star in reversed(scope.stars):
            module = self._absolute(star, scope.file)
            if module is None:
                continue
            whole = self._module(module, scope.file)
            if isinstance(whole, Outside):
                dotted = f"{module}.{name}"
                if known.is_module(module) and known.find(known.canonical(dotted)) is not known.MISSING:
                    return Found([Outside(dotted)])
            elif name in public_names(whole.file) or (not name.startswith("_") and whole.file.scope.stars):
                found = self.member(whole, name)
                if found.meanings:
                    return found
        return Found()

    # --- members ---------------------------------------------------------------------------------

    def member(self, owner: Meaning, name: str, near: SourceFile | None = None) -> Found:
        """What an attribute of a module or a class may mean."""
        if isinstance(owner, Outside):
            return self._member_outside(owner, name, near)
        key = (id(owner.file if isinstance(owner, Whole) else owner.binding), name)
        if key in self._following or len(self._following) > _MAX_FOLLOWED:
            return Found()
        self._following.add(key)
        try:
            if isinstance(owner, Whole):
                return self._member_of_module(owner.file, name)
            return self._member_of_place(owner, name)
        finally:
            self._following.discard(key)

    def _member_outside(self, owner: Outside, name: str, near: SourceFile | None) -> Found:
        dotted = f"{owner.dotted}.{name}"
        if owner.dotted.partition(".")[0] not in KNOWN_BY_NAME:
            file = self.library.module(dotted, near)  # a package without an __init__.py
            if file is not None:
                return Found([Whole(file)])
        return Found([Outside(dotted)])

    def _member_of_module(self, file: SourceFile, name: str) -> Found:
        site = Site(file.scope, lazy=True)
        bindings = file.scope.names.get(name)
        if bindings:
            found = self._choose(name, bindings, file.scope, 0, site)
            if found is not None and found.meanings:
                return found
        found = self._starred(name, file.scope) if file.scope.stars else Found()
        if not found.meanings:
            below = self.library.module(f"{file.name}.{name}", file)
            found = Found([Whole(below)]) if below is not None else found
        return found

    def _member_of_place(self, owner: Place, name: str) -> Found:
        node = owner.binding.node
        if isinstance(node, ast.ClassDef):
            scope = owner.file.scope_in(node)
            bindings = scope.names.get(name)
            if bindings:
                return self._choose(name, bindings, scope, 0, Site(scope, lazy=True)) or Found()
            for base in node.bases:
                for meaning in self.find(base, Site(owner.scope)).meanings:
                    found = self.member(meaning, name) if isinstance(meaning, Place) else Found()
                    if found.meanings:
                        return found
            return Found()
        value = owner.binding.value
        if isinstance(value, ast.Name | ast.Attribute):
            for meaning in self.find(value, site_of(owner)).meanings:
                return self.member(meaning, name)
        return Found()


def _unseen(name: str, kind: str) -> Doubt:
    words = (
        f"'{name}' is local to a {kind}, where annotations that are text do not see it, so registering fails"
    )
    return Doubt(words, "define it in the module itself")


def qualname_in(scope: Scope, name: str) -> str:
    """The `__qualname__` that something of this name has here."""
    parts = [name]
    current: Scope | None = scope
    while current is not None and current.parent is not None:
        if current.kind == "function":
            parts.insert(0, "<locals>")
        if current.kind != "types":
            parts.insert(0, current.node.name)
        current = current.parent
    return ".".join(parts)


def public_names(file: SourceFile) -> frozenset[str]:
    """What `from module import *` gives, of what the module itself binds."""
    listed = file.scope.names.get("__all__", [])
    if len(listed) == 1 and isinstance(listed[0].value, ast.List | ast.Tuple):
        return frozenset(
            item.value
            for item in listed[0].value.elts
            if isinstance(item, ast.Constant) and isinstance(item.value, str)
        )
    return frozenset(name for name in file.scope.names if not name.startswith("_"))


def _runs_at_once(inner: Scope, outer: Scope) -> bool:
    """Whether code of one scope runs while the other one is being filled."""
    current: Scope | None = inner
    while current is not None and current is not outer:
        if current.kind == "function":
            return False
        current = current.parent
    return True
