"""State of one class during and after its creation."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from toolcrib.sources.scan.names import Site, qualname_in
from toolcrib.sources.scan.remarks import CLASS, DEFAULT, Remark, Trail, Unresolved, show
from toolcrib.sources.scan.scopes import Scope


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
