"""What all tests share: logging left as a user finds it, and the settings of property tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "everyday", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("TOOLCRIB_PROPERTY", "everyday"))


pytest_plugins = ["tests.support.api", "tests.support.world"]
