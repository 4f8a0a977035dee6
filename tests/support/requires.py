"""What a test says when something it needs is not on this machine."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

IS_REQUIRED = os.environ.get("TOOLCRIB_REQUIRE") == "all"


def lack(words: str) -> NoReturn:
    """Skip, with one line that says why; fail where everything has to be there, as it has in CI."""
    if IS_REQUIRED:
        pytest.fail(f"TOOLCRIB_REQUIRE=all, but {words}", pytrace=False)
    pytest.skip(words)
