"""What all tests share: their fixtures, the settings of property tests, and a quick collector of garbage."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "everyday", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("TOOLCRIB_PROPERTY", "everyday"))


if "TOOLCRIB_SOAK" not in os.environ:  # whose tests fetch packages
    # Everyday tests trust nobody on the internet, and to read whom the system trusts takes each client 40 ms.
    os.environ.setdefault("SSL_CERT_DIR", str(Path(__file__).parent / "support" / "no_certificates"))

pytest_plugins = ["tests.support.api", "tests.support.world"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """What the tests have imported is never garbage: looking through it again and again takes long."""
    gc.collect()
    gc.freeze()
    gc.unfreeze = lambda: None  # a server that ends here thaws what it froze, which would be all of this
