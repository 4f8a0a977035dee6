"""Lazy imports of packages that take seconds to import.

Every test worker collects every test, and most run none that need these.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any


class Later:
    """A module that is imported when one of its attributes is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_mock_name":  # asked by who collects tests, of all there is
            raise AttributeError(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sources of others have escapes that Python warns of
            module = importlib.import_module(self._name)
        return getattr(module, name)
