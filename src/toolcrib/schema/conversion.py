"""What loaders and dumpers share: a conversion per shape, `None` for "as it is", and recursive shapes.

Knows shapes that have names; what a conversion does is the business of convert.py and dumper.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from toolcrib.schema.shapes import Named, Shape

Convert = Callable[[Any], Any]


def apply(conversion: Convert | None, value: Any) -> Any:
    return value if conversion is None else conversion(value)


class Conversions(ABC):
    """Builds the conversions of one shape; named shapes are built once and may be recursive."""

    def __init__(self) -> None:
        self._named: dict[int, list[Convert | None]] = {}

    @abstractmethod
    def of(self, shape: Shape) -> Convert | None:
        """The conversion of a shape; None where there is nothing to do."""

    def of_named(self, shape: Named) -> Convert | None:
        cell = self._named.get(id(shape))
        if cell is None:
            cell = self._named[id(shape)] = []
            cell.append(self.of(shape.target))
        elif not cell:  # the shape is being built: it refers to itself
            return lambda value: apply(cell[0], value)
        return cell[0]
