"""Skip tests that need a missing component, or fail them in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

IS_REQUIRED = os.environ.get("TOOLCRIB_REQUIRE") == "all"


def lack(words: str) -> NoReturn:
    """Skip with one line that says why; fail where every component is required, as in CI."""
    if IS_REQUIRED:
        pytest.fail(f"TOOLCRIB_REQUIRE=all, but {words}", pytrace=False)
    pytest.skip(words)
