"""Servers for the official clients, and one run of the official suite for all tests that read its results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.server import HTTP_STACKS
from tests.conformance.suite import Run, load, run_all, save, serving_lane
from tests.support.servers.server_processes import ServerProcess
from tests.support.system.node import Node, node
from tests.support.system.worker_lock import alone, shared_folder

__all__ = ["node"]


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, ServerProcess]]:
    """The server of these tests, once for each HTTP stack."""
    with ExitStack() as stack:
        yield {http_stack: stack.enter_context(serving_lane(http_stack)) for http_stack in HTTP_STACKS}


@pytest.fixture(scope="session")
def runs(node: Node, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The results of the suite, which one worker runs for all."""
    folder = shared_folder(tmp_path_factory) / "conformance"
    folder.mkdir(exist_ok=True)
    results = folder / "results.json"
    with alone(folder / "lock"):
        if not results.exists():
            save(run_all(node, folder), results)
    return load(results)
