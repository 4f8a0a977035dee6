"""One difference between two definitions, and its grade.

Everything that compares speaks in differences; `compare` makes changes of tools out of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Grade = Literal["cosmetic", "compatible", "breaking", "suspicious"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that changed. `template` is ours, `names` are another's: they go where it says {0}, {1}.

    `is_fixed`: so by convention, whatever the place as a whole comes to.
    """

    code: str
    grade: Grade
    pointer: str
    template: str
    names: tuple[str, ...] = ()
    old: Any = None
    new: Any = None
    is_fixed: bool = False
