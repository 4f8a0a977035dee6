"""What a value may be, form by form: each of one type, or anything, and without compositions.

Providers that take a part of JSON Schema take unions of plain forms. Knows JSON Schema; refuses to know
providers.
"""

from __future__ import annotations

from typing import Any

from toolcrib.catalog.export.keywords import (
    ANNOTATIONS,
    CONTENT,
    LOGIC,
    TYPE_OF,
    TYPES,
    Node,
    identify,
    is_nothing,
    type_of,
    types_of,
)
from toolcrib.catalog.export.merging import are_apart, merge
from toolcrib.catalog.export.references import MOST_PARTS
from toolcrib.catalog.export.simplifying import relevant, simplify
from toolcrib.catalog.export.telling import sketch
from toolcrib.catalog.export.verdicts import Journal, Path, RefusedError

MOST_FORMS = 40
"""How many forms one value may have; beyond that they are told in words."""


class Forms:
    """Counts what it writes out, so that a schema cannot grow without measure."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.parts = 0

    def spread(self, node: Node, path: Path, words: list[str]) -> list[Node]:
        """What a value may be, each form by itself; no form where nothing fits."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise RefusedError(f"written out in all its forms its schema has more than {MOST_PARTS} parts")
        whole = {key: value for key, value in node.items() if key not in ("allOf", "anyOf", "oneOf")}
        base = {key: value for key, value in whole.items() if key not in ANNOTATIONS}
        for branch in node.get("allOf", ()):
            self.journal.lose((*path, "allOf"), f"also: {sketch(branch)}", words)
        forms = [base]
        for keyword in ("anyOf", "oneOf"):
            if keyword in node:
                forms = self._multiply(forms, node[keyword], (*path, keyword), words)
        if forms == [base]:
            return self._split(base, path)
        return [
            item
            for form in forms
            for item in (
                self._split(form, path) if not _is_composed(form) else self.spread(form, path, words)
            )
        ]

    def _multiply(self, forms: list[Node], branches: list[Node], path: Path, words: list[str]) -> list[Node]:
        found: list[Node] = []
        for form in forms:
            merged = [merge(form, branch) for branch in branches]
            if any(item is None for item in merged) or len(found) + len(merged) > MOST_FORMS:
                said = " | ".join(dict.fromkeys(sketch(branch) for branch in branches[:MOST_FORMS]))
                self.journal.lose(path, f"one of these forms: {said}", words)
                return forms
            plain = [simplify(item, path, Journal()) for item in merged if item is not None]
            plain = [item for item in plain if not is_nothing(item)]
            if path[-1] == "oneOf" and not _are_all_apart(plain):
                self.journal.lose(path, "exactly one of the forms", words)
            found.extend(plain)
        return found

    def _split(self, node: Node, path: Path) -> list[Node]:
        """The same by type."""
        kinds = types_of(node)
        said = {key: value for key, value in node.items() if key in ANNOTATIONS}
        if "enum" in node:
            return [
                {"type": kind, "enum": values, **said} for kind, values in _sort_choices(node["enum"]).items()
            ]
        logic = {key: value for key, value in node.items() if key in LOGIC}
        if not kinds:
            about = sorted({TYPE_OF[key] for key in node if key in TYPE_OF and key not in CONTENT})
            if not about:
                return [node]
            kinds = about if len(about) == 1 else list(TYPES)
            if len(about) == 1:
                words = f"no type is given; taken for {_with_article(kinds[0])}"
                self.journal.note(path, words, "narrower")
        return [{"type": kind, **relevant(node, kind), **logic, **said} for kind in kinds]


def _is_composed(node: Node) -> bool:
    return any(key in node for key in ("allOf", "anyOf", "oneOf"))


def _are_all_apart(forms: list[Node]) -> bool:
    return all(are_apart(form, other) for number, form in enumerate(forms) for other in forms[number + 1 :])


def _sort_choices(values: list[Any]) -> dict[str, list[Any]]:
    """Choices by type; whole numbers among others are numbers."""
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(type_of(value), []).append(value)
    if "number" in found and "integer" in found:
        numbers = {*map(identify, found.pop("integer")), *map(identify, found["number"])}
        found["number"] = [value for value in values if identify(value) in numbers]
    return found


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"
