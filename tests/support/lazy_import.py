"""Packages that take seconds to import, looked into only by the tests that use them.

Every worker collects every test, and most run none of these.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any


class Later:
    """Stands for a module, which is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_mock_name":  # asked by who collects tests, of all there is
            raise AttributeError(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sources of others have escapes that Python warns of
            module = importlib.import_module(self._name)
        return getattr(module, name)
