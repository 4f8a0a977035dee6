"""The fields of one value of settings, looked at one by one, so that whatever is wrong is told at once.

Knows texts, switches, numbers and rates; refuses to know what a field is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.errors import ConfigurationError, Faults
from toolcrib.rate import Rate


class Fields(Faults):
    """Looks at the fields of a frozen value while it is made. Who has looked at all of them, `tell`s."""

    def __init__(self, holder: object) -> None:
        super().__init__()
        self._holder = holder

    def refuse(self, problem: str, key: str | None = None, hint: str | None = None) -> None:
        self.add(ConfigurationError(problem, key=key, hint=hint))

    def keep(self, key: str, value: Any) -> None:
        object.__setattr__(self._holder, key, value)

    def texts(self, *keys: str) -> None:
        for key in keys:
            with self.gathering():
                self.keep(key, read_texts(key, getattr(self._holder, key)))

    def text(self, *keys: str) -> None:
        for key in keys:
            value = getattr(self._holder, key)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                self.refuse(f"must be a text that is not empty, got {value!r}", key)

    def flag(self, *keys: str) -> None:
        for key in keys:
            value = getattr(self._holder, key)
            if not isinstance(value, bool):  # "no" would be taken for a yes
                self.refuse(f"must be true or false, got {value!r}", key)

    def number(self, key: str, least: float, most: float, *, whole: bool = False) -> None:
        value = getattr(self._holder, key)
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            self.refuse(f"must be a {'whole ' * whole}number, got {value!r}", key)
        elif not least <= value <= most:
            self.refuse(f"must be from {least:.12g} to {most:.12g}, got {value!r}", key)

    def rate(self, *keys: str) -> None:
        for key in keys:
            try:
                if (value := getattr(self._holder, key)) is not None:
                    self.keep(key, Rate.read(value))
            except ValueError as error:
                self.refuse(str(error), key)


def read_texts(key: str, value: Any) -> tuple[str, ...]:
    """Raises ConfigurationError."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigurationError(f"must be a list of strings, got {value!r}", key=key)
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise ConfigurationError(f"must be a list of strings, but one is {item!r}", key=key)
    return tuple(value)
