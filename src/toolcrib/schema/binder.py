"""How checked arguments get back into a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.schema.conversion import Convert
from toolcrib.schema.notes import is_field
from toolcrib.schema.parameters import EMPTY, Parameter


@dataclass(slots=True)
class Binder:
    """How checked arguments get back into the function.

    `loads` are the parameters that need converting or renaming; `nullable` take an explicit null as None,
    `optional` take it as left out. `context` and `server` are filled in by the caller; `whole` gets all
    arguments in one dict. `closed` refuses names that are not `known`. `attributes` are the parameters by
    their published names. Parameters that are left out get their default, or what their factory makes.
    To convert those that are `coded` runs code of the author's, besides the function. Those that are
    `reconverted` are converted once more by another library, so that nobody knows what the function gets.
    """

    known: frozenset[str] = frozenset()
    loads: tuple[tuple[str, str, Convert | None], ...] = ()
    nullable: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    positional: tuple[tuple[str, Any], ...] = ()
    context: str | None = None
    server: str | None = None
    whole: str | None = None
    closed: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)
    coded: frozenset[str] = frozenset()
    reconverted: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    factories: Mapping[str, Callable[[], Any]] = field(default_factory=dict)


def find_defaults(parameters: Iterable[Parameter], filled: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of parameters, of which some are `filled` in for the function."""
    return {
        item.name: filled.get(item.name, item.default)
        for item in parameters
        if item.name in filled or not (item.default is EMPTY or is_field(item.default))
    }
