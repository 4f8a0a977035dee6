"""Read one source file: names, values, hints, classes and functions.

The entry point of the evaluator. Everything it returns is real and harmless: hints are run-time hints,
classes consist of hints and literals, functions are empty.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Any

from toolcrib.sources.scan.classes import Classes
from toolcrib.sources.scan.files import Library, SourceFile
from toolcrib.sources.scan.names import Site
from toolcrib.sources.scan.scopes import Definition
from toolcrib.sources.scan.stubs import Stub, Stubber
from toolcrib.sources.scan.values import NotYet, Trail, Unresolved

__all__ = ["Reader", "Stub", "Unresolved"]


class Reader:
    """What the parts of a file mean.

    `within` is the definition in whose body an expression stands; without it, the expression is the module's.
    """

    def __init__(self, file: SourceFile, library: Library) -> None:
        self.file = file
        self.library = library
        self._classes = Classes.of(library)
        self._stubber = Stubber(self._classes, file)

    def qualify(self, node: ast.expr, within: Definition | None = None) -> str | None:
        """The full dotted name behind a name or an attribute, through imports and aliases: of a package, or
        of this and other files. None for what has none."""
        try:
            return self._classes.names.qualify(node, self._site(within))
        except RecursionError:
            return None

    def value(self, node: ast.expr, within: Definition | None = None) -> Any:
        """The value of an expression. Raises Unresolved where it is not known for certain."""
        trail = Trail()
        try:
            made = self._classes.values.evaluate(node, self._site(within), trail)
        except (NotYet, RecursionError):
            raise Unresolved("it refers to itself", getattr(node, "lineno", None)) from None
        return self._certain(made, trail)

    def hint(self, node: ast.expr, within: Definition | None = None) -> Any:
        """The hint that an annotation is. Raises Unresolved where any part of it is not known surely."""
        trail = Trail()
        site = self._site(within)
        site = site.lazily() if self.file.is_lazy else site
        try:
            made = self._classes.hints.evaluate(node, site, trail)
        except (NotYet, RecursionError):
            raise Unresolved("it refers to itself", getattr(node, "lineno", None)) from None
        return self._certain(made, trail)

    def cls(self, node: ast.ClassDef) -> type:
        """The class of a definition, approximate ones included. Raises Unresolved where there is none."""
        made: type = self._classes.build(node, self.file.scope_of(node), Trail())
        return made

    def stub(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        *,
        owner: str = "",
        drops_first: bool = False,
        drops: Collection[str] = (),
        keeps_contexts: bool = False,
    ) -> Stub:
        """The stub of a function, and what there is to say about it.

        `owner` is the class it belongs to, `drops_first` leaves out its `self`, `drops` other parameters. The
        Context of mcp and fastmcp is left out as well, as adopting their tools does; with `keeps_contexts` it
        stays, so that building the tool refuses it, as registering it with toolcrib's own decorator does.
        """
        return self._stubber.make(
            node, owner=owner, drops_first=drops_first, drops=drops, keeps_contexts=keeps_contexts
        )

    def _site(self, within: Definition | None) -> Site:
        return Site(self.file.scope if within is None else self.file.scope_in(within))

    def _certain(self, made: Any, trail: Trail) -> Any:
        for remark in trail.gather():
            raise Unresolved(remark.message, remark.line, hint=remark.hint)
        return made
