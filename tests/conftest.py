"""Fixtures for all tests, the settings of property tests, and quick collection."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "everyday", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("TOOLCRIB_PROPERTY", "everyday"))


if "TOOLCRIB_SOAK" not in os.environ:  # whose tests fetch packages
    # Everyday tests trust nobody on the internet, and to read whom the system trusts takes each client 40 ms.
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent / "fixtures" / "no_certificates")
    os.environ.pop("SSL_CERT_FILE", None)  # read in its place

# Tests of pages and examples start pytest, which would import plugins for seconds that none of them needs.
UNUSED_PLUGINS = ("langsmith_plugin", "hypothesispytest", "xdist", "xdist.looponfail", "pytest_cov", "anyio")

# Every worker reads every test, and every process that is started all of toolcrib: what is compiled for them
# is kept, even where Python is told to keep nothing. Of what tests write themselves, nothing is.
WRITES_NOTHING = sys.dont_write_bytecode
sys.dont_write_bytecode = False

TOGETHER = {
    "tests/agents": "models",
    "tests/exports": "models",
    "tests/unit/sources/foreign": "servers",
    "tests/unit/sources/scan/test_scan_equals_import.py": "servers",
    "tests/unit/client/test_peers.py": "servers",
    "tests/unit/client/test_library_peers.py": "servers",
    "tests/unit/test_docs.py": "pages",
}
"""Folders and files whose tests import libraries for seconds, or take long: one worker runs those of a group,
before any other tests. Otherwise a worker runs the tests of one file."""

pytest_plugins = [
    "tests.support.servers.api_server",
    "tests.support.servers.scripted_http_server",
    "tests.support.system.shared_engines",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group tests for workers, and leave out the variants that only the long suites run."""
    groups = {config.rootpath / path: group for path, group in TOGETHER.items()}
    for item in items:
        group = groups.get(item.path) or groups.get(item.path.parent)
        item.add_marker(pytest.mark.xdist_group(group or str(item.path)))
    items.sort(key=lambda item: item.path not in groups and item.path.parent not in groups)
    if "TOOLCRIB_SOAK" in os.environ:
        return
    long = [item for item in items if item.get_closest_marker("long") is not None]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Turn off garbage collection while tests are collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        sys.dont_write_bytecode = WRITES_NOTHING


GC_THRESHOLD = 20_000
"""New objects between two runs of the garbage collector, as in a server."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exempt imported modules from garbage collection, which would scan them again and again."""
    os.environ["PYTEST_ADDOPTS"] = " ".join(f"-p no:{plugin}" for plugin in UNUSED_PLUGINS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    gc.unfreeze = lambda: None  # a server that ends here thaws what it froze, which would be all of this


@pytest.fixture(scope="module", autouse=True)
def _forget_modules(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Forget modules that tests imported from their folders: the next file may have a `tools.py`, too."""
    before = set(sys.modules)
    yield
    folders = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if any(str(place).startswith(folders) for place in places):
            del sys.modules[name]


@pytest.fixture
def _own_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the providers of agents that a test registers."""
    from toolcrib.agents.provider import providers  # few tests need agents

    monkeypatch.setattr(providers, "_factories", dict(providers._factories))
