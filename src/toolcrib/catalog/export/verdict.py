"""The outcome of exporting one tool: exact, lossy or refused, with every change that was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.catalog.schema_algebra import ANNOTATIONS, Node, canonical_form, identity
from toolcrib.catalog.schema_expansion import ExpansionError, Path, expand, pointer
from toolcrib.validation.schema_tree import rewrite, walk

Effect = Literal["same", "wider", "narrower"]
"""The effect of a change on the accepted values: the same, more, or fewer."""
Status = Literal["exact", "lossy", "refused"]

MAX_CHANGES = 100


class RefusedError(Exception):
    """A tool that cannot be exported in a format; the text says why."""


class NotStrictError(Exception):
    """A schema that has no strict form; the text says why."""


class UnsatisfiableError(Exception):
    """A part of a schema that no value is valid for."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is written differently. `pointer` leads to it in the expanded input schema."""

    pointer: str
    message: str
    effect: Effect = "same"

    def to_json(self) -> dict[str, Any]:
        return {"pointer": self.pointer, "words": self.message, "effect": self.effect}

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one tool. `exported` is its name in the export, None where it was refused."""

    name: str
    exported: str | None
    status: Status
    changes: tuple[Change, ...] = ()
    reason: str | None = None
    tokens: int = 0
    strict: bool | None = None

    @property
    def losses(self) -> tuple[Change, ...]:
        """The changes that make it lossy."""
        return tuple(change for change in self.changes if change.effect != "same")

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"name": self.name, "exported": self.exported, "verdict": self.status}
        if self.reason is not None:
            document["reason"] = self.reason
        document["changes"] = [change.to_json() for change in self.changes]
        document["tokens"] = self.tokens
        if self.strict is not None:
            document["strict"] = self.strict
        return document


@dataclass(slots=True)
class ChangeLog:
    """Changes in the order they were made, each once."""

    changes: dict[Change, None] = field(default_factory=dict)

    def add(self, path: Path, message: str, effect: Effect = "same") -> None:
        self.changes[Change(pointer(path), message, effect)] = None

    def add_loss(self, path: Path, rule: str, notes: list[str]) -> None:
        """Move a rule that the format does not support into the description, by way of `notes`."""
        notes.append(rule)
        self.add(path, f"{rule}: only in the description, not enforced", "wider")

    def add_note(self, path: Path, text: str, notes: list[str]) -> None:
        """Move something that rejects no value into the description, by way of `notes`."""
        notes.append(text)
        self.add(path, f"{text}: in the description")

    def close(self) -> tuple[Change, ...]:
        """Return all changes, or the first hundred, with losses first."""
        found = list(self.changes)
        if len(found) <= MAX_CHANGES:
            return tuple(found)
        found.sort(key=lambda change: change.effect == "same")
        rest = found[MAX_CHANGES - 1 :]
        effect: Effect = next((change.effect for change in rest if change.effect != "same"), "same")
        return (*found[: MAX_CHANGES - 1], Change("", f"and {len(rest)} more changes", effect))


def status_of(changes: Iterable[Change]) -> Status:
    return "exact" if all(change.effect == "same" for change in changes) else "lossy"


_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""With these, an alternative that rejects nothing may still evaluate something."""
_EXCLUDING = frozenset({"if", "not", "oneOf"})
"""Keywords that may accept less where a schema below them accepts more."""
_ORDINALS = {2: "second", 3: "third", 4: "fourth"}


def read_schema(schema: Mapping[str, Any], log: ChangeLog) -> Node:
    """Return a schema without references: several providers reject `$ref`, others ignore it.

    Recursion ends at a level that is logged as a loss. Raise RefusedError where references cannot be
    followed, where the schema would grow too large, or where no value is valid for it.
    """
    try:
        found = expand(dict(schema))
    except ExpansionError as error:
        raise RefusedError(str(error)) from None
    for path, name in found.cuts:
        level = _ORDINALS[found.levels + 1]
        log.add(path, f"{name!r} contains itself; from the {level} level on any value is accepted", "wider")
        if _EXCLUDING & set(path):
            log.add(path, "which excludes values that the schema around it accepts", "narrower")
    for path, message in found.notes:
        log.add(path, message)
    canonical = canonical_form(found.tree)
    if canonical is not None and canonical.satisfiability().value == "no":
        raise RefusedError("no arguments can satisfy its schema")
    has_unevaluated = any(part.keys() & _UNEVALUATED for _, part in walk(found.tree))
    tree: Node = found.tree if has_unevaluated else rewrite(found.tree, _simplify_union)
    return tree


def _simplify_union(node: Node) -> Node:
    """Return a schema without repeated alternatives, and without `anyOf` where one accepts any value."""
    if "anyOf" not in node:
        return node
    branches = list({identity(branch): branch for branch in node["anyOf"]}.values())
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    if {} in branches:
        return rest
    if len(branches) == 1 and rest.keys() <= ANNOTATIONS:
        return {**branches[0], **rest}
    return {**node, "anyOf": branches}
